/* Connections whose partner is killed or leaves, in a job that goes on: each call ends with an error that names the partner. */
#include <limits.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

static char port[MPI_MAX_PORT_NAME];

/* Kills this task in so many microseconds. */
static void die_in(int microseconds) {
    struct itimerval when = {.it_value.tv_usec = microseconds + 1};
    signal(SIGALRM, SIG_DFL);
    setitimer(ITIMER_REAL, &when, NULL);
}

static int child(MPI_Comm parent, const char *way, int number) {
    MPI_Comm inter;
    if (strcmp(way, "accepts") == 0 || strcmp(way, "leaves") == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 1, parent);
        if (strcmp(way, "leaves") == 0) {
            MPI_Comm_disconnect(&parent);
            MPI_Finalize();
            return 0;
        }
        die_in(number);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    } else {
        MPI_Recv(port, sizeof port, MPI_CHAR, 0, 1, parent, MPI_STATUS_IGNORE);
        if (strcmp(way, "connects") == 0)
            die_in(number);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        if (strcmp(way, "greets") == 0) {
            MPI_Send(&number, 1, MPI_INT, 0, 3, inter);
            MPI_Comm_disconnect(&inter);
            MPI_Comm_disconnect(&parent);
            MPI_Finalize();
            return 0;
        }
    }
    for (;;)
        pause();
}

static void fails_and_names(int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK(code != MPI_SUCCESS);
    MPI_Error_string(code, text, &length);
    if (strstr(text, "task ") == NULL)
        printf("no task is named: %s\n", text);
    CHECK(strstr(text, "task ") != NULL);
}

static MPI_Comm start(char *self, char *way, int number) {
    char text[16], *words[] = {way, text, NULL};
    MPI_Comm inter;
    snprintf(text, sizeof text, "%d", number);
    CHECK(MPI_Comm_spawn(self, words, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    return inter;
}

int main(int argc, char **argv) {
    char self[PATH_MAX];
    MPI_Comm parent, inter, new;
    int word, code;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argv[1], atoi(argv[2]));
    CHECK(realpath(argv[0], self) != NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int rounds = argc > 1 ? atoi(argv[1]) : 12;
    for (int round = 0; round < rounds; round++) {
        /* The owner of the port is killed: before the call, while it waits, or while the two meet. */
        inter = start(self, "accepts", round * round * 40);
        CHECK(MPI_Recv(port, sizeof port, MPI_CHAR, 0, 1, inter, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &new);
        if (code == MPI_SUCCESS) {
            MPI_Comm_set_errhandler(new, MPI_ERRORS_RETURN);
            code = MPI_Recv(&word, 1, MPI_INT, 0, 0, new, MPI_STATUS_IGNORE);
            MPI_Comm_free(&new);
        }
        fails_and_names(code);
        MPI_Comm_free(&inter);
        /* The owner of the port leaves without accepting. */
        if (round % 4 == 0) {
            inter = start(self, "leaves", 0);
            CHECK(MPI_Recv(port, sizeof port, MPI_CHAR, 0, 1, inter, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            MPI_Comm_disconnect(&inter);
            fails_and_names(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &new));
        }
        /* One that connects is killed; the accept then takes the next call. */
        MPI_Open_port(MPI_INFO_NULL, port);
        inter = start(self, "connects", round * round * 40);
        CHECK(MPI_Send(port, sizeof port, MPI_CHAR, 0, 1, inter) == MPI_SUCCESS);
        CHECK(MPI_Recv(&word, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE) != MPI_SUCCESS);
        MPI_Comm_free(&inter);
        inter = start(self, "greets", round);
        CHECK(MPI_Send(port, sizeof port, MPI_CHAR, 0, 1, inter) == MPI_SUCCESS);
        CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &new) == MPI_SUCCESS);
        CHECK(MPI_Recv(&word, 1, MPI_INT, 0, 3, new, MPI_STATUS_IGNORE) == MPI_SUCCESS && word == round);
        MPI_Comm_disconnect(&new);
        MPI_Comm_disconnect(&inter);
        CHECK(MPI_Close_port(port) == MPI_SUCCESS);
    }
    return end();
}
