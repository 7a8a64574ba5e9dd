//! Number of processes that a job may have.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::PlaceError;

/// Largest number of sizes that [`AllowedSizes::OneOf`] lists for a program's own check.
const MOST_LISTED: usize = 4096;

/// Sizes that a program can work with.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Allowed {
    /// All sizes.
    #[default]
    Any,
    /// Multiples of this number; no size if it is 0.
    MultipleOf(u32),
    /// 1, 2, 4, 8 and so on.
    PowerOfTwo,
    /// 1, 4, 9, 16 and so on.
    Square,
    /// These sizes.
    OneOf(Vec<u32>),
    /// Sizes that the program's check accepts. The check must be deterministic.
    If(Arc<dyn Fn(u32) -> bool + Send + Sync>),
}

impl Allowed {
    /// Returns true if a program can work with this size.
    pub fn allows(&self, size: u32) -> bool {
        match self {
            Allowed::Any => true,
            Allowed::MultipleOf(of) => *of > 0 && size.is_multiple_of(*of),
            Allowed::PowerOfTwo => size.is_power_of_two(),
            Allowed::Square => size.isqrt().pow(2) == size,
            Allowed::OneOf(sizes) => sizes.contains(&size),
            Allowed::If(says) => says(size),
        }
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Any => to.write_str("Any"),
            Allowed::MultipleOf(of) => write!(to, "MultipleOf({of})"),
            Allowed::PowerOfTwo => to.write_str("PowerOfTwo"),
            Allowed::Square => to.write_str("Square"),
            Allowed::OneOf(sizes) => write!(to, "OneOf({sizes:?})"),
            Allowed::If(_) => to.write_str("If(..)"),
        }
    }
}

/// The smallest and largest number of processes of a job, and the sizes between them that it can
/// work with.
///
/// ```
/// use elastic::place::{Allowed, Bounds};
/// let bounds = Bounds::new(4, 500, Allowed::Square).unwrap();
/// assert_eq!(bounds.at_most(30 * 16), Some(441));
/// assert_eq!(bounds.at_least(5), Some(9));
/// assert_eq!(
///     bounds.check(20).unwrap_err().to_string(),
///     "bounds: 20 processes are not allowed; 16 and 25 are the nearest that are"
/// );
/// ```
#[derive(Clone, Debug)]
pub struct Bounds {
    min: u32,
    max: u32,
    allowed: Allowed,
}

impl Bounds {
    /// Bounds from `min` to `max`, both included; 0 is no size.
    ///
    /// # Errors
    /// [`PlaceError::NoSize`] if no size is left.
    pub fn new(min: u32, max: u32, allowed: Allowed) -> Result<Bounds, PlaceError> {
        let bounds = Bounds { min: min.max(1), max, allowed };
        match bounds.at_most(max) {
            Some(_) => Ok(bounds),
            None => Err(PlaceError::NoSize { min, max }),
        }
    }

    /// Smallest size of the range.
    pub fn min(&self) -> u32 {
        self.min
    }

    /// Largest size of the range.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// Returns true if a job may have this size.
    pub fn allows(&self, size: u32) -> bool {
        (self.min..=self.max).contains(&size) && self.allowed.allows(size)
    }

    /// Checks that a job may have this size; the error names the nearest sizes that it may have.
    ///
    /// # Errors
    /// [`PlaceError::Size`] for any other size.
    pub fn check(&self, size: u32) -> Result<(), PlaceError> {
        if self.allows(size) {
            return Ok(());
        }
        let (below, above) = (self.at_most(size), self.at_least(size));
        Err(PlaceError::Size { size, below, above })
    }

    /// Returns the largest size that is at most `size`. Checks one size after the other.
    pub fn at_most(&self, size: u32) -> Option<u32> {
        (self.min..=size.min(self.max)).rev().find(|size| self.allowed.allows(*size))
    }

    /// Returns the smallest size that is at least `size`. Checks one size after the other.
    pub fn at_least(&self, size: u32) -> Option<u32> {
        (size.max(self.min)..=self.max).find(|size| self.allowed.allows(*size))
    }

    /// Returns the end of a sentence about the smallest and the largest size up to `most`.
    pub(crate) fn range(&self, most: u32) -> String {
        match (self.at_least(1), self.at_most(most)) {
            (Some(least), Some(largest)) if least <= largest => {
                format!(", and there can be {least} to {largest}")
            }
            _ => format!(", and none can be had: there can be {most} at most"),
        }
    }

    /// Returns the sizes up to `most`, in a form that can be sent to other processes. A program's
    /// own check becomes a list of the smallest few thousand sizes that it accepts.
    pub fn up_to(&self, most: u32) -> SizeLimits {
        let (min, mut max) = (self.min, self.max.min(most));
        let allowed = match &self.allowed {
            Allowed::Any => AllowedSizes::Any,
            Allowed::MultipleOf(of) => AllowedSizes::MultipleOf(*of),
            Allowed::PowerOfTwo => AllowedSizes::PowerOfTwo,
            Allowed::Square => AllowedSizes::Square,
            Allowed::OneOf(sizes) => {
                let mut sizes: Vec<u32> =
                    sizes.iter().copied().filter(|size| (min..=max).contains(size)).collect();
                sizes.sort_unstable();
                sizes.dedup();
                AllowedSizes::OneOf(sizes)
            }
            Allowed::If(says) => {
                let sizes = (min..=max).filter(|size| says(*size)).take(MOST_LISTED);
                AllowedSizes::OneOf(sizes.collect())
            }
        };
        if let AllowedSizes::OneOf(sizes) = &allowed {
            max = sizes.last().copied().unwrap_or(max);
        }
        SizeLimits { min, max, allowed }
    }
}

/// The sizes that a job can have, as its status reports them.
///
/// ```
/// use elastic::place::{Allowed, Bounds};
/// let limits = Bounds::new(2, 100, Allowed::MultipleOf(4)).unwrap().up_to(10);
/// let text = serde_json::to_string(&limits).unwrap();
/// assert_eq!(text, r#"{"min":2,"max":10,"allowed":{"multiple_of":4}}"#);
/// assert_eq!(limits.bounds().unwrap().at_most(10), Some(8));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeLimits {
    /// The fewest ranks.
    pub min: u32,
    /// The most ranks.
    pub max: u32,
    /// The allowed sizes between them.
    pub allowed: AllowedSizes,
}

/// The rule of [`SizeLimits`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AllowedSizes {
    /// All sizes.
    #[default]
    Any,
    /// Multiples of this number.
    MultipleOf(u32),
    /// 1, 2, 4, 8 and so on.
    PowerOfTwo,
    /// 1, 4, 9, 16 and so on.
    Square,
    /// These sizes, in ascending order.
    OneOf(Vec<u32>),
}

impl SizeLimits {
    /// Returns the sizes as bounds, which find the nearest size.
    ///
    /// # Errors
    /// [`PlaceError::NoSize`] if they leave no size.
    pub fn bounds(&self) -> Result<Bounds, PlaceError> {
        let allowed = match &self.allowed {
            AllowedSizes::Any => Allowed::Any,
            AllowedSizes::MultipleOf(of) => Allowed::MultipleOf(*of),
            AllowedSizes::PowerOfTwo => Allowed::PowerOfTwo,
            AllowedSizes::Square => Allowed::Square,
            AllowedSizes::OneOf(sizes) => Allowed::OneOf(sizes.clone()),
        };
        Bounds::new(self.min, self.max, allowed)
    }
}

impl fmt::Display for SizeLimits {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max, allowed } = self;
        write!(to, "{min} to {max}")?;
        match allowed {
            AllowedSizes::Any => Ok(()),
            AllowedSizes::MultipleOf(of) => write!(to, ", multiples of {of}"),
            AllowedSizes::PowerOfTwo => to.write_str(", powers of two"),
            AllowedSizes::Square => to.write_str(", squares"),
            AllowedSizes::OneOf(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
                write!(to, ", one of {}", sizes.join(" "))
            }
        }
    }
}
