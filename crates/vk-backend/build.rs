//! Tells the crate where the shaders are: the GLSL for the `shader!` macro (feature
//! `shader-macros`), and the SPIR-V.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let crate_folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // A package has them in its own folder: `shaders` is a link that cargo follows when it packs. A checkout
    // without links (git on Windows) has them at the root of the repository only.
    let packed = crate_folder.join("shaders");
    let folder = if packed.is_dir() { packed } else { crate_folder.join("../../shaders") };
    println!("cargo::rustc-env=MLX_VK_SHADER_ROOT={}", folder.display());
}
