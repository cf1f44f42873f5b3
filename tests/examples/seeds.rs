//! Writes a small valid file of each format into `fuzz/corpus`, from which the fuzz targets start.

use std::{collections::BTreeMap, fs, path::Path};

use mlx::{
    Array, Dtype, Result,
    export::export_function,
    io::{Arrays, gguf, npy, npz, safetensors},
    ops,
};

/// A function with most of what files hold: a constant, parameters, a node with several outputs.
fn function(args: &[Array], kwargs: &Arrays) -> Result<Vec<Array>> {
    let weight = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])?;
    let rows = ops::take(&ops::matmul(&args[0], &weight)?, &args[1], 0)?;
    let halves = ops::split(&rows, 2, 1)?;
    let scaled = ops::multiply(&halves[0], &kwargs["scale"])?;
    let (quotient, remainder) = ops::divmod(&scaled, &halves[1])?;
    Ok(vec![ops::softmax(&scaled, &[-1], true)?, quotient, remainder])
}

fn write_functions(name: impl Fn(&str) -> std::path::PathBuf) -> Result<()> {
    let rows = Array::from_slice(&[0.5f32; 12], &[4, 3])?;
    let args = [rows, Array::from_slice(&[0i32, 2, 1], &[3])?];
    let kwargs = Arrays::from([("scale".to_string(), Array::from_slice(&[2.0f32], &[1])?)]);
    export_function(name("fixed"), function, &args, &kwargs, false)?;
    export_function(name("shapeless"), function, &args, &kwargs, true)
}

fn main() -> Result<()> {
    mlx::init();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let seed = |format: &str, name: &str| {
        let folder = corpus.join(format);
        fs::create_dir_all(&folder).expect("the corpus can be written");
        folder.join(format!("{name}.{format}"))
    };
    let weight = Array::from_slice(&[0.5f32, -1.0, 2.0, 3.5, 0.0, 7.0], &[2, 3])?;
    let arrays = Arrays::from([
        ("weight".to_string(), weight.clone()),
        ("counts".to_string(), Array::from_slice(&[1i8, -2, 3], &[3])?),
        ("empty".to_string(), Array::from_bytes(&[], &[0, 4], Dtype::Float16)?),
    ]);
    let metadata = BTreeMap::from([("format".to_string(), "mlx".to_string())]);
    safetensors::save_safetensors(seed("safetensors", "seed"), &arrays, &metadata)?;
    gguf::save_gguf(seed("gguf", "seed"), &arrays, &gguf::Metadata::default())?;
    npy::save(seed("npy", "seed"), &weight)?;
    npz::savez(seed("npz", "stored"), &arrays)?;
    npz::savez_compressed(seed("npz", "deflated"), &arrays)?;
    write_functions(|name| seed("mlxfn", name))
}
