//! Lists every kernel: name and GLSL source.
//!
//! With `--features shader-macros` each kernel's `shader!` module is linked into this program, so
//! that `cargo xtask shaders --check` can compare its words with the committed SPIR-V.

use mlx_vulkan_vk::internals::Kernel;

fn main() {
    for kernel in Kernel::ALL {
        println!("{}\t{}", kernel.name(), kernel.source());
    }
    Kernel::link_all();
}
