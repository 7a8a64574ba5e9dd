//! Decides how missing things are installed. Pure functions: facts in, plan out.

use super::needs::{Need, Packages};

/// Privileges of this user to install packages.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// The user is root.
    Root,
    /// `sudo` works without a password.
    SudoSilent,
    /// `sudo` may ask for a password, and there is a terminal to ask on.
    SudoAsking,
    /// The user has no such privilege.
    None,
}

/// Facts about the machine that the plan depends on.
#[derive(Copy, Clone, Debug)]
pub struct Machine {
    pub has_apt: bool,
    pub privilege: Privilege,
    /// Nobody else asks the user, such as sudo, and there is a terminal to ask on.
    pub asks: bool,
    /// Package lists exist and are recent.
    pub lists_are_fresh: bool,
}

/// How to get the missing things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Install these with apt, after this command prefix, and after an update of the lists if so
    /// marked.
    Install { packages: Vec<&'static str>, prefix: &'static [&'static str], update_first: bool },
    /// Tell the user how to install, as this program cannot.
    TellUser { cause: &'static str },
}

pub fn plan(missing: &[Need], machine: Machine) -> Plan {
    match means(machine) {
        Err(cause) => Plan::TellUser { cause },
        Ok((prefix, update_first)) => {
            let packages = names(missing, |packages| packages.apt);
            Plan::Install { packages, prefix, update_first }
        }
    }
}

/// Returns the prefix of apt's command and whether its lists are updated first, or why apt cannot
/// be used.
pub fn means(machine: Machine) -> Result<(&'static [&'static str], bool), &'static str> {
    if !machine.has_apt {
        return Err("there is no apt-get on this machine");
    }
    let prefix: &[&str] = match machine.privilege {
        Privilege::Root => &[],
        Privilege::SudoSilent => &["sudo", "-n"],
        Privilege::SudoAsking => &["sudo"],
        Privilege::None => return Err("installing needs root or sudo, and there is neither"),
    };
    Ok((prefix, !machine.lists_are_fresh))
}

/// Returns the packages of several needs for one package manager, each once, in order.
pub fn names(missing: &[Need], world: fn(Packages) -> &'static str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for need in missing {
        let name = world(need.packages());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the advice for manual installation.
pub fn advice(missing: &[Need]) -> String {
    let apt = names(missing, |packages| packages.apt).join(" ");
    let dnf = names(missing, |packages| packages.dnf).join(" ");
    let spack = names(missing, |packages| packages.spack).join(" ");
    let module = if dnf.contains("openmpi") { " && module load mpi/openmpi-x86_64" } else { "" };
    format!(
        "Install these, or ask an administrator to, then run the same command again:\n  \
         Debian, Ubuntu:  apt-get install {apt}\n  \
         Fedora, RHEL:    dnf install {dnf}{module}\n  \
         Spack:           spack install {spack} && spack load {spack}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::needs::{BASE, FRESH, PROGRAMS, TEST_BEDS, VIEWERS};
    use super::*;

    const ROOT: Machine =
        Machine { has_apt: true, privilege: Privilege::Root, asks: false, lists_are_fresh: true };

    #[test]
    fn only_what_is_missing_is_installed() {
        let expected = Plan::Install {
            packages: vec!["openmpi-bin", "libudev-dev"],
            prefix: &[],
            update_first: false,
        };
        assert_eq!(plan(&[Need::MpiLauncher, Need::Udev], ROOT), expected);
    }

    #[test]
    fn old_lists_are_renewed_first() {
        let machine = Machine { lists_are_fresh: false, ..ROOT };
        assert!(matches!(plan(&[Need::Hwloc], machine), Plan::Install { update_first: true, .. }));
    }

    #[test]
    fn sudo_is_used_by_those_who_are_not_root() {
        for (privilege, expected) in
            [(Privilege::SudoSilent, &["sudo", "-n"][..]), (Privilege::SudoAsking, &["sudo"][..])]
        {
            let plan = plan(&[Need::Hwloc], Machine { privilege, ..ROOT });
            assert!(matches!(plan, Plan::Install { prefix, .. } if prefix == expected));
        }
    }

    #[test]
    fn without_apt_or_rights_the_user_is_told() {
        let no_apt = Machine { has_apt: false, ..ROOT };
        let no_rights = Machine { privilege: Privilege::None, ..ROOT };
        for (machine, word) in [(no_apt, "apt-get"), (no_rights, "sudo")] {
            let plan = plan(&[Need::Hwloc], machine);
            assert!(matches!(plan, Plan::TellUser { cause } if cause.contains(word)));
        }
    }

    #[test]
    fn advice_names_each_package_once_for_each_manager() {
        let all = [BASE, TEST_BEDS, VIEWERS, PROGRAMS, FRESH].concat();
        let advice = advice(&all);
        for need in all {
            let packages = need.packages();
            for name in [packages.apt, packages.dnf, packages.spack] {
                assert!(advice.contains(name), "{name} is not in:\n{advice}");
            }
        }
        assert_eq!(names(&[Need::MpiCompiler, Need::MpiLauncher], |p| p.spack), ["openmpi"]);
    }
}
