/* Prints the results of the tool interface. Libraries have different variables, categories and events, so the program only checks that the
   library's answers are consistent, and prints the answers for names that do not exist. (Not for an index past the end: the library that
   this one is compared with does not check it.) */
#include "say.h"

enum { ROOM = 4000 };

static char name[ROOM], text[ROOM];
static int wrong;

#define FITS(condition) (wrong += !(condition))

static void say(const char *what) {
    SAY("%s: %d wrong", what, wrong), wrong = 0;
}

static void control(void) {
    int number, length, about, verbosity, bind, scope, index, count;
    MPI_Datatype type;
    MPI_T_enum of;
    MPI_T_cvar_handle handle;
    static char value[ROOM];
    MPI_T_cvar_get_num(&number), SAY("there are some %d", number > 0);
    for (int at = 0; at < number; at++) {
        length = about = ROOM;
        FITS(!MPI_T_cvar_get_info(at, name, &length, &verbosity, &type, &of, text, &about, &bind, &scope));
        FITS((int)strlen(name) + 1 == length), FITS(!MPI_T_cvar_get_index(name, &index)), FITS(index == at);
        if (bind != MPI_T_BIND_NO_OBJECT)
            continue;
        FITS(!MPI_T_cvar_handle_alloc(at, NULL, &handle, &count)), FITS(count > 0);
        FITS(!MPI_T_cvar_read(handle, value));
        /* Tries to write each local integer variable with its current value. The library may refuse: not now, or never. */
        if (scope == MPI_T_SCOPE_LOCAL && type == MPI_INT)
            index = MPI_T_cvar_write(handle, value), FITS(!index || index == MPI_T_ERR_CVAR_SET_NOT_NOW || index == MPI_T_ERR_CVAR_SET_NEVER);
        FITS(!MPI_T_cvar_handle_free(&handle)), FITS(handle == MPI_T_CVAR_HANDLE_NULL);
    }
    say("control variables"), SAY("no such variable %d", MPI_T_cvar_get_index("nothing of the kind", &index));
}

static void performance(void) {
    int number, length, about, verbosity, bind, class, readonly, continuous, atomic, index;
    MPI_Datatype type;
    MPI_T_enum of;
    MPI_T_pvar_session session;
    MPI_T_pvar_get_num(&number), SAY("some or none %d", number >= 0);
    for (int at = 0; at < number; at++) {
        length = about = ROOM;
        FITS(!MPI_T_pvar_get_info(at, name, &length, &verbosity, &class, &type, &of, text, &about, &bind, &readonly, &continuous, &atomic));
        FITS((int)strlen(name) + 1 == length), FITS(!MPI_T_pvar_get_index(name, class, &index)), FITS(index == at);
    }
    SAY("no such variable %d", MPI_T_pvar_get_index("nothing of the kind", MPI_T_PVAR_CLASS_COUNTER, &index));
    FITS(!MPI_T_pvar_session_create(&session)), FITS(!MPI_T_pvar_session_free(&session)), FITS(session == MPI_T_PVAR_SESSION_NULL);
    say("performance variables");
}

static void categories(void) {
    int number, length, about, controls, counters, inner, events, index, stamp;
    static int list[ROOM];
    MPI_T_category_get_num(&number), SAY("some %d", number > 0);
    for (int at = 0; at < number; at++) {
        length = about = ROOM;
        FITS(!MPI_T_category_get_info(at, name, &length, text, &about, &controls, &counters, &inner));
        FITS(!MPI_T_category_get_index(name, &index)), FITS(index == at), FITS(!MPI_T_category_get_num_events(at, &events));
        FITS(!MPI_T_category_get_cvars(at, ROOM, list)), FITS(!MPI_T_category_get_pvars(at, ROOM, list));
        FITS(!MPI_T_category_get_categories(at, ROOM, list)), FITS(!MPI_T_category_get_events(at, ROOM, list));
    }
    FITS(!MPI_T_category_changed(&stamp)), say("categories");
    SAY("no such category %d", MPI_T_category_get_index("nothing of the kind", &index));
}

static void events(void) {
    int number, sources, index, length = ROOM, about = ROOM;
    MPI_Count ticks, most;
    MPI_Info info;
    MPI_T_source_order order;
    MPI_T_event_registration registration;
    FITS(!MPI_T_event_get_num(&number)), FITS(number >= 0), FITS(!MPI_T_source_get_num(&sources)), FITS(sources >= 0);
    SAY("no such source %d", MPI_T_source_get_info(sources, name, &length, text, &about, &order, &ticks, &most, &info));
    SAY("no such source %d", MPI_T_source_get_timestamp(sources, &ticks));
    SAY("no such event %d", MPI_T_event_get_index("nothing of the kind", &index));
    SAY("no such event %d", MPI_T_event_handle_alloc(number, NULL, MPI_INFO_NULL, &registration));
    say("events");
}

int main(int argc, char **argv) {
    int level;
    SAY("before %d", MPI_T_cvar_get_num(&level));
    SAY("started %d", MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    control(), performance(), categories(), events();
    begin(&argc, &argv);
    control(), performance(), categories(), events();
    SAY("ended %d", MPI_T_finalize());
    fflush(stdout);
    return end();
}
