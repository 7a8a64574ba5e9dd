//! Frame of the page: style, script, sections.

use crate::picture::PAGE_CSS;
use crate::terminal::markup;

/// A page under construction.
#[derive(Debug)]
pub struct Page {
    text: String,
}

impl Page {
    /// Creates a page with this title.
    pub fn new(title: &str) -> Page {
        let text = format!(
            "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
             <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; img-src data:; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
             <title>{}</title>\n<style>\n{PAGE_CSS}{}</style>\n<body>\n",
            markup(title),
            include_str!("page.css")
        );
        Page { text }
    }

    /// Adds the head of the page: its name, some text, and the choice of light or dark.
    pub fn header(&mut self, name: &str, words: &str) {
        self.text += &format!(
            "<header><h1>{}</h1><p>{}</p><button id=theme type=button>light / dark</button></header>\n",
            markup(name),
            markup(words)
        );
    }

    /// Appends HTML.
    pub fn push(&mut self, html: &str) {
        self.text.push_str(html);
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str, about: &str) {
        self.text += &format!("<section>\n<h2>{}</h2>\n", markup(title));
        if !about.is_empty() {
            self.text += &format!("<p class=about>{}</p>\n", markup(about));
        }
    }

    /// Ends a section.
    pub fn end(&mut self) {
        self.text += "</section>\n";
    }

    /// Returns the whole page.
    pub fn finish(mut self, data: &str) -> String {
        self.text += "<div id=tip hidden></div>\n";
        self.text +=
            &format!("<script>const charts = {data};\n{}</script>\n", include_str!("page.js"));
        self.text
    }
}

/// A table: headings, then rows; the columns after the first `words` are numbers.
#[derive(Debug)]
pub struct Table {
    html: String,
    words: usize,
}

impl Table {
    /// Creates a table with these headings.
    pub fn new(words: usize, heads: &[&str]) -> Table {
        let mut table = Table { html: "<div class=scroll><table>\n<thead>".to_owned(), words };
        table.cells("th", "", heads.iter().map(|head| markup(head)));
        table.html += "</thead>\n<tbody>\n";
        table
    }

    /// Adds a row of text; `class` is a class of the page's style, or empty.
    pub fn row(&mut self, class: &str, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| markup(&cell)).collect();
        self.cells("td", class, cells.into_iter());
    }

    fn cells(&mut self, tag: &str, class: &str, cells: impl Iterator<Item = String>) {
        self.html += &match class.is_empty() {
            true => "<tr>".to_owned(),
            false => format!("<tr class={class}>"),
        };
        for (column, cell) in cells.enumerate() {
            let class = if column < self.words { "" } else { " class=n" };
            self.html += &format!("<{tag}{class}>{cell}</{tag}>");
        }
        self.html += "</tr>\n";
    }

    /// Returns the table.
    pub fn finish(self) -> String {
        self.html + "</tbody></table></div>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_trace_stay_text() {
        let mut table = Table::new(1, &["a"]);
        table.row("", ["<script>alert(\"1\")</script>".to_owned()]);
        let html = table.finish();
        assert!(html.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"), "{html}");
    }
}
