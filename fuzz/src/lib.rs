//! What the targets share.

use mlx_vulkan_core::{Array, io::FileBytes};

/// The input as a file.
pub fn file(data: &[u8]) -> FileBytes {
    FileBytes::from_bytes("fuzz", data).expect("memory for the input")
}

/// Reads every element of what a loader accepted. Those of a .npy file may be missing.
pub fn touch<'a>(arrays: impl IntoIterator<Item = &'a Array>) {
    for array in arrays {
        if let Ok(bytes) = array.to_bytes() {
            assert_eq!(bytes.len(), array.nbytes());
        }
    }
}
