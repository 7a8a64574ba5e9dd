// Stands for a program with the runtime of CUDA inside it, which gets the functions of the driver from
// the driver.

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return 1;
    int (*find)(const char *, void **) = 0;
    *(void **)&find = dlsym(driver, "cuGetProcAddress_v2");
    int (*allocate)(unsigned long long *, size_t) = 0;
    if (!find || find("cuMemAlloc", (void **)&allocate))
        return 2;
    unsigned long long place = 0;
    if (allocate(&place, 1 << 20))
        return 3;
    MPI_Finalize();
    puts("done");
    return 0;
}
