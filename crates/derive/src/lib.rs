//! # mlx-vulkan-derive
//!
//! `#[derive(Tree)]` of mlx-vulkan, which re-exports it: its trait `Tree` says what a tree is.

mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct or an enum whose fields are trees of arrays one itself. A field with `#[tree(skip)]` holds
/// no arrays and is cloned; `#[tree(crate = path)]` on the type names the crate that has `Tree`, which is
/// `::mlx` otherwise.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::tree(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
