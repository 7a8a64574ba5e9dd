//! Hosts with IPv4 and IPv6 addresses, on which one version of Open MPI cannot reach a process that
//! it has spawned.

use quo_mpi::{Family, Identity};

/// The last version of Open MPI 5.0 that pairs addresses of different families.
const LAST: [u64; 3] = [5, 0, 7];

/// The remedy, for the launch of the job.
const ADVICE: &str = "launch the job with OMPI_MCA_btl_tcp_disable_family=6 in the environment of mpirun: with IPv6 \
    addresses on the host, this version of Open MPI finds no way to processes that it starts later";

/// Variables by which a launch has chosen its transport, with the values that mean no choice.
const CHOSEN: [(&str, &str); 3] = [
    ("OMPI_MCA_btl_tcp_disable_family", "0"),
    ("OMPI_MCA_btl_tcp_if_include", ""),
    ("OMPI_MCA_pml", "ob1"),
];

/// Returns advice about spawned processes on this host; `None` if they can be reached.
pub(crate) fn advice(mpi: &Identity) -> Option<&'static str> {
    let is_chosen = CHOSEN
        .iter()
        .any(|(name, usual)| std::env::var_os(name).is_some_and(|value| value != *usual));
    let has_ipv6 = if_addrs::get_if_addrs()
        .is_ok_and(|addresses| addresses.iter().any(|address| address.ip().is_ipv6()));
    let is_concerned = mpi.family() == Family::OpenMpi && is_concerned(&mpi.to_string());
    (is_concerned && has_ipv6 && !is_chosen).then_some(ADVICE)
}

fn is_concerned(name_and_version: &str) -> bool {
    let numbers = name_and_version.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse);
    let numbers: Vec<u64> = numbers.take(3).collect();
    numbers.starts_with(&LAST[..2]) && numbers <= LAST.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_early_versions_of_open_mpi_5_are_concerned() {
        for (version, concerned) in [
            ("5.0.7", true),
            ("5.0.0rc12", true),
            ("5.0.8", false),
            ("5.0.10", false),
            ("4.1.4", false),
            ("6.0.0rc2", false),
        ] {
            assert_eq!(is_concerned(&format!("Open MPI {version}")), concerned, "{version}");
        }
    }
}
