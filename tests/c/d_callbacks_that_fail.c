/* Functions of attributes that fail, and keys that come and go (MPI 5.0 sections 7.7 and 11.2.4). */
#include "check.h"

enum { KEYS = 3 };

static int copied, deleted, copies_until_failure = -1;

static int copy(MPI_Comm comm, int keyval, void *extra, void *value, void *to, int *flag) {
    (void)comm, (void)keyval, (void)extra;
    if (copied == copies_until_failure)
        return MPI_ERR_OTHER;
    copied++;
    *(void **)to = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int keyval, void *extra, void *value, void *to, int *flag) {
    (void)type;
    return copy(MPI_COMM_NULL, keyval, extra, value, to, flag);
}

static int delete_type(MPI_Datatype type, int keyval, void *value, void *extra) {
    (void)type;
    return delete(MPI_COMM_NULL, keyval, value, extra);
}

static int refuse(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

/* A duplicate is not made if a copy function fails. Each value that was copied before is deleted again. */
static void check_duplicates(void) {
    int keyvals[KEYS], type_keyvals[KEYS];
    MPI_Comm base, other = MPI_COMM_NULL;
    MPI_Datatype type, other_type;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &base);
    MPI_Type_contiguous(3, MPI_INT, &type);
    for (int i = 0; i < KEYS; i++) {
        MPI_Comm_create_keyval(copy, delete, &keyvals[i], NULL);
        MPI_Comm_set_attr(base, keyvals[i], NULL);
        MPI_Type_create_keyval(copy_type, delete_type, &type_keyvals[i], NULL);
        MPI_Type_set_attr(type, type_keyvals[i], NULL);
    }
    for (int failing = 0; failing <= KEYS; failing++) {
        const int fails = failing < KEYS;
        copies_until_failure = failing;
        copied = deleted = 0;
        CHECK((MPI_Comm_dup(base, &other) != MPI_SUCCESS) == fails);
        CHECK(copied == failing && deleted == (fails ? failing : 0));
        if (!fails) {
            MPI_Comm_free(&other);
            CHECK(deleted == KEYS);
        }
        copied = deleted = 0;
        CHECK((MPI_Comm_idup(base, &other, &request) != MPI_SUCCESS) == fails);
        CHECK(copied == failing && deleted == (fails ? failing : 0));
        if (!fails) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Comm_free(&other);
            CHECK(deleted == KEYS);
        }
        copied = deleted = 0;
        other_type = MPI_INT;
        CHECK((MPI_Type_dup(type, &other_type) != MPI_SUCCESS) == fails);
        /* The standard leaves the handle open; a call that fails stores the null handle, as in other libraries. */
        CHECK((other_type == MPI_DATATYPE_NULL) == fails);
        CHECK(copied == failing && deleted == (fails ? failing : 0));
        if (!fails) {
            MPI_Type_free(&other_type);
            CHECK(deleted == KEYS);
        }
    }
    copied = deleted = 0;
    MPI_Comm_free(&base);
    MPI_Type_free(&type);
    CHECK(deleted == 2 * KEYS);
    for (int i = 0; i < KEYS; i++) {
        MPI_Comm_free_keyval(&keyvals[i]);
        MPI_Type_free_keyval(&type_keyvals[i]);
    }
}

/* Keys that are freed leave nothing behind. A freed key stays usable while an attribute has it. */
static void check_keys(void) {
    enum { ROUNDS = 200000 };
    long before = 0;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        int keyval, old;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &keyval, NULL);
        old = keyval;
        if (round % 1000 == 0)
            MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &before);
        MPI_Comm_free_keyval(&keyval);
        CHECK(keyval == MPI_KEYVAL_INVALID);
        if (round % 1000 == 0)
            CHECK(MPI_Comm_delete_attr(MPI_COMM_SELF, old) == MPI_SUCCESS);
        FAILS(MPI_Comm_delete_attr(MPI_COMM_SELF, old), MPI_ERR_KEYVAL);
        if (round == ROUNDS)
            before = resident();
    }
    /* 96 bytes a round would be 19 MB. */
    CHECK(resident() - before < 8 << 20);
}

int main(int argc, char **argv) {
    int keyval;
    begin(&argc, &argv);
    check_duplicates();
    check_keys();
    MPI_Barrier(MPI_COMM_WORLD);
    /* The error of a delete function is the result of MPI_Finalize, which ends MPI nevertheless. */
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    FAILS(MPI_Finalize(), MPI_ERR_OTHER);
    int flag = 0;
    MPI_Finalized(&flag);
    if (rank == 0 && flag)
        printf("all good\n");
    return !flag;
}
