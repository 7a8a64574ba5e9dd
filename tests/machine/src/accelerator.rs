//! True if KVM serves here. A device that can be opened is no proof: inside virtual machines it may
//! refuse CPUs or let them stand still, so a machine that does not come up counts too.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::arguments::Engine;

const DEVICE: &str = "/dev/kvm";

/// Names an accelerator for runs that do not choose one.
const VARIABLE: &str = "QUO_MACHINE_ACCELERATOR";

/// The way in which CPUs are emulated.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// By KVM where that works, by translation elsewhere.
    #[default]
    Automatic,
    /// By KVM or not at all.
    Kvm,
    /// By translation: needs nothing, and is ten times slower or more.
    Tcg,
}

impl std::str::FromStr for Accelerator {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Accelerator> {
        match text {
            "auto" => Ok(Accelerator::Automatic),
            "kvm" => Ok(Accelerator::Kvm),
            "tcg" => Ok(Accelerator::Tcg),
            _ => bail!("there is no accelerator `{text}`: auto, kvm or tcg"),
        }
    }
}

impl Accelerator {
    /// Returns the choice of the variable `QUO_MACHINE_ACCELERATOR`.
    ///
    /// # Errors
    ///
    /// It names none.
    pub fn from_environment() -> Result<Accelerator> {
        match std::env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse(),
            _ => Ok(Accelerator::Automatic),
        }
    }

    /// Returns the engines to try, in this order. On a busy host a start by translation can hang: the emulated CPUs
    /// wait for each other by the clock of a host that does not run them. Once more is enough.
    pub(crate) fn engines(self, cache: &Path) -> &'static [Engine] {
        match self {
            Accelerator::Kvm => &[Engine::Kvm],
            Accelerator::Automatic if opens() && !verdict(cache).exists() => {
                &[Engine::Kvm, Engine::Tcg, Engine::Tcg]
            }
            Accelerator::Automatic | Accelerator::Tcg => &[Engine::Tcg, Engine::Tcg],
        }
    }
}

fn opens() -> bool {
    fs::File::options().read(true).write(true).open(DEVICE).is_ok()
}

/// Notes that KVM did not bring a machine up, so that the next one need not try. The note holds until
/// the host is started again.
pub(crate) fn remember_failure(cache: &Path) {
    let _tried_again_next_time = fs::write(verdict(cache), "");
}

fn verdict(cache: &Path) -> PathBuf {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    cache.join(format!("kvm-failed-{}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accelerator_that_failed_is_not_tried_again() {
        let cache = tempfile::tempdir().unwrap();
        remember_failure(cache.path());
        assert!(!Accelerator::Automatic.engines(cache.path()).contains(&Engine::Kvm));
        assert_eq!(Accelerator::Kvm.engines(cache.path()), [Engine::Kvm]);
    }

    #[test]
    fn unknown_names_are_refused() {
        assert_eq!("tcg".parse::<Accelerator>().unwrap(), Accelerator::Tcg);
        assert!("xen".parse::<Accelerator>().unwrap_err().to_string().contains("xen"));
    }
}
