#!/bin/sh
# Finding: the peak memory that wait4 gives for a command is at least that of the process that started it: 300 MB for
#   /bin/true under a large program. GNU's time between the two makes it right.
#
# Software: Linux (seen with 6.18); time 1.9-0.2, package of Debian 12; Python 3.8 or later (seen with 3.11.7).
# Expected by most: ru_maxrss of a waited-for child counts what the command itself had, from its exec on.
# Behaviour: a child begins with the resident memory of its parent, by fork as well as by vfork, and exec keeps the highest
#   value of the process. So the figure is that of the parent at the start if that is larger. time(1) forks from a
#   process of its own, which is small: it says some MB in the same place.
# Who meets it: harnesses and drivers that start programs from a process with much data (a test runner, a workflow in
#   Python, an MPI rank that spawns a helper) and report ru_maxrss of the programs: all have the same, large peak.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq time=1.9-0.2 2> said || { tail -1 said; exit 77; }
dpkg-deb -x time_*.deb tree
command -v python3 > where || exit 77
cat > large.py <<'P'
import os
import subprocess

block = bytearray(300 << 20)
block[::4096] = b"x" * len(block[::4096])
peaks = []
child = subprocess.Popen(["/bin/true"])
peaks.append(os.wait4(child.pid, 0)[2].ru_maxrss)
peaks.append(os.wait4(os.posix_spawn("/bin/true", ["true"], {}), 0)[2].ru_maxrss)
child = os.fork()
if child == 0:
    os.execv("/bin/true", ["true"])
peaks.append(os.wait4(child, 0)[2].ru_maxrss)
timed = subprocess.run(["tree/usr/bin/time", "-f", "%M", "/bin/true"], stderr=subprocess.PIPE, text=True).stderr
print(*["large" if peak > 300 << 10 else "small" for peak in [*peaks, int(timed)]])
P
found=$(python3 large.py)
echo "peak of /bin/true by subprocess, posix_spawn, fork, and by time(1): $found"
[ "$found" = "large large large small" ]
