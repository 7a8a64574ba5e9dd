//! Several nodes on one host: ranks whose segments lie in different folders cannot reach each
//! other's memory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use tempfile::TempDir;

/// Folders that act as nodes, and a program that runs on the node of its rank.
#[derive(Debug)]
pub struct Nodes {
    segments: TempDir,
    programs: TempDir,
    count: usize,
}

impl Nodes {
    /// Creates nodes for jobs of `program` with `each` consecutive ranks on each node.
    ///
    /// # Errors
    /// A folder or the program cannot be created.
    pub fn new(count: usize, each: usize, program: &Path) -> Result<Self> {
        let segments = tempfile::Builder::new().prefix("quo-nodes-").tempdir_in("/dev/shm")?;
        for node in 0..count {
            fs::DirBuilder::new().mode(0o700).create(segments.path().join(node.to_string()))?;
        }
        let nodes = Self { segments, programs: tempfile::tempdir()?, count };
        let text = format!(
            "#!/bin/sh\nrank=${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-$PMIX_RANK}}}}\n\
             export QUO_TMPDIR='{}'/$((rank / {each}))\nexec '{}' \"$@\"\n",
            nodes.segments.path().display(),
            program.display()
        );
        let script = nodes.program();
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700))?;
        Ok(nodes)
    }

    /// Returns the program that the launcher starts.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.programs.path().join("on-its-node")
    }

    /// Checks that no node has a segment left.
    ///
    /// # Errors
    /// A segment is left, or a folder cannot be read.
    pub fn expect_clean(&self) -> Result<()> {
        for node in 0..self.count {
            let left = fs::read_dir(self.segments.path().join(node.to_string()))?;
            // The description of the machine stays for later processes.
            let stays = |name: &OsStr| name.to_string_lossy().starts_with("quo-machine-");
            let left = left.flatten().filter(|entry| !stays(&entry.file_name())).count();
            ensure!(left == 0, "node {node} has {left} segments left");
        }
        Ok(())
    }
}
