//! Installations that suites create.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

use crate::Checkout;

/// A prefix that `cargo xtask install` filled.
#[derive(Clone, Debug)]
pub struct Installation {
    prefix: PathBuf,
}

impl Installation {
    /// Returns the installation at a prefix.
    #[must_use]
    pub fn at(prefix: &Path) -> Installation {
        Installation { prefix: prefix.to_path_buf() }
    }

    /// Returns the installation shared by all tests of a program, created by the first caller.
    /// `folder` is Cargo's for the program's temporary files.
    ///
    /// # Errors
    ///
    /// The installation cannot be created; every test gets the reason.
    pub fn shared(folder: &str, name: &str) -> Result<Installation> {
        static MADE: OnceLock<Result<Installation, String>> = OnceLock::new();
        let made = MADE.get_or_init(|| {
            let prefix = Path::new(folder).join(name);
            // The first installation must not use what an earlier run left.
            let _absent = std::fs::remove_dir_all(&prefix);
            match Installation::xtask("install", &prefix, &[]) {
                Ok(output) if output.status.success() => Ok(Installation { prefix }),
                Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
                Err(error) => Err(format!("{error:#}")),
            }
        });
        match made {
            Ok(installation) => Ok(installation.clone()),
            Err(complaint) => bail!("{complaint}"),
        }
    }

    /// Returns options of `xtask install` that avoid an optimised build where none is wanted.
    ///
    /// # Errors
    ///
    /// The checkout is not built.
    pub fn options(checkout: &Checkout) -> Result<Vec<OsString>> {
        if Installation::is_optimised() {
            return Ok(Vec::new());
        }
        let program = checkout.program("memprof")?;
        let folder = program.parent().context("memprof has no folder")?;
        Ok(vec!["--built".into(), folder.into()])
    }

    /// Returns true if installations are optimised builds, as users have them.
    #[must_use]
    pub fn is_optimised() -> bool {
        let wanted = ["QUO_TESTS_LONG", "QUO_TESTS_RELEASE"];
        wanted.into_iter().any(|name| std::env::var_os(name).is_some())
    }

    /// Runs `xtask install` or `xtask uninstall` with further options. The installed build is the
    /// build under test; with `QUO_TESTS_LONG` or `QUO_TESTS_RELEASE` an optimised one.
    ///
    /// # Errors
    ///
    /// xtask is not built or cannot be started.
    pub fn xtask(command: &str, prefix: &Path, options: &[&str]) -> Result<Output> {
        let checkout = Checkout::find()?;
        let mut call = Command::new(checkout.program("xtask")?);
        call.arg(command).arg("--prefix").arg(prefix).args(options);
        if command == "install" {
            call.args(Installation::options(&checkout)?);
        }
        call.output().context("starting xtask")
    }

    /// Returns the prefix.
    #[must_use]
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns a path below the prefix.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.prefix.join(name)
    }

    /// Returns true if libquo has its Fortran part: some MPIs have no modules for gfortran.
    #[must_use]
    pub fn has_fortran(&self) -> bool {
        self.path("include/quo/fortran/quo.mod").exists()
    }

    /// Returns the answer of pkg-config about a package.
    ///
    /// # Errors
    ///
    /// pkg-config does not know the package, or cannot be started.
    pub fn pkg_config(&self, package: &str, arguments: &[&str]) -> Result<Vec<String>> {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg(package);
        command.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig"));
        let output = command.output().context("starting pkg-config")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.split_whitespace().map(String::from).collect())
    }

    /// Returns the linker option by which a program finds the library in the prefix.
    #[must_use]
    pub fn run_path(&self) -> String {
        // DT_RPATH: DT_RUNPATH yields to LD_LIBRARY_PATH.
        format!("-Wl,--disable-new-dtags,-rpath,{}", self.path("lib").display())
    }
}
