/* The variables of the tool interface: rank 0 prints all control variables, before and after MPI_Init, and the test compares them with the
   expected values; all else is checked here. For two tasks. */
#include "check.h"

static char name[128], text[1024];

/* Prints a variable's value; an enumeration value by its name. */
static void print(const char *when, int index) {
    int name_len = sizeof name, len = sizeof text, verbosity, bind, scope, count, choice;
    MPI_Datatype type;
    MPI_T_enum words;
    MPI_T_cvar_handle handle;
    MPI_Count number;
    CHECK(!MPI_T_cvar_get_info(index, name, &name_len, &verbosity, &type, &words, text, &len, &bind, &scope));
    CHECK(name_len == (int)strlen(name) + 1 && len == (int)strlen(text) + 1 && bind == MPI_T_BIND_NO_OBJECT);
    CHECK(scope == MPI_T_SCOPE_CONSTANT || scope == MPI_T_SCOPE_LOCAL || scope == MPI_T_SCOPE_ALL_EQ);
    CHECK(!MPI_T_cvar_get_index(name, &count) && count == index);
    CHECK(!MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) && count == 1);
    if (type == MPI_COUNT) {
        CHECK(words == MPI_T_ENUM_NULL && !MPI_T_cvar_read(handle, &number));
        if (number == -1)
            printf("%s %s auto\n", when, name);
        else
            printf("%s %s %lld\n", when, name, (long long)number);
    } else {
        CHECK(type == MPI_INT && !MPI_T_cvar_read(handle, &choice));
        len = sizeof text;
        CHECK(!MPI_T_enum_get_info(words, &count, text, &len) && choice >= 0 && choice < count);
        CHECK(MPI_T_enum_get_item(words, count, &count, text, &len) == MPI_T_ERR_INVALID_ITEM);
        len = sizeof text;
        CHECK(!MPI_T_enum_get_item(words, choice, &count, text, &len) && count == choice);
        printf("%s %s %s\n", when, name, text);
    }
    MPI_T_cvar_handle old = handle;
    CHECK(!MPI_T_cvar_handle_free(&handle) && handle == MPI_T_CVAR_HANDLE_NULL);
    CHECK(MPI_T_cvar_read(old, &number) == MPI_T_ERR_INVALID_HANDLE);
}

static MPI_T_cvar_handle control(const char *of) {
    MPI_T_cvar_handle handle;
    int index, count;
    CHECK(!MPI_T_cvar_get_index(of, &index) && !MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    return handle;
}

static MPI_T_pvar_handle counter(MPI_T_pvar_session session, const char *of, int class, int *count) {
    MPI_T_pvar_handle handle;
    int index;
    CHECK(!MPI_T_pvar_get_index(of, class, &index));
    CHECK(!MPI_T_pvar_handle_alloc(session, index, NULL, &handle, count));
    return handle;
}

static MPI_Count value(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    MPI_Count values[64];
    CHECK(!MPI_T_pvar_read(session, handle, values));
    return values[0];
}

/* Sends this number of bytes from rank 0 to rank 1. */
static void message(int bytes) {
    static char buffer[100000];
    if (rank == 0)
        MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void performance(void) {
    MPI_T_pvar_session session, other;
    int count, len = 0, cut = 5, class, readonly, continuous, atomic, number, verbosity, bind;
    MPI_Count many[64] = {0}, more = 100;
    MPI_Datatype type;
    CHECK(!MPI_T_pvar_session_create(&session) && !MPI_T_pvar_session_create(&other) && session != other);
    CHECK(!MPI_T_pvar_get_num(&number) && number == 11);
    CHECK(MPI_T_pvar_get_index("retries", MPI_T_PVAR_CLASS_LEVEL, &count) == MPI_T_ERR_INVALID_NAME);
    CHECK(!MPI_T_pvar_get_info(0, NULL, &len, &verbosity, &class, &type, NULL, NULL, NULL, &bind, &readonly, &continuous, &atomic));
    CHECK(len == (int)sizeof "posted_receives" && class == MPI_T_PVAR_CLASS_LEVEL && type == MPI_COUNT);
    CHECK(readonly && continuous && !atomic);
    CHECK(!MPI_T_pvar_get_info(0, name, &cut, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK(!strcmp(name, "post") && cut == (int)sizeof "posted_receives");

    MPI_T_pvar_handle longs = counter(session, "long_messages_received", MPI_T_PVAR_CLASS_COUNTER, &count);
    MPI_T_pvar_handle bytes = counter(session, "long_bytes_received", MPI_T_PVAR_CLASS_COUNTER, &count);
    MPI_T_pvar_handle posted = counter(session, "posted_receives", MPI_T_PVAR_CLASS_LEVEL, &count);
    CHECK(count == 1);
    MPI_T_pvar_handle packets = counter(session, "packets_sent", MPI_T_PVAR_CLASS_COUNTER, &count);
    CHECK(count == size);
    CHECK(MPI_T_pvar_start(session, posted) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_stop(session, posted) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_write(session, posted, &more) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_reset(session, posted) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_start(other, longs) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_start((MPI_T_pvar_session)7, longs) == MPI_T_ERR_INVALID_SESSION);
    message(1000);
    CHECK(value(session, longs) == 0);
    CHECK(!MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    message(1000); /* above the eager limit that was written */
    message(10);
    CHECK(value(session, longs) == (rank == 1) && value(session, bytes) == (rank == 1 ? 1000 : 0));
    CHECK(!MPI_T_pvar_stop(session, longs));
    message(1000);
    CHECK(value(session, longs) == (rank == 1) && value(session, bytes) == (rank == 1 ? 2000 : 0));
    CHECK(!MPI_T_pvar_start(session, longs) && !MPI_T_pvar_write(session, longs, &more));
    message(1000);
    CHECK(value(session, longs) == 100 + (rank == 1));
    CHECK(!MPI_T_pvar_readreset(session, longs, &more) && more == 100 + (rank == 1) && value(session, longs) == 0);
    CHECK(!MPI_T_pvar_read(session, packets, many) && many[1 - rank] > 0);

    MPI_Request request;
    int got;
    CHECK(value(session, posted) == 0);
    MPI_Irecv(&got, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &request);
    CHECK(value(session, posted) == 1);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(value(session, posted) == 0);
    MPI_T_pvar_handle gone = longs;
    CHECK(!MPI_T_pvar_handle_free(session, &longs) && longs == MPI_T_PVAR_HANDLE_NULL);
    CHECK(MPI_T_pvar_read(session, gone, &more) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(!MPI_T_pvar_session_free(&session) && session == MPI_T_PVAR_SESSION_NULL);
    CHECK(!MPI_T_pvar_session_free(&other));
}

static void categories(int controls) {
    int number, all = 0, performances = 0, sum = 0, inside = 0, in = 0, index, indices[64], of, p;
    CHECK(!MPI_T_category_get_num(&number) && number > 0 && !MPI_T_pvar_get_num(&performances));
    for (int i = 0; i < number; i++) {
        int len = sizeof name;
        CHECK(!MPI_T_category_get_info(i, name, &len, NULL, NULL, &of, &p, &in));
        CHECK(!MPI_T_category_get_index(name, &index) && index == i);
        CHECK(!MPI_T_category_get_cvars(i, 64, indices) && !MPI_T_category_get_pvars(i, 64, indices));
        CHECK(!MPI_T_category_get_categories(i, 64, indices) && (in == 0 || indices[0] < number));
        all += of, sum += p, inside += in;
    }
    CHECK(all == controls && sum == performances && inside == 1);
    CHECK(MPI_T_category_get_cvars(number, 1, indices) == MPI_T_ERR_INVALID_INDEX);
    CHECK(!MPI_T_category_changed(&index));
}

int main(int argc, char **argv) {
    int level, number, wrong = -5, first = getenv("AM_TASK") && !strcmp(getenv("AM_TASK"), "0");
    MPI_Count limit = 100, bad = -7, read;
    CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(!MPI_T_init_thread(MPI_THREAD_SINGLE, &level) && !MPI_T_cvar_get_num(&number) && number > 10);
    for (int i = 0; first && i < number; i++)
        print("before", i);
    MPI_T_cvar_handle eager = control("eager_limit_bytes"), credits = control("credits"), debug = control("debug");
    CHECK(MPI_T_cvar_write(credits, &limit) == MPI_T_ERR_CVAR_SET_NEVER);
    CHECK(MPI_T_cvar_write(eager, &bad) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_cvar_write(debug, &wrong) == MPI_T_ERR_INVALID);
    CHECK(!MPI_T_cvar_write(eager, &limit) && !MPI_T_cvar_read(eager, &read) && read == limit);
    CHECK(MPI_T_cvar_get_info(number, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    begin(&argc, &argv);
    CHECK(size == 2);
    CHECK(MPI_T_cvar_write(eager, &limit) == MPI_T_ERR_CVAR_SET_NOT_NOW);
    for (int i = 0; first && i < number; i++)
        print("after", i);
    categories(number);
    performance();
    fflush(stdout);
    end();
    CHECK(!MPI_T_cvar_read(eager, &read) && read == limit);
    CHECK(!MPI_T_finalize() && MPI_T_cvar_read(eager, &read) == MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}
