//! Names of process sets, and which of them a program may make.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::SetsError;

/// Largest length of a name in bytes; with a terminating zero it fits MPI's limit of 512.
pub const LONGEST_NAME: usize = 511;

/// The name of a process set: `mpi://` and a path of words separated by `/`. `mpi://world` and
/// `mpi://self` are reserved in any case of letters.
///
/// ```
/// use elastic::sets::{Domain, SetName};
/// let name = SetName::new("mpi://app/weather/ocean").unwrap();
/// assert_eq!(name.domain("weather"), Domain::Created);
/// assert_eq!(SetName::new("mpi://self").unwrap().as_str(), "mpi://SELF");
/// assert!(SetName::new("ocean").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SetName(String);

/// Domain of a name, as seen by one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// `mpi://WORLD`: another name for the set of all processes of the application.
    World,
    /// `mpi://SELF`: the caller alone.
    Caller,
    /// `mpi://app/{app}`: all processes of the application.
    Application,
    /// Below `mpi://app/{app}/`: names that the application itself creates.
    Created,
    /// `mpi://rte/{app}/delta/...`: the joiners or leavers of one resize.
    Delta,
    /// Any other name: of the runtime, of other applications, or unused.
    Elsewhere,
}

const PREFIX: &str = "mpi://";

impl SetName {
    /// Checks a name from outside.
    ///
    /// # Errors
    /// [`SetsError::BadName`] if the name is too long, does not begin with `mpi://`, lacks a word
    /// between two `/`, or has white space or control characters.
    pub fn new(name: impl Into<String>) -> Result<SetName, SetsError> {
        let name = name.into();
        let refuse = |cause| Err(SetsError::BadName { name: shortened(&name), cause });
        if name.len() > LONGEST_NAME {
            return refuse("it is longer than 511 bytes");
        }
        let Some(path) = name.strip_prefix(PREFIX) else {
            return refuse("names of process sets begin with mpi://");
        };
        if path.split('/').any(str::is_empty) {
            return refuse("a word between two / is missing");
        }
        if path.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
            return refuse("white space and control characters are not allowed");
        }
        Ok(match path {
            _ if path.eq_ignore_ascii_case("WORLD") => SetName::world(),
            _ if path.eq_ignore_ascii_case("SELF") => SetName::caller(),
            _ => SetName(name),
        })
    }

    /// `mpi://WORLD`.
    pub fn world() -> SetName {
        SetName("mpi://WORLD".to_owned())
    }

    /// `mpi://SELF`.
    pub fn caller() -> SetName {
        SetName("mpi://SELF".to_owned())
    }

    /// Returns `mpi://app/{app}`.
    ///
    /// # Errors
    /// [`SetsError::BadName`] if that is no valid name, or `app` contains a `/`.
    pub fn application(app: &str) -> Result<SetName, SetsError> {
        if app.contains('/') {
            let cause = "the name of an application has no /";
            return Err(SetsError::BadName { name: shortened(app), cause });
        }
        SetName::new(format!("{PREFIX}app/{app}"))
    }

    /// Returns the name `self` with one more word.
    ///
    /// # Errors
    /// [`SetsError::BadName`] if the result is no valid name.
    pub fn below(&self, word: &str) -> Result<SetName, SetsError> {
        SetName::new(format!("{self}/{word}"))
    }

    /// Returns `mpi://rte/{app}/delta/{epoch}`, the joiners or leavers of the resize with this
    /// epoch.
    pub(super) fn delta(app: &str, epoch: u64) -> SetName {
        SetName(format!("{PREFIX}rte/{app}/delta/{epoch}"))
    }

    /// Domain of this name for the application `app`.
    pub fn domain(&self, app: &str) -> Domain {
        let path = &self.0[PREFIX.len()..];
        match path {
            "WORLD" => return Domain::World,
            "SELF" => return Domain::Caller,
            _ => {}
        }
        if let Some(rest) = path.strip_prefix("app/").and_then(|path| path.strip_prefix(app)) {
            return match rest.as_bytes().first() {
                None => Domain::Application,
                Some(b'/') => Domain::Created,
                Some(_) => Domain::Elsewhere,
            };
        }
        let delta = path.strip_prefix("rte/").and_then(|path| path.strip_prefix(app));
        match delta {
            Some(rest) if rest.starts_with("/delta/") => Domain::Delta,
            _ => Domain::Elsewhere,
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Shortens a refused name for a message.
fn shortened(name: &str) -> String {
    name.chars().take(80).collect()
}

impl fmt::Display for SetName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl From<SetName> for String {
    fn from(name: SetName) -> String {
        name.0
    }
}

impl TryFrom<String> for SetName {
    type Error = SetsError;

    fn try_from(name: String) -> Result<SetName, SetsError> {
        SetName::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_told_apart_by_whole_words() {
        let domain = |name: &str| SetName::new(name).unwrap().domain("app1");
        assert_eq!(domain("mpi://World"), Domain::World);
        assert_eq!(domain("mpi://SELF"), Domain::Caller);
        assert_eq!(domain("mpi://app/app1"), Domain::Application);
        assert_eq!(domain("mpi://app/app1/mul"), Domain::Created);
        assert_eq!(domain("mpi://app/app10"), Domain::Elsewhere);
        assert_eq!(domain("mpi://app/app2/mul"), Domain::Elsewhere);
        assert_eq!(domain("mpi://rte/app1/delta/1"), Domain::Delta);
        assert_eq!(domain("mpi://rte/app1/other"), Domain::Elsewhere);
        assert_eq!(domain("mpi://WORLDS"), Domain::Elsewhere);
    }

    #[test]
    fn what_is_no_name_is_refused_with_its_reason() {
        let long = format!("mpi://app/{}", "x".repeat(LONGEST_NAME));
        for bad in
            ["", "app/x", "mpi://", "mpi://app//x", "mpi://app/x/", "mpi://a b", "mpi://a\n", &long]
        {
            assert!(matches!(SetName::new(bad), Err(SetsError::BadName { .. })), "{bad:?}");
        }
        assert!(SetName::application("a/b").is_err());
    }
}
