/* Charged particles that circle in a box with reflecting walls, in slabs of the box, one for each MPI rank.
 * usage: ./plain PARTICLES STEPS FILE */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double place[2], speed[2];
    long long number;
} particle_t;

static MPI_Comm comm;
static particle_t *particles;
static size_t count;
static int done, steps;

/* The rank with the slab of a particle. */
static int owner(void *data, const void *item, int ranks)
{
    const particle_t *particle = item;
    const int rank = (int)(particle->place[0] * ranks);
    (void)data;
    return rank < ranks ? rank : ranks - 1;
}

/* Sends the particles to their owners. */
static void migrate(void)
{
    int ranks, all = 0;
    MPI_Comm_size(comm, &ranks);
    int *counts = calloc(4 * (size_t)ranks, sizeof(int));
    int *starts = counts + ranks, *new_counts = starts + ranks, *new_starts = new_counts + ranks;
    particle_t *sent = malloc((count + 1) * sizeof(particle_t));
    for (size_t i = 0; i < count; ++i) ++counts[owner(NULL, &particles[i], ranks)];
    MPI_Alltoall(counts, 1, MPI_INT, new_counts, 1, MPI_INT, comm);
    for (int rank = 0; rank < ranks; ++rank) {
        if (rank > 0) starts[rank] = starts[rank - 1] + counts[rank - 1];
        new_starts[rank] = all;
        all += new_counts[rank];
    }
    for (size_t i = 0; i < count; ++i) sent[starts[owner(NULL, &particles[i], ranks)]++] = particles[i];
    for (int rank = 0; rank < ranks; ++rank) starts[rank] -= counts[rank];
    MPI_Datatype type;
    MPI_Type_contiguous(sizeof(particle_t), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    count = (size_t)all;
    particles = realloc(particles, (count + 1) * sizeof(particle_t));
    MPI_Alltoallv(sent, counts, starts, type, particles, new_counts, new_starts, type, comm);
    MPI_Type_free(&type);
    free(sent);
    free(counts);
}

/* Moves the particles for a short time. */
static void advance(void)
{
    const double time = 0.004;
    for (size_t i = 0; i < count; ++i) {
        particle_t *particle = &particles[i];
        const double turn = 0.02 + 0.0001 * (double)(particle->number % 100);
        particle->speed[0] += turn * particle->speed[1];
        particle->speed[1] -= turn * particle->speed[0];
        for (int along = 0; along < 2; ++along) {
            particle->place[along] += time * particle->speed[along];
            if (particle->place[along] < 0 || particle->place[along] > 1) {
                particle->place[along] = (particle->place[along] < 0 ? 0 : 2) - particle->place[along];
                particle->speed[along] = -particle->speed[along];
            }
        }
    }
}

/* Begins with the particles of a rank. */
static void start(long long all)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const long long first = all * rank / size;
    count = (size_t)(all * (rank + 1) / size - first);
    particles = malloc((count + 1) * sizeof(particle_t));
    for (size_t i = 0; i < count; ++i) {
        const long long number = first + (long long)i;
        const double x = (double)(number * 7919 % all) / (double)all;
        const double y = (double)(number * 104729 % all) / (double)all;
        particles[i] = (particle_t){{x * x, y}, {0.5 - y, x - 0.3}, number};
    }
}

/* Writes the particles of all ranks into one file, by their numbers. */
static void write(const char *name)
{
    MPI_File file;
    MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    for (size_t i = 0; i < count; ++i) {
        const MPI_Offset place = particles[i].number * (MPI_Offset)sizeof(particle_t);
        MPI_File_write_at(file, place, &particles[i], sizeof(particle_t), MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
}

/* Prints the largest number of particles on a rank. */
static void report(void)
{
    int rank;
    unsigned long long own = count, most;
    MPI_Comm_rank(comm, &rank);
    MPI_Allreduce(&own, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, comm);
    if (0 == rank && 0 == done % 100) printf("step %d: at most %llu particles on a rank\n", done, most);
}

/* Makes a step. */
static void step(void)
{
    migrate();
    report();
    advance();
    ++done;
}

int main(int argc, char **argv)
{
    if (argc != 4) return EXIT_FAILURE;
    steps = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    start(atoll(argv[1]));
    while (done < steps) step();
    write(argv[3]);
    free(particles);
    return MPI_Finalize();
}
