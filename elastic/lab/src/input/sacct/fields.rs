//! The fields of a line, as its header names them. Texts of users may contain separators and line
//! breaks.

use std::collections::HashMap;

/// The `--format` with all fields that are used.
pub const FORMAT: &str = "JobID,Submit,Start,End,TimelimitRaw,NNodes,State,AllocCPUS";

/// Fields with free text of users.
const TEXTS: [&str; 13] = [
    "jobname",
    "comment",
    "admincomment",
    "systemcomment",
    "workdir",
    "submitline",
    "stdin",
    "stdout",
    "stderr",
    "extra",
    "constraints",
    "container",
    "wckey",
];

/// The positions of the fields in a line.
#[derive(Debug)]
pub(super) struct Fields {
    count: usize,
    pub id: usize,
    pub submit: usize,
    pub start: usize,
    pub end: usize,
    pub limit: usize,
    pub is_limit_in_minutes: bool,
    pub nodes: usize,
    pub state: Option<usize>,
    pub cpus: Option<usize>,
    /// The fields with the memory, in order of preference.
    pub memory: Vec<usize>,
    pub cluster: Option<usize>,
    /// Positions of the first and the last text.
    texts: Option<(usize, usize)>,
}

impl Fields {
    pub(super) fn find(line: &str) -> Result<Fields, String> {
        let names: Vec<String> = line.split('|').map(str::to_ascii_lowercase).collect();
        let places: HashMap<&str, usize> =
            names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let find = |name: &str| {
            places.get(name.to_ascii_lowercase().as_str()).copied().ok_or_else(|| {
                format!("there is no field {name}; run sacct --parsable2 --format={FORMAT}")
            })
        };
        let is_text = |name: &String| TEXTS.contains(&name.as_str());
        let first = names.iter().position(is_text);
        Ok(Fields {
            count: names.len(),
            id: find("JobID")?,
            submit: find("Submit")?,
            start: find("Start")?,
            end: find("End")?,
            limit: find("TimelimitRaw")
                .or_else(|missing| find("Timelimit").map_err(|_| missing))?,
            is_limit_in_minutes: find("TimelimitRaw").is_ok(),
            nodes: find("NNodes").or_else(|missing| find("AllocNodes").map_err(|_| missing))?,
            state: find("State").ok(),
            cpus: find("AllocCPUS").or_else(|_| find("NCPUS")).or_else(|_| find("ReqCPUS")).ok(),
            memory: ["AllocTRES", "ReqTRES", "ReqMem"]
                .iter()
                .filter_map(|name| find(name).ok())
                .collect(),
            cluster: find("Cluster").ok(),
            texts: first.zip(names.iter().rposition(is_text)),
        })
    }

    /// Returns the values of a line. Separators in a text are part of it: the fields before it are
    /// counted from the left, the fields after it from the right.
    pub(super) fn split<'a>(&self, line: &'a str) -> Result<Vec<&'a str>, String> {
        let mut values: Vec<&str> = line.split('|').collect();
        let wrong = format!("{} fields, expected {}", values.len(), self.count);
        let Some(more) = values.len().checked_sub(self.count) else { return Err(wrong) };
        if more == 0 {
            return Ok(values);
        }
        let Some((first, last)) = self.texts else { return Err(wrong) };
        let needed = [self.id, self.submit, self.start, self.end, self.limit, self.nodes];
        let optional = [self.state, self.cpus, self.cluster].into_iter().flatten();
        let optional = optional.chain(self.memory.iter().copied());
        if needed.into_iter().chain(optional).any(|place| (first..last).contains(&place)) {
            return Err(format!(
                "{wrong}: which of its texts has a | is not certain; ask for JobName last"
            ));
        }
        // The texts themselves are not used.
        values.drain(last + 1..=last + more);
        Ok(values)
    }

    /// Returns true if a line has all its fields.
    pub(super) fn is_whole(&self, line: &str) -> bool {
        line.split('|').nth(self.count - 1).is_some()
    }

    /// Returns true if an incomplete line may continue in the next one.
    pub(super) fn may_go_on(&self) -> bool {
        self.texts.is_some()
    }

    /// Returns true if the last field is a text, which may have line breaks.
    pub(super) fn ends_in_text(&self) -> bool {
        self.texts.is_some_and(|(_, last)| last + 1 == self.count)
    }

    /// Returns true if a line looks like the beginning of a job or a step rather than a piece of a
    /// text.
    pub(super) fn begins(&self, line: &str) -> bool {
        match self.texts {
            Some((first, _)) if self.id > first => self.is_whole(line),
            _ => line.split('|').nth(self.id).is_some_and(|id| line.contains('|') && is_id(id)),
        }
    }
}

/// Returns true for text like `7`, `7_3`, `7_[1-5%2]`, `7+1` and `7.batch`.
fn is_id(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_+.[]%,:-".contains(&byte);
    text.bytes().next().is_some_and(|byte| byte.is_ascii_digit()) && text.bytes().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_texts_shift_no_fields() {
        let fields =
            Fields::find("JobID|JobName|Submit|Start|End|TimelimitRaw|NNodes|State").unwrap();
        let values = fields.split("7|a|b||c|S|T|E|5|2|COMPLETED").unwrap();
        assert_eq!((values[0], values[2], values[6], values[7]), ("7", "S", "2", "COMPLETED"));
        let fields =
            Fields::find("JobName|JobID|Submit|Start|End|TimelimitRaw|NNodes|Comment").unwrap();
        assert_eq!(fields.split("n|7|S|T|E|5|2|").unwrap()[1], "7");
        let error = fields.split("n|m|7|S|T|E|5|2|").unwrap_err();
        assert!(error.starts_with("9 fields, expected 8: which of its texts"), "{error}");
        let fields = Fields::find("JobID|Submit|Start|End|TimelimitRaw|NNodes").unwrap();
        assert_eq!(fields.split("7|S|T|E|5|2|x").unwrap_err(), "7 fields, expected 6");
    }

    #[test]
    fn begin_of_a_job_is_no_piece_of_a_name() {
        let fields =
            Fields::find("JobID|JobName|Submit|Start|End|TimelimitRaw|NNodes|State").unwrap();
        for line in ["7|a", "7_[1-5%2]|a", "7+1|a", "7.batch|a"] {
            assert!(fields.begins(line), "{line}");
        }
        for line in ["", "7", "name|a", "-7|a", "7 days|a"] {
            assert!(!fields.begins(line), "{line}");
        }
    }
}
