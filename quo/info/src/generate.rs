//! Manual pages and shell completions, generated from the definition of the command line and from
//! the library's table of variables when this program is installed.

use std::path::Path;

use anyhow::{Context, Result};
use clap_mangen::roff::{Roff, bold, roman};
use quo::environment::VARIABLES;
use quo_pages::{DATE, Words};

use crate::arguments;

/// The overview of quo, for section 7. Its line `.\" VARIABLES` is replaced by the table.
const OVERVIEW: &str = include_str!("../man/quo.7");
const TABLE: &str = ".\\\" VARIABLES\n";

const PAGES: Words<'_> = Words {
    status: "0 when all went well, 1 when something failed, 2 for a wrong command line.",
    see: "quo(7), mpirun(1), pkg-config(1)",
    names: None,
};

/// Writes everything into a folder, laid out as in `share`.
pub fn run(folder: &Path) -> Result<()> {
    let attempt = || {
        quo_pages::write_all(arguments::command(), PAGES, folder)?;
        quo_pages::write(&folder.join("man/man7/quo.7"), overview().as_bytes())
    };
    attempt().with_context(|| format!("writing into {}", folder.display()))
}

fn overview() -> String {
    let mut table = Roff::new();
    for variable in VARIABLES {
        table.control("TP", []);
        table.text([bold(variable.name)]);
        table.text([roman(format!("{}.", sentence(variable.meaning)))]);
        table.control("br", []);
        table.text([roman(format!("Values: {}.", plain(variable.values)))]);
        table.control("br", []);
        table.text([roman(format!("Default: {}.", plain(variable.default)))]);
    }
    let overview = OVERVIEW.replace("DATE", DATE).replace("VERSION", env!("CARGO_PKG_VERSION"));
    overview.replace(TABLE, &table.render())
}

/// Removes the Markdown marks of typed words from a text of the table.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn sentence(text: &str) -> String {
    let text = plain(text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_tells_every_variable() {
        let page = overview();
        for variable in VARIABLES {
            let name = format!("\\fB{}\\fR", variable.name);
            assert!(page.contains(&name), "{}", variable.name);
        }
        assert!(!page.contains(TABLE));
    }
}
