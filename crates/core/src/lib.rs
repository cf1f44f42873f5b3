//! # mlx-vulkan-core
//!
//! Lazy arrays with the semantics of MLX: dtypes and promotion, the graph and its primitives,
//! operations, streams and their clocks, evaluation, memory accounting and file formats.
//!
//! Nothing is computed here. An operation checks its arguments, infers the shape and dtype of its
//! result and adds a node to the graph; [`eval()`] orders the nodes and hands each one to the
//! [`backend::Backend`] of its stream.

// What a program prints is its own; core's `notice` has the exceptions.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod array;
pub mod backend;
pub mod buffer;
pub mod chains;
pub mod clock;
pub mod compile;
pub mod dtype;
pub mod error;
pub mod eval;
pub mod export;
pub mod fast;
pub mod fft;
pub mod foreign;
pub mod fusion;
pub mod graph;
pub mod host;
pub mod host_view;
pub mod index;
pub mod interrupt;
pub mod io;
pub mod linalg;
pub mod locations;
pub mod memory;
pub mod notice;
pub mod ops;
pub mod outcome;
pub mod primitives;
pub mod print;
mod program;
pub mod random;
pub mod shape;
pub mod spare;
pub mod stream;
pub mod tape;
pub mod transforms;
mod views;

pub use array::Array;
pub use dtype::{
    Category, Complex, Dtype, Element, Finfo, Iinfo, Kind, bf16, can_cast, f16, finfo, iinfo,
    isdtype, issubdtype, result_type,
};
pub use error::{Error, Result};
pub use eval::{
    Early, EarlyParts, async_eval, async_eval_detached, begin_while_building, early_parts, eval,
    settle, synchronize,
};
/// Makes a struct or an enum of trees a [`trait@Tree`].
pub use mlx_vulkan_derive::Tree;

pub use index::{ArrayAt, Index, Slice};
pub use shape::{Shape, Strides};
pub use stream::{
    Device, DeviceType, Stream, ThreadLocalStream, clear_streams, current_stream, default_device,
    default_stream, new_stream, new_thread_local_stream, new_thread_unsafe_stream,
    set_default_device, set_default_stream, with_device, with_stream,
};
pub use transforms::tree::Tree;
