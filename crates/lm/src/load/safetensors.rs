//! The safetensors files of a model folder.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use mlx::Dtype;

use super::weights::Weights;
use crate::{
    Error, Result,
    config::ModelConfig,
    json::{self, Fields},
};

/// All tensors of the folder, to be handed out in `dtype` or, without it, as stored.
pub(super) fn read(folder: &Path, config: &ModelConfig, dtype: Option<Dtype>) -> Result<Weights> {
    let mut weights = Weights::new(str::to_owned, None);
    weights.declare(&config.path, config.quantization.clone());
    for file in files(folder)? {
        let loaded = mlx::io::load_safetensors(&file)?;
        weights.add(&file, loaded.arrays)?;
    }
    let stored =
        || ["model.embed_tokens", "model.norm"].iter().find_map(|m| weights.stored_dtype(m));
    if let Some(dtype) = dtype.or_else(stored) {
        weights.set_dtype(dtype);
    }
    Ok(weights)
}

/// The files that the index names, or else the single file.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let index = folder.join("model.safetensors.index.json");
    if !index.exists() {
        return Ok(vec![folder.join("model.safetensors")]);
    }
    let value: serde_json::Value = json::read(&index)?;
    let fields = Fields::new(&index, &value)?;
    let map = fields.object("weight_map")?.ok_or_else(|| fields.error("weight_map", "missing"))?;
    let mut names = BTreeSet::new();
    for (tensor, file) in map.entries() {
        let name = file.as_str().filter(|name| is_plain(name));
        names.insert(
            name.ok_or_else(|| map.error(tensor, "expected the name of a file in this folder"))?,
        );
    }
    if names.is_empty() {
        return Err(Error::file(&index, "weight_map", "names no file"));
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Whether a name stays inside its folder: an index must not reach for other files.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_cannot_leave_its_folder() {
        assert!(is_plain("model-00001-of-00002.safetensors"));
        for name in ["../x", "/etc/passwd", "a/b", "", "."] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
