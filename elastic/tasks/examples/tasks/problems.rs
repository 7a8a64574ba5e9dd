//! Seven computations as small tasks.

use elastic_tasks::{Task, TaskError};
use serde::{Deserialize, Serialize};

/// A Fibonacci number, by its definition.
#[derive(Clone, Serialize, Deserialize)]
pub struct Fibonacci(pub u64);

impl Task for Fibonacci {
    type Output = u64;

    fn size(&self) -> u64 {
        self.0
    }

    fn work(&self) -> u64 {
        1.618_034_f64.powf(self.0 as f64) as u64
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        Ok(vec![Self(self.0 - 1), Self(self.0 - 2)])
    }

    fn sequential(&self) -> Result<u64, TaskError> {
        fn number(n: u64) -> u64 {
            if n < 2 { n } else { number(n - 1) + number(n - 2) }
        }
        Ok(number(self.0))
    }

    fn merge(&self, results: Vec<u64>) -> Result<u64, TaskError> {
        Ok(results.iter().sum())
    }
}

/// Merge sort.
#[derive(Clone, Serialize, Deserialize)]
pub struct Sort(pub Vec<u64>);

impl Sort {
    /// Returns `count` unsorted numbers.
    pub fn of(count: u64) -> Self {
        Self((0..count).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).collect())
    }
}

impl Task for Sort {
    type Output = Vec<u64>;

    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        let (one, other) = self.0.split_at(self.0.len() / 2);
        Ok(vec![Self(one.to_vec()), Self(other.to_vec())])
    }

    fn sequential(&self) -> Result<Vec<u64>, TaskError> {
        let mut sorted = self.0.clone();
        sorted.sort();
        Ok(sorted)
    }

    fn merge(&self, results: Vec<Vec<u64>>) -> Result<Vec<u64>, TaskError> {
        let [one, other] = &results[..] else { return Err("two halves were sorted".into()) };
        let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
        let mut merged = Vec::with_capacity(self.0.len());
        while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
            merged.extend(if a <= b { one.next() } else { other.next() });
        }
        merged.extend(one.chain(other));
        Ok(merged)
    }
}

/// Some rows of a matrix times some columns of another; the columns are stored as rows.
#[derive(Clone, Serialize, Deserialize)]
pub struct Product {
    inner: usize,
    rows: Vec<f64>,
    columns: Vec<f64>,
}

impl Product {
    /// Returns two square matrices of small whole numbers, so that products are exact.
    pub fn of(n: usize) -> Self {
        let entries =
            |factor| (0..n * n).map(|index| (index * factor % 17) as f64).collect::<Vec<f64>>();
        Self { inner: n, rows: entries(7), columns: entries(11) }
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows.len() / self.inner, self.columns.len() / self.inner)
    }

    fn halves(values: &[f64], inner: usize) -> [Vec<f64>; 2] {
        let (one, other) = values.split_at(values.len() / inner / 2 * inner);
        [one.to_vec(), other.to_vec()]
    }
}

impl Task for Product {
    type Output = Vec<f64>;

    fn size(&self) -> u64 {
        let (rows, columns) = self.shape();
        (rows * columns) as u64
    }

    fn work(&self) -> u64 {
        self.size() * self.inner as u64
    }

    /// Splits the result into its four quarters.
    fn split(&self) -> Result<Vec<Self>, TaskError> {
        let (inner, mut quarters) = (self.inner, Vec::new());
        for rows in Self::halves(&self.rows, inner) {
            for columns in Self::halves(&self.columns, inner) {
                quarters.push(Self { inner, rows: rows.clone(), columns });
            }
        }
        Ok(quarters)
    }

    fn sequential(&self) -> Result<Vec<f64>, TaskError> {
        let mut product = Vec::with_capacity(self.size() as usize);
        for row in self.rows.chunks_exact(self.inner) {
            for column in self.columns.chunks_exact(self.inner) {
                product.push(row.iter().zip(column).map(|(a, b)| a * b).sum());
            }
        }
        Ok(product)
    }

    fn merge(&self, results: Vec<Vec<f64>>) -> Result<Vec<f64>, TaskError> {
        let (rows, columns) = self.shape();
        let (upper, left) = (rows / 2, columns / 2);
        let mut product = vec![0.0; rows * columns];
        for (quarter, values) in results.iter().enumerate() {
            let (row, column) = (quarter / 2 * upper, quarter % 2 * left);
            let width = if quarter % 2 == 0 { left } else { columns - left };
            for (index, values) in values.chunks_exact(width.max(1)).enumerate() {
                let start = (row + index) * columns + column;
                product[start..start + width].copy_from_slice(values);
            }
        }
        Ok(product)
    }
}

/// Number of ways to place queens on a board, with some columns placed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Queens {
    pub n: u8,
    pub placed: Vec<u8>,
}

impl Queens {
    fn is_free(&self, column: u8) -> bool {
        self.placed
            .iter()
            .rev()
            .zip(1..)
            .all(|(&other, distance)| other != column && other.abs_diff(column) != distance)
    }

    fn next(&self) -> Vec<Self> {
        let free = (0..self.n).filter(|&column| self.is_free(column));
        free.map(|column| {
            let placed = self.placed.iter().copied().chain([column]).collect();
            Self { n: self.n, placed }
        })
        .collect()
    }
}

impl Task for Queens {
    type Output = u64;

    /// Number of remaining rows; 0 if no queen can be placed.
    fn size(&self) -> u64 {
        let is_stuck = (0..self.n).all(|column| !self.is_free(column));
        if is_stuck { 0 } else { u64::from(self.n) - self.placed.len() as u64 }
    }

    fn work(&self) -> u64 {
        (1..=self.size()).product()
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        Ok(self.next())
    }

    fn sequential(&self) -> Result<u64, TaskError> {
        fn ways(board: &mut Queens) -> u64 {
            if board.placed.len() == usize::from(board.n) {
                return 1;
            }
            let mut found = 0;
            for column in 0..board.n {
                if board.is_free(column) {
                    board.placed.push(column);
                    found += ways(board);
                    board.placed.pop();
                }
            }
            found
        }
        Ok(ways(&mut self.clone()))
    }

    fn merge(&self, results: Vec<u64>) -> Result<u64, TaskError> {
        Ok(results.iter().sum())
    }
}

/// Rows of a picture of the Mandelbrot set: iterations of each point.
#[derive(Clone, Serialize, Deserialize)]
pub struct Mandelbrot {
    pub rows: (u32, u32),
    pub side: u32,
}

impl Mandelbrot {
    const LIMIT: u16 = 2000;

    fn iterations(&self, row: u32, column: u32) -> u16 {
        let scale = 3.0 / f64::from(self.side);
        let (cx, cy) = (f64::from(column) * scale - 2.25, f64::from(row) * scale - 1.5);
        let (mut x, mut y, mut count) = (0.0_f64, 0.0_f64, 0);
        while count < Self::LIMIT && x * x + y * y <= 4.0 {
            (x, y) = (x * x - y * y + cx, 2.0 * x * y + cy);
            count += 1;
        }
        count
    }
}

impl Task for Mandelbrot {
    type Output = Vec<u16>;

    fn size(&self) -> u64 {
        u64::from(self.rows.1 - self.rows.0)
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        let middle = self.rows.0.midpoint(self.rows.1);
        let part = |rows| Self { rows, side: self.side };
        Ok(vec![part((self.rows.0, middle)), part((middle, self.rows.1))])
    }

    fn sequential(&self) -> Result<Vec<u16>, TaskError> {
        let rows = self.rows.0..self.rows.1;
        let points = rows.flat_map(|row| (0..self.side).map(move |column| (row, column)));
        Ok(points.map(|(row, column)| self.iterations(row, column)).collect())
    }

    fn merge(&self, results: Vec<Vec<u16>>) -> Result<Vec<u16>, TaskError> {
        Ok(results.concat())
    }
}

/// Prime numbers from the first number up to, but not including, the second.
#[derive(Clone, Serialize, Deserialize)]
pub struct Primes(pub u64, pub u64);

impl Task for Primes {
    type Output = Vec<u64>;

    fn size(&self) -> u64 {
        self.1 - self.0
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        let middle = self.0.midpoint(self.1);
        Ok(vec![Self(self.0, middle), Self(middle, self.1)])
    }

    fn sequential(&self) -> Result<Vec<u64>, TaskError> {
        let is_prime = |number: &u64| {
            let divisors = (2..).take_while(|divisor| divisor * divisor <= *number);
            *number > 1 && divisors.into_iter().all(|divisor| !number.is_multiple_of(divisor))
        };
        Ok((self.0..self.1).filter(is_prime).collect())
    }

    fn merge(&self, results: Vec<Vec<u64>>) -> Result<Vec<u64>, TaskError> {
        Ok(results.concat())
    }
}

/// Sum of the ends of walks with the same number of steps: regular work with small messages.
#[derive(Clone, Serialize, Deserialize)]
pub struct Walks {
    pub first: u64,
    pub end: u64,
    pub steps: u64,
}

impl Task for Walks {
    type Output = u64;

    fn size(&self) -> u64 {
        self.end - self.first
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        let middle = self.first.midpoint(self.end);
        let part = |first, end| Self { first, end, ..*self };
        Ok(vec![part(self.first, middle), part(middle, self.end)])
    }

    fn sequential(&self) -> Result<u64, TaskError> {
        let step = |at: u64, _| at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
        let ends = (self.first..self.end).map(|walk| (0..self.steps).fold(walk, step));
        Ok(ends.fold(0, u64::wrapping_add))
    }

    fn merge(&self, results: Vec<u64>) -> Result<u64, TaskError> {
        Ok(results.into_iter().fold(0, u64::wrapping_add))
    }
}
