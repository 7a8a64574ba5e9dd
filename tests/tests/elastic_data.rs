//! Arrays that move when a world changes its size, checked element by element by the program
//! itself.

use std::time::Duration;

use anyhow::{Result, ensure};
use quo_tests::{Checkout, Job, Nodes, Outcome};

const LIMIT: Duration = Duration::from_secs(120);

fn arrays(ranks: usize, words: &[&str]) -> Result<Outcome> {
    let program = Checkout::find()?.program("examples/arrays")?;
    let job = words.iter().fold(Job::new(ranks, program), |job, word| job.arg(word));
    let outcome = job.limit(LIMIT).run()?;
    outcome.expect_success()?;
    Ok(outcome)
}

fn lines(outcome: &Outcome) -> Vec<&str> {
    let said = |line: &&str| line.starts_with("size ") || line.starts_with("still ");
    outcome.stdout.lines().filter(said).collect()
}

/// Returns the sizes, and for each change the bytes sent to other ranks, and the part of them that
/// went through shared memory.
fn moves(outcome: &Outcome) -> Result<(Vec<usize>, Vec<usize>, Vec<usize>)> {
    let (mut sizes, mut sent, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines(outcome) {
        let numbers =
            line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
        let numbers: Vec<usize> = numbers.collect();
        ensure!(numbers.len() == 5 && numbers[1] == 15, "{}", outcome.report());
        sizes.push(numbers[0]);
        sent.push(numbers[2]);
        shared.push(numbers[3]);
    }
    Ok((sizes, sent, shared))
}

#[test]
fn every_distribution_is_right_after_growing_and_shrinking() -> Result<()> {
    let outcome = arrays(4, &["shared", "1", "4", "2", "3", "1"])?;
    let (sizes, sent, shared) = moves(&outcome)?;
    ensure!(sizes == [4, 2, 3, 1], "{}", outcome.report());
    // Between ranks of a node only the data of callbacks is sent as messages.
    let few = sent.iter().zip(&shared).all(|(sent, shared)| sent - shared < 1000);
    ensure!(few && shared.iter().all(|&bytes| bytes > 500_000), "{}", outcome.report());
    Ok(())
}

#[test]
fn messages_bring_the_same_as_memory() -> Result<()> {
    let outcome = arrays(4, &["messages", "2", "4", "3", "1"])?;
    let (sizes, sent, shared) = moves(&outcome)?;
    ensure!(sizes == [4, 3, 1], "{}", outcome.report());
    ensure!(shared == [0; 3] && sent.iter().all(|&bytes| bytes > 500_000), "{}", outcome.report());
    Ok(())
}

#[test]
fn data_move_while_ranks_do_something_else() -> Result<()> {
    let outcome = arrays(3, &["background", "1", "3", "2"])?;
    ensure!(moves(&outcome)?.0 == [3, 2], "{}", outcome.report());
    Ok(())
}

#[test]
fn between_nodes_there_are_messages_and_on_a_node_memory() -> Result<()> {
    let nodes = Nodes::new(3, 2, &Checkout::find()?.program("examples/arrays")?)?;
    let words = ["shared", "1", "2", "6", "4", "1"];
    let job = words.iter().fold(Job::new(6, nodes.program()), |job, word| job.arg(word));
    let outcome = job.limit(LIMIT).run()?;
    outcome.expect_success()?;
    let (sizes, sent, shared) = moves(&outcome)?;
    ensure!(sizes == [2, 6, 4, 1], "{}", outcome.report());
    let both =
        sent.iter().zip(&shared).skip(1).all(|(sent, shared)| *shared > 0 && sent > &(2 * shared));
    ensure!(both && sent[0] - shared[0] < 1000, "{}", outcome.report());
    nodes.expect_clean()
}

#[test]
fn difference_or_refusal_of_one_rank_leaves_all_data() -> Result<()> {
    let outcome = arrays(4, &["shared", "2", "4!", "4?", "3", "4~", "1#", "4", "1"])?;
    let said = lines(&outcome);
    let begins = [
        "still 2: rank 3: 2555823 bytes are too many",
        "still 2: rank 1: it has 15 arrays and rank 0 has 14",
        "size 3: ",
        "still 3: rank 2: `words`: it keeps what it has",
        "still 3: rank 0: move: rank 2: a move was left before its end",
        "size 4: ",
        "size 1: ",
    ];
    let right = said.len() == begins.len()
        && said.iter().zip(begins).all(|(line, begin)| line.starts_with(begin));
    ensure!(right, "{}", outcome.report());
    Ok(())
}

fn skeleton(ranks: usize, words: &[&str]) -> Result<Outcome> {
    let program = Checkout::find()?.program("examples/reshape_skeleton")?;
    let job = words.iter().fold(Job::new(ranks, program), |job, word| job.arg(word));
    let outcome = job.limit(LIMIT).run()?;
    outcome.expect_success()?;
    Ok(outcome)
}

#[test]
fn the_skeleton_of_reshape_expands_and_shrinks_with_its_matrix() -> Result<()> {
    let outcome = skeleton(4, &["1", "2", "4", "1", "2"])?;
    let right = "iteration 10: 1x1 -> 1x2, 55296 bytes\n\
                 iteration 20: 1x2 -> 2x2, 55296 bytes\n\
                 iteration 29: 2x2 -> 1x1, 55296 bytes\n\
                 iteration 40: 1x1 -> 1x2, 55296 bytes\n\
                 right after 60 iterations on 1x1 1x2 2x2 1x1 1x2\n";
    ensure!(outcome.stdout == right, "{}", outcome.report());
    Ok(())
}

#[test]
fn unworkable_size_is_given_up_and_missing_data_reported() -> Result<()> {
    let outcome = skeleton(4, &["2", "3", "4", "2", "short"])?;
    let said = "move: rank 3: register_with: this rank's part of `array` \
                has 1728 elements; 1727 were given";
    ensure!(outcome.stdout.matches(said).count() == 4, "{}", outcome.report());
    let right = "right after 60 iterations on 1x2 2x2 1x2";
    ensure!(outcome.stdout.contains(right), "{}", outcome.report());
    Ok(())
}

#[test]
fn a_joiner_without_a_callback_is_not_let_in() -> Result<()> {
    let outcome = arrays(3, &["shared", "2", "3^", "1"])?;
    let said = lines(&outcome);
    let right = "still 2: rank 2: the joiner has no callback or items `words`, which rank 0 has";
    ensure!(said.len() == 2 && said[0] == right, "{}", outcome.report());
    Ok(())
}
