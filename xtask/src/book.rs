//! `cargo xtask book`: the pages of the project as a searchable site.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::output::Steps;
use crate::rules::summary;
use crate::{project, run, setup};

const LIMIT: Duration = Duration::from_secs(5 * 60);

/// Folder with the pages for `mdbook`, below `xtask` in cargo's build folder.
const STAGE: &str = "book";

#[derive(Args)]
pub struct Options {
    /// Folder of the site.
    #[arg(short, long = "output", alias = "out", value_name = "DIR", default_value = "out/book")]
    out: PathBuf,
}

pub fn run(options: &Options) -> Result<()> {
    let out = std::path::absolute(&options.out)?;
    build(&out)?;
    println!("{}", out.join("index.html").display());
    Ok(())
}

/// Step of the full test suite: builds the site into the build folder.
pub fn check() -> Result<()> {
    build(&project::base()?.join("xtask/book-check"))
}

/// Builds the site and checks every local link in it.
fn build(out: &Path) -> Result<()> {
    let mut steps = Steps::new(3);
    steps.next("looking for mdbook, which is built the first time");
    let program = setup::mdbook()?;
    let stage = project::base()?.join("xtask").join(STAGE);
    let _absent = fs::remove_dir_all(&stage);
    let root = project::root();
    let sources = stage.join("src");
    for file in files(root)? {
        copy(root, &sources, &file)?;
    }
    fs::copy(root.join("docs/book.toml"), stage.join("book.toml"))
        .context("copying docs/book.toml")?;
    fs::write(sources.join("SUMMARY.md"), moved(&fs::read_to_string(root.join(summary::PAGE))?))
        .context("writing SUMMARY.md")?;
    steps.next("making the site");
    let mut mdbook = Command::new(program);
    mdbook.arg("build").arg("--dest-dir").arg(out).arg(&stage);
    let finished = run::logged(&mut mdbook, &stage.with_extension("log"), LIMIT)?;
    ensure!(
        finished.ending.is_success(),
        "mdbook build: {}\n{}",
        finished.ending,
        finished.output.trim_end()
    );
    steps.next("following its links");
    let dead = dead_links(out)?;
    ensure!(dead.is_empty(), "dead links in {}:\n{}", out.display(), dead.join("\n"));
    Ok(())
}

/// Returns the pages of the site and the files that they link to, as paths below the checkout.
pub fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for page in summary::listed(root) {
        let text = fs::read_to_string(root.join(&page))
            .with_context(|| format!("reading {}", page.display()))?;
        files.extend(summary::targets(&page, &text));
        files.insert(page);
    }
    Ok(files)
}

fn copy(root: &Path, sources: &Path, file: &Path) -> Result<()> {
    let to = sources.join(file);
    let folder = to.parent().unwrap_or(sources);
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    fs::copy(root.join(file), &to).with_context(|| format!("copying {}", file.display()))?;
    Ok(())
}

/// Returns the table of contents for a place one folder higher.
fn moved(summary: &str) -> String {
    summary.replace("](../", "](\0").replace("](", "](docs/").replace("](docs/\0", "](")
}

/// Lists the local links of a folder of HTML pages that lead to no file or anchor, one line each.
fn dead_links(folder: &Path) -> Result<Vec<String>> {
    let mut dead = Vec::new();
    for path in project::files_below(folder)? {
        if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(&path)?;
            let page = path.strip_prefix(folder).unwrap_or(&path).display();
            let links = attributes(&text).filter(|link| is_dead(&path, &text, link));
            dead.extend(links.map(|link| format!("{page}: {link}")));
        }
    }
    dead.sort();
    dead.dedup();
    Ok(dead)
}

/// Returns the addresses in a page of HTML.
fn attributes(html: &str) -> impl Iterator<Item = &str> {
    let quoted = |name: &'static str| {
        html.split(name).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0))
    };
    quoted(" href=\"").chain(quoted(" src=\""))
}

fn is_dead(page: &Path, html: &str, link: &str) -> bool {
    let is_elsewhere = ["://", "mailto:", "javascript:", "data:"];
    if is_elsewhere.iter().any(|mark| link.contains(mark)) {
        return false;
    }
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let has_place = |text: &str| place.is_empty() || text.contains(&format!("id=\"{place}\""));
    if file.is_empty() {
        return !has_place(html);
    }
    let target = page.parent().unwrap_or(Path::new("")).join(file);
    !target.is_file()
        || !fs::read_to_string(target).map_or(place.is_empty(), |text| has_place(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_moved_up_find_the_same_pages() {
        let text = "[quo](../README.md)\n- [a](a.md)\n- [b](more/b.md)";
        assert_eq!(moved(text), "[quo](README.md)\n- [a](docs/a.md)\n- [b](docs/more/b.md)");
    }

    #[test]
    fn dead_links_are_named_with_their_page() {
        let folder = tempfile::tempdir().unwrap();
        let page = "<h1 id=\"here\"></h1><a href=\"#here\"></a><a href=\"#gone\"></a>\
            <a href=\"b.html\"></a><a href=\"c.html\"></a><img src=\"d.png\">\
            <a href=\"https://example.org/\"></a><a href=\"b.html#there\"></a>";
        fs::write(folder.path().join("a.html"), page).unwrap();
        fs::write(folder.path().join("b.html"), "").unwrap();
        let expected = ["a.html: #gone", "a.html: b.html#there", "a.html: c.html", "a.html: d.png"];
        assert_eq!(dead_links(folder.path()).unwrap(), expected);
    }
}
