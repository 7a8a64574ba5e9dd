//! The environment that a wrapper gave rank 0 (`module load`, conda, numactl), for spawned
//! processes: the launcher starts them without the wrapper.

use std::collections::HashMap;

use crate::node::process_identity::parent;

/// Prefixes of variables that launchers and schedulers set per process, and that describe its
/// place.
const OF_LAUNCHERS: [&str; 15] = [
    "OMPI_",
    "OPAL_",
    "ORTE_",
    "PRTE_",
    "PMIX_",
    "PMI_",
    "HYDRA_",
    "HYDI_",
    "MPIR_",
    "MPI_LOCAL",
    "I_MPI_",
    "IPATH_NO_BACKTRACE",
    "HFI_NO_BACKTRACE",
    "SLURM_",
    "QUO_ELASTIC_",
];

/// Variables that shells change themselves.
const OF_SHELLS: [&str; 6] = ["_", "PWD", "OLDPWD", "SHLVL", "HOSTNAME", "COLUMNS"];

/// Exports as many variables as the first word says, which follow with all but plain characters as
/// `\\0NNN`, and then executes the program after them.
const SCRIPT: &str = r#"n=$1; shift
while [ "$n" -gt 0 ]; do
case $1 in *\\*) v=$(printf '%b_' "$1"); export "${v%_}" ;; *) export "$1" ;; esac
shift; n=$((n - 1)); done
exec "$@""#;

/// Returns the command that runs a program in the environment of this process, if a wrapper between
/// the launcher and this process has changed that; else the program unchanged. Variables that the
/// wrapper removed remain: the launcher sets its own in the same places. With MPIs other than Open
/// MPI the program stays unchanged: their launchers accept only single-line words of at most a
/// thousand bytes.
pub(crate) fn wrapped(command: String, arguments: Vec<String>) -> (String, Vec<String>) {
    let is_open_mpi = matches!(quo_mpi::running().family(), quo_mpi::Family::OpenMpi);
    match is_open_mpi.then(changes).flatten() {
        Some(changes) if !changes.is_empty() => by_shell(&changes, command, arguments),
        _ => (command, arguments),
    }
}

/// Returns the variables that this process has and its launcher lacks or has with another value;
/// `None` if the launcher's cannot be read.
fn changes() -> Option<Vec<String>> {
    let own = variables("self")?;
    let mut launcher = std::process::id().cast_signed();
    // Wrappers that wait for the program have a rank's variables, too.
    loop {
        launcher = parent(launcher)?;
        let of_launcher = variables(&launcher.to_string())?;
        if !of_launcher.keys().any(|name| name == "PMIX_RANK" || name == "PMI_RANK") {
            return Some(difference(&own, &of_launcher));
        }
    }
}

/// Returns a process's initial variables; `None` if they cannot be read. Names and values that are
/// not UTF-8 are left out.
fn variables(process: &str) -> Option<HashMap<String, String>> {
    let bytes = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let entry = |entry: &[u8]| {
        let (name, value) = str::from_utf8(entry).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    Some(bytes.split(|&byte| byte == 0).filter_map(entry).collect())
}

/// Returns `NAME=VALUE`, in the order of names, for all variables that differ from the launcher's,
/// except the ones that launchers and shells set themselves.
fn difference(own: &HashMap<String, String>, launchers: &HashMap<String, String>) -> Vec<String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_wanted = |name: &str| {
        is_name(name)
            && !OF_SHELLS.contains(&name)
            && !OF_LAUNCHERS.iter().any(|begin| name.starts_with(begin))
    };
    let changed = own.iter().filter(|(name, value)| {
        is_wanted(name) && launchers.get(*name).is_none_or(|known| known != *value)
    });
    let mut changed: Vec<String> = changed.map(|(name, value)| format!("{name}={value}")).collect();
    changed.sort_unstable();
    changed
}

fn by_shell(changes: &[String], command: String, arguments: Vec<String>) -> (String, Vec<String>) {
    let mut words = vec!["-c".to_owned(), SCRIPT.to_owned(), "quo-start".to_owned()];
    words.push(changes.len().to_string());
    words.extend(changes.iter().map(|change| encoded(change)));
    words.push(command);
    words.extend(arguments);
    ("/bin/sh".to_owned(), words)
}

/// Encodes text for the shell's `printf %b`, without characters that a launcher may not pass on.
fn encoded(text: &str) -> String {
    let mut words = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'=' | b'/' | b'.' | b'-' | b':' => {
                words.push(char::from(byte));
            }
            _ => words.push_str(&format!("\\0{byte:03o}")),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_variables_that_a_wrapper_changed_are_passed() {
        let own = map(&[
            ("PATH", "/a:/b"),
            ("HOME", "/root"),
            ("NEW", "1"),
            ("PMIX_RANK", "0"),
            ("SLURM_PROCID", "0"),
            ("SHLVL", "2"),
            ("BASH_FUNC_module%%", "() {\n}"),
        ]);
        let launchers = map(&[("PATH", "/b"), ("HOME", "/root"), ("SHLVL", "1")]);
        assert_eq!(difference(&own, &launchers), ["NEW=1", "PATH=/a:/b"]);
        assert_eq!(difference(&launchers, &launchers), [""; 0]);
    }

    #[test]
    fn any_value_reaches_the_program_with_its_arguments() {
        for value in ["", "a b", "two\nlines\n", "\"'$(x)\\`\\\\0101", "é€", "  ", "-n", "%s"] {
            let changes = [format!("QUO_VALUE={value}"), "QUO_OTHER=1".to_owned()];
            let say = "printf '%s|%s|%s' \"$QUO_VALUE\" \"$QUO_OTHER\" \"$1\"";
            let words = ["-c", say, "x", "an argument"].map(str::to_owned).to_vec();
            let (command, words) = by_shell(&changes, "sh".to_owned(), words);
            let output = Command::new(command).args(&words).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(said, format!("{value}|1|an argument"));
        }
    }

    #[test]
    fn program_without_a_launcher_is_started_as_it_is() {
        // The test runner has the same environment, or one that is passed on.
        let (command, words) = wrapped("program".to_owned(), vec!["argument".to_owned()]);
        let is_as_it_is = command == "program" && words == ["argument"];
        assert!(is_as_it_is || words.ends_with(&["program".to_owned(), "argument".to_owned()]));
    }
}
