//! .npz: any bytes load or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mlx_vulkan_core::io::npz;
use mlx_fuzz::{file, touch};

fuzz_target!(|data: &[u8]| {
    if let Ok(found) = npz::parse(&file(data)) {
        touch(found.values());
    }
});
