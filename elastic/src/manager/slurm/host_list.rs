//! Lists of hosts as Slurm writes them: `n[1-3,07-09],front`. Pure.

/// More nodes than any job has; a list with more is an error.
const MOST_NODES: usize = 65_536;

/// Expands a list of hosts, such as `n[1-3,07-09],front`, into its names, in order.
///
/// # Errors
/// Describes the error in the list.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let wrong = |what: &str| format!("the list of hosts {:?} {what}", shortened(list));
    let mut names = Vec::new();
    for item in items(list).ok_or_else(|| wrong("has brackets that do not match"))? {
        let mut found = vec![String::new()];
        let mut rest = item;
        while let Some((plain, tail)) = rest.split_once('[') {
            let (ranges, tail) =
                tail.split_once(']').ok_or_else(|| wrong("has brackets that do not match"))?;
            let numbers = numbers(ranges).ok_or_else(|| wrong("has a range that is none"))?;
            if names.len() + found.len() * numbers.len() > MOST_NODES {
                return Err(wrong("has too many names"));
            }
            let longer = |name: &String| {
                let start = format!("{name}{plain}");
                numbers.iter().map(|number| format!("{start}{number}")).collect::<Vec<_>>()
            };
            found = found.iter().flat_map(longer).collect();
            rest = tail;
        }
        found.iter_mut().for_each(|name| name.push_str(rest));
        names.extend(found);
        if names.len() > MOST_NODES {
            return Err(wrong("has too many names"));
        }
    }
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(wrong(&format!("has {name:?}, which is no name"))),
        None => Ok(names),
    }
}

/// Splits at the commas outside brackets.
fn items(list: &str) -> Option<Vec<&str>> {
    let (mut items, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if is_inside => return None,
            b']' if !is_inside => return None,
            b'[' | b']' => is_inside = !is_inside,
            b',' if !is_inside => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    (!is_inside).then_some(items)
}

/// Expands `1-3,07` to 1, 2, 3, 07. A range has the width of its first number.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(first) || !is_number(last) || first.len() > 18 {
            return None;
        }
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if from > to || (to - from) as usize >= MOST_NODES - numbers.len().min(MOST_NODES) {
            return None;
        }
        let width = first.len();
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}

/// Returns true if the text may be handed to a command as the name of a node.
pub(super) fn is_name(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= 255 && !name.starts_with('-') && name.bytes().all(is_fine)
}

/// Returns the beginning of a text of any length.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_read_as_slurm_writes_them() {
        for (list, names) in [
            ("front", &["front"][..]),
            ("n[1-3,7]", &["n1", "n2", "n3", "n7"]),
            ("n[08-10],a-b.c", &["n08", "n09", "n10", "a-b.c"]),
            ("r[1-2]n[0,2]x", &["r1n0x", "r1n2x", "r2n0x", "r2n2x"]),
        ] {
            assert_eq!(expand(list).unwrap(), names, "{list}");
        }
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for list in [
            "",
            ",",
            "n[",
            "n]",
            "n[]",
            "n[1",
            "n[2-1]",
            "n[a]",
            "n[1-]",
            "n[[1]]",
            "n[1-99999999]",
            "n[1-999][1-999]",
            "n[99999999999999999999]",
            "(null)",
            "None assigned",
            "a b",
            "-x",
            "a,-rf",
            "n$(reboot)",
            "n;x",
        ] {
            assert!(expand(list).is_err(), "{list}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_names_or_an_error(list in "[a-c0-9\\[\\],. -]{0,40}|\\PC{0,40}") {
            if let Ok(names) = expand(&list) {
                prop_assert!(names.iter().all(|name| is_name(name)));
            }
        }

        #[test]
        fn names_without_brackets_are_themselves(names in proptest::collection::vec("[a-z][a-z0-9-]{0,8}", 1..6)) {
            prop_assert_eq!(expand(&names.join(",")).unwrap(), names);
        }
    }
}
