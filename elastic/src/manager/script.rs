//! The manager that follows a plan.

use super::{Moment, Next, Requests, ResourceManager};
use crate::model::plan::{Plan, Player};

/// Makes the requests of a [plan](crate::model::plan) at their times. A refused request is in the
/// event log, and the plan continues.
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
}
