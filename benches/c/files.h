/* Accesses of all tasks to a file of a file system in memory: alone and together, contiguous and in pieces of 1 KiB, beside pwrite and pread.
 * A row is the time until all tasks have moved BYTES each; what was written is read back and checked. */

enum { PIECE = 1024, FILE_BYTES_MAX = 1 << 20 };

static MPI_File file;
static int descriptor;
static char file_name[64];

static MPI_Offset own_place(int bytes)
{
    return (MPI_Offset)rank * bytes;
}

/* All tasks begin together, and the last one ends the time. */
#define TOGETHER(call)                                                    \
    do {                                                                  \
        MPI_Barrier(MPI_COMM_WORLD);                                      \
        double start = MPI_Wtime();                                       \
        for (int i = 0; i < times; i++)                                   \
            if ((call) != done) fail("an access to a file", bytes);       \
        MPI_Barrier(MPI_COMM_WORLD);                                      \
        return since(start);                                              \
    } while (0)

static double bare_write(int bytes, int times)
{
    ssize_t done = bytes;
    TOGETHER(pwrite(descriptor, out, (size_t)bytes, own_place(bytes)));
}

static double bare_read(int bytes, int times)
{
    ssize_t done = bytes;
    TOGETHER(pread(descriptor, in, (size_t)bytes, own_place(bytes)));
}

static double write_alone(int bytes, int times)
{
    int done = MPI_SUCCESS;
    TOGETHER(MPI_File_write_at(file, own_place(bytes), out, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
}

static double read_alone(int bytes, int times)
{
    int done = MPI_SUCCESS;
    TOGETHER(MPI_File_read_at(file, own_place(bytes), in, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
}

static double write_all(int bytes, int times)
{
    int done = MPI_SUCCESS;
    TOGETHER(MPI_File_write_at_all(file, own_place(bytes), out, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
}

static double read_all(int bytes, int times)
{
    int done = MPI_SUCCESS;
    TOGETHER(MPI_File_read_at_all(file, own_place(bytes), in, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* With a view of every size-th piece. */
static double write_pieces(int bytes, int times)
{
    int done = MPI_SUCCESS;
    TOGETHER(MPI_File_write_at_all(file, 0, out, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
}

static double read_pieces(int bytes, int times)
{
    int done = MPI_SUCCESS;
    TOGETHER(MPI_File_read_at_all(file, 0, in, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* Data that tell every piece of every task from the others. */
static void set_data(int bytes, int round)
{
    for (int at = 0; at < bytes; at++) out[at] = (char)(rank * 31 + at / PIECE * 7 + at + round);
    memset(in, 0, (size_t)bytes);
}

static void check_data(const char *what, int bytes)
{
    if (memcmp(in, out, (size_t)bytes)) fail(what, bytes);
}

/* Reads with this library what the measurement before has written, at the tasks' own places or in pieces. */
static void check_file(const char *what, int bytes, int in_pieces)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (!in_pieces) {
        if (pread(descriptor, in, (size_t)bytes, own_place(bytes)) != bytes) fail(what, bytes);
    } else {
        for (int at = 0; at < bytes; at += PIECE)
            if (pread(descriptor, in + at, PIECE, (off_t)at * size + rank * PIECE) != PIECE) fail(what, bytes);
    }
    check_data(what, bytes);
    memset(in, 0, (size_t)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void files_of(int bytes, int times)
{
    MPI_Datatype piece, pieces;
    set_data(bytes, 1);
    measure("files_write_bare", bare_write, bytes, times);
    measure("files_read_bare", bare_read, bytes, times);
    set_data(bytes, 2);
    measure("files_write_alone", write_alone, bytes, times);
    if (is_wanted("files_write_alone")) check_file("MPI_File_write_at", bytes, 0);
    measure("files_read_alone", read_alone, bytes, times);
    set_data(bytes, 3);
    measure("files_write_all", write_all, bytes, times);
    if (is_wanted("files_write_all")) check_file("MPI_File_write_at_all", bytes, 0);
    measure("files_read_all", read_all, bytes, times);
    if (is_wanted("files_read_all") && is_wanted("files_write_all")) check_data("MPI_File_read_at_all", bytes);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)PIECE * size, &pieces);
    MPI_Type_commit(&pieces);
    MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, pieces, "native", MPI_INFO_NULL);
    set_data(bytes, 4);
    measure("files_write_pieces", write_pieces, bytes, times / 4);
    if (is_wanted("files_write_pieces")) check_file("MPI_File_write_at_all with pieces", bytes, 1);
    measure("files_read_pieces", read_pieces, bytes, times / 4);
    if (is_wanted("files_read_pieces") && is_wanted("files_write_pieces")) check_data("MPI_File_read_at_all with pieces", bytes);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_Type_free(&piece);
    MPI_Type_free(&pieces);
}

static void files(void)
{
    snprintf(file_name, sizeof file_name, "/dev/shm/am-compare-%ld", (long)getpid());
    MPI_Bcast(file_name, sizeof file_name, MPI_CHAR, 0, MPI_COMM_WORLD);
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    if (MPI_File_open(MPI_COMM_WORLD, file_name, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS) fail("a new file", 0);
    descriptor = open(file_name, O_RDWR);
    if (descriptor < 0) fail("a file that was opened", 0);
    files_of(64 << 10, 64);
    files_of(FILE_BYTES_MAX, 8);
    close(descriptor);
    MPI_File_close(&file);
}
