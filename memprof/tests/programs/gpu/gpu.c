// Requests memory of GPUs in every way, also wrongly; each rank does the same.

#define _GNU_SOURCE
#include "stub.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

void *solver_device(size_t bytes);
void *solver_pinned(size_t bytes);

static void expect(int is_so, int line) {
    if (!is_so) {
        printf("line %d is wrong\n", line);
        exit(1);
    }
}

#define EXPECT(is_so) expect(is_so, __LINE__)

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    void *field = 0, *stream = 0, *rows = 0, *managed = 0, *pinned = 0, *other = 0, *none = 0;
    size_t pitch = 0;
    EXPECT(cudaMalloc(&field, 8 * MIB) == 0);
    void *of_solver = solver_device(4 * MIB);
    EXPECT(of_solver != 0);
    EXPECT(cudaMallocAsync(&stream, 2 * MIB, 0) == 0);
    EXPECT(cudaFreeAsync(stream, 0) == 0);
    // Freed by another component than the one that allocated it.
    EXPECT(cudaFree(of_solver) == 0);
    EXPECT(cudaMallocPitch(&rows, &pitch, 100, 10) == 0 && pitch == 512);
    // By the driver, through pointers.
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(driver != 0);
    int (*allocate)(unsigned long long *, size_t) = 0;
    int (*release)(unsigned long long) = 0;
    *(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&release = dlsym(driver, "cuMemFree_v2");
    EXPECT(allocate && release);
    unsigned long long place = 0;
    EXPECT(allocate(&place, MIB) == 0);
    EXPECT(release(place) == 0);
    EXPECT(hipMalloc(&other, 6 * MIB) == 0);
    // What fails counts for nothing.
    EXPECT(cudaMalloc(&none, (size_t)1 << 50) == 2 && none == 0);
    EXPECT(cudaFree((void *)0x1234) == 1);
    stub_fail();
    EXPECT(cudaFree(field) == 4);
    EXPECT(cudaMallocManaged(&managed, 3 * MIB, 1) == 0);
    EXPECT(cudaMallocHost(&pinned, MIB) == 0);
    memset(pinned, 1, MIB);
    EXPECT(cudaFreeHost(pinned) == 0);
    pinned = solver_pinned(16 * MIB);
    EXPECT(pinned != 0);
    memset(pinned, 2, 16 * MIB);
    EXPECT(hipHostMalloc(&pinned, MIB / 2, 0) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("done\n");
    MPI_Finalize();
    return 0;
}
