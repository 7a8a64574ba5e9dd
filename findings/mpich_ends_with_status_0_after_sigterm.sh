#!/bin/sh
# Finding: mpiexec of MPICH up to 4.0 that is sent SIGTERM kills the ranks, and now and then ends with 0, without a message.
#
# Software: mpich 4.0.3 and 4.1.3 from PyPI (3.4.3 as 4.0.3; 4.2.3, 4.3.2 and 5.0.2 as 4.1.3); python3.
# Expected by most: a job that was ended before its work was done does not succeed; an equal signal has an equal status.
# Behaviour: two ranks that sleep, SIGTERM to mpiexec: 4.0.3 ends with 15 and its message or with 0 and no word, 6 of 30
#   times here; 4.1.3 with 15 every time.
# Who meets it: batch scripts with `mpiexec ... && next step` whose job is ended early, on Debian 12 and Ubuntu 22.04;
#   tools that start a job again unless it succeeded.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 4.0.3 4.1.3; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet --disable-pip-version-check "mpich==$version" 2> said || { tail -1 said; exit 77; }
done
cat > ends.py << 'B'
import signal, subprocess, sys, time

version, rounds = sys.argv[1], int(sys.argv[2])
seen = set()
for _ in range(rounds):
    job = subprocess.Popen(
        [f"{version}/bin/mpiexec", "-n", "2", "sleep", "20"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    time.sleep(0.4)
    job.send_signal(signal.SIGTERM)
    said, _ = job.communicate(timeout=15)
    seen.add((job.returncode, "said" if b"Terminated" in said else "silent"))
    if len(seen) == 2:
        break
print(f"MPICH {version}:", *sorted(seen))
B
{ python3 ends.py 4.0.3 150; python3 ends.py 4.1.3 50; } | tee all
diff all - << 'B'
MPICH 4.0.3: (0, 'silent') (15, 'said')
MPICH 4.1.3: (15, 'said')
B
