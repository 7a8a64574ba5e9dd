//! L0: explicit shallow water with a passive tracer, one block of rows per rank.
//!
//! First-order finite volumes with the HLL flux; the bed enters by hydrostatic reconstruction
//! (Audusse et al. 2004), so water at rest over any bed stays at rest; the tracer and the
//! transverse momentum follow the mass flux upwind, so temperatures stay within their bounds.
//! Each cell is computed by the same operations in the same order wherever block borders lie.

pub mod flux;
pub mod halo;
pub mod initial;

use std::ops::Range;

use flux::{FluxRow, Side, flux_row};

/// Conserved quantities per cell: depth, two momenta, depth × temperature.
pub const FIELDS: usize = 4;

/// The conserved quantities that L1 works with.
pub const DEPTH: usize = 0;
pub const HEAT: usize = 3;

/// Names of the conserved quantities in files and reports.
pub const FIELD_NAMES: [&str; FIELDS] = ["depth", "momentum_x", "momentum_y", "heat"];

/// The mesh, in cells and metres.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Mesh {
    pub nx: usize,
    pub ny: usize,
    pub dx: f64,
    pub dy: f64,
}

/// The rows of the mesh that block `index` of `count` holds: contiguous, balanced, covering all.
pub fn rows_of(ny: usize, index: usize, count: usize) -> Range<usize> {
    ny * index / count..ny * (index + 1) / count
}

/// Which neighbour's rows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Edge {
    Below,
    Above,
}

/// A block of rows of the mesh, with one ghost cell all around.
#[derive(Debug)]
pub struct FlowBlock {
    mesh: Mesh,
    rows: Range<usize>,
    gravity: f64,
    stride: usize,
    /// Conserved quantities.
    fields: [Vec<f64>; FIELDS],
    bed: Vec<f64>,
    /// Velocities and temperature, derived from the conserved quantities before each step.
    u: Vec<f64>,
    v: Vec<f64>,
    t: Vec<f64>,
    across: FluxRow,
    below: FluxRow,
    above: FluxRow,
}

impl FlowBlock {
    /// A block of the rows `rows` filled from `initial`.
    pub fn new(mesh: Mesh, rows: Range<usize>, gravity: f64, initial: &initial::Initial) -> Self {
        let stride = mesh.nx + 2;
        let cells = stride * (rows.len() + 2);
        let zeros = || vec![0.0; cells];
        let mut block = FlowBlock {
            mesh,
            rows: rows.clone(),
            gravity,
            stride,
            fields: [zeros(), zeros(), zeros(), zeros()],
            bed: zeros(),
            u: zeros(),
            v: zeros(),
            t: zeros(),
            across: FluxRow::new(mesh.nx + 1),
            below: FluxRow::new(mesh.nx),
            above: FluxRow::new(mesh.nx),
        };
        for local in 0..block.local_rows() + 2 {
            // Ghost rows beyond a wall mirror the bed; ghost rows of neighbours are computed alike.
            let row = (rows.start + local).saturating_sub(1).min(mesh.ny - 1);
            for column in 0..stride {
                let i = column.saturating_sub(1).min(mesh.nx - 1);
                let cell = initial.cell(&mesh, i, row);
                let at = local * stride + column;
                block.bed[at] = cell.bed;
                block.fields[0][at] = cell.depth;
                block.fields[3][at] = cell.depth * cell.temperature;
            }
        }
        block
    }

    /// Number of rows of cells that this block holds.
    pub fn local_rows(&self) -> usize {
        self.rows.len()
    }

    /// The mesh this is a block of.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    fn row(&self, local: usize) -> Range<usize> {
        let start = (local + 1) * self.stride + 1;
        start..start + self.mesh.nx
    }

    /// Copies the block's cells of one field, row by row without ghost cells, to `out`.
    pub fn copy_out(&self, field: usize, out: &mut [f64]) {
        for (local, row) in out.chunks_exact_mut(self.mesh.nx).enumerate() {
            row.copy_from_slice(&self.fields[field][self.row(local)]);
        }
    }

    /// Takes over the block's cells of one field, laid out as by [`Self::copy_out`].
    pub fn copy_in(&mut self, field: usize, cells: &[f64]) {
        for (local, row) in cells.chunks_exact(self.mesh.nx).enumerate() {
            let place = self.row(local);
            self.fields[field][place].copy_from_slice(row);
        }
    }

    /// Values that [`Self::copy_rows_out`] writes.
    pub fn rows_len(&self) -> usize {
        2 * self.mesh.nx * self.local_rows()
    }

    /// Writes the block's rows to `rows`, each as its depths followed by its heats.
    pub fn copy_rows_out(&self, rows: &mut [f64]) {
        for (local, row) in rows.chunks_exact_mut(2 * self.mesh.nx).enumerate() {
            let (depth, heat) = row.split_at_mut(self.mesh.nx);
            depth.copy_from_slice(&self.fields[DEPTH][self.row(local)]);
            heat.copy_from_slice(&self.fields[HEAT][self.row(local)]);
        }
    }

    /// Takes over the heats, and only those, of rows laid out as by [`Self::copy_rows_out`].
    pub fn copy_heat_in(&mut self, rows: &[f64]) {
        for (local, row) in rows.chunks_exact(2 * self.mesh.nx).enumerate() {
            let cells = self.row(local);
            self.fields[HEAT][cells].copy_from_slice(&row[self.mesh.nx..]);
        }
    }

    /// Values that one halo message carries.
    pub fn edge_len(&self) -> usize {
        FIELDS * self.mesh.nx
    }

    /// Writes the outermost row of cells at `edge` to a message for the neighbour there.
    pub fn pack_edge(&self, edge: Edge, message: &mut [f64]) {
        let cells = self.edge_row(edge);
        for (field, part) in self.fields.iter().zip(message.chunks_exact_mut(self.mesh.nx)) {
            part.copy_from_slice(&field[cells.clone()]);
        }
    }

    /// Fills the ghost row at `edge` from the neighbour's message.
    pub fn unpack_edge(&mut self, edge: Edge, message: &[f64]) {
        let cells = self.ghost_row(edge);
        for (field, part) in self.fields.iter_mut().zip(message.chunks_exact(self.mesh.nx)) {
            field[cells.clone()].copy_from_slice(part);
        }
    }

    /// Fills the ghost row at `edge` with the mirror image of the water: a wall.
    pub fn wall(&mut self, edge: Edge) {
        let (ghost, inside) = (self.ghost_row(edge), self.edge_row(edge));
        for field in &mut self.fields {
            field.copy_within(inside.clone(), ghost.start);
        }
        for value in &mut self.fields[2][ghost] {
            *value = -*value;
        }
    }

    fn edge_row(&self, edge: Edge) -> Range<usize> {
        self.row(if edge == Edge::Below { 0 } else { self.local_rows() - 1 })
    }

    fn ghost_row(&self, edge: Edge) -> Range<usize> {
        let start = match edge {
            Edge::Below => 1,
            Edge::Above => (self.local_rows() + 1) * self.stride + 1,
        };
        start..start + self.mesh.nx
    }

    /// Derives velocities and temperatures, ghost cells included, and returns the largest wave
    /// speed over cell size of this block's cells, in 1/s (infinite if some cell is not a number).
    pub fn derive(&mut self) -> f64 {
        let (nx, rows) = (self.mesh.nx, self.rows.len());
        let (rdx, rdy, gravity) = (1.0 / self.mesh.dx, 1.0 / self.mesh.dy, self.gravity);
        let [h, hu, hv, q] = &mut self.fields;
        let mut worst = 0.0_f64;
        let mut sound = true;
        for local in 0..rows + 2 {
            let row = local * self.stride..(local + 1) * self.stride;
            for (field, sign) in [(&mut *h, 1.0), (&mut *hu, -1.0), (&mut *hv, 1.0), (&mut *q, 1.0)]
            {
                field[row.start] = sign * field[row.start + 1];
                field[row.end - 1] = sign * field[row.end - 2];
            }
            let (h, hu, hv, q) =
                (&h[row.clone()], &hu[row.clone()], &hv[row.clone()], &q[row.clone()]);
            let (u, v, t) =
                (&mut self.u[row.clone()], &mut self.v[row.clone()], &mut self.t[row.clone()]);
            for i in 0..nx + 2 {
                let inverse = 1.0 / h[i].max(1e-12);
                u[i] = hu[i] * inverse;
                v[i] = hv[i] * inverse;
                t[i] = q[i] * inverse;
            }
            if (1..=rows).contains(&local) {
                for i in 1..=nx {
                    let wave = (gravity * h[i]).sqrt();
                    let speed = (u[i].abs() + wave) * rdx + (v[i].abs() + wave) * rdy;
                    worst = if speed > worst { speed } else { worst };
                    sound &= speed.is_finite();
                }
            }
        }
        if sound { worst } else { f64::INFINITY }
    }

    /// Moves the water on by `dt` seconds; the ghost rows and derived values must be fresh.
    pub fn advance(&mut self, dt: f64) {
        let FlowBlock { mesh, stride, gravity, fields, bed, u, v, t, across, below, above, .. } =
            self;
        let (nx, stride, gravity) = (mesh.nx, *stride, *gravity);
        let (rx, ry) = (dt / mesh.dx, dt / mesh.dy);
        // Faces between the ghosted rows `row` and `row + 1`. A row is updated after both.
        let vertical = |out: &mut FluxRow, depth: &[f64], row: usize| {
            let from = row * stride + 1;
            let (lower, upper) = (from..from + nx, from + stride..from + stride + nx);
            let side =
                |at: Range<usize>| -> Side<'_> { [depth, v, u, t, bed].map(|f| &f[at.clone()]) };
            flux_row(out, &side(lower), &side(upper), gravity);
        };
        vertical(above, &fields[0], 0);
        for row in 1..=self.rows.len() {
            std::mem::swap(below, above);
            vertical(above, &fields[0], row);
            let start = row * stride;
            let side = |at: Range<usize>| -> Side<'_> {
                [&fields[0], u, v, t, bed].map(|f| &f[at.clone()])
            };
            flux_row(
                across,
                &side(start..start + nx + 1),
                &side(start + 1..start + nx + 2),
                gravity,
            );

            let cells = start + 1..start + 1 + nx;
            let [h, hu, hv, q] = fields.each_mut().map(|field| &mut field[cells.clone()]);
            let x = (&across.mass, &across.mass);
            update(h, x, rx, (&below.mass, &above.mass), ry);
            let x = (&across.right_normal, &across.left_normal);
            update(hu, x, rx, (&below.transverse, &above.transverse), ry);
            let x = (&across.transverse, &across.transverse);
            update(hv, x, rx, (&below.right_normal, &above.left_normal), ry);
            let x = (&across.heat, &across.heat);
            update(q, x, rx, (&below.heat, &above.heat), ry);
        }
    }
}

/// Adds the net inflow through the four faces of each cell of a row: `x` holds the fluxes that
/// enter through left faces and leave through right ones, `y` the fluxes that enter from below and
/// leave above.
fn update(
    cells: &mut [f64],
    x: (&Vec<f64>, &Vec<f64>),
    rx: f64,
    y: (&Vec<f64>, &Vec<f64>),
    ry: f64,
) {
    let n = cells.len();
    let (enter_left, leave_right) = (&x.0[..n], &x.1[1..=n]);
    let (enter_below, leave_above) = (&y.0[..n], &y.1[..n]);
    for i in 0..n {
        cells[i] -= rx * (leave_right[i] - enter_left[i]) + ry * (leave_above[i] - enter_below[i]);
    }
}

#[cfg(test)]
mod tests;
