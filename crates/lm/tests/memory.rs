//! What random models take while they are made. Alone in its program: the counters are the process's.

mod support;

use mlx::Dtype;
use mlx_vulkan_lm::{
    config::{ExpertsConfig, ModelConfig, Quantization, preset},
    load::random_model,
};
use support::on_every_device;

/// A model with next to nothing but experts.
fn of_experts(name: &str) -> ModelConfig {
    let base = preset(name).unwrap();
    let experts = ExpertsConfig { count: 32, width: 256, ..base.experts.clone().unwrap() };
    ModelConfig { hidden_size: 512, num_layers: 8, experts: Some(experts), ..base }
}

/// Made stack by stack: beside the model there are but the numbers that one stack is made of.
#[test]
fn random_experts_need_a_stack_more_than_the_model() {
    on_every_device(|device| {
        for name in ["qwen3-moe-tiny", "gpt-oss-tiny"] {
            let format = Some(Quantization { group_size: 64, bits: 4 }.into());
            let before = mlx::memory::active_memory();
            mlx::memory::reset_peak_memory();
            let model = random_model(of_experts(name), format, Dtype::Bfloat16, 3).unwrap();
            let (peak, bytes) = (mlx::memory::peak_memory() - before, model.nbytes());
            // Words of 4 bits, of which eight layers have three stacks each.
            let stack = 32 * 512 * 256 / 2;
            assert!(bytes > 24 * stack, "{name}: {bytes}");
            assert!(peak < bytes + 2 * stack, "{name} on {device}: {peak} for {bytes}");
        }
    });
}
