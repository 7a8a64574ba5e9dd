//! The user guide (`docs/`) as a set of pages to follow: Markdown in which the first line of each
//! fenced block gives the reader's action.
//!
//! | first line of the block | action |
//! |---|---|
//! | ` ```c file=solver.c ` | the text is appended to that file |
//! | ` ```console run ` | the text after `$ ` is run, and must print the lines below it |
//! | ` ```sh run ` | the whole block is run as one script |
//!
//! More words on that line: `needs=tbb,two-cpus` (otherwise the block is skipped), `unordered`
//! (lines may be in any order), `fails` (the last command must fail), `on=slurm` (another test
//! bed), `before=every-page`. In expected output `...` stands for any text, and alone on its line
//! for any lines.

mod console;
mod follow;
mod needs;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

pub use console::matches;
pub use follow::{Followed, Prefix, Reader};

/// One page of the guide.
#[derive(Clone, Debug)]
pub struct Page {
    /// Path below the checkout.
    pub name: String,
    /// Fenced blocks of the page, in order.
    pub blocks: Vec<Block>,
}

/// One fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of the opening fence, from 1.
    pub line: usize,
    /// Action of the reader.
    pub kind: Kind,
    /// What the block needs of the machine.
    pub needs: Vec<String>,
    /// Text of the block.
    pub text: String,
}

/// What the reader does with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Appends it to this file.
    File(String),
    /// Runs it.
    Run(Run),
}

/// Options of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Commands with their output, not a script.
    pub console: bool,
    /// Lines of an output may be in any order.
    pub unordered: bool,
    /// The last command must fail.
    pub fails: bool,
    /// Runs on the Slurm of the test beds, not here.
    pub on_slurm: bool,
    /// Every page relies on it.
    pub before_every_page: bool,
}

impl Page {
    /// Reads the blocks of a page.
    ///
    /// # Errors
    ///
    /// A block does not name the reader's action, or is not closed. The error names page and line.
    pub fn parse(name: &str, text: &str) -> Result<Page> {
        let mut blocks = Vec::new();
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        while let Some((line, content)) = lines.next() {
            let Some(info) = content.trim_start().strip_prefix("```") else { continue };
            // Blocks in lists are indented.
            let indent = &content[..content.len() - content.trim_start().len()];
            let mut text = String::new();
            loop {
                let (_, next) =
                    lines.next().with_context(|| format!("{name}:{line}: the block has no end"))?;
                if next.trim() == "```" {
                    break;
                }
                text.push_str(next.strip_prefix(indent).unwrap_or(next));
                text.push('\n');
            }
            let (kind, needs) = described(info).with_context(|| format!("{name}:{line}"))?;
            blocks.push(Block { line, kind, needs, text });
        }
        Ok(Page { name: name.to_owned(), blocks })
    }

    /// Returns all pages for users below `docs/` of a checkout, sorted by name: pages in
    /// `docs/contributing` are for developers of the checkout itself.
    ///
    /// # Errors
    ///
    /// The pages cannot be read, or [`Page::parse`] fails.
    pub fn all(root: &Path) -> Result<Vec<Page>> {
        let mut pages = Vec::new();
        let mut folders = vec![root.join("docs")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).context("reading docs")? {
                let path: PathBuf = entry?.path();
                if path.is_dir() {
                    if !path.ends_with("docs/contributing") {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|extension| extension == "md") {
                    let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
                    pages.push(Page::parse(&name, &std::fs::read_to_string(&path)?)?);
                }
            }
        }
        pages.sort_by(|one, other| one.name.cmp(&other.name));
        ensure!(!pages.is_empty(), "the guide has no pages");
        Ok(pages)
    }

    /// Returns true if the page has blocks for the Slurm of the test beds.
    #[must_use]
    pub fn wants_slurm(&self) -> bool {
        self.blocks.iter().any(|block| matches!(&block.kind, Kind::Run(run) if run.on_slurm))
    }
}

/// Reads the words after the language.
fn described(info: &str) -> Result<(Kind, Vec<String>)> {
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or_default();
    let (mut file, mut run, mut needs) = (None, None, Vec::new());
    let mut options = Run { console: language == "console", ..Run::default() };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("file", name) if is_plain(name) => file = Some(name.to_owned()),
            ("run", "") if matches!(language, "console" | "sh") => run = Some(()),
            ("needs", names) => needs.extend(names.split(',').map(str::to_owned)),
            ("unordered", "") => options.unordered = true,
            ("fails", "") => options.fails = true,
            ("on", "slurm") => options.on_slurm = true,
            ("before", "every-page") => options.before_every_page = true,
            _ => bail!("`{word}` means nothing in the first line of a block"),
        }
    }
    if let Some(unknown) = needs.iter().find(|name| !needs::is_known(name)) {
        bail!("nobody knows how to look for `{unknown}`; see tests/src/guide/needs.rs");
    }
    let kind = match (file, run) {
        (Some(name), None) if options == Run { console: options.console, ..Run::default() } => {
            Kind::File(name)
        }
        (None, Some(())) => Kind::Run(options),
        _ => bail!("say what a reader does with the block: `file=NAME`, or `run` (console, sh)"),
    };
    Ok((kind, needs))
}

/// Returns true if a name stays in the reader's folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<Block> {
        Page::parse("docs/x.md", text).unwrap().blocks
    }

    fn complaint(text: &str) -> String {
        format!("{:#}", Page::parse("docs/x.md", text).unwrap_err())
    }

    #[test]
    fn blocks_are_found_with_line_and_kind() {
        let found =
            blocks("# T\n\n```c file=a.c needs=tbb\nint x;\n```\ntext\n```sh run\ntrue\n```\n");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].text.as_str()), (3, "int x;\n"));
        assert_eq!(found[0].kind, Kind::File("a.c".to_owned()));
        assert_eq!(found[0].needs, ["tbb"]);
        assert_eq!(found[1].kind, Kind::Run(Run::default()));
    }

    #[test]
    fn blocks_in_lists_lose_their_indent() {
        let found = blocks("1. x:\n\n   ```console run\n   $ true\n     y\n   ```\n");
        assert_eq!(found[0].text, "$ true\n  y\n");
    }

    #[test]
    fn options_of_a_run_are_read() {
        let found = blocks("```console run unordered fails on=slurm\n$ true\n```\n");
        let Kind::Run(run) = &found[0].kind else { panic!("{found:?}") };
        assert!(run.console && run.unordered && run.fails && run.on_slurm);
        assert!(!run.before_every_page);
    }

    #[test]
    fn block_without_a_purpose_is_an_error() {
        for text in [
            "```c\nint x;\n```\n",
            "```\n$ true\n```\n",
            "```c run\nint x;\n```\n",
            "```sh file=a.sh run\n```\n",
            "```sh file=a.sh fails\n```\n",
            "```c file=../a.c\n```\n",
            "```c file=.state\n```\n",
            "```sh run soon\n```\n",
            "```sh run needs=luck\n```\n",
            "```sh run\ntrue\n",
        ] {
            assert!(complaint(text).starts_with("docs/x.md:1"), "{text}: {}", complaint(text));
        }
    }
}
