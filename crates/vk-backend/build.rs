//! Tells the `shader!` macro (feature `shader-macros`) where the GLSL sources are.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".into());
    println!("cargo::rustc-env=MLX_VK_SHADER_ROOT={root}/../../shaders");
}
