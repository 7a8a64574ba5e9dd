use super::initial::{Initial, Round, Shape};
use super::*;

const GRAVITY: f64 = 9.81;

fn initial(shape: Shape, bed: bool) -> Initial {
    Initial {
        level: 2.0,
        shape,
        water: Round { x: 0.4, y: 0.55, radius: 0.25, height: 1.0 },
        bed: bed.then_some(Round { x: 0.6, y: 0.45, radius: 0.3, height: 1.2 }),
        background: 10.0,
        warm: Round { x: 0.5, y: 0.5, radius: 0.3, height: 15.0 },
    }
}

fn mesh(n: usize) -> Mesh {
    Mesh { nx: n, ny: n, dx: 10.0 / n as f64, dy: 10.0 / n as f64 }
}

/// The whole mesh in `count` blocks, with copies in place of messages.
struct Blocks(Vec<FlowBlock>);

impl Blocks {
    fn new(mesh: Mesh, count: usize, initial: &Initial) -> Self {
        let block = |k| FlowBlock::new(mesh, rows_of(mesh.ny, k, count), GRAVITY, initial);
        Blocks((0..count).map(block).collect())
    }

    fn step(&mut self, cfl: f64) -> f64 {
        let last = self.0.len() - 1;
        let mut message = vec![0.0; self.0[0].edge_len()];
        self.0[0].wall(Edge::Below);
        self.0[last].wall(Edge::Above);
        for k in 0..last {
            self.0[k].pack_edge(Edge::Above, &mut message);
            self.0[k + 1].unpack_edge(Edge::Below, &message);
            self.0[k + 1].pack_edge(Edge::Below, &mut message);
            self.0[k].unpack_edge(Edge::Above, &message);
        }
        let worst = self.0.iter_mut().map(FlowBlock::derive).fold(0.0, f64::max);
        let dt = cfl / worst;
        for block in &mut self.0 {
            block.advance(dt);
        }
        dt
    }

    fn field(&self, field: usize) -> Vec<f64> {
        let mut all = Vec::new();
        for block in &self.0 {
            let mut part = vec![0.0; block.local_rows() * block.mesh().nx];
            block.copy_out(field, &mut part);
            all.extend(part);
        }
        all
    }
}

#[test]
fn rows_carry_depth_and_heat_out_and_heat_alone_back() {
    let mut block = FlowBlock::new(mesh(6), 2..5, GRAVITY, &initial(Shape::Hump, true));
    let mut rows = vec![0.0; block.rows_len()];
    block.copy_rows_out(&mut rows);
    let mut depth = vec![0.0; 18];
    block.copy_out(DEPTH, &mut depth);
    assert_eq!(rows[..6], depth[..6]);
    assert_eq!(rows[12..18], depth[6..12]);
    block.copy_heat_in(&rows.iter().map(|value| 2.0 * value).collect::<Vec<_>>());
    let (mut same, mut heat) = (vec![0.0; 18], vec![0.0; 18]);
    block.copy_out(DEPTH, &mut same);
    block.copy_out(HEAT, &mut heat);
    assert_eq!(same, depth);
    assert_eq!(heat[6], 2.0 * rows[18]);
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_blocks() {
    let run = |count| {
        let mut blocks = Blocks::new(mesh(37), count, &initial(Shape::Dam, true));
        for _ in 0..60 {
            blocks.step(0.4);
        }
        std::array::from_fn::<_, FIELDS, _>(|field| blocks.field(field))
    };
    let one = run(1);
    for count in [2, 3, 4, 7, 37] {
        assert!(run(count) == one, "{count} blocks differ from one");
    }
}

#[test]
fn mass_and_heat_are_conserved() {
    let mut blocks = Blocks::new(mesh(48), 3, &initial(Shape::Dam, true));
    let totals = |blocks: &Blocks| [0, 3].map(|field| blocks.field(field).iter().sum::<f64>());
    let [mass, heat] = totals(&blocks);
    for _ in 0..200 {
        blocks.step(0.45);
    }
    let [mass_after, heat_after] = totals(&blocks);
    assert!((mass_after / mass - 1.0).abs() < 1e-13);
    assert!((heat_after / heat - 1.0).abs() < 1e-13);
    // And something did happen.
    assert!(blocks.field(1).iter().any(|m| m.abs() > 0.1));
}

#[test]
fn a_lake_over_a_hill_stays_at_rest() {
    let initial = initial(Shape::Lake, true);
    let mut blocks = Blocks::new(mesh(40), 2, &initial);
    let before = blocks.field(0);
    for _ in 0..200 {
        blocks.step(0.45);
    }
    for (old, new) in before.iter().zip(blocks.field(0)) {
        assert!((old - new).abs() < 1e-12);
    }
    for momentum in [blocks.field(1), blocks.field(2)] {
        assert!(momentum.iter().all(|m| m.abs() < 1e-11));
    }
}

#[test]
fn temperatures_stay_within_their_bounds() {
    let initial = initial(Shape::Dam, true);
    let mut blocks = Blocks::new(mesh(40), 2, &initial);
    for _ in 0..150 {
        blocks.step(0.45);
    }
    for (q, h) in blocks.field(3).iter().zip(blocks.field(0)) {
        let temperature = q / h;
        assert!((10.0 - 1e-9..=25.0 + 1e-9).contains(&temperature), "{temperature}");
    }
}

#[test]
fn a_round_wave_is_the_same_in_x_and_y() {
    let mut initial = initial(Shape::Hump, false);
    initial.water = Round { x: 0.5, y: 0.5, radius: 0.3, height: 0.5 };
    initial.warm = initial.water;
    let n = 32;
    let mut blocks = Blocks::new(mesh(n), 2, &initial);
    for _ in 0..40 {
        blocks.step(0.4);
    }
    let (h, hu, hv) = (blocks.field(0), blocks.field(1), blocks.field(2));
    for j in 0..n {
        for i in 0..n {
            assert!((h[j * n + i] - h[i * n + j]).abs() < 1e-12);
            assert!((hu[j * n + i] - hv[i * n + j]).abs() < 1e-12);
        }
    }
}

/// A dam in one dimension: mean of |h - exact| (Stoker's solution) over the mesh.
fn dam_error(n: usize) -> f64 {
    let mesh = Mesh { nx: n, ny: 1, dx: 1.0 / n as f64, dy: 1.0 };
    let mut initial = initial(Shape::Dam, false);
    // So far away and large that its edge is a straight line at x = 0.5.
    initial.water = Round { x: -1e6, y: 0.5, radius: 1e6 + 0.5, height: 1.0 };
    initial.level = 1.0;
    let mut blocks = Blocks::new(mesh, 1, &initial);
    let (end, mut now) = (0.05, 0.0);
    while now < end {
        now += blocks.step(0.45);
    }
    let (left, right) = ((GRAVITY * 2.0).sqrt(), 1.0);
    // Middle state: the wave speed c at which the rarefaction and the shock agree (bisection).
    let mismatch = |c: f64| {
        let h = c * c / GRAVITY;
        2.0 * (left - c) - (h - right) * (0.5 * GRAVITY * (h + right) / (h * right)).sqrt()
    };
    let (mut low, mut high) = ((GRAVITY * right).sqrt(), left);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if mismatch(middle) > 0.0 { low = middle } else { high = middle }
    }
    let c = low;
    let (h, u) = (c * c / GRAVITY, 2.0 * (left - c));
    let shock = h * u / (h - right);
    let exact = |x: f64| {
        let s = (x - 0.5) / now;
        if s < -left {
            2.0
        } else if s < u - c {
            (2.0 * left - s).powi(2) / (9.0 * GRAVITY)
        } else if s < shock {
            h
        } else {
            right
        }
    };
    let cells = blocks.field(0);
    cells
        .iter()
        .enumerate()
        .map(|(i, h)| (h - exact((i as f64 + 0.5) / n as f64)).abs() / n as f64)
        .sum()
}

#[test]
fn a_dam_break_converges_to_the_exact_solution() {
    let (coarse, fine) = (dam_error(200), dam_error(800));
    assert!(fine < 0.01, "{fine}");
    let order = (coarse / fine).log2() / 2.0;
    assert!((0.5..1.2).contains(&order), "order {order}: {coarse} {fine}");
}
