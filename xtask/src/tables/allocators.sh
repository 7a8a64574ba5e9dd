#!/bin/sh
# What memprof reports of programs with the allocators of Debian 12: `column<TAB>row<TAB>cell`.
# ROOT: the checkout; BUILD: cargo's folder with memprof; CACHE: a folder to keep packages in.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$CACHE"
for package in libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4; do
    ls "$package"_*.deb > /dev/null 2>&1 || apt-get download -qq "$package" >&2 || true
    for file in "$package"_*.deb; do
        [ ! -e "$file" ] || dpkg-deb -x "$file" allocators
    done
done
libraries=$CACHE/allocators/usr/lib/$(cc -print-multiarch)
cd "$folder"
cc -O0 -fPIC -shared -Wl,-soname,libcaller.so -DLIBRARY "$ROOT/xtask/src/tables/allocators.c" -o libcaller.so
for name in glibc jemalloc mimalloc tcmalloc; do
    case $name in
        glibc) file= version=$(getconf GNU_LIBC_VERSION | sed 's/.* //') ;;
        jemalloc) file=$libraries/libjemalloc.so.2 version=$(echo "$CACHE"/libjemalloc2_*) ;;
        mimalloc) file=$libraries/libmimalloc.so.2 version=$(echo "$CACHE"/libmimalloc2.0_*) ;;
        tcmalloc) file=$libraries/libtcmalloc_minimal.so.4 version=$(echo "$CACHE"/libtcmalloc-minimal4_*) ;;
    esac
    version=$(echo "${version##*/}" | sed 's/^[^_]*_//; s/[+-].*//')
    [ -z "$file" ] || [ -e "$file" ] || continue
    mkdir "$name" "$name/linked"
    cc -O0 "$ROOT/xtask/src/tables/allocators.c" -o "$name/program" ./libcaller.so -Wl,-rpath,"$folder" -ldl
    [ -z "$file" ] || cc -O0 "$ROOT/xtask/src/tables/allocators.c" -o "$name/linked/program" ./libcaller.so \
        -Wl,-rpath,"$folder:$libraries" -Wl,--no-as-needed "$file" -ldl
    cd "$name"
    python3 "$ROOT/xtask/src/tables/allocators.py" "$BUILD/memprof" "$name $version" ./program "$file" "${file:+./linked/program}"
    cd ..
done
