//! Readers of logs meet any bytes without a panic, and give only jobs that can be simulated.

use elastic_lab::input::{InputError, Log, LogSettings, described, sacct, swf};
use elastic_lab::simulate::{Settings, Simulation};
use elastic_policy::rigid::Easy;
use elastic_policy::state::Cluster;
use proptest::prelude::*;

const SACCT: &str = "JobID|Submit|Start|End|TimelimitRaw|NNodes|State\n";

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (-1_i64..200).prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => "[a-z0-9.+-]{0,6}",
    ]
}

fn instant() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0_u32..60, 0_u32..60)
            .prop_map(|(minute, second)| format!("2026-03-01T00:{minute:02}:{second:02}")),
        1 => "[0-9T:-]{0,19}",
        1 => Just("Unknown".to_owned()),
    ]
}

fn swf_line() -> impl Strategy<Value = String> {
    prop::collection::vec(number(), 16..20).prop_map(|numbers| numbers.join(" "))
}

fn sacct_line() -> impl Strategy<Value = String> {
    let times = (instant(), instant(), instant());
    (number(), times, number(), number()).prop_map(|(id, (submit, start, end), limit, nodes)| {
        format!("{id}|{submit}|{start}|{end}|{limit}|{nodes}|COMPLETED")
    })
}

fn simulates(read: Result<Log, InputError>) -> Result<(), TestCaseError> {
    let Ok(Log { workload, hours, .. }) = read else { return Ok(()) };
    let settings = Settings::new(Cluster { nodes: 64, cores_per_node: 1 });
    let (mut policy, mut nobody) = (Easy::default(), ());
    let outcome = Simulation::new(&workload, settings, &mut policy, &mut nobody).run();
    prop_assert_eq!(hours.jobs.len(), workload.jobs.len());
    prop_assert!(hours.log.is_finite());
    prop_assert_eq!(outcome.map(|outcome| outcome.records.len()), Ok(workload.jobs.len()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_lines_of_a_log_are_jobs_or_problems(lines in prop::collection::vec(swf_line(), 1..20)) {
        simulates(swf::read(lines.join("\n").as_bytes(), LogSettings::default()))?;
    }

    #[test]
    fn any_lines_of_sacct_are_jobs_or_problems(lines in prop::collection::vec(sacct_line(), 1..20)) {
        let text = format!("{SACCT}{}", lines.join("\n"));
        simulates(sacct::read(text.as_bytes(), LogSettings::default()))?;
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        simulates(swf::read(&bytes[..], LogSettings::default()))?;
        simulates(sacct::read(&[SACCT.as_bytes(), &bytes].concat()[..], LogSettings::default()))?;
        let _ = described::read(&String::from_utf8_lossy(&bytes), 0);
    }
}
