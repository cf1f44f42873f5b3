//! Lists what a safetensors, GGUF, npy or npz file holds. No backend is needed: arrays of files
//! are evaluated already.
//!
//! `cargo run -p mlx-vulkan-core --example inspect -- FILE`

use mlx_vulkan_core::io::{self, Loaded};

fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: inspect FILE");
        std::process::exit(2);
    };
    match io::load(&path) {
        Ok(Loaded::Npy(array)) => println!("{array:?}"),
        Ok(loaded) => {
            for (name, array) in loaded.into_arrays().unwrap_or_default() {
                println!("{name}: {array:?}");
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}
