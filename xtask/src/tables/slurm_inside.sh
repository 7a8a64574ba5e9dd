# Runs in a Debian of its own, as root: a Slurm of two nodes and one that is down, the same jobs in every version, and what
# its commands print: `column<TAB>row<TAB>cell`. Numbers of jobs and times are replaced by words, and a bar between fields
# by a semicolon.
set -eu
exec 3>&1 >/tmp/slurm-bed.log 2>&1
ip link set lo up
ip link add eth0 type veth peer name far0 # names resolve only where there is more than the loopback
ip address add 192.0.2.1/24 dev eth0
ip link set eth0 up
hostname front
mkdir -p /run/munge /run/mysqld /run/slurm /etc/slurm
grep -q front /etc/hosts || printf '127.0.0.1 localhost\n192.0.2.1 front\n' >> /etc/hosts
release=$(slurmctld -V | sed 's/.* //')
cat > /etc/slurm/slurm.conf <<C
ClusterName=quo
SlurmctldHost=front
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool-%n
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
NodeName=n1 NodeHostname=front NodeAddr=192.0.2.1 Port=7001 CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname=front NodeAddr=192.0.2.1 Port=7002 CPUs=2 RealMemory=1000
NodeName=n3 NodeHostname=front NodeAddr=192.0.2.1 Port=7003 CPUs=2 RealMemory=1000 State=DOWN
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
C
# Version 1 of control groups touches nothing until it is used; releases before this one cannot do without.
cgroups=disabled
[ "$release" \> 23.11 ] || cgroups=cgroup/v1
printf 'CgroupPlugin=%s\nCgroupMountpoint=/run/slurm\n' $cgroups > /etc/slurm/cgroup.conf
cat > /etc/slurm/slurmdbd.conf <<C
AuthType=auth/munge
DbdHost=localhost
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
PidFile=/run/slurm/slurmdbd.pid
LogFile=/run/slurm/slurmdbd.log
C
chmod 600 /etc/slurm/slurmdbd.conf
head -c 1024 /dev/urandom > /run/munge/key
chmod 600 /run/munge/key
munged --force --key-file=/run/munge/key --pid-file=/run/munge/pid --log-file=/run/munge/log --seed-file=/run/munge/seed
mariadb-install-db --user=root --datadir=/run/database
mariadbd --user=root --datadir=/run/database --skip-networking --socket=/run/mysqld/mysqld.sock \
    --pid-file=/run/mysqld/mysqld.pid &
until_true() { # SECONDS COMMAND..., each second four times
    rounds=$(($1 * 4))
    shift
    while ! "$@"; do
        rounds=$((rounds - 1))
        [ $rounds -gt 0 ] || exit 1
        sleep 0.25
    done
}
until_true 60 mariadb-admin --socket=/run/mysqld/mysqld.sock ping
LD_LIBRARY_PATH=/opt/client slurmdbd -D & # of Debian 12: slurmdbd ends with 11.8.9, of Debian 13 and unstable
until_true 60 timeout 5 sacctmgr --immediate show cluster
sacctmgr --immediate add cluster quo || true
mkdir -p /run/slurm/state
slurmctld
slurmd -N n1
slurmd -N n2
is_ready() { [ "$(sinfo --noheader --nodes=n1,n2 --format=%T)" = idle ]; }
until_true 60 is_ready
is_lost() { [ "$(sinfo --noheader --nodes=n3 --format=%T)" = 'down*' ]; }
until_true 60 is_lost
export SLURM_TIME_FORMAT=%s
cell() { # ROW TEXT
    text=$(printf %s "$2" | tr '|\n' '; ')
    printf 'Slurm %s\t%s\t%s\n' "$release" "$1" "${text:+\`$text\`}" >&3
}
state() { squeue --noheader --states=all --jobs="$1" --format=%T; }
is_in() { [ "$(state "$1")" = "$2" ]; }
submit() { sbatch --parsable --output=/dev/null "$@"; }
field() { # JOB FORMAT, with times replaced
    squeue --noheader --states=all --jobs="$1" --format="$2" | sed 's/[0-9]\{10\}/TIME/g'
}
failed=$(submit --time=5 --nodelist=n1 --wrap='exit 3')
until_true 60 is_in "$failed" FAILED
runs=$(submit --nodes=1 --nodelist=n1 --job-name=runs --comment=quo-elastic --wrap='srun sleep 300')
limited=$(submit --nodes=1 --nodelist=n2 --exclusive --time=5 --wrap='sleep 300')
until_true 30 is_in "$runs" RUNNING
until_true 30 is_in "$limited" RUNNING
held=$(submit --hold --time=5 --wrap=true)
queued=$(submit --nodes=2 --time=5 --wrap=true)
behind=$(submit --nodes=2 --time=5 --wrap=true)
lacks=$(submit --nodes=3 --wrap=true)
array=$(submit --hold --array=1-3 --wrap=true)
sleep 8 # a round of the scheduler, for the reasons
cell '`sbatch --parsable`' "$(echo "$runs" | sed 's/^[0-9][0-9]*/NUMBER/')"
cell '`squeue` `%T %N %B %P` of a running job' "$(field "$runs" '%T|%N|%B|%P')"
cell '`%e %l`: its end and limit, without a limit' "$(field "$runs" '%e|%l')"
cell '`%e %l` with 5 minutes' "$(field "$limited" '%e|%l')"
cell '`%a %q`: account and quality of service of root' "$(field "$runs" '%a|%q')"
cell '`%k`: a comment, and none' "$(field "$runs" %k) $(field "$limited" %k)"
cell '`%T %N %B %S %e` of a job that waits' "$(field "$lacks" '%T|%N|%B|%S|%e')"
cell '`%r`: it is held' "$(field "$held" %r)"
cell '`%r`: it waits for nodes that are in use' "$(field "$queued" %r)"
cell '`%r`: it waits behind that one' "$(field "$behind" %r)"
scancel "$queued" "$behind"
is_first() { [ "$(field "$lacks" %r)" != Priority ]; }
until_true 60 is_first
cell '`%r`: one of its nodes is down' "$(field "$lacks" %r)"
cell '`%A %i` of a waiting array' "$(field "$array" '%A|%i' | sed "s/$array/NUMBER/g")"
steps() { squeue --noheader --steps --jobs="$runs" --format='%i|%N'; }
cell '`squeue --steps`, `%i %N`' "$(steps | sed "s/^$runs\./NUMBER./" | sort)"
cell '`sinfo` `%N %T` of a node in use, and of one that is down' "$(sinfo --noheader --nodes=n1,n3 --format='%N|%T' | sort)"
cell '`scontrol show node --oneliner`' "$(scontrol show node n1 --oneliner | tr ' ' '\n' | grep '^NodeName=\|^NodeHostName=')"
cell '`scontrol show hostnames n[1-3,2]`' "$(scontrol show hostnames 'n[1-3,2]')"
unknown=
for word in EXPEDITING LAUNCH_FAILED POWER_UP_NODE RECONFIG_FAIL REQUEUE_FED UPDATE_DB; do
    squeue --states=$word > /dev/null 2>&1 || unknown="$unknown $word"
done
cell 'states that `squeue --states` refuses' "${unknown# }"
scancel "$held"
scancel "$runs"
until_true 60 is_in "$runs" CANCELLED
cell '`squeue` `%T %N %r` of a cancelled job that had a node, and that had none' \
    "$(field "$runs" '%T|%N|%r') and $(field "$held" '%T|%N|%r')"
sleep 3
line() { # JOB
    sacct --noheader --parsable2 --allocations --jobs="$1" --format=Start,End,TimelimitRaw,NNodes,State,AllocCPUS,AllocTRES |
        sed 's/[0-9]\{10\}/TIME/g'
}
cell '`sacct --parsable2`, `Start,End,TimelimitRaw,NNodes,State,AllocCPUS,AllocTRES`: failed' "$(line "$failed")"
cell '`sacct`: running, with a limit' "$(line "$limited")"
cell '`sacct`: cancelled before it ran' "$(line "$held")"
cell '`sacct`: waits' "$(line "$lacks")"
