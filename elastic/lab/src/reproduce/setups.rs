//! The experiments of section 4.3 of Sudarsan.

use super::runs::{Runs, gain, is_below};
use super::workloads::{self, ExperimentTwo, INCREMENT, Large};
use super::{Estimate, SimulateError, Table};
use crate::simulate::Record;
use elastic_policy::resizing::{Reshape, Scenario};
use elastic_policy::rigid::Easy;

/// Adds the claim that one value is below another, with confidence.
fn below(table: &mut Table, claim: &str, low: &[f64], high: &[f64]) {
    let (holds, evidence) = is_below(low, high);
    table.claim(claim, holds, format!("difference {evidence}"));
}

/// Adds a claim as [`below`] does, but not as a required one.
fn below_open(table: &mut Table, claim: &str, low: &[f64], high: &[f64]) {
    let (holds, evidence) = is_below(low, high);
    table.open(claim, holds, format!("difference {evidence}"));
}

/// Setup 1: 50 jobs of NAS benchmarks on 50 nodes.
pub(super) fn setup_1(seeds: u64) -> Result<Table, SimulateError> {
    let mut table = Table::new("Setup 1: 50 NAS jobs on 100 processors", "Sudarsan, section 4.3.1");
    let fixed = Runs::new(seeds, 100, |seed| workloads::setup_1(seed, false), Easy::default)?;
    let resized = |scenario| {
        Runs::new(seeds, 100, |seed| workloads::setup_1(seed, true), || Reshape::new(scenario))
    };
    let pba = resized(Scenario::PBA_Q)?;
    let fair_q = resized(Scenario::FAIR_Q)?;
    let fcfs = resized(Scenario::FCFS_LI_Q)?;
    let greedy = resized(Scenario::GREEDY_R)?;
    let fair_r = resized(Scenario::FAIR_R)?;
    // Utilisation, completion, execution and wait in the source.
    type Printed = [Option<f64>; 4];
    let all: [(&str, &Runs, Printed); 6] = [
        ("static", &fixed, [Some(78.5), Some(2916.0), Some(2034.0), Some(882.0)]),
        ("PBA-Q", &pba, [None, Some(2595.0), Some(1786.0), Some(809.0)]),
        ("Fair-Q", &fair_q, [None, None, None, Some(871.0)]),
        ("FCFS-LI-Q", &fcfs, [None, Some(2611.0), Some(1804.0), Some(807.0)]),
        ("Greedy-R", &greedy, [None, None, Some(1642.0), Some(1057.0)]),
        ("Fair-R", &fair_r, [Some(75.0), None, None, Some(836.0)]),
    ];
    for (name, runs, printed) in all {
        let values = [runs.utilisation(), runs.completion(), runs.execution(), runs.wait()];
        let names = ["utilisation in %", "completion in s", "execution in s", "wait in s"];
        for ((what, values), printed) in names.iter().zip(&values).zip(printed) {
            table.row(format!("{name}, {what}"), printed, Estimate::of(values));
        }
    }
    let elastic = [
        ("PBA-Q", &pba),
        ("Fair-Q", &fair_q),
        ("FCFS-LI-Q", &fcfs),
        ("Greedy-R", &greedy),
        ("Fair-R", &fair_r),
    ];
    for (name, runs) in elastic {
        below(
            &mut table,
            &format!("{name} completes earlier than static"),
            &runs.completion(),
            &fixed.completion(),
        );
        if name != "Greedy-R" {
            below(
                &mut table,
                &format!("Greedy-R executes faster than {name}"),
                &greedy.execution(),
                &runs.execution(),
            );
            below_open(
                &mut table,
                &format!("Greedy-R waits longer than {name}"),
                &runs.wait(),
                &greedy.wait(),
            );
        }
        if name != "Fair-R" {
            below(
                &mut table,
                &format!("Fair-R uses less of the machine than {name}"),
                &fair_r.utilisation(),
                &runs.utilisation(),
            );
            let over = runs.utilisation().iter().map(|value| value - 90.0).collect::<Vec<f64>>();
            let over = Estimate::of(&over);
            table.claim(
                format!("{name} uses more than 90 % of the machine"),
                over.is_positive(),
                format!("{:.1} ± {:.1} above", over.mean, over.half),
            );
        }
    }
    below_open(
        &mut table,
        "Fair-R uses less of the machine than static",
        &fair_r.utilisation(),
        &fixed.utilisation(),
    );
    below_open(
        &mut table,
        "PBA-Q completes earlier than Greedy-R",
        &pba.completion(),
        &greedy.completion(),
    );
    table.remark("iteration times on other sizes are not published: the model of section 4.3.2 with alpha 0.8 is taken");
    table.remark("arrivals: 0 to 30 s are taken as the time between two; static waits and completions of the source are computed from its gains");
    Ok(table)
}

fn setup(seed: u64, resizable: f64, platinum: f64, large: Large) -> ExperimentTwo {
    ExperimentTwo {
        seed,
        resizable,
        platinum,
        large,
        increment: Some(INCREMENT),
        from_first: false,
    }
}

/// The static baseline with ageing priorities: rigid jobs under a scenario with priorities.
fn fixed(seeds: u64, platinum: f64, large: Large) -> Result<Runs, SimulateError> {
    let workload = |seed| workloads::setup_2(setup(seed, 0.0, platinum, large));
    Runs::new(seeds, 400, workload, || Reshape::new(Scenario::MAX_B))
}

/// A reading of the parameters that the source leaves open in setup 2.
#[derive(Clone, Copy)]
struct Reading {
    name: &'static str,
    increment: Option<u32>,
    from_first: bool,
    /// True for the reading that must have the shape of the source.
    is_main: bool,
}

/// Setup 2: 120 synthetic jobs on 400 processors, all resizable.
pub(super) fn setup_2(seeds: u64) -> Result<Table, SimulateError> {
    let title = "Setup 2: 120 jobs on 400 processors";
    let mut table = Table::new(title, "Sudarsan, tables 4.2 and 4.3");
    let baseline = fixed(seeds, 0.0, Large::Anywhere)?;
    compare_2(&mut table, "static", &baseline, &baseline, [83.6, 647.6, 141.7, 529.3]);
    let main = Reading {
        name: "steps of 20",
        increment: Some(INCREMENT),
        from_first: false,
        is_main: true,
    };
    let readings = [
        main,
        Reading { name: "steps of the first size", increment: None, is_main: false, ..main },
        Reading { name: "speedup from the first size", from_first: true, is_main: false, ..main },
    ];
    for reading in readings {
        read_2(&mut table, seeds, reading, &baseline)?;
    }
    table.remark(
        "not published: the increment of arbitrary sizes, the weights of the ageing priority, the window, and whether \
         the model of speedup goes from size to size or from the first size to each",
    );
    table.remark("taken: steps of 20, as in the source's figure 4.7, from size to size, as the text says; the other readings are shown");
    table.remark("the published parameters do not lead to the static waits of the source, so its absolute times cannot be reached");
    Ok(table)
}

/// Adds the figures of one scenario.
fn compare_2(table: &mut Table, name: &str, runs: &Runs, baseline: &Runs, printed: [f64; 4]) {
    let values = [runs.utilisation(), runs.completion(), runs.execution(), runs.wait()];
    let names = ["utilisation in %", "completion in s", "execution in s", "wait in s"];
    for ((what, values), printed) in names.iter().zip(&values).zip(printed) {
        table.row(format!("{name}, {what}"), Some(printed), Estimate::of(values));
    }
    if !std::ptr::eq(runs, baseline) {
        let source = 100.0 * (1.0 - printed[1] / 647.6);
        let ours = gain(&baseline.completion(), &runs.completion());
        table.row(format!("{name}, gain of completion in %"), Some(source), ours);
        let source = 100.0 * (1.0 - printed[2] / 141.7);
        let ours = gain(&baseline.execution(), &runs.execution());
        table.row(format!("{name}, gain of execution in %"), Some(source), ours);
    }
}

/// Adds the figures and statements of one reading.
fn read_2(
    table: &mut Table,
    seeds: u64,
    reading: Reading,
    baseline: &Runs,
) -> Result<(), SimulateError> {
    let resized = |scenario| {
        let (increment, from_first) = (reading.increment, reading.from_first);
        let of = |seed| ExperimentTwo {
            increment,
            from_first,
            ..setup(seed, 1.0, 0.0, Large::Anywhere)
        };
        Runs::new(seeds, 400, |seed| workloads::setup_2(of(seed)), || Reshape::new(scenario))
    };
    let fcfs = resized(Scenario::FCFS)?;
    let pba = resized(Scenario::PBA)?;
    let max_b = resized(Scenario::MAX_B)?;
    let of = |what: &str| format!("{}: {what}", reading.name);
    compare_2(table, &of("FCFS"), &fcfs, baseline, [87.0, 546.7, 138.8, 421.5]);
    compare_2(table, &of("PBA"), &pba, baseline, [92.0, 575.2, 131.5, 459.8]);
    compare_2(table, &of("Max-B"), &max_b, baseline, [93.7, 605.9, 128.6, 483.9]);
    let add = if reading.is_main { below } else { below_open };
    let used = [("static", baseline), ("FCFS", &fcfs), ("PBA", &pba), ("Max-B", &max_b)];
    for pair in used.windows(2) {
        let claim = format!("{} uses more of the machine than {}", pair[1].0, pair[0].0);
        add(table, &of(&claim), &pair[0].1.utilisation(), &pair[1].1.utilisation());
    }
    for (name, other) in [("PBA", &pba), ("Max-B", &max_b)] {
        let claim = of(&format!("FCFS completes earlier than {name}"));
        add(table, &claim, &fcfs.completion(), &other.completion());
    }
    for (name, other) in [("static", baseline), ("FCFS", &fcfs), ("PBA", &pba)] {
        let claim = of(&format!("Max-B executes faster than {name}"));
        add(table, &claim, &max_b.execution(), &other.execution());
    }
    for (name, other) in [("FCFS", &fcfs), ("PBA", &pba), ("Max-B", &max_b)] {
        let claim = of(&format!("{name} completes earlier than static"));
        below_open(table, &claim, &other.completion(), &baseline.completion());
    }
    Ok(())
}

/// All large jobs first, or last.
pub(super) fn large(seeds: u64) -> Result<Table, SimulateError> {
    let mut table =
        Table::new("Setup 2 with all large jobs first, or last", "Sudarsan, section 4.3.2");
    // Gains of completion and utilisation in the source, in percent.
    let source = [
        (
            "first",
            Large::First,
            [
                (Scenario::FCFS, 16.28, None),
                (Scenario::PBA, 20.34, Some(90.8)),
                (Scenario::MAX_B, 3.76, Some(92.9)),
            ],
        ),
        (
            "last",
            Large::Last,
            [
                (Scenario::FCFS, 1.39, None),
                (Scenario::PBA, 10.2, Some(78.5)),
                (Scenario::MAX_B, 5.98, Some(80.4)),
            ],
        ),
    ];
    for (order, large, scenarios) in source {
        let baseline = fixed(seeds, 0.0, large)?;
        for (scenario, completion, used) in scenarios {
            let workload = |seed| workloads::setup_2(setup(seed, 1.0, 0.0, large));
            let runs = Runs::new(seeds, 400, workload, || Reshape::new(scenario))?;
            let of = |what: &str| format!("large {order}: {}, {what}", scenario.name);
            let ours = gain(&baseline.completion(), &runs.completion());
            table.row(of("gain of completion in %"), Some(completion), ours);
            table.row(of("utilisation in %"), used, Estimate::of(&runs.utilisation()));
            let claim = of("uses more of the machine than static");
            let add = if scenario == Scenario::FCFS { below_open } else { below };
            add(&mut table, &claim, &baseline.utilisation(), &runs.utilisation());
        }
    }
    table.remark("arbitrary sizes grow by 20; the source does not say by how much");
    Ok(table)
}

/// Shares of resizable jobs.
pub(super) fn shares(seeds: u64) -> Result<Table, SimulateError> {
    let mut table = Table::new(
        "Share of resizable jobs, PBA against static: gains in %",
        "Sudarsan, section 4.3.2",
    );
    let baseline = fixed(seeds, 0.0, Large::Anywhere)?;
    let source = [
        (0.25, [5.5, 2.27, 8.18, 85.4]),
        (0.50, [10.6, 4.82, 13.3, 87.1]),
        (0.75, [14.6, 6.72, 17.9, 89.5]),
        (1.00, [16.56, 8.15, 20.8, 91.4]),
    ];
    let mut before: Option<(f64, Runs)> = None;
    for (share, printed) in source {
        let workload = |seed| workloads::setup_2(setup(seed, share, 0.0, Large::Anywhere));
        let runs = Runs::new(seeds, 400, workload, || Reshape::new(Scenario::PBA))?;
        let gains = [
            ("completion", gain(&baseline.completion(), &runs.completion())),
            ("execution", gain(&baseline.execution(), &runs.execution())),
            ("wait", gain(&baseline.wait(), &runs.wait())),
            ("utilisation", Estimate::of(&runs.utilisation())),
        ];
        for ((what, ours), printed) in gains.into_iter().zip(printed) {
            table.row(format!("{:.0} % resizable, {what}", 100.0 * share), Some(printed), ours);
        }
        let percent = 100.0 * share;
        if let Some((less, before)) = before.take() {
            let claim = format!("{percent:.0} % execute faster than {:.0} %", 100.0 * less);
            below(&mut table, &claim, &runs.execution(), &before.execution());
            let claim =
                format!("{percent:.0} % use more of the machine than {:.0} %", 100.0 * less);
            below(&mut table, &claim, &before.utilisation(), &runs.utilisation());
        } else {
            below(
                &mut table,
                &format!("{percent:.0} % execute faster than static"),
                &runs.execution(),
                &baseline.execution(),
            );
        }
        below_open(
            &mut table,
            &format!("{percent:.0} % complete earlier than static"),
            &runs.completion(),
            &baseline.completion(),
        );
        before = Some((share, runs));
    }
    table.remark("arbitrary sizes grow by 20; the source does not say by how much");
    Ok(table)
}

/// User priorities.
pub(super) fn priorities(seeds: u64) -> Result<Table, SimulateError> {
    let mut table = Table::new(
        "User priority, half of the jobs resizable, half platinum: completion in s",
        "Sudarsan, table 4.5",
    );
    let is_platinum = |record: &Record| record.priority > 0;
    let without = |seed, resizable| {
        let mut workload = workloads::setup_2(setup(seed, resizable, 0.5, Large::Anywhere));
        for job in &mut workload.jobs {
            job.priority = 0;
        }
        workload
    };
    let with = |seed, resizable| workloads::setup_2(setup(seed, resizable, 0.5, Large::Anywhere));
    let pba = || Reshape::new(Scenario::PBA);
    let fixed = || Reshape::new(Scenario::MAX_B);
    let all = [
        (
            "static, no priority",
            Runs::new(seeds, 400, |seed| without(seed, 0.0), fixed)?,
            [Some(639.5), None, None],
        ),
        (
            "static, priority",
            Runs::new(seeds, 400, |seed| with(seed, 0.0), fixed)?,
            [Some(581.4), Some(968.6), Some(194.2)],
        ),
        (
            "PBA, no priority",
            Runs::new(seeds, 400, |seed| without(seed, 0.5), pba)?,
            [Some(571.2), None, None],
        ),
        (
            "PBA, priority",
            Runs::new(seeds, 400, |seed| with(seed, 0.5), pba)?,
            [Some(535.8), Some(884.2), Some(187.5)],
        ),
    ];
    for (name, runs, printed) in &all {
        let values = [
            ("all", runs.completion()),
            ("gold", runs.mean(|one| !is_platinum(one), super::runs::completion)),
            ("platinum", runs.mean(is_platinum, super::runs::completion)),
        ];
        for ((what, values), printed) in values.iter().zip(printed) {
            if *what == "all" || printed.is_some() {
                table.row(format!("{name}, {what}"), *printed, Estimate::of(values));
            }
        }
    }
    for (name, runs, _) in [&all[1], &all[3]] {
        let gold = runs.mean(|one| !is_platinum(one), super::runs::completion);
        let platinum = runs.mean(is_platinum, super::runs::completion);
        below(
            &mut table,
            &format!("{name}: platinum completes earlier than gold"),
            &platinum,
            &gold,
        );
    }
    let [none, fixed, _, pba] = &all;
    below_open(
        &mut table,
        "priority lowers the mean of all",
        &fixed.1.completion(),
        &none.1.completion(),
    );
    below(
        &mut table,
        "PBA with priority executes faster than static",
        &pba.1.execution(),
        &fixed.1.execution(),
    );
    below_open(
        &mut table,
        "PBA with priority completes earlier than static with priority",
        &pba.1.completion(),
        &fixed.1.completion(),
    );
    table.remark("arbitrary sizes grow by 20; the source does not say by how much");
    Ok(table)
}
