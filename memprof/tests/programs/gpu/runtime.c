// Stands for the runtime of a GPU, over the stub of a driver; without CUDA it is that of HIP.

#define _GNU_SOURCE
#include "stub.h"

#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>

#ifdef CUDA
#define NAME(cuda, hip) cuda
#else
#define NAME(cuda, hip) hip
#endif

static int fails;

#ifdef CUDA
void stub_fail(void) { fails = 1; }
#endif

static int allocate(void **pointer, size_t bytes) {
    // As runtimes do it: they are not linked with the driver.
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return 3;
    int (*real)(unsigned long long *, size_t) =
        (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2");
    unsigned long long place = 0;
    int result = real(&place, bytes);
    if (!result)
        *pointer = (void *)(uintptr_t)place;
    return result;
}

static int release(void *pointer) {
    if (fails) {
        fails = 0;
        return 4;
    }
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*real)(unsigned long long) = (int (*)(unsigned long long))dlsym(driver, "cuMemFree_v2");
    return real((unsigned long long)(uintptr_t)pointer);
}

// Pinned memory has its size in the page before it.
static int pin(void **pointer, size_t bytes) {
    char *place = mmap(0, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        return 2;
    *(size_t *)place = bytes;
    *pointer = place + 4096;
    return 0;
}

static int unpin(void *pointer) {
    char *place = (char *)pointer - 4096;
    return munmap(place, *(size_t *)place + 4096) ? 1 : 0;
}

int NAME(cudaMalloc, hipMalloc)(void **pointer, size_t bytes) { return allocate(pointer, bytes); }
int NAME(cudaFree, hipFree)(void *pointer) { return release(pointer); }
int NAME(cudaFreeHost, hipHostFree)(void *pointer) { return unpin(pointer); }

int NAME(cudaHostAlloc, hipHostMalloc)(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pin(pointer, bytes);
}

#ifdef CUDA
int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + 511) & ~(size_t)511;
    return allocate(pointer, *pitch * height);
}

int cudaMallocAsync(void **pointer, size_t bytes, void *stream) {
    (void)stream;
    return allocate(pointer, bytes);
}

int cudaMallocManaged(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return allocate(pointer, bytes);
}

int cudaMallocHost(void **pointer, size_t bytes) { return pin(pointer, bytes); }

int cudaFreeAsync(void *pointer, void *stream) {
    (void)stream;
    return release(pointer);
}
#endif
