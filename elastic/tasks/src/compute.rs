//! Steps of tasks inside a rank: its threads steal children from each other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use rayon::prelude::*;

use super::Task;
use super::error::{TaskError, with_sources};
use super::message::Failure;

/// Work for a rank's threads.
#[derive(Debug, PartialEq)]
pub(crate) enum Job<T, O> {
    /// Split a task for children that are given out.
    Split(T),
    /// Compute a task and all its descendants.
    Compute(T),
    /// Merge the results of a task's children.
    Merge(T, Vec<O>),
}

/// Result of a job.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome<T, O> {
    Children(T, Vec<T>),
    Merged(O),
    Computed {
        output: O,
        /// Tasks computed sequentially.
        leaves: u64,
        work: u64,
        /// Seconds used by all threads together.
        seconds: f64,
    },
    /// Returned uncomputed.
    Interrupted(T),
    Failed(Failure),
}

/// State shared by the rank's main thread and its jobs.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub interrupt: AtomicBool,
    /// Work and nanoseconds of sequential calls since the last reading.
    leaves: (AtomicU64, AtomicU64),
}

impl Control {
    /// Returns the work and the seconds of sequential calls since the last time, and resets both.
    pub fn take_leaves(&self) -> (u64, f64) {
        let (work, nanoseconds) = &self.leaves;
        // The two values of a call that ends now may be read separately, which does not matter for
        // a mean.
        (work.swap(0, Ordering::Relaxed), nanoseconds.swap(0, Ordering::Relaxed) as f64 / 1e9)
    }
}

/// End of a recursion without a result.
enum Stopped {
    Interrupted,
    Failed(TaskError),
}

struct Recursion<'a> {
    threshold: u64,
    control: &'a Control,
    leaves: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Recursion<'_> {
    fn compute<T: Task>(&self, task: &T) -> Result<T::Output, Stopped> {
        if self.control.interrupt.load(Ordering::Relaxed) {
            return Err(Stopped::Interrupted);
        }
        if task.size() <= self.threshold {
            let (output, taken) = self.timed(|| task.sequential())?;
            self.control.leaves.0.fetch_add(task.work(), Ordering::Relaxed);
            self.control.leaves.1.fetch_add(taken, Ordering::Relaxed);
            self.leaves.fetch_add(1, Ordering::Relaxed);
            return Ok(output);
        }
        let (children, _) = self.timed(|| split(task))?;
        // The first error found ends the rest; only among ranks does the caller of `run` prefer a
        // real one.
        let results: Result<Vec<_>, _> =
            children.par_iter().with_max_len(1).map(|child| self.compute(child)).collect();
        let results = results?;
        Ok(self.timed(|| task.merge(results))?.0)
    }

    /// Runs a step and adds its duration; returns the nanoseconds, too.
    fn timed<R>(&self, step: impl FnOnce() -> Result<R, TaskError>) -> Result<(R, u64), Stopped> {
        let begin = Instant::now();
        let done = step().map_err(Stopped::Failed)?;
        let taken = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(taken, Ordering::Relaxed);
        Ok((done, taken))
    }
}

/// Returns the children of a task, each smaller than it, so that the recursion ends.
fn split<T: Task>(task: &T) -> Result<Vec<T>, TaskError> {
    let children = task.split()?;
    let size = task.size();
    if children.is_empty() {
        return Err(format!("split: a task of size {size} gave no children").into());
    }
    match children.iter().map(Task::size).find(|&child| child >= size) {
        Some(child) => Err(format!(
            "split: a task of size {size} gave a child of size {child}: children are smaller"
        )
        .into()),
        None => Ok(children),
    }
}

/// Runs a job on the threads of the current pool. A panic counts as a failure of the task.
pub(crate) fn run<T: Task>(
    rank: usize,
    job: Job<T, T::Output>,
    threshold: u64,
    control: &Control,
) -> Outcome<T, T::Output> {
    let failed =
        |error: TaskError| Outcome::Failed(Failure::Failed { rank, reason: with_sources(&*error) });
    let work = || match job {
        Job::Split(task) => match split(&task) {
            Ok(children) => Outcome::Children(task, children),
            Err(error) => failed(error),
        },
        Job::Compute(task) => {
            let (leaves, nanoseconds) = (AtomicU64::new(0), AtomicU64::new(0));
            let recursion = Recursion { threshold, control, leaves, nanoseconds };
            match recursion.compute(&task) {
                Ok(output) => {
                    let seconds = recursion.nanoseconds.into_inner() as f64 / 1e9;
                    let (leaves, work) = (recursion.leaves.into_inner(), task.work());
                    Outcome::Computed { output, leaves, work, seconds }
                }
                Err(Stopped::Interrupted) => Outcome::Interrupted(task),
                Err(Stopped::Failed(error)) => failed(error),
            }
        }
        Job::Merge(task, results) => match task.merge(results) {
            Ok(output) => Outcome::Merged(output),
            Err(error) => failed(error),
        },
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| failed(text_of(&*panic)))
}

fn text_of(panic: &(dyn Any + Send)) -> TaskError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the task panicked: {}", text.unwrap_or_else(|| "without a text".to_owned())).into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::Tree;
    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        quo::phase::rayon_pool(threads).unwrap()
    }

    #[test]
    fn recursion_on_threads_matches_sequential_for_any_threshold() {
        let tree = Tree::random(11, 5);
        for threads in [1, 3] {
            for threshold in [0, 1, 2, 7, 1 << 40] {
                let job = Job::Compute(tree.clone());
                let outcome = pool(threads).install(|| run(0, job, threshold, &Control::default()));
                let Outcome::Computed { output, leaves, .. } = outcome else {
                    panic!("{outcome:?}");
                };
                assert_eq!(output, tree.answer());
                assert_eq!(leaves, tree.tasks_computed(threshold));
            }
        }
    }

    #[test]
    fn interrupted_recursion_gives_the_task_back() {
        let tree = Tree::random(12, 4);
        let control = Control { interrupt: AtomicBool::new(true), ..Control::default() };
        let outcome = pool(2).install(|| run(0, Job::Compute(tree.clone()), 0, &control));
        assert_eq!(outcome, Outcome::Interrupted(tree));
    }

    #[test]
    fn leaves_are_counted_while_a_job_runs() {
        let tree = Tree::regular(2, 5);
        let control = Control::default();
        pool(2).install(|| run(0, Job::Compute(tree), 0, &control));
        // The work of a leaf is one.
        let (work, seconds) = control.take_leaves();
        assert!(work == 32 && seconds > 0.0, "{work} {seconds}");
        assert_eq!(control.take_leaves(), (0, 0.0));
    }

    #[test]
    fn failing_and_panicking_tasks_are_named_with_the_reason() {
        for (leaf, text) in [
            (Tree::Fails, "no such leaf: an error occurred when formatting an argument"),
            (Tree::Panics, "the task panicked: on purpose"),
        ] {
            let tree = Tree::Node(vec![Tree::Leaf(1), Tree::Node(vec![leaf])]);
            let outcome = pool(2).install(|| run(3, Job::Compute(tree), 0, &Control::default()));
            let failure = Failure::Failed { rank: 3, reason: text.to_owned() };
            assert_eq!(outcome, Outcome::Failed(failure));
        }
    }

    #[test]
    fn split_without_smaller_children_is_refused() {
        let job = Job::Compute(Tree::Endless);
        let Outcome::Failed(Failure::Failed { reason, .. }) =
            pool(1).install(|| run(0, job, 0, &Control::default()))
        else {
            panic!("an endless recursion has ended");
        };
        assert!(reason.contains("children are smaller"), "{reason}");
        let job = Job::Split(Tree::Node(vec![]));
        let outcome = pool(1).install(|| run(0, job, 0, &Control::default()));
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
}
