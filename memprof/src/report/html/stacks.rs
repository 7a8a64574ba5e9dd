//! Call stacks on the page: nested bars that can be enlarged, and the same as a tree to open.

use super::chooser;
use super::tree::{self, Tree};
use crate::model::Job;
use crate::picture::{self, Call, Style, Theme};
use crate::terminal::markup;
use crate::units::{bytes, millionths, share};

/// Part of all bytes, in millionths, from which a call of the tree is open at first.
const OPEN: u32 = 100_000;

const ABOUT: &str = "Bytes by the calls that led to their allocation, the outermost at the top: estimates from sampled \
    call stacks, all processes together. Colours are those of the owner of most of the bytes. Click a call, or press Enter on it, \
    to enlarge it; the first one shows all again. Arrow keys go to the calls around it.";

/// Returns the section; empty without sampled stacks.
pub fn section(job: &Job) -> String {
    let trees = tree::trees(job);
    if trees.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<section>\n<h2>Memory by call stack</h2>\n<p class=about>{}</p>\n{}",
        markup(ABOUT),
        chooser("stacks", trees.iter().map(|tree| tree.title.clone()))
    );
    for (index, tree) in trees.iter().enumerate() {
        out += &figure(index, tree);
    }
    out + "</section>\n"
}

fn figure(index: usize, tree: &Tree) -> String {
    let style = Style { theme: Theme::Page, width: 1160.0, ..Style::default() };
    let title = format!("{} {}", bytes(tree.all.bytes), tree.title);
    let drawn = picture::icicle(&title, &tree.all, &style);
    let hidden = if index > 0 { " hidden" } else { "" };
    let mut out = format!(
        "<figure id=stacks-{index} class=scroll{hidden}>{drawn}<p class=said aria-live=polite>{}</p>\n",
        markup(&title)
    );
    if !tree.left_out.is_empty() {
        out += &format!("<p class=about>{}</p>\n", markup(&tree.left_out));
    }
    out += "<div class=tree>\n";
    call(&mut out, &tree.all, tree.all.bytes);
    out + "</div></figure>\n"
}

fn call(out: &mut String, of: &Call, all: u64) {
    let part = share(of.bytes, all);
    let words = format!(
        "<b>{}</b> {} {}",
        markup(&bytes(of.bytes)),
        markup(&millionths(part)),
        markup(&of.name)
    );
    if of.calls.is_empty() {
        *out += &format!("<p>{words}</p>\n");
        return;
    }
    let open = if part >= OPEN { " open" } else { "" };
    *out += &format!("<details{open}><summary>{words}</summary>\n");
    of.calls.iter().for_each(|within| call(out, within, all));
    *out += "</details>\n";
}
