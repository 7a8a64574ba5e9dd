//! Random choice of the allocations that are sampled, and the weight of each sample. Each byte
//! starts a sample with the same small probability, whatever the block sizes are, so that sums of
//! weights are unbiased.

use core::f64::consts::{LN_2, SQRT_2};

/// Returns the next random word. `state` must not be 0, and never becomes 0.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Returns the number of bytes until the next sample, exponentially distributed with this mean.
pub fn distance(word: u64, mean: f64) -> i64 {
    let uniform = ((word >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-logarithm(uniform) * mean) as i64
}

/// Returns the number of bytes that a sampled block of this size stands for.
pub fn weight(size: usize, mean: f64) -> u64 {
    let size = size as f64;
    (size / hit(size / mean) + 0.5) as u64
}

/// Returns 1 - exp(-x), the probability that a block of x means is sampled.
fn hit(x: f64) -> f64 {
    if x < 1e-5 {
        return x - x * x / 2.0;
    }
    if x > 40.0 {
        return 1.0;
    }
    let halvings = (x / LN_2 + 0.5) as i32;
    let rest = -(x - f64::from(halvings) * LN_2);
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..16 {
        term *= rest / f64::from(n);
        sum += term;
    }
    (0..halvings).for_each(|_| sum *= 0.5);
    1.0 - sum
}

/// Returns the natural logarithm of a positive normal number. Implemented here so that no library
/// has to be loaded.
fn logarithm(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let (square, mut power, mut sum) = (t * t, t, 0.0);
    for n in 0..14 {
        sum += power / f64::from(2 * n + 1);
        power *= square;
    }
    2.0 * sum + f64::from(exponent) * LN_2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn logarithms_are_right(x in 1e-300_f64..1e300) {
            prop_assert!((logarithm(x) - x.ln()).abs() <= 1e-12 * x.ln().abs().max(1.0));
        }

        #[test]
        fn probabilities_are_right(x in 1e-9_f64..60.0) {
            prop_assert!((hit(x) / -(-x).exp_m1() - 1.0).abs() < 1e-9, "{} {}", hit(x), -(-x).exp_m1());
        }

        #[test]
        fn a_block_stands_for_no_less_than_itself(size in 1_usize..1 << 40, mean in 1_u64..1 << 30) {
            prop_assert!(weight(size, mean as f64) as f64 >= size as f64 * 0.999_999);
        }
    }

    #[test]
    fn sums_of_weights_are_unbiased() {
        let mean = 4096.0;
        let mut state = 88_172_645_463_325_252;
        let (mut real, mut estimated, mut left) = (0_u64, 0_u64, 0_i64);
        for round in 0..400_000_usize {
            let size = round * 7919 % 3000 + 1;
            real += size as u64;
            left -= size as i64;
            if left < 0 {
                estimated += weight(size, mean);
                left = distance(next(&mut state), mean);
            }
        }
        let ratio = estimated as f64 / real as f64;
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    }
}
