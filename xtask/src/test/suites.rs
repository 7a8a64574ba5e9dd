//! Test programs of the workspace. They are built together and run one by one, so that each has its
//! own line, time and limit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{project, run};

/// One test program.
pub struct Suite {
    /// Name as shown and filtered: the package, then its tested part.
    pub name: String,
    /// Folder of the package, in which its tests expect to run.
    pub folder: PathBuf,
    manifest: String,
    target: String,
    kind: String,
}

/// Returns every test program that the workspace defines, without building anything.
pub fn known() -> Result<Vec<Suite>> {
    let mut cargo = project::cargo()?;
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    parse_metadata(&run::captured(&mut cargo)?)
}

fn parse_metadata(json: &str) -> Result<Vec<Suite>> {
    let metadata: Value = serde_json::from_str(json).context("reading cargo metadata")?;
    let mut suites = Vec::new();
    for package in elements(&metadata, "packages") {
        let manifest = text(package, "manifest_path");
        let folder = Path::new(manifest).parent().unwrap_or(Path::new(".")).to_path_buf();
        for target in elements(package, "targets").filter(|target| target["test"] == true) {
            let kind = elements(target, "kind").next().and_then(Value::as_str).unwrap_or_default();
            let part = match kind {
                "bin" => format!("program {}", text(target, "name")),
                "test" => text(target, "name").to_owned(),
                "example" | "bench" | "custom-build" => continue,
                _ => "library".to_owned(),
            };
            suites.push(Suite {
                name: format!("{} {part}", text(package, "name")),
                folder: folder.clone(),
                manifest: manifest.to_owned(),
                target: text(target, "name").to_owned(),
                kind: kind.to_owned(),
            });
        }
    }
    Ok(suites)
}

impl Suite {
    /// Returns the package of the test program.
    pub fn package(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    /// Returns the path of the program, from cargo's messages of the build.
    pub fn executable(&self, build_log: &str) -> Option<PathBuf> {
        build_log.lines().filter(|line| line.starts_with('{')).find_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            let target = &message["target"];
            let ours = text(&message, "manifest_path") == self.manifest
                && text(target, "name") == self.target
                && elements(target, "kind").any(|kind| kind == self.kind.as_str())
                && message["profile"]["test"] == true;
            ours.then(|| PathBuf::from(text(&message, "executable")))
        })
    }

    /// Returns a call of the program, set up as cargo would.
    pub fn command(&self, executable: &Path) -> Command {
        let mut command = Command::new(executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        // Backtraces of panics, but not of errors: those would bury the error's text.
        command.env("RUST_BACKTRACE", "1").env("RUST_LIB_BACKTRACE", "0");
        // Tests report what they are missing.
        command.arg("--show-output");
        command
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn elements<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"packages": [{"name": "quo", "manifest_path": "/x/quo/Cargo.toml",
        "targets": [
            {"name": "quo", "kind": ["lib"], "test": true},
            {"name": "quo-info", "kind": ["bin"], "test": true},
            {"name": "properties", "kind": ["test"], "test": true},
            {"name": "barrier", "kind": ["bench"], "test": false},
            {"name": "build-script-build", "kind": ["custom-build"], "test": false}]}]}"#;

    #[test]
    fn libraries_programs_and_test_files_are_suites() {
        let suites = parse_metadata(METADATA).unwrap();
        let names: Vec<&str> = suites.iter().map(|suite| suite.name.as_str()).collect();
        assert_eq!(names, ["quo library", "quo program quo-info", "quo properties"]);
        assert_eq!(suites[0].folder, Path::new("/x/quo"));
    }

    #[test]
    fn the_program_is_the_one_built_for_testing() {
        let suites = parse_metadata(METADATA).unwrap();
        let line = |test: bool, file: &str| {
            format!(
                r#"{{"reason": "compiler-artifact", "manifest_path": "/x/quo/Cargo.toml",
                "target": {{"name": "quo-info", "kind": ["bin"]}},
                "profile": {{"test": {test}}}, "executable": "{file}"}}"#
            )
            .replace('\n', "")
        };
        let log = format!("warning: unused\n{}\n{}\n", line(false, "/x/plain"), line(true, "/x/t"));
        assert_eq!(suites[1].executable(&log), Some(PathBuf::from("/x/t")));
        assert_eq!(suites[0].executable(&log), None);
    }
}
