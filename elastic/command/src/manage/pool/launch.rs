//! The words that launch a job of a pool. Pure except for the detection of the MPI.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use elastic_policy::job::Class;

use super::queue::{Hosts, QueuedJob};

/// A family of launchers with the same options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    OpenMpi4,
    OpenMpi5,
    Mpich,
}

/// Detects the MPI that `mpirun` belongs to.
///
/// # Errors
/// There is no `mpirun`, or it belongs to another MPI.
pub fn family() -> Result<Family> {
    let output = Command::new("mpirun").arg("--version").output().context("starting mpirun")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match of_version(&text) {
        Some(family) => Ok(family),
        None => bail!(
            "mpirun is of no MPI that is known here; name its words in the queue file: launcher = [...]"
        ),
    }
}

fn of_version(text: &str) -> Option<Family> {
    if text.contains("HYDRA") || text.contains("Intel(R) MPI") {
        return Some(Family::Mpich);
    }
    let number = text.split(|letter: char| !letter.is_ascii_digit()).find(|part| !part.is_empty());
    let major: u32 = number?.parse().ok()?;
    let is_open = ["Open MPI", "OpenRTE", "PRRTE"].iter().any(|name| text.contains(name));
    match is_open {
        true if major < 5 => Some(Family::OpenMpi4),
        true => Some(Family::OpenMpi5),
        false => None,
    }
}

/// Returns the host of each process of a job that starts on these slots, as indices: of its ranks,
/// and of the processes that sleep until it grows, as many on every host as may ever be there.
pub fn processes(job: &QueuedJob, hosts: &Hosts, slots: &[u32]) -> Vec<usize> {
    let mut places: Vec<usize> = slots.iter().map(|slot| hosts.host_of(*slot)).collect();
    if job.class == Class::Rigid {
        return places;
    }
    for (host, (_, slots)) in hosts.hosts.iter().enumerate() {
        let here = places.iter().filter(|place| **place == host).count();
        let most = job.limits.max.min(*slots) as usize;
        places.extend(std::iter::repeat_n(host, most.saturating_sub(here)));
    }
    places
}

/// The file with the host of each process, and the words of the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// A line for each process.
    pub host_file: String,
    /// The launcher, its options, and the command of the job.
    pub words: Vec<String>,
}

/// Names that a launch needs.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The name of this machine.
    pub own: &'a str,
    /// The path of the file with the host of each process.
    pub host_file: &'a str,
    /// The name of this job's folder for the launcher's own files, unique on all hosts.
    pub session: &'a str,
}

/// Makes the words that launch a job on these slots.
pub fn launch(
    job: &QueuedJob,
    hosts: &Hosts,
    slots: &[u32],
    launcher: &Launcher,
    Names { own, host_file, session }: Names<'_>,
) -> Launch {
    let places = processes(job, hosts, slots);
    let name = |place: &usize| match hosts.hosts[*place].0.as_str() {
        // Launchers identify the machine by its name.
        "localhost" => own,
        name => name,
    };
    let names: Vec<&str> = places.iter().map(name).collect();
    let count = names.len().to_string();
    let is_one = names.iter().all(|name| *name == names[0]);
    let mut words: Vec<String> = match launcher {
        Launcher::Words(words) => words
            .iter()
            .map(|word| word.replace("{hostfile}", host_file).replace("{processes}", &count))
            .collect(),
        Launcher::Of(family) => {
            let host = format!("{}:{count}", hosts.hosts[places[0]].0);
            let is_here = names.iter().all(|name| *name == own);
            let base = if is_here { std::env::temp_dir() } else { PathBuf::from("/tmp") };
            let session = base.join(session).display().to_string();
            let words: &[&str] = match (family, is_one) {
                // When one job ends, Open MPI 4 removes the folder shared by all jobs of a user on
                // a host; another job that is just starting then fails.
                (Family::OpenMpi4, true) => &[
                    "mpirun",
                    "--mca",
                    "orte_top_session_dir",
                    &session,
                    "--host",
                    &host,
                    "--oversubscribe",
                    "--bind-to",
                    "none",
                    "-np",
                    &count,
                ],
                (Family::OpenMpi4, false) => &[
                    "mpirun",
                    "--mca",
                    "orte_top_session_dir",
                    &session,
                    "--hostfile",
                    host_file,
                    "--map-by",
                    "seq",
                    "--oversubscribe",
                    "--bind-to",
                    "none",
                    "-np",
                    &count,
                ],
                (Family::OpenMpi5, true) => &[
                    "mpirun",
                    "--host",
                    &host,
                    "--map-by",
                    ":oversubscribe",
                    "--bind-to",
                    "none",
                    "-np",
                    &count,
                ],
                (Family::OpenMpi5, false) => &[
                    "mpirun",
                    "--hostfile",
                    host_file,
                    "--map-by",
                    "seq:oversubscribe",
                    "--bind-to",
                    "none",
                    "-np",
                    &count,
                ],
                (Family::Mpich, true) => &["mpirun", "-hosts", &host, "-n", &count],
                (Family::Mpich, false) => &["mpirun", "-f", host_file, "-n", &count],
            };
            words.iter().map(|&word| word.to_owned()).collect()
        }
    };
    let (start, max) = (slots.len().to_string(), job.limits.max.to_string());
    words.extend(job.command.iter().map(|word| {
        word.replace("{name}", &job.name).replace("{start}", &start).replace("{max}", &max)
    }));
    Launch { host_file: names.iter().map(|name| format!("{name}\n")).collect(), words }
}

/// How jobs are launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// The `mpirun` of a known MPI.
    Of(Family),
    /// Words given by the user, with `{hostfile}` and `{processes}`.
    Words(Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::super::queue::read;
    use super::*;

    const NAMES: Names<'_> = Names { own: "me", host_file: "F", session: "S" };

    const QUEUE: &str = r#"
        [[job]]
        name = "solver"
        command = ["./solver", "--name={name}", "{start}-{max}"]
        min = 1
        max = 3
        [[job]]
        name = "rigid"
        command = ["./rigid"]
        ranks = 2
    "#;

    #[test]
    fn elastic_job_is_launched_where_it_may_ever_be() {
        let (queue, hosts) = (read(QUEUE, 6).unwrap(), Hosts::read("a:4,b:2").unwrap());
        assert_eq!(processes(&queue.jobs[0], &hosts, &[5, 1]), [1, 0, 0, 0, 1]);
        assert_eq!(processes(&queue.jobs[1], &hosts, &[5, 1]), [1, 0]);
        let launcher = Launcher::Of(Family::OpenMpi4);
        let launched = launch(&queue.jobs[0], &hosts, &[5, 1], &launcher, NAMES);
        assert_eq!(launched.host_file, "b\na\na\na\nb\n");
        let words = "mpirun --mca orte_top_session_dir /tmp/S --hostfile F --map-by seq --oversubscribe --bind-to none -np 5 ./solver \
            --name=solver 2-3";
        assert_eq!(launched.words.join(" "), words);
    }

    #[test]
    fn one_host_needs_no_file_and_users_keep_their_options() {
        let (queue, hosts) = (read(QUEUE, 6).unwrap(), Hosts::read("localhost:6").unwrap());
        let words = |launcher| {
            let launched = launch(&queue.jobs[1], &hosts, &[3, 4], &launcher, NAMES);
            assert_eq!(launched.host_file, "me\nme\n");
            launched.words.join(" ")
        };
        let session = std::env::temp_dir().join("S").display().to_string();
        let one = "--host localhost:2 --oversubscribe --bind-to none -np 2 ./rigid";
        let one = format!("mpirun --mca orte_top_session_dir {session} {one}");
        assert_eq!(words(Launcher::Of(Family::OpenMpi4)), one);
        let own = ["launch", "-f={hostfile}", "-n{processes}"].map(str::to_owned).to_vec();
        assert_eq!(words(Launcher::Words(own)), "launch -f=F -n2 ./rigid");
    }

    #[test]
    fn launchers_are_known_by_their_versions() {
        assert_eq!(of_version("mpirun (Open MPI) 4.1.4\n"), Some(Family::OpenMpi4));
        assert_eq!(of_version("mpirun (Open MPI) 5.0.11\n"), Some(Family::OpenMpi5));
        assert_eq!(of_version("HYDRA build details:\n Version: 5.0.2"), Some(Family::Mpich));
        assert_eq!(of_version("srun 22"), None);
    }
}
