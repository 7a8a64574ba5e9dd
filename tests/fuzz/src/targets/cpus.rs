//! CPU lists and initial bindings, as users and launchers write them.

use quo::CpuSet;
use quo::affinity::InitialBinding;

pub fn lists(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<CpuSet>() {
        Ok(set) => {
            assert_eq!(set.to_string().parse::<CpuSet>().as_ref(), Ok(&set));
            assert_eq!(set.iter().count(), set.len());
            assert_eq!(set.is_empty(), set.first().is_none());
            assert_eq!(set.last(), set.iter().last());
            assert_eq!(CpuSet::from_words(set.as_words()), set);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(binding) = text.parse::<InitialBinding>() {
        let machine = machine();
        for rank in 0..4 {
            if let Ok(mask) = binding.mask(machine, rank) {
                assert!(!mask.is_empty() && mask.is_subset(machine.allowed()));
            }
        }
    }
}

fn machine() -> &'static quo::Topology {
    static MACHINE: std::sync::LazyLock<quo::Topology> = std::sync::LazyLock::new(|| {
        let machine = quo::Topology::from_synthetic("numa:2 pack:1 core:2 pu:2");
        machine.expect("a good synthetic string")
    });
    &MACHINE
}
