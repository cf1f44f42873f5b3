//! Functions that upstream wrote into files.

use mlx::{export::parse, io::FileBytes};

use super::Table;

pub(super) const TABLE: Table = &[("import_function", |x| {
    let file = FileBytes::from_bytes("fn.mlxfn", &x.array(0)?.to_bytes()?)?;
    parse(&file)?.call(&x.all_arrays()?[1..], &x.named_arrays()?)
})];
