//! Options that a launch gives to programs which leave them open: `quo-elastic launch` sets the
//! variables.

use super::WorldOptions;
use crate::manager::slurm::Slurm;
use crate::manager::{ControlSocket, ScriptedPlan};
use crate::model::place::{Allowed, Bounds};
use crate::model::plan::PlanError;

/// Smallest and largest number of ranks, such as `2..8`; the job starts with the smallest.
const RANKS: &str = "QUO_ELASTIC_RANKS";
/// Name of the job, which then listens for `quo-elastic`.
const NAME: &str = "QUO_ELASTIC_NAME";
/// A plan of the world's sizes, in the plan language.
const PLAN: &str = "QUO_ELASTIC_PLAN";
/// File to which the events are appended.
const LOG: &str = "QUO_ELASTIC_LOG";
/// `1` if nodes are added and released through Slurm; without effect outside a job of Slurm.
const SLURM: &str = "QUO_ELASTIC_SLURM";

impl WorldOptions {
    /// Completes these options by the variables of the launch; what the program has set stays.
    ///
    /// # Errors
    /// Describes a variable with a value of another form.
    pub(crate) fn completed_by_launch(
        self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut options = self;
        if let Some(text) = given(RANKS) {
            let (min, max) = range(&text).ok_or_else(|| {
                format!("{RANKS}={text} is not two numbers of ranks, such as 2..8")
            })?;
            if options.initial_ranks.is_none() && options.max_ranks.is_none() {
                options = options.initial_ranks(min as usize).max_ranks(max as usize);
            }
            if options.bounds.is_none() {
                let bounds = Bounds::new(min, max, Allowed::Any);
                options.bounds = Some(bounds.map_err(|error| format!("{RANKS}={text}: {error}"))?);
            }
        }
        if let Some(name) = given(NAME) {
            let listens = options.managers.iter().any(|manager| manager.name() == "socket");
            if !listens {
                options = options.manager(ControlSocket::new());
            }
            options.name.get_or_insert(name);
        }
        if let Some(text) = given(PLAN)
            && !options.managers.iter().any(|manager| manager.name() == "plan")
        {
            let plan = text.parse().map_err(|error: PlanError| format!("{PLAN}: {error}"))?;
            options = options.manager(ScriptedPlan::new(plan));
        }
        if let Some(path) = given(LOG)
            && options.log.is_none()
        {
            options = options.log(path);
        }
        match given(SLURM).as_deref() {
            None | Some("0") => {}
            Some("1") => {
                let has_one = (options.managers.iter())
                    .any(|manager| manager.name() == "slurm" || manager.supply().is_some());
                if let Some(slurm) = Slurm::of_job(variable).filter(|_| !has_one) {
                    // A launcher that continues without a node continues without a rank, too.
                    options = options.manager(slurm).abort_on_death(true);
                }
            }
            Some(text) => return Err(format!("{SLURM}={text} is neither 1 nor 0")),
        }
        Ok(options)
    }
}

/// Returns the numbers of `2..8`; `None` for another text.
fn range(text: &str) -> Option<(u32, u32)> {
    let (min, max) = text.split_once("..")?;
    let (min, max) = (min.trim().parse().ok()?, max.trim().parse().ok()?);
    (1..=max).contains(&min).then_some((min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(options: WorldOptions, ranks: &str, name: &str) -> Result<WorldOptions, String> {
        options.completed_by_launch(|variable| match variable {
            RANKS => Some(ranks.to_owned()),
            NAME => Some(name.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn open_options_are_those_of_the_launch() {
        let options = completed(WorldOptions::new(), "2..8", "heat").unwrap();
        assert_eq!((options.initial_ranks, options.max_ranks), (Some(2), Some(8)));
        assert!(options.bounds.is_some_and(|it| (it.min(), it.max()) == (2, 8)));
        assert_eq!(options.name.as_deref(), Some("heat"));
        assert_eq!(options.managers.len(), 1);
        let open = completed(WorldOptions::new(), "", "").unwrap();
        assert!(open.initial_ranks.is_none() && open.name.is_none() && open.managers.is_empty());
    }

    #[test]
    fn options_of_the_program_stay() {
        let squares = Bounds::new(1, 9, Allowed::OneOf(vec![1, 4, 9])).unwrap();
        let own = WorldOptions::new()
            .initial_ranks(4)
            .name("own")
            .allowed_sizes(squares.clone())
            .manager(ControlSocket::new());
        let options = completed(own, "2..8", "heat").unwrap();
        assert_eq!((options.initial_ranks, options.max_ranks), (Some(4), None));
        assert!(options.bounds.is_some_and(|it| it.max() == squares.max() && !it.allows(2)));
        assert_eq!(options.name.as_deref(), Some("own"));
        assert_eq!(options.managers.len(), 1, "one socket");
    }

    #[test]
    fn program_without_plan_and_log_has_the_launchs() {
        let given = |options: WorldOptions, plan: &str| {
            options.completed_by_launch(|variable| match variable {
                PLAN => Some(plan.to_owned()),
                LOG => Some("events.json".to_owned()),
                _ => None,
            })
        };
        let options = given(WorldOptions::new(), "at iteration 3: size 2").unwrap();
        assert_eq!(options.managers.len(), 1);
        assert!(options.log.is_some_and(|log| log.ends_with("events.json")));
        let wrong = given(WorldOptions::new(), "at iteration 3: size no").unwrap_err();
        assert!(wrong.starts_with("QUO_ELASTIC_PLAN: plan, line 1"), "{wrong}");
        let path = given(WorldOptions::new(), "plans/of the week").unwrap_err();
        assert!(path.contains("not the path of its file, \"plans/of the week\""), "{path}");
        let own = WorldOptions::new().log("own.json");
        assert!(given(own, "").unwrap().log.is_some_and(|log| log.ends_with("own.json")));
    }

    #[test]
    fn program_without_a_manager_of_slurm_has_the_launchs() {
        let given = |options: WorldOptions, text: &str, job: Option<&str>| {
            let options = options.completed_by_launch(|variable| match variable {
                SLURM => Some(text.to_owned()),
                _ => job.filter(|_| variable == "SLURM_JOB_ID").map(str::to_owned),
            });
            options.map(|options| (options.managers.len(), options.abort_on_death))
        };
        let own = || WorldOptions::new().manager(Slurm::of_job(|_| Some("7".to_owned())).unwrap());
        assert_eq!(given(WorldOptions::new(), "1", Some("7")), Ok((1, true)));
        assert_eq!(given(own(), "1", Some("7")), Ok((1, false)), "one manager");
        for (text, job) in [("1", None), ("0", Some("7")), ("", Some("7"))] {
            assert_eq!(given(WorldOptions::new(), text, job), Ok((0, false)), "{text}");
        }
        let wrong = given(WorldOptions::new(), "yes", Some("7")).unwrap_err();
        assert_eq!(wrong, "QUO_ELASTIC_SLURM=yes is neither 1 nor 0");
    }

    #[test]
    fn other_texts_than_two_numbers_are_errors() {
        for text in ["8", "8..2", "0..4", "a..b", "2...8", "-1..3"] {
            let error = completed(WorldOptions::new(), text, "").unwrap_err();
            assert!(error.contains(text) && error.contains("such as 2..8"), "{error}");
        }
    }
}
