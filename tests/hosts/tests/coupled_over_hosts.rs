//! The coupled example over three hosts: one joins, another is left for good, and the bits are those of one rank that
//! stays.

mod support;

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_hosts::Hosts;
use quo_hosts::suite;
use quo_tests::example::{TINY, expect_same_fields, small_deck};
use quo_tests::{Checkout, Job};
use serde_json::Value;

use support::{expect_nothing_left, until};

const LIMIT: Duration = Duration::from_secs(90);

/// Processes of the program on a host, and the files in its shared memory.
fn there(hosts: &Hosts, index: usize) -> Result<Vec<String>> {
    let mine = format!("{}: ", hosts.host(index).name());
    let left = hosts.leftovers().into_iter().filter(|line| line.starts_with(&mine));
    Ok(left.filter(|line| line.contains("coupled") || line.contains("/dev/shm")).collect())
}

fn host_joins_another_leaves_and_the_bits_stay() -> Result<()> {
    let checkout = Checkout::find()?;
    let program = checkout.program("coupled")?;
    // Every host sees the folder of what was built.
    let folder = tempfile::tempdir_in(program.parent().context("a program without a folder")?)?;
    let file = |name: &str| folder.path().join(name);
    small_deck(&TINY, &file("deck.toml"))?;
    let rigid = Job::new(1, &program).arg("run").arg("--mode").arg("under");
    let rigid = rigid.arg("--deck").arg(file("deck.toml")).arg("--output").arg(file("rigid.json"));
    rigid.arg("--fields").arg(file("rigid.bin")).limit(LIMIT).run()?.expect_success()?;

    let hosts = Hosts::up(&suite::set("coupled"), 3)?;
    let [second, third] = [1, 2].map(|index| hosts.host(index).address());
    let plan = format!("at 10: grow 2 on {second}\nat 20: grow 2 on {third}\nat 40: leave host1\n");
    fs::write(file("plan"), plan)?;
    let mut job = hosts.job(&[(0, 1)], &program);
    for address in [second, third] {
        job = job.option("--host").option(format!("{address}:2"));
    }
    let job = job
        .arg("elastic")
        .arg("--max-ranks")
        .arg("5")
        .arg("--hold")
        .arg("--plan")
        .arg(file("plan"));
    let job = job.arg("--deck").arg(file("deck.toml")).arg("--output").arg(file("elastic.json"));
    let job = job.arg("--fields").arg(file("elastic.bin")).env("OMP_WAIT_POLICY", "passive");
    let running = job.env("OMPI_MCA_mpi_yield_when_idle", "1").limit(LIMIT).start()?;
    running.wait_for("epoch 3: 3 ranks", 1)?;
    until("processes that left a host end", || Ok(there(&hosts, 1)?.is_empty()))?;
    let outcome = running.finish()?;
    outcome.expect_success()?;

    expect_same_fields(&file("rigid.bin"), &file("elastic.bin"))?;
    let result: Value = serde_json::from_str(&fs::read_to_string(file("elastic.json"))?)?;
    // How many nodes had ranks while L0 ran, and how many had workers of L1 that were widened.
    for (epoch, (nodes, ranks)) in [(1, 1), (2, 3), (3, 5), (2, 3)].into_iter().enumerate() {
        let seen = &result["elastic"]["bindings"][epoch];
        let list = |key: &str| seen[key].as_array().cloned().unwrap_or_default();
        let (flow, diffusion) = (list("flow"), list("diffusion"));
        let count = |node: &Value| node["ranks"].as_array().map_or(0, Vec::len);
        ensure!(flow.len() == nodes && diffusion.len() == nodes, "epoch {epoch}: {seen:#}");
        ensure!(flow.iter().map(count).sum::<usize>() == ranks, "epoch {epoch}: {seen:#}");
        let is_wide = |node: &Value| node["pushed"][0][1] == node["allowed"];
        ensure!(diffusion.iter().all(is_wide), "epoch {epoch}: {seen:#}");
    }
    expect_nothing_left(&hosts)?;
    hosts.down()
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    host_joins_another_leaves_and_the_bits_stay
}
