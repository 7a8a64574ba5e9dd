//! The object loaded into ranks: its location, and its position among other preloaded objects.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Finds the object with this file name: at the path in the variable, next to the program, or in
/// the `lib` folders of its installation.
///
/// # Errors
/// The places searched, if it is in none of them; a path that the loader would split.
pub fn find(object: &str, variable: &str) -> Result<PathBuf, String> {
    let places = match std::env::var_os(variable) {
        Some(named) if !named.is_empty() => vec![PathBuf::from(named)],
        _ => {
            let program = std::env::current_exe()
                .and_then(|program| program.canonicalize())
                .map_err(|error| format!("cannot tell where the command itself is: {error}"))?;
            beside(&program, object)
        }
    };
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let list: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        return Err(format!(
            "{object}, which has to be loaded into the ranks, is not there; looked for {}. \
             Set {variable} to its path",
            list.join(", ")
        ));
    };
    let found = (found.canonicalize()).map_err(|error| format!("{}: {error}", found.display()))?;
    match found.as_os_str().as_encoded_bytes().iter().any(|b| b": \t".contains(b)) {
        true => Err(format!(
            "{}: a path with a space or colon cannot be preloaded; install elsewhere, or copy \
             the file and set {variable}",
            found.display()
        )),
        false => Ok(found),
    }
}

/// Returns the possible places of a file of this name that was installed with the program.
#[must_use]
pub fn beside(program: &Path, name: &str) -> Vec<PathBuf> {
    let folder = program.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(Path::new("/"));
    let machine = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let mut places = vec![folder.join(name)];
    places.extend(["lib", "lib64", machine.as_str()].map(|lib| prefix.join(lib).join(name)));
    places
}

/// Returns the value of `LD_PRELOAD` with our object in it.
///
/// Our object is first: its `malloc` then precedes that of a preloaded allocator and calls it,
/// instead of never being called. Only sanitizers must be first themselves.
#[must_use]
pub fn list(ours: &Path, present: Option<&OsStr>) -> OsString {
    let present = present.unwrap_or_default().to_string_lossy().into_owned();
    let others: Vec<&str> = present
        .split([':', ' '])
        .filter(|other| !other.is_empty() && Path::new(other) != ours)
        .collect();
    let (first, then): (Vec<&str>, Vec<&str>) = others.into_iter().partition(|other| {
        let name = other.rsplit('/').next().unwrap_or(other);
        let sanitizer = ["libasan", "libtsan", "liblsan", "libubsan", "libhwasan", "libclang_rt."];
        sanitizer.iter().any(|known| name.starts_with(known))
    });
    let mut value = OsString::new();
    let ours = ours.as_os_str();
    let all =
        (first.into_iter().map(OsStr::new)).chain([ours]).chain(then.into_iter().map(OsStr::new));
    for entry in all {
        if !value.is_empty() {
            value.push(":");
        }
        value.push(entry);
    }
    value
}

/// Returns the command with our object in every value of `LD_PRELOAD` that it sets itself, by `-x
/// LD_PRELOAD=...`, `-genv LD_PRELOAD ...`, `--export=ALL,LD_PRELOAD=...` or `env LD_PRELOAD=...`,
/// which would replace the variable that we set.
#[must_use]
pub fn merge(ours: &Path, command: &[OsString]) -> Vec<OsString> {
    const NAME: &str = "LD_PRELOAD";
    const VALUE: &str = "LD_PRELOAD=";
    let mut merged: Vec<OsString> = Vec::new();
    for (at, word) in command.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).and_then(|at| command[at].to_str());
        let is_value = before(1) == Some(NAME) && matches!(before(2), Some("-genv" | "-env"));
        let new = match word.to_str() {
            Some(value) if is_value => list(ours, Some(OsStr::new(value))),
            Some(text) if text.starts_with(VALUE) => of_entry(ours, text),
            Some(text) if text.starts_with("--export=") || before(1) == Some("--export") => {
                let entries = text.split(',').map(|entry| match entry.find(VALUE) {
                    Some(start) if start == 0 || entry[..start].ends_with('=') => {
                        let mut new = OsString::from(&entry[..start]);
                        new.push(of_entry(ours, &entry[start..]));
                        new
                    }
                    _ => entry.into(),
                });
                entries.collect::<Vec<_>>().join(OsStr::new(","))
            }
            _ => word.clone(),
        };
        merged.push(new);
    }
    merged
}

/// Returns `LD_PRELOAD=...` with our object in it.
fn of_entry(ours: &Path, entry: &str) -> OsString {
    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
    let mut new = OsString::from(format!("{name}="));
    new.push(list(ours, Some(OsStr::new(value))));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preload_order_is_sanitizers_then_ours_then_allocators() {
        let ours = Path::new("/p/ours.so");
        for (present, expected) in [
            (None, "/p/ours.so"),
            (Some(""), "/p/ours.so"),
            (Some("libjemalloc.so.2 /x/b.so"), "/p/ours.so:libjemalloc.so.2:/x/b.so"),
            (Some("/u/libasan.so.8:/x/b.so"), "/u/libasan.so.8:/p/ours.so:/x/b.so"),
            (Some("/p/ours.so:/x/b.so"), "/p/ours.so:/x/b.so"),
        ] {
            assert_eq!(list(ours, present.map(OsStr::new)), expected);
        }
    }

    #[test]
    fn preloads_of_the_command_keep_ours_and_theirs() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (command, expected) in [
            ("mpirun -x LD_PRELOAD=b.so ./a", "mpirun -x LD_PRELOAD=/o.so:b.so ./a"),
            ("mpirun -x LD_PRELOAD= ./a", "mpirun -x LD_PRELOAD=/o.so ./a"),
            ("mpirun -x LD_PRELOAD ./a", "mpirun -x LD_PRELOAD ./a"),
            ("mpiexec -genv LD_PRELOAD b.so ./a", "mpiexec -genv LD_PRELOAD /o.so:b.so ./a"),
            (
                "srun --export=ALL,LD_PRELOAD=b.so,X=1 ./a",
                "srun --export=ALL,LD_PRELOAD=/o.so:b.so,X=1 ./a",
            ),
            ("srun --export=LD_PRELOAD=b.so ./a", "srun --export=LD_PRELOAD=/o.so:b.so ./a"),
            (
                "srun --export ALL,LD_PRELOAD=b.so ./a",
                "srun --export ALL,LD_PRELOAD=/o.so:b.so ./a",
            ),
            (
                "env LD_PRELOAD=b.so ./a MY_LD_PRELOAD=1",
                "env LD_PRELOAD=/o.so:b.so ./a MY_LD_PRELOAD=1",
            ),
        ] {
            assert_eq!(merge(Path::new("/o.so"), &words(command)), words(expected));
        }
    }
}
