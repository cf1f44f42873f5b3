//! Prints what encoding a dispatch costs, beside the bare Vulkan calls, as one JSON object.

fn main() -> mlx_core::Result<()> {
    mlx_vk_backend::install();
    let f = mlx_vk_backend::bench::encode(300)?;
    let name = &mlx_vk_backend::backend::capabilities(0)?.name;
    println!(
        "{{\"device\":{name:?},\"encoder_dependent_ns\":{:.1},\"plain_dependent_ns\":{:.1},\
         \"encoder_independent_ns\":{:.1},\"plain_independent_ns\":{:.1},\"run_dependent_ns\":{:.1},\
         \"ratio_dependent\":{:.2},\"ratio_independent\":{:.2}}}",
        f.encoder_dependent,
        f.plain_dependent,
        f.encoder_independent,
        f.plain_independent,
        f.run_dependent,
        f.encoder_dependent / f.plain_dependent,
        f.encoder_independent / f.plain_independent,
    );
    Ok(())
}
