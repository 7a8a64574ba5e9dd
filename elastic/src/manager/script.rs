//! The manager that follows a plan.

use super::{Moment, Next, Requests, ResourceManager};
use crate::model::change::{Cause, CauseKind};
use crate::model::plan::{Plan, Player, Step, When};

/// Makes the requests of a [plan](crate::model::plan) at their times. A refused request is in the
/// event log, and the plan continues. Steps that were not due when the job ended are a notice there.
#[derive(Debug)]
pub struct ScriptedPlan {
    player: Player,
    requests: Option<Requests>,
}

impl ScriptedPlan {
    /// Follows this plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self { player: Player::new(plan), requests: None }
    }
}

impl ResourceManager for ScriptedPlan {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn begins(&mut self, requests: Requests) -> Result<(), String> {
        self.requests = Some(requests);
        Ok(())
    }

    fn on_tick(&mut self, moment: Moment) -> Next {
        let due = self.player.due(moment.iteration, moment.since_start);
        if let Some(requests) = &self.requests {
            for request in due {
                // A refusal is already in the log as an event.
                let _ = requests.ask(request);
            }
        }
        let (iteration, time) = self.player.next();
        Next { iteration, time }
    }

    fn ends(&mut self) {
        if let (Some(requests), Some(text)) = (self.requests.take(), missed(self.player.waiting()))
        {
            requests.note(Cause::new(CauseKind::Other, text));
        }
    }
}

/// Returns the text of the notice about steps that were not due; `None` without one.
fn missed(waiting: &[Step]) -> Option<String> {
    let (first, more) = waiting.split_first()?;
    let steps = match more.len() {
        0 => format!("the step \"{first}\" was"),
        1 => format!("the step \"{first}\" and one more were"),
        more => format!("the step \"{first}\" and {more} more were"),
    };
    let remedy = match first.when {
        When::Iteration(_) => {
            "; iterations are those that the program reports: World::report_iteration, \
             QUO_world_report_iteration(), or the steps of World::run"
        }
        When::After(_) => "",
    };
    Some(format!("plan: {steps} not due when the job ended{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_were_not_due_are_named_with_the_remedy() {
        for (text, notice) in [
            ("", None),
            (
                "after 9s: size 2",
                Some("plan: the step \"after 9s: size 2\" was not due when the job ended"),
            ),
            (
                "at 2: size 6\nat 4: size 2\nafter 9s: size 3",
                Some(
                    "plan: the step \"at iteration 2: size 6\" and 2 more were not due when the job ended; \
                     iterations are those that the program reports: World::report_iteration, \
                     QUO_world_report_iteration(), or the steps of World::run",
                ),
            ),
        ] {
            let plan: Plan = text.parse().unwrap();
            assert_eq!(missed(plan.steps()).as_deref(), notice);
        }
    }
}
