/* Allocates by the address of malloc, which lies in the program itself if it is linked to a
 * fixed address. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *(*const volatile allocate)(size_t) = malloc;

int main(void)
{
    char *block = allocate(20 << 20);
    if (block == NULL) return 1;
    memset(block, 1, 20 << 20);
    printf("%d\n", block[1 << 20]);
    free(block);
    return 0;
}
