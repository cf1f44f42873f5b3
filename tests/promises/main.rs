//! What upstream's documentation promises and no comparison of values shows: when work is done, which arrays
//! share memory, which dtype comes out, and what is refused with which words.
//!
//! Promises that other tests keep:
//!
//! | promise | test |
//! | --- | --- |
//! | `async_eval` comes back before the work is done | `runtime/streams.rs`,
//! `async_eval_returns_before_completion` |
//! | a node of a graph runs once, whoever asks for it | `runtime/evaluation.rs`,
//! `wide_graphs_evaluate_once_per_node` |
//! | the last user of an array works in its memory | `runtime/donation.rs`, `the_last_user_works_in_place` |
//! | who still holds an array, or a view of it, sees it unchanged | `runtime/donation.rs`,
//! `a_view_keeps_its_source_from_donation` |
//! | updated slices stay where they are | `runtime/donation.rs`, `slice_update_writes_in_place` |
//! | arrays of CPU and GPU streams are shared | `runtime/streams.rs`, `cpu_and_gpu_streams_share_arrays` |
//! | freed memory is cached, counted and can be cleared | `memory/main.rs` |
//! | every pair of dtypes promotes | `ops/binary.rs`, `dtypes_promote` |
//! | numbers are weak beside arrays | `ops/binary.rs`, `scalars_are_weak` |
//! | factorizations ask for a CPU stream | `ops/linalg.rs`, `refusals` |
//! | extremes of nothing are refused | `ops/reduce.rs`, `extremes_of_nothing_are_refused` |

mod dtypes;
mod errors;
mod in_place;
mod laziness;
mod views;

use mlx::{Array, Dtype, ops};

/// An evaluated array of these numbers that no host copy backs.
fn computed(shape: &[usize]) -> Array {
    let size: usize = shape.iter().product();
    let shape: Vec<isize> = shape.iter().map(|&d| d as isize).collect();
    let numbers = ops::arange(0.0, size as f64, 1.0, Dtype::Float32).unwrap();
    let a = ops::reshape(&ops::add(numbers, 0.0f32).unwrap(), &shape).unwrap();
    a.eval().unwrap();
    a
}

/// Where an array lies, evaluated if it was not.
fn buffer_of(a: &Array) -> usize {
    a.eval().unwrap();
    a.data().expect("evaluated").buffer.id()
}
