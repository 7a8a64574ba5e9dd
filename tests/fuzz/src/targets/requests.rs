//! Requests of users and programs to elastic jobs.

use std::time::Duration;

use elastic::change::Event;
use elastic::manager::control::wire::Call;
use elastic::plan::{Plan, Player};

/// Plans with every kind of step.
pub const PLANS: &[&str] = &[
    "at iteration 10: grow 4 on n1,n2 # more\nat 20 size 12 grace 30s\n",
    "after 2.5min: shrink 2 from n3 grace 500ms\nat iteration 70: leave n2\nafter 90s move n1 to n3",
    "",
];

/// Calls, and a line of a log.
pub const CALLS: &[&str] = &[
    r#"{"call":"status"}"#,
    r#"{"call":"grow","ranks":2,"on":["n1"],"grace_ms":500,"wait":true}"#,
    r#"{"call":"shrink","ranks":2,"from":["n1"]}"#,
    r#"{"call":"move","from":["n1"],"on":["n2"]}"#,
    r#"{"call":"events","since":5,"follow":true}"#,
    r#"{"call":"cancel","request":3}"#,
    r#"{"sequence":7,"time_us":1500,"event":"agreed","request":2,"epoch":1,"size":4,"target":6,"round":310}"#,
];

pub fn plans(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Plan>() {
        Ok(plan) => {
            assert_eq!(plan.to_string().parse::<Plan>().as_ref(), Ok(&plan));
            let steps = plan.steps().len();
            let mut player = Player::new(plan);
            let now = player.due(3, Duration::from_secs(1)).len();
            let rest = player.due(u64::MAX, Duration::MAX).len();
            assert_eq!((now + rest, player.next()), (steps, (None, None)));
        }
        Err(error) => assert!(error.to_string().len() < 4_096, "a complaint too long"),
    }
}

pub fn calls(bytes: &[u8]) {
    if let Ok(call) = Call::from_line(bytes)
        && let Ok(Some((request, _))) = call.request()
    {
        assert!(request.on.iter().all(|host| !request.from.contains(host)));
    }
    if let Some(event) =
        std::str::from_utf8(bytes).ok().and_then(|text| Event::from_line(text).ok())
    {
        assert_eq!(Event::from_line(&event.to_line()).ok(), Some(event));
    }
}
