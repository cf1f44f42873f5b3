//! Calls as functions in files, for upstream to call.

use mlx::{Device, Result, export::export_function, io::Arrays};

use crate::{
    argument::Args,
    calls::{Call, Family},
    families::Function,
};

/// Writes the call with this number as a function of the arrays among its arguments, each by its name.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(call: &Call, number: usize, family: &Family, function: Function) -> Result<()> {
    // What is in a file must be known to load it.
    let known = usize::from(call.function() == "import_function");
    let named = call
        .inputs()
        .into_iter()
        .skip(known)
        .map(|name| (name.into(), family.arrays[name].clone()));
    let inputs: Arrays = named.collect();
    let fun = |_: &[_], given: &Arrays| {
        let mut arrays = family.arrays.clone();
        arrays.extend(given.iter().map(|(name, array)| (name.clone(), array.clone())));
        let (args, kwargs) = (call.args(), call.kwargs());
        function(&Args { args, kwargs, arrays: &arrays, values: &[] })
    };
    let path = family.folder.join(format!("{number}.mlxfn"));
    let write = || export_function(path, fun, &[], &inputs, false);
    mlx::with_device(Device::CPU, write)?
}
