//! Gain of an uneven MPI+OpenMP program by `quo-run`, and loss of an even one. All in turns, since other work on the
//! machine comes and goes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use quo_tests::{BindTo, Launcher, Running, mpicc, run_compiler};
use serde_json::{Value, json};

use crate::{project, release};

pub const HEADINGS: [&str; 4] = ["program", "without", "with quo-run", ""];

const LIMIT: Duration = Duration::from_secs(120);
const STEPS: &str = "10";
/// Regions of the two ranks in each step.
const UNEVEN: [&str; 2] = ["60", "20"];
const EVEN: [&str; 2] = ["40", "40"];
/// Turns in a round.
const TURNS: usize = 5;

/// Seconds of one turn.
struct Turn {
    uneven: f64,
    uneven_lent: f64,
    even: f64,
    even_lent: f64,
}

pub struct Lending(Vec<Turn>);

struct Programs {
    example: PathBuf,
    quo_run: PathBuf,
}

/// Runs all turns.
pub fn run(rounds: u8) -> Result<Lending> {
    let quo_run = release::build_library()?.join("quo-run");
    let folder = project::target()?.join("xtask/benches");
    std::fs::create_dir_all(&folder)?;
    let example = folder.join("imbalance");
    let mut compiler = Command::new(mpicc());
    compiler.args(["-std=gnu11", "-O2", "-fopenmp"]);
    compiler.arg(project::root().join("examples/imbalance/imbalance.c"));
    run_compiler(compiler.arg("-o").arg(&example))?;
    let programs = Programs { example, quo_run };
    let turn = |_| {
        Ok(Turn {
            uneven: programs.seconds(false, UNEVEN)?,
            uneven_lent: programs.seconds(true, UNEVEN)?,
            even: programs.seconds(false, EVEN)?,
            even_lent: programs.seconds(true, EVEN)?,
        })
    };
    (0..TURNS * usize::from(rounds)).map(turn).collect::<Result<_>>().map(Lending)
}

impl Programs {
    fn seconds(&self, lends: bool, work: [&str; 2]) -> Result<f64> {
        let launch = Launcher::find()?.command(2, BindTo::Core);
        let program: &Path = if lends { &self.quo_run } else { Path::new("env") };
        let mut command = Command::new(program);
        command.args(lends.then_some("--")).arg(launch.get_program()).args(launch.get_args());
        command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("OMP_NUM_THREADS", "1").arg(&self.example).arg(STEPS).args(work);
        let description = format!("{command:?}");
        let outcome = Running::start(&mut command, &description, LIMIT)?.finish()?;
        outcome.expect_success()?;
        let seconds = outcome.stdout.split(' ').next().and_then(|number| number.parse().ok());
        seconds.with_context(|| format!("the example printed no seconds: {}", outcome.report()))
    }
}

impl Lending {
    pub fn lines(&self) -> Vec<[String; 4]> {
        let of = |value: fn(&Turn) -> f64| median(self.0.iter().map(value).collect());
        let ideal = of(|turn| turn.even);
        let gain = of(|turn| (turn.uneven - turn.uneven_lent) / (turn.uneven - turn.even));
        let seconds = |value: f64| format!("{value:.3} s");
        vec![
            [
                "one rank with three times the work".to_owned(),
                seconds(of(|turn| turn.uneven)),
                seconds(of(|turn| turn.uneven_lent)),
                format!("{:.0} % of the possible gain", 100.0 * gain),
            ],
            [
                "ranks with equal work".to_owned(),
                seconds(ideal),
                seconds(of(|turn| turn.even_lent)),
                format!("{:.3} x", of(|turn| turn.even_lent / turn.even)),
            ],
        ]
    }

    pub fn to_json(&self) -> Value {
        let turn = |turn: &Turn| {
            json!({
                "uneven": turn.uneven,
                "uneven_lent": turn.uneven_lent,
                "even": turn.even,
                "even_lent": turn.even_lent,
            })
        };
        self.0.iter().map(turn).collect()
    }
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
        let turn = |uneven_lent| Turn { uneven: 3.0, uneven_lent, even: 2.0, even_lent: 2.02 };
        let lines = Lending(vec![turn(2.1), turn(2.2), turn(9.0)]).lines();
        assert_eq!(lines[0][3], "80 % of the possible gain");
        assert_eq!(lines[1][3], "1.010 x");
    }
}
