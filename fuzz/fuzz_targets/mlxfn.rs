//! .mlxfn: any bytes load or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mlx_fuzz::{file, touch};
use mlx_vulkan_core::export;

fuzz_target!(|data: &[u8]| {
    if let Ok(found) = export::parse(&file(data)) {
        touch(found.constants());
    }
});
