//! A writer that remembers its first failure.

use std::{
    cell::RefCell,
    io::{self, Seek, SeekFrom, Write},
};

/// Passes writes on until one fails; from then on it accepts and forgets them.
///
/// A [`zip::ZipWriter`] whose writer fails tries again when it is dropped and prints what went wrong
/// to the standard error. This keeps the failure for the one who asked instead.
pub(super) struct Latch<'a, W> {
    inner: W,
    failure: &'a RefCell<Option<io::Error>>,
    position: u64,
    end: u64,
}

impl<'a, W: Write + Seek> Latch<'a, W> {
    pub(super) fn new(mut inner: W, failure: &'a RefCell<Option<io::Error>>) -> io::Result<Self> {
        let position = inner.stream_position()?;
        Ok(Latch { inner, failure, position, end: position })
    }

    fn attempt(&mut self, step: impl FnOnce(&mut W) -> io::Result<()>) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = step(&mut self.inner).err();
        }
    }
}

impl<W: Write + Seek> Write for Latch<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|inner| inner.write_all(bytes));
        self.position += bytes.len() as u64;
        self.end = self.end.max(self.position);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(|inner| inner.flush());
        Ok(())
    }
}

impl<W: Write + Seek> Seek for Latch<'_, W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        let target = target.ok_or(io::ErrorKind::InvalidInput)?;
        self.attempt(|inner| inner.seek(SeekFrom::Start(target)).map(drop));
        self.position = target;
        Ok(target)
    }
}
