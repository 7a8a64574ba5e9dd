//! Files of the fields a run ends with: read, and compared.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use coupled::fields::{FIELD_NAMES, FIELDS, Fields, MAGIC};
use coupled::result::RunResult;

/// Largest relative difference between runs that computed the same.
pub const TOLERANCE: f64 = 1e-12;

/// Reads a file written by [`Fields::write`].
///
/// # Errors
/// If it cannot be read or is not such a file.
pub fn read(path: &Path) -> Result<Fields> {
    let bytes =
        fs::read(path).with_context(|| format!("reading fields from {}", path.display()))?;
    from_bytes(&bytes).with_context(|| format!("{} is not a field file", path.display()))
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
    Ok(Fields { nx, ny, values: std::array::from_fn(|_| values.by_ref().take(cells).collect()) })
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

/// Fields of a run, or what its result says of them where there is no file.
pub enum Outcome {
    /// The fields.
    Fields(Fields),
    /// Their checksum.
    Checksum(String),
}

impl Outcome {
    /// Of a field file, or of a result (`.json`) and the file it names.
    ///
    /// # Errors
    /// If a file cannot be read, or the fields are not those of the result.
    pub fn read(path: &Path) -> Result<Outcome> {
        if path.extension().is_none_or(|extension| extension != "json") {
            return Ok(Outcome::Fields(read(path)?));
        }
        let result = RunResult::read(path)?;
        let Some(file) = &result.fields else { return Ok(Outcome::Checksum(result.checksum)) };
        let fields = read(&path.with_file_name(file))
            .with_context(|| format!("the fields that {} names", path.display()))?;
        ensure!(
            fields.checksum() == result.checksum,
            "the fields of {} are not those of its run",
            path.display()
        );
        Ok(Outcome::Fields(fields))
    }

    /// Of the fields.
    pub fn checksum(&self) -> String {
        match self {
            Outcome::Fields(fields) => fields.checksum(),
            Outcome::Checksum(text) => text.clone(),
        }
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
    fn a_file_reads_back_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fields.bin");
        fields().write(&path).unwrap();
        assert_eq!(read(&path).unwrap(), fields());
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
            assert!(from_bytes(bad).is_err());
        }
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
