//! The numerical flux through a row of faces.

use std::ops::Range;

/// The cells on one side of a row of faces, seen along the normal of the faces.
pub struct Side<'a> {
    depth: &'a [f64],
    normal: &'a [f64],
    transverse: &'a [f64],
    temperature: &'a [f64],
    bed: &'a [f64],
}

impl<'a> Side<'a> {
    /// The cells `at` of the given fields (velocities normal and transverse to the faces).
    pub fn new(
        at: Range<usize>,
        depth: &'a [f64],
        normal: &'a [f64],
        transverse: &'a [f64],
        temperature: &'a [f64],
        bed: &'a [f64],
    ) -> Self {
        Side {
            depth: &depth[at.clone()],
            normal: &normal[at.clone()],
            transverse: &transverse[at.clone()],
            temperature: &temperature[at.clone()],
            bed: &bed[at],
        }
    }
}

/// Fluxes per metre of face. The bed makes the normal momentum that leaves the left cell differ
/// from the one that enters the right one.
#[derive(Debug, Clone)]
pub struct FluxRow {
    pub mass: Vec<f64>,
    pub left_normal: Vec<f64>,
    pub right_normal: Vec<f64>,
    pub transverse: Vec<f64>,
    pub heat: Vec<f64>,
}

impl FluxRow {
    /// For `faces` faces.
    pub fn new(faces: usize) -> Self {
        let zeros = || vec![0.0; faces];
        FluxRow {
            mass: zeros(),
            left_normal: zeros(),
            right_normal: zeros(),
            transverse: zeros(),
            heat: zeros(),
        }
    }
}

/// HLL fluxes of mass and normal momentum between hydrostatically reconstructed states, upwind
/// fluxes of the quantities that the mass carries along.
pub fn flux_row(out: &mut FluxRow, left: &Side<'_>, right: &Side<'_>, gravity: f64) {
    let n = out.mass.len();
    let half = 0.5 * gravity;
    let (lh, ln, lt, lq, lb) = (
        &left.depth[..n],
        &left.normal[..n],
        &left.transverse[..n],
        &left.temperature[..n],
        &left.bed[..n],
    );
    let (rh, rn, rt, rq, rb) = (
        &right.depth[..n],
        &right.normal[..n],
        &right.transverse[..n],
        &right.temperature[..n],
        &right.bed[..n],
    );
    let (mass, left_normal, right_normal, transverse, heat) = (
        &mut out.mass[..n],
        &mut out.left_normal[..n],
        &mut out.right_normal[..n],
        &mut out.transverse[..n],
        &mut out.heat[..n],
    );
    for i in 0..n {
        let bed = lb[i].max(rb[i]);
        let hl = (lh[i] + lb[i] - bed).max(0.0);
        let hr = (rh[i] + rb[i] - bed).max(0.0);
        let (ul, ur) = (ln[i], rn[i]);
        let (cl, cr) = ((gravity * hl).sqrt(), (gravity * hr).sqrt());
        let sl = (ul - cl).min(ur - cr).min(0.0);
        let sr = (ul + cl).max(ur + cr).max(0.0);
        // Both zero only where both sides are dry.
        let inverse = 1.0 / (sr - sl).max(1e-30);
        let (ml, mr) = (hl * ul, hr * ur);
        let (pl, pr) = (ml * ul + half * hl * hl, mr * ur + half * hr * hr);
        let m = (sr * ml - sl * mr + sl * sr * (hr - hl)) * inverse;
        let p = (sr * pl - sl * pr + sl * sr * (mr - ml)) * inverse;
        mass[i] = m;
        left_normal[i] = p + half * (lh[i] * lh[i] - hl * hl);
        right_normal[i] = p + half * (rh[i] * rh[i] - hr * hr);
        transverse[i] = m * if m >= 0.0 { lt[i] } else { rt[i] };
        heat[i] = m * if m >= 0.0 { lq[i] } else { rq[i] };
    }
}
