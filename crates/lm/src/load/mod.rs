//! From files to a model that can run.

mod assemble;
mod experts;
pub(crate) mod gguf;
mod random;
mod safetensors;
mod weights;

use std::path::{Path, PathBuf};

pub use self::random::random_model;
use crate::{
    Error, Result, config, models::Transformer, template::ChatTemplate, tokenizer::Tokenizer,
};

/// A model with everything that came with it.
#[derive(Clone)]
pub struct LoadedModel {
    /// The network.
    pub model: Transformer,
    /// Text to ids and back.
    pub tokenizer: Tokenizer,
    /// How conversations become prompts, if the files say.
    pub template: Option<ChatTemplate>,
}

/// Choices while loading.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Dtype to compute in. Without it that of the stored weights, except that GGUF's float16
    /// becomes bfloat16 in families whose activations leave float16's range (Qwen).
    pub dtype: Option<mlx::Dtype>,
}

/// Loads a GGUF file, or a folder with `config.json`, `tokenizer.json` and safetensors, onto the
/// current device.
///
/// # Errors
/// One line that names the file and the field that is missing, wrong or not supported.
pub fn load(path: &Path, options: &LoadOptions) -> Result<LoadedModel> {
    match locate(path)? {
        Source::Gguf(file) => gguf::load(&file, options),
        Source::Folder(folder) => load_folder(&folder, options),
    }
}

/// A model's files.
pub(crate) enum Source {
    Gguf(PathBuf),
    Folder(PathBuf),
}

/// What kind of model is at `path`. A folder may also hold one single GGUF file.
pub(crate) fn locate(path: &Path) -> Result<Source> {
    let fail = |e: std::io::Error| Error::file(path, "file", e);
    if !std::fs::metadata(path).map_err(fail)?.is_dir() {
        return Ok(Source::Gguf(path.to_owned()));
    }
    if path.join("config.json").exists() {
        return Ok(Source::Folder(path.to_owned()));
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fail)? {
        let file = entry.map_err(fail)?.path();
        files.extend(file.extension().is_some_and(|e| e == "gguf").then_some(file));
    }
    match files.as_slice() {
        [only] => Ok(Source::Gguf(only.clone())),
        [] => Err(Error::file(path, "config.json", "missing, and there is no .gguf file either")),
        many => {
            Err(Error::file(path, "file", format_args!("{} .gguf files: name one", many.len())))
        }
    }
}

/// Whether all files of a model are in a folder, as far as they say what belongs to it.
pub(crate) fn is_whole(folder: &Path) -> bool {
    let has_all = |files: Vec<PathBuf>| files.iter().all(|file| file.exists());
    match locate(folder) {
        Ok(Source::Gguf(file)) => file.exists(),
        Ok(Source::Folder(folder)) => {
            folder.join("tokenizer.json").exists() && safetensors::files(&folder).is_ok_and(has_all)
        }
        Err(_) => false,
    }
}

fn load_folder(folder: &Path, options: &LoadOptions) -> Result<LoadedModel> {
    let config = config::from_folder(folder)?;
    let mut tokenizer = Tokenizer::from_folder(folder)?;
    tokenizer.add_eos(config.eos.iter().copied());
    tokenizer.add_eos(config::generation_eos(folder)?);
    let weights = safetensors::read(folder, &config, options.dtype)?;
    let model = assemble::transformer(config, weights)?;
    let template = template(&tokenizer)?;
    Ok(LoadedModel { model, tokenizer, template })
}

/// The chat template that came with the tokenizer.
fn template(tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
    let Some(source) = tokenizer.chat_template() else { return Ok(None) };
    let text = |token: Option<String>| token.unwrap_or_default();
    let (bos, eos) = (text(tokenizer.bos_text()), text(tokenizer.eos_text()));
    ChatTemplate::new(source, &bos, &eos).map(Some)
}
