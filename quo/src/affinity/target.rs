//! Targets of a push, and the CPUs that each resolves to.

use super::BindError;
use crate::cpuset::CpuSet;
use crate::topology::{ObjectType, Topology};

/// Target of a binding.
///
/// ```
/// use quo::affinity::Target;
/// use quo::topology::{ObjectType, Topology};
/// let machine = Topology::from_synthetic("pack:2 core:4 pu:1")?;
/// let here = "5".parse()?;
/// assert_eq!(Target::Object(ObjectType::Package, 0).resolve(&machine, &here)?.to_string(), "0-3");
/// assert_eq!(Target::Enclosing(ObjectType::Package).resolve(&machine, &here)?.to_string(), "4-7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The object of this type with this logical index, wherever the caller is bound.
    #[doc(alias = "QUO_BIND_PUSH_PROVIDED")]
    Object(ObjectType, usize),
    /// The closest object of this type around the caller's current mask: keeps memory close.
    #[doc(alias = "QUO_BIND_PUSH_OBJ")]
    Enclosing(ObjectType),
    /// These CPUs. All of them must be allowed.
    Cpus(CpuSet),
}

impl Target {
    /// Returns the CPUs of this target on `topology` for a caller whose mask is `current`.
    ///
    /// An object is reduced to its allowed CPUs; an explicit set must be allowed as a whole,
    /// because silently narrowing a set that was spelled out would hide a mistake.
    ///
    /// # Errors
    /// [`BindError::Topology`] for an object that does not exist, [`BindError::NotEnclosed`] if the
    /// mask does not fit in one object of the type, [`BindError::OutsideAllowed`] and
    /// [`BindError::Empty`] for sets that cannot be bound to.
    pub fn resolve(&self, topology: &Topology, current: &CpuSet) -> Result<CpuSet, BindError> {
        let (asked, allowed) = (self.asked(topology, current)?, topology.allowed());
        let explicit = matches!(self, Self::Cpus(_));
        if explicit && asked.is_empty() {
            return Err(BindError::Empty { allowed: allowed.clone() });
        }
        let cpus = asked.intersection(allowed);
        if cpus.is_empty() || explicit && cpus != asked {
            return Err(BindError::OutsideAllowed { asked, allowed: allowed.clone() });
        }
        Ok(cpus)
    }

    /// Returns all CPUs that this target names, allowed or not.
    ///
    /// # Errors
    /// [`BindError::Topology`] and [`BindError::NotEnclosed`], as [`resolve`](Self::resolve).
    pub(crate) fn asked(&self, topology: &Topology, current: &CpuSet) -> Result<CpuSet, BindError> {
        let object = match self {
            Self::Object(kind, index) => topology.object(*kind, *index)?,
            Self::Enclosing(kind) => {
                // A topology without SMT has fewer PUs than the mask may contain.
                let known = current.intersection(topology.machine_cpuset());
                topology
                    .enclosing(*kind, &known)
                    .filter(|_| !known.is_empty())
                    .ok_or_else(|| BindError::NotEnclosed { kind: *kind, mask: current.clone() })?
            }
            Self::Cpus(cpus) => return Ok(cpus.clone()),
        };
        Ok(object.cpuset.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enclosing_object_needs_a_cpu_of_the_machine() {
        let machine = Topology::from_synthetic("package:2 core:4 pu:1").unwrap();
        let package = |mask: &str| {
            Target::Enclosing(ObjectType::Package).asked(&machine, &mask.parse().unwrap())
        };
        assert_eq!(package("5").unwrap(), CpuSet::from_range(4..8));
        assert_eq!(package("5,9").unwrap(), CpuSet::from_range(4..8));
        for mask in ["9", "3-4"] {
            assert!(matches!(package(mask), Err(BindError::NotEnclosed { .. })), "{mask}");
        }
    }
}
