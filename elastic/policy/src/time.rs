//! Instants and spans in whole milliseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// An instant: milliseconds since the beginning of the run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A length of time in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Time {
    /// The beginning of the run.
    pub const ZERO: Time = Time(0);
    /// An instant after all others.
    pub const NEVER: Time = Time(u64::MAX);

    /// Makes an instant from whole seconds.
    #[must_use]
    pub fn seconds(seconds: u64) -> Time {
        Time(seconds.saturating_mul(1000))
    }

    /// Returns the time that has passed since `earlier`; zero if it is later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant in seconds.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl Span {
    /// An empty span.
    pub const ZERO: Span = Span(0);

    /// Makes a span from whole seconds.
    #[must_use]
    pub fn seconds(seconds: u64) -> Span {
        Span(seconds.saturating_mul(1000))
    }

    /// Rounds seconds to the nearest millisecond. Negative values and NaN become zero.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Span {
        Span((seconds * 1000.0).round() as u64)
    }

    /// Returns the span in seconds.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl Add<Span> for Time {
    type Output = Time;

    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Span;

    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Span(self.0))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1000, self.0 % 1000);
        match rest {
            0 => write!(f, "{seconds} s"),
            _ => write!(f, "{seconds}.{rest:03} s"),
        }
    }
}
