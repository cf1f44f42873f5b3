//! Matrix products: the `gemm` crate for matrices, loops at memory speed for vectors.
//!
//! Strided operands are used as they lie. float16 and bfloat16 are widened panel by panel and
//! summed in float32.

use mlx_vulkan_core::{
    Array, Complex, Dtype, Element, Result, backend::Output, bf16, f16, primitives::MatmulOp,
};
use rayon::prelude::*;

use crate::{
    encoder::{Encoder, In, Out, args},
    float::{Real, Wide},
    gathered,
    rows::{RowStarts, widen_row},
    simd::gemm::{MatMut, MatRef, gemm},
};

/// Multiplications from which a product is worth splitting over cores.
pub(crate) const PARALLEL: usize = 1 << 16;
/// Elements of the right operand that one core takes at a time in a vector product.
const VECTOR_CHUNK: usize = 1 << 14;
/// Elements of the right operand that are widened at a time.
const PANEL: usize = 1 << 20;

/// What is added to a product: `alpha * a @ b + beta * c`.
pub(crate) struct Addend<'a> {
    pub(crate) c: &'a Array,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
}

/// A product as its task sees it.
struct MatmulTask {
    a: In,
    b: In,
    /// The addend, of the output's shape.
    c: Option<In>,
    factors: Factors,
    out: Out,
}

/// `out = keep * out + alpha * product`.
#[derive(Clone, Copy)]
pub(crate) struct Factors {
    pub(crate) keep: f32,
    pub(crate) alpha: f32,
}

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: MatmulOp,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    match op {
        MatmulOp::Matmul => {
            let [a, b] = args(inputs);
            product(enc, [a, b], None, output)
        }
        MatmulOp::AddMm { alpha, beta } => {
            let [a, b, c] = args(inputs);
            product(enc, [a, b], Some(Addend { c, alpha: alpha.0, beta: beta.0 }), output)
        }
        MatmulOp::GatherMm { .. } => gathered::gather_mm(enc, args(inputs), output),
        MatmulOp::SegmentedMm => gathered::segmented_mm(enc, args(inputs), output),
    }
}

/// Encodes `a @ b`, or `alpha * a @ b + beta * c`.
fn product(
    enc: &mut Encoder<'_>,
    [a, b]: [&Array; 2],
    addend: Option<Addend<'_>>,
    output: &mut Output,
) -> Result<()> {
    let dtype = output.dtype;
    let out = enc.allocate(output)?;
    let factors = match &addend {
        Some(addend) => Factors { keep: addend.beta, alpha: addend.alpha },
        None => Factors { keep: 0.0, alpha: 1.0 },
    };
    let c = addend.filter(|a| a.beta != 0.0).map(|a| In::from(a.c));
    let task = MatmulTask { a: In::from(a), b: In::from(b), c, factors, out };
    match dtype {
        Dtype::Float16 => enc.push(move || run::<f16>(&task)),
        Dtype::Bfloat16 => enc.push(move || run::<bf16>(&task)),
        Dtype::Float32 => enc.push(move || run::<f32>(&task)),
        Dtype::Float64 => enc.push(move || run::<f64>(&task)),
        Dtype::Complex64 => enc.push(move || run::<Complex>(&task)),
        other => unreachable!("products have inexact types, not {other}"),
    }
}

/// An element type of products.
pub(crate) trait Factor: Element {
    /// One product into dense `out`.
    fn multiply(
        f: Factors,
        a: MatRef<'_, Self>,
        b: MatRef<'_, Self>,
        out: &mut [Self],
        parallel: bool,
    );
}

impl Factor for f16 {
    fn multiply(
        f: Factors,
        a: MatRef<'_, f16>,
        b: MatRef<'_, f16>,
        out: &mut [f16],
        parallel: bool,
    ) {
        real(f, a, b, out, parallel);
    }
}

impl Factor for bf16 {
    fn multiply(
        f: Factors,
        a: MatRef<'_, bf16>,
        b: MatRef<'_, bf16>,
        out: &mut [bf16],
        parallel: bool,
    ) {
        real(f, a, b, out, parallel);
    }
}

impl Factor for f32 {
    fn multiply(
        f: Factors,
        a: MatRef<'_, f32>,
        b: MatRef<'_, f32>,
        out: &mut [f32],
        parallel: bool,
    ) {
        if a.rows == 1 || b.cols == 1 {
            return real(f, a, b, out, parallel);
        }
        let out = MatMut::dense(out, a.rows, b.cols);
        gemm(out, f.keep, a, b, f.alpha, parallel);
    }
}

impl Factor for f64 {
    fn multiply(
        f: Factors,
        a: MatRef<'_, f64>,
        b: MatRef<'_, f64>,
        out: &mut [f64],
        parallel: bool,
    ) {
        if a.rows == 1 || b.cols == 1 {
            return real(f, a, b, out, parallel);
        }
        let out = MatMut::dense(out, a.rows, b.cols);
        gemm(out, f.keep as f64, a, b, f.alpha as f64, parallel);
    }
}

impl Factor for Complex {
    fn multiply(
        f: Factors,
        a: MatRef<'_, Complex>,
        b: MatRef<'_, Complex>,
        out: &mut [Complex],
        parallel: bool,
    ) {
        let out = MatMut::dense(out, a.rows, b.cols);
        gemm(out, f.keep.into(), a, b, f.alpha.into(), parallel);
    }
}

/// The matrices of an operand's last two axes.
pub(crate) struct Matrices<'a, T> {
    starts: RowStarts,
    like: MatRef<'a, T>,
}

impl<'a, T> Matrices<'a, T> {
    pub(crate) fn new(input: &In, data: &'a [T]) -> Self {
        let axes = input.shape.len();
        let (shape, strides) = (&input.shape, &input.layout.strides);
        let like = MatRef {
            data,
            first: 0,
            rows: shape[axes - 2],
            cols: shape[axes - 1],
            row_stride: strides[axes - 2],
            col_stride: strides[axes - 1],
        };
        Matrices { starts: RowStarts::new(input, 2), like }
    }

    /// Number of matrices.
    pub(crate) fn count(&self) -> usize {
        self.starts.count
    }

    pub(crate) fn at(&self, batch: usize) -> MatRef<'a, T> {
        MatRef { first: self.starts.at(batch), ..self.like }
    }

    /// All matrices as one with many rows, if its rows are evenly spaced.
    fn stacked(&self, input: &In) -> Option<MatRef<'a, T>> {
        let rows = RowStarts::new(input, 1);
        let row_stride = rows.uniform_stride()?;
        Some(MatRef { first: rows.at(0), rows: rows.count, row_stride, ..self.like })
    }
}

fn run<T: Factor>(task: &MatmulTask) {
    let mut out = task.out.write::<T>();
    if out.is_empty() {
        return;
    }
    let keeps = task.c.as_ref().map(|c| copy_rows(c, &mut out));
    let factors = Factors { keep: keeps.map_or(0.0, |()| task.factors.keep), ..task.factors };
    let (left, right) = (task.a.read::<T>(), task.b.read::<T>());
    let a = Matrices::new(&task.a, left.buffer());
    let b = Matrices::new(&task.b, right.buffer());
    let batches = a.starts.count;
    let work = out.len() * a.like.cols.max(1);
    let shared_right = batches == 1 || b.starts.uniform_stride() == Some(0);
    if shared_right && let Some(stacked) = a.stacked(&task.a) {
        return T::multiply(factors, stacked, b.at(0), &mut out, work >= PARALLEL);
    }
    let each = out.len() / batches;
    let one = |i: usize, out: &mut [T], parallel| {
        T::multiply(factors, a.at(i), b.at(i), out, parallel);
    };
    let split_batches = work >= PARALLEL && batches >= rayon::current_num_threads();
    if split_batches {
        out.par_chunks_mut(each).enumerate().for_each(|(i, out)| one(i, out, false));
    } else {
        let parallel = work / batches >= PARALLEL;
        out.chunks_mut(each).enumerate().for_each(|(i, out)| one(i, out, parallel));
    }
}

/// Copies strided elements to a dense slice.
fn copy_rows<T: Element>(source: &In, out: &mut [T]) {
    let data = source.read::<T>();
    let starts = RowStarts::new(source, 1);
    let stride = source.layout.strides[source.shape.len() - 1];
    let length = source.shape[source.shape.len() - 1];
    for (i, out) in out.chunks_mut(length).enumerate() {
        let first = starts.at(i);
        for (j, out) in out.iter_mut().enumerate() {
            *out = data.buffer()[first.wrapping_add_signed(j as isize * stride)];
        }
    }
}

/// Vectors at memory speed, matrices widened panel by panel.
fn real<T: Real>(f: Factors, a: MatRef<'_, T>, b: MatRef<'_, T>, out: &mut [T], parallel: bool) {
    if a.rows == 1 {
        vector(f, a, b, out, parallel);
    } else if b.cols == 1 {
        vector(f, b.t(), a.t(), out, parallel);
    } else {
        panels(f, a, b, out, parallel);
    }
}

/// `out = keep * out + alpha * product`, rounded once.
fn finish<T: Real>(f: Factors, product: &[T::Wide], out: &mut [T]) {
    if f.keep == 0.0 && f.alpha == 1.0 {
        return T::narrow_slice(product, out);
    }
    let (keep, alpha) = (T::Wide::from_f64(f.keep as f64), T::Wide::from_f64(f.alpha as f64));
    for (out, &x) in out.iter_mut().zip(product) {
        let kept = if f.keep == 0.0 { T::Wide::from_f64(0.0) } else { keep * out.widen() };
        *out = T::narrow(alpha * x + kept);
    }
}

/// A row times a matrix.
fn vector<T: Real>(f: Factors, x: MatRef<'_, T>, b: MatRef<'_, T>, out: &mut [T], parallel: bool) {
    let mut row = vec![T::Wide::default(); x.cols];
    if x.cols > 0 {
        widen_row(x.data, x.first, x.col_stride, &mut row);
    }
    let columns = (VECTOR_CHUNK / x.cols.max(1)).next_multiple_of(64);
    let chunk = |i: usize, out: &mut [T]| {
        let mut product = vec![T::Wide::default(); out.len()];
        if !row.is_empty() {
            row_times(&row, b.columns(i * columns, out.len()), &mut product);
        }
        finish(f, &product, out);
    };
    if parallel {
        out.par_chunks_mut(columns).enumerate().for_each(|(i, out)| chunk(i, out));
    } else {
        out.chunks_mut(columns).enumerate().for_each(|(i, out)| chunk(i, out));
    }
}

/// `product = x @ b` for zeroed `product`, along whichever axis of `b` is dense.
fn row_times<T: Real>(x: &[T::Wide], b: MatRef<'_, T>, product: &mut [T::Wide]) {
    let data = &b.data[b.first..];
    if b.row_stride == 1 && b.col_stride >= 0 {
        T::dots(x, data, b.col_stride as usize, product);
    } else if b.col_stride == 1 && b.row_stride >= 0 {
        T::combine(x, data, b.row_stride as usize, product);
    } else {
        let mut column = vec![T::Wide::default(); x.len()];
        for (j, out) in product.iter_mut().enumerate() {
            let first = b.columns(j, 1).first;
            widen_row(b.data, first, b.row_stride, &mut column);
            T::Wide::dots(x, &column, 0, std::slice::from_mut(out));
        }
    }
}

/// A product of widened matrices: all of `a`, and `b` some columns at a time.
fn panels<T: Real>(f: Factors, a: MatRef<'_, T>, b: MatRef<'_, T>, out: &mut [T], parallel: bool) {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    let left = widen_matrix(a, parallel);
    let width = (PANEL / k.max(1)).clamp(64, n.max(64)).min(n);
    let mut product = vec![T::Wide::default(); m * width];
    for from in (0..n).step_by(width) {
        let columns = width.min(n - from);
        let panel = b.columns(from, columns);
        let by_columns = panel.row_stride.unsigned_abs() < panel.col_stride.unsigned_abs();
        let right = widen_matrix(if by_columns { panel.t() } else { panel }, parallel);
        let right = match by_columns {
            true => MatRef::dense(&right, columns, k).t(),
            false => MatRef::dense(&right, k, columns),
        };
        let into = MatMut::dense(&mut product[..m * columns], m, columns);
        let (zero, one) = (T::Wide::from_f64(0.0), T::Wide::from_f64(1.0));
        gemm(into, zero, MatRef::dense(&left, m, k), right, one, parallel);
        out.par_chunks_mut(n)
            .zip(product.par_chunks(columns))
            .with_min_len(64)
            .for_each(|(out, product)| finish(f, product, &mut out[from..from + columns]));
    }
}

/// The matrix as a dense row-major one of wide elements.
fn widen_matrix<T: Real>(x: MatRef<'_, T>, parallel: bool) -> Vec<T::Wide> {
    let mut out = vec![T::Wide::default(); x.rows * x.cols];
    if out.is_empty() {
        return out;
    }
    let row = |i: usize, out: &mut [T::Wide]| {
        let first = x.first.wrapping_add_signed(i as isize * x.row_stride);
        widen_row(x.data, first, x.col_stride, out);
    };
    if parallel {
        out.par_chunks_mut(x.cols).with_min_len(16).enumerate().for_each(|(i, out)| row(i, out));
    } else {
        out.chunks_mut(x.cols).enumerate().for_each(|(i, out)| row(i, out));
    }
    out
}
