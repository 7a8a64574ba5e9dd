//! The shape of a machine, from a small file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// More CPUs would only be slower.
const MOST_CPUS: usize = 64;

/// Packages, cores, threads and NUMA nodes of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Number of packages, also called sockets.
    pub packages: usize,
    /// Cores per package.
    pub cores: usize,
    /// Hardware threads per core.
    #[serde(default = "one")]
    pub threads: usize,
    /// NUMA nodes; every CPU is in one.
    pub numa: Vec<Numa>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numa {
    /// CPUs as a list such as `0-3,8`; empty for a node without CPUs. The threads of a core are
    /// adjacent in this numbering, and so are the cores of a package.
    pub cpus: String,
    /// Memory in MiB.
    #[serde(default = "a_gibibyte")]
    pub memory: usize,
    /// Distances from this node to all nodes: 10 to itself, more to the others. Given by all nodes
    /// or by none.
    #[serde(default)]
    pub distances: Vec<u8>,
}

fn one() -> usize {
    1
}

fn a_gibibyte() -> usize {
    1024
}

impl Shape {
    /// Reads the shape of this name from the checkout's folder of shapes, or the file of this name.
    ///
    /// # Errors
    ///
    /// There is no such file, or it is invalid; the error names the field.
    pub fn named(name: &str) -> Result<Shape> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shapes");
        if name.contains('/') || name.ends_with(".toml") {
            return Shape::read(Path::new(name));
        }
        let file = folder.join(name).with_extension("toml");
        if !file.exists() {
            bail!(
                "there is no shape `{name}`: give the path of a file, or one of {}",
                names(&folder)?.join(", ")
            );
        }
        Shape::read(&file)
    }

    fn read(file: &Path) -> Result<Shape> {
        let place = || format!("the shape {}", file.display());
        let text = fs::read_to_string(file).with_context(place)?;
        Shape::parse(&text).with_context(place)
    }

    /// Parses the description of a shape.
    ///
    /// # Errors
    ///
    /// The text is not a description, or describes an impossible machine; the error names the
    /// field.
    pub fn parse(text: &str) -> Result<Shape> {
        let shape: Shape = toml::from_str(text)?;
        shape.check()?;
        Ok(shape)
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.packages.saturating_mul(self.cores).saturating_mul(self.threads)
    }

    /// Returns the total memory in MiB.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.numa.iter().fold(0, |sum, numa| sum.saturating_add(numa.memory))
    }

    fn check(&self) -> Result<()> {
        for (name, value) in
            [("packages", self.packages), ("cores", self.cores), ("threads", self.threads)]
        {
            ensure!(value > 0, "`{name}` is 0, at least 1 is needed");
        }
        let cpus = self.cpus();
        ensure!(cpus <= MOST_CPUS, "{cpus} CPUs, at most {MOST_CPUS} are emulated");
        ensure!(!self.numa.is_empty(), "no [[numa]]: at least one NUMA node is needed");
        let mut node_of = vec![None; cpus];
        for (node, numa) in self.numa.iter().enumerate() {
            let place = || format!("NUMA node {node}");
            ensure!(numa.memory >= 64, "{}: `memory` is less than 64 MiB", place());
            for cpu in numbers(&numa.cpus).with_context(place)? {
                let Some(entry) = node_of.get_mut(cpu) else {
                    bail!("{}: there is no CPU {cpu}, the last is {}", place(), cpus - 1);
                };
                if let Some(other) = entry.replace(node) {
                    bail!("{}: CPU {cpu} is in NUMA node {other} too", place());
                }
            }
        }
        if let Some(cpu) = node_of.iter().position(Option::is_none) {
            bail!("CPU {cpu} is in no NUMA node");
        }
        self.check_distances()
    }

    fn check_distances(&self) -> Result<()> {
        let given = self.numa.iter().filter(|numa| !numa.distances.is_empty()).count();
        if given == 0 {
            return Ok(());
        }
        let count = self.numa.len();
        for (node, numa) in self.numa.iter().enumerate() {
            let far = &numa.distances;
            ensure!(
                far.len() == count,
                "NUMA node {node}: `distances` has {} numbers for {count} nodes",
                far.len()
            );
            for (other, &distance) in far.iter().enumerate() {
                let good = if other == node { distance == 10 } else { distance > 10 };
                ensure!(
                    good,
                    "NUMA node {node}: `distances` gives {distance} for node {other}; \
                     it is 10 to itself and more to others"
                );
            }
        }
        Ok(())
    }
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the numbers of a list such as `0-3,8`.
pub(crate) fn numbers(list: &str) -> Result<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            text.trim().parse::<usize>().with_context(|| format!("`cpus` has `{part}`"))
        };
        let (first, last) = (number(first)?, number(last)?);
        ensure!(first <= last, "`cpus` has `{part}`, whose end is before its beginning");
        ensure!(last < MOST_CPUS, "`cpus` has `{part}`, at most {MOST_CPUS} CPUs are emulated");
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        format!("{:#}", Shape::parse(text).unwrap_err())
    }

    #[test]
    fn threads_memory_and_distances_may_be_left_out() {
        let shape = Shape::parse("packages = 1\ncores = 2\n[[numa]]\ncpus = \"0-1\"").unwrap();
        assert_eq!((shape.cpus(), shape.memory()), (2, 1024));
        assert!(shape.numa[0].distances.is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let head = "packages = 1\ncores = 2\n";
        for (text, words) in [
            ("cores = 2", "packages"),
            ("packages = 0\ncores = 2\n[[numa]]\ncpus = \"0\"", "`packages` is 0"),
            ("packages = 9\ncores = 9\n[[numa]]\ncpus = \"0\"", "81 CPUs"),
            (&format!("{head}speed = 3\n[[numa]]\ncpus = \"0-1\""), "speed"),
            (&format!("{head}numa = []"), "at least one NUMA node"),
            (&format!("{head}[[numa]]\ncpus = \"0\""), "CPU 1 is in no NUMA node"),
            (&format!("{head}[[numa]]\ncpus = \"0-2\""), "no CPU 2"),
            (&format!("{head}[[numa]]\ncpus = \"0-1\"\n[[numa]]\ncpus = \"1\""), "node 0 too"),
            (&format!("{head}[[numa]]\ncpus = \"1-0\""), "1-0"),
            (&format!("{head}[[numa]]\ncpus = \"0-x\""), "0-x"),
            (&format!("{head}[[numa]]\ncpus = \"0-1\"\nmemory = 1"), "64 MiB"),
            (&format!("{head}[[numa]]\ncpus = \"0-1\"\ndistances = [20]"), "gives 20"),
            (&format!("{head}[[numa]]\ncpus = \"0-1\"\ndistances = [10, 20]"), "2 numbers"),
        ] {
            let said = complaint(text);
            assert!(said.contains(words), "`{words}` is not in `{said}`");
        }
    }

    #[test]
    fn every_shape_of_the_checkout_can_be() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shapes");
        let names = names(&folder).unwrap();
        assert!(names.contains(&"two-packages".to_owned()));
        for name in names {
            Shape::named(&name).unwrap();
        }
    }

    #[test]
    fn an_unknown_shape_is_answered_with_the_known_ones() {
        let said = Shape::named("three-packages").unwrap_err().to_string();
        assert!(said.contains("three-packages") && said.contains("two-packages"), "{said}");
    }
}
