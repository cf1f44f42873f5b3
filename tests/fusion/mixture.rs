//! Mixtures of experts for a few tokens: which experts these pick, and what the picked ones say.

use mlx::{Array, Dtype, Result, fast, ops};
use ops::{FpMode, Picks};

use super::{Linear, agrees, noise, turn};

/// Experts, and those that a token picks.
const EXPERTS: usize = 12;
const PICKED: isize = 3;

/// How shares are written.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shares {
    /// Softmax of all experts, divided by the sum of the picked ones'.
    OfAll,
    /// Softmax of the picked ones.
    OfPicked,
    Scores(Scores),
}

/// Sigmoids of logits as DeepSeek-V3 and models after it have them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scores {
    /// They are float32, and the weighted sum with them.
    pub(super) wide: bool,
    /// A number of each expert is added while they are picked.
    pub(super) biased: bool,
    /// Shares are divided by their sum and this.
    pub(super) eps: Option<f32>,
    pub(super) factor: Option<f32>,
}

impl Scores {
    fn route(&self, logits: &Array) -> Result<[Array; 2]> {
        let (dtype, experts) = (logits.dtype(), logits.dim(-1));
        let logits = if self.wide { ops::astype(logits, Dtype::Float32)? } else { logits.clone() };
        let all = ops::sigmoid(&logits)?;
        // So large that other experts are picked.
        let bias = ops::multiply(noise(31, &[experts], Dtype::Float32), 0.5f32)?;
        bias.eval()?;
        let preferred = if self.biased { ops::add(&all, &bias)? } else { all.clone() };
        let order = ops::argpartition(&ops::negative(&preferred)?, PICKED - 1, -1)?;
        let picks = ops::slice_axis(&order, all.ndim() as isize - 1, 0, PICKED)?;
        let mut shares = ops::take_along_axis(&all, &picks, -1)?;
        if let Some(eps) = self.eps {
            let sum = ops::sum(&shares, &[-1], true)?;
            let below = if eps == 0.0 { sum } else { ops::add(&sum, eps)? };
            shares = ops::divide(&shares, &below)?;
        }
        if let Some(factor) = self.factor {
            shares = ops::multiply(&shares, factor)?;
        }
        Ok([picks, if self.wide { shares } else { ops::astype(&shares, dtype)? }])
    }
}

/// Indices of the experts with the largest logits, and their shares.
fn route(logits: &Array, shares: Shares) -> Result<[Array; 2]> {
    let all = match shares {
        Shares::Scores(scores) => return scores.route(logits),
        Shares::OfAll => ops::softmax(logits, &[-1], true)?,
        Shares::OfPicked => logits.clone(),
    };
    let (last, count) = (all.ndim() as isize - 1, all.dim(-1) as isize);
    // In both ways that models have; indices have no derivatives, as they say.
    let picks = match shares {
        Shares::OfAll => {
            let order = ops::argpartition(&all, -PICKED, -1)?;
            ops::slice_axis(&order, last, count - PICKED, count)?
        }
        _ => {
            let order = ops::argpartition(&ops::negative(&all)?, PICKED - 1, -1)?;
            ops::slice_axis(&order, last, 0, PICKED)?
        }
    };
    let picks = ops::stop_gradient(&picks)?;
    let values = ops::take_along_axis(&all, &picks, -1)?;
    let shares = match shares {
        Shares::OfAll => ops::divide(&values, &ops::sum(&values, &[-1], true)?)?,
        _ => ops::softmax(&values, &[-1], true)?,
    };
    Ok([picks, shares])
}

/// The shares where they belong among all experts': the order of the picks is nobody's business.
fn spread(logits: &Array, [picks, shares]: &[Array; 2]) -> Result<Vec<Array>> {
    let zeros = ops::zeros_like(logits)?;
    Ok(vec![ops::put_along_axis(&zeros, picks, shares, -1)?, ops::sort(picks, -1)?])
}

#[test]
fn experts_are_picked_at_once() {
    let _turn = turn();
    for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
        for (shape, experts) in [(&[1, 1][..], 12), (&[2, 3], 128), (&[5], 4), (&[1, 1], 200)] {
            let logits = noise(1, &[shape, &[experts]].concat(), Dtype::Float32);
            // So far apart that rounding makes none of them equal.
            let order = ops::argsort(&logits, -1).unwrap();
            let logits = ops::multiply(ops::astype(&order, dtype).unwrap(), 0.0625f32).unwrap();
            logits.eval().unwrap();
            for (shares, fused) in [(Shares::OfAll, 6), (Shares::OfPicked, 4)] {
                let graph = || spread(&logits, &route(&logits, shares)?);
                agrees(&format!("{shares:?} of {experts} {dtype} {shape:?}"), fused, dtype, &graph);
            }
        }
    }
}

/// Other ends of the order, shares of others, and more picks than a subgroup has lanes on any device.
#[test]
fn other_choices_are_left_alone() {
    let _turn = turn();
    let logits = noise(1, &[2, 300], Dtype::Float32);
    let beginning = || {
        let order = ops::argpartition(&logits, 2, -1)?;
        let picks = ops::slice_axis(&order, 1, 0, 3)?;
        let values = ops::take_along_axis(&logits, &picks, -1)?;
        spread(&logits, &[picks, ops::softmax(&values, &[-1], true)?])
    };
    agrees("the least", 0, Dtype::Float32, &beginning);
    let many = || {
        let order = ops::argpartition(&logits, -200, -1)?;
        let picks = ops::slice_axis(&order, 1, 100, 300)?;
        let values = ops::take_along_axis(&logits, &picks, -1)?;
        spread(&logits, &[picks, ops::softmax(&values, &[-1], true)?])
    };
    agrees("many", 0, Dtype::Float32, &many);
    // As many picks as tokens, and sums that divide columns instead of rows.
    let square = noise(2, &[3, 12], Dtype::Float32);
    let columns = || {
        let all = ops::softmax(&square, &[-1], true)?;
        let picks = ops::slice_axis(&ops::argpartition(&all, -3, -1)?, 1, 9, 12)?;
        let values = ops::take_along_axis(&all, &picks, -1)?;
        let shares = ops::divide(&values, &ops::sum(&values, &[-1], false)?)?;
        // In the order of the experts, which columns do not have.
        Ok(vec![ops::sum(&ops::multiply(&shares, 0.0f32)?, &[], false)?, ops::sort(&picks, -1)?])
    };
    agrees("columns", 0, Dtype::Float32, &columns);
    let logarithm = || {
        let picks = ops::slice_axis(&ops::argpartition(&logits, -1, -1)?, 1, 299, 300)?;
        let values = ops::take_along_axis(&logits, &picks, -1)?;
        Ok(vec![ops::logsumexp(&values, &[-1], true)?])
    };
    agrees("logarithm", 0, Dtype::Float32, &logarithm);
}

/// What the matrices of experts are packed as.
#[derive(Clone, Copy, Debug)]
enum Format {
    Affine(usize, usize),
    Floats(FpMode),
}

/// A stack of matrices (experts, outputs, inner).
struct Stack {
    parts: Vec<Array>,
    format: Format,
    /// (experts, outputs).
    bias: Option<Array>,
}

impl Stack {
    fn new(seed: u64, outputs: usize, inner: usize, format: Format, dtype: Dtype) -> Self {
        let dense = noise(seed, &[EXPERTS, outputs, inner], dtype);
        let parts = match format {
            Format::Affine(bits, group) => {
                let (w, s, b) = ops::quantize(&dense, group, bits).unwrap();
                vec![w, s, b]
            }
            Format::Floats(mode) => {
                let (w, s) = ops::fp_quantize(&dense, mode, None).unwrap();
                vec![w, s]
            }
        };
        mlx::eval(&parts.iter().collect::<Vec<_>>()).unwrap();
        Stack { parts, format, bias: None }
    }

    fn biased(mut self, seed: u64, dtype: Dtype) -> Self {
        let bias = noise(seed, &[EXPERTS, self.parts[0].dim(1)], dtype);
        bias.eval().unwrap();
        self.bias = Some(bias);
        self
    }

    fn forward(&self, x: &Array, picks: &Array) -> Result<Array> {
        let product = self.product(x, picks)?;
        match &self.bias {
            Some(bias) => {
                ops::add(&product, &ops::expand_dims(&ops::take(bias, picks, 0)?, &[-2])?)
            }
            None => Ok(product),
        }
    }

    fn product(&self, x: &Array, picks: &Array) -> Result<Array> {
        let picks = Picks { lhs: None, rhs: Some(picks), sorted: false };
        match (self.format, &self.parts[..]) {
            (Format::Affine(bits, group), [w, s, b]) => {
                ops::gather_qmm(x, w, s, b, picks, true, group, bits)
            }
            (Format::Floats(mode), [w, s]) => ops::fp_gather_qmm(x, w, s, picks, true, mode, None),
            _ => unreachable!("affine matrices have biases, others none"),
        }
    }
}

/// The experts of a layer.
struct Layer {
    gate: Stack,
    up: Stack,
    down: Stack,
}

impl Layer {
    fn new([hidden, width]: [usize; 2], format: Format, dtype: Dtype) -> Self {
        Layer {
            gate: Stack::new(2, width, hidden, format, dtype),
            up: Stack::new(3, width, hidden, format, dtype),
            down: Stack::new(4, hidden, width, format, dtype),
        }
    }

    fn biased(self, dtype: Dtype) -> Self {
        Layer {
            gate: self.gate.biased(12, dtype),
            up: self.up.biased(13, dtype),
            down: self.down.biased(14, dtype),
        }
    }

    /// (tokens, hidden) through the picked experts, weighed.
    fn forward(&self, x: &Array, picks: &Array, shares: &Array) -> Result<Array> {
        let x = ops::expand_dims(x, &[-2, -3])?;
        let (up, gate) = (self.up.forward(&x, picks)?, self.gate.forward(&x, picks)?);
        let gated = ops::multiply(&ops::multiply(&gate, &ops::sigmoid(&gate)?)?, &up)?;
        let said = ops::squeeze(&self.down.forward(&gated, picks)?, &[-2])?;
        ops::sum(&ops::multiply(&said, &ops::expand_dims(shares, &[-1])?)?, &[-2], false)
    }
}

/// The expert of a pick, as picks of all tokens are counted.
type Expert = fn(usize) -> usize;

/// Experts by turns, and such that one is picked often and others never.
fn even(i: usize) -> usize {
    (i * 5 + i / 3) % EXPERTS
}
fn skewed(i: usize) -> usize {
    if i.is_multiple_of(7) { EXPERTS - 1 } else { i % 3 }
}

/// Rows of so many tokens, the three experts that each picks, and their shares.
fn tokens_of([tokens, hidden]: [usize; 2], dtype: Dtype, expert: Expert) -> [Array; 3] {
    let x = noise(7, &[tokens, hidden], dtype);
    let picks: Vec<f64> = (0..tokens * 3).map(|i| expert(i) as f64).collect();
    let picks = mlx_tests::array(&picks, &[tokens, 3], Dtype::Uint32);
    let shares = ops::abs(&noise(8, &[tokens, 3], dtype)).unwrap();
    mlx::eval(&[&x, &picks, &shares]).unwrap();
    [x, picks, shares]
}

/// Operations that repeat the numbers of rows, for gate and up: those of a single row are constants.
fn repeated(tokens: usize) -> u64 {
    if tokens == 1 { 0 } else { 2 }
}

/// Two kernels for one token, for a few and for as many as have more than 64 picks, in every format; sizes
/// that are no whole blocks.
#[test]
fn picked_experts_are_two_kernels() {
    let _turn = turn();
    let formats = [(4, 64), (8, 32), (3, 64), (6, 32)].map(|(b, g)| Format::Affine(b, g));
    let floats = [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8].map(Format::Floats);
    for (i, format) in formats.into_iter().chain(floats).enumerate() {
        let dtype = [Dtype::Bfloat16, Dtype::Float32, Dtype::Float16][i % 3];
        let layer = Layer::new([192, 320], format, dtype);
        for tokens in [1, 4, 26] {
            let [x, picks, shares] = tokens_of([tokens, 192], dtype, even);
            let repeated = repeated(tokens);
            let graph = || Ok(vec![layer.forward(&x, &picks, &shares)?]);
            agrees(&format!("{format:?} {dtype} {tokens} tokens"), 9 + repeated, dtype, &graph);
            let graph = || Ok(vec![ops::add(&x, &layer.forward(&x, &picks, &shares)?)?]);
            let what = format!("{format:?} {dtype} {tokens} tokens and more");
            agrees(&what, 11 + repeated, dtype, &graph);
        }
    }
}

/// Matrices that cooperative ones take: few picks of an expert, many of them, and more than a tile has, with
/// experts that nobody picks.
#[test]
pub(super) fn picks_of_an_expert_are_multiplied_together() {
    let _turn = turn();
    let sizes = [
        (64, [256, 128]),
        (128, [256, 128]),
        (32, [384, 128]),
        (128, [256, 512]),
        (64, [192, 128]),
        (32, [224, 128]),
        (32, [256, 256]),
        (64, [1024, 768]),
    ];
    for (i, (group, sides @ [hidden, _])) in sizes.into_iter().enumerate() {
        let dtype = [Dtype::Bfloat16, Dtype::Float16][i % 2];
        let layer = Layer::new(sides, Format::Affine(4, group), dtype);
        let picks: [(usize, Expert); 4] = [(7, even), (16, skewed), (28, even), (32, skewed)];
        for (tokens, expert) in picks {
            let [x, picks, shares] = tokens_of([tokens, hidden], dtype, expert);
            let graph = || Ok(vec![layer.forward(&x, &picks, &shares)?]);
            let what = format!("{tokens} tokens, {sides:?}, groups of {group}, {dtype}");
            agrees(&what, 9 + repeated(tokens), dtype, &graph);
            let graph = || Ok(vec![ops::add(&x, &layer.forward(&x, &picks, &shares)?)?]);
            agrees(&format!("{what} and more"), 11 + repeated(tokens), dtype, &graph);
        }
    }
}

/// Small floats that cooperative matrices take, with and without biases: rows of whole chunks of 128
/// elements, and such that end within one, whose scales begin at any byte. Affine matrices with biases.
#[test]
pub(super) fn picks_with_biases_are_multiplied_together() {
    let _turn = turn();
    let (floats, dtype) = (Format::Floats(FpMode::Mxfp4), Dtype::Bfloat16);
    let affine = (Format::Affine(4, 64), [512, 256]);
    let floats = [[256, 128], [160, 192], [288, 448]].map(|sides| (floats, sides));
    for (format, sides) in floats.into_iter().chain([affine]) {
        let plain = Layer::new(sides, format, dtype);
        let layers = [(plain, 9), (Layer::new(sides, format, dtype).biased(dtype), 18)];
        for ((layer, members), tokens) in layers.iter().flat_map(|l| [(l, 7), (l, 28), (l, 32)]) {
            let expert: Expert = if tokens == 32 { skewed } else { even };
            let [x, picks, shares] = tokens_of([tokens, sides[0]], dtype, expert);
            let what = format!("{format:?}, {tokens} tokens, {sides:?}, {members} operations");
            let graph = || Ok(vec![layer.forward(&x, &picks, &shares)?]);
            agrees(&what, members + repeated(tokens), dtype, &graph);
            let rows = ops::expand_dims(&x, &[-2, -3]).unwrap();
            let pair = || {
                let up = layer.up.forward(&rows, &picks)?;
                Ok(vec![ops::sigmoid(&layer.gate.forward(&rows, &picks)?)?, up])
            };
            let stored = if layer.up.bias.is_some() { 7 + repeated(tokens) } else { 0 };
            agrees(&format!("{what}, stored"), stored, dtype, &pair);
        }
    }
}

/// Experts with biases: what is made of gate and up is nobody's business, and their weighted sum is a kernel
/// with the bias in it.
#[test]
fn biased_experts_are_two_kernels() {
    let _turn = turn();
    let formats = [Format::Floats(FpMode::Mxfp4), Format::Affine(4, 32), Format::Affine(8, 64)];
    for (format, dtype) in
        formats.into_iter().zip([Dtype::Bfloat16, Dtype::Float32, Dtype::Float16])
    {
        let layer = Layer::new([192, 320], format, dtype).biased(dtype);
        for tokens in [1, 4] {
            let [x, picks, shares] = tokens_of([tokens, 192], dtype, |i| (i * 7 + i / 3) % EXPERTS);
            let (what, repeated) =
                (format!("{format:?} {dtype} {tokens} tokens"), repeated(tokens));
            let graph = || Ok(vec![ops::add(&x, &layer.forward(&x, &picks, &shares)?)?]);
            agrees(&format!("{what}, silu"), 20 + repeated, dtype, &graph);
            let rows = ops::expand_dims(&x, &[-2, -3]).unwrap();
            let pair = || {
                let (up, gate) =
                    (layer.up.forward(&rows, &picks)?, layer.gate.forward(&rows, &picks)?);
                Ok(vec![ops::sigmoid(&gate)?, up])
            };
            agrees(&format!("{what}, stored"), 7 + repeated, dtype, &pair);
        }
    }
}

/// Biases of other experts than the products', and such of the rows instead.
#[test]
fn other_biases_are_left_alone() {
    let _turn = turn();
    let dtype = Dtype::Float32;
    let layer = Layer::new([64, 64], Format::Affine(4, 64), dtype);
    let rows = noise(7, &[2, 1, 1, 64], dtype);
    let [picks, others] = [[3.0, 1.0, 0.0, 3.0], [3.0, 1.0, 1.0, 3.0]]
        .map(|picks| mlx_tests::array(&picks, &[2, 2], Dtype::Uint32));
    let (table, row) = (noise(9, &[EXPERTS, 64], dtype), noise(10, &[64], dtype));
    let graph = || {
        let bias = ops::expand_dims(&ops::take(&table, &others, 0)?, &[-2])?;
        let up = ops::add(&layer.up.forward(&rows, &picks)?, &bias)?;
        Ok(vec![up, ops::add(&layer.gate.forward(&rows, &picks)?, &row)?])
    };
    agrees("other biases", 0, dtype, &graph);
}

/// A block of a model: the norm, the router and the experts of a row, which is added to what they say.
pub(super) struct Block {
    norm: Array,
    router: Linear,
    layer: Layer,
    shares: Shares,
    shared: Option<Shared>,
}

/// An expert that all tokens have, weighed by the sigmoid of a number of its own or not at all.
struct Shared {
    gate: Linear,
    up: Linear,
    down: Linear,
    share: Option<Linear>,
}

impl Shared {
    fn forward(&self, x: &Array) -> Result<Array> {
        let (up, gate) = (self.up.forward(x)?, self.gate.forward(x)?);
        let gated = ops::multiply(&ops::multiply(&gate, &ops::sigmoid(&gate)?)?, &up)?;
        let said = self.down.forward(&gated)?;
        match &self.share {
            Some(share) => ops::multiply(&ops::sigmoid(&share.forward(x)?)?, &said),
            None => Ok(said),
        }
    }
}

impl Block {
    /// Of `hidden` features, with experts of `width`; the router is of a format of its own, or not quantized.
    pub(super) fn new(
        [hidden, width]: [usize; 2],
        format: (usize, usize),
        router: Option<(usize, usize)>,
        dtype: Dtype,
    ) -> Self {
        Block {
            norm: noise(11, &[hidden], dtype),
            router: Linear::new(12, EXPERTS, hidden, router, dtype),
            layer: Layer::new([hidden, width], Format::Affine(format.0, format.1), dtype),
            shares: Shares::OfAll,
            shared: None,
        }
    }

    /// The same with an expert of `width` that all tokens have, and, if it has a share, one of such a format.
    pub(super) fn sharing(
        self,
        width: usize,
        (bits, group): (usize, usize),
        share: Option<Option<(usize, usize)>>,
    ) -> Self {
        let (hidden, dtype) = (self.norm.dim(0), self.norm.dtype());
        let linear =
            |seed, outputs, inner| Linear::new(seed, outputs, inner, Some((bits, group)), dtype);
        let shared = Shared {
            gate: linear(21, width, hidden),
            up: linear(22, width, hidden),
            down: linear(23, hidden, width),
            share: share.map(|format| Linear::new(24, 1, hidden, format, dtype)),
        };
        Block { shared: Some(shared), ..self }
    }

    /// The same with experts that are picked by scores.
    pub(super) fn scoring(self, scores: Scores) -> Self {
        Block { shares: Shares::Scores(scores), ..self }
    }

    /// (tokens, hidden) to the same shape.
    pub(super) fn forward(&self, x: &Array) -> Result<Array> {
        let normal = fast::rms_norm(x, Some(&self.norm), 1e-6)?;
        let [picks, shares] = route(&self.router.forward(&normal)?, self.shares)?;
        // Of float32 where the shares are.
        let said = ops::astype(&self.layer.forward(&normal, &picks, &shares)?, x.dtype())?;
        match &self.shared {
            Some(shared) => ops::add(x, ops::add(&said, &shared.forward(&normal)?)?),
            None => ops::add(x, said),
        }
    }
}

/// A block of one token, and of two, of which so many operations become others'.
fn one_and_two(block: &Block, what: &str, fused: [u64; 2]) {
    let dtype = block.norm.dtype();
    for (tokens, fused) in [1, 2].into_iter().zip(fused) {
        let x = noise(5, &[tokens, block.norm.dim(0)], dtype);
        let what = format!("{what} {dtype} {tokens} tokens");
        agrees(&what, fused, dtype, &|| Ok(vec![block.forward(&x)?]));
    }
}

/// All of a token's mixture is one group, of several tokens' its parts.
#[test]
fn a_tokens_mixture_is_one_group() {
    let _turn = turn();
    let formats = [((4, 64), Some((8, 64))), ((3, 32), None), ((8, 64), Some((8, 64)))];
    for (dtype, (format, router)) in
        [Dtype::Bfloat16, Dtype::Float32, Dtype::Float16].into_iter().zip(formats)
    {
        for (shares, fewer) in [(Shares::OfAll, 0), (Shares::OfPicked, 2)] {
            let block = Block { shares, ..Block::new([192, 320], format, router, dtype) };
            // Norm and router of float32 are no part of it.
            let fused = if dtype == Dtype::Float32 { [17, 19] } else { [22, 21] };
            let fused = fused.map(|fused| fused - fewer);
            one_and_two(&block, &format!("{shares:?} {format:?}"), fused);
        }
    }
}

/// With an expert that all tokens have, too, which is one more pick; with several tokens it is made of parts.
#[test]
fn an_expert_that_all_tokens_have() {
    let _turn = turn();
    let formats = [
        (Dtype::Bfloat16, (4, 64), Some((8, 64)), Some(Some((8, 64))), [33, 25]),
        (Dtype::Float16, (8, 32), None, Some(None), [33, 25]),
        (Dtype::Bfloat16, (4, 32), Some((4, 32)), None, [29, 22]),
    ];
    for (dtype, format, router, share, fused) in formats {
        let block = Block::new([192, 320], format, router, dtype).sharing(320, format, share);
        one_and_two(&block, &format!("{format:?} {share:?}"), fused);
    }
}

/// Experts that all tokens have which are wider than the others, of another format, or whose number is.
#[test]
fn other_experts_that_all_tokens_have() {
    let _turn = turn();
    let (dtype, format, router) = (Dtype::Bfloat16, (4, 64), Some((8, 64)));
    let others = [(384, (4, 64), router, 23), (320, (8, 64), router, 21), (320, (4, 64), None, 23)];
    for (width, packed, share, fused) in others {
        let block = Block::new([192, 320], format, router, dtype);
        let block = block.sharing(width, packed, Some(share));
        let x = noise(5, &[1, 192], dtype);
        let what = format!("{width} {packed:?} {share:?}");
        agrees(&what, fused, dtype, &|| Ok(vec![block.forward(&x)?]));
    }
}

/// Experts that are picked by sigmoids: of one token one group, also with an expert that all tokens have.
#[test]
fn experts_are_picked_by_scores() {
    let _turn = turn();
    let (eps, factor) = (Some(1e-20), Some(1.75));
    let deepseek = Scores { wide: true, biased: true, eps, factor };
    let cases = [
        (Dtype::Bfloat16, deepseek, true, [37, 33]),
        (Dtype::Float16, Scores { eps: Some(0.0), factor: None, ..deepseek }, true, [35, 31]),
        (Dtype::Bfloat16, Scores { wide: false, biased: false, ..deepseek }, false, [25, 24]),
        (Dtype::Float16, Scores { wide: false, eps: None, ..deepseek }, false, [24, 23]),
        (
            Dtype::Bfloat16,
            Scores { biased: false, eps: None, factor: None, ..deepseek },
            false,
            [23, 22],
        ),
    ];
    for (dtype, scores, shared, fused) in cases {
        let (format, router) = ((4, 64), None);
        let block = Block::new([192, 320], format, router, dtype).scoring(scores);
        let block = if shared { block.sharing(320, format, None) } else { block };
        one_and_two(&block, &format!("{scores:?}"), fused);
    }
}

/// What is added to a sum in float32 before that is narrowed stays outside.
#[test]
fn addends_of_wide_sums_are_left_alone() {
    let _turn = turn();
    let (dtype, deepseek) =
        (Dtype::Bfloat16, Scores { wide: true, biased: true, eps: Some(1e-20), factor: None });
    let block = Block::new([192, 320], (4, 64), None, dtype).scoring(deepseek);
    for (tokens, fused) in [(1, 17), (2, 19)] {
        let x = noise(5, &[tokens, 192], dtype);
        let graph = || {
            let normal = fast::rms_norm(&x, Some(&block.norm), 1e-6)?;
            let [picks, shares] = route(&block.router.forward(&normal)?, block.shares)?;
            let said = block.layer.forward(&normal, &picks, &shares)?;
            let addend = ops::multiply(&ops::astype(&x, Dtype::Float32)?, 0.5f32)?;
            Ok(vec![ops::astype(&ops::add(&addend, &said)?, dtype)?])
        };
        agrees(&format!("{tokens} tokens"), fused, dtype, &graph);
    }
}

/// A mixture of which somebody sees the normalized row, the logits or the picks is made of parts.
#[test]
fn mixtures_that_are_seen_inside() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let Block { norm, router, layer, .. } = Block::new([64, 64], (4, 64), Some((4, 64)), dtype);
    let x = noise(5, &[1, 64], dtype);
    for (seen, fused) in [19, 17, 19].into_iter().enumerate() {
        let graph = || {
            let normal = fast::rms_norm(&x, Some(&norm), 1e-6)?;
            let logits = router.forward(&normal)?;
            let [picks, shares] = route(&logits, Shares::OfAll)?;
            let said = ops::add(&x, layer.forward(&normal, &picks, &shares)?)?;
            let inside = [normal, logits, ops::sort(&picks, -1)?];
            Ok(vec![said, inside[seen].clone()])
        };
        agrees(&format!("{seen} is seen"), fused, dtype, &graph);
    }
}

/// A whole mixture, in which what routes is fused, too.
#[test]
fn mixtures_are_three_kernels() {
    let _turn = turn();
    let dtype = Dtype::Float32;
    let layer = Layer::new([128, 64], Format::Affine(4, 64), dtype);
    let (x, router) = (noise(5, &[2, 128], dtype), noise(6, &[EXPERTS, 128], dtype));
    let graph = || {
        let logits = ops::matmul(&x, &ops::transpose(&router, &[])?)?;
        let [picks, shares] = route(&logits, Shares::OfAll)?;
        Ok(vec![layer.forward(&x, &picks, &shares)?])
    };
    agrees("mixture", 17, dtype, &graph);
}

/// So many tokens that subgroups make logits: those of a token are its own elements, which lie so far apart
/// that rounding makes none of them equal.
#[test]
fn many_tokens_choose() {
    let _turn = turn();
    let (tokens, experts, hidden) = (64, 61, 512);
    for dtype in [Dtype::Bfloat16, Dtype::Float16] {
        let element = |i: usize| {
            let (token, at) = (i / hidden, i % hidden);
            if at < experts { (1 + (at * 7 + token) % experts) as f64 } else { 1.0 }
        };
        let x = (0..tokens * hidden).map(element).collect::<Vec<_>>();
        let x = mlx_tests::array(&x, &[tokens, hidden], dtype);
        let norm = mlx_tests::array(&vec![0.5; hidden], &[hidden], dtype);
        let router = ops::eye(experts, hidden, 0, dtype).unwrap();
        let (words, scales, biases) = ops::quantize(&router, 64, 4).unwrap();
        mlx::eval(&[&x, &norm, &words, &scales, &biases]).unwrap();
        let graph = || {
            let normal = fast::rms_norm(&x, Some(&norm), 1e-6)?;
            let logits = ops::quantized_matmul(&normal, &words, &scales, &biases, true, 64, 4)?;
            let chosen = spread(&logits, &route(&logits, Shares::OfPicked)?)?;
            Ok([vec![normal], chosen].concat())
        };
        agrees(&format!("{dtype}"), 6, dtype, &graph);
    }
}

/// Who reads a result of the group's inside, sums of other axes, and rows in another order.
#[test]
fn other_products_are_left_alone() {
    let _turn = turn();
    let dtype = Dtype::Float32;
    let layer = Layer::new([64, 64], Format::Affine(4, 64), dtype);
    let x = noise(7, &[2, 64], dtype);
    let picks = mlx_tests::array(&[3.0, 1.0, 0.0, 3.0], &[2, 2], Dtype::Uint32);
    let shares = noise(8, &[2, 2], dtype);
    let seen = || {
        let x = ops::expand_dims(&x, &[-2, -3])?;
        let (up, gate) = (layer.up.forward(&x, &picks)?, layer.gate.forward(&x, &picks)?);
        let gated = ops::multiply(&ops::multiply(&gate, &ops::sigmoid(&gate)?)?, &up)?;
        Ok(vec![gated, up])
    };
    agrees("up is seen", 0, dtype, &seen);
    let across = || {
        let x = ops::expand_dims(&x, &[-2, -3])?;
        let said = ops::squeeze(&layer.down.forward(&x, &picks)?, &[-2])?;
        let weighed = ops::multiply(&said, &ops::expand_dims(&shares, &[-1])?)?;
        Ok(vec![ops::sum(&weighed, &[0], false)?, ops::sum(&weighed, &[-1], false)?])
    };
    agrees("other axes", 0, dtype, &across);
    let (lhs, rows) = (ops::subtract(1u32, &picks).unwrap(), ops::expand_dims(&x, &[-2]).unwrap());
    let turned = || {
        let of = |stack: &Stack| {
            let [w, s, b] = &stack.parts[..] else { unreachable!("affine") };
            let lhs = ops::remainder(&lhs, 2u32)?;
            let picks = Picks { lhs: Some(&lhs), rhs: Some(&picks), sorted: false };
            ops::gather_qmm(&rows, w, s, b, picks, true, 64, 4)
        };
        let (up, gate) = (of(&layer.up)?, of(&layer.gate)?);
        Ok(vec![ops::multiply(&ops::multiply(&gate, &ops::sigmoid(&gate)?)?, &up)?])
    };
    agrees("rows in another order", 0, dtype, &turned);
}
