//! The models: one [`Transformer`] for all families, its parts, and the key/value [`Cache`].

mod attention;
mod cache;
mod embedding;
mod linear;
mod mixture;
mod mlp;
mod rope;
mod transformer;
mod weight;

pub(crate) use self::{
    attention::Attention,
    embedding::Embedding,
    mixture::{Experts, Mixture},
    mlp::{Activation, FeedForward, Mlp},
    rope::Rope,
    transformer::Block,
    weight::Weight,
};
pub use self::{cache::Cache, linear::Linear, transformer::Transformer};
