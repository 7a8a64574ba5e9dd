//! Floors: a crate, and each folder of many modules, names its modules in order, and a module uses only those before
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use serde::Deserialize;
use syn::visit::{self, Visit};

use crate::project;

/// File of the exceptions, from the root of the checkout.
const EXCEPTIONS: &str = "xtask/floors.toml";
/// Beginning of the list in the documentation of a crate or module.
const MARK: &str = "//! floors: ";
/// A folder with more modules than this has floors.
const MANY: usize = 12;

/// Modules that use one above them, by folder; each entry reads `user -> used`.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
struct Exceptions(BTreeMap<String, BTreeSet<String>>);

/// Returns uses of modules above the user in all folders that name their floors, folders of many
/// modules that name none, and outdated exceptions. `files` are those of the checkout, relative to
/// `root`.
pub fn wrong<'a>(root: &Path, files: impl Iterator<Item = &'a Path>) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(EXCEPTIONS)).context(EXCEPTIONS)?;
    let exceptions: Exceptions = toml::from_str(&text).context(EXCEPTIONS)?;
    let mut errors = Vec::new();
    for (name, allowed) in &exceptions.0 {
        let found = upward(&root.join(name)).with_context(|| format!("floors of {name}"))?;
        let known = |uses: &&String| !allowed.contains(*uses);
        errors.extend(found.keys().filter(known).map(|uses| {
            let files = found[uses].iter().cloned().collect::<Vec<_>>().join(", ");
            format!("{name}: {uses} goes up: {files}")
        }));
        let gone = allowed.iter().filter(|uses| !found.contains_key(*uses));
        errors.extend(gone.map(|uses| format!("{EXCEPTIONS}: {name}: {uses} is gone; delete it")));
    }
    for folder in folders_of_many(root, files) {
        if !exceptions.0.contains_key(&folder) {
            errors.push(format!("{folder}: more than {MANY} modules without floors: {EXCEPTIONS}"));
        }
    }
    Ok(errors)
}

/// Returns the folders with more than [`MANY`] modules and a file that names them.
fn folders_of_many<'a>(root: &Path, files: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let mut modules: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for file in files.filter(|file| root.join(file).exists()) {
        let is_rust = file.extension().is_some_and(|extension| extension == "rs");
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_root = matches!(&*stem, "mod" | "lib" | "main");
        if !is_rust || is_root || stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        if let Some(folder) = file.parent().filter(|folder| top(&root.join(folder)).is_some()) {
            modules.entry(folder.to_owned()).or_default().insert(stem);
        }
    }
    let many = modules.into_iter().filter(|(_, modules)| modules.len() > MANY);
    many.map(|(folder, _)| folder.display().to_string()).collect()
}

/// Returns the file that names the modules of a folder.
fn top(folder: &Path) -> Option<PathBuf> {
    let files = ["lib.rs", "main.rs", "mod.rs"].map(|name| folder.join(name));
    files.into_iter().find(|file| file.exists())
}

/// Returns the modules of the crate around a folder, outermost first, with the folder's own.
fn around(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folder = folder;
    while !["lib.rs", "main.rs"].iter().any(|name| folder.join(name).exists()) {
        let (Some(name), Some(above)) = (folder.file_name(), folder.parent()) else { break };
        names.insert(0, name.to_string_lossy().into_owned());
        folder = above;
    }
    names
}

/// Returns uses of a module above the user in a folder, as `user -> used`, with the files.
fn upward(sources: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let top = top(sources).context("no lib.rs, main.rs or mod.rs")?;
    let around = around(sources);
    let text = fs::read_to_string(top)?;
    let floors = order(&text).context("no line `//! floors: a < b < c` with all modules")?;
    let file = syn::parse_file(&text)?;
    let modules: BTreeSet<String> = file.items.iter().filter_map(module).collect();
    let listed: BTreeSet<String> = floors.iter().cloned().collect();
    if let Some(name) = modules.symmetric_difference(&listed).next() {
        bail!("`{name}` is not both a module and a floor");
    }
    let names = reexported(&file, &modules);
    let floor = |name: &str| floors.iter().position(|floor| floor == name);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources_below(sources)? {
        let inside = path.strip_prefix(sources)?;
        let place = place(inside);
        let Some(user) = place.first().filter(|user| modules.contains(*user)).cloned() else {
            continue;
        };
        let file = syn::parse_file(&fs::read_to_string(&path)?)
            .with_context(|| format!("{}", path.display()))?;
        let place = [&around[..], &place].concat();
        let mut uses = Uses { around: around.clone(), place, found: BTreeSet::new() };
        uses.visit_file(&file);
        for used in uses.found {
            let used = names.get(&used).unwrap_or(&used);
            if *used != user && floor(used) > floor(&user) {
                let uses = format!("{user} -> {used}");
                found.entry(uses).or_default().insert(inside.display().to_string());
            }
        }
    }
    Ok(found)
}

/// Returns the floors named in the documentation, lowest first. The list may span several lines.
fn order(text: &str) -> Option<Vec<String>> {
    let (_, rest) = text.split_once(MARK)?;
    let lines = rest.lines().enumerate().map_while(|(number, line)| match number {
        0 => Some(line),
        _ => line.strip_prefix("//!     "),
    });
    let list = lines.collect::<Vec<_>>().join(" ");
    Some(list.split('<').map(|name| name.trim().to_owned()).collect())
}

/// Returns the name of an item that is a module and not for tests.
fn module(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Mod(module) if !is_of_tests(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    }
}

/// Returns the names that the crate's root re-exports from its modules, with the module.
fn reexported(file: &syn::File, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in &file.items {
        let syn::Item::Use(item) = item else { continue };
        let mut paths = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut paths);
        for path in paths {
            let first = path.iter().find(|name| *name != "self" && *name != "crate");
            if let (Some(first), Some(last)) = (first, path.last())
                && modules.contains(first)
            {
                names.insert(last.clone(), first.clone());
            }
        }
    }
    names
}

/// Returns every Rust file below a folder that is not for tests.
fn sources_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = project::files_below(folder)?;
    files.retain(|file| {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let is_rust = file.extension().is_some_and(|extension| extension == "rs");
        is_rust && stem != "tests" && !stem.ends_with("_tests")
    });
    Ok(files)
}

/// Returns the modules that contain a file, outermost first.
fn place(file: &Path) -> Vec<String> {
    let parts = file.with_extension("");
    let mut parts: Vec<String> =
        parts.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    parts.pop_if(|last| matches!(&**last, "mod" | "lib" | "main"));
    parts
}

fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("test")
            || list.is_ok_and(|list| {
                list.path.is_ident("cfg")
                    && matches!(&*list.tokens.to_string(), "test" | "all (test , loom)")
            })
    })
}

/// Collects the modules of a folder that paths lead to.
struct Uses {
    /// Modules of the crate around those of the folder.
    around: Vec<String>,
    place: Vec<String>,
    found: BTreeSet<String>,
}

impl Uses {
    /// Records a path.
    fn note(&mut self, path: &[String]) {
        let mut place = match path.first().map(|name| &**name) {
            Some("crate") => Vec::new(),
            Some("super" | "self") => self.place.clone(),
            _ => return,
        };
        for name in path {
            match &**name {
                "super" => drop(place.pop()),
                "self" | "crate" => {}
                name => place.push(name.to_owned()),
            }
        }
        if let Some([name, ..]) = place.strip_prefix(&self.around[..]) {
            self.found.insert(name.clone());
        }
    }

    /// Records the paths in the arguments of macros.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.note(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_of_tests(&item.attrs) {
            let mut paths = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut paths);
            paths.iter().for_each(|path| self.note(path));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_of_tests(&item.attrs) {
            self.place.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.place.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

/// Collects all paths of a `use`.
fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, paths);
            before.pop();
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before, paths));
        }
        syn::UseTree::Name(name) => {
            paths.push(before.iter().cloned().chain([name.ident.to_string()]).collect());
        }
        syn::UseTree::Rename(name) => {
            paths.push(before.iter().cloned().chain([name.ident.to_string()]).collect());
        }
        syn::UseTree::Glob(_) => paths.push(before.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        folder
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        upward(crate_of(files).path()).unwrap().into_keys().collect()
    }

    const TOP: &str =
        "//! floors: low <\n//!     high\nmod low;\nmod high;\npub use high::Thing;\n";

    #[test]
    fn downward_uses_are_no_errors() {
        let high = "use crate::low::f;\nfn g() { super::low::f(); }\n";
        assert!(found(&[("lib.rs", TOP), ("low.rs", ""), ("high/mod.rs", high)]).is_empty());
    }

    #[test]
    fn upward_uses_are_found_however_they_are_written() {
        for low in [
            "use crate::high::f;",
            "use crate::{high::{self, f}};",
            "use super::high as h;",
            "fn f() { crate::high::g(); }",
            "fn f() { println!(\"{}\", crate::high::g()); }",
            "fn f(_: crate::Thing) {}",
            "mod inner { use super::super::high; }",
        ] {
            let found = found(&[("lib.rs", TOP), ("low.rs", low), ("high.rs", "")]);
            assert_eq!(found, ["low -> high"], "{low}");
        }
        let deep = ("low/deep.rs", "use super::super::high;");
        let found = found(&[("lib.rs", TOP), ("low/mod.rs", "mod deep;"), deep, ("high.rs", "")]);
        assert_eq!(found, ["low -> high"]);
    }

    #[test]
    fn uses_in_tests_are_no_errors() {
        let low = "#[cfg(test)]\nmod tests { use crate::high::f; }\n";
        let tests = ("low/tests.rs", "use crate::high::f;");
        assert!(found(&[("lib.rs", TOP), ("low/mod.rs", low), tests, ("high.rs", "")]).is_empty());
    }

    #[test]
    fn modules_without_a_floor_are_refused() {
        for top in [
            "mod low;\n",
            "//! floors: low\nmod low;\nmod other;\n",
            "//! floors: low < gone\nmod low;\n",
        ] {
            let folder = crate_of(&[("lib.rs", top), ("low.rs", "")]);
            assert!(upward(folder.path()).is_err(), "{top}");
        }
    }
}
