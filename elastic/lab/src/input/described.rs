//! A workload described in TOML: jobs with the models of their programs.
//!
//! ```toml
//! nodes = 32
//!
//! # Jobs without a time of submission arrive in random order.
//! [arrivals]
//! mean = 32.0 # seconds between two, exponentially distributed; or: between = [0.0, 30.0]
//!
//! [[job]]
//! name = "solver"
//! count = 4 # copies, named solver-1 ...
//! submit = 0.0
//! every = 60.0 # seconds between the copies
//! class = "resizable"
//! nodes = 4
//! min = 4
//! max = 16
//! sizes = [4, 8, 16] # or: "doubling", { increment = 2 }, { nearly_square = { divides = 8000 } }, with min and max
//! walltime = 900.0
//! iterations = 100
//! resize_every = 10
//! table = [[4, 9.0], [8, 5.0], [16, 3.0]] # or: amdahl = { serial = 1.0, parallel = 32.0 }
//! resize_cost = 2.0 # or: resize_costs = [[4, 8, 2.5]]
//!
//! [[job]]
//! name = "rigid"
//! nodes = 8
//! runtime = 300.0
//! ```

use serde::Deserialize;

use super::{InputError, LONGEST_TIME};
use crate::workload::random::Random;
use crate::workload::{JobSpec, Model, Name, Program, ResizeCost, Work, Workload};
use elastic_policy::job::{Class, Limits};
use elastic_policy::sizes::{Sizes, in_file};
use elastic_policy::time::{Span, Time};

/// Largest number of jobs in a description.
const MOST_JOBS: usize = 10_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    nodes: Option<u32>,
    arrivals: Option<Arrivals>,
    #[serde(default)]
    job: Vec<Described>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Arrivals {
    Mean(f64),
    Between([f64; 2]),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    #[serde(default = "one")]
    count: u32,
    submit: Option<f64>,
    #[serde(default)]
    every: f64,
    #[serde(default = "rigid")]
    class: Class,
    nodes: u32,
    min: Option<u32>,
    max: Option<u32>,
    #[serde(default, deserialize_with = "in_file")]
    sizes: Option<Sizes>,
    #[serde(default)]
    priority: i32,
    walltime: Option<f64>,
    runtime: Option<f64>,
    iterations: Option<u32>,
    #[serde(default = "one")]
    resize_every: u32,
    table: Option<Vec<(u32, f64)>>,
    amdahl: Option<Amdahl>,
    growth: Option<Growth>,
    #[serde(default)]
    resize_cost: f64,
    #[serde(default)]
    resize_costs: Vec<(u32, u32, f64)>,
    #[serde(default)]
    leave_after: f64,
    #[serde(default = "yes")]
    acknowledges: bool,
    #[serde(default)]
    mpi_ratio: Vec<(u32, f64)>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Amdahl {
    serial: f64,
    parallel: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Growth {
    start: f64,
    alpha: f64,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn rigid() -> Class {
    Class::Rigid
}

/// Reads a description. `seed` determines the order and the times of jobs without a time of
/// submission.
///
/// # Errors
///
/// The text is not a valid description, a job is invalid, or there is none.
pub fn read(text: &str, seed: u64) -> Result<Workload, InputError> {
    let description: Description = toml::from_str(text)?;
    let mut jobs = Vec::new();
    let mut waiting = Vec::new();
    for described in &description.job {
        let refused = |cause| InputError::Job { job: described.name.clone(), cause };
        if jobs.len() + waiting.len() + described.count as usize > MOST_JOBS {
            return Err(refused(format!("more than {MOST_JOBS} jobs in all")));
        }
        if described.submit.is_none() && description.arrivals.is_none() {
            return Err(refused("there is neither `submit` nor a table [arrivals]".to_owned()));
        }
        for copy in 0..described.count {
            let job = described.job(copy).map_err(refused)?;
            if described.submit.is_some() { jobs.push(job) } else { waiting.push(job) }
        }
    }
    if let Some(arrivals) = description.arrivals {
        let mut random = Random::new(seed);
        random.shuffle(&mut waiting);
        let mut now = Time::ZERO;
        for mut job in waiting {
            job.submitted = now;
            jobs.push(job);
            let gap = match arrivals {
                Arrivals::Mean(mean) => random.exponential(mean),
                Arrivals::Between([low, high]) => low + random.unit() * (high - low),
            };
            now += Span::from_seconds(gap);
        }
    }
    if jobs.is_empty() {
        return Err(InputError::Empty);
    }
    Ok(Workload::new(jobs, description.nodes))
}

impl Described {
    fn job(&self, copy: u32) -> Result<JobSpec, String> {
        let name = match self.count {
            1 => self.name.clone(),
            _ => format!("{}-{}", self.name, copy + 1),
        };
        let submitted = self.submit.unwrap_or(0.0) + self.every * f64::from(copy);
        let submitted = Time(time("submit", submitted)?.0);
        let limits = self.limits()?;
        let work = self.work()?;
        let on_start = match &work {
            Work::Fixed(runtime) => *runtime,
            Work::Iterative(program) => {
                let seconds = program.model.seconds(&[], limits.start);
                Span::from_seconds(seconds * f64::from(program.iterations))
            }
        };
        let walltime = self.walltime.map_or(Ok(on_start), |seconds| time("walltime", seconds))?;
        let (class, priority) = (self.class, self.priority);
        let name = Name::Text(name.into());
        Ok(JobSpec { name, submitted, class, limits, share: None, priority, walltime, work })
    }

    fn limits(&self) -> Result<Limits, String> {
        let fixed = self.class == Class::Rigid;
        let sizes = match &self.sizes {
            None => &[],
            Some(Sizes::List(sizes)) => sizes.as_slice(),
            Some(rule) => return self.by_rule(rule),
        };
        let least = sizes.first().copied().unwrap_or(self.nodes);
        let most = sizes.last().copied().unwrap_or(self.nodes);
        let (min, max) = (self.min.unwrap_or(least), self.max.unwrap_or(most));
        let limits = Limits { min, max, start: self.nodes, allowed: sizes.to_vec() };
        if fixed && (min, max) != (self.nodes, self.nodes) {
            return Err("a rigid job has one size: leave out min, max and sizes".to_owned());
        }
        if !sizes.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("sizes {sizes:?} do not ascend"));
        }
        if min == 0 || !limits.allows(limits.start) {
            let start = limits.start;
            return Err(format!(
                "nodes = {start} is zero, outside {min} to {max}, or not in sizes"
            ));
        }
        Ok(limits)
    }

    /// Returns the limits of a job with a rule of sizes.
    fn by_rule(&self, rule: &Sizes) -> Result<Limits, String> {
        let (min, start) = (self.min.unwrap_or(self.nodes), self.nodes);
        let Some(max) = self.max.filter(|_| self.class != Class::Rigid) else {
            return Err("a rule of sizes is for jobs that have a max and are not rigid".to_owned());
        };
        let limits = rule.limits(min, max, start).filter(|limits| limits.start == start);
        limits.ok_or_else(|| {
            format!(
                "nodes = {start} is no size of {rule:?} from {min} to {max}, or max is too large"
            )
        })
    }

    fn work(&self) -> Result<Work, String> {
        let models = [
            self.table.clone().map(Model::Table),
            self.amdahl.map(|Amdahl { serial, parallel }| Model::Amdahl { serial, parallel }),
            self.growth.map(|Growth { start, alpha }| Model::Growth { start, alpha }),
        ];
        let mut models = models.into_iter().flatten();
        match (self.runtime, models.next(), models.next(), self.iterations) {
            (Some(seconds), None, None, None) => Ok(Work::Fixed(time("runtime", seconds)?)),
            (None, Some(model), None, Some(iterations)) => {
                model.check().map_err(|error| error.to_string())?;
                let program = self.program(iterations, model)?;
                Ok(Work::Iterative(Box::new(program)))
            }
            _ => Err("there must be either runtime, or iterations and one of table, amdahl \
                and growth"
                .to_owned()),
        }
    }

    fn program(&self, iterations: u32, model: Model) -> Result<Program, String> {
        let costs = self.resize_costs.iter();
        let costs = costs.map(|&(from, to, cost)| Ok((from, to, time("resize_costs", cost)?)));
        let ascends = self.mpi_ratio.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !ascends || self.mpi_ratio.iter().any(|entry| !entry.1.is_finite()) {
            return Err("the sizes of mpi_ratio do not ascend, or a value is not finite".to_owned());
        }
        if self.resize_every == 0 {
            return Err("resize_every is zero".to_owned());
        }
        Ok(Program {
            iterations,
            resize_every: self.resize_every,
            model,
            resize_cost: ResizeCost {
                any: time("resize_cost", self.resize_cost)?,
                table: costs.collect::<Result<_, String>>()?,
            },
            leave_after: time("leave_after", self.leave_after)?,
            acknowledges: self.acknowledges,
            mpi_ratio: self.mpi_ratio.clone(),
        })
    }
}

fn time(name: &str, seconds: f64) -> Result<Span, String> {
    if seconds.is_finite() && (0.0..=LONGEST_TIME).contains(&seconds) {
        Ok(Span::from_seconds(seconds))
    } else {
        Err(format!("{name} = {seconds}: a number of seconds from 0 to 1e12 is expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGID: &str = "[[job]]\nname = \"a\"\nnodes = 2\nruntime = 9.5\n";

    fn error(text: &str) -> String {
        read(text, 0).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_description_is_read() {
        let example: String = include_str!("described.rs")
            .lines()
            .skip_while(|line| *line != "//! ```toml")
            .skip(1)
            .take_while(|line| *line != "//! ```")
            .map(|line| format!("{}\n", line.trim_start_matches("//!")))
            .collect();
        let workload = read(&example, 3).unwrap();
        assert_eq!((workload.jobs.len(), workload.nodes), (5, Some(32)));
        let solver = workload.jobs.iter().find(|job| job.name.to_string() == "solver-3").unwrap();
        assert_eq!(solver.submitted, Time::seconds(120));
        assert_eq!(solver.limits.allowed, [4, 8, 16]);
        let Work::Iterative(program) = &solver.work else { panic!("{solver:?}") };
        assert_eq!((program.iterations, program.resize_every), (100, 10));
        assert_eq!(program.resize_cost.of(4, 8), Span::seconds(2));
    }

    #[test]
    fn description_of_the_guide_is_read() {
        let guide = include_str!("../../../../docs/scheduling.md");
        let (_, example) = guide.split_once("```toml file=workload.toml\n").unwrap();
        let workload = read(example.split_once("```").unwrap().0, 1).unwrap();
        assert_eq!(workload.jobs.len(), 5);
    }

    #[test]
    fn walltime_defaults_to_the_run_time() {
        let workload = read(&format!("{RIGID}submit = 1.5"), 0).unwrap();
        assert_eq!(workload.jobs[0].walltime, Span(9_500));
        assert_eq!(workload.jobs[0].submitted, Time(1_500));
    }

    #[test]
    fn rules_of_sizes_are_written_out() {
        let sizes = |rule: &str| {
            let line = format!("class = \"resizable\"\nmax = 40\nsubmit = 0.0\nsizes = {rule}");
            read(&format!("{RIGID}{line}"), 0).unwrap().jobs[0].limits.allowed.clone()
        };
        assert_eq!(sizes("\"doubling\""), [2, 4, 8, 16, 32]);
        assert_eq!(sizes("{ increment = 9 }"), [2, 11, 20, 29, 38]);
        assert_eq!(
            sizes("{ nearly_square = { divides = 36, difference = 3 } }"),
            [2, 4, 6, 9, 12, 16, 24, 36]
        );
    }

    #[test]
    fn arrivals_follow_the_seed() {
        let text = format!("[arrivals]\nmean = 10.0\n{RIGID}count = 50");
        let [one, again, other] = [1, 1, 2].map(|seed| read(&text, seed).unwrap());
        assert_eq!(one, again);
        assert_ne!(one, other);
        let last = one.jobs[49].submitted.as_seconds();
        assert!((250.0..1_000.0).contains(&last), "{last}");
    }

    #[test]
    fn wrong_descriptions_are_refused_with_the_cause() {
        let unknown = error(&format!("{RIGID}colour = 1"));
        assert!(unknown.contains("line 5") && unknown.contains("colour"), "{unknown}");
        assert_eq!(error(RIGID), "job a: there is neither `submit` nor a table [arrivals]");
        let cases = [
            ("max = 4", "one size"),
            ("class = \"malleable\"\nmin = 3\nmax = 4", "outside 3 to 4"),
            ("iterations = 4", "either runtime"),
            ("walltime = -1.0", "walltime = -1"),
            ("walltime = nan", "from 0 to 1e12"),
            ("class = \"moldable\"\nsizes = [2, 2]", "do not ascend"),
            ("max = 8\nsizes = \"doubling\"", "are not rigid"),
            ("class = \"malleable\"\nsizes = \"doubling\"", "have a max"),
            ("class = \"malleable\"\nmin = 1\nmax = 9\nsizes = { increment = 2 }", "is no size of"),
            (
                "class = \"malleable\"\nmax = 9\nsizes = \"tripling\"",
                "sizes are a list, \"doubling\"",
            ),
        ];
        for (line, expected) in cases {
            let error = error(&format!("{RIGID}submit = 0.0\n{line}"));
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(error("nodes = 4"), "the log has no job");
    }
}
