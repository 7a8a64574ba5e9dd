//! Checks that `deny.toml` allows the licences, crates and sources of the dependencies.
//!
//! Crates and sources are read from the lock file, for all platforms; licences of this platform's
//! crates from cargo.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::{project, run};

/// File of what is allowed, below the checkout.
const FILE: &str = "deny.toml";

#[derive(Debug, Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
}

/// Returns the dependencies that are not allowed.
pub fn wrong(root: &Path) -> Result<Vec<String>> {
    let read = |name: &str| fs::read_to_string(root.join(name)).with_context(|| name.to_owned());
    let deny: Deny = toml::from_str(&read(FILE)?).context(FILE)?;
    let lock: Lock = toml::from_str(&read("Cargo.lock")?).context("Cargo.lock")?;
    let mut cargo = project::cargo()?;
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform]);
    let metadata: Value = serde_json::from_str(&run::captured(&mut cargo)?)?;
    let mut wrong = of_lock(&deny, &lock);
    wrong.extend(of_licenses(&deny, &metadata));
    Ok(wrong)
}

fn of_lock(deny: &Deny, lock: &Lock) -> Vec<String> {
    let mut wrong = Vec::new();
    for Locked { name, version, source } in &lock.package {
        if let Some(ban) = deny.bans.deny.iter().find(|ban| ban.name == *name) {
            wrong.push(format!("{name} {version} is banned by {FILE}: {}", ban.reason));
        }
        // A package without a source belongs to the workspace.
        let Some(source) = source else { continue };
        let registry = source.strip_prefix("registry+");
        if !registry.is_some_and(|registry| deny.sources.allow_registry.contains(registry)) {
            wrong
                .push(format!("{name} {version} comes from {source}, which {FILE} does not allow"));
        }
    }
    wrong
}

fn of_licenses(deny: &Deny, metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let others = packages.filter(|package| !package["source"].is_null());
    let wrong = others.filter_map(|package| {
        let (name, license) = (package["name"].as_str()?, package["license"].as_str());
        let is_allowed = license.is_some_and(|text| allows(&deny.licenses.allow, text));
        let license = license.unwrap_or("none");
        (!is_allowed).then(|| format!("{name}: its licence, {license}, is not in {FILE}"))
    });
    wrong.collect()
}

/// Returns true if an expression such as `(MIT OR Apache-2.0) AND Zlib` is satisfied by allowed
/// licences.
fn allows(allowed: &BTreeSet<String>, expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    either(allowed, &mut rest) && rest.is_empty()
}

fn either(allowed: &BTreeSet<String>, rest: &mut &[&str]) -> bool {
    let mut holds = both(allowed, rest);
    while let Some(after) = rest.strip_prefix(&["OR"]) {
        *rest = after;
        holds |= both(allowed, rest);
    }
    holds
}

fn both(allowed: &BTreeSet<String>, rest: &mut &[&str]) -> bool {
    let mut holds = one(allowed, rest);
    while let Some(after) = rest.strip_prefix(&["AND"]) {
        *rest = after;
        holds &= one(allowed, rest);
    }
    holds
}

fn one(allowed: &BTreeSet<String>, rest: &mut &[&str]) -> bool {
    let Some((&word, after)) = rest.split_first() else { return false };
    *rest = after;
    if word == "(" {
        let holds = either(allowed, rest);
        let Some(after) = rest.strip_prefix(&[")"]) else { return false };
        *rest = after;
        return holds;
    }
    let mut name = word.to_owned();
    if let [with @ "WITH", exception, after @ ..] = *rest {
        name = format!("{name} {with} {exception}");
        *rest = after;
    }
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deny() -> Deny {
        let text = r#"
            [licenses]
            allow = ["MIT", "Zlib"]
            [bans]
            deny = [{ name = "bad", reason = "it crashes" }]
            [sources]
            allow-registry = ["https://index"]
        "#;
        toml::from_str(text).unwrap()
    }

    #[test]
    fn expressions_of_licences_are_read_as_they_are_meant() {
        let allowed = deny().licenses.allow;
        for (text, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(GPL-3.0 OR MIT) AND Zlib", true),
            ("GPL-3.0 OR MIT AND Zlib", true),
            ("MIT OR Zlib AND GPL-3.0", true),
            ("(MIT OR Zlib) AND GPL-3.0", false),
            ("MIT WITH some-exception", false),
            ("GPL-3.0 WITH x OR Zlib", true),
            ("", false),
            ("(MIT", false),
            ("MIT Zlib", false),
        ] {
            assert_eq!(allows(&allowed, text), expected, "{text}");
        }
    }

    #[test]
    fn banned_crates_and_other_sources_are_named() {
        let lock = r#"
            [[package]]
            name = "ours"
            version = "0.1.0"
            [[package]]
            name = "bad"
            version = "1.0.0"
            source = "registry+https://index"
            [[package]]
            name = "elsewhere"
            version = "2.0.0"
            source = "git+https://somewhere"
        "#;
        let wrong = of_lock(&deny(), &toml::from_str(lock).unwrap());
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("bad 1.0.0 is banned") && wrong[0].ends_with("it crashes"));
        assert!(wrong[1].contains("elsewhere 2.0.0 comes from git+https://somewhere"));
    }

    #[test]
    fn licence_that_is_missing_or_not_allowed_is_named() {
        let metadata = serde_json::json!({"packages": [
            {"name": "ours", "source": null, "license": "Own"},
            {"name": "good", "source": "x", "license": "MIT OR Own"},
            {"name": "bare", "source": "x", "license": null},
            {"name": "own", "source": "x", "license": "Own"},
        ]});
        let wrong = of_licenses(&deny(), &metadata);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("bare: its licence, none,"));
        assert!(wrong[1].starts_with("own: its licence, Own,"));
    }
}
