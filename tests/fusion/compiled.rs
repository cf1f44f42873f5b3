//! Decoder layers with a compiled function in their middle: the same groups, dispatches and steps as without.

use std::sync::LazyLock;

use mlx::{Array, Device, Result, compile::Compiled, vulkan::stats::Snapshot};

use super::{
    decoder::{DECODER, Decoder, geglu, swiglu},
    fusing,
    interpreter::counted,
    turn,
};

type Gate = fn(&Array, &Array) -> Result<Array>;

/// A gate's function, traced once for all layers: of these sizes, or of any, as mlx-lm's models have it.
macro_rules! compiled {
    ($function:ident, shapeless: $shapeless:literal) => {
        |gate: &Array, up: &Array| -> Result<Array> {
            static COMPILED: LazyLock<Compiled> =
                LazyLock::new(|| Compiled::new(|x| Ok(vec![$function(&x[0], &x[1])?]), $shapeless));
            Ok(COMPILED.call(&[gate.clone(), up.clone()])?.remove(0))
        }
    };
}

/// Each gate with its compiled forms.
const GATES: [(Gate, [Gate; 2]); 2] = [
    (swiglu, [compiled!(swiglu, shapeless: false), compiled!(swiglu, shapeless: true)]),
    (geglu, [compiled!(geglu, shapeless: false), compiled!(geglu, shapeless: true)]),
];

#[test]
fn groups_see_through_compiled_functions() {
    let test = "compiled::groups_see_through_compiled_functions";
    for interpreter in ["0", "1"] {
        let variables = [("MLX_VK_ENABLE_INTERPRETER", interpreter)];
        let inside = mlx_tests::in_child(test, &variables, || {
            let _turn = turn();
            let counts = |counted: Snapshot| {
                let Snapshot { dispatches, fused, interpreted, .. } = counted;
                (dispatches, fused, interpreted)
            };
            for (gate, compiled) in GATES {
                let of = |swiglu| counted(Device::GPU, &Decoder { swiglu, ..DECODER }.graph());
                let (want, plain) = of(gate);
                assert!(plain.fused > 0 || !fusing());
                for (got, with) in compiled.map(of) {
                    assert_eq!(got, want);
                    assert_eq!(counts(with), counts(plain));
                }
            }
        });
        if inside.is_none() {
            return;
        }
    }
}
