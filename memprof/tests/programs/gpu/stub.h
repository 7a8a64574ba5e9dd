// What the runtimes and drivers of GPUs declare, as far as the stub of them goes.

#ifndef STUB_H
#define STUB_H

#include <stddef.h>

int cudaMalloc(void **pointer, size_t bytes);
int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
int cudaMallocAsync(void **pointer, size_t bytes, void *stream);
int cudaMallocManaged(void **pointer, size_t bytes, unsigned flags);
int cudaMallocHost(void **pointer, size_t bytes);
int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
int cudaFree(void *pointer);
int cudaFreeAsync(void *pointer, void *stream);
int cudaFreeHost(void *pointer);

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuMemFree_v2(unsigned long long pointer);

int hipMalloc(void **pointer, size_t bytes);
int hipHostMalloc(void **pointer, size_t bytes, unsigned flags);
int hipFree(void *pointer);
int hipHostFree(void *pointer);

// Makes the next release fail.
void stub_fail(void);

#endif
