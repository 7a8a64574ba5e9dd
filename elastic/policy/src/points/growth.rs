//! Arrangements of processors, and their order of growth.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PointsError;

/// An arrangement of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Configuration {
    /// This many in a line.
    Line(u32),
    /// In rows and columns.
    Grid(u32, u32),
}

impl Configuration {
    /// Number of processors. Grids made by [`Configuration::grid`] or [`Growth`] have a
    /// representable number; any other one that is too large counts as `u32::MAX`.
    pub fn size(self) -> u32 {
        let (rows, columns) = self.dimensions();
        rows.saturating_mul(columns)
    }

    /// Makes a grid with a representable number of processors.
    ///
    /// # Errors
    /// [`PointsError::NoProcessors`] for no processors, or more than `u32::MAX`.
    pub fn grid(rows: u32, columns: u32) -> Result<Configuration, PointsError> {
        match rows.checked_mul(columns) {
            None | Some(0) => Err(PointsError::NoProcessors { call: "grid", rows, columns }),
            Some(_) => Ok(Configuration::Grid(rows, columns)),
        }
    }

    /// Returns rows and columns; a line is one column.
    #[doc(alias = "reshape_getNewProcessorDimensions")]
    #[doc(alias = "reshape_getOldProcessorDimensions")]
    pub fn dimensions(self) -> (u32, u32) {
        match self {
            Configuration::Line(count) => (count, 1),
            Configuration::Grid(rows, columns) => (rows, columns),
        }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Configuration::Line(count) => write!(to, "{count}"),
            Configuration::Grid(rows, columns) => write!(to, "{rows}x{columns}"),
        }
    }
}

/// Kind of arrangement that a program works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "ProcessorTopology")]
pub enum Topology {
    /// Any number; it grows by the increment, or by the smallest multiple that gives a valid size.
    Arbitrary {
        /// The increment.
        increment: u32,
    },
    /// A power of two; it doubles.
    PowerOfTwo,
    /// A grid; the smaller dimension grows, columns if both are equal.
    NearlySquare {
        /// Largest difference between rows and columns; `None`: any. Grids beyond it are skipped.
        difference: Option<u32>,
        /// Number that each dimension has to divide, such as rows of a matrix or of blocks; `None`:
        /// no restriction.
        divides: Option<u32>,
    },
}

impl Topology {
    /// Checks that a program can begin with this configuration.
    ///
    /// # Errors
    /// [`PointsError::NoProcessors`] for no processors, or more than `u32::MAX`;
    /// [`PointsError::Zero`] if the topology has an increment or a divided number of 0;
    /// [`PointsError::NotOfThisKind`] if the configuration does not match the topology.
    #[doc(alias = "reshape_Init")]
    pub fn start(self, configuration: Configuration) -> Result<Configuration, PointsError> {
        let (rows, columns) = configuration.dimensions();
        if rows.checked_mul(columns).unwrap_or(0) == 0 {
            return Err(PointsError::NoProcessors { call: "start", rows, columns });
        }
        let wrong = |wanted| Err(PointsError::NotOfThisKind { configuration, wanted });
        match (self, configuration) {
            (Topology::Arbitrary { increment: 0 }, _) => {
                Err(PointsError::Zero { call: "start", what: "the increment" })
            }
            (Topology::NearlySquare { divides: Some(0), .. }, _) => {
                Err(PointsError::Zero { call: "start", what: "the number that dimensions divide" })
            }
            (Topology::NearlySquare { .. }, Configuration::Line(_)) => wrong("a grid"),
            (Topology::NearlySquare { divides: Some(whole), .. }, _)
                if whole % rows != 0 || whole % columns != 0 =>
            {
                wrong("a grid whose dimensions divide the data")
            }
            (Topology::PowerOfTwo, _) if !configuration.size().is_power_of_two() => {
                wrong("a power of two")
            }
            (Topology::Arbitrary { .. } | Topology::PowerOfTwo, Configuration::Grid(..)) => {
                wrong("a line, not a grid")
            }
            _ => Ok(configuration),
        }
    }
}

/// Order of configurations.
///
/// ```
/// use elastic_policy::points::{Configuration, Growth, Topology};
/// // LU of a 16000 x 16000 matrix in blocks of 200 (table 2.3): 4, 16, 20, 25, 64, 100 processors.
/// let topology = Topology::NearlySquare { difference: Some(1), divides: Some(16000 / 200) };
/// let growth = Growth { topology, most: 100, valid: &|_| true };
/// let sizes: Vec<u32> = growth.from(Configuration::Grid(2, 2)).map(Configuration::size).collect();
/// assert_eq!(sizes, [16, 20, 25, 64, 100]);
/// ```
#[derive(Clone, Copy)]
pub struct Growth<'a> {
    /// The kind of arrangement.
    pub topology: Topology,
    /// The largest number of processors.
    pub most: u32,
    /// Returns true if the program can work with a configuration: its own rule, for example that
    /// the size of the data be a multiple of it. Must be deterministic.
    #[doc(alias = "check_valid_processor_size")]
    pub valid: &'a dyn Fn(Configuration) -> bool,
}

impl<'a> Growth<'a> {
    /// Returns the next larger configuration; `None` if there is none up to the maximum.
    pub fn next(&self, from: Configuration) -> Option<Configuration> {
        let mut candidate = from;
        loop {
            candidate = self.larger(candidate)?;
            if candidate.size() > self.most {
                return None;
            }
            if self.is_near_enough(candidate) && (self.valid)(candidate) {
                return Some(candidate);
            }
        }
    }

    /// Iterates over all larger configurations in order.
    pub fn from(self, start: Configuration) -> impl Iterator<Item = Configuration> + use<'a> {
        std::iter::successors(self.next(start), move |last| self.next(*last))
    }

    /// Returns the next step of the topology, whether valid or not. Always larger.
    fn larger(&self, from: Configuration) -> Option<Configuration> {
        let (rows, columns) = from.dimensions();
        match self.topology {
            Topology::Arbitrary { increment } => {
                let more = from.size().checked_add(increment.max(1))?;
                Some(Configuration::Line(more))
            }
            Topology::PowerOfTwo => {
                from.size().checked_add(1)?.checked_next_power_of_two().map(Configuration::Line)
            }
            Topology::NearlySquare { divides, .. } => {
                let (rows, columns) = match rows < columns {
                    true => (next_divisor(rows, divides)?, columns),
                    false => (rows, next_divisor(columns, divides)?),
                };
                Configuration::grid(rows, columns).ok()
            }
        }
    }

    fn is_near_enough(&self, configuration: Configuration) -> bool {
        let (rows, columns) = configuration.dimensions();
        match self.topology {
            Topology::NearlySquare { difference: Some(most), .. } => rows.abs_diff(columns) <= most,
            _ => true,
        }
    }
}

/// Returns the smallest number above `from` that divides `whole`; the next number without `whole`.
fn next_divisor(from: u32, whole: Option<u32>) -> Option<u32> {
    match whole {
        None => from.checked_add(1),
        Some(whole) => {
            let small = (1..=whole.isqrt()).filter(|divisor| whole % divisor == 0);
            small.flat_map(|divisor| [divisor, whole / divisor]).filter(|one| *one > from).min()
        }
    }
}
