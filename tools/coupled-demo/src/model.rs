//! Prediction of a run's gain from its utilisation.
//!
//! The model: on n processing elements a phase i with t_i busy threads, out of t_max in the widest
//! phase, runs s_i = n u_i times as fast as on one, with utilisation u_i = t_i / t_max; a program
//! whose phases are shares p_i of its *serial* time gains S = 1 / Σ (p_i / s_i).
//!
//! Serial time is not the measured one. The under-subscribed run spends T_i = p_i T / s_i in phase
//! i, so its measured shares are f_i = (p_i / s_i) / Σ (p_j / s_j). A run that keeps every core
//! busy has u_i = 1, thus S = n, and takes T_i u_i in phase i. The gain of the one over the other,
//! in measured shares of the under-subscribed run, is therefore
//!
//!     S_quo / S_under = 1 / Σ (f_i u_i).
//!
//! It is an upper bound for perfect scaling: remapping, memory bandwidth and waiting are not in it.

use coupled::result::RunResult;
use coupled::timeline::Phase;

/// A phase of the under-subscribed run.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Share {
    pub phase: Phase,
    /// f_i: of the time of the phases together, 0 to 1.
    pub share: f64,
    /// u_i: busy threads over threads of the widest phase.
    pub utilisation: f64,
}

/// The shares and utilisations that `under`, an under-subscribed run, shows. Moving data and
/// waiting are done by one thread per worker, as L0.
pub fn shares(under: &RunResult) -> Vec<Share> {
    let widest = under.threads.max(1) as f64;
    let all: f64 = Phase::ALL.map(|phase| under.phase_seconds(phase)).iter().sum();
    let share = |phase: Phase| Share {
        phase,
        share: if all > 0.0 { under.phase_seconds(phase) / all } else { 0.0 },
        utilisation: if phase == Phase::Diffusion { 1.0 } else { 1.0 / widest },
    };
    Phase::ALL.map(share).to_vec()
}

/// Speed of a run that keeps all cores busy, relative to the run with these shares.
pub fn predicted_gain(shares: &[Share]) -> f64 {
    let rest: f64 = shares.iter().map(|share| share.share * share.utilisation).sum();
    if rest > 0.0 { 1.0 / rest } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(phase: Phase, share: f64, utilisation: f64) -> Share {
        Share { phase, share, utilisation }
    }

    #[test]
    fn the_gain_agrees_with_the_model_in_serial_shares() {
        let (n, p) = (8.0, [0.3, 0.7]);
        let u = [0.125, 1.0];
        let speed_up = |u: [f64; 2]| 1.0 / (p[0] / (n * u[0]) + p[1] / (n * u[1]));
        let time = |i: usize| p[i] / (n * u[i]);
        let all = time(0) + time(1);
        let measured =
            [share(Phase::Flow, time(0) / all, u[0]), share(Phase::Diffusion, time(1) / all, u[1])];
        let expected = speed_up([1.0, 1.0]) / speed_up(u);
        assert!((predicted_gain(&measured) - expected).abs() < 1e-12);
    }

    #[test]
    fn half_the_time_on_half_the_cores_gains_a_third() {
        let shares = [share(Phase::Flow, 0.5, 0.5), share(Phase::Diffusion, 0.5, 1.0)];
        assert!((predicted_gain(&shares) - 4.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_run_that_is_always_busy_has_nothing_to_gain() {
        assert_eq!(predicted_gain(&[share(Phase::Diffusion, 1.0, 1.0)]), 1.0);
        assert_eq!(predicted_gain(&[]), 1.0);
    }
}
