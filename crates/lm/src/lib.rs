//! Language models on [`mlx`]: loading, tokenization and text generation.
//!
//! Models of the Llama, Qwen3 and gpt-oss families run from GGUF files and from MLX or Hugging Face
//! safetensors folders, mixtures of experts among them; see [`load`]. [`generate`] is the decode loop
//! of `mlx_lm`: the next token is encoded before the last one is read.

// What a program prints is its own; core's `notice` has the exceptions.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod chat;
pub mod config;
mod error;
pub mod export;
pub mod generate;
pub mod hub;
mod json;
pub mod load;
pub mod lora;
pub mod metadata;
pub mod models;
pub mod sample;
pub mod stream;
pub mod template;
pub mod tokenizer;

pub use error::{Error, Result};
