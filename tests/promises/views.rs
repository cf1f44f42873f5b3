//! Operations that look at an array's memory in another way and take none of their own.

use mlx::{Array, Dtype, Result, index::Index, ops};
use mlx_tests::{on_each_device, values};

use crate::{buffer_of, computed};

/// Checks that what `look` makes of an array of shape (4, 6) lies where the array lies.
fn shares(look: impl Fn(&Array) -> Result<Array>) {
    on_each_device(|device| {
        let a = computed(&[4, 6]);
        let view = look(&a).unwrap();
        assert_eq!(buffer_of(&view), buffer_of(&a), "{device}");
    });
}

macro_rules! views {
    ($($name:ident: $look:expr;)*) => {$(
        #[test]
        fn $name() {
            shares($look);
        }
    )*};
}

views! {
    a_slice_is_a_view: |a| ops::slice(a, &[1, 2], &[3, 5], &[1, 1]);
    a_slice_with_steps_is_a_view: |a| ops::slice(a, &[0, 1], &[4, 6], &[2, 3]);
    a_slice_backwards_is_a_view: |a| ops::slice(a, &[-1, 0], &[-5, 6], &[-1, 1]);
    a_row_is_a_view: |a| a.get_item(&[Index::Int(2)]);
    a_transpose_is_a_view: |a| ops::transpose(a, &[]);
    swapped_axes_are_a_view: |a| ops::swapaxes(a, 0, 1);
    a_moved_axis_is_a_view: |a| ops::moveaxis(a, 0, 1);
    a_dense_array_reshaped_is_a_view: |a| ops::reshape(a, &[2, -1]);
    a_dense_array_flattened_is_a_view: |a| ops::flatten(a, 0, -1);
    an_unflattened_axis_is_a_view: |a| ops::unflatten(a, 1, &[2, 3]);
    an_axis_of_a_transpose_is_split_in_place: |a| ops::unflatten(&ops::transpose(a, &[])?, 0, &[2, 3]);
    a_broadcast_is_a_view: |a| ops::broadcast_to(a, &[5, 4, 6]);
    a_new_axis_is_a_view: |a| ops::expand_dims(a, &[0, -1]);
    a_removed_axis_is_a_view: |a| ops::squeeze(&ops::expand_dims(a, &[1])?, &[1]);
    strides_make_a_view: |a| ops::as_strided(a, &[3, 3], &[7, 1], 2);
    the_same_dtype_is_no_copy: |a| ops::astype(a, Dtype::Float32);
    bytes_of_another_dtype_are_a_view: |a| ops::view(a, Dtype::Int32);
    what_is_contiguous_is_no_copy: |a| ops::contiguous(a, false);
    a_view_of_a_view_is_a_view: |a| ops::transpose(&ops::slice(a, &[1, 0], &[3, 6], &[1, 2])?, &[]);
}

#[test]
fn parts_of_a_split_are_views() {
    on_each_device(|device| {
        let a = computed(&[4, 6]);
        for part in ops::split(&a, 3, 1).unwrap() {
            assert_eq!(buffer_of(&part), buffer_of(&a), "{device}");
        }
    });
}

#[test]
fn a_transpose_is_copied_where_a_reshape_needs_it() {
    on_each_device(|device| {
        let a = computed(&[2, 3]);
        let flat = ops::flatten(&ops::transpose(&a, &[]).unwrap(), 0, -1).unwrap();
        assert_ne!(buffer_of(&flat), buffer_of(&a), "{device}");
        assert_eq!(values(&flat), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0], "{device}");
    });
}

#[test]
fn a_view_keeps_its_memory_when_its_source_is_gone() {
    on_each_device(|device| {
        let a = computed(&[4, 6]);
        let row = a.get_item(&[Index::Int(2)]).unwrap();
        drop(a);
        assert_eq!(values(&row), [12.0, 13.0, 14.0, 15.0, 16.0, 17.0], "{device}");
    });
}

#[test]
fn an_updated_copy_leaves_views_of_the_original_alone() {
    on_each_device(|device| {
        let a = computed(&[4]);
        let view = ops::slice(&a, &[0], &[2], &[1]).unwrap();
        view.eval().unwrap();
        let nines = ops::full(&[2], 9.0f32, Dtype::Float32).unwrap();
        let updated = ops::slice_update(&a, &nines, &[0], &[2], &[1]).unwrap();
        drop(a);
        assert_eq!(values(&updated), [9.0, 9.0, 2.0, 3.0], "{device}");
        assert_eq!(values(&view), [0.0, 1.0], "{device}");
    });
}
