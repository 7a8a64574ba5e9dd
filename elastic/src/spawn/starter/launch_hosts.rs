//! Hosts on which the launcher starts processes, by its names: it is asked for no others, since
//! Open MPI 4's launcher would not survive that.

use std::net::{IpAddr, ToSocketAddrs};

use quo_mpi::{Family, Identity};

use super::refusal::{ancestors, is_launcher};
use crate::spawn::slot_capacity::is_allocated;

/// The nodes of the job, the node of `mpirun` first; set on every node but that one.
const NODES: &str = "OMPI_MCA_orte_node_regex";

/// The name of the program, without folders: the words after it are its own.
const PROGRAM: &str = "OMPI_COMMAND";

/// Other options that give `mpirun` hosts.
const OTHERS: [&str; 9] = [
    "hostfile",
    "machinefile",
    "default-hostfile",
    "rankfile",
    "rf",
    "app",
    "add-host",
    "add-hostfile",
    "nolocal",
];

/// The launcher's names of its hosts, with their slots if known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaunchHosts(Vec<(String, Option<u32>)>);

impl LaunchHosts {
    /// Returns the hosts of this process's launcher, if it refuses others; `None` if the list is
    /// not known.
    pub(crate) fn of_launcher(mpi: &Identity) -> Option<Self> {
        let is_open_mpi_4 = (mpi.family(), mpi.major()) == (Family::OpenMpi, Some(4));
        is_open_mpi_4.then(|| Self::read(|name| std::env::var(name).ok())).flatten()
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        // In an allocation the launcher accepts any node, listed or not.
        if is_allocated(&variable) {
            return None;
        }
        let hosts = match variable(NODES) {
            // The launcher's node is first, and may not be one of the job's hosts: it is refused
            // then like any other.
            Some(text) => nodes(&text)?.into_iter().map(|name| (name, None)).collect(),
            None => named_to_mpirun(&variable(PROGRAM)?)?,
        };
        (!hosts.is_empty()).then_some(Self(hosts))
    }

    /// Returns the hosts with known numbers of slots.
    pub(crate) fn slots(&self) -> Vec<(String, u32)> {
        let mut all: Vec<(String, u32)> = Vec::new();
        for (host, slots) in &self.0 {
            match (all.iter_mut().find(|(known, _)| known == host), slots) {
                (Some((_, known)), Some(slots)) => *known += slots,
                (None, Some(slots)) => all.push((host.clone(), *slots)),
                (_, None) => {}
            }
        }
        all
    }

    /// Finds the launcher's name of a host.
    ///
    /// # Errors
    /// The launcher has no such host.
    pub(super) fn name(&self, host: &str) -> Result<String, String> {
        self.find(host, addresses)
    }

    fn find(
        &self,
        host: &str,
        addresses: impl Fn(&str) -> Option<Vec<IpAddr>>,
    ) -> Result<String, String> {
        let hosts: Vec<&str> = self.0.iter().map(|(known, _)| known.as_str()).collect();
        if hosts.contains(&host) {
            return Ok(host.to_owned());
        }
        let unknown = || format!("{host} is none of mpirun's hosts: {}", hosts.join(", "));
        // The launcher may know a name that does not resolve here.
        let Some(own) = addresses(host) else { return Ok(host.to_owned()) };
        let mut is_sure = true;
        for known in &hosts {
            match addresses(known) {
                Some(others) if others.iter().any(|other| own.contains(other)) => {
                    return Ok((*known).to_owned());
                }
                Some(_) => {}
                None => is_sure = false,
            }
        }
        if is_sure { Err(unknown()) } else { Ok(host.to_owned()) }
    }
}

fn addresses(host: &str) -> Option<Vec<IpAddr>> {
    let found: Vec<IpAddr> =
        (host, 0).to_socket_addrs().ok()?.map(|address| address.ip()).collect();
    (!found.is_empty()).then_some(found)
}

/// Returns the hosts listed by `--host` of the `mpirun` above this process, if it lists hosts in no
/// other way.
fn named_to_mpirun(program: &str) -> Option<Vec<(String, Option<u32>)>> {
    let launcher = ancestors().find(|&process| is_launcher(process))?;
    let line = std::fs::read(format!("/proc/{launcher}/cmdline")).ok()?;
    let words: Vec<String> = line
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let is_told_otherwise = std::env::vars_os().any(|(name, _)| {
        let name = name.to_string_lossy().into_owned();
        name.starts_with("OMPI_MCA_") && name.ends_with("hostfile")
    });
    if is_told_otherwise { None } else { named(&words, program) }
}

/// Returns the hosts of `--host` among the words before the program; `None` if there is no such
/// option, another option that adds hosts, or another program.
fn named(words: &[String], program: &str) -> Option<Vec<(String, Option<u32>)>> {
    let is_program = |word: &String| word.rsplit('/').next() == Some(program);
    let end = words.iter().position(is_program)?;
    if words[end..].iter().any(|word| word == ":") {
        return None;
    }
    let mut hosts = Vec::new();
    let mut options = words[..end].iter();
    while let Some(word) = options.next() {
        let Some(option) = word.strip_prefix('-') else { continue };
        let option = option.strip_prefix('-').unwrap_or(option);
        if OTHERS.contains(&option) {
            return None;
        }
        if matches!(option, "host" | "H") {
            let list = options.next()?;
            // Each name counts one slot, unless it gives a number.
            hosts.extend(list.split(',').map(|host| match host.split_once(':') {
                Some((name, slots)) => (name.to_owned(), slots.parse().ok()),
                None => (host.to_owned(), Some(1)),
            }));
        }
    }
    (!hosts.is_empty()).then_some(hosts)
}

/// Expands Open MPI 4's short form, such as `front,n[2:8-10,12].cluster@0(5)`, with numbers of two
/// digits; `None` for any other form.
fn nodes(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.split('@').next()?;
    while !rest.is_empty() {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        let (prefix, behind) = rest.split_at(end);
        let Some(inside) = behind.strip_prefix('[') else {
            names.push(prefix.to_owned());
            rest = behind.strip_prefix(',').unwrap_or(behind);
            continue;
        };
        let (numbers, behind) = inside.split_once(']')?;
        let end = behind.find(',').unwrap_or(behind.len());
        let (suffix, behind) = behind.split_at(end);
        let (width, ranges) = numbers.split_once(':')?;
        let width: usize = width.parse().ok()?;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            names.extend((first..=last).map(|number| format!("{prefix}{number:0width$}{suffix}")));
        }
        rest = behind.strip_prefix(',').unwrap_or(behind);
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn hosts_are_read_from_the_words_of_mpirun() {
        let named = |line: &str| named(&owned(&line.split(' ').collect::<Vec<_>>()), "prog");
        let slots = |line| LaunchHosts(named(line).unwrap()).slots();
        let right = [("n1", 4), ("n2", 3)].map(|(name, slots)| (name.to_owned(), slots));
        assert_eq!(slots("mpirun -n 2 --host n1:4,n2 -H n2:2 ./prog --host n9"), right);
        assert_eq!(slots("mpirun -host n1,n2,n1:3,n2,n2,n3:* /a/b/prog"), right);
        for line in [
            "mpirun -n 2 prog",
            "mpirun --hostfile hosts --host n1 prog",
            "mpirun --host n1 prog : --host n2 other",
            "mpirun --host n1 other",
        ] {
            assert_eq!(named(line), None, "{line}");
        }
    }

    #[test]
    fn nodes_are_read_from_their_short_form() {
        for (text, right) in [
            ("front,[2:10].77.0.1,[2:10].77.0.2@0(3)", &["front", "10.77.0.1", "10.77.0.2"][..]),
            (
                "front,n[2:8-10,12].cluster@0(5)",
                &["front", "n08.cluster", "n09.cluster", "n10.cluster", "n12.cluster"],
            ),
            ("host[1:0-2]@0(3)", &["host0", "host1", "host2"]),
            ("front@0(1)", &["front"]),
        ] {
            assert_eq!(nodes(text), Some(owned(right)), "{text}");
        }
        for wrong in ["n[1:a]", "n[1", "n[1-2]"] {
            assert_eq!(nodes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hosts_of_an_allocation_are_left_to_the_launcher() {
        let read = |manager: &'static str| {
            LaunchHosts::read(|name| match name {
                NODES => Some("front,n1@0(2)".to_owned()),
                _ => Some("1".to_owned()).filter(|_| name == manager),
            })
        };
        let hosts = read("").unwrap();
        assert_eq!(hosts.0, [("front".to_owned(), None), ("n1".to_owned(), None)]);
        assert_eq!(read("SLURM_JOB_ID"), None);
    }

    #[test]
    fn host_is_found_by_name_or_address_or_else_refused() {
        let hosts = |names: &[&str]| {
            LaunchHosts(owned(names).into_iter().map(|name| (name, None)).collect())
        };
        let (hosts, unsure) = (hosts(&["10.0.0.1", "n2"]), hosts(&["n2", "elsewhere"]));
        let told = |host: &str| {
            let number = match host {
                "n1" | "10.0.0.1" => 1,
                "n2" | "n2.cluster" => 2,
                "n3" => 3,
                _ => return None,
            };
            Some(vec![IpAddr::from([10, 0, 0, number])])
        };
        let find = |host| hosts.find(host, told);
        for (host, right) in [("n2", "n2"), ("n2.cluster", "n2"), ("n1", "10.0.0.1")] {
            assert_eq!(find(host).as_deref(), Ok(right));
        }
        let refused = find("n3").unwrap_err();
        assert_eq!(refused, "n3 is none of mpirun's hosts: 10.0.0.1, n2");
        // A host that does not resolve cannot be excluded.
        assert_eq!(find("unknown").as_deref(), Ok("unknown"));
        assert_eq!(unsure.find("n3", told).as_deref(), Ok("n3"));
    }
}
