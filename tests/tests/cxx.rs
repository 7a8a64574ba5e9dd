//! quo.hpp and quo-elastic.hpp: every class and function under a real launcher, with g++ as C++17 and clang++ as C++20;
//! sources that must not compile; no function of the C interface missing; examples that compile.
//! The programs are bindings-c/tests/cxx/*.cpp; each counts its own failures and prints them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread::scope;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{BindTo, Checkout, Job, Selection, cxx_compiler, has_compiler, run_compiler};

const FOLDER: &str = "bindings-c/tests/cxx";

/// Main compiler, with the standard that the header requires.
const GNU: (&str, &str) = ("g++", "-std=c++17");
/// The other compiler.
const CLANG: (&str, &str) = ("clang++", "-std=c++20");

/// A test program built by one compiler; it is built ahead while others run, as building takes
/// longest.
struct Build {
    test: &'static str,
    name: &'static str,
    compiler: (&'static str, &'static str),
    program: OnceLock<Result<PathBuf, String>>,
}

/// Defines one test per program and compiler, and the list of all builds.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];

        static BUILDS: [Build; 2 * PROGRAMS.len()] = [$(
            Build {
                test: concat!(stringify!($name), "::gxx"),
                name: stringify!($name),
                compiler: GNU,
                program: OnceLock::new(),
            },
            Build {
                test: concat!(stringify!($name), "::clangxx"),
                name: stringify!($name),
                compiler: CLANG,
                program: OnceLock::new(),
            },
        )*];

        const TESTS: &[Test] = &[
            $(
                (concat!(stringify!($name), "::gxx"), || passes(stringify!($name), GNU)),
                (concat!(stringify!($name), "::clangxx"), || passes(stringify!($name), CLANG)),
            )*
            ("misuse_is_refused::gxx", || misuse_is_refused(GNU.0)),
            ("misuse_is_refused::clangxx", || misuse_is_refused(CLANG.0)),
            ("examples_compile::gxx", || examples_compile(GNU.0)),
            ("examples_compile::clangxx", || examples_compile(CLANG.0)),
            ("no_function_of_c_is_left_out", no_function_of_c_is_left_out),
            ("no_constant_of_c_is_left_out", no_constant_of_c_is_left_out),
            ("no_program_is_forgotten", no_program_is_forgotten),
        ];
    };
}

programs! {
    after_finalize
    barriers
    context
    errors
    guards
    linked
    memory
    old_names
    phases
    queries
    world
}

/// Sources that are parts of the programs.
const PARTS: &[&str] = &["linked_other"];

const STANDARDS: [&str; 2] = ["-std=c++17", "-std=c++20"];

/// Simulated machines, with the number of ranks on each.
const MACHINES: [(&str, usize); 3] =
    [("pack:2 core:4 pu:1", 6), ("pack:2 numa:2 core:2 pu:2", 4), ("pack:1 core:2 pu:4", 3)];

/// Runs for which the real machine matters.
const LIVE: [(usize, BindTo); 3] = [(1, BindTo::None), (2, BindTo::Core), (4, BindTo::None)];

const LIMIT: Duration = Duration::from_secs(60);

/// Folder of the programs.
static PLACE: OnceLock<PathBuf> = OnceLock::new();

fn main() -> ExitCode {
    let Ok(folder) = tempfile::tempdir() else { return ExitCode::FAILURE };
    let place = PLACE.get_or_init(|| folder.path().to_path_buf());
    let selection = Selection::of_this_program();
    scope(|scope| {
        if !selection.is_listing() {
            scope.spawn(|| {
                let wanted = BUILDS.iter().filter(|build| selection.wants(build.test));
                wanted.for_each(|build| drop(build.program(place)));
            });
        }
        suite::run(TESTS, None)
    })
}

impl Build {
    /// Returns the program, built by the first caller.
    fn program(&self, place: &Path) -> Result<&Path> {
        let made = self.program.get_or_init(|| self.make(place).map_err(|e| format!("{e:#}")));
        made.as_deref().map_err(|text| anyhow!("{text}"))
    }

    fn make(&self, place: &Path) -> Result<PathBuf> {
        let (compiler, standard) = self.compiler;
        need(compiler)?;
        let checkout = Checkout::find()?;
        let folder = place.join(compiler);
        fs::create_dir_all(&folder)?;
        let other = checkout.root().join(FOLDER).join(format!("{}_other.cpp", self.name));
        let other = other.exists().then(|| other.display().to_string());
        let flags: Vec<&str> = [standard].into_iter().chain(other.as_deref()).collect();
        checkout.compile_cxx(&format!("{FOLDER}/{}.cpp", self.name), &folder, compiler, &flags)
    }
}

fn need(compiler: &str) -> Result<()> {
    if has_compiler(compiler) {
        return Ok(());
    }
    Err(Skipped(format!("there is no {compiler} on this machine")).into())
}

fn passes(name: &str, compiler: (&str, &str)) -> Result<()> {
    need(compiler.0)?;
    let build = BUILDS.iter().find(|build| build.name == name && build.compiler == compiler);
    let program = build.context("no such build")?.program(PLACE.get().context("no folder")?)?;
    for (description, ranks) in MACHINES {
        let job = Job::new(ranks, program).topology(description).limit(LIMIT);
        job.run()?.expect_success().with_context(|| description)?;
        // One compiler suffices for the effect of machines and numbers of ranks.
        if compiler == CLANG {
            return Ok(());
        }
    }
    for (ranks, bind_to) in LIVE {
        let job = Job::new(ranks, program).bind_to(bind_to).limit(LIMIT);
        job.run()?.expect_success().with_context(|| format!("{ranks} ranks, {bind_to:?}"))?;
    }
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir().with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "cpp"));
    files.sort();
    Ok(files)
}

/// The first line of each file gives the expected complaint, in words that all compilers use. All
/// files are compiled as one, each in a namespace and under its own name, which is much faster.
fn misuse_is_refused(compiler: &str) -> Result<()> {
    need(compiler)?;
    STANDARDS.iter().try_for_each(|standard| misuse_is_refused_by(compiler, standard))
}

fn misuse_is_refused_by(compiler: &str, standard: &str) -> Result<()> {
    let checkout = Checkout::find()?;
    let (mut text, mut expectations) = (String::from("#include \"quo.hpp\"\n"), Vec::new());
    let files = files(&checkout.root().join(FOLDER).join("refused"))?;
    ensure!(files.len() >= 10, "only {} files", files.len());
    for file in files {
        let content = fs::read_to_string(&file)?;
        let name = file.file_stem().context("a file without a name")?.to_string_lossy();
        let (first, rest) = content.split_once('\n').context("an empty file")?;
        let expected = first.strip_prefix("// Refused: ").context("a file that expects nothing")?;
        text += &format!("namespace {name} {{\n#line 2 \"{name}.cpp\"\n{rest}\n}}\n");
        expectations.push((name.into_owned(), expected.to_owned()));
    }
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("refused.cpp");
    fs::write(&source, text)?;
    let said = complaints(&checkout, compiler, &[standard], &source)?;
    for (name, expected) in expectations {
        // For an error inside the header, another line names the place of use.
        let blamed = said.lines().any(|line| {
            let words = ["error: ", "required from", "requested here"];
            line.contains(&format!("{name}.cpp:")) && words.iter().any(|word| line.contains(word))
        });
        ensure!(blamed, "{compiler} {standard} accepts {name}.cpp:\n{said}");
        let named = expected.split('|').any(|words| said.contains(words));
        ensure!(named, "{name}.cpp is refused without \"{expected}\":\n{said}");
    }
    let source = folder.path().join("plain.cpp");
    fs::write(&source, "#include \"quo.hpp\"\n")?;
    for (flag, expected) in [("-fno-exceptions", "exceptions"), ("-std=c++14", "needs C++17")] {
        let said = complaints(&checkout, compiler, &[standard, flag, "-Wfatal-errors"], &source)?;
        ensure!(said.contains(expected), "{flag}: {said}");
    }
    Ok(())
}

/// Returns the compiler's complaints about a source that it refuses.
fn complaints(
    checkout: &Checkout,
    compiler: &str,
    flags: &[&str],
    source: &Path,
) -> Result<String> {
    let mut command = cxx_compiler(compiler)?;
    command.args(flags).args(["-fsyntax-only", "-I"]);
    command.arg(checkout.root().join("bindings-c/include")).arg(source);
    let error = run_compiler(&mut command).err();
    let error = error.with_context(|| format!("{compiler} accepts {}", source.display()))?;
    Ok(format!("{error:#}"))
}

/// Each example in a comment is the body of a function, or a program if it has a main.
fn examples_compile(compiler: &str) -> Result<()> {
    need(compiler)?;
    STANDARDS.iter().try_for_each(|standard| examples_compile_by(compiler, standard))
}

fn examples_compile_by(compiler: &str, standard: &str) -> Result<()> {
    let checkout = Checkout::find()?;
    let headers = ["quo.hpp", "quo-elastic.hpp"];
    let header = headers
        .map(|name| fs::read_to_string(checkout.root().join("bindings-c/include").join(name)));
    let header = header.into_iter().collect::<Result<String, _>>()?;
    let mut text = String::from("#include <cstdio>\n#include \"quo-elastic.hpp\"\n");
    let mut count = 0;
    for part in header.split("@code{.cpp}").skip(1) {
        let (example, _) = part.split_once("@endcode").context("an example without an end")?;
        let lines = example.lines().map(|line| line.trim_start().trim_start_matches('*'));
        let body = lines.collect::<Vec<_>>().join("\n");
        count += 1;
        text += &if body.contains("int main(") {
            body
        } else {
            // Examples declare values without using them.
            let line = format!("\nvoid example_{count}(const quo::Context &ctx);\n");
            format!(
                "{line}void example_{count}([[maybe_unused]] const quo::Context &ctx) {{{body}}}\n"
            )
        };
    }
    ensure!(count >= 12, "only {count} examples");
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("examples.cpp");
    fs::write(&source, text)?;
    let mut command = cxx_compiler(compiler)?;
    command.args([standard, "-fsyntax-only", "-Wno-unused-variable"]);
    command.arg("-I").arg(checkout.root().join("bindings-c/include")).arg(&source);
    run_compiler(&mut command)
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once("*/").map_or("", |(_, code)| code))
}

fn names(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("QUO_"))
        .map(ToOwned::to_owned)
        .collect()
}

/// Returns the code of the two C headers, and all C names that the C++ header uses.
fn headers() -> Result<(String, BTreeSet<String>)> {
    let checkout = Checkout::find()?;
    let read = |name: &str| -> Result<String> {
        let file = checkout.root().join("bindings-c/include").join(name);
        Ok(without_comments(&fs::read_to_string(file)?))
    };
    Ok((read("quo.h")? + &read("quo-xpm.h")?, names(&read("quo.hpp")?)))
}

/// Functions for Fortran objects that are finalised automatically; C++ objects know what they hold.
const OF_FORTRAN: [&str; 2] = ["QUO_handle_in_use_f2c", "QUO_phase_release_f2c"];

fn no_function_of_c_is_left_out() -> Result<()> {
    let (c, used) = headers()?;
    // A function is a name before a parenthesis, at the start of a line.
    let functions: BTreeSet<String> = c
        .lines()
        .filter_map(|line| line.split_once('('))
        .map(|(name, _)| name.trim_start_matches("const char *").to_owned())
        .filter(|name| name.starts_with("QUO_") && !name.contains(' '))
        .filter(|name| !OF_FORTRAN.contains(&name.as_str()))
        .collect();
    ensure!(functions.len() >= 50, "only {} functions found", functions.len());
    let left_out: Vec<&String> = functions.difference(&used).collect();
    ensure!(left_out.is_empty(), "quo.hpp does not use {left_out:?}");
    Ok(())
}

fn no_constant_of_c_is_left_out() -> Result<()> {
    let (c, used) = headers()?;
    let mut constants = BTreeSet::new();
    for part in c.split("enum {").skip(1) {
        let (list, _) = part.split_once('}').context("an enumeration without an end")?;
        constants.append(&mut names(list));
    }
    ensure!(constants.len() >= 40, "only {} constants found", constants.len());
    let left_out: Vec<&String> = constants.difference(&used).collect();
    ensure!(left_out.is_empty(), "quo.hpp does not use {left_out:?}");
    Ok(())
}

fn no_program_is_forgotten() -> Result<()> {
    let folder = Checkout::find()?.root().join(FOLDER);
    let found: BTreeSet<String> = files(&folder)?
        .iter()
        .filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    let known = PROGRAMS.iter().chain(PARTS).map(|&name| name.to_owned()).collect();
    ensure!(found == known, "the folder has {found:?}, the suite knows {known:?}");
    Ok(())
}
