//! Gain of an uneven MPI+OpenMP program by `quo-run`, and loss of an even one; on request also
//! those by DLB. All are measured in turns, since the load of the machine varies.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use quo_tests::{BindTo, Launcher, Running, mpicc, run_compiler};
use serde_json::{Value, json};

use crate::{project, release};

pub const HEADINGS: [&str; 4] = ["program", "without", "with", ""];

const LIMIT: Duration = Duration::from_secs(120);
const STEPS: &str = "40";
/// Regions of the two ranks in each step.
const UNEVEN: [&str; 2] = ["60", "20"];
const EVEN: [&str; 2] = ["40", "40"];
/// Turns in a round.
const TURNS: usize = 5;

/// Settings of DLB for bound ranks: each rank lends its CPU in MPI's blocking calls, and regions
/// borrow by masks.
const DLB: [(&str, &str); 3] = [
    ("DLB_ARGS", "--lewi --ompt --lewi-affinity=mask --quiet"),
    ("OMP_WAIT_POLICY", "passive"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// Times of both programs in seconds.
#[derive(Clone, Copy)]
struct Pair {
    uneven: f64,
    even: f64,
}

/// One turn: the programs without a tool and with it.
#[derive(Clone, Copy)]
struct Turn {
    without: Pair,
    with: Pair,
}

pub struct Lending {
    quo_run: Vec<Turn>,
    /// With the runtime of the peer, by `quo-run` and by the peer.
    quo_run_there: Vec<Turn>,
    dlb: Vec<Turn>,
}

/// Objects that the ranks preload for DLB.
pub struct Peer<'a> {
    /// DLB's object for MPI.
    pub dlb: &'a Path,
    /// OpenMP runtime with OMPT, such as LLVM's.
    pub runtime: &'a Path,
}

enum With<'a> {
    Nothing,
    QuoRun,
    /// An OpenMP runtime in place of the compiler's.
    Runtime(&'a Peer<'a>),
    QuoRunThere(&'a Peer<'a>),
    Dlb(&'a Peer<'a>),
}

struct Programs {
    example: PathBuf,
    quo_run: PathBuf,
}

/// Runs all turns.
pub fn run(rounds: u8, peer: Option<&Peer<'_>>) -> Result<Lending> {
    let quo_run = release::build_library()?.join("quo-run");
    let folder = project::target()?.join("xtask/benches");
    std::fs::create_dir_all(&folder)?;
    let example = folder.join("imbalance");
    let mut compiler = Command::new(mpicc());
    compiler.args(["-std=gnu11", "-O2", "-fopenmp"]);
    compiler.arg(project::root().join("examples/imbalance/imbalance.c"));
    run_compiler(compiler.arg("-o").arg(&example))?;
    let programs = Programs { example, quo_run };
    let (mut quo_run, mut quo_run_there, mut dlb) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS * usize::from(rounds) {
        let (without, with) = (programs.pair(&With::Nothing)?, programs.pair(&With::QuoRun)?);
        quo_run.push(Turn { without, with });
        if let Some(peer) = peer {
            let without = programs.pair(&With::Runtime(peer))?;
            let with = programs.pair(&With::QuoRunThere(peer))?;
            quo_run_there.push(Turn { without, with });
            dlb.push(Turn { without, with: programs.pair(&With::Dlb(peer))? });
        }
    }
    Ok(Lending { quo_run, quo_run_there, dlb })
}

impl Programs {
    fn pair(&self, with: &With<'_>) -> Result<Pair> {
        Ok(Pair { uneven: self.seconds(with, UNEVEN)?, even: self.seconds(with, EVEN)? })
    }

    fn seconds(&self, with: &With<'_>, work: [&str; 2]) -> Result<f64> {
        let launcher = Launcher::find()?;
        let launch = launcher.command(2, BindTo::Core);
        let lends = matches!(with, With::QuoRun | With::QuoRunThere(_));
        let program: &Path = if lends { &self.quo_run } else { Path::new("env") };
        let mut command = Command::new(program);
        command.args(lends.then_some("--")).arg(launch.get_program()).args(launch.get_args());
        command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let objects = match with {
            With::Nothing | With::QuoRun => None,
            // `quo-run` adds its object to the list, and passes it on.
            With::QuoRunThere(peer) => {
                command.env("LD_PRELOAD", peer.runtime);
                None
            }
            With::Runtime(peer) => Some(peer.runtime.as_os_str().to_owned()),
            With::Dlb(peer) => Some(std::env::join_paths([peer.dlb, peer.runtime])?),
        };
        if let Some(objects) = objects {
            launcher.pass(&mut command, OsStr::new("LD_PRELOAD"), &objects);
        }
        if let With::Dlb(_) = with {
            command.envs(DLB);
        }
        command.env("OMP_NUM_THREADS", "1").arg(&self.example).arg(STEPS).args(work);
        let description = format!("{command:?}");
        let outcome = Running::start(&mut command, &description, LIMIT)?.finish()?;
        outcome.expect_success()?;
        let line = outcome.stdout.lines().find(|line| line.contains(" s, fastest step"));
        let seconds = line.and_then(|line| line.split(' ').next()?.parse().ok());
        seconds.with_context(|| format!("the example printed no seconds: {}", outcome.report()))
    }
}

impl Lending {
    pub fn lines(&self) -> Vec<[String; 4]> {
        let mut lines = lines("quo-run", &self.quo_run);
        if !self.dlb.is_empty() {
            lines.extend(self::lines("quo-run, LLVM's OpenMP", &self.quo_run_there));
            lines.extend(self::lines("DLB, LLVM's OpenMP", &self.dlb));
        }
        lines
    }

    pub fn to_json(&self) -> Value {
        let pair = |pair: Pair| json!({"uneven": pair.uneven, "even": pair.even});
        let turn = |turn: &Turn| json!({"without": pair(turn.without), "with": pair(turn.with)});
        let all = |turns: &[Turn]| turns.iter().map(turn).collect::<Value>();
        json!({
            "quo_run": all(&self.quo_run),
            "quo_run_there": all(&self.quo_run_there),
            "dlb": all(&self.dlb),
        })
    }
}

fn lines(tool: &str, turns: &[Turn]) -> Vec<[String; 4]> {
    let of = |value: fn(&Turn) -> f64| median(turns.iter().map(value).collect());
    let gain = of(|Turn { without, with }| {
        (without.uneven - with.uneven) / (without.uneven - without.even)
    });
    let seconds = |value: f64| format!("{value:.3} s");
    vec![
        [
            format!("one rank with three times the work ({tool})"),
            seconds(of(|turn| turn.without.uneven)),
            seconds(of(|turn| turn.with.uneven)),
            format!("{:.0} % of the possible gain", 100.0 * gain),
        ],
        [
            format!("ranks with equal work ({tool})"),
            seconds(of(|turn| turn.without.even)),
            seconds(of(|turn| turn.with.even)),
            format!("{:.3} x", of(|turn| turn.with.even / turn.without.even)),
        ],
    ]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_is_a_share_of_what_even_work_would_gain() {
        let turn = |uneven| Turn {
            without: Pair { uneven: 3.0, even: 2.0 },
            with: Pair { uneven, even: 2.02 },
        };
        let lines = lines("tool", &[turn(2.1), turn(2.2), turn(9.0)]);
        assert_eq!(lines[0][3], "80 % of the possible gain");
        assert_eq!(lines[1][3], "1.010 x");
    }
}
