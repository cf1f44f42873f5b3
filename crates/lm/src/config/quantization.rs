//! The `quantization` block of an MLX config.json.

use std::collections::HashMap;

use mlx::ops::FpMode;

use crate::{Result, json::Fields};

/// Affine quantization of one matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantization {
    /// Columns that share a scale and a bias.
    pub group_size: usize,
    /// Bits per weight.
    pub bits: usize,
}

impl Quantization {
    /// Whether kernels exist for it.
    pub fn is_supported(self) -> bool {
        matches!(self.group_size, 32 | 64 | 128) && matches!(self.bits, 2 | 3 | 4 | 5 | 6 | 8)
    }
}

/// How a quantized matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Integers with a scale and a bias per group.
    Affine(Quantization),
    /// Small floats with a scale per group.
    Floats(FpMode),
}

impl Format {
    /// Columns that share a scale.
    pub fn group_size(self) -> usize {
        match self {
            Self::Affine(affine) => affine.group_size,
            Self::Floats(mode) => mode.group_size(),
        }
    }

    /// Bits per weight.
    pub fn bits(self) -> usize {
        match self {
            Self::Affine(affine) => affine.bits,
            Self::Floats(mode) => mode.bits(),
        }
    }
}

impl From<Quantization> for Format {
    fn from(affine: Quantization) -> Self {
        Self::Affine(affine)
    }
}

/// As messages say it.
impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Affine(q) => write!(f, "{} bits in groups of {}", q.bits, q.group_size),
            Self::Floats(mode) => f.write_str(mode.name()),
        }
    }
}

/// Declared quantization: one for all matrices, and exceptions by name.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizationConfig {
    /// What most matrices use.
    pub default: Format,
    /// Exceptions by module path, such as `model.layers.0.mlp.down_proj`; `None`: not quantized.
    pub overrides: HashMap<String, Option<Format>>,
}

impl QuantizationConfig {
    /// The declared quantization of a module.
    pub fn of(&self, module: &str) -> Option<Format> {
        self.overrides.get(module).copied().unwrap_or(Some(self.default))
    }

    /// One format for all matrices.
    fn all(default: Format) -> Self {
        Self { default, overrides: HashMap::new() }
    }

    /// Reads the block, if there is one.
    pub(super) fn read(config: &Fields<'_>) -> Result<Option<Self>> {
        // Older files say quantization_config; files of other quantizers use that name as well.
        let block = match config.object("quantization")? {
            Some(block) => block,
            None => match config.object("quantization_config")? {
                Some(block)
                    if block.get("group_size").is_some() && block.get("quant_method").is_none() =>
                {
                    block
                }
                Some(block) => {
                    return match block.text("quant_method")?.unwrap_or("unknown") {
                        // What a file holds dense stays so: its list of modules says nothing more.
                        "mxfp4" => Ok(Some(Self::all(Format::Floats(FpMode::Mxfp4)))),
                        method => {
                            let message = format!(
                                "{method} is not supported; supported: MLX's own, and mxfp4"
                            );
                            Err(block.error("quant_method", message))
                        }
                    };
                }
                None => return Ok(None),
            },
        };
        let default = one(&block)?;
        let mut overrides = HashMap::new();
        for (name, value) in block.entries() {
            if value.is_object() {
                let exception = block.object(name)?.map(|b| one(&b)).transpose()?;
                overrides.insert(name.clone(), exception);
            } else if value.as_bool() == Some(false) {
                overrides.insert(name.clone(), None);
            }
        }
        Ok(Some(Self { default, overrides }))
    }
}

fn one(block: &Fields<'_>) -> Result<Format> {
    let (group_size, bits) = (block.need_size("group_size")?, block.need_size("bits")?);
    match block.text("mode")? {
        None | Some("affine") => affine(block, group_size, bits).map(Format::Affine),
        Some(name) => small_floats(block, name, group_size, bits).map(Format::Floats),
    }
}

fn affine(block: &Fields<'_>, group_size: usize, bits: usize) -> Result<Quantization> {
    if !matches!(group_size, 32 | 64 | 128) {
        return Err(
            block.error("group_size", format_args!("{group_size} is not one of 32, 64, 128"))
        );
    }
    if !matches!(bits, 2 | 3 | 4 | 5 | 6 | 8) {
        return Err(block.error("bits", format_args!("{bits} is not one of 2, 3, 4, 5, 6, 8")));
    }
    Ok(Quantization { group_size, bits })
}

fn small_floats(block: &Fields<'_>, name: &str, group_size: usize, bits: usize) -> Result<FpMode> {
    let modes = [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8];
    let mode = modes.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
        let message = format!("{name:?} is not supported; supported: affine, mxfp4, nvfp4, mxfp8");
        block.error("mode", message)
    })?;
    if block.get("global_scale").is_some_and(|scale| scale.as_bool() != Some(false)) {
        return Err(block.error("global_scale", "is not supported"));
    }
    if (group_size, bits) != (mode.group_size(), mode.bits()) {
        let (groups, own) = (mode.group_size(), mode.bits());
        let message = format!(
            "{name} has {own} bits in groups of {groups}, not {bits} in groups of {group_size}"
        );
        return Err(block.error("mode", message));
    }
    Ok(mode)
}
