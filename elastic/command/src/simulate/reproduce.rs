//! `quo-elastic simulate --reproduce`: prints the tables of the sources next to ours.

use anyhow::{Context, Result, bail};
use elastic_lab::reproduce;

use crate::say;

/// The smallest number of seeds for comparing orders.
const SEEDS: u64 = 30;
/// The exit status if a table differs from its source.
const DIFFERS: u8 = 1;

/// Checks the name of a table.
pub fn table_name(name: &str) -> Result<String, String> {
    if name == "all" || reproduce::names().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = reproduce::names().collect();
    Err(format!("there is no table {name:?}; there are {}, or all", names.join(", ")))
}

/// Replays tables and prints them. Returns 1 if an exact figure or a required order differs from the source.
pub fn run(tables: &[String], seeds: u64, json: bool) -> Result<u8> {
    let is_chosen = |name: &str| tables.iter().any(|table| table == "all" || table == name);
    let mut replayed = Vec::new();
    for name in reproduce::names().filter(|name| is_chosen(name)) {
        let Some(table) = reproduce::replay(name, seeds.max(SEEDS)) else {
            bail!("there is no table {name:?} to replay")
        };
        let table = table.with_context(|| format!("replaying {name}"))?;
        if !json {
            say(&format!("{table}\n"))?;
        }
        replayed.push(table);
    }
    let failures: Vec<String> = replayed.iter().flat_map(reproduce::Table::failures).collect();
    if json {
        say(&format!("{}\n", serde_json::json!({"tables": replayed, "failures": failures})))?;
    } else if failures.is_empty() {
        say("All exact figures are equal, and all required orders hold.\n")?;
    } else {
        say(&format!("Different from the source:\n  {}\n", failures.join("\n  ")))?;
    }
    Ok(if failures.is_empty() { 0 } else { DIFFERS })
}
