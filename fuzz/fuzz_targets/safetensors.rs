//! safetensors: any bytes load or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mlx_vulkan_core::io::safetensors;
use mlx_fuzz::{file, touch};

fuzz_target!(|data: &[u8]| {
    if let Ok(found) = safetensors::parse(&file(data)) {
        touch(found.arrays.values());
    }
});
