//! A deck as Fortran namelists, which `examples/coupled/fortran/coupled_deck.f90` reads.

use std::fmt::Write;

use anyhow::{Context, Result};
use coupled::deck::Deck;
use serde_json::Value;

/// Every value of the deck, numbers with all their digits: a group for each section, a line for each value.
///
/// # Errors
/// If a value has no form as text.
pub fn text(deck: &Deck) -> Result<String> {
    let deck = serde_json::to_value(deck).context("taking the deck apart")?;
    let mut text = String::new();
    for (section, values) in deck.as_object().into_iter().flatten() {
        writeln!(text, "&{section}_part")?;
        for (key, value) in values.as_object().into_iter().flatten() {
            match value {
                // The reader's default: as if there were none.
                Value::Null => {}
                Value::String(word) => writeln!(text, "{key} = '{word}'")?,
                Value::Object(parts) => {
                    for (part, value) in parts {
                        writeln!(text, "{key}%{part} = {value}")?;
                    }
                }
                value => writeln!(text, "{key} = {value}")?,
            }
        }
        writeln!(text, "/")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_are_written_with_all_digits() {
        let small = include_str!("../../../examples/coupled/decks/small.toml");
        let third = small.replace("kappa = 20.0", &format!("kappa = {:?}", 1.0 / 3.0));
        let text = text(&Deck::parse(&third).unwrap()).unwrap();
        for line in ["kappa = 0.3333333333333333", "tolerance = 1e-10", "shape = 'dam'"] {
            assert!(text.lines().any(|of_it| of_it == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("over = 'machine'") && text.contains("warm%radius = "), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with('&')).count(), 6);
    }
}
