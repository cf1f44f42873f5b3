//! Matrix products.

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, astype, expand_dims, squeeze},
    primitives::MatmulOp,
};

/// Operands of a product brought to at least two axes, one dtype and joint batch axes.
struct Product {
    a: Array,
    b: Array,
    dtype: Dtype,
    /// Axes of the result that stand for a vector operand.
    vector_axes: Vec<isize>,
}

fn prepare(op: &'static str, a: &Array, b: &Array, dtype: Dtype) -> Result<Product> {
    if a.ndim() == 0 || b.ndim() == 0 {
        return Err(Error::invalid(
            op,
            "Got 0 dimension input. Inputs must have at least one dimension.",
        ));
    }
    let mut vector_axes = Vec::new();
    let mut left = astype(a, dtype)?;
    let mut right = astype(b, dtype)?;
    if b.ndim() == 1 {
        right = expand_dims(&right, &[1])?;
        vector_axes.push(-1);
    }
    if a.ndim() == 1 {
        left = expand_dims(&left, &[0])?;
        vector_axes.push(-2);
    }
    if left.dim(-1) != right.dim(-2) {
        let message = format!(
            "Last dimension of first input with shape {:?} must match second to last dimension of second \
             input with shape {:?}.",
            a.shape(),
            b.shape()
        );
        return Err(Error::invalid(op, message));
    }
    let [a, b] = match (left.ndim(), right.ndim()) {
        // Matrices alone have no batches.
        (2, 2) => [left, right],
        _ => ops::broadcast_together(op, [&left, &right], &[-2, -1])?,
    };
    Ok(Product { a, b, dtype, vector_axes })
}

fn product_dtype(op: &'static str, arrays: &[&Array]) -> Result<Dtype> {
    let dtype = arrays.iter().map(|a| a.dtype()).reduce(Dtype::promote).expect("not empty");
    match dtype.is_inexact() {
        true => Ok(dtype),
        false => {
            let message =
                format!("Only inexact types are supported but inputs promote to {dtype}.");
            Err(Error::invalid(op, message))
        }
    }
}

/// Matrix product of the last two axes; vectors are rows on the left, columns on the right;
/// other axes broadcast.
///
/// # Errors
/// When the inner sizes differ, batch axes do not broadcast, or the dtype is not inexact.
pub fn matmul(a: &Array, b: &Array) -> Result<Array> {
    let p = prepare("matmul", a, b, product_dtype("matmul", &[a, b])?)?;
    let mut shape = Shape::from_slice(p.a.shape());
    shape[p.a.ndim() - 1] = p.b.dim(-1);
    let out = ops::checked_node(MatmulOp::Matmul, [p.a, p.b], shape, p.dtype)?;
    drop_vector_axes(out, &p.vector_axes)
}

/// `alpha * (a @ b) + beta * c`, where `c` broadcasts to the product.
///
/// # Errors
/// As [`matmul`], or when `c` does not broadcast.
pub fn addmm(c: &Array, a: &Array, b: &Array, alpha: f32, beta: f32) -> Result<Array> {
    let p = prepare("addmm", a, b, product_dtype("addmm", &[a, b, c])?)?;
    let c = astype(c, p.dtype)?;
    let c = like_product(&vector_axes_of(&c, &p.vector_axes)?, &p)?;
    let out = ops::node(MatmulOp::AddMm { alpha: alpha.into(), beta: beta.into() }, [p.a, p.b, c])?;
    drop_vector_axes(out, &p.vector_axes)
}

/// `c` broadcast to the shape of the product: to rows and batches of the left operand, then to columns of the
/// right one.
fn like_product(c: &Array, product: &Product) -> Result<Array> {
    let missing: Vec<isize> = (0..2usize.saturating_sub(c.ndim()) as isize).collect();
    let c = expand_dims(c, &missing)?;
    let [tall, _] = ops::broadcast_together("addmm", [&c, &product.a], &[-1])?;
    let [whole, _] = ops::broadcast_together("addmm", [&tall, &product.b], &[-2])?;
    Ok(whole)
}

/// Gives `c` the axes that vector operands got.
fn vector_axes_of(c: &Array, vector_axes: &[isize]) -> Result<Array> {
    let mut c = c.clone();
    if vector_axes.contains(&-1) && c.ndim() > 0 {
        c = expand_dims(&c, &[-1])?;
    }
    if vector_axes.contains(&-2) && c.ndim() > 1 {
        c = expand_dims(&c, &[-2])?;
    }
    Ok(c)
}

fn drop_vector_axes(out: Array, vector_axes: &[isize]) -> Result<Array> {
    if vector_axes.is_empty() { Ok(out) } else { squeeze(&out, vector_axes) }
}
