//! Whether products of a dtype go to cooperative matrices.

use mlx_vulkan_core::Dtype;

use crate::runtime::{
    capabilities::{Capabilities, Fragment},
    config::Config,
};

/// Bytes of shared memory of a kernel that finds out where elements of fragments of 16 columns lie
/// (`fragments.glsl`), with what else it keeps there once.
pub(crate) const NUMBERS: u32 = 128 * 16 + 64;

/// The fragments for a dtype where products may use them. `leading` are the distances of rows: the
/// kernel's offsets within a tile have 32 bits.
pub(crate) fn fragment(
    dtype: Dtype,
    leading: [i64; 2],
    caps: &Capabilities,
    config: &Config,
) -> Option<Fragment> {
    let near = leading.iter().all(|l| (0..1 << 22).contains(l));
    match dtype {
        _ if !config.enable_coopmat || !near || caps.is_software() => None,
        Dtype::Float16 => caps.fragments.float16,
        Dtype::Bfloat16 => caps.fragments.bfloat16,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::{DeviceKind, Fragments};

    const SQUARE: Fragment = Fragment { m: 16, n: 16, k: 16 };

    #[test]
    fn dtype_gate_device_and_distance_decide() {
        let fragments = Fragments { float16: Some(SQUARE), bfloat16: None };
        let caps = Capabilities { fragments, ..Capabilities::default() };
        let config = Config::default();
        assert_eq!(fragment(Dtype::Float16, [64, 64], &caps, &config), Some(SQUARE));
        assert_eq!(fragment(Dtype::Bfloat16, [64, 64], &caps, &config), None);
        assert_eq!(fragment(Dtype::Float32, [64, 64], &caps, &config), None);
        assert_eq!(fragment(Dtype::Float16, [64, 1 << 22], &caps, &config), None);
        assert_eq!(fragment(Dtype::Float16, [-1, 64], &caps, &config), None);
        let off = Config { enable_coopmat: false, ..Config::default() };
        assert_eq!(fragment(Dtype::Float16, [64, 64], &caps, &off), None);
        let software = Capabilities { kind: DeviceKind::Software, ..caps };
        assert_eq!(fragment(Dtype::Float16, [64, 64], &software, &config), None);
    }
}
