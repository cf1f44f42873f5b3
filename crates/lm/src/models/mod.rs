//! The models: one [`Transformer`] for all families, its parts, and the key/value [`Cache`].

mod attention;
mod cache;
mod embedding;
mod linear;
mod mlp;
mod rope;
mod transformer;

pub(crate) use self::{
    attention::Attention, embedding::Embedding, mlp::Mlp, rope::Rope, transformer::Block,
};
pub use self::{cache::Cache, linear::Linear, transformer::Transformer};
