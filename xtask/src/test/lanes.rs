//! Steps in parallel, each in its own process: most suites wait more than they compute, or have one
//! thread, and a step that hangs is ended with everything it started without affecting the others.

use std::collections::{BTreeMap, VecDeque};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use super::verdict::Verdict;

/// Mark of the last line of a step's process, for the parent command.
const MARK: &str = "\u{1}verdict";

/// Steps that must follow one another.
pub struct Chain {
    steps: VecDeque<String>,
    /// The first step builds the programs that the others run: they are skipped if it fails.
    first_builds: bool,
}

impl Chain {
    pub fn new(steps: impl IntoIterator<Item = String>) -> Chain {
        Chain { steps: steps.into_iter().collect(), first_builds: false }
    }

    pub fn after_build(steps: impl IntoIterator<Item = String>) -> Chain {
        Chain { first_builds: true, ..Chain::new(steps) }
    }
}

/// Returns the default number of steps that run at once: steps with ranks or compilers use more
/// than one core already.
pub fn width() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 { 1 } else { (cores / 2).clamp(2, 4) }
}

/// Runs all steps, `width` at once; earlier chains are started first. Each step's process also gets
/// these variables; its output is printed in one piece when it ends.
pub fn run(
    chains: Vec<Chain>,
    width: usize,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<Verdict>> {
    let hall = Hall {
        state: Mutex::new(State { chains: chains.into_iter().map(Some).collect(), out: 0 }),
        returned: Condvar::new(),
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> =
            (0..width.max(1)).map(|_| scope.spawn(|| lane(&hall, variables))).collect();
        let mut verdicts = Vec::new();
        for lane in lanes {
            verdicts.extend(lane.join().map_err(|_| anyhow::anyhow!("a lane panicked"))??);
        }
        Ok(verdicts)
    })
}

/// The queue in which chains wait for a lane.
struct Hall {
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    /// Chains; `None` while one of the chain's steps runs.
    chains: Vec<Option<Chain>>,
    out: usize,
}

impl Hall {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<(usize, Chain)> {
        let mut state = self.lock();
        loop {
            let ready = |it: &Option<Chain>| it.as_ref().is_some_and(|it| !it.steps.is_empty());
            if let Some(place) = state.chains.iter().position(ready) {
                state.out += 1;
                return state.chains[place].take().map(|chain| (place, chain));
            }
            if state.out == 0 {
                return None;
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put_back(&self, place: usize, chain: Chain) {
        let mut state = self.lock();
        state.chains[place] = Some(chain);
        state.out -= 1;
        self.returned.notify_all();
    }
}

fn lane(hall: &Hall, variables: &BTreeMap<String, String>) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    let mut trouble = None;
    while let Some((place, mut chain)) = hall.take() {
        if let Some(step) = chain.steps.pop_front() {
            let verdict = step_apart(&step, variables).unwrap_or_else(|error| {
                trouble = Some(error);
                Verdict::failure(&step)
            });
            if chain.first_builds && verdict.tally.failed > 0 {
                let reason = format!("{step} failed");
                let steps = chain.steps.drain(..);
                verdicts.extend(steps.map(|step| Verdict::left_out(&step, &reason)));
            }
            chain.first_builds = false;
            verdicts.push(verdict);
        }
        hall.put_back(place, chain);
    }
    trouble.map_or(Ok(verdicts), Err)
}

/// Runs one step in its own process, which finds it by its name.
fn step_apart(name: &str, variables: &BTreeMap<String, String>) -> Result<Verdict> {
    // Under this name even if the build has replaced the running program.
    let output = Command::new("/proc/self/exe")
        .envs(variables)
        .args(["test", "--step", name])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting the step {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (said, verdict) = read(&text);
    print!("{said}");
    if verdict.is_none() {
        println!("{name}: ended without a verdict: {}", output.status);
    }
    Ok(verdict.unwrap_or_else(|| Verdict::failure(name)))
}

/// Prints the verdict for the command that started the step.
pub fn tell(verdict: &Verdict) -> Result<()> {
    println!("{MARK} {}", serde_json::to_string(verdict)?);
    Ok(())
}

fn read(text: &str) -> (&str, Option<Verdict>) {
    let Some((said, last)) = text.rsplit_once(MARK) else { return (text, None) };
    (said, serde_json::from_str(last.trim()).ok())
}

/// Ends a step's process with the process that started it.
pub fn end_with_parent() {
    let signal = rustix::process::Signal::TERM;
    let _old_kernel = rustix::process::set_parent_process_death_signal(Some(signal));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    #[test]
    fn a_verdict_is_told_from_other_output() {
        let verdict = Verdict {
            step: "a step".into(),
            tally: Tally { passed: 3, failed: 1, skipped: 2 },
            flaky: vec!["one".into()],
            ..Verdict::default()
        };
        let told = format!("a step ... ok\n{MARK} {}\n", serde_json::to_string(&verdict).unwrap());
        assert_eq!(read(&told), ("a step ... ok\n", Some(verdict)));
        assert_eq!(read("killed"), ("killed", None));
        assert_eq!(read("x\n\u{1}verdict {").1, None);
    }

    #[test]
    fn chains_run_in_order_one_step_at_a_time() {
        let chain = |steps: &[&str]| Chain::new(steps.iter().map(|step| (*step).to_owned()));
        let chains = vec![Some(chain(&["a1", "a2"])), Some(chain(&["b1"]))];
        let hall = Hall { state: Mutex::new(State { chains, out: 0 }), returned: Condvar::new() };
        let (place_a, mut a) = hall.take().unwrap();
        let (place_b, mut b) = hall.take().unwrap();
        assert_eq!((place_a, place_b), (0, 1));
        a.steps.pop_front();
        b.steps.pop_front();
        hall.put_back(place_b, b);
        hall.put_back(place_a, a);
        let (place, mut a) = hall.take().unwrap();
        assert_eq!((place, a.steps.pop_front().as_deref()), (0, Some("a2")));
        hall.put_back(place, a);
        assert!(hall.take().is_none());
    }
}
