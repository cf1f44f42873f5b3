//! Convolutions: which kernel.

use super::matmul::{Gemm, Tile, listed};
use crate::capabilities::Capabilities;

/// Sizes of a convolution as products: of `windows` rows, per group of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Windows of all batches.
    pub windows: usize,
    /// Elements of a window.
    pub taps: usize,
    /// Groups.
    pub groups: usize,
    /// Channels of a group.
    pub channels: usize,
    /// Outputs of a group.
    pub outputs: usize,
    /// Channels lie on multiples of four elements.
    pub aligned: bool,
}

/// The variant of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// `direct.comp`, a thread for four channels that do not mix.
    Depthwise,
    /// `direct.comp`, a thread for an output.
    Direct,
    /// `tile.comp`; whether four channels are loaded at once.
    Tile(Tile, bool),
}

/// Chooses the kernel.
pub fn plan(p: &Product, caps: &Capabilities) -> Plan {
    if p.channels == 1 && p.outputs == 1 && p.groups.is_multiple_of(4) && p.aligned {
        return Plan::Depthwise;
    }
    // A tile of few columns, or of few steps of k, leaves most threads without work.
    if p.outputs < 8 || p.channels * p.taps < 8 {
        return Plan::Direct;
    }
    match listed(p.windows, p.outputs, p.groups, true, caps) {
        Gemm::Tile(tile, _) => Plan::Tile(tile, p.aligned && p.channels.is_multiple_of(4)),
        _ => Plan::Direct,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_that_do_not_mix_and_narrow_groups_are_summed_directly() {
        let caps = Capabilities::default();
        let whole =
            Product { windows: 4096, taps: 9, groups: 1, channels: 64, outputs: 64, aligned: true };
        assert!(matches!(plan(&whole, &caps), Plan::Tile(_, true)));
        let odd = Product { channels: 3, ..whole };
        assert!(matches!(plan(&odd, &caps), Plan::Tile(_, false)));
        let depthwise = Product { groups: 64, channels: 1, outputs: 1, ..whole };
        assert_eq!(plan(&depthwise, &caps), Plan::Depthwise);
        assert_eq!(plan(&Product { aligned: false, ..depthwise }, &caps), Plan::Direct);
        let narrow = Product { groups: 16, channels: 4, outputs: 4, ..whole };
        assert_eq!(plan(&narrow, &caps), Plan::Direct);
    }
}
