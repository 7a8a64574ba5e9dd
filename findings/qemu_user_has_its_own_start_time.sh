#!/bin/sh
# Finding: a process under qemu-user reads another start time of itself than every other process reads of it.
#
# Software: qemu-user-static 1:7.2+dfsg-7+deb12u18+b3 of Debian 12 (QEMU 7.2.22), Linux, a C compiler, x86-64.
# Expected by most: the start time in /proc/PID/stat (field 22, in ticks since boot) is one number whoever reads it, so that a
#   number and a start time name a process for good, as tools do that must not take a new process for an old one.
# Behaviour: qemu-user answers for /proc/self/stat, and for /proc/PID/stat of the process itself, with a time that it took when
#   it was ready to run the program: often some ticks later than the kernel's. /proc/self/task/PID/stat comes from the kernel.
# Who meets it: runtimes whose processes tell each other number and start time, in containers of another architecture:
#   each takes the others for dead.
# Fails, with another status than 0, when the behaviour has changed; 77 where the package cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q=2 "qemu-user-static=1:7.2+dfsg-7+deb12u18+b3" || exit 77
dpkg -x qemu-user-static_*.deb .
cat > own.c <<'C'
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* The 22nd field of a file like /proc/self/stat; the name in the second may hold anything. */
static long long start_time(const char *path)
{
    static char text[4096];
    FILE *file = fopen(path, "r");
    long long time = -1;
    if (!file) return -1;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    if (at) sscanf(at, "%lld", &time);
    return time;
}
int main(void)
{
    char of_task[64], by_number[64];
    snprintf(of_task, sizeof of_task, "/proc/self/task/%d/stat", (int)getpid());
    snprintf(by_number, sizeof by_number, "/proc/%d/stat", (int)getpid());
    printf("%d %lld %lld %lld\n", (int)getpid(), start_time("/proc/self/stat"), start_time(by_number), start_time(of_task));
    fflush(stdout);
    getchar(); /* Until it has been looked at. */
    return 0;
}
C
cc -O1 -o own own.c
mkfifo go
compare() {
    rm -f said
    "$@" < go > said &
    exec 3> go
    while ! grep -q . said 2> /dev/null; do sleep 0.1; done
    read -r process own by_number of_task < said
    others=$(sed 's/.*)//' "/proc/$process/stat" | cut -d ' ' -f 21)
    exec 3>&-
    wait
    verdict() { if [ "$1" -eq "$others" ]; then echo "as others read it"; else echo "not as others read it"; fi; }
    echo "self: $(verdict "$own"); by number: $(verdict "$by_number"); of the task: $(verdict "$of_task")"
}
echo "natively: $(compare ./own)" | tee -a result
# A start may be so quick that both times are in one tick.
for _try in $(seq 20); do
    seen=$(compare usr/bin/qemu-x86_64-static ./own)
    case $seen in "self: not"*) break ;; esac
done
echo "under qemu-user: $seen" | tee -a result
cat > expected <<'T'
natively: self: as others read it; by number: as others read it; of the task: as others read it
under qemu-user: self: not as others read it; by number: not as others read it; of the task: as others read it
T
diff expected result
