//! Every C function: correct use, bad input, wrong handles, ranks that disagree; on this machine
//! with one to eight ranks, and on simulated ones. The programs are bindings-c/tests/*.c; each
//! counts its own failures and prints them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use quo_tests::{BindTo, Checkout, Job, suite};

/// A simulated machine, with its number of objects of each `QUO_obj_type_t`.
struct Machine {
    description: &'static str,
    counts: &'static str,
    ranks: usize,
}

const MACHINES: [Machine; 5] = [
    Machine { description: "pack:2 core:4 pu:1", counts: "0=1,2=2,3=2,4=8,5=8", ranks: 8 },
    Machine { description: "pack:2 numa:2 core:2 pu:2", counts: "1=4,2=2,4=8,5=16", ranks: 4 },
    Machine { description: "pack:1 core:2 pu:4", counts: "2=1,4=2,5=8", ranks: 3 },
    Machine { description: "quo/tests/machines/fast-and-slow-cores.xml", counts: "0=1", ranks: 4 },
    Machine { description: "quo/tests/machines/memory-without-cpus.xml", counts: "0=1", ranks: 2 },
];

/// A machine with devices, and the programs that need them.
const DEVICES: Machine =
    Machine { description: "quo/tests/machines/gpus.xml", counts: "0=1,2=2,4=8,5=8", ranks: 4 };
const OF_DEVICES: [&str; 2] = ["devices", "split"];

/// Runs for which the real machine matters: number of ranks, and their binding.
const LIVE: [(usize, BindTo); 6] = [
    (1, BindTo::None),
    (2, BindTo::Core),
    (2, BindTo::None),
    (3, BindTo::None),
    (4, BindTo::Core),
    (8, BindTo::None),
];

/// Variable set when the same programs run on one MPI after the other: then two places for each are
/// enough.
const BRIEF: &str = "QUO_TESTS_BRIEF";

const LIMIT: Duration = Duration::from_secs(120);

fn passes(name: &str) -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let source = format!("bindings-c/tests/{name}.c");
    let program = checkout.compile_c(&source, folder.path(), &["-pthread"])?;
    // In the full suite every program runs in every place. Otherwise each program runs in every
    // second place, alternating, so that each place gets half of the programs.
    let (brief, long) = (std::env::var_os(BRIEF).is_some(), suite::is_long());
    let number = PROGRAMS.iter().position(|it| *it == name).context("an unknown program")?;
    let in_turn = |index: usize| long || (index + number).is_multiple_of(2);
    let chosen = |index: usize| if brief { [1, 4].contains(&index) } else { in_turn(index) };
    for (_, (ranks, bind_to)) in LIVE.into_iter().enumerate().filter(|it| chosen(it.0)) {
        let job = Job::new(ranks, &program).bind_to(bind_to).limit(LIMIT);
        job.run()?.expect_success().with_context(|| format!("{ranks} ranks, {bind_to:?}"))?;
    }
    let chosen = |index: usize| if brief { [1, 3].contains(&index) } else { in_turn(index) };
    let everywhere = MACHINES.into_iter().enumerate().filter(|it| chosen(it.0)).map(|it| it.1);
    let devices = OF_DEVICES.contains(&name).then_some(DEVICES);
    for machine in everywhere.chain(devices) {
        let description = if machine.description.ends_with(".xml") {
            checkout.root().join(machine.description).display().to_string()
        } else {
            machine.description.to_owned()
        };
        let job = Job::new(machine.ranks, &program)
            .topology(&description)
            .env("QUO_TEST_EXPECT", machine.counts)
            .limit(LIMIT);
        job.run()?.expect_success().with_context(|| description)?;
    }
    Ok(())
}

/// Defines one test per program, and the list of all programs.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() -> Result<()> {
                passes(stringify!($name))
            }
        )*
    };
}

programs! {
    auto_distrib
    auto_distrib_with_policy
    barrier
    barrier_timed
    bind_pop
    bind_push
    bind_push_cpuset
    contexts
    core_kinds
    cpuset_in_type
    cpuset_of_type
    create
    create_with_flags
    create_with_options
    dead_qids
    detach
    devices
    disagree
    explain
    f2c
    free
    get_mpi_comm_by_type
    last_error
    lending
    memory_policy
    named_barrier
    nobjs_by_type
    nobjs_in_type_by_type
    numbers
    outside_mpi
    phase
    phase_without_packages
    qids_in_type
    split
    strerror
    stringify_cbind
    topology_nonsense
    version
    xpm
}

#[test]
fn no_program_is_forgotten() -> Result<()> {
    let mut found = BTreeSet::new();
    for entry in Checkout::find()?.root().join("bindings-c/tests").read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            let stem = path.file_stem().context("a file without a name")?;
            found.insert(stem.to_string_lossy().into_owned());
        }
    }
    assert_eq!(found, PROGRAMS.iter().map(|&name| name.to_owned()).collect());
    Ok(())
}
