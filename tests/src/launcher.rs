//! The MPI launcher, and its options for what the tests need.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};

use crate::compilers::mpirun;

/// Objects to which the launcher binds each rank.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum BindTo {
    /// One core each; ranks share cores if there are too few.
    Core,
    /// Ranks may run anywhere.
    #[default]
    None,
}

/// MPIs whose launchers take the same options.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI up to 4, whose launcher belongs to its own runtime.
    OpenMpi4,
    /// Open MPI from 5 on, whose launcher is PRRTE.
    OpenMpi5,
    /// MPICH with its launcher Hydra.
    Mpich,
    /// Intel MPI, which has its own Hydra.
    Intel,
}

/// Options and environment variables of a family of launchers.
struct Manner {
    bind_core: Told,
    bind_none: Told,
    /// For more ranks than processors.
    crowded: Told,
    /// To keep a job running without a rank that was killed.
    survive: Told,
    /// Command that starts each rank for that purpose.
    guard: &'static [&'static str],
    /// For every launch.
    always: Told,
    /// Option that passes a variable to ranks on other hosts: as `NAME=VALUE` after it, or as two
    /// words.
    pass: &'static str,
    pass_in_one_word: bool,
}

#[derive(Copy, Clone)]
struct Told {
    words: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

const NOTHING: Told = Told { words: &[], variables: &[] };

const fn words(words: &'static [&'static str]) -> Told {
    Told { words, variables: &[] }
}

const fn variables(variables: &'static [(&'static str, &'static str)]) -> Told {
    Told { words: &[], variables }
}

static OPEN_MPI_4: Manner = Manner {
    bind_core: words(&["--bind-to", "core:overload-allowed"]),
    bind_none: words(&["--bind-to", "none"]),
    crowded: words(&["--oversubscribe"]),
    survive: words(&["--mca", "orte_enable_recovery", "1"]),
    guard: &[],
    always: variables(&[
        // Open MPI refuses root, the usual user in a container, unless both variables are set.
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        // A container may forbid the single-copy transport, which then prints a warning.
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        // With PMIx's shared store each start of a process leaves mappings in the ranks.
        ("PMIX_MCA_gds", "hash"),
    ]),
    pass: "-x",
    pass_in_one_word: true,
};

static OPEN_MPI_5: Manner = Manner {
    bind_core: words(&["--bind-to", "core:overload-allowed"]),
    bind_none: words(&["--bind-to", "none"]),
    crowded: words(&["--map-by", ":oversubscribe"]),
    survive: words(&["--enable-recovery"]),
    guard: &[],
    always: variables(&[
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        // Looking for fabrics through libfabric takes a second in each MPI_Init; UCX complains
        // where there is none.
        ("OMPI_MCA_pml", "ob1"),
        ("OMPI_MCA_btl", "self,sm,tcp"),
        // With addresses of both families some versions find no route to processes that are started
        // later.
        ("OMPI_MCA_btl_tcp_disable_family", "6"),
        ("OMPI_MCA_osc", "^ucx"),
    ]),
    pass: "-x",
    pass_in_one_word: true,
};

/// Hydra announces a death to the other ranks by a signal, as the option promises, or kills them,
/// which it promises not to: it depends on whether it sees the closed connection or the exit status
/// first. This guard hides that a rank was killed.
const GUARD: &[&str] = &[
    "sh",
    "-c",
    "trap '' USR1; \"$@\"; status=$?; [ $status -gt 128 ] && exit 0; exit $status",
    "sh",
];

static MPICH: Manner = Manner {
    bind_core: words(&["-bind-to", "core"]),
    // Hydra binds only on request; with an explicit "none" it cannot spawn.
    bind_none: NOTHING,
    // Waiting ranks spin. A hundred barriers of eight ranks on two processors take seconds unless
    // the ranks sleep for a moment at times. MPICH 4 has no such setting.
    crowded: variables(&[
        ("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"),
        ("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "16"),
    ]),
    survive: words(&["-disable-auto-cleanup"]),
    guard: GUARD,
    always: NOTHING,
    pass: "-genv",
    pass_in_one_word: false,
};

static INTEL: Manner = Manner {
    // Intel MPI's own pinning is applied after Hydra's binding and overrides it.
    bind_core: variables(&[("I_MPI_PIN", "on"), ("I_MPI_PIN_DOMAIN", "core")]),
    bind_none: variables(&[("I_MPI_PIN", "off")]),
    crowded: NOTHING,
    survive: words(&["-disable-auto-cleanup"]),
    guard: GUARD,
    // Without this variable nothing can be started while the program runs.
    always: variables(&[("I_MPI_SPAWN", "on")]),
    pass: "-genv",
    pass_in_one_word: false,
};

impl Family {
    /// Recognises a family by the launcher's version text.
    #[must_use]
    pub fn of_version(text: &str) -> Option<Family> {
        if text.contains("Intel(R) MPI") {
            return Some(Family::Intel);
        }
        if text.contains("HYDRA") {
            return Some(Family::Mpich);
        }
        if !["Open MPI", "OpenRTE", "PRRTE"].iter().any(|name| text.contains(name)) {
            return None;
        }
        let number = text.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty());
        let major: u32 = number?.parse().ok()?;
        Some(if major < 5 { Family::OpenMpi4 } else { Family::OpenMpi5 })
    }

    fn manner(self) -> &'static Manner {
        match self {
            Family::OpenMpi4 => &OPEN_MPI_4,
            Family::OpenMpi5 => &OPEN_MPI_5,
            Family::Mpich => &MPICH,
            Family::Intel => &INTEL,
        }
    }
}

/// Network for starting ranks on other hosts.
#[derive(Clone, Debug)]
pub struct Network {
    /// Host names as the launcher can reach them, each with its number of ranks.
    pub hosts: Vec<(String, usize)>,
    /// Program to call in place of `ssh`.
    pub remote_shell: String,
    /// Subnet of all hosts, as address and prefix length.
    pub subnet: String,
    /// Address of the host that the launcher runs on.
    pub front: String,
}

/// Launcher of the MPI in use, see [`mpirun`].
#[derive(Clone, Debug)]
pub struct Launcher {
    program: OsString,
    family: Family,
}

impl Launcher {
    /// Finds the launcher and asks it which MPI it belongs to.
    ///
    /// # Errors
    ///
    /// There is no launcher, or its MPI is not known here.
    pub fn find() -> Result<Launcher> {
        Launcher::of(mpirun())
    }

    /// Creates the launcher from its file or name.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn of(program: impl Into<OsString>) -> Result<Launcher> {
        let program = program.into();
        let mut command = Command::new(&program);
        let output = command.arg("--version").stdin(Stdio::null()).output().with_context(|| {
            format!("{} does not start; try `cargo xtask setup`", program.to_string_lossy())
        })?;
        let version = String::from_utf8_lossy(&output.stdout);
        let Some(family) = Family::of_version(&version) else {
            bail!("{} is of no MPI we know: {version}", program.to_string_lossy());
        };
        Ok(Launcher { program, family })
    }

    /// Returns the file or the name that starts the launcher.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Returns the family whose options the launcher takes.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns a launch of `ranks` ranks, still without the program.
    #[must_use]
    pub fn command(&self, ranks: usize, bind_to: BindTo) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-n", &ranks.to_string()]);
        let manner = self.family.manner();
        let bind = match bind_to {
            BindTo::Core => manner.bind_core,
            BindTo::None => manner.bind_none,
        };
        let crowded = if ranks > processors() { manner.crowded } else { NOTHING };
        for told in [manner.always, bind, crowded] {
            tell(&mut command, told);
        }
        command
    }

    /// Keeps the job running when one of its ranks is killed. The words returned go before the
    /// program.
    pub fn survive(&self, command: &mut Command) -> &'static [&'static str] {
        let manner = self.family.manner();
        tell(command, manner.survive);
        manner.guard
    }

    /// Lets a command that launches jobs itself find this launcher as `mpirun`, with the variables
    /// needed for more ranks than processors.
    ///
    /// # Errors
    ///
    /// The launcher's path cannot be in `PATH`.
    pub fn for_others(&self, command: &mut Command) -> Result<()> {
        let manner = self.family.manner();
        command.envs(manner.always.variables.iter().chain(manner.crowded.variables).copied());
        let folder = Path::new(&self.program).parent().filter(|folder| folder.is_absolute());
        if let Some(folder) = folder {
            let others = std::env::var_os("PATH").unwrap_or_default();
            let all = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&others));
            command.env("PATH", std::env::join_paths(all)?);
        }
        Ok(())
    }

    /// Returns a launch over several hosts. Environment variables reach the ranks only by
    /// [`Launcher::pass`].
    #[must_use]
    pub fn command_over(&self, network: &Network, bind_to: BindTo) -> Command {
        let ranks = network.hosts.iter().map(|(_, ranks)| ranks).sum();
        let mut command = self.command(ranks, bind_to);
        command.args(over(self.family, network));
        command
    }

    /// Returns the options with which the launcher reaches the hosts of a network, without their names.
    #[must_use]
    pub fn words_to_reach(&self, network: &Network) -> Vec<String> {
        over(self.family, network).split_off(2)
    }

    /// Gives a command the environment of a user whose machine has one slot: settings that let more
    /// ranks run are removed. `folder` keeps the host file.
    ///
    /// # Errors
    ///
    /// The host file cannot be written.
    pub fn limit_to_one_slot(&self, command: &mut Command, folder: &Path) -> Result<()> {
        let settings = ["OMPI_MCA_", "PRTE_MCA_", "MPIR_CVAR_", "MPIRUN"];
        for (name, _) in std::env::vars_os() {
            if settings.iter().any(|start| name.to_string_lossy().starts_with(start)) {
                command.env_remove(name);
            }
        }
        command.envs(self.family.manner().always.variables.iter().copied());
        let file = folder.join("one-slot");
        std::fs::write(&file, "localhost slots=1\n")
            .with_context(|| format!("writing {}", file.display()))?;
        // The names of Open MPI 4 and 5. Other launchers take any number of ranks.
        command.env("OMPI_MCA_orte_default_hostfile", &file);
        command.env("PRTE_MCA_prte_default_hostfile", &file);
        Ok(())
    }

    /// Passes a variable to every rank.
    pub fn pass(&self, command: &mut Command, name: &OsStr, value: &OsStr) {
        let manner = self.family.manner();
        command.arg(manner.pass);
        if manner.pass_in_one_word {
            let mut both = name.to_owned();
            both.push("=");
            both.push(value);
            command.arg(both);
        } else {
            command.arg(name).arg(value);
        }
    }
}

fn tell(command: &mut Command, told: Told) {
    command.args(told.words).envs(told.variables.iter().copied());
}

fn over(family: Family, network: &Network) -> Vec<String> {
    let slots = network.hosts.iter().map(|(host, ranks)| format!("{host}:{ranks}"));
    let hosts = slots.collect::<Vec<_>>().join(",");
    let (shell, subnet) = (&*network.remote_shell, &*network.subnet);
    let words: Vec<&str> = match family {
        // Each host is reached from the launcher's host, not from another host.
        Family::OpenMpi4 => [
            ["--mca", "plm_rsh_agent", shell],
            ["--mca", "plm_rsh_no_tree_spawn", "1"],
            ["--mca", "oob_tcp_if_include", subnet],
            ["--mca", "btl_tcp_if_include", subnet],
            ["--mca", "btl_vader_single_copy_mechanism", "none"],
            // The daemons do not get the launcher's environment.
            ["--mca", "orte_launch_agent", "env PMIX_MCA_gds=hash orted"],
        ]
        .concat(),
        Family::OpenMpi5 => [
            ["--prtemca", "plm_ssh_agent", shell],
            ["--prtemca", "plm_ssh_no_tree_spawn", "1"],
            ["--prtemca", "prte_if_include", subnet],
            ["--mca", "btl_tcp_if_include", subnet],
        ]
        .concat(),
        Family::Mpich | Family::Intel => {
            vec!["-launcher", "ssh", "-launcher-exec", shell, "-localhost", &network.front]
        }
    };
    let named = match family {
        Family::OpenMpi4 | Family::OpenMpi5 => "--host",
        Family::Mpich | Family::Intel => "-hosts",
    };
    [named, &hosts].into_iter().chain(words).map(str::to_owned).collect()
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILIES: [Family; 4] =
        [Family::OpenMpi4, Family::OpenMpi5, Family::Mpich, Family::Intel];

    fn launcher(family: Family) -> Launcher {
        Launcher { program: "mpirun".into(), family }
    }

    /// Returns a command as words, its variables first.
    fn said(command: &Command) -> String {
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let variables = variables
            .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
        let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_launcher_is_known_by_what_it_says() {
        for (text, family) in [
            ("mpirun (Open MPI) 4.1.4\n", Some(Family::OpenMpi4)),
            ("mpirun (Open MPI) 5.0.11\n", Some(Family::OpenMpi5)),
            ("mpirun (Open MPI) 10.0.0\n", Some(Family::OpenMpi5)),
            ("HYDRA build details:\n    Version: 5.0.2\n", Some(Family::Mpich)),
            ("Intel(R) MPI Library for Linux* OS, Version 2021.18.1", Some(Family::Intel)),
            ("slurm 22.05.8\n", None),
            ("", None),
        ] {
            assert_eq!(Family::of_version(text), family, "{text}");
        }
    }

    #[test]
    fn bindings_are_asked_for_in_the_words_of_each() {
        for (family, core, none) in [
            (Family::OpenMpi4, "--bind-to core:overload-allowed", "--bind-to none"),
            (Family::OpenMpi5, "--bind-to core:overload-allowed", "--bind-to none"),
            (Family::Mpich, "-bind-to core", "-n 1"),
            (Family::Intel, "I_MPI_PIN_DOMAIN=core", "I_MPI_PIN=off"),
        ] {
            assert!(said(&launcher(family).command(1, BindTo::Core)).contains(core));
            assert!(said(&launcher(family).command(1, BindTo::None)).contains(none));
        }
    }

    #[test]
    fn only_too_many_ranks_are_announced_as_too_many() {
        for (family, word) in [
            (Family::OpenMpi4, "--oversubscribe"),
            (Family::OpenMpi5, "--map-by :oversubscribe"),
            (Family::Mpich, "MPIR_CVAR_CH4_PROGRESS_THROTTLE=1"),
        ] {
            let few = launcher(family).command(1, BindTo::None);
            let many = launcher(family).command(processors() + 1, BindTo::None);
            assert!(!said(&few).contains(word));
            assert!(said(&many).contains(word), "{}", said(&many));
        }
    }

    #[test]
    fn open_mpi_4_ranks_get_no_shared_pmix_store() {
        for family in FAMILIES {
            let said = said(&launcher(family).command(1, BindTo::None));
            assert_eq!(said.contains("PMIX_MCA_gds=hash"), family == Family::OpenMpi4, "{said}");
        }
    }

    #[test]
    fn each_can_be_told_to_go_on_without_a_rank() {
        for family in FAMILIES {
            let launcher = launcher(family);
            let mut command = launcher.command(1, BindTo::None);
            let before = said(&command);
            let _guard = launcher.survive(&mut command);
            assert_ne!(said(&command), before, "{family:?}");
        }
    }

    #[test]
    fn every_host_is_named_with_ranks_and_reached_by_shell() {
        let network = Network {
            hosts: vec![("10.0.0.1".to_owned(), 2), ("10.0.0.2".to_owned(), 1)],
            remote_shell: "/run/remote-shell".to_owned(),
            subnet: "10.0.0.0/24".to_owned(),
            front: "10.0.0.254".to_owned(),
        };
        for family in FAMILIES {
            let mut command = launcher(family).command_over(&network, BindTo::None);
            launcher(family).pass(&mut command, OsStr::new("A"), OsStr::new("b c"));
            let said = said(&command);
            for words in ["-n 3 ", "10.0.0.1:2,10.0.0.2:1", "/run/remote-shell"] {
                assert!(said.contains(words), "{words} is not in {said}");
            }
            assert!(said.ends_with("-x A=b c") || said.ends_with("-genv A b c"), "{said}");
        }
    }
}
