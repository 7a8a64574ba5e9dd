//! Pictures: plain SVG, drawn from plain numbers.
//!
//! Nothing here knows traces. A caller fills a [`Timeline`], a [`Heat`], [`Bars`], a [`Call`] or a [`Curve`]
//! and gets the text of an SVG.

mod areas;
mod bars;
mod curve;
mod heat;
mod icicle;
mod legend;
mod palette;
mod phases;
mod scale;
mod timeline;

#[cfg(test)]
mod tests;

pub use bars::{Bar, Bars, bars};
pub use curve::{Curve, Fitted, Point, curve};
pub use heat::{Heat, heat};
pub use icicle::{Call, icicle};
pub use palette::{GROUPS, PAGE_CSS, Shades, group_of};
pub use timeline::timeline;

/// Colours of everything that is not data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Dark ink on white.
    #[default]
    Light,
    /// Light ink on near black.
    Dark,
    /// Colours are left to the page that embeds the picture, which includes [`PAGE_CSS`].
    Page,
}

/// Size and colours of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Style {
    /// Width in pixels, the legend included.
    pub width: f64,
    /// Height in pixels; a picture with separate rows exceeds it where necessary.
    pub height: f64,
    /// Colours of ink, paper and grid.
    pub theme: Theme,
    /// True if a legend stands at the right.
    pub legend: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 1040.0, height: 420.0, theme: Theme::Light, legend: true }
    }
}

/// Stacked components over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// One line above the picture.
    pub title: String,
    /// Nanoseconds, ascending.
    pub times: Vec<u64>,
    /// Series of the stack; the order does not matter.
    pub series: Vec<Series>,
    /// The most that all together can have had at any time, between samples too: bytes, one for each time. A line of
    /// pages, which the reader switches on.
    pub possible: Option<Vec<u64>>,
    /// A dashed line over the areas.
    pub outline: Option<Outline>,
    /// Phases of the program.
    pub phases: Vec<Phase>,
    /// When samples were taken, ascending: marked below the areas.
    pub samples: Vec<u64>,
    /// The point to mark.
    pub peak: Option<Peak>,
}

/// One component of a [`Timeline`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The component, as in `mpi.dep:libopen-pal.so.40`.
    pub name: String,
    /// Its group, one of [`GROUPS`]; decides colour and place in the stack.
    pub group: String,
    /// Bytes, one for each time. Missing ones count as 0.
    pub values: Vec<u64>,
}

/// A line over the areas of a [`Timeline`], as the bytes owned over those resident.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outline {
    /// Its title.
    pub name: String,
    /// Bytes, one for each time.
    pub values: Vec<u64>,
}

/// An interval of a [`Timeline`] with a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Phase {
    /// The program's name for it.
    pub name: String,
    /// Nanoseconds, inclusive.
    pub begin: u64,
    /// Nanoseconds, exclusive.
    pub end: u64,
    /// 0 for the outermost; deeper ones are drawn below.
    pub depth: usize,
    /// Nothing is known of what was resident in it: it is hatched, and hides what is drawn behind it.
    pub is_unseen: bool,
}

/// A point of a [`Timeline`] that is marked and labelled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peak {
    /// Nanoseconds.
    pub time: u64,
    /// Bytes.
    pub bytes: u64,
    /// Text of the label; empty for the bytes and the time.
    pub label: String,
}
