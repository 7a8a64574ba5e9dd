#include <stdlib.h>

void *make(size_t bytes) {
    void *volatile block = malloc(bytes);
    return block;
}
