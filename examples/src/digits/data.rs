//! The handwritten digits of scikit-learn.

use std::{fs::File, io::Read};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use mlx::{Array, ops};

/// Height and width of a picture.
pub(super) const SIDE: usize = 8;

/// The brightest a pixel gets.
const BRIGHTEST: f32 = 16.0;

/// One picture of so many is held out of training.
const HELD_OUT: usize = 5;

/// All pictures.
pub struct Digits {
    /// What models are trained on.
    pub training: Pictures,
    /// What they have never seen.
    pub held_out: Pictures,
}

/// Pictures and what they show.
pub struct Pictures {
    /// Brightness from 0 to 1, float32 (pictures, height, width, 1).
    pub images: Array,
    /// The digits, uint32 (pictures).
    pub labels: Array,
}

impl Digits {
    /// Reads them, after they were fetched if the cache did not hold them.
    ///
    /// # Errors
    /// When they cannot be fetched, or the file is not what it should be.
    pub fn load() -> Result<Self> {
        let path = mlx_fetch::DIGITS.path()?;
        let read = || {
            let mut text = String::new();
            GzDecoder::new(File::open(&path)?).read_to_string(&mut text)?;
            Self::parse(&text)
        };
        read().with_context(|| format!("cannot read {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let rows: Vec<Vec<u8>> = text.lines().map(row).collect::<Result<_>>()?;
        let held_out = |i: usize| i.is_multiple_of(HELD_OUT);
        let pictures = |wanted: bool| {
            let rows = rows.iter().enumerate().filter(|(i, _)| held_out(*i) == wanted);
            Pictures::of(&rows.map(|(_, row)| row.as_slice()).collect::<Vec<_>>())
        };
        Ok(Self { training: pictures(false)?, held_out: pictures(true)? })
    }
}

/// The numbers of a line: pixels, and the digit behind them.
fn row(line: &str) -> Result<Vec<u8>> {
    let row: Vec<u8> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
    ensure!(row.len() == SIDE * SIDE + 1, "{} numbers in a line", row.len());
    Ok(row)
}

impl Pictures {
    fn of(rows: &[&[u8]]) -> Result<Self> {
        let split = |row: &'_ &[u8]| (row[..SIDE * SIDE].to_vec(), u32::from(row[SIDE * SIDE]));
        let (pixels, labels): (Vec<_>, Vec<_>) = rows.iter().map(split).unzip();
        let pixels: Vec<f32> = pixels.iter().flatten().map(|&p| f32::from(p) / BRIGHTEST).collect();
        let images = Array::from_slice(&pixels, &[rows.len(), SIDE, SIDE, 1])?;
        Ok(Self { images, labels: Array::from_slice(&labels, &[rows.len()])? })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.labels.dim(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those with these indices.
    pub(super) fn some(&self, indices: &Array) -> mlx::Result<Self> {
        let images = ops::take(&self.images, indices, 0)?;
        Ok(Self { images, labels: ops::take(&self.labels, indices, 0)? })
    }
}
