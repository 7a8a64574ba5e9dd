//! Prints plans in a canonical form.

use std::fmt;
use std::time::Duration;

use super::{Plan, Step, When};
use crate::model::change::RequestKind;

impl fmt::Display for Plan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(to, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::Iteration(number) => write!(to, "at iteration {number}: ")?,
            When::After(time) => write!(to, "after {}: ", seconds(time))?,
        }
        let (on, from) = (self.request.on.join(","), self.request.from.join(","));
        let hosts = |word: &str, hosts: &str| match hosts {
            "" => String::new(),
            hosts => format!(" {word} {hosts}"),
        };
        match self.request.kind {
            RequestKind::Size(ranks) => write!(to, "size {ranks}{}", hosts("on", &on))?,
            RequestKind::Grow(ranks) => write!(to, "grow {ranks}{}", hosts("on", &on))?,
            RequestKind::Shrink(ranks) => write!(to, "shrink {ranks}{}", hosts("from", &from))?,
            RequestKind::Leave => write!(to, "leave {from}")?,
            RequestKind::Move => write!(to, "move {from} to {on}")?,
        }
        match self.request.grace {
            Some(grace) => write!(to, " grace {}", seconds(grace)),
            None => Ok(()),
        }
    }
}

/// Formats seconds with as many decimal places as the milliseconds need.
fn seconds(time: Duration) -> String {
    let (whole, ms) = (time.as_secs(), time.subsec_millis());
    if ms == 0 {
        return format!("{whole}s");
    }
    format!("{whole}.{}s", format!("{ms:03}").trim_end_matches('0'))
}
