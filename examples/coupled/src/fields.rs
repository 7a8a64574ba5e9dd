//! The fields a run ends with: checksums, a plain binary file, and their comparison.
//!
//! The file is little-endian: the eight bytes `QUOFLD1\n`, nx and ny as u64, then depth,
//! momentum_x, momentum_y and heat, each nx × ny values of f64 row by row.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::flow::{FIELD_NAMES, FIELDS};

/// Largest relative difference between runs that computed the same.
pub const TOLERANCE: f64 = 1e-12;

const MAGIC: &[u8; 8] = b"QUOFLD1\n";

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

    /// Reads a file written by [`Self::write`].
    ///
    /// # Errors
    /// If it cannot be read or is not such a file.
    pub fn read(path: &Path) -> Result<Fields> {
        let bytes =
            fs::read(path).with_context(|| format!("reading fields from {}", path.display()))?;
        Self::from_bytes(&bytes).with_context(|| format!("{} is not a field file", path.display()))
    }

    fn from_bytes(bytes: &[u8]) -> Result<Fields> {
        ensure!(bytes.starts_with(MAGIC), "it does not start with the mark of one");
        let word = |at: usize| -> Result<[u8; 8]> {
            Ok(bytes.get(at..at + 8).context("it is cut off")?.try_into()?)
        };
        let (nx, ny) = (u64::from_le_bytes(word(8)?), u64::from_le_bytes(word(16)?));
        let (nx, ny) = (usize::try_from(nx)?, usize::try_from(ny)?);
        let cells = nx.checked_mul(ny).context("its size is impossible")?;
        let expected = cells.checked_mul(8 * FIELDS).and_then(|n| n.checked_add(24));
        ensure!(expected == Some(bytes.len()), "its length does not fit {nx} x {ny} cells");
        let mut values = bytes[24..].chunks_exact(8).map(|chunk| {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            f64::from_le_bytes(word)
        });
        Ok(Fields {
            nx,
            ny,
            values: std::array::from_fn(|_| values.by_ref().take(cells).collect()),
        })
    }
}

/// Difference of one field of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its name.
    pub field: &'static str,
    /// Largest absolute difference over the largest absolute value of either run; 0 where both
    /// are all zero, infinite where one has a value that is not finite and they differ.
    pub relative: f64,
    /// True if all bits are equal.
    pub identical: bool,
}

/// Compares two runs field by field.
///
/// # Errors
/// If their meshes differ.
pub fn compare(a: &Fields, b: &Fields) -> Result<Vec<Difference>> {
    if (a.nx, a.ny) != (b.nx, b.ny) {
        bail!("the meshes differ: {} x {} and {} x {} cells", a.nx, a.ny, b.nx, b.ny);
    }
    let difference = |field: usize| {
        let (a, b) = (&a.values[field], &b.values[field]);
        let identical = a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        let largest = |values: &mut dyn Iterator<Item = f64>| {
            values.fold(0.0_f64, |m, v| if v.is_nan() { f64::INFINITY } else { m.max(v.abs()) })
        };
        let scale = largest(&mut a.iter().chain(b).copied());
        let apart = largest(&mut a.iter().zip(b).map(|(a, b)| a - b));
        let relative = if identical || apart == 0.0 {
            0.0
        } else if scale.is_finite() {
            apart / scale
        } else {
            f64::INFINITY
        };
        Difference { field: FIELD_NAMES[field], relative, identical }
    };
    Ok((0..FIELDS).map(difference).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        let values = std::array::from_fn(|f| (0..12).map(|k| (f * 12 + k) as f64 * 0.5).collect());
        Fields { nx: 4, ny: 3, values }
    }

    #[test]
    fn a_file_reads_back_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fields.bin");
        fields().write(&path).unwrap();
        assert_eq!(Fields::read(&path).unwrap(), fields());
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fields.bin");
        fields().write(&path).unwrap();
        let good = fs::read(&path).unwrap();
        let mut huge = good.clone();
        huge[8..16].fill(0xff);
        for bad in [&good[..20], &good[..good.len() - 1], b"something else", &huge[..]] {
            assert!(Fields::from_bytes(bad).is_err());
        }
    }

    #[test]
    fn the_last_bit_of_any_value_changes_the_checksum() {
        let one = fields();
        let mut other = fields();
        other.values[3][11] = f64::from_bits(other.values[3][11].to_bits() + 1);
        assert_ne!(one.checksum(), other.checksum());
        assert_eq!(one.checksum(), fields().checksum());
    }

    #[test]
    fn differences_are_relative_to_the_largest_value() {
        let one = fields();
        let mut other = fields();
        other.values[1][0] += 11.5e-3;
        let differences = compare(&one, &other).unwrap();
        assert!(differences[0].identical && differences[0].relative == 0.0);
        assert!(!differences[1].identical);
        assert!((differences[1].relative - 1e-3).abs() < 1e-12);
        other.values[2][1] = f64::NAN;
        assert_eq!(compare(&one, &other).unwrap()[2].relative, f64::INFINITY);
    }

    #[test]
    fn different_meshes_cannot_be_compared() {
        let mut other = fields();
        (other.nx, other.ny) = (3, 4);
        assert!(compare(&fields(), &other).is_err());
    }
}
