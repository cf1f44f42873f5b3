//! Numbers and texts of a file, read one after the other.

use crate::io::reader::Reader;

/// What is wrong with the bytes where something was to be read.
pub(super) type Misfit = String;

/// What of a file was not read yet.
pub(super) struct Bytes<'a>(Reader<'a>);

impl<'a> Bytes<'a> {
    pub(super) fn new(all: &'a [u8]) -> Self {
        Bytes(Reader::new(all))
    }

    /// How many were read.
    pub(super) fn position(&self) -> usize {
        self.0.position()
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Misfit> {
        self.0.take(count)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Misfit> {
        self.0.array()
    }

    /// 32 bits.
    pub(super) fn int(&mut self) -> Result<i32, Misfit> {
        self.array().map(i32::from_le_bytes)
    }

    /// 64 bits.
    pub(super) fn size(&mut self) -> Result<u64, Misfit> {
        self.0.u64()
    }

    /// A truth value.
    pub(super) fn flag(&mut self) -> Result<bool, Misfit> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(format!("{other} is no truth value")),
        }
    }

    /// How many things follow, each of which takes `least` bytes or more.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, Misfit> {
        self.0.count(least)
    }

    /// A list of things, each of which takes `least` bytes or more.
    pub(super) fn list<T>(
        &mut self,
        least: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, Misfit>,
    ) -> Result<Vec<T>, Misfit> {
        let count = self.count(least)?;
        (0..count).map(|_| one(self)).collect()
    }

    /// A text.
    pub(super) fn text(&mut self) -> Result<String, Misfit> {
        self.0.string(usize::MAX)
    }
}
