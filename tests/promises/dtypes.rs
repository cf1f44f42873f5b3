//! Which dtype comes out.

use mlx::{Array, Dtype, Result, ops};
use mlx_tests::{array, on_each_device};

use Dtype::{
    Bfloat16, Bool, Complex64, Float16, Float32, Int8, Int16, Int32, Int64, Uint8, Uint32, Uint64,
};

fn ones(dtype: Dtype) -> Array {
    array(&[1.0; 4], &[2, 2], dtype)
}

/// Checks the dtype of a result on both devices, evaluated.
fn gives(want: Dtype, make: impl Fn() -> Result<Array>) {
    on_each_device(|device| {
        let a = make().unwrap();
        a.eval().unwrap();
        assert_eq!(a.dtype(), want, "{device}");
    });
}

/// Checks that a function refuses these dtypes with an error that has `text`.
fn refuses(text: &str, dtypes: &[Dtype], make: impl Fn(&Array) -> Result<Array>) {
    on_each_device(|device| {
        for &dtype in dtypes {
            let error = make(&ones(dtype)).expect_err(&format!("{dtype} on {device}")).to_string();
            assert!(error.contains(text), "{error}");
        }
    });
}

#[test]
fn a_quotient_of_integers_is_float32() {
    for dtype in [Bool, Uint8, Int32, Int64] {
        gives(Float32, || ops::divide(ones(dtype), ones(dtype)));
    }
}

#[test]
fn a_floor_quotient_of_integers_is_an_integer() {
    gives(Int32, || ops::floor_divide(ones(Int32), ones(Int32)));
    gives(Int32, || Ok(ops::divmod(ones(Int32), ones(Int32))?.0));
    gives(Int32, || ops::remainder(ones(Int32), ones(Int32)));
}

#[test]
fn means_and_variances_of_integers_are_float32() {
    gives(Float32, || ops::mean(&ones(Int32), &[], false));
    gives(Float32, || ops::var(&ones(Int64), &[], false, 0));
    gives(Float32, || ops::std(&ones(Uint8), &[], false, 0));
    gives(Float16, || ops::mean(&ones(Float16), &[], false));
}

#[test]
fn functions_of_integers_are_float32() {
    for function in [ops::sqrt, ops::exp, ops::sin, ops::log, ops::sigmoid, ops::tanh] {
        gives(Float32, || function(&ones(Int32)));
        gives(Bfloat16, || function(&ones(Bfloat16)));
    }
    gives(Float32, || ops::logaddexp(ones(Int32), ones(Int32)));
    gives(Float32, || ops::softmax(&ones(Int32), &[-1], false));
}

#[test]
fn rounding_and_signs_of_integers_stay_integers() {
    for function in [ops::floor, ops::ceil, ops::sign, ops::abs, ops::square] {
        gives(Int16, || function(&ones(Int16)));
    }
    gives(Int16, || ops::power(ones(Int16), ones(Int16)));
}

#[test]
fn comparisons_are_bool() {
    gives(Bool, || ops::less(ones(Int32), ones(Float16)));
    gives(Bool, || ops::equal(ones(Complex64), ones(Int8)));
    gives(Bool, || ops::logical_and(ones(Int32), ones(Float32)));
    gives(Bool, || ops::isnan(&ones(Int32)));
    gives(Bool, || ops::all(&ones(Float32), &[], false));
}

#[test]
fn sums_and_products_of_small_integers_are_of_32_bits() {
    for (dtype, want) in [(Bool, Int32), (Int8, Int32), (Int16, Int32), (Uint8, Uint32)] {
        gives(want, || ops::sum(&ones(dtype), &[], false));
        gives(want, || ops::prod(&ones(dtype), &[], false));
    }
    gives(Int64, || ops::sum(&ones(Int64), &[], false));
    gives(Float16, || ops::sum(&ones(Float16), &[], false));
}

#[test]
fn places_are_uint32() {
    gives(Uint32, || ops::argmax(&ones(Int64), None, false));
    gives(Uint32, || ops::argmin(&ones(Float32), Some(0), false));
    gives(Uint32, || ops::argsort(&ones(Int8), -1));
    gives(Uint32, || ops::argpartition(&ones(Float32), 1, -1));
}

#[test]
fn extremes_and_orders_keep_the_dtype() {
    for dtype in [Bool, Int8, Uint64, Bfloat16] {
        gives(dtype, || ops::max(&ones(dtype), &[], false));
        gives(dtype, || ops::sort(&ones(dtype), -1));
    }
}

#[test]
fn mixed_signs_take_the_next_wider_integer() {
    gives(Int16, || ops::add(ones(Uint8), ones(Int8)));
    gives(Int64, || ops::add(ones(Uint32), ones(Int32)));
    // There is none wider than 64 bits.
    gives(Float32, || ops::add(ones(Uint64), ones(Int64)));
}

#[test]
fn floats_win_over_integers_of_any_width() {
    gives(Float16, || ops::add(ones(Int64), ones(Float16)));
    gives(Bfloat16, || ops::multiply(ones(Uint64), ones(Bfloat16)));
}

#[test]
fn the_two_halves_meet_in_float32() {
    gives(Float32, || ops::add(ones(Float16), ones(Bfloat16)));
    gives(Float32, || ops::matmul(&ones(Float16), &ones(Bfloat16)));
}

#[test]
fn products_of_matrices_promote() {
    gives(Float16, || ops::matmul(&ones(Float16), &ones(Int32)));
    gives(Float32, || ops::matmul(&ones(Float32), &ones(Bfloat16)));
}

#[test]
fn numbers_do_not_widen_arrays() {
    gives(Bfloat16, || ops::multiply(ones(Bfloat16), 2.0f32));
    gives(Uint8, || ops::add(ones(Uint8), 1));
    gives(Float16, || ops::maximum(ones(Float16), 3));
    gives(Int8, || ops::where_(&ones(Bool), ones(Int8), 0));
}

#[test]
fn a_real_number_makes_integers_float32() {
    gives(Float32, || ops::add(ones(Int64), 1.5f32));
}

#[test]
fn an_array_without_axes_is_no_weak_number() {
    gives(Float32, || ops::add(ones(Float16), array(&[1.0], &[], Float32)));
}

#[test]
fn a_modulus_is_real() {
    gives(Float32, || ops::abs(&ones(Complex64)));
    gives(Float32, || ops::real(&ones(Complex64)));
}

#[test]
fn integers_have_no_product_of_matrices() {
    refuses("Only inexact types are supported", &[Bool, Int32, Uint8], |a| ops::matmul(a, a));
}

#[test]
fn floats_have_no_bits_to_combine() {
    let floats = [Float16, Bfloat16, Float32];
    let text = "integer or boolean types";
    refuses(text, &floats, |a| ops::bitwise_and(a, a));
    refuses(text, &floats, |a| ops::bitwise_or(a, a));
    refuses(text, &floats, |a| ops::bitwise_xor(a, a));
    refuses(text, &floats, |a| ops::left_shift(a, a));
    refuses("only allowed on integer types", &floats, ops::bitwise_invert);
}

#[test]
fn bools_have_no_negative() {
    refuses("use logical_not instead", &[Bool], ops::negative);
}
