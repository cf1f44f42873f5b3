//! A token's convolution with those before it, and its step of the gated delta rule.

use mlx::{Array, Dtype, Result, compile::Compiled, fast, ops};

use super::{Quantized, agrees, noise, turn};

/// `x sigmoid(x)`.
fn silu(x: &Array) -> Result<Array> {
    ops::multiply(x, &ops::sigmoid(x)?)
}

/// What a model keeps of a window: its last rows.
fn kept(window: &Array) -> Result<Array> {
    let (batch, taps, channels) = (window.dim(0), window.dim(1) as isize, window.dim(2) as isize);
    let last = ops::slice(window, &[0, 1, 0], &[batch as isize, taps, channels], &[1, 1, 1])?;
    ops::contiguous(&last, false)
}

/// Convolutions of two tokens, one after the other; the second one's window is the result as well.
fn convolutions(
    x: [&Array; 2],
    before: &Array,
    weight: &Array,
    bias: Option<&Array>,
    gated: bool,
) -> Result<Vec<Array>> {
    let groups = weight.dim(0);
    let mut before = before.clone();
    let mut results = Vec::new();
    for x in x {
        let window = ops::concatenate(&[&before, x], 1)?;
        before = kept(&window)?;
        let mut y = ops::conv1d(&window, weight, [1], [0], [1], groups)?;
        if let Some(bias) = bias {
            y = ops::add(&y, bias)?;
        }
        results.push(if gated { silu(&y)? } else { y });
    }
    results.push(before);
    Ok(results)
}

/// The convolution itself, what joins its window and the copy of the rows before; of the first token these
/// are no copy, and of the last one these are a result. With these a bias is one more, and `silu` two.
#[test]
fn a_token_meets_those_before_it() {
    let _turn = turn();
    for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
        for (batch, taps, channels) in [(1, 4, 40), (3, 2, 17)] {
            for (biased, gated) in [(false, true), (true, true), (false, false), (true, false)] {
                let make = |seed, shape: &[usize]| noise(seed, shape, dtype);
                let (a, b) = (make(1, &[batch, 1, channels]), make(2, &[batch, 1, channels]));
                let before = make(3, &[batch, taps - 1, channels]);
                let weight = make(4, &[channels, taps, 1]);
                let bias = make(5, &[channels]);
                mlx::eval(&[&a, &b, &before, &weight, &bias]).unwrap();
                let graph =
                    || convolutions([&a, &b], &before, &weight, biased.then_some(&bias), gated);
                let each = 1 + u64::from(biased) + if gated { 2 } else { 0 };
                let what = format!("{dtype} {batch} {taps} {channels} {biased} {gated}");
                agrees(&what, 2 * each + 1, dtype, &graph);
            }
        }
    }
}

/// What is added to the gated result is no bias.
#[test]
fn a_sum_behind_the_gate_stays_alone() {
    let _turn = turn();
    let dtype = Dtype::Float32;
    let (x, before) = (noise(1, &[1, 1, 24], dtype), noise(2, &[1, 3, 24], dtype));
    let (weight, row) = (noise(3, &[24, 4, 1], dtype), noise(4, &[24], dtype));
    mlx::eval(&[&x, &before, &weight, &row]).unwrap();
    let graph = || {
        let window = ops::concatenate(&[&before, &x], 1)?;
        let y = silu(&ops::conv1d(&window, &weight, [1], [0], [1], 24)?)?;
        Ok(vec![ops::add(&y, &row)?])
    };
    agrees("a sum behind", 3, dtype, &graph);
}

/// Layers of a model with the gated delta rule, one token of each sequence.
struct Layer {
    q: Array,
    k: Array,
    v: Array,
    a: Array,
    b: Array,
    z: Array,
    decay: Array,
    shift: Array,
    weight: Array,
    state: Array,
    /// Whether key heads follow one another for each part of the value heads, instead of staying together.
    tiled: bool,
}

impl Layer {
    fn new(dtype: Dtype, [batch, key_heads, heads, dk, dv]: [usize; 5]) -> Layer {
        let make = |seed, shape: &[usize]| noise(seed, shape, dtype);
        // Queries, keys and values are parts of one row.
        let width = 2 * key_heads * dk + heads * dv;
        let all = make(1, &[batch, 1, width]);
        let part = |from: usize, heads: usize, width: usize| {
            let to = from + heads * width;
            let part = ops::slice_axis(&all, 2, from as isize, to as isize).unwrap();
            let shape = [batch, 1, heads, width].map(|n| n as isize);
            ops::reshape(&part, &shape).unwrap()
        };
        let layer = Layer {
            q: part(0, key_heads, dk),
            k: part(key_heads * dk, key_heads, dk),
            v: part(2 * key_heads * dk, heads, dv),
            a: make(2, &[batch, 1, heads]),
            b: make(3, &[batch, 1, heads]),
            z: make(4, &[batch, 1, heads, dv]),
            decay: noise(5, &[heads], Dtype::Float32),
            shift: make(6, &[heads]),
            weight: make(7, &[dv]),
            state: noise(8, &[batch, heads, dv, dk], Dtype::Float32),
            tiled: false,
        };
        let Layer { q, k, v, a, b, z, decay, shift, weight, state, .. } = &layer;
        mlx::eval(&[q, k, v, a, b, z, decay, shift, weight, state]).unwrap();
        layer
    }

    /// As mlx-lm writes it, by the primitive.
    fn step(&self, [a, b]: [&Array; 2], state: &Array) -> Result<[Array; 2]> {
        let dtype = self.q.dtype();
        let scale = (self.q.dim(3) as f64).powf(-0.5);
        let row = |x: &Array, scale: f64| {
            let unit = fast::rms_norm(x, None, 1e-6)?;
            let scaled = ops::multiply(&Array::scalar_of(scale, dtype)?, &unit)?;
            let count = self.v.dim(2) / self.q.dim(2);
            if self.tiled { tiled(&scaled, count) } else { repeated(&scaled, count) }
        };
        let (q, k) = (row(&self.q, scale * scale)?, row(&self.k, scale)?);
        let beta = ops::sigmoid(b)?;
        let zero = Array::scalar_of(0.0, dtype)?;
        let softplus = ops::logaddexp(&ops::add(a, &self.shift)?, &zero)?;
        let softplus = ops::astype(&softplus, Dtype::Float32)?;
        let decay = ops::negative(&ops::exp(&self.decay)?)?;
        let gamma = ops::exp(&ops::multiply(&decay, &softplus)?)?;
        let (y, next) =
            fast::gated_delta_update([&q, &k, &self.v], &gamma, &beta, Some(state), None)?;
        let x = ops::astype(&fast::rms_norm(&y, Some(&self.weight), 1e-6)?, Dtype::Float32)?;
        let gate = silu(&ops::astype(&self.z, Dtype::Float32)?)?;
        Ok([ops::astype(&ops::multiply(&gate, &x)?, dtype)?, next])
    }
}

/// A layer of linear attention: projections of a row, the convolution, the rule, and what is added to the
/// row.
pub(super) struct LinearLayer {
    rule: Layer,
    norm: Array,
    projections: [Quantized; 4],
    convolution: Array,
    before: Array,
    output: Quantized,
}

impl LinearLayer {
    /// Of rows of `hidden` features, with key heads, value heads, and features of a key and of a value.
    pub(super) fn new(
        seed: u64,
        hidden: usize,
        [key_heads, heads, dk, dv]: [usize; 4],
        (bits, group): (usize, usize),
        dtype: Dtype,
    ) -> Self {
        let channels = 2 * key_heads * dk + heads * dv;
        let matrix =
            |i, outputs, inner| Quantized::new(seed + i, outputs, inner, group, bits, dtype);
        let make = |i, shape: &[usize]| {
            let array = noise(seed + i, shape, dtype);
            array.eval().unwrap();
            array
        };
        LinearLayer {
            rule: Layer::new(dtype, [1, key_heads, heads, dk, dv]),
            norm: make(8, &[hidden]),
            projections: [
                matrix(1, channels, hidden),
                matrix(2, heads * dv, hidden),
                matrix(3, heads, hidden),
                matrix(4, heads, hidden),
            ],
            convolution: make(5, &[channels, 4, 1]),
            before: make(6, &[1, 3, channels]),
            output: matrix(7, hidden, heads * dv),
        }
    }

    /// (1, 1, hidden) to the same shape, with the rows that a next token meets and the new state.
    pub(super) fn forward(&self, x: &Array) -> Result<[Array; 3]> {
        let normal = fast::rms_norm(x, Some(&self.norm), 1e-6)?;
        let [all, z, b, a] = &self.projections;
        let (all, z) = (all.forward(&normal)?, z.forward(&normal)?);
        let (b, a) = (b.forward(&normal)?, a.forward(&normal)?);
        let window = ops::concatenate(&[&self.before, &all], 1)?;
        let channels = all.dim(2);
        let mixed = silu(&ops::conv1d(&window, &self.convolution, [1], [0], [1], channels)?)?;
        let [_, _, key_heads, dk] = self.rule.q.shape()[..] else { unreachable!("four axes") };
        let [_, _, heads, dv] = self.rule.v.shape()[..] else { unreachable!("four axes") };
        let part = |from: usize, heads: usize, width: usize| {
            let to = (from + heads * width) as isize;
            let part = ops::slice_axis(&mixed, 2, from as isize, to)?;
            ops::reshape(&part, &[1, 1, heads as isize, width as isize])
        };
        let Layer { decay, shift, weight, state, .. } = &self.rule;
        let rule = Layer {
            q: part(0, key_heads, dk)?,
            k: part(key_heads * dk, key_heads, dk)?,
            v: part(2 * key_heads * dk, heads, dv)?,
            z: ops::reshape(&z, &[1, 1, heads as isize, dv as isize])?,
            a: a.clone(),
            b: b.clone(),
            decay: decay.clone(),
            shift: shift.clone(),
            weight: weight.clone(),
            state: state.clone(),
            tiled: false,
        };
        let [y, next] = rule.step([&a, &b], state)?;
        let y = ops::reshape(&y, &[1, 1, (heads * dv) as isize])?;
        Ok([ops::add(x, &self.output.forward(&y)?)?, kept(&window)?, next])
    }
}

/// Heads of the third axis, `count` times each.
fn repeated(x: &Array, count: usize) -> Result<Array> {
    if count == 1 { Ok(x.clone()) } else { ops::repeat(x, count, Some(2)) }
}

/// All heads of the third axis, `count` times.
fn tiled(x: &Array, count: usize) -> Result<Array> {
    let [batch, _, heads, width] = x.shape()[..] else { unreachable!("four axes") };
    let rows = ops::reshape(x, &[batch as isize, 1, 1, 1, (heads * width) as isize])?;
    let rows = ops::broadcast_to(&rows, &[batch, 1, count, 1, heads * width])?;
    ops::reshape(&rows, &[batch, 1, heads * count, width].map(|n| n as isize))
}

#[test]
fn heads_in_another_order_are_left_alone() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let layer = Layer { tiled: true, ..Layer::new(dtype, [1, 2, 4, 32, 16]) };
    let graph = || Ok(layer.step([&layer.a, &layer.b], &layer.state)?.into());
    agrees("tiled heads", 0, dtype, &graph);
}

/// With the rule: two norms, two products, six operations of gates, the norm behind it and six of the last
/// gate; two more where key heads are repeated. The decay is made of parameters, and stays.
#[test]
fn a_step_of_the_delta_rule_has_its_norms_and_gates() {
    let _turn = turn();
    for dtype in [Dtype::Bfloat16, Dtype::Float16] {
        for sizes in [[1, 2, 4, 128, 64], [3, 2, 2, 64, 12], [2, 1, 3, 33, 5]] {
            let layer = Layer::new(dtype, sizes);
            let graph = || {
                let gates = [&layer.a, &layer.b];
                let [y, state] = layer.step(gates, &layer.state)?;
                let [next, state] = layer.step(gates, &state)?;
                Ok(vec![y, next, state])
            };
            let repeats = if sizes[2] > sizes[1] { 2 } else { 0 };
            agrees(&format!("{dtype} {sizes:?}"), 2 * (17 + repeats), dtype, &graph);
        }
    }
}

/// A step that a compiled function writes out is in the group, too.
#[test]
fn compiled_steps_are_in_the_group() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let layer = Layer::new(dtype, [1, 2, 4, 32, 16]);
    let step = Compiled::new(
        |inputs: &[Array]| {
            let [q, k, v, g, beta, state] = inputs else { unreachable!("six arrays") };
            let row = |a: &Array| ops::expand_dims(a, &[2]);
            let state = ops::multiply(state, &ops::expand_dims(g, &[2, 3])?)?;
            let held = ops::sum(&ops::multiply(&state, &row(k)?)?, &[-1], false)?;
            let change = ops::subtract(v, &held)?;
            let change = ops::multiply(&change, &ops::expand_dims(beta, &[2])?)?;
            let change = ops::multiply(&row(k)?, &ops::expand_dims(&change, &[3])?)?;
            let state = ops::add(&state, &change)?;
            let y = ops::sum(&ops::multiply(&state, &row(q)?)?, &[-1], false)?;
            Ok(vec![ops::astype(&y, q.dtype())?, state])
        },
        false,
    );
    let token = |a: &Array| ops::squeeze(a, &[1]);
    let graph = || {
        let scale = Array::scalar_of(0.25, dtype)?;
        let row = |x: &Array| {
            let unit = fast::rms_norm(x, None, 1e-6)?;
            repeated(&ops::multiply(&scale, &unit)?, 2)
        };
        let zero = Array::scalar_of(0.0, dtype)?;
        let softplus = ops::logaddexp(&ops::add(&layer.a, &layer.shift)?, &zero)?;
        let softplus = ops::astype(&softplus, Dtype::Float32)?;
        let gamma = ops::exp(&ops::multiply(&layer.decay, &softplus)?)?;
        let beta = ops::sigmoid(&layer.b)?;
        let inputs = [
            token(&row(&layer.q)?)?,
            token(&row(&layer.k)?)?,
            token(&layer.v)?,
            token(&gamma)?,
            token(&beta)?,
            layer.state.clone(),
        ];
        let results = step.call(&inputs)?;
        let y = ops::stack(&[&results[0]], 1)?;
        let x = ops::astype(&fast::rms_norm(&y, Some(&layer.weight), 1e-6)?, Dtype::Float32)?;
        let gate = silu(&ops::astype(&layer.z, Dtype::Float32)?)?;
        let y = ops::astype(&ops::multiply(&gate, &x)?, dtype)?;
        Ok(vec![y, results[1].clone()])
    };
    agrees("compiled", 19, dtype, &graph);
}

/// A product whose sum with a row is a part of the step stays with its sibling.
#[test]
fn sums_of_gates_are_no_biases() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let matrices = [1, 2].map(|seed| Quantized::new(seed, 8, 256, 64, 4, dtype));
    let x = noise(3, &[1, 1, 256], dtype);
    mlx::eval(&[&x]).unwrap();
    let layer = Layer::new(dtype, [1, 2, 8, 32, 16]);
    let graph = || {
        let [a, b] = [matrices[0].forward(&x)?, matrices[1].forward(&x)?];
        Ok(layer.step([&a, &b], &layer.state)?.into())
    };
    agrees("products of gates", 1 + 19, dtype, &graph);
}

/// Products of one norm, more than one kernel takes: all are a group, and so is what makes the norm if it is
/// a result itself.
#[test]
fn products_are_as_many_kernels_as_they_need() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let matrices = [1, 2, 3, 4, 5].map(|seed| Quantized::new(seed, 64, 256, 64, 4, dtype));
    let (x, weight) = (noise(6, &[1, 1, 256], dtype), noise(7, &[256], dtype));
    mlx::eval(&[&x, &weight]).unwrap();
    for (count, kept) in [(4, false), (5, false), (2, true), (4, true)] {
        let graph = || {
            let normed = fast::rms_norm(&x, Some(&weight), 1e-6)?;
            let mut results: Vec<Array> =
                matrices[..count].iter().map(|m| m.forward(&normed)).collect::<Result<_>>()?;
            results.extend(kept.then_some(normed));
            Ok(results)
        };
        agrees(&format!("{count} products, {kept}"), count as u64, dtype, &graph);
    }
}
