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
    int (*find)(const char *, void **) = (int (*)(const char *, void **))dlsym(driver, "cuGetProcAddress_v2");
    void *found = 0;
    if (!find || find("cuMemAlloc", &found))
        return 2;
    unsigned long long place = 0;
    if (((int (*)(unsigned long long *, size_t))found)(&place, 1 << 20))
        return 3;
    MPI_Finalize();
    puts("done");
    return 0;
}
