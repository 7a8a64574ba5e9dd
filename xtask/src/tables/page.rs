//! Tables of a page, between two comments with their names. Pure.

use anyhow::{Context, Result};

/// Text of a cell without a run.
const NOT_RUN: &str = "not run";

/// One behaviour of one version of a software.
#[derive(Clone, Debug)]
pub struct Cell {
    pub column: String,
    pub row: String,
    pub text: String,
}

impl Cell {
    /// Reads a line of a script.
    pub fn parse(line: &str) -> Result<Self> {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut field = || fields.next().with_context(|| format!("not a cell: {line}"));
        Ok(Self { column: field()?, row: field()?, text: field()? })
    }
}

/// Returns the page with these cells in the table of this name. Columns of the table that have no
/// cell here stay, rows that have none are dropped.
pub fn with_table(page: &str, name: &str, cells: &[Cell]) -> Result<String> {
    let (begin, end) = (format!("<!-- table: {name} -->\n"), "<!-- end of table -->");
    let (before, rest) = page.split_once(&begin).with_context(|| format!("no line {begin}"))?;
    let (old, after) = rest.split_once(end).with_context(|| format!("no line {end}"))?;
    let mut all = cells.to_vec();
    all.extend(
        read(old).into_iter().filter(|old| cells.iter().all(|cell| cell.column != old.column)),
    );
    // Columns stay in their order, new ones follow; rows are in the order of the programs.
    let old_columns = read(old).into_iter().map(|cell| cell.column);
    let columns = distinct(old_columns.chain(cells.iter().map(|cell| cell.column.clone())));
    let rows = distinct(cells.iter().map(|cell| cell.row.clone()));
    let line = |first: &str, cells: Vec<&str>| format!("| {first} | {} |\n", cells.join(" | "));
    let mut table = line("", columns.iter().map(String::as_str).collect());
    table = table.replacen("|  |", "| |", 1);
    table += &format!("|---|{}\n", "---|".repeat(columns.len()));
    for row in &rows {
        let text = |column: &String| {
            let cell = all.iter().find(|cell| cell.column == *column && cell.row == *row);
            cell.map_or(NOT_RUN, |cell| cell.text.as_str())
        };
        table += &line(row, columns.iter().map(text).collect());
    }
    Ok(format!("{before}{begin}\n{table}\n{end}{after}"))
}

/// Returns the cells of a table.
fn read(table: &str) -> Vec<Cell> {
    let fields = |line: &str| -> Vec<String> {
        let line = line.trim().trim_start_matches('|').trim_end_matches('|');
        line.split('|').map(|field| field.trim().to_owned()).collect()
    };
    let mut lines = table.lines().filter(|line| line.starts_with('|')).map(fields);
    let head = lines.next().unwrap_or_default();
    let mut cells = Vec::new();
    for line in lines.skip(1) {
        let row = line.first().cloned().unwrap_or_default();
        for (column, text) in head.iter().zip(&line).skip(1) {
            cells.push(Cell { column: column.clone(), row: row.clone(), text: text.clone() });
        }
    }
    cells
}

/// Returns the different names, in the order of their first appearance.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Text.\n\n<!-- table: t -->\n\n| | a 1 | b 2 |\n|---|---|---|\n| spawn | yes | no |\n| gone \
                        | yes | yes |\n\n<!-- end of table -->\n\nMore.\n";

    fn cells(lines: &[&str]) -> Vec<Cell> {
        lines.iter().map(|line| Cell::parse(line).unwrap()).collect()
    }

    #[test]
    fn columns_that_were_run_change_and_others_stay() {
        let found = cells(&["b 2\tspawn\tyes", "b 2\twait\tspins", "b 3\tspawn\tno"]);
        let page = with_table(PAGE, "t", &found).unwrap();
        let table = "| | a 1 | b 2 | b 3 |\n|---|---|---|---|\n| spawn | yes | yes | no |\n| wait | not run | spins | \
                     not run |\n";
        assert_eq!(
            page,
            format!("Text.\n\n<!-- table: t -->\n\n{table}\n<!-- end of table -->\n\nMore.\n")
        );
        assert_eq!(with_table(&page, "t", &found).unwrap(), page, "a second run changes nothing");
    }

    #[test]
    fn page_without_the_table_is_refused() {
        assert!(with_table(PAGE, "u", &[]).is_err());
        assert!(with_table("<!-- table: t -->\n", "t", &[]).is_err());
        assert!(Cell::parse("column\trow").is_err());
    }
}
