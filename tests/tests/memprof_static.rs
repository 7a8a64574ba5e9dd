//! The memory profiler in programs with a static MPI, linked with the output of `memprof flags`:
//! the fake MPI as an archive, and Debian's MPICH as archives.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use memprof_trace::layout::{Class, flags};
use quo_tests::memprof::{PROGRAMS, fake_mpi};
use quo_tests::suite::Skipped;
use quo_tests::{CheckedTrace, Checkout, Recorded, run_compiler};

const MEBI: u64 = 1 << 20;

fn folder() -> Result<&'static Path> {
    static FOLDER: OnceLock<Result<tempfile::TempDir, String>> = OnceLock::new();
    let made = FOLDER.get_or_init(|| tempfile::tempdir().map_err(|error| error.to_string()));
    made.as_ref().map(tempfile::TempDir::path).map_err(|error| anyhow!("{error}"))
}

fn source(name: &str) -> Result<PathBuf> {
    Ok(Checkout::find()?.root().join(PROGRAMS).join(name))
}

/// Returns the words of the printed link line.
fn link_line() -> Result<Vec<String>> {
    let checkout = Checkout::find()?;
    let output = Command::new(checkout.program("memprof")?)
        .arg("flags")
        .env("MEMPROF_ARCHIVE", checkout.program("libmemprof_static.a")?)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.split_whitespace().map(str::to_owned).collect())
}

fn skip(why: &str) -> anyhow::Error {
    Skipped(why.to_owned()).into()
}

/// Skips the test if the linker finds no archive of this name.
fn find_archive(name: &str) -> Result<()> {
    let found = Command::new("cc").arg(format!("-print-file-name={name}")).output()?;
    match Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_absolute() {
        true => Ok(()),
        false => Err(skip(&format!("there is no {name}"))),
    }
}

/// Checks what all these jobs have in common.
fn expect_static(job: &Recorded) -> Result<()> {
    job.expect_good_books()?;
    ensure!(job.outcome.stderr.contains("static"), "{}", job.outcome.report());
    let report = job.report()?;
    ensure!(report.contains("linked"), "the report does not say how it is linked\n{report}");
    for one in &job.traces {
        ensure!(one.trace.has(flags::STATIC), "{}", one.table());
        let calls = one.trace.phases.iter().any(|row| row.row.name.to_string() == "init");
        ensure!(calls, "MPI_Init was not seen\n{}", one.table());
    }
    Ok(())
}

/// Runs `static_books.c` with the fake MPI.
fn checked(compiler: &str, words: &[&str], arguments: &[&str]) -> Result<Recorded> {
    find_archive("libc.a")?;
    let fake = fake_mpi()?;
    let program = folder()?.join(words.concat().replace(['-', '+', '='], "_"));
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "-fexceptions"]);
    command.args(["-Wall", "-Wextra", "-Werror", "-pthread"]).args(words);
    command.arg("-I").arg(Checkout::find()?.root().join("memprof/api/include"));
    command.arg(source("static_books.c")?).args(["-x", "none"]).args(link_line()?);
    command.arg("-L").arg(fake).args(["-lfakempi", "-lstdc++", "-o"]).arg(&program);
    run_compiler(&mut command)?;
    let job = Recorded::run(2, &program, arguments)?;
    let agree = job.outcome.stdout.matches("books agree").count();
    ensure!(agree == 2, "{}", job.outcome.report());
    expect_static(&job)?;
    Ok(job)
}

fn books_of_a_static_program_are_right_to_the_byte() -> Result<()> {
    for how in ["-static", "-static-pie"] {
        checked("cc", &["-D_GNU_SOURCE", "-std=gnu11", "-fPIE", how], &[])?;
    }
    Ok(())
}

fn books_of_a_static_cxx_program_are_exact() -> Result<()> {
    checked("c++", &["-std=gnu++17", "-static", "-x", "c++"], &[]).map(drop)
}

fn books_without_symbols_are_right_but_for_callbacks() -> Result<()> {
    let words = ["-D_GNU_SOURCE", "-std=gnu11", "-static", "-s"];
    let job = checked("cc", &words, &["--no-callbacks"])?;
    let report = job.report()?;
    ensure!(report.contains("without symbols"), "{report}");
    Ok(())
}

/// Libraries of the real MPI as archives: for a whole program, or for its MPI only.
const ALL: &[&str] = &[
    "-lmpich",
    "-Wl,--start-group",
    "-lucp",
    "-Wl,--whole-archive",
    "-luct",
    "-lucs",
    "-lucm",
    "-Wl,--no-whole-archive",
    "-Wl,--end-group",
    "-lhwloc",
    "-lnuma",
    "-lpthread",
    "-lm",
    "-ldl",
    "-lrt",
];
const ONLY_MPI: &[&str] =
    &["-Wl,-Bstatic", "-lmpich", "-Wl,-Bdynamic", "-lhwloc", "-lucp", "-lucs", "-lpthread", "-lm"];

/// Skips the test, with the reason, if no real MPI can be linked statically.
fn find_mpich() -> Result<()> {
    for archive in ["libmpich.a", "libucp.a", "libhwloc.a", "libnuma.a", "libc.a"] {
        find_archive(archive)?;
    }
    let launcher = Command::new("mpirun.mpich").arg("--version").output();
    if !launcher.is_ok_and(|output| output.status.success()) {
        return Err(skip("there is no mpirun.mpich"));
    }
    Ok(())
}

/// Compiles with the wrapper, links as specified, and runs two ranks.
fn with_mpich(wrapper: &str, file: &str, how: &[&str], libraries: &[&str]) -> Result<Recorded> {
    with_mpich_and(&[], wrapper, file, how, libraries)
}

/// Does the same with options for the compiler.
fn with_mpich_and(
    words: &[&str],
    wrapper: &str,
    file: &str,
    how: &[&str],
    libraries: &[&str],
) -> Result<Recorded> {
    find_mpich()?;
    let program = folder()?.join(format!("{file}{}{}", how.concat(), words.len()));
    let object = program.with_extension("o");
    let mut command = Command::new(wrapper);
    command.args(["-O1", "-c"]).args(words).arg(source(file)?).arg("-o").arg(&object);
    run_compiler(&mut command)?;
    let compiler = if wrapper.contains("fort") { "gfortran" } else { "cc" };
    let mut command = Command::new(compiler);
    command.args(how).arg("-pthread").arg(&object);
    if how.contains(&"-static") {
        command.arg(source("no_udev.c")?);
    }
    command.args(link_line()?).args(libraries).arg("-o").arg(&program);
    run_compiler(&mut command)?;
    let job = Recorded::under(&launch(), &program, &[])?.expect_ranks(2)?;
    expect_static(&job)?;
    expect_unrecorded(&program)?;
    Ok(job)
}

/// Launches without UCX's TCP, with which MPICH 4.0.2 sometimes hangs in `MPI_Finalize` on a busy
/// machine, also without the profiler: one rank waits for the other to close a connection, while
/// the other waits in PMI and makes no progress.
fn launch() -> Command {
    let mut launch = Command::new("mpirun.mpich");
    launch.args(["-genv", "UCX_TLS", "^tcp", "-n", "2"]);
    launch
}

/// Checks that the profiler is in the program, which also runs when it is not recorded.
fn expect_unrecorded(program: &Path) -> Result<()> {
    let launch = launch();
    let mut bounded = Command::new("timeout");
    bounded.arg("60").arg(launch.get_program()).args(launch.get_args()).arg(program);
    let output = bounded.env_remove("MEMPROF_DIR").output()?;
    ensure!(output.status.success(), "{}: {output:?}", program.display());
    Ok(())
}

fn static_programs_fresh_buffers_are_its_own() -> Result<()> {
    with_mpich("mpicc.mpich", "fresh_buffers.c", &["-static"], ALL)?.expect_fresh_buffers()?;
    Ok(())
}

fn phases_of_a_static_program_have_their_names() -> Result<()> {
    let job = with_mpich("mpicc.mpich", "phases.c", &["-static"], ALL)?;
    job.expect_phases(&["init", "main", "finalize", "pcontrol 3", "solve"])?;
    Ok(())
}

/// Checks the memory of MPI_Alloc_mem after the windows were freed: this MPI adds a few bytes of
/// its own.
fn expect_given(one: &CheckedTrace) -> Result<()> {
    // The process may request another sample when it ends, if there is time for one.
    let (_, rows) = one.asked().next().context("no sample was asked for")?;
    let users = rows.iter().filter(|row| one.class(row.component) == Class::MpiForUser);
    let given = users.map(|row| row.owned).sum::<u64>();
    ensure!((3 * MEBI..3 * MEBI + 64).contains(&given), "{given} B were given\n{}", one.table());
    Ok(())
}

fn what_mpi_gives_to_a_static_program_is_the_programs() -> Result<()> {
    let job = with_mpich("mpicc.mpich", "usual.c", &["-static"], ALL)?;
    for one in &job.traces {
        expect_given(one)?;
        // MPI's segments count: UCX patches a jump over the wrapped call to map them.
        let shared = one.owned_peak(|class| class == Class::MpiShared)?;
        ensure!(shared > 2 * MEBI, "{shared} B are MPI's segments\n{}", one.table());
        let others = one.owned_peak(|class| class == Class::AppShared)?;
        ensure!(others == 0, "{others} B are shared by the program\n{}", one.table());
    }
    Ok(())
}

/// The program exports no names to look up: the names known to the linker lead to the profiler.
fn a_static_program_reads_its_own_numbers_and_names_regions() -> Result<()> {
    let checkout = Checkout::find()?;
    let include = format!("-I{}", checkout.root().join("memprof/api/include").display());
    let library = checkout.program("libmemprof_api.a")?.display().to_string();
    let libraries = [&[&*library][..], ALL].concat();
    let words = [&*include];
    let job = with_mpich_and(&words, "mpicc.mpich", "static_numbers.c", &["-static"], &libraries)?;
    job.expect_said("done")?.expect_phases(&["init", "main", "finalize", "looks"])?;
    for one in &job.traces {
        let (owned, _) = one.phase_peaks("looks", |class| class == Class::AppExecutable)?;
        ensure!((32 * MEBI..33 * MEBI).contains(&owned), "{owned} B\n{}", one.table());
    }
    Ok(())
}

/// Uses the library built for the only MPI that is available as an archive.
fn pushes_of_a_static_program_are_phases() -> Result<()> {
    let in_use = Command::new(quo_tests::mpicc()).arg("-show").output()?;
    if !String::from_utf8_lossy(&in_use.stdout).contains("/usr/include/x86_64-linux-gnu/mpich") {
        return Err(skip("libquo was built for another MPI"));
    }
    let checkout = Checkout::find()?;
    let includes = ["memprof/api/include", "bindings-c/include"]
        .map(|folder| format!("-I{}", checkout.root().join(folder).display()));
    let archives = ["libquo_c.a", "libmemprof_api.a"].map(|name| checkout.program(name));
    let [quo, api] = archives.map(|path| path.map(|path| path.display().to_string()));
    let (quo, api) = (quo?, api?);
    let libraries = [&[&*quo, &*api][..], ALL].concat();
    let words = [&*includes[0], &*includes[1], "-DWITH_QUO"];
    let job = with_mpich_and(&words, "mpicc.mpich", "static_numbers.c", &["-static"], &libraries)?;
    job.expect_said("done")?.expect_phases(&["looks", "quo push machine"])?;
    for one in &job.traces {
        let (owned, _) =
            one.phase_peaks("quo push machine", |class| class == Class::AppExecutable)?;
        ensure!(owned >= 24 * MEBI, "{owned} B\n{}", one.table());
    }
    Ok(())
}

fn static_fortran_is_seen() -> Result<()> {
    let gfortran = Command::new("gfortran").arg("--version").output();
    if !gfortran.is_ok_and(|output| output.status.success()) {
        return Err(skip("there is no gfortran"));
    }
    let libraries = [&["-lmpichfort"][..], ALL].concat();
    let job = with_mpich("mpifort.mpich", "messages_mpif.f", &["-static"], &libraries)?;
    job.expect_said("done")?;
    for one in &job.traces {
        let application = one.owned_peak(|class| class == Class::AppExecutable)?;
        ensure!(application >= 19 * MEBI, "{application} B\n{}", one.table());
    }
    Ok(())
}

fn a_program_that_holds_only_mpi_is_seen_by_library() -> Result<()> {
    let job = with_mpich("mpicc.mpich", "fresh_buffers.c", &[], ONLY_MPI)?;
    job.expect_fresh_buffers()?;
    let job = with_mpich("mpicc.mpich", "usual.c", &[], ONLY_MPI)?;
    for one in &job.traces {
        expect_given(one)?;
        let names: Vec<String> =
            (0..one.summary()?.rows.len()).map(|at| one.trace.component_name(at)).collect();
        for wanted in ["mpi.core:(static)", "mpi.dep:libucp.so.0", "system:libc.so.6"] {
            ensure!(names.iter().any(|name| name == wanted), "no {wanted}\n{}", one.table());
        }
    }
    Ok(())
}

fn static_program_without_the_archive_is_named_at_the_end() -> Result<()> {
    let program = folder()?.join("not_linked");
    let mut command = Command::new("cc");
    command.arg("-static").arg(source("nothing.c")?).arg("-o").arg(&program);
    run_compiler(&mut command)?;
    let job = Recorded::under(&launch_in_use()?, &program, &[])?;
    ensure!(job.traces.is_empty(), "a program that cannot be entered was recorded");
    let closing = &job.outcome.stderr;
    for wanted in ["no rank recorded anything", "is linked statically", "memprof flags"] {
        ensure!(closing.contains(wanted), "{}", job.outcome.report());
    }
    let name = program.file_name().context("a name")?.to_string_lossy();
    ensure!(closing.contains(&*name), "{}", job.outcome.report());
    Ok(())
}

fn launch_in_use() -> Result<Command> {
    Ok(quo_tests::Launcher::find()?.command(2, quo_tests::BindTo::None))
}

quo_tests::suite! {
    books_of_a_static_program_are_right_to_the_byte
    books_of_a_static_cxx_program_are_exact
    books_without_symbols_are_right_but_for_callbacks
    static_programs_fresh_buffers_are_its_own
    phases_of_a_static_program_have_their_names
    what_mpi_gives_to_a_static_program_is_the_programs
    a_static_program_reads_its_own_numbers_and_names_regions
    pushes_of_a_static_program_are_phases
    static_fortran_is_seen
    a_program_that_holds_only_mpi_is_seen_by_library
    static_program_without_the_archive_is_named_at_the_end
}
