#!/bin/sh
# ssh for the hosts of a set: options, [user@]host, command. Open MPI and MPICH call it.
host=
while [ $# -gt 0 ]; do
    case $1 in
        -[bcDEeFIiJLlmOopQRSWw]) shift 2 ;;
        -?*) shift ;;
        *) [ -z "$host" ] || break; host=${1##*@}; shift ;;
    esac
done
if ! pid=$(cat "/run/quo-hosts/$host" 2> /dev/null) || [ -z "$host" ]; then
    echo "remote-shell: no route to host '$host'" >&2
    exit 255
fi
exec nsenter -t "$pid" -n -u -m -i -p env -i PATH="$PATH" HOME="${HOME:-/}" TMPDIR=/run/tmp \
    ${LD_LIBRARY_PATH:+LD_LIBRARY_PATH="$LD_LIBRARY_PATH"} \
    ${QUO_TESTS_MARK:+QUO_TESTS_MARK="$QUO_TESTS_MARK"} sh -c "$*"
