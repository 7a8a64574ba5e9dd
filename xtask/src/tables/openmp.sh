#!/bin/sh
# The OpenMP runtimes of this machine and of PyPI in situations of MPI programs: `column<TAB>row<TAB>cell`.
# ROOT: the checkout; BUILD: cargo's folder with libquo; CACHE: a folder to keep packages in.
set -eu
if [ "$(nproc)" = 1 ]; then
    echo "two CPUs are needed" >&2
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"; kill $busy 2> /dev/null || true' EXIT
busy=
cd "$folder"
if [ ! -e "$CACHE/intel/lib/libiomp5.so" ]; then
    python3 -m venv "$CACHE/intel" &&
        "$CACHE/intel/bin/pip" install --quiet --disable-pip-version-check intel-openmp==2026.2.0 >&2 || true
fi
ln -s "$BUILD/libquo_c.so" libquo.so
ln -s "$BUILD/libquo_c.so" "$(objdump -p libquo.so | sed -n 's/.*SONAME *//p')"
mpicc -O1 -fopenmp -I "$ROOT/bindings-c/include" -c "$ROOT/xtask/src/tables/openmp.c"
echo 'int getloadavg(double *load, int n) { for (int i = 0; i < n; i++) load[i] = 99; return n; }' > load.c
cc -shared -fPIC load.c -o load.so
for name in $(env | sed -n 's/^\(\(OMP\|GOMP\|KMP\)_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
# A singleton of the default MPI needs no launcher, as root too.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
first=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
other=$(taskset -cp $$ | sed 's/.*[-,]//')
package() { # of a file, with the upstream version
    dpkg-query -S "$(realpath "$1")" | sed 's/:.*//' | head -1 | xargs dpkg-query -W -f '${Version}' |
        sed 's/^[0-9]*://; s/-.*//'
}
cell() { # ROW WHAT [VARIABLE...]
    row=$1 what=$2
    shift 2
    start="timeout 60 env $* taskset -c $first ./program"
    echo "$title	$row	$($start alone $what 2> /dev/null) / $($start phase $what 2> said || tail -1 said)"
}
for runtime in gnu llvm intel; do
    second=libgomp.so.1
    case $runtime in
        gnu) file=$(cc -print-file-name=libgomp.so.1) second=libomp.so.5 ;;
        llvm) file=$(ldconfig -p | sed -n 's/.*libomp.so.5 .*=> //p' | head -1) ;;
        intel) file=$CACHE/intel/lib/libiomp5.so ;;
    esac
    [ -e "$file" ] || continue
    case $runtime in
        gnu) title="GNU libgomp $(package "$file")" ;;
        llvm) title="LLVM libomp $(package "$file")" ;;
        intel) title="Intel libiomp5 2026.2.0" ;;
    esac
    mpicc openmp.o -o program "$file" -L . -l:libquo.so -Wl,-rpath,"$folder:$(dirname "$file")" \
        -Wl,--allow-shlib-undefined -pthread -ldl
    cell "no variable is set" ""
    cell '`OMP_NUM_THREADS=1`' "" OMP_NUM_THREADS=1
    cell '`OMP_PROC_BIND=true`' "" OMP_PROC_BIND=true
    cell '`OMP_PLACES` names a CPU that the process does not have' "" "OMP_PLACES={$other}"
    cell '`GOMP_CPU_AFFINITY` names the one CPU' "" "GOMP_CPU_AFFINITY=$first"
    cell '`KMP_AFFINITY=compact`' "" KMP_AFFINITY=compact
    cell '`KMP_AFFINITY=disabled`' "" KMP_AFFINITY=disabled
    cell '`OMP_THREAD_LIMIT=1`' "" OMP_THREAD_LIMIT=1
    # libgomp asks for the load average, the others count the processes that run.
    for _ in $(seq $((2 * $(nproc)))); do
        timeout 60 sh -c 'while :; do :; done' &
        busy="$busy $!"
    done
    cell '`OMP_DYNAMIC=true` on a busy machine' "" OMP_DYNAMIC=true "LD_PRELOAD=$folder/load.so"
    kill $busy
    wait $busy 2> /dev/null || true
    busy=
    cell "a child that the program forks before its first region" child
    if ldconfig -p | grep -q "$second"; then
        cell "a second runtime, GNU's or LLVM's, is loaded (its team after the +)" "$second"
    fi
done
