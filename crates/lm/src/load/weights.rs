//! The tensors of a model's files, handed out by module and checked against the configuration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use mlx::{Array, Dtype, ops, ops::FpMode};

use crate::{
    Error, Result,
    config::{Format, Quantization, QuantizationConfig},
    models::{Experts, Linear, Weight},
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

    /// Dtype of a module's stored floating point numbers. The scales of small floats are none.
    pub(super) fn stored_dtype(&self, module: &str) -> Option<Dtype> {
        let module = (self.rename)(module);
        let of = |part: &str| self.tensors.get(&format!("{module}.{part}")).map(|(a, _)| a.dtype());
        of("scales").or_else(|| of("weight")).filter(|dtype| dtype.is_floating())
    }

    /// Whether any tensor of the module is there.
    pub(super) fn has(&self, module: &str) -> bool {
        self.has_tensor(&format!("{}.weight", (self.rename)(module)))
    }

    /// Whether a tensor of this name is there.
    pub(super) fn has_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A floating point tensor of this shape that must be there.
    pub(super) fn need(&mut self, module: &str, part: &str, shape: &[usize]) -> Result<Array> {
        let found = self.optional(module, part, shape)?;
        found.ok_or_else(|| self.missing(format!("{}.{part}", (self.rename)(module))))
    }

    /// A floating point tensor of this shape, if it is there.
    pub(super) fn optional(
        &mut self,
        module: &str,
        part: &str,
        shape: &[usize],
    ) -> Result<Option<Array>> {
        let name = format!("{}.{part}", (self.rename)(module));
        let found = self.take(&name, shape, Dtype::is_floating, "floating point numbers")?;
        found.map(|array| self.cast(array)).transpose()
    }

    /// A tensor of bytes of this shape, by its whole name, that must be there.
    pub(super) fn need_bytes(&mut self, name: &str, shape: &[usize]) -> Result<Array> {
        let found = self.take(name, shape, |dtype| dtype == Dtype::Uint8, "bytes")?;
        found.ok_or_else(|| self.missing(name.to_owned()))
    }

    /// A floating point tensor of this shape, by its whole name, that must be there.
    pub(super) fn need_floats(&mut self, name: &str, shape: &[usize]) -> Result<Array> {
        match self.take(name, shape, Dtype::is_floating, "floating point numbers")? {
            Some(array) => self.cast(array),
            None => Err(self.missing(name.to_owned())),
        }
    }

    fn missing(&self, name: String) -> Error {
        Error::file(self.file(), name, "missing")
    }

    /// A tensor, if it is there, with this shape and a dtype that is `wanted`.
    fn take(
        &mut self,
        name: &str,
        shape: &[usize],
        fits: impl Fn(Dtype) -> bool,
        wanted: &str,
    ) -> Result<Option<Array>> {
        let Some((array, file)) = self.tensors.remove(name) else { return Ok(None) };
        let file = &self.files[file];
        if array.shape() != shape {
            let got = array.shape();
            let message = format!("has shape {got:?} but the configuration asks for {shape:?}");
            return Err(Error::file(file, name, message));
        }
        if !fits(array.dtype()) {
            let message = format!("has dtype {} but {wanted} are needed", array.dtype());
            return Err(Error::file(file, name, message));
        }
        Ok(Some(array))
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
        Ok(Linear::new(self.weight(module, &[out, inner])?, bias))
    }

    /// A stack of matrices (experts, out, in), dense or quantized, with biases if there are some.
    pub(super) fn experts(
        &mut self,
        module: &str,
        experts: usize,
        out: usize,
        inner: usize,
    ) -> Result<Experts> {
        let bias = self.optional(module, "bias", &[experts, out])?;
        Ok(Experts::new(self.weight(module, &[experts, out, inner])?, bias))
    }

    /// Matrices of this shape (…, out, in), dense or quantized.
    fn weight(&mut self, module: &str, shape: &[usize]) -> Result<Weight> {
        let renamed = (self.rename)(module);
        let Some((scales, file)) = self.tensors.remove(&format!("{renamed}.scales")) else {
            return Ok(Weight::dense(self.need(module, "weight", shape)?)?);
        };
        let path = self.files[file].clone();
        let mut part = |part: &str| {
            let name = format!("{renamed}.{part}");
            match self.tensors.remove(&name) {
                Some((array, _)) => Ok(array),
                None => Err(Error::file(&path, name, "missing beside the scales")),
            }
        };
        let words = part("weight")?;
        // Scales of small floats are bytes, and have no biases beside them.
        let biases = if scales.dtype().is_floating() { Some(part("biases")?) } else { None };
        self.quantized(module, &path, Parts { words, scales, biases }, shape)
    }

    /// The weight of a module that these parts make, checked: matrices of this shape (…, out, in).
    pub(super) fn quantized(
        &self,
        module: &str,
        path: &Path,
        parts: Parts,
        shape: &[usize],
    ) -> Result<Weight> {
        let name = (self.rename)(module);
        let format = parts.format(shape).ok_or_else(|| {
            let (w, s) = (parts.words.shape(), parts.scales.shape());
            let what = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
            let message = format!(
                "words {w:?} and scales {s:?} are no quantized {what} matrix, which the configuration \
                 asks for"
            );
            Error::file(path, format!("{name}.weight"), message)
        })?;
        self.check_declared(module, path, &name, format)?;
        let Parts { words, scales, biases } = parts;
        match (format, biases) {
            (Format::Affine(format), Some(biases)) => {
                let (scales, biases) = (self.cast(scales)?, self.cast(biases)?);
                Ok(Weight::Affine { words, scales, biases, format })
            }
            (Format::Floats(mode), _) => {
                // As upstream dequantizes where nobody says otherwise.
                let dtype = self.dtype.unwrap_or(Dtype::Bfloat16);
                Ok(Weight::Floats { words, scales, mode, dtype })
            }
            (Format::Affine(_), None) => unreachable!("an affine format was found by its biases"),
        }
    }

    /// The file that messages name where no tensor tells it.
    pub(super) fn file(&self) -> &Path {
        self.files.first().map_or(Path::new("weights"), PathBuf::as_path)
    }

    /// Holds what config.json declares for a module against what was found.
    fn check_declared(&self, module: &str, path: &Path, name: &str, found: Format) -> Result<()> {
        let Some((config, declared)) = &self.declared else { return Ok(()) };
        let declared = declared.as_ref().and_then(|d| d.of(module));
        if declared == Some(found) {
            return Ok(());
        }
        let says = declared.map_or("no quantization".to_owned(), |format| format.to_string());
        let file = path.file_name().unwrap_or_default().display();
        let message = format!("declares {says} for {name}, but {file} holds {found}");
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

/// The tensors of quantized matrices.
pub(super) struct Parts {
    /// Packed words (…, out, words).
    pub(super) words: Array,
    /// Scales (…, out, groups).
    pub(super) scales: Array,
    /// Biases of the same shape, which small floats do not have.
    pub(super) biases: Option<Array>,
}

impl Parts {
    /// The format, which follows from the shapes once that of the matrices (…, out, in) is known.
    fn format(&self, shape: &[usize]) -> Option<Format> {
        let Self { words, scales, biases } = self;
        let (rows, inner) = (&shape[..shape.len() - 1], shape[shape.len() - 1]);
        let (packed, groups) = (*words.shape().last()?, *scales.shape().last()?);
        let rows_of = |array: &Array| array.shape()[..array.ndim() - 1] == *rows;
        let fits = words.dtype() == Dtype::Uint32
            && rows_of(words)
            && rows_of(scales)
            && groups > 0
            && inner.is_multiple_of(groups)
            && packed.checked_mul(32)?.is_multiple_of(inner);
        if !fits {
            return None;
        }
        let (group_size, bits) = (inner / groups, packed * 32 / inner);
        match biases {
            Some(biases) => {
                let format = Quantization { group_size, bits };
                let fits = biases.shape() == scales.shape() && biases.dtype().is_floating();
                (fits && format.is_supported()).then_some(Format::Affine(format))
            }
            None => {
                let fits = |mode: &FpMode| {
                    scales.dtype() == Dtype::Uint8
                        && (mode.group_size(), mode.bits()) == (group_size, bits)
                };
                let modes = [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8];
                modes.into_iter().find(fits).map(Format::Floats)
            }
        }
    }
}
