//! Tests that cross crates live in this crate's `tests` folder.
