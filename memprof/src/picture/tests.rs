//! Pictures of plausible and of impossible jobs. If `MEMPROF_PICTURES` is set to a folder, they are
//! stored there for inspection.

use proptest::prelude::*;

use super::*;

fn keep(name: &str, svg: &str) {
    if let Some(folder) = std::env::var_os("MEMPROF_PICTURES") {
        let folder = std::path::PathBuf::from(folder);
        std::fs::write(folder.join(format!("{name}.svg")), svg).unwrap();
    }
}

const MIB: u64 = 1 << 20;

/// Returns a solver that sets up, iterates with a growing halo, and writes results.
fn solver() -> Timeline {
    let count = 240u64;
    let at = |shape: &dyn Fn(f64) -> f64| {
        (0..count)
            .map(|index| (shape(index as f64 / count as f64) * MIB as f64).max(0.0) as u64)
            .collect::<Vec<_>>()
    };
    let after = |start: f64, size: f64| move |t: f64| if t > start { size } else { 0.0 };
    let series = vec![
        Series::named(
            "app.exe",
            at(&|t| 40.0 * (t * 6.0).min(1.0) + 30.0 * f64::from(u8::from(t > 0.55 && t < 0.7))),
        ),
        Series::named(
            "app.lib:libhdf5.so.103",
            at(&|t| if t > 0.7 { 22.0 * (1.0 - ((t - 0.85) * 6.0).powi(2)).max(0.1) } else { 0.6 }),
        ),
        Series::named("app.lib:libblas.so.3", at(&|_| 2.1)),
        Series::named("mpi.core:libmpi.so.40", at(&after(0.06, 9.3))),
        Series::named(
            "mpi.dep:libopen-pal.so.40",
            at(&|t| if t > 0.06 { 6.0 + 5.0 * t } else { 0.0 }),
        ),
        Series::named("mpi.dep:libpmix.so.2", at(&after(0.05, 1.4))),
        Series::named("mpi.shm", at(&after(0.08, 16.0))),
        Series::named("mpi.for_user", at(&after(0.3, 8.0))),
        Series::named("runtime", at(&after(0.07, 1.1))),
        Series::named("omp:libgomp.so.1", at(&after(0.12, 0.4))),
        Series::named("stack.main", at(&|_| 0.2)),
        Series::named("stack:libgomp.so.1", at(&after(0.12, 0.9))),
        Series::named("system:libc.so.6", at(&|_| 1.9)),
        Series::named("slack", at(&|t| 3.0 + 4.0 * (t * 9.0).sin().abs())),
        Series::named("kernel", at(&|_| 0.6)),
        Series::named("tool", at(&|_| 4.6)),
        Series::named("unattributed", at(&|_| 0.3)),
    ];
    let times: Vec<u64> = (0..count).map(|index| index * 52_000_000).collect();
    let total = |index: usize| series.iter().map(|member| member.values[index]).sum::<u64>();
    let peak = (0..count as usize).max_by_key(|index| total(*index)).unwrap();
    let phase = |name: &str, begin: f64, end: f64, depth| {
        let place = |share: f64| (share * count as f64 * 52e6) as u64;
        Phase { name: name.into(), begin: place(begin), end: place(end), depth, is_unseen: false }
    };
    let mut phases = vec![
        phase("init", 0.0, 0.07, 0),
        phase("main", 0.07, 0.96, 0),
        phase("finalize", 0.96, 1.0, 0),
        phase("assemble", 0.12, 0.5, 1),
        phase("solve", 0.5, 0.72, 1),
        phase("write results", 0.73, 0.95, 1),
    ];
    phases.extend((0..40).map(|step| {
        phase("halo", 0.5 + f64::from(step) * 0.005, 0.503 + f64::from(step) * 0.005, 2)
    }));
    Timeline {
        possible: None,
        samples: (0..count).step_by(7).map(|index| index * 52_000_000).collect(),
        title: "rank 3 of 16 on node07: resident memory by component".into(),
        outline: Some(Outline {
            name: "owned, all components".into(),
            values: (0..count as usize).map(|index| total(index) + 6 * MIB).collect(),
        }),
        peak: Some(Peak { time: times[peak], bytes: total(peak), label: String::new() }),
        times,
        series,
        phases,
    }
}

#[test]
fn solver_is_drawn_with_phases_peak_and_largest_components() {
    let picture = solver();
    for (theme, name) in [(Theme::Light, "timeline-light"), (Theme::Dark, "timeline-dark")] {
        let svg = timeline(&picture, &Style { theme, ..Style::default() });
        keep(name, &svg);
        for text in [
            "app.exe",
            "libhdf5",
            "assemble",
            "peak ",
            "MiB",
            "around the peak",
            "owned, all components",
            "time, s",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("var("));
    }
    assert!(
        timeline(&picture, &Style { theme: Theme::Page, ..Style::default() })
            .contains("var(--memprof-ink)")
    );
}

#[test]
fn legends_are_sorted_by_size_at_the_peak() {
    let svg = timeline(&solver(), &Style::default());
    let entries: Vec<&str> =
        svg.match_indices("class=\"entry\"").map(|(at, _)| &svg[at..at + 60]).collect();
    assert!(entries[0].contains("app.exe"), "{entries:?}");
    assert!(entries[1].contains("mpi.shm"), "{entries:?}");
}

/// Returns the bytes at the top of a picture.
fn top_of(svg: &str) -> u64 {
    let (_, rest) = svg.split_once("data-bytes=\"").unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

/// Returns the heights of the points of the path with this class, and that of the top of the plot.
fn heights(svg: &str, class: &str) -> (Vec<f64>, f64) {
    let numbers = |text: &str| -> Vec<f64> {
        text.split(['M', 'L', ' ']).filter_map(|word| word.parse().ok()).collect()
    };
    let between = |from: &str| svg.split_once(from).unwrap().1.split_once('"').unwrap().0;
    let places = numbers(between(&format!("class=\"{class}\" d=\"")));
    (places.chunks(2).map(|place| place[1]).collect(), numbers(between("data-plot=\""))[1])
}

#[test]
fn phases_without_a_sample_are_hatched_with_legend() {
    let mut picture = solver();
    let style = Style::default();
    assert!(!timeline(&picture, &style).contains("unseen"));
    for phase in &mut picture.phases {
        // `main` contains phases in which samples were taken.
        phase.is_unseen = ["main", "assemble"].contains(&phase.name.as_str());
    }
    let svg = timeline(&picture, &style);
    keep("timeline-unseen", &svg);
    assert_eq!(svg.matches("class=\"unseen\"").count(), 1, "{svg}");
    assert!(svg.contains("class=\"unseen\" data-name=\"assemble\""), "{svg}");
    assert!(svg.contains(">no sample was taken in it<"), "{svg}");
}

#[test]
fn narrow_hatched_phase_has_its_name_upright() {
    let mut picture = solver();
    let share = |share: u64| picture.times[picture.times.len() - 1] * share / 100;
    let (begin, end) = (share(14), share(18));
    let name = "exchange of all halos".to_owned();
    picture.phases.push(Phase { name, begin, end, depth: 2, is_unseen: true });
    let svg = timeline(&picture, &Style::default());
    keep("timeline-upright", &svg);
    let upright: Vec<&str> = svg.lines().filter(|line| line.contains("rotate(-90)")).collect();
    assert!(upright.len() == 1 && upright[0].contains(">exchange of all halos<"), "{svg}");
    // The lane behind it is free up to the next phase.
    assert_eq!(svg.matches(">exchange of all halos</text>").count(), 2, "{svg}");
}

#[test]
fn samples_are_marked_where_they_were_taken() {
    let mut picture = solver();
    // Of three samples, two touch each other.
    picture.samples = vec![0, 1_000, picture.times[picture.times.len() - 1]];
    let svg = timeline(&picture, &Style::default());
    let marks = svg.split_once("class=\"samples\" d=\"").unwrap().1.split_once('"').unwrap().0;
    let places: Vec<f64> = marks
        .split('M')
        .skip(1)
        .map(|mark| mark.split_once(' ').unwrap().0.parse().unwrap())
        .collect();
    let plot = svg.split_once("data-plot=\"").unwrap().1.split_once('"').unwrap().0;
    let plot: Vec<f64> = plot.split(' ').map(|word| word.parse().unwrap()).collect();
    assert_eq!(places.len(), 2, "{marks}");
    assert!((places[0] - plot[0]).abs() < 1.0 && (places[1] - plot[0] - plot[2]).abs() < 1.0);
    assert!(svg.contains(">samples were taken<"), "{svg}");
    picture.samples.clear();
    assert!(!timeline(&picture, &Style::default()).contains("samples were taken"));
}

#[test]
fn scale_follows_resident_memory_where_much_more_is_owned() {
    let mut picture = solver();
    let usual = top_of(&timeline(&picture, &Style::default()));
    let outline = picture.outline.as_mut().unwrap();
    outline.values.iter_mut().for_each(|value| *value *= 100);
    let svg = timeline(&picture, &Style::default());
    keep("timeline-owned", &svg);
    // Axes end at round numbers.
    assert!(top_of(&svg) < 3 * usual / 2, "{} {usual}", top_of(&svg));
    let (places, top) = heights(&svg, "outline");
    assert!(places.iter().all(|y| *y >= top), "beyond {top}: {places:?}");
    // The legend contains the amount.
    assert!(svg.contains(">13.6 GiB<"), "{svg}");
}

#[test]
fn possible_line_is_hidden_in_pages_and_absent_elsewhere() {
    let mut picture = solver();
    let usual = top_of(&timeline(&picture, &Style::default()));
    picture.possible = Some(vec![u64::MAX; picture.times.len()]);
    for theme in [Theme::Light, Theme::Dark] {
        let svg = timeline(&picture, &Style { theme, ..Style::default() });
        assert!(!svg.contains("possible") && top_of(&svg) == usual);
    }
    let svg = timeline(&picture, &Style { theme: Theme::Page, ..Style::default() });
    assert_eq!(top_of(&svg), usual);
    let (places, top) = heights(&svg, "possible");
    assert!(places.iter().all(|y| *y >= top), "beyond {top}: {places:?}");
    assert!(svg.contains("class=\"entry off\" data-line=\"possible\""), "{svg}");
}

#[test]
fn every_place_is_a_number_at_the_end_of_time() {
    for times in [vec![u64::MAX], vec![u64::MAX; 3], vec![1 << 60; 2]] {
        let series = vec![Series::named("app.exe", vec![MIB; 3])];
        let heat_map = Heat { times: times.clone(), values: vec![vec![MIB; 3]], ..Heat::default() };
        let peak = Some(Peak { time: u64::MAX, bytes: MIB, label: String::new() });
        let picture = Timeline { times, series, peak, ..Timeline::default() };
        for svg in [timeline(&picture, &Style::default()), heat(&heat_map, &Style::default())] {
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn many_ranks_make_a_heat_map_that_stays_small() {
    let times: Vec<u64> = (0..256).map(|index| index * 40_000_000).collect();
    let values: Vec<Vec<u64>> = (0..1000u64)
        .map(|rank| {
            (0..256)
                .map(|time| (40 + rank % 16 + (time * 30 / 256) * u64::from(rank % 16 == 3)) * MIB)
                .collect()
        })
        .collect();
    let rows = (0..1000).map(|rank| format!("rank {rank}")).collect();
    let svg = heat(
        &Heat { title: "resident memory of 1000 ranks".into(), times, rows, values },
        &Style::default(),
    );
    keep("heat-1000", &svg);
    assert!(svg.len() < 2 << 20, "{}", svg.len());
    let few = Heat {
        title: "resident memory of 8 ranks".into(),
        times: (0..100).map(|index| index * 1_000_000).collect(),
        rows: (0..8).map(|rank| format!("rank {rank}")).collect(),
        values: (0..8)
            .map(|rank| (0..100).map(|time| (time * (rank + 3)) * 64 * 1024).collect())
            .collect(),
    };
    keep("heat-8", &heat(&few, &Style { height: 300.0, ..Style::default() }));
}

#[test]
fn cells_of_ranks_not_started_are_empty() {
    let values = vec![vec![MIB; 4], vec![0, 0, 1, MIB]];
    let times = vec![0, 1_000_000, 2_000_000, 3_000_000];
    let svg = heat(&Heat { times, values, ..Heat::default() }, &Style::default());
    let cells = svg.split_once("class=\"cells\"").unwrap().1.split_once("</g>").unwrap().0;
    // One run in the first row; in the second, small and large amounts at their places.
    for run in ["M0 0.5h4", "M2 1.5h1", "M3 1.5h1"] {
        assert!(cells.contains(run), "{run}: {cells}");
    }
    assert_eq!(cells.matches('M').count(), 3, "{cells}");
}

#[test]
fn a_curve_stays_within_what_was_measured() {
    let fitted = |name: &str, group: &str, base: f64, slope: f64| Fitted {
        name: name.into(),
        group: group.into(),
        formula: format!("{base} MiB + {slope} MiB · ranks"),
        points: [1.0, 2.0, 4.0, 8.0, 16.0]
            .map(|at| Point { at, bytes: (base + slope * at) * 1048576.0 * 1.02 })
            .to_vec(),
        line: (0..=32)
            .map(|step| 2f64.powf(f64::from(step) / 8.0))
            .map(|at| Point { at, bytes: (base + slope * at) * 1048576.0 })
            .collect(),
    };
    let picture = Curve {
        title: "bytes per rank against ranks".into(),
        variable: "ranks".into(),
        fits: vec![
            fitted("app.exe", "application", 40.0, 0.0),
            fitted("mpi.core", "mpi", 4.0, 1.5),
            fitted("mpi.shm", "mpi", 0.5, 4.0),
        ],
    };
    let style = Style::default();
    let svg = curve(&picture, &style);
    keep("curve", &svg);
    let numbers = |text: &str| -> Vec<f64> {
        let words = text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-');
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let parts = |begin: &str, end: &str| -> Vec<Vec<f64>> {
        let found = svg.split(begin).skip(1).filter_map(|rest| rest.split(end).next());
        found.map(numbers).collect()
    };
    // Measured values are dots, smaller than those of the legend.
    let dots: Vec<Vec<f64>> =
        parts("<circle cx=\"", " fill").into_iter().filter(|dot| dot[2] == 3.6).collect();
    let lines = parts("class=\"line\" d=\"", "\"");
    assert_eq!((dots.len(), lines.len()), (15, 3));
    for (fitted, (dots, line)) in picture.fits.iter().zip(dots.chunks(5).zip(&lines)) {
        assert!(dots.windows(2).all(|pair| pair[0][0] < pair[1][0]), "{}: {dots:?}", fitted.name);
        let rises = fitted.name != "app.exe";
        assert_eq!(dots[0][1] > dots[4][1], rises, "{}: {dots:?}", fitted.name);
        for place in line.chunks(2) {
            assert!((dots[0][0]..=dots[4][0]).contains(&place[0]), "{}: {place:?}", fitted.name);
            assert!((0.0..style.height).contains(&place[1]), "{}: {place:?}", fitted.name);
        }
    }
}

/// Checks that the text is XML whose root is an SVG with a size, and that each coordinate of a shape is a number.
fn expect_svg(text: &str) {
    let document = roxmltree::Document::parse(text).unwrap();
    let root = document.root_element();
    assert!(root.has_tag_name(("http://www.w3.org/2000/svg", "svg")), "{text}");
    let shapes = root.descendants().filter(|node| node.is_element() && !node.has_tag_name("title"));
    for (shape, name) in shapes.flat_map(|shape| NUMBERS.map(|name| (shape, name))) {
        let Some(value) = shape.attribute(name) else { continue };
        assert!(value.parse().is_ok_and(f64::is_finite), "{name}=\"{value}\" in {text}");
    }
    for path in root.descendants().filter_map(|node| node.attribute("d")) {
        let mut numbers = path.split(|c: char| c.is_ascii_alphabetic() || " ,".contains(c));
        assert!(numbers.all(|one| one.is_empty() || one.parse::<f64>().is_ok()), "{path}");
    }
}

const NUMBERS: [&str; 9] = ["width", "height", "x", "y", "x1", "y1", "x2", "y2", "r"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the numbers and names are, the result is a valid SVG.
    #[test]
    fn every_timeline_is_a_picture(
        times in prop::collection::vec(any::<u64>(), 0..40),
        series in prop::collection::vec((".{0,12}", ".{0,12}", prop::collection::vec(any::<u64>(), 0..40)), 0..20),
        phases in prop::collection::vec((".{0,12}", any::<u64>(), any::<u64>(), 0usize..6), 0..20),
        peak in prop::option::of((any::<u64>(), any::<u64>(), ".{0,40}")),
        width in 0f64..2000.0,
        height in 0f64..900.0,
        legend: bool,
    ) {
        let mut times = times;
        times.sort_unstable();
        let mut samples: Vec<u64> = phases.iter().map(|phase| phase.1).collect();
        samples.sort_unstable();
        let picture = Timeline {
            possible: None,
            title: "any".into(),
            outline: series.first().map(|one| Outline { name: one.0.clone(), values: one.2.clone() }),
            times,
            series: series.into_iter().map(|(name, group, values)| Series { name, group, values }).collect(),
            samples,
            phases: phases.into_iter().map(|(name, begin, end, depth)| Phase { name, begin, end, depth, is_unseen: depth % 2 == 0 }).collect(),
            peak: peak.map(|(time, bytes, label)| Peak { time, bytes, label }),
        };
        let style = Style { width: width.max(1.0), height: height.max(1.0), theme: Theme::Light, legend };
        let svg = timeline(&picture, &style);
        expect_svg(&svg);
        let heat_map = Heat {
            title: String::new(),
            rows: picture.series.iter().map(|one| one.name.clone()).collect(),
            values: picture.series.iter().map(|one| one.values.clone()).collect(),
            times: picture.times.clone(),
        };
        expect_svg(&heat(&heat_map, &style));
    }
}
