//! Checks whether KVM works here. A device that can be opened is no proof: inside virtual machines
//! KVM may refuse CPUs or let them hang, so a machine that does not start counts too.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::arguments::Engine;

const DEVICE: &str = "/dev/kvm";

/// Variable that selects an accelerator for runs that do not.
const VARIABLE: &str = "QUO_MACHINE_ACCELERATOR";

/// How CPUs are emulated.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// By KVM where that works, otherwise by translation.
    #[default]
    Automatic,
    /// By KVM only.
    Kvm,
    /// By translation, which needs nothing and is at least ten times slower.
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
    /// The variable has another value.
    pub fn from_environment() -> Result<Accelerator> {
        match std::env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse(),
            _ => Ok(Accelerator::Automatic),
        }
    }

    /// Returns the engines to try, in order. On a busy host a start by translation can hang: the
    /// emulated CPUs wait for each other by the clock of a host that does not schedule them. One
    /// more attempt suffices.
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

/// Records that KVM did not start a machine, so that the next machine does not try it. The record
/// is valid until the host reboots.
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
