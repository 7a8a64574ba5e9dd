//! Files in which `@NAME@` stands for a value.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Values of the names.
pub struct Values(BTreeMap<&'static str, String>);

impl Values {
    pub fn new<const COUNT: usize>(values: [(&'static str, String); COUNT]) -> Values {
        Values(values.into_iter().collect())
    }
}

/// Returns the text of a file with all names replaced.
pub fn filled(file: &Path, values: &Values) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    fill(&text, values).with_context(|| format!("filling {}", file.display()))
}

fn fill(text: &str, values: &Values) -> Result<String> {
    let mut filled = String::new();
    for (index, part) in text.split('@').enumerate() {
        // Parts with odd numbers lie between two signs.
        if index % 2 == 0 {
            filled += part;
        } else {
            let value =
                values.0.get(part).with_context(|| format!("@{part}@ stands for nothing"))?;
            filled += value;
        }
    }
    if text.matches('@').count() % 2 == 1 {
        bail!("a single @");
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_replaced_or_refused() {
        let values = Values::new([("A", "1".to_owned()), ("B", String::new())]);
        assert_eq!(fill("x @A@@A@ @B@.\n", &values).unwrap(), "x 11 .\n");
        assert!(fill("@C@", &values).unwrap_err().to_string().contains("@C@"));
        assert!(fill("a@b", &values).is_err());
    }
}
