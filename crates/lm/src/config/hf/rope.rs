//! What config.json says of the rotary position embedding.

use crate::{
    Result,
    config::{Family, RopeConfig, RopeScaling, Yarn},
    json::Fields,
};

/// The rotary position embedding.
pub(super) fn read(f: &Fields<'_>, family: Family) -> Result<RopeConfig> {
    Ok(RopeConfig {
        base: rope_base(f, family)?,
        traditional: f.bool("rope_traditional")?.unwrap_or(false),
        scaling: rope_scaling(f)?,
    })
}

fn rope_base(f: &Fields<'_>, family: Family) -> Result<f32> {
    let default = if family == Family::GptOss { 150_000.0 } else { 10_000.0 };
    let nested = f.object("rope_parameters")?.map(|p| p.float("rope_theta")).transpose()?.flatten();
    Ok(f.float("rope_theta")?.or(nested).unwrap_or(default) as f32)
}

/// `rope_scaling`, or `rope_parameters` of newer files.
fn rope_scaling(f: &Fields<'_>) -> Result<RopeScaling> {
    let block = match f.object("rope_scaling")? {
        Some(block) => block,
        None => match f.object("rope_parameters")? {
            Some(block) => block,
            None => return Ok(RopeScaling::None),
        },
    };
    let kind = match block.text("rope_type")? {
        Some(kind) => kind,
        None => block.text("type")?.unwrap_or("default"),
    };
    // As the model has them: what float32 does not hold is zero or infinite.
    let above_zero = |field: &str, number: f64| match number as f32 {
        kept if kept.is_finite() && kept > 0.0 => Ok(kept),
        _ => Err(block.error(field, format_args!("{number} must be above zero"))),
    };
    let need = |field: &str| -> Result<f32> {
        let number = block.float(field)?.ok_or_else(|| block.error(field, "missing"))?;
        above_zero(field, number)
    };
    let or = |field: &str, default: f32| -> Result<f32> {
        block.float(field)?.map_or(Ok(default), |number| above_zero(field, number))
    };
    match kind {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear(need("factor")?)),
        "llama3" => Ok(RopeScaling::Llama3 {
            factor: need("factor")?,
            low: need("low_freq_factor")?,
            high: need("high_freq_factor")?,
            original_context: need("original_max_position_embeddings")?,
        }),
        "yarn" => Ok(RopeScaling::Yarn(Yarn {
            factor: need("factor")?,
            original_context: or(
                "original_max_position_embeddings",
                Yarn::DEFAULT.original_context,
            )?,
            beta_fast: or("beta_fast", Yarn::DEFAULT.beta_fast)?,
            beta_slow: or("beta_slow", Yarn::DEFAULT.beta_slow)?,
            mscale: weight(&block, "mscale", Yarn::DEFAULT.mscale)?,
            mscale_all_dim: weight(&block, "mscale_all_dim", Yarn::DEFAULT.mscale_all_dim)?,
        })),
        other => Err(block.error(
            "rope_type",
            format_args!("{other:?} is not supported; supported: default, linear, llama3, yarn"),
        )),
    }
}

/// A number that may be zero, but not below.
fn weight(block: &Fields<'_>, field: &str, default: f32) -> Result<f32> {
    match block.float(field)? {
        None => Ok(default),
        Some(number) if number.is_finite() && number >= 0.0 => Ok(number as f32),
        Some(number) => Err(block.error(field, format_args!("{number} must not be negative"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::hf::tests::{message, with};

    #[test]
    fn rope_scaling_kinds() {
        let linear = with("rope_scaling", json!({"type": "linear", "factor": 4.0})).unwrap();
        assert_eq!(linear.rope.scaling, RopeScaling::Linear(4.0));
        let missing = message("rope_scaling", json!({"rope_type": "llama3", "factor": 8.0}));
        assert_eq!(missing, "c.json: rope_scaling.low_freq_factor: missing");
        assert!(
            message("rope_scaling", json!({"type": "su"})).contains("supported: default, linear")
        );
    }
}
