//! The numerical flux through a row of faces.

/// The cells on one side of a row of faces: depths, velocities normal and transverse to the faces, temperatures, bed.
pub type Side<'a> = [&'a [f64]; 5];

/// Fluxes per metre of face. The bed makes the normal momentum that leaves the left cell differ
/// from the one that enters the right one.
#[derive(Debug, Clone, Default)]
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
        let mut row = FluxRow::default();
        row.parts().iter_mut().for_each(|part| part.resize(faces, 0.0));
        row
    }

    fn parts(&mut self) -> [&mut Vec<f64>; 5] {
        let FluxRow { mass, left_normal, right_normal, transverse, heat } = self;
        [mass, left_normal, right_normal, transverse, heat]
    }
}

/// HLL fluxes of mass and normal momentum between hydrostatically reconstructed states, upwind
/// fluxes of the quantities that the mass carries along.
pub fn flux_row(out: &mut FluxRow, left: &Side<'_>, right: &Side<'_>, gravity: f64) {
    let n = out.mass.len();
    let half = 0.5 * gravity;
    // Slices of one length in separate variables, not mapped arrays: else the loop is not
    // vectorised.
    let (lh, ln, lt) = (&left[0][..n], &left[1][..n], &left[2][..n]);
    let (lq, lb) = (&left[3][..n], &left[4][..n]);
    let (rh, rn, rt) = (&right[0][..n], &right[1][..n], &right[2][..n]);
    let (rq, rb) = (&right[3][..n], &right[4][..n]);
    let FluxRow { mass, left_normal, right_normal, transverse, heat } = out;
    let (mass, left_normal) = (&mut mass[..n], &mut left_normal[..n]);
    let (right_normal, transverse) = (&mut right_normal[..n], &mut transverse[..n]);
    let heat = &mut heat[..n];
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
