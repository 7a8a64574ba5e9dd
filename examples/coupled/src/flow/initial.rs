//! The state a deck starts from.

use serde::{Deserialize, Serialize};

use super::Mesh;

/// Initial shape of the water.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// At rest, level.
    Lake,
    /// A smooth hill of water.
    Hump,
    /// A column of water with a vertical wall, released at the start.
    Dam,
}

/// Something round on the mesh: positions and radius as fractions of the mesh's width and height.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    pub x: f64,
    pub y: f64,
    pub radius: f64,
    /// Of the middle, in the unit of the quantity.
    pub height: f64,
}

impl Round {
    /// Distance of the middle of a cell over the radius.
    fn distance(&self, mesh: &Mesh, i: usize, j: usize) -> f64 {
        let x = (i as f64 + 0.5) / mesh.nx as f64 - self.x;
        let y = (j as f64 + 0.5) / mesh.ny as f64 - self.y;
        (x * x + y * y).sqrt() / self.radius
    }

    fn smooth(&self, mesh: &Mesh, i: usize, j: usize) -> f64 {
        let distance = self.distance(mesh, i, j);
        // A polynomial, not an exponential: the same bits from every mathematics library.
        let inside = (1.0 - distance * distance).max(0.0);
        self.height * inside * inside
    }

    fn sharp(&self, mesh: &Mesh, i: usize, j: usize) -> f64 {
        if self.distance(mesh, i, j) < 1.0 { self.height } else { 0.0 }
    }
}

/// A cell at the start.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Cell {
    /// Height of the bed in metres.
    pub bed: f64,
    /// Depth of the water in metres.
    pub depth: f64,
    pub temperature: f64,
}

/// The whole initial state, as functions of position.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Initial {
    /// Height of the water's surface at rest, in metres above the bed's zero.
    pub level: f64,
    pub shape: Shape,
    /// Water above the level (of no effect in a lake).
    pub water: Round,
    /// Hill on the bed.
    pub bed: Option<Round>,
    pub background: f64,
    /// Part that is warmer than the background.
    pub warm: Round,
}

impl Initial {
    /// The state of cell (`i`, `j`).
    pub fn cell(&self, mesh: &Mesh, i: usize, j: usize) -> Cell {
        let bed = self.bed.map_or(0.0, |hill| hill.smooth(mesh, i, j));
        let above = match self.shape {
            Shape::Lake => 0.0,
            Shape::Hump => self.water.smooth(mesh, i, j),
            Shape::Dam => self.water.sharp(mesh, i, j),
        };
        let temperature = self.background + self.warm.smooth(mesh, i, j);
        Cell { bed, depth: self.level + above - bed, temperature }
    }
}
