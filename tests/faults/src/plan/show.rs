//! Describes a round for the analysis of a failure.

use std::fmt;

use super::{Machine, Plan};

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, round, members, .. } = self;
        write!(out, "seed {seed} round {round}: {members} members on ")?;
        match self.machine {
            Machine::Live => write!(out, "this machine")?,
            Machine::Simulated { topology, binding } => write!(out, "\"{topology}\" ({binding})")?,
        }
        let traits = [
            (self.own_world, "in a PID namespace of its own".to_owned()),
            (self.bound, "each bound to a CPU".to_owned()),
            (self.threads > 0, format!("{} more threads each", self.threads)),
            (!self.reap, "remains left till the end".to_owned()),
        ];
        for (_, text) in traits.iter().filter(|(holds, _)| *holds) {
            write!(out, ", {text}")?;
        }
        if let Some(stray) = self.stray {
            write!(out, ", {stray} in another PID namespace")?;
        }
        write!(out, "\n  fate {:?}", self.fate)?;
        for strike in &self.strikes {
            write!(out, "; member {} {:?} stage {}", strike.victim, strike.moment, strike.stage)?;
        }
        writeln!(out, "\n  parts {:?}", self.parts)?;
        for (number, stage) in self.stages.iter().enumerate() {
            write!(out, "{} {number}:{stage:?}", if number % 6 == 0 { "\n " } else { "," })?;
        }
        Ok(())
    }
}
