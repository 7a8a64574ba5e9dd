# Becomes a host: first process of new namespaces, which end with it.
# Arguments: host name, text of /etc/hosts, size of /dev/shm.
set -eu
umask 022
# In the old /proc this is the number by which everybody outside knows us.
read -r pid rest < /proc/self/stat
echo "$1" > /proc/sys/kernel/hostname
mount -t proc proc /proc
mount -t tmpfs -o "mode=1777,size=$3" tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -m 1777 /run/tmp /run/lock
printf '%s\n' "$2" > /run/etc-hosts
if [ -e /etc/hosts ]; then mount --bind /run/etc-hosts /etc/hosts; fi
ip link set lo up
cd /
echo "$pid"
# Whoever makes us holds the other end; when it is gone, so are we, unless we are told to stay.
# Those who ignore the end of children need not wait for orphans: the kernel does.
read -r word
case $word in
    stay) exec env --ignore-signal=CHLD sleep infinity < /dev/null > /dev/null 2>&1 ;;
    hold) exec env --ignore-signal=CHLD cat > /dev/null 2>&1 ;;
esac
