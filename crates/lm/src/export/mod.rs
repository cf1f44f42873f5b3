//! A Hugging Face folder made of a GGUF file, as `mlx_lm` and `transformers` read it.

mod config;
mod weights;

use std::path::{Path, PathBuf};

use mlx::Dtype;

use crate::{
    Error, Result,
    load::{
        Source,
        gguf::{Contents, read_stored},
        locate,
    },
    tokenizer::Special,
};

/// Bytes of weights in one file, from which on there are several: `mlx_lm`'s 5 GB.
const SHARD_BYTES: usize = 5 << 30;

/// Makes the folder `out` of a GGUF file: `config.json`, `generation_config.json`, `tokenizer.json`,
/// `tokenizer_config.json`, and the weights as safetensors in `dtype`, dequantized. Without `dtype` they are
/// float16, or bfloat16 in families whose activations leave float16's range (Qwen). Runs on the current
/// device. Returns the dtype.
///
/// # Errors
/// When the file cannot be read, or the folder exists already or cannot be written; nothing is left behind
/// then.
pub fn export_hf(file: &Path, out: &Path, dtype: Option<Dtype>) -> Result<Dtype> {
    let Source::Gguf(file) = locate(file)? else {
        return Err(Error::file(file, "file", "is a model folder already: nothing to export"));
    };
    if out.symlink_metadata().is_ok() {
        return Err(Error::file(out, "file", "exists already: name a new folder"));
    }
    let contents = read_stored(&file)?;
    let wide = contents.model.config().family.leaves_float16();
    let dtype = dtype.unwrap_or(if wide { Dtype::Bfloat16 } else { Dtype::Float16 });
    in_scratch(out, |folder| write(&contents, dtype, folder))?;
    Ok(dtype)
}

fn write(contents: &Contents, dtype: Dtype, folder: &Path) -> Result<()> {
    let Contents { metadata, tokenizer, model } = contents;
    let mut special = Special::from_gguf(metadata)?;
    special.eos = special.eos.or(tokenizer.eos_ids().next());
    config::write(model.config(), tokenizer, special, dtype, folder)?;
    tokenizer.save(folder, special, model.config().max_context)?;
    weights::write(model, dtype, folder, SHARD_BYTES)
}

/// Has a folder written beside `out`, and moves it there when it is whole.
fn in_scratch(out: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let fail = |e: std::io::Error| Error::file(out, "file", e);
    let parent = std::path::absolute(out).map_err(fail)?.parent().map(PathBuf::from);
    let parent = parent.ok_or_else(|| Error::file(out, "file", "is no name of a folder"))?;
    let scratch = tempfile::Builder::new().prefix(".export-").tempdir_in(parent).map_err(fail)?;
    // A folder inside, because the scratch folder itself is closed to other users.
    let folder = scratch.path().join("model");
    std::fs::create_dir(&folder).map_err(fail)?;
    write(&folder)?;
    std::fs::rename(&folder, out).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("out");
        let failed = in_scratch(&out, |folder| {
            std::fs::write(folder.join("half"), "half").unwrap();
            Err(Error::file(folder, "half", "no space"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        let nowhere = place.path().join("no/such/out");
        let message = in_scratch(&nowhere, |_| Ok(())).unwrap_err().to_string();
        assert!(message.contains("no/such/out: file: "), "{message}");
    }

    #[test]
    fn what_is_whole_is_moved_into_place() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("out");
        in_scratch(&out, |folder| {
            std::fs::write(folder.join("all"), "all").unwrap();
            Ok(())
        })
        .unwrap();
        assert_eq!(std::fs::read(out.join("all")).unwrap(), b"all");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
