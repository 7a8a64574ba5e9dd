//! Origins of a topology.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Source of a topology.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The machine this process runs on.
    Live,
    /// An hwloc XML file, by its path; `-` for a text without a file.
    Xml(String),
    /// A synthetic string.
    Synthetic(String),
    /// A machine that hwloc describes because of its own variables (`HWLOC_XMLFILE` and others).
    Foreign(String),
    /// Objects assembled by a program.
    Built,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => write!(out, "this machine"),
            Self::Xml(path) if path == "-" => write!(out, "the XML text"),
            Self::Xml(path) => write!(out, "`{path}`"),
            Self::Synthetic(text) => {
                write!(out, "the synthetic machine `{}`", shortened(text))
            }
            Self::Foreign(why) => write!(out, "the machine named by {why}"),
            Self::Built => write!(out, "the machine put together from objects"),
        }
    }
}

/// Shortens a text and replaces its control characters, so that hostile input makes no hostile
/// message.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    if text.chars().count() <= LONGEST {
        return text.chars().map(plain).collect();
    }
    text.chars().take(LONGEST).map(plain).chain("…".chars()).collect()
}
