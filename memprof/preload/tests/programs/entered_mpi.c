/* An MPI library of a few functions, which entered.c enters. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

double seen_double;
int seen_level;

int PMPI_Init(int *count, char ***words) { (void)count; (void)words; return 0; }
int MPI_Init(int *count, char ***words) { return PMPI_Init(count, words); }
int MPI_Finalize(void) { return 0; }

/* Calls the program back. */
int MPI_Reduce_local(void *in, void *out, int count, void *type, void *op)
{
    (void)in; (void)out; (void)count; (void)type;
    ((void (*)(void))op)();
    return 7;
}

int MPI_Sendrecv(const void *a, int b, void *c, int d, int e, void *f, int g, void *h, int i, int j,
                 void *k, void *l)
{
    const void *words[] = {a, c, f, h, k, l};
    for (size_t at = 1; at < 6; at++) {
        if ((const char *)words[at] != (const char *)a + at) return 1;
    }
    return b == 1 && d == 2 && e == 3 && g == 4 && i == 5 && j == 6 ? 0 : 2;
}

int MPI_Alloc_mem(long bytes, int info, void *base)
{
    (void)info;
    *(void **)base = malloc((size_t)bytes);
    return 0;
}

int MPI_Free_mem(void *base) { free(base); return 0; }

int MPI_Pcontrol(const int level, ...)
{
    va_list more;
    va_start(more, level);
    seen_level = level;
    if (level == 5) {
        (void)va_arg(more, char *);
        seen_double = va_arg(more, double);
    }
    va_end(more);
    return 0;
}
