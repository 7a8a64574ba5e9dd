//! Memory of GPUs under the memory profiler, with a stub in place of the runtimes and the driver.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::PROGRAMS;
use quo_tests::suite::{self, Test};
use quo_tests::{Checkout, Recorded, run_compiler};
use serde_json::Value;

const TESTS: &[Test] = &[
    ("memory_of_gpus_counts_by_component_kind_and_call_site", counts),
    ("reports_show_memory_of_gpus_apart_from_resident_memory", reports),
    ("a_runtime_inside_the_program_is_named_as_uncounted", inside),
];

fn main() -> ExitCode {
    suite::run(TESTS, None)
}

const MIB: u64 = 1 << 20;
const RANKS: usize = 2;
/// Rows of a pitch of 512 bytes.
const PITCHED: u64 = 512 * 10;

/// Compiles the stubs, the library and the program; all find each other in the folder.
fn program(folder: &Path) -> Result<PathBuf> {
    let checkout = Checkout::find()?;
    let sources = checkout.root().join(PROGRAMS).join("gpu");
    let library = |source: &str, name: &str, more: &[&str]| -> Result<()> {
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-g", "-Wl,-rpath,$ORIGIN"]).arg("-L").arg(folder);
        command.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(folder.join(name));
        run_compiler(command.arg(sources.join(source)).args(more))
    };
    library("driver.c", "libcuda.so.1", &[])?;
    library("runtime.c", "libcudart.so.12", &["-DCUDA", "-ldl"])?;
    library("runtime.c", "libamdhip64.so.6", &["-ldl"])?;
    library("solver.c", "libsolver.so", &["-l:libcudart.so.12"])?;
    let place = folder.to_str().context("a path that is no text")?;
    let search = [format!("-L{place}"), format!("-Wl,-rpath,{place}")];
    let mut flags: Vec<&str> = search.iter().map(String::as_str).collect();
    flags.extend(["-l:libsolver.so", "-l:libcudart.so.12", "-l:libamdhip64.so.6", "-ldl"]);
    checkout.compile_c(&format!("{PROGRAMS}/gpu/gpu.c"), folder, &flags)
}

fn report(job: &Recorded, options: &[&str]) -> Result<String> {
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.arg("report").args(options).arg(job.traces()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns allocated, freed and alive bytes, their peak, and the number of blocks.
fn numbers(row: &Value) -> Result<[u64; 5]> {
    let mut found = [0; 5];
    let names = ["allocated", "freed", "alive", "alive_peak", "blocks"];
    for (found, name) in found.iter_mut().zip(names) {
        *found = row[name].as_u64().with_context(|| format!("no {name} in {row}"))?;
    }
    Ok(found)
}

fn counts() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Recorded::run(RANKS, &program(folder.path())?, &[])?;
    job.expect_said("done")?.expect_good_books()?;
    let told: Value = serde_json::from_str(&report(&job, &["--json"])?)?;
    let ranks = told["nodes"][0]["ranks"].as_array().context("no ranks")?;
    ensure!(ranks.len() == RANKS, "{told}");
    // The peak: the field and the block of HIP, and the rows.
    let (last, app) = (14 * MIB + PITCHED, "app.exe:gpu");
    let wanted: [(&str, Option<&str>, [u64; 5]); 9] = [
        ("device", None, [21 * MIB + PITCHED, 7 * MIB, last, last, 6]),
        ("device", Some(app), [17 * MIB + PITCHED, 3 * MIB, last, last, 5]),
        ("device", Some("app.lib:libsolver.so"), [4 * MIB, 4 * MIB, 0, 4 * MIB, 1]),
        ("managed", None, [3 * MIB, 0, 3 * MIB, 3 * MIB, 1]),
        ("managed", Some(app), [3 * MIB, 0, 3 * MIB, 3 * MIB, 1]),
        ("pinned", None, [17 * MIB + MIB / 2, MIB, 16 * MIB + MIB / 2, 16 * MIB + MIB / 2, 3]),
        ("pinned", Some(app), [MIB + MIB / 2, MIB, MIB / 2, MIB, 2]),
        ("pinned", Some("app.lib:libsolver.so"), [16 * MIB, 0, 16 * MIB, 16 * MIB, 1]),
        ("pinned", Some("app.lib:libcudart.so.12"), [0; 5]),
    ];
    for rank in ranks {
        let memory = rank["gpu"].as_array().context("no memory of GPUs")?;
        for (kind, component, wanted) in wanted {
            let is_it =
                |row: &&Value| row["kind"] == kind && row["component"].as_str() == component;
            let found = memory.iter().find(is_it).map(numbers).transpose()?.unwrap_or([0; 5]);
            ensure!(found == wanted, "{kind} of {component:?}: {found:?}, not {wanted:?}\n{rank}");
        }
        // Memory of the device is not the process's own; pinned memory is its requester's.
        let held = rank["held"].as_array().context("no components")?;
        let owned = |name: &str| {
            let one = held.iter().find(|one| one["name"] == name);
            one.and_then(|one| one["owned"].as_u64()).unwrap_or(0)
        };
        ensure!(owned(app) < MIB, "{} B of the program\n{rank}", owned(app));
        let solver = owned("app.lib:libsolver.so");
        ensure!((16 * MIB..17 * MIB).contains(&solver), "{solver} B of the solver\n{rank}");
    }
    let sites = told["gpu"].as_array().context("no call sites")?;
    let field = sites
        .iter()
        .find(|site| site["function"] == "cudaMalloc" && site["component"].as_str() == Some(app));
    let field = field.with_context(|| format!("no call of cudaMalloc: {sites:?}"))?;
    let all = [8 * MIB, 0, 8 * MIB, 8 * MIB, 1].map(|one| one * RANKS as u64);
    ensure!(numbers(field)? == all && field["processes"] == RANKS, "{field}");
    ensure!(field["place"].as_str().is_some_and(|place| place.contains("gpu.c:")), "{field}");
    let driver = sites.iter().find(|site| site["function"] == "cuMemAlloc_v2");
    let driver = numbers(driver.context("no call of the driver")?)?;
    ensure!(driver[0] == MIB * RANKS as u64, "calls of the runtime count twice: {sites:?}");
    Ok(())
}

fn inside() -> Result<()> {
    let folder = tempfile::tempdir()?;
    program(folder.path())?;
    let place = format!("-Wl,-rpath,{}", folder.path().display());
    let source = format!("{PROGRAMS}/gpu/static_runtime.c");
    let program = Checkout::find()?.compile_c(&source, folder.path(), &[&place, "-ldl"])?;
    let job = Recorded::run(RANKS, &program, &[])?;
    let text = report(&job, &[])?;
    let told = "no call that requests memory was seen";
    ensure!(text.matches(told).count() == 1, "not said once:\n{text}");
    let page = folder.path().join("page.html");
    report(&job, &["--html", page.to_str().context("a path that is no text")?])?;
    ensure!(std::fs::read_to_string(page)?.contains(told), "not in the page");
    Ok(())
}

fn reports() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Recorded::run(RANKS, &program(folder.path())?, &[])?;
    let text = report(&job, &[])?;
    for wanted in ["device   all ", "app.lib:libsolver.so", "cudaHostAlloc", "not resident"] {
        ensure!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    ensure!(!text.contains("no call that requests memory was seen"), "{text}");
    let rank = report(&job, &["--rank", "1"])?;
    ensure!(rank.contains("memory of GPUs: device 14.0 MiB at most"), "{rank}");
    let page = folder.path().join("page.html");
    report(&job, &["--html", page.to_str().context("a path that is no text")?])?;
    let page = std::fs::read_to_string(page)?;
    ensure!(page.contains("Memory of GPUs") && page.contains("hipHostMalloc"), "no such table");
    Ok(())
}
