//! The `quantization` block of an MLX config.json.

use std::collections::HashMap;

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

/// Declared quantization: one for all matrices, and exceptions by name.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizationConfig {
    /// What most matrices use.
    pub default: Quantization,
    /// Exceptions by module path, such as `model.layers.0.mlp.down_proj`; `None`: not quantized.
    pub overrides: HashMap<String, Option<Quantization>>,
}

impl QuantizationConfig {
    /// The declared quantization of a module.
    pub fn of(&self, module: &str) -> Option<Quantization> {
        self.overrides.get(module).copied().unwrap_or(Some(self.default))
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
                    let method = block.text("quant_method")?.unwrap_or("unknown");
                    let message =
                        format!("{method} is not supported; supported: MLX's affine quantization");
                    return Err(block.error("quant_method", message));
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

fn one(block: &Fields<'_>) -> Result<Quantization> {
    if let Some(mode) = block.text("mode")?.filter(|mode| *mode != "affine") {
        return Err(
            block.error("mode", format_args!("{mode:?} is not supported; supported: affine"))
        );
    }
    let (group_size, bits) = (block.need_size("group_size")?, block.need_size("bits")?);
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
