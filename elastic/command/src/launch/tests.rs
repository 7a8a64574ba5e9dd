use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    launch: Launch,
}

fn planned(version: &str, line: &str, set: &[(&str, &str)]) -> Result<String> {
    let words = ["launch"].into_iter().chain(line.split(' '));
    let launch = Line::try_parse_from(words)?.launch;
    let variable = |name: &str| {
        let found = set.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let mpi = Mpi::of(version).expect("a known MPI");
    let own = Path::new("/opt/quo/bin/quo-elastic");
    let plan = plan(&launch, &mpi, &Machine { cpus: 4, own, variable: &variable })?;
    Ok(text_of(&plan) + plan.limit.as_deref().unwrap_or_default())
}

const OPEN_MPI_4: &str = "mpirun (Open MPI) 4.1.4\n\nReport bugs";
const OPEN_MPI_5: &str = "mpirun (Open MPI) 5.0.7\n\nReport bugs";
const MPICH_5: &str = "HYDRA build details:\n    Version:                                 5.0.2\n";
const MPICH_4: &str = "HYDRA build details:\n    Version:                                 4.0.2\n";
const INTEL: &str = "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260101\n";

#[test]
fn each_mpi_gets_its_own_words() {
    for (version, line, set, expected) in [
        (
            OPEN_MPI_4,
            "-n 2..4 ./app --own",
            &[][..],
            "QUO_ELASTIC_RANKS=2..4 PMIX_MCA_gds=hash mpirun -n 2 --host localhost:4 -x QUO_ELASTIC_RANKS ./app --own\n",
        ),
        (
            OPEN_MPI_5,
            "-n 2..8 ./app",
            &[],
            "QUO_ELASTIC_RANKS=2..8 OMPI_MCA_btl_tcp_disable_family=6 OMPI_MCA_mpi_yield_when_idle=1 mpirun -n 2 \
             --host localhost:8 --map-by :oversubscribe --bind-to none -x QUO_ELASTIC_RANKS ./app\n",
        ),
        (
            MPICH_5,
            "-n 2..4 --name heat ./app",
            &[],
            "QUO_ELASTIC_RANKS=2..4 QUO_ELASTIC_NAME=heat mpirun -n 2 ./app\n",
        ),
        (MPICH_4, "-n 2..4 ./app", &[], "QUO_ELASTIC_RANKS=2..4 mpirun -n 4 ./app\n"),
        (INTEL, "-n 2..4 ./app", &[], "QUO_ELASTIC_RANKS=2..4 mpirun -n 4 ./app\n"),
        (
            INTEL,
            "-n 2..4 ./app",
            &[("I_MPI_SPAWN", "on")],
            "QUO_ELASTIC_RANKS=2..4 mpirun -n 2 ./app\n",
        ),
        (
            MPICH_5,
            "-n 1..8 --parked --hosts n1:4,n2:4 ./app",
            &[],
            "QUO_ELASTIC_RANKS=1..8 QUO_ELASTIC_HOSTS=n1:4,n2:4 mpirun -n 8 -hosts n1:4,n2:4 ./app\n",
        ),
        (
            OPEN_MPI_4,
            "-n 2..400 ./app",
            &[("SLURM_JOB_ID", "7")],
            "QUO_ELASTIC_RANKS=2..400 PMIX_MCA_gds=hash mpirun -n 2 -x QUO_ELASTIC_RANKS ./app\n",
        ),
    ] {
        let text = planned(version, line, set).unwrap();
        assert!(text.starts_with(expected), "{text}\nwanted {expected}");
    }
}

#[test]
fn reasons_say_what_cannot_be_spawned() {
    let text = planned(MPICH_4, "-n 2..4 ./app", &[]).unwrap();
    assert!(text.contains("- MPICH 4.0.2: MPICH 4 cannot start processes, so 4"), "{text}");
    let text = planned(OPEN_MPI_4, "-n 2..4 ./app", &[]).unwrap();
    assert!(text.contains("- Open MPI 4.1.4: 2 processes are launched, up to 2"), "{text}");
}

#[test]
fn plan_and_log_are_variables_of_the_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan");
    std::fs::write(&file, "at 3: size 2\nafter 5s: grow 1 # more\n").unwrap();
    let line = format!("-n 1..4 --plan {} --log events.json ./app", file.display());
    let text = planned(OPEN_MPI_4, &line, &[]).unwrap();
    assert!(text.contains("PLAN='at 3: size 2\nafter 5s: grow 1 # more' "), "{text}");
    let log = std::path::absolute("events.json").unwrap();
    assert!(text.contains(&format!("QUO_ELASTIC_LOG={} ", log.display())), "{text}");
    assert!(text.contains("-x QUO_ELASTIC_PLAN -x QUO_ELASTIC_LOG ./app"), "{text}");
    std::fs::write(&file, "at 3: size two\n").unwrap();
    let wrong = planned(OPEN_MPI_4, &line, &[]).unwrap_err().to_string();
    assert!(wrong.contains("--plan") && wrong.contains("line 1, column 12"), "{wrong}");
    let missing = planned(OPEN_MPI_4, "-n 1..4 --plan no/such ./app", &[]).unwrap_err();
    assert!(missing.to_string().contains("No such file"), "{missing}");
}

#[test]
fn plan_longer_than_a_variable_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan");
    let line = format!("-n 1..4 --plan {} ./app", file.display());
    // Few steps in long lines: their number has a limit, too.
    let step = format!("{:<39}\n", "at 3: size 2");
    let steps = LONGEST_PLAN / step.len();
    std::fs::write(&file, step.repeat(steps)).unwrap();
    planned(OPEN_MPI_4, &line, &[]).unwrap();
    std::fs::write(&file, step.repeat(steps + 2)).unwrap();
    let long = planned(OPEN_MPI_4, &line, &[]).unwrap_err().to_string();
    assert!(long.contains("a variable of the ranks at most 131054: shorten"), "{long}");
}

#[test]
fn log_that_cannot_be_written_is_found() {
    let folder = tempfile::tempdir().unwrap();
    can_append(&folder.path().join("events")).unwrap();
    assert!(!folder.path().join("events").exists());
    std::fs::write(folder.path().join("events"), "one\n").unwrap();
    can_append(&folder.path().join("events")).unwrap();
    let pipe = folder.path().join("pipe");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        kind,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for wrong in ["", "none/events", "events/more", "pipe"] {
        assert!(can_append(&folder.path().join(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    for line in
        ["-n 8 ./app", "-n 4..2 ./app", "-n 0..2 ./app", "-n 1..2 --hosts n1 ./app", "-n 1..2"]
    {
        assert!(planned(OPEN_MPI_4, line, &[]).is_err(), "{line}");
    }
    let error = planned(OPEN_MPI_4, "-n 2..9 --hosts n1:4,n2:4 ./app", &[]).unwrap_err();
    assert_eq!(error.to_string(), "launch: 9 ranks are asked for, the hosts have 8 slots");
}

#[test]
fn allocation_smaller_than_the_largest_size_is_said() {
    for (line, name, value, slots) in [
        ("-n 2..12 ./app", "SLURM_TASKS_PER_NODE", "4(x2),3", Some(11)),
        ("-n 2..11 ./app", "SLURM_TASKS_PER_NODE", "4(x2),3", None),
        ("-n 2..9 --parked ./app", "PBS_NP", "8", Some(8)),
        ("-n 2..8 --hosts n1:8 ./app", "LSB_DJOB_NUMPROC", "4", None),
        ("-n 2..8 ./app", "SLURM_TASKS_PER_NODE", "several", None),
    ] {
        let text = planned(OPEN_MPI_4, line, &[("SLURM_JOB_ID", "7"), (name, value)]).unwrap();
        let said = slots.map(|slots| format!("the allocation has {slots} slots ({name})"));
        assert!(said.as_ref().is_none_or(|said| text.contains(said)), "{text}");
        assert_eq!(said.is_some(), text.contains("cannot reach"), "{text}");
    }
}

/// Variables of a batch script of Slurm.
const IN_SLURM: &[(&str, &str)] =
    &[("SLURM_JOB_ID", "7"), ("SLURMD_NODENAME", "n1"), ("SLURM_TASKS_PER_NODE", "1")];

#[test]
fn launcher_for_slurm_goes_on_and_asks_the_agent() {
    for (version, line, expected) in [
        (
            OPEN_MPI_4,
            "-n 1..8 --slurm ./app",
            "QUO_ELASTIC_RANKS=1..8 QUO_ELASTIC_NAME=7 QUO_ELASTIC_SLURM=1 PMIX_MCA_gds=hash mpirun -n 1 \
             --enable-recovery --mca routed direct --mca plm rsh --mca plm_rsh_agent \
             '/opt/quo/bin/quo-elastic slurm-agent' -x QUO_ELASTIC_RANKS -x QUO_ELASTIC_NAME -x QUO_ELASTIC_SLURM \
             ./app\n",
        ),
        (
            MPICH_5,
            "-n 1..8 --slurm --name heat ./app",
            "QUO_ELASTIC_RANKS=1..8 QUO_ELASTIC_NAME=heat QUO_ELASTIC_SLURM=1 HYDRA_LAUNCHER_EXTRA_ARGS=slurm-agent \
             mpirun -n 1 -launcher rsh -launcher-exec /opt/quo/bin/quo-elastic ./app\n",
        ),
    ] {
        let text = planned(version, line, IN_SLURM).unwrap();
        assert!(text.starts_with(expected), "{text}\nwanted {expected}");
        assert!(text.contains("- QUO_ELASTIC_SLURM=1: the world adds and returns"), "{text}");
        let is_limited = text.contains("cannot reach") || text.contains("--parked");
        assert!(!is_limited, "new nodes are not counted: {text}");
    }
}

#[test]
fn slurm_with_another_mpi_or_option_is_refused() {
    let outside = &[][..];
    let on_another_host = &IN_SLURM[..1];
    for (version, line, set, cause, remedy) in [
        (OPEN_MPI_4, "", outside, "SLURM_JOB_ID has no number", "in a script for sbatch"),
        (OPEN_MPI_4, "", on_another_host, "is no node of job 7", "in a script for sbatch"),
        (OPEN_MPI_5, "", IN_SLURM, "Open MPI 5.0.7 takes no new nodes", "or use Open MPI 4.1"),
        (MPICH_4, "", IN_SLURM, "MPICH 4.0.2 cannot start processes", "give --parked instead"),
        (INTEL, "", IN_SLURM, "Intel MPI is not known", "or MPICH 5"),
        (MPICH_5, "--hosts n1:8 ", IN_SLURM, "--hosts names others", "leave one of them out"),
        (MPICH_5, "--parked ", IN_SLURM, "launched at once", "leave one of them out"),
        (MPICH_5, "--restarts 1 ", IN_SLURM, "returned some", "submit the job again"),
    ] {
        let line = format!("-n 1..8 --slurm {line}./app");
        let error = planned(version, &line, set).unwrap_err().to_string();
        assert!(error.contains(cause) && error.contains(remedy), "{error}");
    }
    assert!(planned(MPICH_5, "-n 1..8 --slurm ./app", on_another_host).is_ok());
}

#[test]
fn agent_in_a_path_that_open_mpi_splits_is_refused() {
    let mpi = Mpi::of(OPEN_MPI_4).unwrap();
    for own in ["/my tools/quo-elastic", "/a:b/quo-elastic"] {
        let error = slurm::add(&mut Plan::default(), &mpi, Path::new(own)).unwrap_err();
        assert!(error.to_string().contains("in another folder"), "{error}");
    }
    let mut plan = Plan::default();
    slurm::add(&mut plan, &Mpi::of(MPICH_5).unwrap(), Path::new("/my tools/q")).unwrap();
    assert!(plan.words.contains(&"/my tools/q".into()), "one word: {plan:?}");
}
