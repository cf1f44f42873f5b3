//! Numbers and texts of a file, read one after the other.

/// What is wrong with the bytes where something was to be read.
pub(super) type Misfit = String;

/// What of a file was not read yet.
pub(super) struct Bytes<'a> {
    all: &'a [u8],
    position: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(all: &'a [u8]) -> Self {
        Bytes { all, position: 0 }
    }

    /// How many were read.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Misfit> {
        let rest = &self.all[self.position..];
        let Some(taken) = rest.get(..count) else {
            return Err(format!("{count} bytes are needed, the file has {}", rest.len()));
        };
        self.position += count;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Misfit> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// 32 bits.
    pub(super) fn int(&mut self) -> Result<i32, Misfit> {
        self.array().map(i32::from_le_bytes)
    }

    /// 64 bits.
    pub(super) fn size(&mut self) -> Result<u64, Misfit> {
        self.array().map(u64::from_le_bytes)
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
        let count = self.size()?;
        let most = (self.all.len() - self.position) / least;
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(format!("{count} are more than the file has room for")),
        }
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
        let length = self.count(1)?;
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| "is no UTF-8".into())
    }
}
