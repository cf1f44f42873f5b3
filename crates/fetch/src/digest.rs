//! SHA-256, of bytes and of what flows into a file.

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// A writer that also hashes what passes through.
pub struct Hashing<W> {
    inner: W,
    state: Sha256,
}

impl<W: Write> Hashing<W> {
    /// Passes everything on to `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, state: Sha256::new() }
    }

    /// The writer and the hash of all that was written, in hexadecimal.
    pub fn finish(self) -> (W, String) {
        (self.inner, hex(&self.state.finalize()))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.state.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The hash of `bytes` in hexadecimal.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The hash of a file in hexadecimal.
pub fn of_file(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut hashing = Hashing::new(io::sink());
    copy(&mut file, &mut hashing).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hashing.finish().1)
}

/// Copies everything in pieces large enough for the hash to run at full speed.
pub fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; 1 << 20];
    loop {
        match from.read(&mut piece)? {
            0 => return to.flush(),
            count => to.write_all(&piece[..count])?,
        }
    }
}

/// An error that names file, expected and actual hash, unless they agree.
pub fn expect(path: &Path, expected: &str, actual: &str) -> Result<()> {
    let file = path.display();
    ensure!(expected == actual, "{file}: wrong SHA-256: expected {expected}, is {actual}");
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn bytes_and_streams_hash_alike() {
        let mut stream = Hashing::new(Vec::new());
        copy(&mut &b"abc"[..], &mut stream).unwrap();
        let (written, hash) = stream.finish();
        assert_eq!((written.as_slice(), hash.as_str()), (&b"abc"[..], OF_ABC));
        assert_eq!(of_bytes(b"abc"), OF_ABC);
    }

    #[test]
    fn a_wrong_hash_names_file_expected_and_actual() {
        let error = expect(Path::new("a.whl"), "00", "11").unwrap_err().to_string();
        assert!(
            ["a.whl", "expected 00", "is 11"].iter().all(|part| error.contains(part)),
            "{error}"
        );
    }
}
