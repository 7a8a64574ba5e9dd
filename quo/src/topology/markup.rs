//! A reader of tags: the part of XML that topology files are written in.
//!
//! Elements, attributes, comments, a document type without definitions, the five named entities and
//! character references. Everything else is refused with the line it stands on. Nothing is expanded,
//! nothing is fetched, and the nesting is bounded.

/// Deeper than any machine, PCI bridges included.
const MAX_DEPTH: usize = 128;

/// The next piece of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// `<name attributes>`, or `<name attributes/>`, which is followed by its own end.
    Start(Element<'a>),
    /// The end of the element of that name.
    End(&'a str),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) name: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
}

impl Element<'_> {
    /// The value of an attribute with its references resolved.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let (_, raw) = self.attributes.iter().find(|(found, _)| *found == name)?;
        Some(resolve(raw))
    }
}

/// Reads a text event by event; all elements are known to be closed once it ends.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    open: Vec<&'a str>,
    /// An element without content still owes its end.
    closing: bool,
    seen: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, at, open: Vec::new(), closing: false, seen: false }
    }

    /// The line that has been reached, counted from 1.
    pub(super) fn line(&self) -> usize {
        1 + self.text.as_bytes()[..self.at].iter().filter(|&&byte| byte == b'\n').count()
    }

    /// The next event, or `None` at a proper end of the text.
    pub(super) fn next(&mut self) -> Result<Option<Event<'a>>, String> {
        if self.closing {
            self.closing = false;
            return Ok(self.open.pop().map(Event::End));
        }
        loop {
            let rest = &self.text[self.at..];
            let Some(skipped) = rest.find('<') else { return self.end(rest) };
            if self.open.is_empty() && !rest[..skipped].trim().is_empty() {
                return Err(self.wrong("there is text outside of the elements"));
            }
            self.at += skipped;
            let rest = &rest[skipped..];
            if let Some(comment) = rest.strip_prefix("<!--") {
                self.skip_past(4, comment, "-->", "a comment is not closed")?;
            } else if let Some(data) = rest.strip_prefix("<![CDATA[") {
                self.skip_past(9, data, "]]>", "a CDATA section is not closed")?;
            } else if let Some(instruction) = rest.strip_prefix("<?") {
                self.skip_past(2, instruction, "?>", "a `<?` is not closed")?;
            } else if let Some(definition) = rest.strip_prefix("<!") {
                let end = definition.find('>').unwrap_or(definition.len());
                if !definition.starts_with("DOCTYPE") || definition[..end].contains('[') {
                    return Err(self.wrong("definitions are not read"));
                }
                self.skip_past(2, definition, ">", "the document type is not closed")?;
            } else if let Some(name) = rest.strip_prefix("</") {
                return self.close(name).map(Some);
            } else {
                return self.start(&rest[1..]).map(Some);
            }
        }
    }

    fn end(&mut self, rest: &str) -> Result<Option<Event<'a>>, String> {
        if let Some(name) = self.open.last() {
            self.at = self.text.len();
            return Err(self.wrong(&format!("it ends inside `{name}`")));
        }
        if !rest.trim().is_empty() {
            return Err(self.wrong("there is text outside of the elements"));
        }
        if !self.seen {
            return Err("there is no element in it".to_owned());
        }
        Ok(None)
    }

    fn skip_past(&mut self, opening: usize, rest: &str, end: &str, or: &str) -> Result<(), String> {
        let length = rest.find(end).ok_or_else(|| self.wrong(or))?;
        self.at += opening + length + end.len();
        Ok(())
    }

    fn close(&mut self, rest: &'a str) -> Result<Event<'a>, String> {
        let end = rest.find('>').ok_or_else(|| self.wrong("a tag is not closed"))?;
        let name = rest[..end].trim_end();
        match self.open.pop() {
            Some(open) if open == name => {
                self.at += 2 + end + 1;
                Ok(Event::End(open))
            }
            Some(open) => Err(self.wrong(&format!("`</{name}>` stands inside `{open}`"))),
            None => Err(self.wrong("an end tag closes nothing")),
        }
    }

    fn start(&mut self, rest: &'a str) -> Result<Event<'a>, String> {
        if self.open.is_empty() && self.seen {
            return Err(self.wrong("there is a second outermost element"));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(self.wrong(&format!("elements are nested more than {MAX_DEPTH} deep")));
        }
        let (name, mut left) = word(rest).ok_or_else(|| self.wrong("a tag has no name"))?;
        let mut attributes: Vec<(&str, &str)> = Vec::new();
        loop {
            let trimmed = left.trim_start();
            if let Some(after) = trimmed.strip_prefix("/>") {
                self.closing = true;
                left = after;
                break;
            }
            if let Some(after) = trimmed.strip_prefix('>') {
                left = after;
                break;
            }
            if trimmed.is_empty() {
                return Err(self.wrong("a tag is not closed"));
            }
            let attribute = (trimmed.len() < left.len()).then(|| attribute(trimmed)).flatten();
            let Some((key, value, after)) = attribute else {
                return Err(self.wrong(&format!("the tag `{name}` is malformed")));
            };
            if attributes.iter().any(|(other, _)| *other == key) {
                return Err(self.wrong(&format!("`{name}` has `{key}` twice")));
            }
            attributes.push((key, value));
            left = after;
        }
        self.at += 1 + rest.len() - left.len();
        self.seen = true;
        self.open.push(name);
        Ok(Event::Start(Element { name, attributes }))
    }

    /// A message with the line.
    pub(super) fn wrong(&self, cause: &str) -> String {
        format!("line {}: {cause}", self.line())
    }
}

fn word(text: &str) -> Option<(&str, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let end = text.find(|c| !part(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// `key="value"` and the text behind it.
fn attribute(text: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = word(text)?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let rest = &rest[1..];
    let end = rest.find(quote)?;
    let value = &rest[..end];
    (!value.contains('<')).then(|| (key, value, &rest[end + 1..]))
}

/// References that mean nothing stay as they are written.
fn resolve(raw: &str) -> String {
    let mut text = String::new();
    let mut rest = raw;
    while let Some(start) = rest.find('&') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(';').unwrap_or(0);
        let found = match rest.get(1..end.max(1)).unwrap_or_default() {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            number => number.strip_prefix('#').and_then(|number| {
                match number.strip_prefix('x') {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => number.parse(),
                }
                .ok()
                .and_then(char::from_u32)
            }),
        };
        match found {
            Some(c) => {
                text.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                text.push('&');
                rest = &rest[1..];
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Result<String, String> {
        let mut reader = Reader::new(text);
        let mut names = String::new();
        while let Some(event) = reader.next()? {
            match event {
                Event::Start(element) => names += &format!("<{}", element.name),
                Event::End(_) => names += ">",
            }
        }
        Ok(names)
    }

    #[test]
    fn elements_come_in_order_and_the_rest_is_skipped() {
        let text = "<?xml version='1.0'?>\n<!DOCTYPE a SYSTEM \"b.dtd\">\n<!-- <x> -->\
                    <a b = 'c'><d/>text<e f=\"1\" g='2' ><![CDATA[<y>]]></e></a>\n";
        assert_eq!(names(text).unwrap(), "<a<d><e>>");
    }

    #[test]
    fn references_are_resolved_in_values() {
        let mut reader = Reader::new("<a b='&lt;&#65;&#x42;&amp;&nbsp;&'/>");
        let Ok(Some(Event::Start(element))) = reader.next() else { panic!("no element") };
        assert_eq!(element.attribute("b").unwrap(), "<AB&&nbsp;&");
        assert_eq!(element.attribute("c"), None);
    }

    #[test]
    fn what_is_malformed_is_refused_with_its_line() {
        let deep = "<a>".repeat(MAX_DEPTH + 1);
        for (text, cause) in [
            ("", "no element"),
            ("hello", "outside"),
            ("<a>", "ends inside `a`"),
            ("<a\n<b/>", "malformed"),
            ("\n\n<a></b>", "line 3: `</b>` stands inside `a`"),
            ("</a>", "closes nothing"),
            ("<a/><b/>", "second"),
            ("<a b/>", "malformed"),
            ("<a b=c/>", "malformed"),
            ("<a b='1' b='2'/>", "twice"),
            ("<a b='1'c='2'/>", "malformed"),
            ("<a b='", "malformed"),
            ("<a b='<'/>", "malformed"),
            ("<a ", "not closed"),
            ("< a/>", "no name"),
            ("<!-- <a/>", "comment"),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", "definitions"),
            ("<!ENTITY b 'c'><a/>", "definitions"),
            ("<?xml", "not closed"),
            (&deep, "nested"),
        ] {
            let error = names(text).unwrap_err();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[<>/!?a '\"=&;#x\\[\\]é\n-]{0,40}") {
            let _ = names(&text);
        }
    }
}
