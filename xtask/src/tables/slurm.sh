#!/bin/sh
# The Slurm of Debian 12, 13 and unstable, each in a folder of its own (root, mmdebstrap): see slurm_inside.sh.
# ROOT: the checkout; CACHE: a folder to keep the systems in.
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "Slurm needs root" >&2
    exit 0
fi
for suite in bookworm trixie sid; do
    root=$CACHE/slurm-$suite
    if [ ! -d "$root" ]; then
        command -v mmdebstrap > /dev/null || continue
        mmdebstrap --mode=root --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' \
            --include=slurmctld,slurmd,slurm-client,slurmdbd,munge,mariadb-server,procps,iproute2 \
            "$suite" "$root.unfinished" >&2
        mv "$root.unfinished" "$root"
    fi
    cp "$ROOT/xtask/src/tables/slurm_inside.sh" "$root/opt/"
    mkdir -p "$root/opt/client"
    cp "$CACHE"/slurm-bookworm/usr/lib/*/libmariadb.so.3 "$root/opt/client/"
    timeout 300 unshare --mount --propagation private --pid --net --uts --ipc --fork --kill-child sh -c '
        mount --bind "$1" "$1"
        cd "$1"
        mount --rbind /dev dev
        mount -t tmpfs tmpfs run
        mount -t tmpfs -o mode=1777 tmpfs dev/shm
        mount -t proc proc proc
        exec chroot . sh /opt/slurm_inside.sh' sh "$root" || echo "$suite: $root/tmp/slurm-bed.log" >&2
done
