#!/bin/sh
# Finding: since glibc 2.43 a malloc block with a separate mapping has a header of one word, as every other block.
#
# Software: libc6 2.41-12+deb13u5 (Debian 13) and 2.43-7 (unstable) as packaged, x86-64, a C compiler.
# Expected by most: the word before a block holds its size with the header, and for a block of 128 KiB or more, which is
#   mapped (bit 2 of the word), two words of that size are not usable. Tools that keep a mark or a canary at the end of a
#   block find the end by this arithmetic, without a call.
# Behaviour: in 2.41 malloc_usable_size() of a mapped block is the size minus 16, in 2.43 the size minus 8, as
#   for small blocks. The bit is still set. A program that uses all that malloc_usable_size() promises writes eight bytes
#   beyond what the old arithmetic takes for the end of the block.
# Who meets it: profilers, checkers and allocator wrappers that read sizes from headers: their mark is overwritten, so
#   that a freed block counts as leaked, and only for large blocks.
# Fails, with another status than 0, when the behaviour has changed; ends with 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The mirror that this machine has its packages from.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' | grep '/debian/\?$' | head -n 1)
[ -n "$mirror" ] || exit 77
pool=${mirror%/}/pool/main/g/glibc
for version in 2.41-12+deb13u5 2.43-7; do
    curl --silent --fail --location --output "$folder/$version.deb" "$pool/libc6_${version}_amd64.deb" || exit 77
    mkdir "$folder/$version"
    dpkg-deb --extract "$folder/$version.deb" "$folder/$version"
done
cat > "$folder/program.c" <<'C'
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    const size_t sizes[] = {64, 100000, 1 << 20, 5000000};
    printf("glibc %s\n", gnu_get_libc_version());
    for (int i = 0; i < 4; i++) {
        size_t *volatile block = malloc(sizes[i]);
        size_t word = block[-1];
        printf("%zu bytes: %s, %zu of the size not usable\n", sizes[i], word & 2 ? "mapped" : "in the heap",
               (word & ~(size_t)7) - malloc_usable_size(block));
        free(block);
    }
    return 0;
}
C
cc -O1 -o "$folder/program" "$folder/program.c"
for version in 2.41-12+deb13u5 2.43-7; do
    libraries=$(dirname "$(find "$folder/$version" -name libc.so.6)")
    "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$folder/program"
done > "$folder/said"
cat "$folder/said"
cat > "$folder/expected" <<'T'
glibc 2.41
64 bytes: in the heap, 8 of the size not usable
100000 bytes: in the heap, 8 of the size not usable
1048576 bytes: mapped, 16 of the size not usable
5000000 bytes: mapped, 16 of the size not usable
glibc 2.43
64 bytes: in the heap, 8 of the size not usable
100000 bytes: in the heap, 8 of the size not usable
1048576 bytes: mapped, 8 of the size not usable
5000000 bytes: mapped, 8 of the size not usable
T
diff "$folder/expected" "$folder/said"
