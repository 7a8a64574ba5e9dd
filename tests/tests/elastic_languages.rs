//! The elastic world in C and Fortran: programs that grow and shrink, and check their state after each change.

use std::time::Duration;

use anyhow::{Result, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{Checkout, Job, Outcome, fortran_support};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs a program of `bindings-c/tests/elastic`.
fn in_c(name: &str, ranks: usize, words: &[&str]) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let source = format!("bindings-c/tests/elastic/{name}.c");
    let program = Checkout::find()?.compile_c(&source, folder.path(), &[])?;
    run(ranks, &program, words)
}

fn run(ranks: usize, program: &std::path::Path, words: &[&str]) -> Result<Outcome> {
    let job = words.iter().fold(Job::new(ranks, program), |job, word| job.arg(word));
    // A growing world has more ranks than processors, but the launcher sees only the first ranks.
    let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    job.limit(LIMIT).run()
}

/// Checks that the program reported each change, and found nothing wrong.
fn went_through(outcome: &Outcome, right: &[&str]) -> Result<()> {
    outcome.expect_success()?;
    let said: Vec<&str> =
        outcome.stdout.lines().map(str::trim).filter(|line| line.starts_with("epoch ")).collect();
    ensure!(said == right, "{}", outcome.report());
    ensure!(outcome.stdout.contains("all is right"), "{}", outcome.report());
    Ok(())
}

const PARKED: (usize, &[&str], &[&str]) = (
    4,
    &["4", "1", "2", "4", "2!", "2"],
    &[
        "epoch 1 size 2: 1 stay, 0 leave, 1 join",
        "epoch 2 size 4: 2 stay, 0 leave, 2 join",
        "epoch 2 size 4: 2 stay, 2 leave, 0 join",
        "epoch 3 size 2: 2 stay, 2 leave, 0 join",
    ],
);

const SPAWNED: (usize, &[&str], &[&str]) = (
    1,
    &["3", "1", "3", "1"],
    &["epoch 1 size 3: 1 stay, 0 leave, 2 join", "epoch 2 size 1: 1 stay, 2 leave, 0 join"],
);

fn unless_it_cannot(outcome: &Outcome) -> Result<()> {
    match outcome.stdout.split_once("parked ranks only: ") {
        Some((_, reason)) => Err(Skipped(reason.lines().next().unwrap_or("").to_owned()).into()),
        None => Ok(()),
    }
}

fn in_c_arrays_and_a_context_follow_parked_ranks() -> Result<()> {
    let (ranks, words, right) = PARKED;
    went_through(&in_c("sizes", ranks, words)?, right)
}

fn in_c_arrays_and_a_context_follow_spawned_ranks() -> Result<()> {
    let (ranks, words, right) = SPAWNED;
    let outcome = in_c("sizes", ranks, words)?;
    unless_it_cannot(&outcome)?;
    went_through(&outcome, right)
}

const SKELETON: (usize, &[&str], &[&str]) = (
    4,
    &["1", "4", "2"],
    &[
        "iteration 10: grown to 2x2",
        "iteration 19: about to leave 2x2",
        "right after 60 iterations",
    ],
);

fn goes_like_the_skeleton(outcome: &Outcome) -> Result<()> {
    outcome.expect_success()?;
    let said: Vec<&str> = outcome.stdout.lines().map(str::trim).collect();
    ensure!(said == SKELETON.2, "{}", outcome.report());
    Ok(())
}

fn in_c_the_skeleton_of_reshape_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = "examples/reshape/skeleton.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &[])?;
    goes_like_the_skeleton(&run(SKELETON.0, &program, SKELETON.1)?)
}

/// Sizes at the resize points: kept after a growth, grown twice, shrunk, shrunk and grown again.
const SCHEDULES: &[&[&str]] = &[
    &["1", "2"],
    &["1", "4", "4", "4", "4"],
    &["1", "2", "4", "4"],
    &["4", "2", "1"],
    &["2", "4", "1", "2", "2"],
];

/// Compiles the shipped skeletons, the Fortran one if there is a compiler for it. In C and Fortran
/// they have one name.
fn reshape_programs() -> Result<(tempfile::TempDir, Vec<std::path::PathBuf>)> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let fortran = folder.path().join("fortran");
    std::fs::create_dir(&fortran)?;
    let mut programs = vec![
        checkout.program("examples/reshape_skeleton")?,
        checkout.compile_c("examples/reshape/skeleton.c", folder.path(), &[])?,
    ];
    if fortran_support().is_ok() {
        programs.push(checkout.compile_fortran("examples/reshape/skeleton.F90", &fortran, &[])?);
    }
    Ok((folder, programs))
}

fn ends_right(outcome: &Outcome) -> Result<()> {
    outcome.expect_success()?;
    let right = outcome.stdout.lines().filter(|line| line.starts_with("right after 60 iterations"));
    ensure!(right.count() == 1, "{}", outcome.report());
    Ok(())
}

fn reshape_skeleton_in_rust_c_fortran_survives_each_schedule() -> Result<()> {
    let (_folder, programs) = reshape_programs()?;
    for program in &programs {
        for words in SCHEDULES {
            ends_right(&run(4, program, words)?)?;
        }
    }
    Ok(())
}

fn reshape_skeleton_in_rust_c_fortran_joins_spawned_ranks() -> Result<()> {
    // Another program shows what the MPI can do.
    let (ranks, words, _) = SPAWNED;
    unless_it_cannot(&in_c("sizes", ranks, words)?)?;
    let (_folder, programs) = reshape_programs()?;
    for program in &programs {
        for words in [&["1", "2"][..], &["1", "2", "4", "4"], &["1", "2", "2", "1", "2"]] {
            ends_right(&run(1, program, words)?)?;
        }
    }
    Ok(())
}

/// Runs a Fortran program with these MPI handles, if there is a compiler for it.
fn in_fortran(source: &str, handles: &[&str], ranks: usize, words: &[&str]) -> Result<Outcome> {
    let support = fortran_support().map_err(|reason| Skipped(format!("{reason:#}")))?;
    let handles = if support.mpi_f08 { handles } else { &[] };
    let folder = tempfile::tempdir()?;
    let program = Checkout::find()?.compile_fortran(source, folder.path(), handles)?;
    run(ranks, &program, words)
}

const IN_FORTRAN: &str = "tests/programs/elastic_sizes.F90";

fn in_fortran_arrays_and_a_context_follow_parked_ranks() -> Result<()> {
    let words = ["4", "1", "2", "4", "2"];
    let right = [PARKED.2[0], PARKED.2[1], PARKED.2[3]];
    went_through(&in_fortran(IN_FORTRAN, &[], PARKED.0, &words)?, &right)
}

fn in_fortran_arrays_and_a_context_follow_spawned_ranks() -> Result<()> {
    let (ranks, words, right) = SPAWNED;
    let outcome = in_fortran(IN_FORTRAN, &["-DUSE_MPI_F08"], ranks, words)?;
    unless_it_cannot(&outcome)?;
    went_through(&outcome, right)
}

fn in_fortran_the_skeleton_of_reshape_runs() -> Result<()> {
    let (ranks, words, _) = SKELETON;
    goes_like_the_skeleton(&in_fortran("examples/reshape/skeleton.F90", &[], ranks, words)?)
}

fn in_c_wrong_arguments_are_refused_and_the_world_works() -> Result<()> {
    is_ok(&in_c("refused", 2, &[])?)
}

fn c_program_with_the_first_options_structure_runs() -> Result<()> {
    is_ok(&in_c("shorter", 2, &[])?)
}

fn c_options_decide_which_requests_are_accepted() -> Result<()> {
    is_ok(&in_c("options", 2, &[])?)
}

fn c_requests_events_and_background_moves_are_as_in_rust() -> Result<()> {
    is_ok(&in_c("requests", 3, &[])?)
}

/// Output of the program in three languages, on rank 0.
const LANGUAGES: &str = include_str!("../programs/elastic_languages.expected");

fn one_program_in_rust_c_fortran_prints_the_same() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let mut programs = vec![
        checkout.program("examples/languages")?,
        checkout.compile_c("bindings-c/tests/elastic/languages.c", folder.path(), &[])?,
    ];
    if fortran_support().is_ok() {
        let source = "tests/programs/elastic_languages.F90";
        programs.push(checkout.compile_fortran(source, folder.path(), &[])?);
    }
    for program in &programs {
        let outcome = run(4, program, &[])?;
        outcome.expect_success()?;
        let said: Vec<&str> = outcome.stdout.lines().map(str::trim_end).collect();
        ensure!(said == LANGUAGES.lines().collect::<Vec<_>>(), "{}", outcome.report());
    }
    Ok(())
}

/// Checks that the example `grow` does what `docs/elastic.md` says, and is quoted there verbatim.
/// The page's C program is run with the rest of the guide.
fn rust_program_of_the_guide_grows_and_shrinks() -> Result<()> {
    let checkout = Checkout::find()?;
    let read = |name: &str| std::fs::read_to_string(checkout.root().join(name));
    let (page, source) = (read("docs/elastic.md")?, read("elastic/examples/grow.rs")?);
    let (_, shown) = source.split_once("// What follows is on the page.\n").unwrap_or_default();
    let indented =
        |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
    let shown: String = shown.lines().map(indented).collect();
    ensure!(
        !shown.is_empty() && page.contains(&shown),
        "docs/elastic.md: copy elastic/examples/grow.rs"
    );
    let outcome = run(4, &checkout.program("examples/grow")?, &[])?;
    outcome.expect_success()?;
    let said: Vec<&str> = outcome.stdout.lines().map(str::trim_end).collect();
    ensure!(
        said == ["2 ranks, sum 1000", "4 ranks, sum 1000", "1 ranks, sum 1000"],
        "{}",
        outcome.report()
    );
    Ok(())
}

fn in_c_cells_edges_and_ghost_cells_are_right_after_resizes() -> Result<()> {
    has_right_cells(&in_c("halo", 4, &[])?)
}

fn in_fortran_cells_edges_and_ghost_cells_are_right_after_resizes() -> Result<()> {
    has_right_cells(&in_fortran("tests/programs/elastic_halo.F90", &[], 4, &[])?)
}

fn in_c_matrix_rows_and_ghosts_are_right_after_all_resizes() -> Result<()> {
    is_ok(&in_c("matrix", 6, &[])?)
}

fn in_c_items_follow_their_owners_and_none_is_lost() -> Result<()> {
    is_ok(&in_c("items", 4, &[])?)
}

fn in_c_a_checkpoint_of_three_ranks_is_restored_on_others() -> Result<()> {
    let place = tempfile::tempdir()?;
    let folder = place.path().join("checkpoints").display().to_string();
    is_ok(&in_c("checkpoints", 3, &[&folder, "write"])?)?;
    [1, 2, 4]
        .into_iter()
        .try_for_each(|ranks| is_ok(&in_c("checkpoints", ranks, &[&folder, "read"])?))
}

fn failure_of_one_rank_reaches_all_and_loses_no_item() -> Result<()> {
    is_ok(&in_c("agreed", 3, &[])?)
}

fn in_fortran_items_follow_their_owners_and_none_is_lost() -> Result<()> {
    let place = tempfile::tempdir()?;
    let folder = place.path().join("checkpoints").display().to_string();
    is_ok(&in_fortran("tests/programs/elastic_items.F90", &[], 4, &[&folder])?)?;
    is_ok(&in_fortran("tests/programs/elastic_items.F90", &[], 4, &[&folder, "all"])?)
}

/// Checks that a program has gone through all sizes, and found its cells right.
fn has_right_cells(outcome: &Outcome) -> Result<()> {
    is_ok(outcome)?;
    let said: Vec<&str> = outcome
        .stdout
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("step with"))
        .collect();
    let right = [4, 1, 3, 2, 4].map(|ranks| format!("step with {ranks} ranks"));
    ensure!(said == right, "{}", outcome.report());
    Ok(())
}

fn c_moves_that_are_given_up_leave_the_arrays() -> Result<()> {
    is_ok(&in_c("moves", 2, &[])?)
}

fn c_process_sets_with_wrong_arguments_fail_on_all() -> Result<()> {
    is_ok(&in_c("psets", 2, &[])?)
}

fn in_c_one_ranks_wrong_redistribution_is_an_error_everywhere() -> Result<()> {
    is_ok(&in_c("redistributed", 2, &[])?)
}

fn in_c_an_ended_rank_has_the_dead_member_code() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = "bindings-c/tests/elastic/dead.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &[])?;
    let outcome = Job::new(2, program).survives().limit(LIMIT).run()?;
    // The launcher's reaction to the killed process does not matter.
    ensure!(outcome.stdout.lines().any(|line| line == "told"), "{}", outcome.report());
    Ok(())
}

fn is_ok(outcome: &Outcome) -> Result<()> {
    outcome.expect_success()?;
    ensure!(outcome.stdout.lines().any(|line| line.trim() == "ok"), "{}", outcome.report());
    Ok(())
}

quo_tests::suite! {
    in_c_arrays_and_a_context_follow_parked_ranks
    in_c_arrays_and_a_context_follow_spawned_ranks
    in_c_the_skeleton_of_reshape_runs
    reshape_skeleton_in_rust_c_fortran_survives_each_schedule
    reshape_skeleton_in_rust_c_fortran_joins_spawned_ranks
    in_fortran_arrays_and_a_context_follow_parked_ranks
    in_fortran_arrays_and_a_context_follow_spawned_ranks
    in_fortran_the_skeleton_of_reshape_runs
    c_program_with_the_first_options_structure_runs
    c_options_decide_which_requests_are_accepted
    c_requests_events_and_background_moves_are_as_in_rust
    in_c_cells_edges_and_ghost_cells_are_right_after_resizes
    in_c_items_follow_their_owners_and_none_is_lost
    in_fortran_items_follow_their_owners_and_none_is_lost
    in_c_a_checkpoint_of_three_ranks_is_restored_on_others
    failure_of_one_rank_reaches_all_and_loses_no_item
    in_c_matrix_rows_and_ghosts_are_right_after_all_resizes
    in_fortran_cells_edges_and_ghost_cells_are_right_after_resizes
    c_moves_that_are_given_up_leave_the_arrays
    one_program_in_rust_c_fortran_prints_the_same
    rust_program_of_the_guide_grows_and_shrinks
    c_process_sets_with_wrong_arguments_fail_on_all
    in_c_wrong_arguments_are_refused_and_the_world_works
    in_c_one_ranks_wrong_redistribution_is_an_error_everywhere
    in_c_an_ended_rank_has_the_dead_member_code
}
