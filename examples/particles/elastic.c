/* Charged particles that circle in a box with reflecting walls, in slabs of the box, one for each MPI rank,
 * whose number may change.
 * usage: ./elastic PARTICLES STEPS FILE */
#include <quo-elastic.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double place[2], speed[2];
    long long number;
} particle_t;

static QUO_world world;
static MPI_Comm comm;
static particle_t *particles;
static void *items;
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

/* Ends the job if a call has failed. */
static void check(int code)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s\n", QUO_last_error());
    MPI_Abort(MPI_COMM_WORLD, code);
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
    check(QUO_world_comm(world, &comm));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const long long first = all * rank / size;
    count = (size_t)(all * (rank + 1) / size - first);
    check(QUO_world_items_resize(world, "particles", count));
    check(QUO_world_items(world, "particles", &items, &count));
    particles = items;
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

/* Makes a step. Returns 1 if another one follows. */
static int step(QUO_world w, void *data)
{
    (void)data;
    check(QUO_world_comm(w, &comm));
    check(QUO_world_migrate(w, "particles"));
    check(QUO_world_items(w, "particles", &items, &count));
    particles = items;
    report();
    advance();
    return ++done < steps;
}

int main(int argc, char **argv)
{
    int status;
    if (argc != 4) return EXIT_FAILURE;
    steps = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    check(QUO_world_create(&world, NULL));
    check(QUO_world_items_add(world, "particles", sizeof(particle_t), owner, NULL));
    check(QUO_world_status(world, &status));
    if (QUO_WORLD_NEW == status) start(atoll(argv[1]));
    check(QUO_world_run(world, step, NULL, &done, sizeof(done)));
    check(QUO_world_comm(world, &comm));
    if (MPI_COMM_NULL != comm) write(argv[3]);
    check(QUO_world_end(world));
    return MPI_Finalize();
}
