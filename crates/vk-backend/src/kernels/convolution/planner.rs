//! Convolutions: which kernel.

use crate::{
    kernels::matmul::{
        matrix::{self, MatrixTile, Right},
        planner::{Gemm, Tile, gemm, listed},
    },
    runtime::capabilities::{Capabilities, Fragment},
};

/// Bytes of windows that are unfolded at a time: what a product then reads still lies in a large
/// device's cache.
const UNFOLDED: usize = 32 << 20;

/// Parts of k of a product that is deep and small.
const MOST_PARTS: u32 = 256;

/// Multiplications from which few outputs, as of images' colours, take a tile that is mostly air: by
/// `direct.comp` an H200 makes 1 TFLOP/s (3 outputs of 262,144 windows with 1,152 elements 1.64 ms).
const FEW_OUTPUTS: usize = 1 << 24;

/// Classes of outputs, each with a dispatch, up to which a spread input is not unfolded.
const MOST_CLASSES: usize = 16;

/// The tile and parts of k of [windows, outputs, depth] on cooperative matrices, where windows are gathered;
/// the windows are those of one of the `classes`, which are not split.
pub(crate) fn windows(
    size: [usize; 3],
    classes: usize,
    fragment: Fragment,
    caps: &Capabilities,
) -> Option<(MatrixTile, u32)> {
    let most = if classes > 1 { 1 } else { MOST_PARTS };
    let shapes = [&matrix::WIDE, &matrix::LARGE, &matrix::TALL, &matrix::SMALL];
    let [rows, outputs, depth] = size;
    let many = rows.saturating_mul(outputs).saturating_mul(depth) >= FEW_OUTPUTS;
    let size = [rows, if many { outputs.max(matrix::LEAST) } else { outputs }, depth];
    if classes > MOST_CLASSES { None } else { matrix::best(&shapes, size, most, fragment, caps) }
}

/// The same of a derivative by the weight: of [outputs, taps and channels, windows].
pub(crate) fn weight(
    size: [usize; 3],
    fragment: Fragment,
    caps: &Capabilities,
) -> Option<(MatrixTile, u32)> {
    let shapes = [&matrix::BUSY, &matrix::LARGE, &matrix::FLAT];
    matrix::best(&shapes, size, MOST_PARTS, fragment, caps)
        .or_else(|| matrix::best(&[&matrix::SMALL], size, MOST_PARTS, fragment, caps))
}

/// Sizes of a convolution as products: of `windows` rows, per group of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConvolutionSizes {
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
    /// The input is the matrix of windows: one tap, and no gaps.
    pub pointwise: bool,
    /// Bytes of an element.
    pub size: usize,
    /// What cooperative matrices multiply of this dtype, if they may.
    pub fragment: Option<Fragment>,
}

impl ConvolutionSizes {
    /// Elements of a window.
    pub(crate) const fn depth(&self) -> usize {
        self.taps * self.channels
    }
}

/// The variant of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConvolutionPlan {
    /// `direct.comp`, a thread for four channels that do not mix.
    Depthwise,
    /// `direct.comp`, a thread for an output.
    Direct,
    /// `tile.comp`; whether four channels are loaded at once.
    Tile(Tile, bool),
    /// A product with the windows as a matrix, so many of them at a time.
    Product(Gemm, usize),
}

/// Chooses the kernel.
pub(crate) fn plan(p: &ConvolutionSizes, caps: &Capabilities) -> ConvolutionPlan {
    if p.channels == 1 && p.outputs == 1 && p.groups.is_multiple_of(4) && p.aligned {
        return ConvolutionPlan::Depthwise;
    }
    // A tile of few columns, or of a short k, leaves most threads without work.
    if p.outputs < 8 || p.depth() < 8 {
        return ConvolutionPlan::Direct;
    }
    if let Some(plan) = product(p, caps) {
        return plan;
    }
    match listed(p.windows, p.outputs, p.groups, true, caps) {
        Gemm::Tile(tile, _) => {
            ConvolutionPlan::Tile(tile, p.aligned && p.channels.is_multiple_of(4))
        }
        _ => ConvolutionPlan::Direct,
    }
}

/// A product by what dense products have and the tiles of a convolution do not: cooperative matrices,
/// and lanes of a software device. Where the input is the matrix, any product serves.
fn product(p: &ConvolutionSizes, caps: &Capabilities) -> Option<ConvolutionPlan> {
    if p.groups > 1 {
        return None;
    }
    let at_once = match p.pointwise {
        true => p.windows,
        false => (UNFOLDED / (p.depth() * p.size)).next_multiple_of(128).min(p.windows),
    };
    let gemm = gemm(at_once, p.outputs, p.depth(), 1, p.fragment, Right::Dense, caps);
    let pays = p.pointwise || !matches!(gemm, Gemm::Tile(..));
    pays.then_some(ConvolutionPlan::Product(gemm, at_once))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_that_do_not_mix_and_narrow_groups_are_summed_directly() {
        let caps = Capabilities::default();
        let whole = ConvolutionSizes {
            windows: 4096,
            taps: 9,
            groups: 1,
            channels: 64,
            outputs: 64,
            aligned: true,
            pointwise: false,
            size: 2,
            fragment: None,
        };
        assert!(matches!(plan(&whole, &caps), ConvolutionPlan::Tile(_, true)));
        let odd = ConvolutionSizes { channels: 3, ..whole };
        assert!(matches!(plan(&odd, &caps), ConvolutionPlan::Tile(_, false)));
        let depthwise = ConvolutionSizes { groups: 64, channels: 1, outputs: 1, ..whole };
        assert_eq!(plan(&depthwise, &caps), ConvolutionPlan::Depthwise);
        assert_eq!(
            plan(&ConvolutionSizes { aligned: false, ..depthwise }, &caps),
            ConvolutionPlan::Direct
        );
        let narrow = ConvolutionSizes { groups: 16, channels: 4, outputs: 4, ..whole };
        assert_eq!(plan(&narrow, &caps), ConvolutionPlan::Direct);
    }

    #[test]
    fn windows_become_matrices_where_products_are_faster() {
        let fragment = Fragment { m: 16, n: 16, k: 16 };
        let caps = Capabilities { compute_units: 132, ..Capabilities::default() };
        let p = ConvolutionSizes {
            windows: 100_352,
            taps: 9,
            groups: 1,
            channels: 256,
            outputs: 256,
            aligned: true,
            pointwise: false,
            size: 2,
            fragment: Some(fragment),
        };
        assert!(matches!(plan(&p, &caps), ConvolutionPlan::Product(Gemm::Matrix(..), 7296)));
        let few = ConvolutionSizes { windows: 1000, ..p };
        assert!(matches!(plan(&few, &caps), ConvolutionPlan::Product(Gemm::Matrix(..), 1000)));
        let pointwise = ConvolutionSizes { taps: 1, pointwise: true, fragment: None, ..p };
        assert!(matches!(
            plan(&pointwise, &caps),
            ConvolutionPlan::Product(Gemm::Tile(..), 100_352)
        ));
        assert!(matches!(
            plan(&ConvolutionSizes { fragment: None, ..p }, &caps),
            ConvolutionPlan::Tile(..)
        ));
        assert!(matches!(
            plan(&ConvolutionSizes { groups: 2, ..p }, &caps),
            ConvolutionPlan::Tile(..)
        ));
    }
}
