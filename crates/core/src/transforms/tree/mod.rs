//! What holds arrays, as a tree: parameters of a model, arguments and results of a function.

mod axes;
mod holders;
mod path;
mod transforms;

pub use axes::Axes;
pub use path::Path;
pub(super) use transforms::{filled, flattened};
pub use transforms::{jvp, vjp, vmap};

use crate::{Array, Error, Result};

/// What is done with an array of a tree.
pub type Visitor<'v, 'a> = dyn FnMut(&Path<'_>, &'a Array) + 'v;

/// What takes the place of an array of a tree.
pub type Rebuilder<'r> = dyn FnMut(&Path<'_>, &Array) -> Result<Array> + 'r;

/// Something that holds arrays, in an order that stays the same: an array, tuples, vectors, arrays of Rust,
/// options, boxes and ordered maps of trees, and structs and enums with `#[derive(Tree)]`. A field that holds
/// no arrays gets `#[tree(skip)]` and is cloned as it is.
///
/// ```no_run
/// use mlx_vulkan_core::{Array, Result, Tree, ops};
///
/// #[derive(Tree)]
/// #[tree(crate = mlx_vulkan_core)]
/// struct Linear {
///     weight: Array,
///     bias: Option<Array>,
///     #[tree(skip)]
///     name: String,
/// }
///
/// fn halved(layers: &Vec<Linear>) -> Result<Vec<Linear>> {
///     layers.map_arrays(|path, array| {
///         println!("{path}"); // 0.weight, 0.bias, 1.weight, …
///         ops::multiply(array, 0.5f32)
///     })
/// }
/// ```
///
/// The derived code calls the crate `::mlx`, which is how users are asked to name the facade;
/// `#[tree(crate = path)]` says another path.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tree of arrays",
    note = "`#[derive(Tree)]` makes a struct or an enum of trees one",
    note = "a field that holds no arrays needs `#[tree(skip)]`"
)]
pub trait Tree: Sized {
    /// Calls `visit` with each array, and where it lies below `path`.
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>);

    /// The same tree with what `rebuild` returns for each array, in the order of [`visit`](Self::visit).
    ///
    /// # Errors
    /// Those of `rebuild`.
    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self>;

    /// All arrays.
    fn arrays(&self) -> Vec<&Array> {
        let mut arrays = Vec::new();
        self.visit(&Path::Root, &mut |_, array| arrays.push(array));
        arrays
    }

    /// All arrays with their paths: `layers.0.weight`.
    fn named_arrays(&self) -> Vec<(String, &Array)> {
        let mut arrays = Vec::new();
        self.visit(&Path::Root, &mut |path, array| arrays.push((path.to_string(), array)));
        arrays
    }

    /// The same tree with what `map` returns for each array.
    ///
    /// # Errors
    /// Those of `map`.
    fn map_arrays(&self, mut map: impl FnMut(&Path<'_>, &Array) -> Result<Array>) -> Result<Self> {
        self.rebuild(&Path::Root, &mut map)
    }

    /// The same tree with other arrays, in the order of [`arrays`](Self::arrays).
    ///
    /// # Errors
    /// When there are more or fewer of them.
    fn with_arrays(&self, arrays: impl IntoIterator<Item = Array>) -> Result<Self> {
        let mut arrays = arrays.into_iter();
        let next = |path: &Path<'_>, _: &Array| {
            let message = || format!("There is no array for {}.", path.described());
            arrays.next().ok_or_else(|| Error::invalid("tree", message()))
        };
        let tree = self.map_arrays(next)?;
        match arrays.next() {
            Some(_) => Err(Error::invalid("tree", "There are more arrays than the tree holds.")),
            None => Ok(tree),
        }
    }
}

/// The arrays of a tree, to be given to functions of slices.
pub(super) fn flat(tree: &impl Tree) -> Vec<Array> {
    tree.arrays().into_iter().cloned().collect()
}
