//! Fourier transforms, axis by axis, by `rustfft` and `realfft`.

use mlx_vulkan_core::{
    Array, Complex, Element, Result, backend::Output, primitives::Fft, shape::num_elements,
};
use realfft::RealFftPlanner;
use rustfft::FftPlanner;

use crate::{
    elementwise::for_rows,
    encoder::{Encoder, In, Out},
    strided::Source,
};

/// Encodes the transform.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    fft: &Fft,
    [a]: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let (a, fft) = (In::from(a), fft.clone());
    enc.push(move || match (fft.real.is_some(), fft.inverse) {
        (true, false) => from_real(&fft, &a, &out),
        (true, true) => to_real(&fft, &a, &out),
        (false, _) => complex(&fft, &a, &out),
    })
}

/// All elements, row-major.
fn dense<T: Element>(a: &In) -> Vec<T> {
    let elements = a.read::<T>();
    let mut out = vec![T::zeroed(); a.size()];
    Source::row_major(&elements, a).read_all(&mut out);
    out
}

/// The axes but the last one, along which the real side is halved, and that one.
fn split_last(fft: &Fft) -> (&[usize], usize) {
    let (last, others) = fft.axes.split_last().expect("at least one axis");
    (others, *last)
}

fn complex(fft: &Fft, a: &In, out: &Out) {
    let mut data: Vec<Complex> = dense(a);
    for &axis in &fft.axes {
        data = along(&a.shape, axis, data, fft.inverse);
    }
    finish(fft, &data, out, |z, scale| z * scale);
}

fn from_real(fft: &Fft, a: &In, out: &Out) {
    let (others, last) = split_last(fft);
    let n = a.shape[last];
    let plan = RealFftPlanner::<f32>::new().plan_fft_forward(n);
    let mut data = lines(&a.shape, last, &dense(a), out.shape[last], |input, line| {
        let mut input: Vec<f32> = input.collect();
        // It fails for buffers of wrong lengths only.
        plan.process(&mut input, line).expect("lines have the planned lengths");
    });
    for &axis in others {
        data = along(&out.shape, axis, data, false);
    }
    finish(fft, &data, out, |z, _| z);
}

fn to_real(fft: &Fft, a: &In, out: &Out) {
    let (others, last) = split_last(fft);
    let mut data: Vec<Complex> = dense(a);
    for &axis in others {
        data = along(&a.shape, axis, data, true);
    }
    let n = out.shape[last];
    let plan = RealFftPlanner::<f32>::new().plan_fft_inverse(n);
    let data = lines(&a.shape, last, &data, n, |input, line| {
        let mut input: Vec<Complex> = input.collect();
        // These are real in the transform of real numbers, and count as if they were.
        input[0].im = 0.0;
        if n.is_multiple_of(2) {
            input[n / 2].im = 0.0;
        }
        plan.process(&mut input, line).expect("lines have the planned lengths");
    });
    finish(fft, &data, out, |x: f32, scale| x * scale);
}

/// Complex transforms of all lines along an axis.
fn along(shape: &[usize], axis: usize, data: Vec<Complex>, inverse: bool) -> Vec<Complex> {
    let mut planner = FftPlanner::<f32>::new();
    let n = shape[axis];
    let plan = if inverse { planner.plan_fft_inverse(n) } else { planner.plan_fft_forward(n) };
    lines(shape, axis, &data, n, |input, line| {
        line.iter_mut().zip(input).for_each(|(out, z)| *out = z);
        plan.process(line);
    })
}

/// Makes a line of `length` elements of every line along an axis of row-major data.
fn lines<T: Element, U: Element>(
    shape: &[usize],
    axis: usize,
    data: &[T],
    length: usize,
    f: impl Fn(&mut dyn Iterator<Item = T>, &mut [U]) + Sync,
) -> Vec<U> {
    let (n, inner) = (shape[axis], num_elements(&shape[axis + 1..]));
    let count = data.len() / n;
    let mut turned = vec![U::zeroed(); count * length];
    for_rows(&mut turned, length, count * length * 16, |i, line| {
        let first = i / inner * n * inner + i % inner;
        f(&mut data[first..].iter().step_by(inner).take(n).copied(), line);
    });
    if inner == 1 {
        return turned;
    }
    let mut out = vec![U::zeroed(); turned.len()];
    for_rows(&mut out, inner, turned.len(), |i, row| {
        let (outer, k) = (i / length, i % length);
        let from = turned[outer * inner * length + k..].iter().step_by(length);
        row.iter_mut().zip(from).for_each(|(out, &x)| *out = x);
    });
    out
}

/// Writes the result; the inverse is divided by the number of elements.
fn finish<T: Element>(fft: &Fft, data: &[T], out: &Out, times: impl Fn(T, f32) -> T) {
    let mut target = out.write::<T>();
    let n: usize = fft.axes.iter().map(|&axis| out.shape[axis]).product();
    let scale = if fft.inverse { (1.0 / n as f64) as f32 } else { 1.0 };
    target.iter_mut().zip(data).for_each(|(out, &x)| *out = times(x, scale));
}
