//! Lines on stderr about problems that a program cannot notice: one per job and node, not one per
//! rank.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::parent_id;
use std::sync::{Mutex, PoisonError};
use std::{env, io};

/// Environment variables by which launchers number their jobs and steps.
const JOB: [&str; 7] = [
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_orte_ess_jobid",
    "PMI_JOBID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "QUO_RUN_JOB",
];

/// Names in the kernel's abstract namespace that this process keeps until it ends.
static KEPT: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// Writes a line that starts with `quo: ` to stderr, in one piece. Local.
///
/// Does nothing, without a failure, if the program has closed stderr.
pub fn say(line: &str) {
    let _ = io::stderr().lock().write_all(format!("quo: {line}\n").as_bytes());
}

/// Returns true if no other living process of this job on this node has asked about `topic` before.
/// Local.
///
/// A job is what the launcher numbers as one, or else the processes of one parent. If the kernel
/// keeps no names for this process, every process is the first.
#[must_use]
pub fn is_first_of_job(topic: &str) -> bool {
    let mut job = String::new();
    for name in JOB {
        job.push_str(&env::var(name).unwrap_or_default());
        job.push('/');
    }
    if job.len() == JOB.len() {
        job = format!("parent {}", parent_id());
    }
    is_first(&format!("quo/{}/{topic}/{job}", rustix::process::getuid().as_raw()))
}

fn is_first(name: &str) -> bool {
    // The kernel accepts about a hundred bytes.
    let name = if name.len() < 100 { name.to_owned() } else { format!("quo/{:032x}", hash(name)) };
    let bound =
        SocketAddr::from_abstract_name(name).and_then(|name| UnixDatagram::bind_addr(&name));
    match bound {
        Ok(socket) => {
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
            true
        }
        Err(error) => error.kind() != io::ErrorKind::AddrInUse,
    }
}

/// FNV-1a, identical in every build.
fn hash(text: &str) -> u128 {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(START, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_of_a_job_is_first_once() {
        let topic = format!("test {}", std::process::id());
        assert!(is_first_of_job(&topic));
        assert!(!is_first_of_job(&topic));
        assert!(is_first_of_job(&format!("{topic} other")));
    }

    #[test]
    fn names_longer_than_the_kernel_takes_stay_apart() {
        let long = format!("{}{}", std::process::id(), "x".repeat(200));
        assert!(is_first(&long));
        assert!(!is_first(&long));
        assert!(is_first(&format!("{long}y")));
    }
}
