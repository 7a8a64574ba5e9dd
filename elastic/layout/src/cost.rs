//! Amounts of data that a schedule moves, and their cost.

use serde::{Deserialize, Serialize};

/// Amounts moved, by all ranks or by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Statistics {
    /// Steps: of the schedule, or those in which the one rank sends or receives.
    pub steps: usize,
    /// Messages between different ranks.
    pub messages: usize,
    /// Bytes sent to another rank.
    pub bytes_moved: usize,
    /// Bytes that stay on their rank and are copied.
    pub bytes_kept: usize,
    /// Bytes of the largest message between different ranks.
    pub largest_message: usize,
}

impl Statistics {
    pub(super) fn add(&mut self, bytes: usize, moved: bool) {
        if moved {
            self.messages += 1;
            self.bytes_moved += bytes;
            self.largest_message = self.largest_message.max(bytes);
        } else {
            self.bytes_kept += bytes;
        }
    }

    /// Seconds by [`Link::seconds`], as if each step took as long as the largest message.
    #[must_use]
    pub fn seconds(&self, link: Link) -> f64 {
        link.seconds(self.steps, self.largest_message)
    }
}

/// Cost of sending a message.
///
/// ```
/// use elastic_layout::Link;
///
/// let link = Link { latency: 2e-6, per_byte: 1e-9 };
/// assert!((link.seconds(6, 8_000_000) - 6.0 * (2e-6 + 8e-3)).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// λ: seconds until a message begins to arrive.
    pub latency: f64,
    /// τ: seconds for each byte.
    pub per_byte: f64,
}

impl Link {
    /// Seconds for `steps` steps with messages of `bytes` bytes: steps · (λ + bytes · τ). In the
    /// dissertation (section 3.4.1) a message is N²/(RC) blocks.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn seconds(self, steps: usize, bytes: usize) -> f64 {
        steps as f64 * (self.latency + bytes as f64 * self.per_byte)
    }
}
