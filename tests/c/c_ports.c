/* Ports and published names: two halves of the world, parents and children, sockets, and what is wrong. */
#include <arpa/inet.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static char port[MPI_MAX_PORT_NAME];

static void says(int code, int class, const char *part) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK(class_of(code) == class);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, part) != NULL);
}

/* The numbers of both groups' first tasks are exchanged; `others` is the size of the other group, below zero if it is not known. */
static void talk(MPI_Comm inter, int own, int theirs, int others) {
    int out = own + 100, in = -1, is_inter, there, own_rank;
    MPI_Comm both;
    CHECK(MPI_Comm_test_inter(inter, &is_inter) == MPI_SUCCESS && is_inter);
    CHECK(MPI_Comm_remote_size(inter, &there) == MPI_SUCCESS && (others < 0 || there == others));
    CHECK(MPI_Comm_rank(inter, &own_rank) == MPI_SUCCESS);
    if (own_rank == 0) {
        MPI_Sendrecv(&out, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
        CHECK(in == theirs + 100);
    }
    MPI_Intercomm_merge(inter, own, &both);
    out = 1, in = 0;
    MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, both);
    MPI_Comm_size(both, &there);
    CHECK(in == there && there > others);
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&inter);
    CHECK(inter == MPI_COMM_NULL);
}

static void halves(void) {
    MPI_Comm half, inter;
    int side = rank >= size / 2, before, after;
    MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    MPI_Comm_size(half, &before), after = size - before;
    for (int round = 0; round < 3; round++) {
        if (rank == 0) {
            CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
            CHECK(MPI_Publish_name("halves", MPI_INFO_NULL, port) == MPI_SUCCESS);
            says(MPI_Publish_name("halves", MPI_INFO_NULL, port), MPI_ERR_SERVICE, "halves");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size / 2)
            CHECK(MPI_Lookup_name("halves", MPI_INFO_NULL, port) == MPI_SUCCESS);
        if (side == 0)
            CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter) == MPI_SUCCESS);
        else
            CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter) == MPI_SUCCESS);
        talk(inter, side, !side, after);
        if (rank == 0) {
            CHECK(MPI_Unpublish_name("halves", MPI_INFO_NULL, port) == MPI_SUCCESS);
            CHECK(MPI_Close_port(port) == MPI_SUCCESS);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* The port is closed: its owner refuses, without a call. */
    if (rank == 0) {
        says(MPI_Close_port(port), MPI_ERR_PORT, port);
        says(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT, port);
    }
    if (side == 1)
        says(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter), MPI_ERR_PORT, "am-port");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&half);
}

/* Two tasks that have nothing in common but a socket. What they write into it before and after arrives. */
static void sockets(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    MPI_Comm inter;
    int fd = -1, listener = -1;
    if (rank == 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
        CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
        MPI_Send(&at, sizeof at, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        fd = accept(listener, NULL, NULL);
    } else if (rank == 1) {
        MPI_Recv(&at, sizeof at, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    } else {
        return;
    }
    for (int round = 0; round < 3; round++) {
        int word = rank + 7, other = -1;
        CHECK(MPI_Comm_join(fd, &inter) == MPI_SUCCESS);
        talk(inter, rank, !rank, 1);
        CHECK(write(fd, &word, sizeof word) == sizeof word && read(fd, &other, sizeof other) == sizeof other);
        CHECK(other == !rank + 7);
    }
    close(fd);
    close(listener);
    /* The other end is closed, or no socket of a task. */
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && shutdown(ends[0], SHUT_WR) == 0);
    says(MPI_Comm_join(ends[1], &inter), MPI_ERR_OTHER, "socket");
    CHECK(inter == MPI_COMM_NULL);
    close(ends[0]), close(ends[1]);
}

static void wrong(void) {
    MPI_Comm inter = MPI_COMM_SELF;
    says(MPI_Lookup_name("nobody's", MPI_INFO_NULL, port), MPI_ERR_NAME, "nobody's");
    says(MPI_Unpublish_name("nobody's", MPI_INFO_NULL, "x"), MPI_ERR_SERVICE, "nobody's");
    says(MPI_Close_port("no port"), MPI_ERR_PORT, "no port");
    says(MPI_Comm_connect("no port", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT, "no port");
    CHECK(inter == MPI_COMM_NULL);
    says(MPI_Comm_connect("am-port:4000:0:0", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT, "4000");
    /* All tasks learn what is wrong with the root's port. */
    says(MPI_Comm_accept("am-port:4000:0:0", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT, "am-port");
    says(MPI_Comm_connect(NULL, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_ARG, "null");
    FAILS(MPI_Comm_accept("x", MPI_INFO_NULL, size, MPI_COMM_WORLD, &inter), MPI_ERR_ROOT);
    FAILS(MPI_Comm_connect("x", MPI_INFO_NULL, -1, MPI_COMM_WORLD, &inter), MPI_ERR_ROOT);
    FAILS(MPI_Comm_join(-1, &inter), MPI_ERR_ARG);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Two children worlds, which connect to each other; one of them also to the parents. */
static int child(MPI_Comm parent, const char *word) {
    MPI_Comm inter;
    if (strcmp(word, "gives") == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 1, parent);
        MPI_Comm_disconnect(&parent);
        CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter) == MPI_SUCCESS);
        CHECK(MPI_Send(&size, 1, MPI_INT, 0, 2, inter) == MPI_SUCCESS);
        MPI_Comm_disconnect(&inter);
        return end();
    }
    int is_first = strcmp(word, "first") == 0;
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, parent);
    MPI_Comm_disconnect(&parent);
    if (is_first) {
        char own[MPI_MAX_PORT_NAME];
        if (rank == 0)
            MPI_Open_port(MPI_INFO_NULL, own), MPI_Publish_name("first child", MPI_INFO_NULL, own);
        CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter) == MPI_SUCCESS);
        talk(inter, 1, 0, -1);
        CHECK(MPI_Comm_accept(own, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter) == MPI_SUCCESS);
        talk(inter, 0, 1, 1);
    } else {
        while (MPI_Lookup_name("first child", MPI_INFO_NULL, port) != MPI_SUCCESS)
            ;
        CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter) == MPI_SUCCESS);
        talk(inter, 1, 0, 2);
    }
    return end();
}

/* A task that has accepted, sent and left before the connect returns: what it has sent arrives. */
static void gifts(char *self) {
    MPI_Comm inter;
    char *words[] = {"gives", NULL};
    for (int round = 0; round < 10; round++) {
        int got = 0;
        CHECK(MPI_Comm_spawn(self, words, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
        MPI_Recv(port, sizeof port, MPI_CHAR, 0, 1, inter, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&inter);
        CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter) == MPI_SUCCESS);
        CHECK(MPI_Recv(&got, 1, MPI_INT, 0, 2, inter, MPI_STATUS_IGNORE) == MPI_SUCCESS && got == 1);
        MPI_Comm_disconnect(&inter);
    }
}

static void worlds(char *self) {
    MPI_Comm half, inter[2], new;
    char *words[2][2] = {{"first", NULL}, {"second", NULL}};
    int first = rank < 2;
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    for (int at = 0; at < 2; at++) {
        CHECK(MPI_Comm_spawn(self, words[at], 2 - at, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter[at], MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
        MPI_Bcast(port, sizeof port, MPI_CHAR, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter[at]);
        MPI_Comm_disconnect(&inter[at]);
    }
    MPI_Comm_split(MPI_COMM_WORLD, first, 0, &half);
    if (first) {
        CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &new) == MPI_SUCCESS);
        talk(new, 0, 1, 2);
    }
    MPI_Comm_free(&half);
    if (rank == 0)
        CHECK(MPI_Close_port(port) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
    char self[PATH_MAX];
    MPI_Comm parent;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argv[1]);
    CHECK(realpath(argv[0], self) != NULL);
    wrong();
    if (size > 1)
        halves(), sockets();
    if (rank == 0)
        gifts(self);
    worlds(self);
    return end();
}
