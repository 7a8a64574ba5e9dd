use super::*;

/// Checks that a text is well-formed XML with numbers for numbers, and returns how often each element occurs.
pub fn parse_xml(text: &str) -> std::collections::BTreeMap<String, usize> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(text, options).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for element in document.descendants().filter(roxmltree::Node::is_element) {
        *seen.entry(element.tag_name().name().to_owned()).or_insert(0) += 1;
        for value in element.attributes().map(|attribute| attribute.value()) {
            assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
        }
    }
    seen
}

fn report(cpus: usize) -> Report {
    let runs = [Mode::Quo, Mode::Under, Mode::Over];
    Report::new(runs.map(|mode| example::measured(mode, cpus)).into())
}

#[test]
fn the_picture_is_well_formed_and_needs_nothing_else() {
    let picture = chart::picture(&report(2), TITLE);
    let seen = parse_xml(&picture);
    assert!(seen["path"] > 12 && seen["style"] == 1, "{seen:?}");
    for outside in ["href", "src=", "@import", "url(http"] {
        assert!(!picture.contains(outside), "{outside}");
    }
}

#[test]
fn a_large_machine_still_gives_a_picture_of_bounded_height() {
    let picture = chart::picture(&report(200), TITLE);
    parse_xml(&picture);
    assert!(picture.contains("and 136 CPUs more"));
}

#[test]
fn runs_without_samples_and_single_runs_are_reported_too() {
    let mut alone = example::measured(Mode::Over, 2);
    alone.usage.windows.clear();
    let report = Report::new(vec![alone]);
    assert!(report.predicted.is_none());
    assert!(chart::picture(&report, "x").contains("not sampled"));
    let text = table::text(&report);
    assert!(text.lines().nth(1).unwrap().starts_with("over"), "{text}");
}

#[test]
fn modes_are_in_their_order_and_measured_over_the_first() {
    let report = report(2);
    let order: Vec<Mode> = report.runs.iter().map(|measured| measured.run.mode).collect();
    assert_eq!(order, Mode::ALL);
    let quo = report.in_mode(Mode::Quo).unwrap();
    let expected = report.runs[0].run.seconds / quo.run.seconds;
    assert_eq!(report.speed_up(quo), Some(expected));
    assert_eq!(report.speed_up(&report.runs[0]), Some(1.0));
    // 0.4 + 0.01 of 0.71 seconds at half the cores, the rest at all.
    let predicted = 1.0 / (0.5 * 0.41 / 0.71 + 0.3 / 0.71);
    assert!((report.predicted.unwrap() - predicted).abs() < 1e-9);
}

#[test]
fn runs_with_different_bits_are_called_so() {
    let mut runs = vec![example::measured(Mode::Under, 2), example::measured(Mode::Quo, 2)];
    assert!(Report::new(vec![example::measured(Mode::Under, 2)]).identical());
    runs[1].run.checksum = "another".to_owned();
    let report = Report::new(runs);
    assert!(!report.identical());
    assert!(table::text(&report).contains("did NOT end with the same bits"));
}

#[test]
fn a_disturbed_measurement_is_called_so() {
    let mut disturbed = report(2);
    assert_eq!(disturbed.disturbance(), None);
    for window in &mut disturbed.runs[1].usage.windows {
        window.by_cpu[0][4] = 0.5 * (window.end - window.start);
    }
    assert!(table::text(&disturbed).contains("Other programs took up to 26 %"));
}
