//! GGUF: any bytes load or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mlx_vulkan_core::io::gguf;
use mlx_fuzz::{file, touch};

fuzz_target!(|data: &[u8]| {
    if let Ok(found) = gguf::parse(&file(data)) {
        touch(found.tensors.values());
    }
});
