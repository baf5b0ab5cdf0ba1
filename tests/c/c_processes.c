/* Starting processes: hints, errors with the program's name, and a loop that keeps memory and descriptors flat. The children are this
   program, which gets a word that says what to do. */
#include <dirent.h>
#include <limits.h>
#include <unistd.h>

#include "check.h"

static char self[PATH_MAX], folder[PATH_MAX];

static MPI_Info hint(const char *key, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info), MPI_Info_set(info, key, value);
    return info;
}

static MPI_Comm start(const char *program, const char *word, int tasks, MPI_Info info, int *codes) {
    MPI_Comm inter = MPI_COMM_NULL;
    char *words[] = {(char *)word, NULL};
    CHECK(MPI_Comm_spawn(program, words, tasks, info, 0, MPI_COMM_WORLD, &inter, codes) == MPI_SUCCESS);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    return inter;
}

/* The answer of the first child: a number. */
static int answer_of(MPI_Comm inter) {
    int answer = -1;
    MPI_Bcast(&answer, 1, MPI_INT, 0, inter);
    MPI_Comm_disconnect(&inter);
    return answer;
}

static int child(MPI_Comm parent, const char *word) {
    char path[PATH_MAX];
    int answer = 0;
    if (strcmp(word, "wdir") == 0)
        answer = getcwd(path, sizeof path) != NULL && strcmp(path, "/") == 0;
    else if (strcmp(word, "env") == 0)
        answer = getenv("OF_SPAWN") != NULL && strcmp(getenv("OF_SPAWN"), "a b=c") == 0 && strcmp(getenv("OF_TWO"), "2") == 0;
    else if (strcmp(word, "size") == 0)
        answer = size;
    MPI_Bcast(&answer, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

static void hints(void) {
    int codes[4];
    MPI_Comm inter;
    CHECK(answer_of(start(self, "wdir", 1, hint("wdir", "/"), MPI_ERRCODES_IGNORE)) == 1);
    CHECK(answer_of(start(self, "env", 1, hint("env", "OF_SPAWN=a b=c\nOF_TWO=2"), MPI_ERRCODES_IGNORE)) == 1);
    CHECK(answer_of(start(self, "size", 1, hint("host", "localhost"), MPI_ERRCODES_IGNORE)) == 1);
    CHECK(answer_of(start(strrchr(self, '/') + 1, "size", 2, hint("path", folder), codes)) == 2);
    /* Of 4 tasks, 3 will do, and 2. */
    CHECK(answer_of(start(self, "size", 4, hint("soft", "2:3"), codes)) == 3);
    CHECK(codes[2] == MPI_SUCCESS && codes[3] != MPI_SUCCESS);
    /* Each program has its own codes. */
    char *programs[] = {self, self}, *sizes[] = {"size", NULL}, **words[] = {sizes, sizes};
    int numbers[] = {2, 2};
    MPI_Info infos[] = {hint("soft", "1"), MPI_INFO_NULL};
    CHECK(MPI_Comm_spawn_multiple(2, programs, words, numbers, infos, 0, MPI_COMM_WORLD, &inter, codes) == MPI_SUCCESS);
    CHECK(answer_of(inter) == 3);
    CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_ERR_SPAWN && codes[2] == MPI_SUCCESS && codes[3] == MPI_SUCCESS);
    MPI_Info_free(&infos[0]);
    /* Without arguments, the child says nothing. */
    MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
    MPI_Comm_disconnect(&inter);
}

static void refused(const char *program, const char *part, int tasks, MPI_Info info, int class) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Comm inter = MPI_COMM_SELF;
    int code = MPI_Comm_spawn(program, MPI_ARGV_NULL, tasks, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Error_string(code, text, &length);
    CHECK(inter == MPI_COMM_NULL);
    CHECK(class_of(code) == class);
    CHECK(strstr(text, part) != NULL);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
}

static void errors(void) {
    int codes[3] = {-1, -1, -1};
    MPI_Comm inter;
    refused("/no/such/program", "/no/such/program", 2, MPI_INFO_NULL, MPI_ERR_SPAWN);
    refused("no-such-program", "no-such-program", 1, MPI_INFO_NULL, MPI_ERR_SPAWN);
    refused("/", "/", 1, MPI_INFO_NULL, MPI_ERR_SPAWN);
    refused(self, self, 1, hint("wdir", "/no/such/folder"), MPI_ERR_SPAWN);
    refused(self, "elsewhere", 1, hint("host", "elsewhere"), MPI_ERR_SPAWN);
    refused(self, self, 5000, MPI_INFO_NULL, MPI_ERR_SPAWN);
    refused(self, "maxprocs", 0, MPI_INFO_NULL, MPI_ERR_ARG);
    refused(self, "soft", 3, hint("soft", "9"), MPI_ERR_SPAWN);
    refused(self, "soft", 3, hint("soft", "many"), MPI_ERR_INFO_VALUE);
    refused(self, "env", 1, hint("env", "no value"), MPI_ERR_INFO_VALUE);
    /* If one program cannot be started, none is. */
    char *programs[] = {self, "/no/such/program"};
    int numbers[] = {2, 1};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    FAILS(MPI_Comm_spawn_multiple(2, programs, MPI_ARGVS_NULL, numbers, infos, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_SPAWN);
    CHECK(class_of(codes[0]) == MPI_ERR_SPAWN && class_of(codes[2]) == MPI_ERR_SPAWN);
    /* What other tasks than the root pass is ignored, but for the room for the codes. */
    codes[0] = codes[1] = codes[2] = -1;
    char *nothing = NULL, *child[] = {"size", NULL};
    int is_root = rank == size - 1;
    CHECK(MPI_Comm_spawn(is_root ? self : NULL, is_root ? child : &nothing, is_root ? 2 : -1, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD,
                         &inter, codes) == MPI_SUCCESS);
    CHECK(answer_of(inter) == 2 && codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS && codes[2] == -1);
    FAILS(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, size, MPI_COMM_WORLD, &inter, codes), MPI_ERR_ROOT);
    FAILS(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, -1, MPI_COMM_WORLD, &inter, codes), MPI_ERR_ROOT);
}

static int open_files(void) {
    int count = 0;
    DIR *files = opendir("/proc/self/fd");
    CHECK(files != NULL);
    while (readdir(files) != NULL)
        count++;
    closedir(files);
    return count;
}

/* ROUNDS sets another number of rounds. */
static void loop(void) {
    int rounds = getenv("ROUNDS") != NULL ? atoi(getenv("ROUNDS")) : 24, files = 0;
    long memory = 0;
    for (int round = 0; round < rounds; round++) {
        if (round == rounds / 3)
            memory = resident(), files = open_files();
        CHECK(answer_of(start(self, "size", 2, MPI_INFO_NULL, MPI_ERRCODES_IGNORE)) == 2);
    }
    CHECK(open_files() <= files);
    CHECK(resident() < memory + (2 << 20));
}

int main(int argc, char **argv) {
    MPI_Comm parent;
    int *universe, flag;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL && argc == 1) {
        MPI_Comm_disconnect(&parent), MPI_Finalize();
        return 0;
    }
    if (parent != MPI_COMM_NULL)
        return child(parent, argv[1]);
    CHECK(realpath(argv[0], self) != NULL);
    strcpy(folder, self), *strrchr(folder, '/') = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
    CHECK(flag && *universe >= size);
    hints();
    errors();
    loop();
    return end();
}
