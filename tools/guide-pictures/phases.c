#include <quo-xpm.h>
#include <stdio.h>
#include <stdlib.h>
static volatile double sink;
static void work(double *cells, long count, int rounds) { for (int r = 0; r < rounds; ++r) for (long i = 0; i < count; ++i) cells[i] = cells[i] * 0.999 + 0.001; }
int main(int c, char **v)
{
    QUO_context quo; QUO_phase solve; QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT; int works, threads;
    MPI_Init(&c, &v);
    QUO_create(&quo, MPI_COMM_WORLD);
    spec.name = "solve";
    QUO_phase_create(quo, &spec, &solve);
    double *mine = calloc(100000, sizeof *mine);
    for (int step = 0; step < 3; ++step) {
        work(mine, 100000, 300);
        QUO_barrier(quo);
        QUO_phase_begin(solve, &works, &threads);
        if (works) {
#pragma omp parallel
            { double *own = calloc(100000, sizeof *own); work(own, 100000, 400); sink = own[5]; free(own); }
        }
        QUO_phase_end(solve);
    }
    QUO_phase_free(solve); QUO_free(quo);
    return MPI_Finalize();
}
