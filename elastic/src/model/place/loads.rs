//! Measured loads of hosts.

use std::collections::{BTreeMap, VecDeque};

/// Number of samples kept for each host.
const KEPT: usize = 12;

/// Recent loads of hosts, of which the mean counts: a peak is no reason to avoid a host. M. C. Cera
/// 2012, section 4.2.
///
/// A load is the number of busy processors divided by the number of processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads {
    samples: BTreeMap<String, VecDeque<f64>>,
}

impl Loads {
    /// Adds a sample of a host, and drops its oldest one if there are too many. Invalid loads are
    /// ignored.
    pub fn add(&mut self, host: &str, load: f64) {
        if !load.is_finite() || load < 0.0 {
            return;
        }
        let samples = self.samples.entry(host.to_owned()).or_default();
        samples.push_back(load);
        if samples.len() > KEPT {
            samples.pop_front();
        }
    }

    /// Forgets all hosts but these.
    pub fn keep(&mut self, hosts: &[String]) {
        self.samples.retain(|host, _| hosts.contains(host));
    }

    /// Returns the mean load of a host, if there are samples.
    pub fn mean(&self, host: &str) -> Option<f64> {
        let samples = self.samples.get(host).filter(|samples| !samples.is_empty())?;
        Some(samples.iter().sum::<f64>() / samples.len() as f64)
    }
}
