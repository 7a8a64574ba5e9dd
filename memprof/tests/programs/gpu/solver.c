// A library of the program that uses a GPU.

#include "stub.h"

void *solver_device(size_t bytes) {
    void *pointer = 0;
    return cudaMalloc(&pointer, bytes) ? 0 : pointer;
}

void *solver_pinned(size_t bytes) {
    void *pointer = 0;
    return cudaHostAlloc(&pointer, bytes, 0) ? 0 : pointer;
}
