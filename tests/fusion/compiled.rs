//! Decoder layers with a compiled function in their middle: the same groups, dispatches and steps as without.

use std::sync::LazyLock;

use mlx::{Array, Device, Result, compile::Compiled, vulkan::stats::Snapshot};

use super::{
    decoder::{DECODER, Decoder, swiglu},
    fusing,
    interpreter::counted,
    turn,
};

fn compiled(shapeless: bool) -> Compiled {
    Compiled::new(|x| Ok(vec![swiglu(&x[0], &x[1])?]), shapeless)
}

fn call(swiglu: &Compiled, gate: &Array, up: &Array) -> Result<Array> {
    Ok(swiglu.call(&[gate.clone(), up.clone()])?.remove(0))
}

/// Traced once for all layers.
fn of_these_sizes(gate: &Array, up: &Array) -> Result<Array> {
    static SWIGLU: LazyLock<Compiled> = LazyLock::new(|| compiled(false));
    call(&SWIGLU, gate, up)
}

/// As mlx-lm's models have it.
fn of_any_sizes(gate: &Array, up: &Array) -> Result<Array> {
    static SWIGLU: LazyLock<Compiled> = LazyLock::new(|| compiled(true));
    call(&SWIGLU, gate, up)
}

#[test]
fn groups_see_through_compiled_functions() {
    let test = "compiled::groups_see_through_compiled_functions";
    for interpreter in ["0", "1"] {
        let variables = [("MLX_VK_ENABLE_INTERPRETER", interpreter)];
        let inside = mlx_tests::in_child(test, &variables, || {
            let _turn = turn();
            let (want, plain) = counted(Device::GPU, &DECODER.graph());
            assert!(plain.fused > 0 || !fusing());
            for swiglu in [of_these_sizes, of_any_sizes] {
                let (got, with) = counted(Device::GPU, &Decoder { swiglu, ..DECODER }.graph());
                assert_eq!(got, want);
                let counts = |counted: Snapshot| {
                    let Snapshot { dispatches, fused, interpreted, .. } = counted;
                    (dispatches, fused, interpreted)
                };
                assert_eq!(counts(with), counts(plain));
            }
        });
        if inside.is_none() {
            return;
        }
    }
}
