//! `quo-info environment`: the library's table of variables, with their current values.

use anyhow::Result;
use clap::Args;
use quo::environment::{VARIABLES, value};
use serde::Serialize;

use crate::output;

#[derive(Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    meaning: &'static str,
    values: &'static str,
    default: &'static str,
    value: Option<String>,
}

pub fn run(options: &Options) -> Result<()> {
    let rows: Vec<Row> = VARIABLES
        .iter()
        .map(|variable| Row {
            name: variable.name,
            meaning: variable.meaning,
            values: variable.values,
            default: variable.default,
            value: value(variable),
        })
        .collect();
    if options.json {
        return output::json(&rows);
    }
    let mut text = String::new();
    for row in rows {
        let now = row.value.map_or_else(|| "not set".to_owned(), |value| format!("`{value}`"));
        text += &format!("{} ({now})\n", row.name);
        let lines = [("", row.meaning), ("values: ", row.values), ("default: ", row.default)];
        for (name, line) in lines {
            for line in
                output::fold(&format!("{name}{line}"), output::width().saturating_sub(4).max(20))
            {
                text += &format!("    {line}\n");
            }
        }
    }
    output::text(&text)
}
