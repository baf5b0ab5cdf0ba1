/* The events of the tool interface: their names and descriptions; the callbacks for early messages, matches, long messages and collectives,
   their time and order; and the report of dropped events. The messages are those of two tasks. */
#include "check.h"

enum { LONG = 1 << 20, MANY = 3000, NUMBERS_MAX = 8 };

enum { EARLY, MATCHED, BEGUN, ENDED, ENTERED, LEFT, KINDS };
static const char *const names[KINDS] = {"message_early", "message_matched", "rendezvous_begun",
    "rendezvous_ended", "collective_begun", "collective_ended"};
static const char *const numbers[KINDS] = {"source tag context bytes ", "source tag context bytes was_early ",
    "destination tag context bytes ", "source tag bytes ", "context ranks ", "context ranks "};

/* The events that a callback has received. */
struct heard {
    int kind, count, frees, calls_inside;
    MPI_T_event_registration registration;
    MPI_Count last[NUMBERS_MAX], dropped, time;
};
static struct heard heard[KINDS];
static MPI_Count last_time;
static MPI_T_event_instance gone;
static char buffer[LONG];

static void callback(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    struct heard *to = data;
    MPI_Count number, time;
    int source = -1, length = 0;
    CHECK(registration == to->registration && safety == MPI_T_CB_REQUIRE_NONE);
    to->count++;
    CHECK(!MPI_T_event_copy(event, to->last));
    CHECK(!MPI_T_event_get_info(to->kind, NULL, NULL, NULL, NULL, NULL, &length, NULL, NULL, NULL, NULL, NULL));
    for (int i = 0; i < length; i++)
        CHECK(!MPI_T_event_read(event, i, &number) && number == to->last[i]);
    CHECK(MPI_T_event_read(event, length, &number) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_read(event, 0, NULL) == MPI_T_ERR_INVALID && MPI_T_event_copy(event, NULL) == MPI_T_ERR_INVALID);
    CHECK(!MPI_T_event_get_source(event, &source) && source == 0);
    CHECK(!MPI_T_event_get_timestamp(event, &time) && time >= last_time);
    CHECK(!MPI_T_source_get_timestamp(source, &number) && number >= time);
    last_time = to->time = time;
    gone = event;
    if (to->calls_inside) { /* any call may be made here; its events are delivered later */
        int flag, before = to->count;
        to->calls_inside = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, 4711, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_SELF);
        CHECK(!flag && to->count == before);
    }
}

static void after_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    struct heard *to = data;
    CHECK(registration == to->registration && safety == MPI_T_CB_REQUIRE_NONE && to->frees++ == 0);
}

/* Frees its own registration; the free callback runs after this function has returned. */
static void once(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    struct heard *to = data;
    (void)event, (void)safety;
    to->count++;
    CHECK(!MPI_T_event_handle_free(registration, to, after_free) && to->frees == 0);
}

static void dropped(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety, void *data) {
    struct heard *to = data;
    CHECK(registration == to->registration && source == 0 && safety == MPI_T_CB_REQUIRE_NONE && count > 0);
    to->dropped += count;
}

static void reset(void) {
    for (int i = 0; i < KINDS; i++)
        heard[i].count = 0;
}

static void descriptions(void) {
    int number, index, length, sources;
    char name[64], text[256];
    CHECK(!MPI_T_event_get_num(&number) && number == KINDS && !MPI_T_source_get_num(&sources) && sources == 1);
    for (int i = 0; i < number; i++) {
        int name_length = sizeof name, text_length = sizeof text, verbosity, bind, items, count = NUMBERS_MAX;
        MPI_Datatype types[NUMBERS_MAX];
        MPI_Aint at[NUMBERS_MAX];
        MPI_T_enum words;
        MPI_Info info = MPI_INFO_NULL;
        char all[128] = "";
        CHECK(!MPI_T_event_get_info(i, name, &name_length, &verbosity, types, at, &count, &words, &info, text, &text_length, &bind));
        CHECK(!strcmp(name, names[i]) && name_length == (int)strlen(name) + 1 && text_length == (int)strlen(text) + 1);
        CHECK(bind == MPI_T_BIND_NO_OBJECT && verbosity == MPI_T_VERBOSITY_USER_DETAIL);
        CHECK(!MPI_Info_get_nkeys(info, &index) && index == 0 && !MPI_Info_free(&info));
        CHECK(!MPI_T_event_get_index(name, &index) && index == i);
        CHECK(!MPI_T_enum_get_info(words, &items, NULL, NULL) && items == count);
        for (int item = 0; item < items; item++) {
            CHECK(types[item] == MPI_COUNT && at[item] == item * (MPI_Aint)sizeof(MPI_Count));
            length = sizeof name;
            CHECK(!MPI_T_enum_get_item(words, item, &index, name, &length) && index == item);
            strcat(strcat(all, name), " ");
        }
        CHECK(!strcmp(all, numbers[i]));
        /* The call stores only as many types as the caller asks for, and returns the number of all types. */
        types[1] = MPI_DATATYPE_NULL, count = 1;
        CHECK(!MPI_T_event_get_info(i, NULL, NULL, NULL, types, NULL, &count, NULL, NULL, NULL, NULL, NULL));
        CHECK(count == items && types[1] == MPI_DATATYPE_NULL);
    }
    MPI_T_source_order order;
    MPI_Count ticks, most, time, later;
    MPI_Info info;
    length = sizeof name, index = sizeof text;
    CHECK(!MPI_T_source_get_info(0, name, &length, text, &index, &order, &ticks, &most, &info));
    CHECK(!strcmp(name, "engine") && order == MPI_T_SOURCE_ORDERED && ticks == 1000000000 && most > ticks);
    CHECK(!MPI_Info_free(&info));
    CHECK(!MPI_T_source_get_timestamp(0, &time) && !MPI_T_source_get_timestamp(0, &later) && later >= time);
    CHECK(MPI_T_source_get_timestamp(1, &time) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_get_index("nothing", &index) == MPI_T_ERR_INVALID_NAME);
    /* The events are in a category. */
    CHECK(!MPI_T_category_get_index("events", &index) && !MPI_T_category_get_num_events(index, &number) && number == KINDS);
    int list[KINDS];
    CHECK(!MPI_T_category_get_events(index, KINDS, list) && list[0] == 0 && list[KINDS - 1] == KINDS - 1);
}

static void registrations(void) {
    MPI_T_event_registration one, no = (MPI_T_event_registration)7;
    MPI_Info info;
    CHECK(MPI_T_event_handle_alloc(KINDS, NULL, MPI_INFO_NULL, &one) == MPI_T_ERR_INVALID_INDEX);
    CHECK(!MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &one) && !MPI_Info_create(&info));
    CHECK(!MPI_Info_set(info, "unknown", "hint") && !MPI_T_event_handle_set_info(one, info) && !MPI_Info_free(&info));
    CHECK(!MPI_T_event_handle_get_info(one, &info) && !MPI_Info_free(&info));
    CHECK(MPI_T_event_register_callback(one, (MPI_T_cb_safety)1, MPI_INFO_NULL, NULL, callback) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_event_register_callback(no, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, callback) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_callback_get_info(one, MPI_T_CB_REQUIRE_THREAD_SAFE, &info) == MPI_T_ERR_INVALID);
    CHECK(!MPI_T_event_register_callback(one, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, heard, callback));
    CHECK(!MPI_T_event_callback_get_info(one, MPI_T_CB_REQUIRE_THREAD_SAFE, &info));
    CHECK(!MPI_T_event_callback_set_info(one, MPI_T_CB_REQUIRE_THREAD_SAFE, info) && !MPI_Info_free(&info));
    CHECK(MPI_T_event_callback_set_info(one, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL) == MPI_T_ERR_INVALID);
    CHECK(!MPI_T_event_register_callback(one, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, NULL));
    CHECK(MPI_T_event_callback_get_info(one, MPI_T_CB_REQUIRE_THREAD_SAFE, &info) == MPI_T_ERR_INVALID);
    CHECK(!MPI_T_event_handle_free(one, NULL, NULL));
    CHECK(MPI_T_event_handle_free(one, NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_set_dropped_handler(one, dropped) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_handle_get_info(one, &info) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_handle_set_info(one, MPI_INFO_NULL) == MPI_T_ERR_INVALID_HANDLE);
}

/* Rank 0 sends; rank 1 receives after or before the message has arrived. */
static void message(int bytes, int tag, int is_early) {
    if (rank == 0) {
        if (!is_early)
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
    } else if (is_early) {
        MPI_Probe(0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Request request;
        MPI_Irecv(buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 99, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void messages(void) {
    int is_receiver = rank == 1;
    const MPI_Count *match = heard[MATCHED].last;
    for (int is_early = 0; is_early < 2; is_early++) {
        reset();
        message(8, 5, is_early);
        if (is_receiver) {
            CHECK(heard[MATCHED].count == 1 && match[0] == 0 && match[1] == 5 && match[3] == 8 && match[4] == is_early);
            CHECK(heard[EARLY].count == is_early && heard[BEGUN].count == 0 && heard[ENDED].count == 0);
        } else
            CHECK(heard[MATCHED].count == !is_early && heard[BEGUN].count == 0);
        reset();
        message(LONG, 6, is_early);
        if (is_receiver) {
            CHECK(heard[MATCHED].count == 1 && match[1] == 6 && match[3] == LONG && match[4] == is_early);
            CHECK(heard[EARLY].count == is_early && heard[ENDED].count == 1 && heard[BEGUN].count == 0);
            CHECK(heard[ENDED].last[0] == 0 && heard[ENDED].last[1] == 6 && heard[ENDED].last[2] == LONG);
            CHECK(heard[ENDED].time >= heard[MATCHED].time);
        } else {
            CHECK(heard[BEGUN].count == 1 && heard[BEGUN].last[0] == 1 && heard[BEGUN].last[1] == 6);
            CHECK(heard[BEGUN].last[3] == LONG);
        }
    }
    reset();
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(heard[ENTERED].count == 1 && heard[LEFT].count == 1 && heard[LEFT].last[1] == size);
    CHECK(heard[ENTERED].last[0] == heard[LEFT].last[0] && heard[LEFT].time >= heard[ENTERED].time);
    MPI_Count number;
    CHECK(MPI_T_event_read(gone, 0, &number) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_copy(gone, &number) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_get_timestamp(gone, &number) == MPI_T_ERR_INVALID_HANDLE);
    int source;
    CHECK(MPI_T_event_get_source(gone, &source) == MPI_T_ERR_INVALID_HANDLE);
}

/* More events in one call than the library stores: those that it does not store are counted as dropped. */
static void too_many(void) {
    reset();
    if (rank == 0) {
        for (int i = 0; i < MANY; i++)
            MPI_Send(buffer, 8, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
        MPI_Send(buffer, 8, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
    } else {
        MPI_Recv(buffer, 8, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(heard[EARLY].count > 0 && heard[EARLY].dropped > 0 && heard[EARLY].count + heard[EARLY].dropped == MANY);
        for (int i = 0; i < MANY; i++)
            MPI_Recv(buffer, 8, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(heard[MATCHED].count + heard[MATCHED].dropped == MANY + 1);
    }
}

int main(int argc, char **argv) {
    int level, number;
    static struct heard first;
    CHECK(MPI_T_event_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(!MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    descriptions(), registrations();
    /* A registration before MPI_Init. */
    for (int i = 0; i < KINDS; i++) {
        heard[i].kind = i;
        CHECK(!MPI_T_event_handle_alloc(i, NULL, MPI_INFO_NULL, &heard[i].registration));
        CHECK(!MPI_T_event_register_callback(heard[i].registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &heard[i], callback));
        CHECK(!MPI_T_event_set_dropped_handler(heard[i].registration, dropped));
    }
    MPI_Init_thread(&argc, &argv, getenv("WITH_THREADS") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
    descriptions();
    if (size == 2)
        messages(), too_many();
    MPI_Barrier(MPI_COMM_SELF);
    reset(), heard[ENTERED].calls_inside = 1;
    MPI_Barrier(MPI_COMM_SELF);
    CHECK(heard[ENTERED].count == 2 && heard[LEFT].count == 2);
    /* A second registration for the same events, which frees itself. */
    CHECK(!MPI_T_event_handle_alloc(ENTERED, NULL, MPI_INFO_NULL, &first.registration));
    CHECK(!MPI_T_event_register_callback(first.registration, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL, &first, once));
    reset();
    MPI_Barrier(MPI_COMM_SELF), MPI_Barrier(MPI_COMM_SELF);
    CHECK(first.count == 1 && first.frees == 1 && heard[ENTERED].count == 2);
    /* Without a callback no event is delivered. */
    for (int i = 0; i < KINDS; i++) {
        MPI_T_event_registration registration = heard[i].registration;
        CHECK(!MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, NULL));
        CHECK(!MPI_T_event_handle_free(registration, &heard[i], after_free) && heard[i].frees == 1);
    }
    reset();
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(heard[ENTERED].count == 0);
    if (rank == 0)
        printf("all good\n");
    MPI_Finalize();
    CHECK(!MPI_T_finalize());
    return 0;
}
