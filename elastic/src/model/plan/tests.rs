//! Tests of plans.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::change::RequestKind;

fn plan(text: &str) -> Plan {
    text.parse().unwrap()
}

#[test]
fn every_step_is_read_and_printed_in_one_form() {
    let text = "
        # three hosts
        at iteration 10: grow 4 on n1,n2     # a comment
        at 20 size 12 grace 30s
\tafter 90s : move n1 to n3
        after 2.5min: shrink 2 from n3 grace 500ms
        after 1h leave n2,10.77.0.3,[::1]\r
        at 7: size 1";
    let printed = "at iteration 10: grow 4 on n1,n2
at iteration 20: size 12 grace 30s
after 90s: move n1 to n3
after 150s: shrink 2 from n3 grace 0.5s
after 3600s: leave n2,10.77.0.3,[::1]
at iteration 7: size 1
";
    assert_eq!(plan(text).to_string(), printed);
    let read = plan(text);
    let fourth = &read.steps()[3];
    assert_eq!(fourth.when, When::After(Duration::from_secs(150)));
    assert_eq!((fourth.request.kind, &*fourth.request.origin), (RequestKind::Shrink(2), "plan"));
    assert_eq!(fourth.request.grace, Some(Duration::from_millis(500)));
    assert_eq!(plan("\n \n# nothing\n"), Plan::default());
}

#[test]
fn errors_say_where_and_what() {
    for (text, at, cause) in [
        ("at 1: grow 2\nwhen 3", (2, 1), "a line begins with at or after, not \"when\""),
        ("at x: grow 2", (1, 4), "the number of an iteration is expected, not \"x:\""),
        ("at", (1, 3), "the number of an iteration is expected, not the end"),
        ("at 1: ", (1, 6), "size, grow, shrink, leave or move is expected, not the end"),
        ("at 1: jump 2", (1, 7), "size, grow, shrink, leave or move is expected, not \"jump\""),
        ("at 1: grow", (1, 11), "a number of ranks is expected, not the end"),
        ("at 1: grow   # 4", (1, 11), "a number of ranks is expected, not the end"),
        ("at 1: grow -2", (1, 12), "a number of ranks is expected, not \"-2\""),
        ("at 1: grow 0", (1, 12), "0 ranks are none"),
        ("at 1: grow 9999999999", (1, 12), "there are at most 1048576 ranks"),
        (
            "at 1: grow 2 from n1",
            (1, 14),
            "on, grace or the end of the line is expected, not \"from\"",
        ),
        (
            "at 1: shrink 2 on n1",
            (1, 16),
            "from, grace or the end of the line is expected, not \"on\"",
        ),
        ("at 1: grow 2 on", (1, 16), "hosts with commas between them are expected, not the end"),
        ("at 1: grow 2 on a,,b", (1, 19), "the name of a host is missing"),
        ("at 1: grow 2 on a, b", (1, 19), "the name of a host is missing"),
        ("at 1: grow 2 on aa,b?c", (1, 21), "\"b?c\" is no name of a host"),
        ("at 1: grow 2 on a,b,a", (1, 21), "host \"a\" is named twice"),
        ("at 1: move a b", (1, 14), "to is expected, not \"b\""),
        ("at 1: move a to b,a", (1, 17), "host \"a\" cannot be left and moved to"),
        ("at 1: leave a grace 5", (1, 21), "a time like 30s is expected, not \"5\""),
        ("at 1: leave a grace 5s now", (1, 24), "the end of the line is expected, not \"now\""),
        ("after 1.2345s grow 1", (1, 7), "a time like 90s or 2.5min is expected, not \"1.2345s\""),
        ("after 9999h grow 1", (1, 7), "a time like 90s or 2.5min is expected, not \"9999h\""),
        ("ätt 1", (1, 1), "a line begins with at or after, not \"ätt\""),
        ("at 1: size 1 grace ä", (1, 20), "a time like 30s is expected, not \"ä\""),
    ] {
        let error = text.parse::<Plan>().unwrap_err();
        assert_eq!(((error.line, error.column), &*error.cause), (at, cause), "{text}");
    }
}

#[test]
fn path_is_told_from_a_word_that_is_no_step() {
    for (text, is_path) in [
        ("plan.txt", true),
        ("plans/first", true),
        ("/tmp/plan of the week", true),
        ("grow", false),
        ("2.5", false),
        ("size 4", false),
        ("plan.txt\nat 3: size 2", false),
    ] {
        let said = text.parse::<Plan>().unwrap_err().to_string();
        assert_eq!(said.contains("not the path of its file"), is_path, "{said}");
    }
}

#[test]
fn size_is_bounded() {
    let line = "at 1: grow 1\n";
    assert_eq!(plan(&line.repeat(MOST_STEPS)).steps().len(), MOST_STEPS);
    let error = line.repeat(MOST_STEPS + 1).parse::<Plan>().unwrap_err();
    assert_eq!((error.line, error.column), (MOST_STEPS + 1, 1));
    assert!(" ".repeat(LONGEST_TEXT + 1).parse::<Plan>().is_err());
    let many: Vec<String> = (0..=MOST_HOSTS).map(|number| format!("n{number}")).collect();
    let error = format!("at 1: leave {}", many.join(",")).parse::<Plan>().unwrap_err();
    assert_eq!(error.cause, "a step names at most 1024 hosts");
    let long = format!("at 1: leave {}", "n".repeat(256));
    assert!(long.parse::<Plan>().is_err());
}

#[test]
fn each_step_is_given_once_in_line_order() {
    let mut player =
        Player::new(plan("at 9: size 3\nafter 1s: size 4\nat 5: size 5\nat 5: size 6"));
    let wishes = |due: Vec<crate::model::change::Request>| -> Vec<RequestKind> {
        due.iter().map(|request| request.kind).collect()
    };
    assert_eq!(player.next(), (Some(5), Some(Duration::from_secs(1))));
    assert_eq!(wishes(player.due(5, Duration::ZERO)), [RequestKind::Size(5), RequestKind::Size(6)]);
    assert_eq!(wishes(player.due(5, Duration::ZERO)), []);
    assert!(!player.is_done());
    assert_eq!(
        wishes(player.due(10, Duration::from_secs(1))),
        [RequestKind::Size(3), RequestKind::Size(4)]
    );
    assert!(player.is_done() && player.due(99, Duration::from_secs(99)).is_empty());
}

fn hosts() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set("[a-z][a-z0-9.-]{0,6}", 1..4)
        .prop_map(|hosts| hosts.into_iter().collect())
}

fn step() -> impl Strategy<Value = Step> {
    let when = prop_oneof![
        any::<u64>().prop_map(When::Iteration),
        (0..40_000_000u64).prop_map(|ms| When::After(Duration::from_millis(ms))),
    ];
    let wish = (0..5u8, 1..=MOST_RANKS).prop_map(|(kind, ranks)| match kind {
        0 => RequestKind::Size(ranks),
        1 => RequestKind::Grow(ranks),
        2 => RequestKind::Shrink(ranks),
        3 => RequestKind::Leave,
        _ => RequestKind::Move,
    });
    let grace = proptest::option::of((0..100_000u64).prop_map(Duration::from_millis));
    (when, wish, hosts(), any::<bool>(), grace).prop_map(|(when, wish, hosts, named, grace)| {
        let mut request = crate::model::change::Request::new(wish, "plan");
        request.grace = grace;
        match wish {
            RequestKind::Size(_) | RequestKind::Grow(_) if named => request.on = hosts,
            RequestKind::Shrink(_) if named => request.from = hosts,
            RequestKind::Leave => request.from = hosts,
            RequestKind::Move => {
                request.on = hosts.iter().map(|host| format!("{host}_other")).collect();
                request.from = hosts;
            }
            _ => {}
        }
        Step { when, request }
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(steps in proptest::collection::vec(step(), 0..12)) {
        let plan = Plan { steps };
        prop_assert_eq!(plan.to_string().parse::<Plan>(), Ok(plan));
    }

    #[test]
    fn any_text_is_a_plan_or_an_error_within_it(
        words in proptest::collection::vec(prop_oneof![
            Just("at"), Just("after"), Just("iteration"), Just("1:"), Just("2.5min"), Just("grow"), Just("size"),
            Just("shrink"), Just("leave"), Just("move"), Just("to"), Just("on"), Just("from"), Just("grace"),
            Just("a,b"), Just("a,"), Just("3"), Just("é#"), Just("#"), Just("\n"), Just("\t"), Just(":"), Just("18446744073709551616"),
        ], 0..30),
    ) {
        let text = words.join(" ");
        match text.parse::<Plan>() {
            Ok(plan) => prop_assert_eq!(plan.to_string().parse::<Plan>(), Ok(plan)),
            Err(error) => {
                let line = text.lines().nth(error.line - 1).unwrap();
                prop_assert!(error.column >= 1 && error.column <= line.chars().count() + 1);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_fail_otherwise(text in any::<String>()) {
        let _ = text.parse::<Plan>();
    }
}
