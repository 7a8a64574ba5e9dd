//! Systems, their MPIs and the parts of the table: the data of `tests/systems.toml`.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::project;

const DATA: &str = "tests/systems.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Systems {
    #[serde(rename = "system")]
    pub all: Vec<System>,
    /// Packages whose versions are shown, by the shown name.
    pub versions: BTreeMap<String, String>,
    #[serde(rename = "part")]
    pub parts: Vec<Part>,
    #[serde(rename = "reason", default)]
    pub reasons: Vec<Reason>,
}

/// One release of a distribution.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    pub name: String,
    pub title: String,
    /// Name of the release on the distribution's mirrors.
    pub suite: String,
    /// MPIs in its packages, by the names of `cargo xtask mpi list`.
    pub mpis: Vec<String>,
}

/// A row of the table, with the suites that check it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub name: String,
    pub suites: Vec<String>,
}

/// The reason why a part does not work, or only in part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    pub system: String,
    pub mpi: String,
    pub part: String,
    pub text: String,
}

impl Systems {
    pub fn of_checkout() -> Result<Systems> {
        let text = std::fs::read_to_string(project::root().join(DATA))
            .with_context(|| format!("reading {DATA}"))?;
        toml::from_str(&text).with_context(|| format!("reading {DATA}"))
    }

    /// Returns the system of this name.
    pub fn named(&self, name: &str) -> Result<&System> {
        let known = |system: &System| system.name.clone();
        self.all.iter().find(|system| system.name == name).with_context(|| {
            let names: Vec<String> = self.all.iter().map(known).collect();
            format!("there is no system called `{name}`; there are {}", names.join(", "))
        })
    }

    /// Returns the parts of these names; all without names.
    pub fn parts(&self, names: &[String]) -> Result<Vec<&Part>> {
        if names.is_empty() {
            return Ok(self.parts.iter().collect());
        }
        names
            .iter()
            .map(|name| {
                self.parts.iter().find(|part| part.name == *name).with_context(|| {
                    let known: Vec<&str> =
                        self.parts.iter().map(|part| part.name.as_str()).collect();
                    format!("there is no part called `{name}`; there are {}", known.join(", "))
                })
            })
            .collect()
    }

    /// Returns the known reason why a part does not work.
    pub fn reason(&self, system: &str, mpi: &str, part: &str) -> Option<&str> {
        let is_meant = |it: &&Reason| it.system == system && it.mpi == mpi && it.part == part;
        self.reasons.iter().find(is_meant).map(|it| it.text.as_str())
    }
}

impl System {
    /// Returns the system's MPIs, or the one of this name.
    pub fn mpis(&self, only: Option<&str>) -> Result<Vec<&str>> {
        let names: Vec<&str> = self.mpis.iter().map(String::as_str).collect();
        match only {
            None => Ok(names),
            Some(name) if names.contains(&name) => {
                Ok(names.into_iter().filter(|it| *it == name).collect())
            }
            Some(name) => {
                bail!("{} is tried with {}, not with {name}", self.title, names.join(", "))
            }
        }
    }
}

impl fmt::Display for Systems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for system in &self.all {
            writeln!(f, "{:10} {}, with {}", system.name, system.title, system.mpis.join(", "))?;
        }
        writeln!(f)?;
        for part in &self.parts {
            writeln!(f, "{:16} {}", part.name, part.suites.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let systems = Systems::of_checkout().unwrap();
        let error = systems.named("bookworm").unwrap_err().to_string();
        assert!(error.contains("debian12"), "{error}");
        let error = systems.parts(&["fortran".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("Fortran"), "{error}");
        let error = systems.named("debian12").unwrap().mpis(Some("intel")).unwrap_err().to_string();
        assert!(error.contains("openmpi"), "{error}");
    }

    #[test]
    fn every_name_in_the_data_is_known() {
        let systems = Systems::of_checkout().unwrap();
        for system in &systems.all {
            for mpi in &system.mpis {
                crate::mpi::named(mpi).unwrap();
            }
        }
        for reason in &systems.reasons {
            let system = systems.named(&reason.system).unwrap();
            system.mpis(Some(&reason.mpi)).unwrap();
            systems.parts(std::slice::from_ref(&reason.part)).unwrap();
        }
    }
}
