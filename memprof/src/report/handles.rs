//! MPI objects that are not freed, in sentences, and all places that make some, in a table.

use super::grid::{Align, Grid, Weight};
use super::symbols::Symbols;
use crate::model::{HandleCount, HandleSite, Job, State};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count, number};

/// Minimum memory of objects that are worth a sentence although each rank has only one.
const MUCH: u64 = 1 << 20;

/// A place with its name.
#[derive(Debug, serde::Serialize)]
pub struct Named {
    /// The place, and what it made.
    #[serde(flatten)]
    pub site: HandleSite,
    /// Function of the program, and line or object.
    pub place: String,
}

/// Returns the places of a job with their names: calls of a function in one line are one place.
pub fn named(job: &Job) -> Vec<Named> {
    let mut symbols = Symbols::new(&job.sites.objects, job.started_ns);
    let mut places: Vec<Named> = Vec::new();
    for site in &job.handles {
        let place = place(site, &mut symbols);
        let same = |named: &&mut Named| {
            named.place == place
                && named.site.kind == site.kind
                && named.site.mpi_function == site.mpi_function
        };
        match places.iter_mut().find(same) {
            Some(named) => named.site.add(site),
            None => places.push(Named { site: site.clone(), place }),
        }
    }
    places.sort_by_key(|named| named.site.order());
    places
}

/// Returns the innermost function that is not the compiler's own.
fn place(site: &HandleSite, symbols: &mut Symbols<'_>) -> String {
    let mut names = symbols.names(site.frame);
    let own = names.iter().position(|name| !name.is_of_compiler).unwrap_or(0);
    names.swap_remove(own).text
}

/// Returns the place in a sentence: `at field.c:88, in fill`.
fn at(place: &str) -> String {
    match place.split_once("  ") {
        Some((function, line)) if line.contains(':') => format!("at {line}, in {function},"),
        Some((function, object)) => format!("in {function} of {object}"),
        None => format!("at {place}"),
    }
}

/// Returns the word for objects of a kind, and for their end.
fn words(kind: &str) -> (&str, &str) {
    match kind {
        "request" => ("persistent request", "freed"),
        "info" => ("info object", "freed"),
        "errhandler" => ("error handler", "freed"),
        "file" => ("file", "closed"),
        "op" => ("operation", "freed"),
        "session" => ("session", "finalized"),
        "buffer" => ("attached buffer", "detached"),
        "port" => ("port", "closed"),
        other => (other, "freed"),
    }
}

/// Returns a number of objects of a kind: `60,000 datatypes`.
fn objects(of: u64, kind: &str) -> String {
    let noun = words(kind).0;
    let plural = if of == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(of))
}

/// Returns the memory that objects hold: `21.4 MiB in libopen-pal.so.40`.
fn held(site: &HandleSite) -> String {
    let largest = site.held.iter().take(2).map(|held| {
        let object = held.component.split_once(':').map_or(&*held.component, |(_, name)| name);
        format!("{} in {}", bytes(held.live), clean(object))
    });
    largest.collect::<Vec<_>>().join(" and ")
}

fn sentence(named: &Named, has_ended: bool) -> String {
    let Named { site, place } = named;
    let one = site.alive == 1;
    let mut text = match site.freed {
        0 => objects(site.alive, site.kind),
        _ => format!("{} of {}", number(site.alive), objects(site.made, site.kind)),
    };
    text += &format!(" made {}", clean(&at(place)));
    if let Some(function) = &site.mpi_function {
        text += &format!(" by {}", clean(function));
    }
    if site.processes > 1 {
        text += &format!(", in {} processes,", site.processes);
    }
    text += match (one, has_ended) {
        (true, true) => " was never ",
        (false, true) => " were never ",
        (true, false) => " is not ",
        (false, false) => " are not ",
    };
    text += words(site.kind).1;
    if !site.held.is_empty() {
        let verb = if one { "it holds" } else { "they hold" };
        text += &format!("; {verb} about {}", held(site));
    }
    text
}

/// Returns true for objects that may accumulate: more than one in a process, or with much memory.
fn is_notable(site: &HandleSite) -> bool {
    site.alive > site.processes.into() || site.alive > 0 && site.memory() >= MUCH
}

/// Returns sentences about the objects that accumulate, largest first, and the number of places
/// with objects alive that have none.
pub fn sentences(job: &Job, limit: usize) -> (Vec<String>, usize) {
    // Names need time, and are seldom needed.
    if !job.handles.iter().any(is_notable) {
        return (Vec::new(), 0);
    }
    let places = named(job);
    let alive = places.iter().filter(|named| named.site.alive > 0).count();
    let has_ended = !job.ranks().any(|rank| matches!(rank.state, State::Running | State::Open));
    let notable = places.iter().filter(|named| is_notable(&named.site)).take(limit);
    let said: Vec<String> = notable.map(|named| sentence(named, has_ended)).collect();
    let rest = alive - said.len();
    (said, rest)
}

/// Returns the sentences for the terminal; empty if no objects accumulate.
pub fn text(job: &Job, limit: usize, look: Look) -> String {
    let (said, rest) = sentences(job, limit);
    if said.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    for sentence in &said {
        out += &look.wrap(&format!("{sentence}\n"));
    }
    if rest > 0 {
        let more = count(rest, "more place");
        out += &look.dim(&format!("{more} with MPI objects alive: --handles shows all\n"));
    }
    out
}

/// Returns the objects of a process that are alive, by kind; `None` if none are.
pub fn alive(counts: &[HandleCount]) -> Option<String> {
    let kinds = counts.iter().filter(|count| count.alive > 0);
    let kinds: Vec<String> = kinds.map(|count| objects(count.alive, count.kind)).collect();
    (!kinds.is_empty()).then(|| format!("MPI objects alive: {}", kinds.join(", ")))
}

/// Titles of the columns of the table.
pub const HEAD: [&str; 8] = ["alive", "of", "kind", "most", "in", "by", "made in", "memory"];

/// Returns the cells of a place in the table.
pub fn cells(named: &Named) -> [String; 8] {
    let site = &named.site;
    [
        number(site.alive),
        number(site.made),
        words(site.kind).0.to_owned(),
        number(site.alive_peak),
        count(site.processes as usize, "process"),
        site.mpi_function.as_deref().map(clean).unwrap_or_default(),
        clean(&named.place),
        held(site),
    ]
}

/// Returns the table of all places, for the terminal.
pub fn table(job: &Job, limit: usize, look: Look) -> String {
    use Align::{Left, Right};
    if job.handles.is_empty() {
        return "no MPI objects were made\n".to_owned();
    }
    let mut grid = Grid::new(&[Right, Right, Left, Right, Left, Left, Left, Left]);
    grid.row(Weight::Head, HEAD.map(String::from));
    let places = named(job);
    for named in places.iter().take(limit) {
        grid.row(Weight::Plain, cells(named));
    }
    let mut out = grid.text(look);
    let more = places.len().saturating_sub(limit);
    if more > 0 {
        out += &look.dim(&format!("{more} more; --handles COUNT shows them\n"));
    }
    out += &look.dim("most: alive at once; memory: of calls there, estimated from samples\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HandleHeld;
    use crate::model::handle_tests::site;

    fn said(site: HandleSite, place: &str) -> String {
        sentence(&Named { site, place: place.to_owned() }, true)
    }

    #[test]
    fn sentence_says_what_where_by_which_call_and_how_much() {
        let mut leaked = site("datatype", 1, 60_000, 0);
        leaked
            .held
            .push(HandleHeld { component: "mpi.dep:libopen-pal.so.40".into(), live: 22 << 20 });
        assert_eq!(
            said(leaked.clone(), "fill  field.c:88"),
            "60,000 datatypes made at field.c:88, in fill, by MPI_Type_vector were never freed; they hold about 22.0 \
             MiB in libopen-pal.so.40"
        );
        leaked.processes = 2;
        let text = sentence(&Named { site: leaked, place: "app+0x10".to_owned() }, false);
        assert!(text.starts_with(
            "60,000 datatypes made at app+0x10 by MPI_Type_vector, in 2 processes, are not"
        ));
        assert_eq!(
            said(HandleSite { mpi_function: None, ..site("file", 1, 3, 2) }, "main  app"),
            "1 of 3 files made in main of app was never closed"
        );
    }

    #[test]
    fn objects_of_a_process_are_listed_by_kind() {
        let count = |kind, alive| HandleCount { kind, made: alive + 1, freed: 1, alive };
        let counts = [count("datatype", 5_000), count("group", 0), count("op", 1)];
        assert_eq!(
            alive(&counts).as_deref(),
            Some("MPI objects alive: 5,000 datatypes, 1 operation")
        );
        assert_eq!(alive(&counts[1..2]), None);
    }

    #[test]
    fn single_objects_of_a_process_are_not_notable() {
        assert!(!is_notable(&site("communicator", 1, 1, 0)));
        assert!(!is_notable(&site("communicator", 1, 5, 4)));
        assert!(is_notable(&site("communicator", 1, 2, 0)));
        assert!(!is_notable(&site("communicator", 1, 9, 9)));
        let mut large = site("communicator", 1, 1, 0);
        large.held.push(HandleHeld { component: "mpi.core".into(), live: 2 << 20 });
        assert!(is_notable(&large));
    }
}
