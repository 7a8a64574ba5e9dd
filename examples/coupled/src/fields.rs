//! The fields a run ends with: their checksum, and a plain binary file.
//!
//! The file is little-endian: the eight bytes `QUOFLD1\n`, nx and ny as u64, then depth,
//! momentum_x, momentum_y and heat, each nx × ny values of f64 row by row.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub use crate::flow::{FIELD_NAMES, FIELDS};

/// Beginning of the file.
pub const MAGIC: &[u8; 8] = b"QUOFLD1\n";

/// All conserved quantities of the whole mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    /// Cells of a row.
    pub nx: usize,
    /// Rows.
    pub ny: usize,
    /// Values of each field, row by row.
    pub values: [Vec<f64>; FIELDS],
}

impl Fields {
    /// A checksum of all bits (64-bit FNV-1a over the values' words), in hexadecimal.
    pub fn checksum(&self) -> String {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for value in self.values.iter().flatten() {
            for half in [value.to_bits() >> 32, value.to_bits() & 0xffff_ffff] {
                hash = (hash ^ half).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        format!("{hash:016x}")
    }

    /// Sum of one field over all cells, row by row.
    pub fn total(&self, field: usize) -> f64 {
        self.values[field].chunks(self.nx.max(1)).map(|row| row.iter().sum::<f64>()).sum()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut bytes = Vec::with_capacity(24 + 8 * FIELDS * self.nx * self.ny);
        bytes.extend_from_slice(MAGIC);
        for size in [self.nx, self.ny] {
            bytes.extend_from_slice(&(size as u64).to_le_bytes());
        }
        for value in self.values.iter().flatten() {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        fs::write(path, bytes).with_context(|| format!("writing fields to {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        let values = std::array::from_fn(|f| (0..12).map(|k| (f * 12 + k) as f64 * 0.5).collect());
        Fields { nx: 4, ny: 3, values }
    }

    #[test]
    fn the_last_bit_of_any_value_changes_the_checksum() {
        let one = fields();
        let mut other = fields();
        other.values[3][11] = f64::from_bits(other.values[3][11].to_bits() + 1);
        assert_ne!(one.checksum(), other.checksum());
        assert_eq!(one.checksum(), fields().checksum());
    }
}
