//! Reservations of Slurm, as `scontrol` writes them, and their effect on nodes. Pure.

use elastic::manager::slurm::expand_hosts;
use elastic_policy::time::{Span, Time};

use super::text::{SlurmNode, Use};

/// The words for querying `scontrol`.
pub const WORDS: [&str; 3] = ["--oneliner", "show", "reservations"];

/// Nodes that are reserved for a user, or for maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The name.
    pub name: String,
    /// The start; since 1970.
    pub start: Time,
    /// The end; since 1970.
    pub end: Time,
    /// The names of its nodes.
    pub nodes: Vec<String>,
    /// True if the nodes are reserved for maintenance.
    pub is_maintenance: bool,
}

/// Reads the answer of `scontrol`. Unreadable lines are returned with their causes.
pub fn reservations(answer: &str) -> (Vec<Reservation>, Vec<String>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for line in answer.lines().filter(|line| line.contains("ReservationName=")) {
        match reservation(line) {
            Ok(reservation) => found.extend(reservation),
            Err(cause) => {
                let line: String = line.chars().take(200).collect();
                wrong.push(format!("scontrol: {cause}: {line:?}"));
            }
        }
    }
    (found, wrong)
}

/// Reads one reservation; `None` if it has no nodes.
fn reservation(line: &str) -> Result<Option<Reservation>, String> {
    let value = |key: &str| {
        let mut words = line.split_ascii_whitespace();
        let found = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.ok_or_else(|| format!("there is no {key}"))
    };
    let time = |key: &str| {
        let text = value(key)?;
        let seconds = text.parse().map_err(|_| format!("{key}: {text:?} is no time in seconds"));
        seconds.map(Time::seconds)
    };
    let nodes = match value("Nodes")? {
        "" | "(null)" => return Ok(None),
        list => expand_hosts(list)?,
    };
    let flags = value("Flags").unwrap_or_default();
    let (name, start, end) =
        (value("ReservationName")?.to_owned(), time("StartTime")?, time("EndTime")?);
    let is_maintenance = flags.split(',').any(|flag| flag == "MAINT");
    Ok(Some(Reservation { name, start, end, nodes, is_maintenance }))
}

/// Applies reservations that begin within `ahead`: their nodes get no new jobs, and jobs leave
/// nodes under maintenance, with the reservation's name as the cause.
pub fn apply(nodes: &mut [SlurmNode], reservations: &[Reservation], now: Time, ahead: Span) {
    let is_near = |it: &&Reservation| it.start <= now + ahead && it.end > now;
    for reservation in reservations.iter().filter(is_near) {
        let has = |node: &&mut SlurmNode| reservation.nodes.contains(&node.name);
        for node in nodes.iter_mut().filter(has) {
            match node.used {
                Use::Idle => node.used = Use::Out,
                Use::Busy if reservation.is_maintenance => {
                    node.used = Use::Drains;
                    node.cause = Some(format!("is in the maintenance {}", reservation.name));
                }
                Use::Busy | Use::Drains | Use::Out => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    const ANSWER: &str = "\
ReservationName=disks StartTime=1000 EndTime=5000 Duration=01:06:40 Nodes=q[0-1] NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=4 Users=root State=INACTIVE
ReservationName=course StartTime=1000 EndTime=5000 Duration=01:06:40 Nodes=q2,q3 NodeCnt=2 Flags=SPEC_NODES Users=a State=INACTIVE
ReservationName=licence StartTime=1000 EndTime=5000 Nodes=(null) Flags= Users=a
ReservationName=odd StartTime=noon EndTime=5000 Nodes=q1 Flags=MAINT
";

    #[test]
    fn near_reservations_take_idle_nodes_and_maintenance_others_too() {
        let (found, wrong) = reservations(ANSWER);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            wrong.len() == 1 && wrong[0].contains("StartTime: \"noon\" is no time"),
            "{wrong:?}"
        );
        assert_eq!(reservations("No reservations in the system\n"), (Vec::new(), Vec::new()));
        let answer = "q0|h0|allocated|9|1\nq1|h1|idle|9|1\nq2|h2|mixed|9|1\nq3|h3|idle|9|1\nq4|h4|idle|9|1\n";
        let used = |now, ahead| {
            let mut nodes = text::nodes(answer).0;
            apply(&mut nodes, &found, Time::seconds(now), Span::seconds(ahead));
            nodes.iter().map(|node| node.used).collect::<Vec<_>>()
        };
        use Use::{Busy, Drains, Idle, Out};
        assert_eq!(used(100, 899), [Busy, Idle, Busy, Idle, Idle], "not yet");
        assert_eq!(used(100, 900), [Drains, Out, Busy, Out, Idle]);
        assert_eq!(used(5000, 900), [Busy, Idle, Busy, Idle, Idle], "over");
    }
}
