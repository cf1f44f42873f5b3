//! The tensors of a model's files, handed out by module and checked against the configuration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use mlx::{Array, Dtype, ops};

use crate::{
    Error, Result,
    config::{Quantization, QuantizationConfig},
    models::Linear,
};

/// Tensors by the names of their files, with what is needed to check them.
pub(super) struct Weights {
    tensors: BTreeMap<String, (Array, usize)>,
    files: Vec<PathBuf>,
    /// From the module path used here, such as `model.layers.0.mlp.up_proj`, to the file's.
    rename: fn(&str) -> String,
    /// What config.json declares, and where; GGUF files declare nothing.
    declared: Option<(PathBuf, Option<QuantizationConfig>)>,
    /// Dtype of all floating point tensors that are handed out.
    dtype: Option<Dtype>,
}

impl Weights {
    /// No tensors yet.
    pub(super) fn new(rename: fn(&str) -> String, dtype: Option<Dtype>) -> Self {
        Self { tensors: BTreeMap::new(), files: Vec::new(), rename, declared: None, dtype }
    }

    /// Holds config.json to what it says about quantization.
    pub(super) fn declare(&mut self, config: &Path, quantization: Option<QuantizationConfig>) {
        self.declared = Some((config.to_owned(), quantization));
    }

    /// Sets the dtype that floating point tensors are handed out in.
    pub(super) fn set_dtype(&mut self, dtype: Dtype) {
        self.dtype = Some(dtype);
    }

    /// Adds the tensors of a file.
    pub(super) fn add(
        &mut self,
        file: &Path,
        tensors: impl IntoIterator<Item = (String, Array)>,
    ) -> Result<()> {
        let index = self.files.len();
        self.files.push(file.to_owned());
        for (name, array) in tensors {
            if let Some((_, other)) = self.tensors.insert(name.clone(), (array, index)) {
                let other = self.files[other].display();
                return Err(Error::file(file, name, format_args!("is in {other} as well")));
            }
        }
        Ok(())
    }

    /// Dtype of a module's stored floating point numbers.
    pub(super) fn stored_dtype(&self, module: &str) -> Option<Dtype> {
        let module = (self.rename)(module);
        let of = |part: &str| self.tensors.get(&format!("{module}.{part}")).map(|(a, _)| a.dtype());
        of("scales").or_else(|| of("weight"))
    }

    /// Whether any tensor of the module is there.
    pub(super) fn has(&self, module: &str) -> bool {
        self.tensors.contains_key(&format!("{}.weight", (self.rename)(module)))
    }

    /// A floating point tensor of this shape that must be there.
    pub(super) fn need(&mut self, module: &str, part: &str, shape: &[usize]) -> Result<Array> {
        let name = format!("{}.{part}", (self.rename)(module));
        self.optional(module, part, shape)?.ok_or_else(|| {
            let file = self.files.first().map_or(Path::new("weights"), PathBuf::as_path);
            Error::file(file, name, "missing")
        })
    }

    /// A floating point tensor of this shape, if it is there.
    pub(super) fn optional(
        &mut self,
        module: &str,
        part: &str,
        shape: &[usize],
    ) -> Result<Option<Array>> {
        let name = format!("{}.{part}", (self.rename)(module));
        let Some((array, file)) = self.tensors.remove(&name) else { return Ok(None) };
        let file = &self.files[file];
        if array.shape() != shape {
            let got = array.shape();
            let message = format!("has shape {got:?} but the configuration asks for {shape:?}");
            return Err(Error::file(file, name, message));
        }
        if !array.dtype().is_floating() {
            let message =
                format!("has dtype {} but floating point numbers are needed", array.dtype());
            return Err(Error::file(file, name, message));
        }
        self.cast(array).map(Some)
    }

    fn cast(&self, array: Array) -> Result<Array> {
        Ok(match self.dtype {
            Some(dtype) if array.dtype() != dtype => ops::astype(&array, dtype)?,
            _ => array,
        })
    }

    /// A matrix (out, in), dense or quantized, with its bias if there is one.
    pub(super) fn linear(&mut self, module: &str, out: usize, inner: usize) -> Result<Linear> {
        let bias = self.optional(module, "bias", &[out])?;
        let renamed = (self.rename)(module);
        let Some((scales, file)) = self.tensors.remove(&format!("{renamed}.scales")) else {
            return Ok(Linear::dense(self.need(module, "weight", &[out, inner])?, bias)?);
        };
        let path = self.files[file].clone();
        let mut part = |part: &str| {
            let name = format!("{renamed}.{part}");
            match self.tensors.remove(&name) {
                Some((array, _)) => Ok(array),
                None => Err(Error::file(&path, name, "missing beside the scales")),
            }
        };
        let (words, biases) = (part("weight")?, part("biases")?);
        let format = packing(&words, &scales, &biases, out, inner).ok_or_else(|| {
            let (w, s) = (words.shape(), scales.shape());
            let message = format!(
                "words {w:?} and scales {s:?} are no quantized {out} × {inner} matrix, which the \
                 configuration asks for"
            );
            Error::file(&path, format!("{renamed}.weight"), message)
        })?;
        self.check_declared(module, &path, &renamed, format)?;
        let (scales, biases) = (self.cast(scales)?, self.cast(biases)?);
        Ok(Linear::quantized(words, scales, biases, format, bias))
    }

    fn check_declared(
        &self,
        module: &str,
        path: &Path,
        name: &str,
        found: Quantization,
    ) -> Result<()> {
        let Some((config, declared)) = &self.declared else { return Ok(()) };
        let declared = declared.as_ref().and_then(|d| d.of(module));
        if declared == Some(found) {
            return Ok(());
        }
        let describe = |q: Quantization| format!("{} bits in groups of {}", q.bits, q.group_size);
        let says = declared.map_or("no quantization".to_owned(), describe);
        let file = path.file_name().unwrap_or_default().display();
        let message = format!("declares {says} for {name}, but {file} holds {}", describe(found));
        Err(Error::file(config, "quantization", message))
    }

    /// Refuses layers beyond those of the configuration, and tells of other unused tensors.
    pub(super) fn finish(self, config: &Path, field: &str, layers: usize) -> Result<()> {
        let beyond = (self.rename)(&format!("model.layers.{layers}"));
        for (name, (_, file)) in &self.tensors {
            let file = &self.files[*file];
            if name.starts_with(&format!("{beyond}.")) {
                let file = file.file_name().unwrap_or_default().display();
                let message = format!("says {layers} layers but {file} holds {name}");
                return Err(Error::file(config, field, message));
            }
            tracing::debug!(tensor = name, file = %file.display(), "not used by this architecture");
        }
        Ok(())
    }
}

/// Group size and bits, which follow from the shapes once the matrix is known.
fn packing(
    words: &Array,
    scales: &Array,
    biases: &Array,
    out: usize,
    inner: usize,
) -> Option<Quantization> {
    let ([rows, packed], [scale_rows, groups]) = (words.shape(), scales.shape()) else {
        return None;
    };
    let fits = words.dtype() == Dtype::Uint32
        && scales.dtype().is_floating()
        && biases.dtype().is_floating()
        && [*rows, *scale_rows] == [out, out]
        && biases.shape() == scales.shape()
        && *groups > 0
        && inner.is_multiple_of(*groups)
        && (packed * 32).is_multiple_of(inner);
    if !fits {
        return None;
    }
    let format = Quantization { group_size: inner / groups, bits: packed * 32 / inner };
    format.is_supported().then_some(format)
}
