//! Time that processes of one machine share.

use rustix::time::{ClockId, clock_gettime};

/// Seconds of the monotonic clock: comparable between processes of one machine.
pub fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds since 1970 when the monotonic clock began, as the calendar is now.
pub fn calendar() -> f64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9 - now()
}
