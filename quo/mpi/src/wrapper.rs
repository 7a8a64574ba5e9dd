//! Flags that an MPI compiler wrapper adds to a link, read from its output. The build script uses
//! this file too.

use std::path::{Path, PathBuf};

/// A wrapper's flags that concern linking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkFlags {
    /// Library search folders, `-L`.
    pub folders: Vec<String>,
    /// Libraries, `-l`.
    pub libraries: Vec<String>,
    /// Folders that a program needs when it starts: those the wrapper names, otherwise those it
    /// links from, without the ones that the loader searches anyway.
    pub run_path: Vec<String>,
}

/// Folders of the system's own loader.
const SYSTEM: [&str; 6] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/lib/<triple>", "/usr/lib/<triple>"];

fn is_system(folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    SYSTEM.iter().any(|system| match system.strip_suffix("<triple>") {
        None => folder == *system,
        Some(start) => folder
            .strip_prefix(start)
            .is_some_and(|name| !name.contains('/') && name.contains("-linux-")),
    })
}

/// Parses the line that `mpicc -show` prints.
pub fn link_flags(shown: &str) -> LinkFlags {
    let mut flags = LinkFlags::default();
    let mut named = Vec::new();
    let words = words(shown);
    let mut words = words.iter().flat_map(|word| for_linker(word));
    while let Some(word) = words.next() {
        if matches!(word, "-rpath" | "--rpath") {
            named.extend(words.next().map(str::to_owned));
        } else if let Some(folder) = word.strip_prefix("-rpath=") {
            named.push(folder.to_owned());
        } else if let Some(folder) = word.strip_prefix("-L") {
            push_new(&mut flags.folders, folder);
        } else if let Some(name) = word.strip_prefix("-l") {
            push_new(&mut flags.libraries, name);
        }
    }
    let sources = if named.is_empty() { flags.folders.clone() } else { named };
    for folder in sources.iter().flat_map(|list| list.split(':')).filter(|f| !is_system(f)) {
        push_new(&mut flags.run_path, folder);
    }
    flags
}

/// Removes the folders of the run path whose libraries all resolve to a system folder. Debian keeps
/// links for the linker in a folder of Open MPI, in which a program finds nothing when it starts.
pub fn drop_links(flags: &mut LinkFlags, resolve: impl Fn(&Path) -> Option<PathBuf>) {
    let libraries = &flags.libraries;
    flags.run_path.retain(|folder| {
        let file = |name| Path::new(folder).join(format!("lib{name}.so"));
        let real: Vec<PathBuf> = libraries.iter().map(file).filter_map(|it| resolve(&it)).collect();
        let in_system =
            |file: &PathBuf| file.parent().and_then(Path::to_str).is_some_and(is_system);
        real.is_empty() || !real.iter().all(in_system)
    });
}

fn push_new(list: &mut Vec<String>, value: &str) {
    if !value.is_empty() && !list.iter().any(|known| known == value) {
        list.push(value.to_owned());
    }
}

/// Returns the linker's part of a word: `-Wl,a,b` is two, and `-Xlinker` passes the next word to
/// the linker.
fn for_linker(word: &str) -> Vec<&str> {
    match word.strip_prefix("-Wl,") {
        Some(list) => list.split(',').collect(),
        None if word == "-Xlinker" => Vec::new(),
        None => vec![word],
    }
}

/// Splits a line into words like a shell: quotes and backslashes protect blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shown: &str) -> [String; 3] {
        let flags = link_flags(shown);
        [flags.folders, flags.libraries, flags.run_path].map(|list| list.join(" "))
    }

    #[test]
    fn wrappers_of_all_kinds_are_understood() {
        for (shown, expected) in [
            // Open MPI and MPICH of a distribution.
            (
                "gcc -I/usr/lib/x86_64-linux-gnu/openmpi/include -pthread \
                 -L/usr/lib/x86_64-linux-gnu/openmpi/lib -lmpi\n",
                [
                    "/usr/lib/x86_64-linux-gnu/openmpi/lib",
                    "mpi",
                    "/usr/lib/x86_64-linux-gnu/openmpi/lib",
                ],
            ),
            (
                "gcc -Wl,-z,relro -I/usr/include/x86_64-linux-gnu/mpich \
                 -L/usr/lib/x86_64-linux-gnu -lmpich",
                ["/usr/lib/x86_64-linux-gnu", "mpich", ""],
            ),
            // In separate folders.
            (
                "cc -I/opt/m/include -L/opt/m/lib -Wl,-rpath -Wl,/opt/m/lib \
                 -Wl,--enable-new-dtags -lmpi",
                ["/opt/m/lib", "mpi", "/opt/m/lib"],
            ),
            (
                "cc -L/opt/m/lib -Wl,-rpath,/opt/m/lib -lmpi -lm",
                ["/opt/m/lib", "mpi m", "/opt/m/lib"],
            ),
            ("cc -L/opt/m/lib -Wl,-rpath=/a:/b -lmpi", ["/opt/m/lib", "mpi", "/a /b"]),
            ("cc -L/opt/m/lib -lmpi", ["/opt/m/lib", "mpi", "/opt/m/lib"]),
            // Intel's.
            (
                "gcc -I\"/x y/include\" -L\"/x y/lib/release\" -L\"/x y/lib\" \
                 -Xlinker --enable-new-dtags -Xlinker -rpath -Xlinker \"/x y/lib/release\" \
                 -Xlinker -rpath -Xlinker \"/x y/lib\" -lmpifort -lmpi -lrt -lpthread -Wl,-z,now \
                 -Wl,-z,relro -Wl,-z,noexecstack -Xlinker --enable-new-dtags -ldl",
                [
                    "/x y/lib/release /x y/lib",
                    "mpifort mpi rt pthread dl",
                    "/x y/lib/release /x y/lib",
                ],
            ),
        ] {
            assert_eq!(of(shown), expected, "{shown}");
        }
    }

    #[test]
    fn folder_of_links_into_the_system_is_no_run_path() {
        let shown = "gcc -L/usr/lib/x86_64-linux-gnu/openmpi/lib -L/opt/m/lib -lmpi -lm";
        let resolved = |system: &'static str| {
            let mut flags = link_flags(shown);
            drop_links(&mut flags, |file| match file.to_str().unwrap() {
                "/usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so" => Some(PathBuf::from(system)),
                "/opt/m/lib/libmpi.so" => Some(PathBuf::from("/opt/m/lib/libmpi.so.40.1")),
                _ => None,
            });
            flags.run_path.join(" ")
        };
        assert_eq!(resolved("/usr/lib/x86_64-linux-gnu/libmpi.so.40.2"), "/opt/m/lib");
        let own = "/usr/lib/x86_64-linux-gnu/openmpi/lib";
        assert_eq!(resolved(format!("{own}/libmpi.so.40.2").leak()), format!("{own} /opt/m/lib"));
        let mut unknown = link_flags(shown);
        drop_links(&mut unknown, |_| None);
        assert_eq!(unknown, link_flags(shown));
    }

    #[test]
    fn quotes_and_backslashes_hold_words_together() {
        assert_eq!(words(r#"a "b c"d 'e "f' g\ h "" i"#), ["a", "b cd", "e \"f", "g h", "", "i"]);
        assert!(words("  \n").is_empty());
    }

    #[test]
    fn only_folders_of_the_loader_are_the_systems() {
        for folder in ["/usr/lib", "/lib64/", "/usr/lib/aarch64-linux-gnu"] {
            assert!(is_system(folder), "{folder}");
        }
        for folder in ["/usr/lib/openmpi", "/usr/lib/x86_64-linux-gnu/openmpi/lib", "/opt/lib"] {
            assert!(!is_system(folder), "{folder}");
        }
    }
}
