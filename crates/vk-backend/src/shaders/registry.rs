//! The list of kernels. One line each, in this form, which `cargo xtask shaders` reads:
//! `name => "family/file.comp" { DEFINE: "value", OTHER: "value" },`
//!
//! The define names that a line may use stand in `declare.rs` (`define_shader!`).

kernels! {
    copy_float => "copy/copy.comp" { CLASS: "0" },
    copy_int => "copy/copy.comp" { CLASS: "1" },
    copy_uint => "copy/copy.comp" { CLASS: "2" },
    copy_long => "copy/copy.comp" { CLASS: "3" },
    copy_ulong => "copy/copy.comp" { CLASS: "4" },
    copy_complex => "copy/copy.comp" { CLASS: "5" },
    move_bytes => "copy/move.comp" { },
}
