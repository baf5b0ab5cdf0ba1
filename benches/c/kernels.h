/* Kernels with the communication of the NAS Parallel Benchmarks on small problems. The measured operation is one repetition with its check.
 * The number of tasks must divide SIDE. The arrays are allocated once. */

enum { SIDE = 64, KEYS = 1 << 15, BUCKETS_MAX = 64, ROWS = 1 << 13, WAVES = 32, EP_PAIRS = 1 << 13 };

static double *field_a, *field_b, *field_c;
static int *keys_out, *keys_in;

static int kernels_open(void)
{
    size_t doubles = 2 * SIDE * SIDE * SIDE;
    field_a = calloc(doubles, sizeof *field_a);
    field_b = calloc(doubles, sizeof *field_b);
    field_c = calloc(doubles, sizeof *field_c);
    keys_out = calloc(2 * KEYS, sizeof *keys_out);
    keys_in = calloc((size_t)size * KEYS, sizeof *keys_in);
    return field_a && field_b && field_c && keys_out && keys_in && SIDE % size == 0 && size <= BUCKETS_MAX;
}

static void kernels_close(void)
{
    free(field_a);
    free(field_b);
    free(field_c);
    free(keys_out);
    free(keys_in);
}

static unsigned next_random(unsigned *state)
{
    return *state = *state * 1664525u + 1013904223u;
}

static double sum_of_all(double own)
{
    double all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* EP: computation alone, then three short reductions. */
static double kernel_ep(int tasks, int times)
{
    double start = MPI_Wtime();
    for (int t = 0; t < times; t++) {
        unsigned state = (unsigned)(rank + 1) * 7919u;
        double sums[2] = { 0, 0 }, all[2];
        long rings[10] = { 0 }, of_all[10], total = 0;
        for (int i = 0; i < EP_PAIRS; i++) {
            double x = next_random(&state) * 0x1p-31 - 1, y = next_random(&state) * 0x1p-31 - 1;
            sums[0] += x;
            sums[1] += y;
            rings[(int)((x * x + y * y) * 4.99)]++;
        }
        MPI_Allreduce(sums, all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(sums + 1, all + 1, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(rings, of_all, 10, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 10; i++) total += of_all[i];
        if (total != (long)size * EP_PAIRS) fail("kernel_ep", tasks);
    }
    return since(start);
}

/* IS: a bucket sort. Each task gets the keys of one range, and counts them. */
static double kernel_is(int tasks, int times)
{
    static int count[BUCKETS_MAX], at[BUCKETS_MAX], got[BUCKETS_MAX], got_at[BUCKETS_MAX], fill[BUCKETS_MAX];
    int *keys = keys_out + KEYS, range = KEYS / size;
    unsigned state = (unsigned)(rank + 1) * 104729u;
    for (int i = 0; i < KEYS; i++) keys[i] = (int)(next_random(&state) >> 8) % (range * size);
    double start = MPI_Wtime();
    for (int t = 0; t < times; t++) {
        int all = 0;
        memset(count, 0, sizeof count);
        for (int i = 0; i < KEYS; i++) count[keys[i] / range]++;
        for (int r = 0, next = 0; r < size; next += count[r++]) at[r] = fill[r] = next;
        for (int i = 0; i < KEYS; i++) keys_out[fill[keys[i] / range]++] = keys[i];
        MPI_Alltoall(count, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < size; all += got[r++]) got_at[r] = all;
        MPI_Alltoallv(keys_out, count, at, MPI_INT, keys_in, got, got_at, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < all; i++) if (keys_in[i] / range != rank) fail("kernel_is", tasks);
        if ((long)sum_of_all(all) != (long)size * KEYS) fail("kernel_is", tasks);
    }
    return since(start);
}

/* CG: conjugate gradients. Each step collects a vector at all tasks, and adds up two scalar products. */
static double kernel_cg(int tasks, int times)
{
    int own = ROWS / size, first = rank * own;
    double *p = field_a, *part = field_b, *x = field_c, *r = field_c + ROWS, *q = field_b + ROWS;
    double start = MPI_Wtime();
    for (int t = 0; t < times; t++) {
        double rho = ROWS, rest = 0;
        for (int i = 0; i < own; i++) x[i] = 0, r[i] = part[i] = 1;
        for (int step = 0; step < 15; step++) {
            double curvature = 0, next = 0;
            MPI_Allgather(part, own, MPI_DOUBLE, p, own, MPI_DOUBLE, MPI_COMM_WORLD);
            for (int i = 0; i < own; i++) {
                int row = first + i;
                q[i] = (5 + row % 3) * p[row] - p[(row + 1) % ROWS] - p[(row + ROWS - 1) % ROWS]
                       - p[(row + 611) % ROWS] - p[(row + ROWS - 611) % ROWS];
                curvature += p[row] * q[i];
            }
            double alpha = rho / sum_of_all(curvature);
            for (int i = 0; i < own; i++) {
                x[i] += alpha * part[i];
                r[i] -= alpha * q[i];
                next += r[i] * r[i];
            }
            next = sum_of_all(next);
            for (int i = 0; i < own; i++) part[i] = r[i] + next / rho * part[i];
            rho = next;
        }
        for (int i = 0; i < own; i++) rest += r[i] * r[i];
        if (!(sum_of_all(rest) < 1e-3 * ROWS)) fail("kernel_cg", tasks);
    }
    return since(start);
}

/* MG: a stencil over slabs of a cube, on three levels. Neighbours exchange planes, and each level ends with a norm. */
static double kernel_mg(int tasks, int times)
{
    int up = (rank + 1) % size, down = (rank + size - 1) % size;
    double start = MPI_Wtime();
    for (int t = 0; t < times; t++) {
        for (int side = SIDE; side >= SIDE / 4 && side % size == 0; side /= 2) {
            int plane = side * side, planes = side / size;
            double *from = field_a, *to = field_b, norm = 0;
            /* The planes below and above the slab belong to the neighbours. */
            for (int i = plane; i < (planes + 1) * plane; i++) from[i] = 1;
            MPI_Sendrecv(from + planes * plane, plane, MPI_DOUBLE, up, 1,
                         from, plane, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Sendrecv(from + plane, plane, MPI_DOUBLE, down, 2,
                         from + (planes + 1) * plane, plane, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = plane; i < (planes + 1) * plane; i++)
                to[i] = (from[i - plane] + from[i + plane] + from[i - 1] + from[i + 1] + 2 * from[i]) / 6;
            for (int i = plane + 1; i < (planes + 1) * plane - 1; i++) norm += to[i];
            double corners = sum_of_all((double)planes * plane - 2);
            double rest = sum_of_all(norm) - corners;
            if (!(rest < 1 && rest > -1)) fail("kernel_mg", tasks);
        }
    }
    return since(start);
}

/* FT: a matrix of complex numbers is transposed by an alltoall between two passes over its rows. */
static double kernel_ft(int tasks, int times)
{
    enum { WIDTH = 2 * SIDE };
    int rows = WIDTH / size, block = 2 * rows * rows;
    double start = MPI_Wtime();
    for (int t = 0; t < times; t++) {
        for (int i = 0; i < rows * WIDTH; i++) field_a[2 * i] = (rank * rows + i / WIDTH) * WIDTH + i % WIDTH, field_a[2 * i + 1] = 1;
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < WIDTH; j++) {
                    double *to = field_b + j / rows * block + 2 * (j % rows * rows + i), *from = field_a + 2 * (i * WIDTH + j);
                    to[0] = from[0];
                    to[1] = -from[1];
                }
            MPI_Alltoall(field_b, block, MPI_DOUBLE, field_c, block, MPI_DOUBLE, MPI_COMM_WORLD);
            for (int r = 0; r < size; r++)
                for (int i = 0; i < rows; i++)
                    memcpy(field_a + 2 * (i * WIDTH + r * rows), field_c + r * block + 2 * i * rows, 2 * rows * sizeof(double));
        }
        for (int i = 0; i < rows * WIDTH; i++)
            if (field_a[2 * i] != (rank * rows + i / WIDTH) * WIDTH + i % WIDTH || field_a[2 * i + 1] != 1) fail("kernel_ft", tasks);
    }
    return since(start);
}

/* LU: a wave front. Each task needs the last row of the task before it, for one short block of columns after the other. */
static double kernel_lu(int tasks, int times)
{
    int rows = SIDE / size, columns = SIDE;
    double start = MPI_Wtime();
    for (int t = 0; t < times; t++) {
        for (int wave = 0; wave < WAVES; wave++) {
            double *above = field_a, *row = field_b;
            for (int j = 0; j < columns; j++) above[j] = 1;
            if (rank > 0) MPI_Recv(above, columns, MPI_DOUBLE, rank - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < rows; i++) {
                double left = above[0];
                for (int j = 0; j < columns; j++) left = row[j] = 0.5 * (left + above[j]) + 1;
                above = row;
            }
            if (rank + 1 < size) MPI_Send(row, columns, MPI_DOUBLE, rank + 1, 3, MPI_COMM_WORLD);
            else if (row[0] != SIDE + 1) fail("kernel_lu", tasks);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return since(start);
}

/* In these rows, the column of bytes holds the number of tasks. */
static void kernels(void)
{
    if (!kernels_open()) MPI_Abort(MPI_COMM_WORLD, 2);
    measure("kernel_ep", kernel_ep, size, 20);
    measure("kernel_is", kernel_is, size, 8);
    measure("kernel_cg", kernel_cg, size, 8);
    measure("kernel_mg", kernel_mg, size, 8);
    measure("kernel_ft", kernel_ft, size, 20);
    measure("kernel_lu", kernel_lu, size, 20);
    kernels_close();
}
