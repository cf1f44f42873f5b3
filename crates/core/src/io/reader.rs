//! A cursor over bytes of a file: every read checks what is left.

/// Reads little-endian values. Errors say what is missing; the caller adds the field.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, position: 0 }
    }

    /// Bytes read so far; at most [`Reader::len`].
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes left.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        if count > self.remaining() {
            let left = self.remaining();
            return Err(format!("needs {count} bytes, the file has {left} more"));
        }
        let taken = &self.bytes[self.position..][..count];
        self.position += count;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of things that take at least `least` bytes each: no more than the file can hold, so
    /// that reserving memory for them is in proportion to the file.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, String> {
        let count = self.u64()?;
        self.check_count(count, least)
    }

    /// [`Reader::count`] of a count that was read before.
    pub(crate) fn check_count(&self, count: u64, least: usize) -> Result<usize, String> {
        match usize::try_from(count).ok().filter(|&n| n <= self.remaining() / least) {
            Some(n) => Ok(n),
            None => Err(format!("{count} do not fit in the {} bytes left", self.remaining())),
        }
    }

    /// A string of at most `cap` bytes.
    pub(crate) fn string(&mut self, cap: usize) -> Result<String, String> {
        let length = self.u64()?;
        let count = match usize::try_from(length) {
            Ok(n) if n <= cap => n,
            _ => return Err(format!("a string of {length} bytes is over the cap of {cap}")),
        };
        // Copied before it is validated: the file may be mapped.
        String::from_utf8(self.take(count)?.to_vec()).map_err(|e| e.to_string())
    }
}
