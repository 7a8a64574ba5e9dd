//! Number of processes that a job may have.

use std::fmt;
use std::sync::Arc;

use super::PlaceError;

/// Which sizes a program can work with.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Allowed {
    /// All.
    #[default]
    Any,
    /// Multiples of this; of 0, none.
    MultipleOf(u32),
    /// 1, 2, 4, 8 and so on.
    PowerOfTwo,
    /// 1, 4, 9, 16 and so on.
    Square,
    /// These.
    OneOf(Vec<u32>),
    /// Sizes that the program says yes to. Has to give the same answer each time.
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

/// The least and the most processes of a job, and which sizes between them it can work with.
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
    /// From `min` to `max`, both included. Fails if that leaves no size; 0 is none.
    pub fn new(min: u32, max: u32, allowed: Allowed) -> Result<Bounds, PlaceError> {
        let bounds = Bounds { min: min.max(1), max, allowed };
        match bounds.at_most(max) {
            Some(_) => Ok(bounds),
            None => Err(PlaceError::NoSize { min, max }),
        }
    }

    /// The least.
    pub fn min(&self) -> u32 {
        self.min
    }

    /// The most.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// Returns true if a job may have this size.
    pub fn allows(&self, size: u32) -> bool {
        (self.min..=self.max).contains(&size) && self.allowed.allows(size)
    }

    /// The same as an error that names the nearest sizes a job may have.
    pub fn check(&self, size: u32) -> Result<(), PlaceError> {
        if self.allows(size) {
            return Ok(());
        }
        let (below, above) = (self.at_most(size), self.at_least(size));
        Err(PlaceError::Size { size, below, above })
    }

    /// The largest size that is no larger than this. Asks for one size after the other.
    pub fn at_most(&self, size: u32) -> Option<u32> {
        (self.min..=size.min(self.max)).rev().find(|size| self.allowed.allows(*size))
    }

    /// The smallest size that is no smaller than this. Asks for one size after the other.
    pub fn at_least(&self, size: u32) -> Option<u32> {
        (size.max(self.min)..=self.max).find(|size| self.allowed.allows(*size))
    }
}
