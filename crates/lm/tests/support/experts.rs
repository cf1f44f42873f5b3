//! Experts' weights as their makers publish them, made of what mlx_lm saves.

use mlx::{Array, Dtype, io::Arrays, ops};

/// Matrix `index` of a stack.
fn slice(stack: &Array, index: usize) -> Array {
    let at = index as isize;
    ops::squeeze(&ops::slice_axis(stack, 0, at, at + 1).unwrap(), &[0]).unwrap()
}

/// As Qwen publishes them: every expert has matrices of its own.
pub(crate) fn one_by_one(weights: Arrays) -> Arrays {
    let mut out = Arrays::new();
    for (name, array) in weights {
        match name.split_once("switch_mlp.") {
            None => drop(out.insert(name, array)),
            Some((layer, part)) => {
                for expert in 0..array.dim(0) {
                    out.insert(format!("{layer}experts.{expert}.{part}"), slice(&array, expert));
                }
            }
        }
    }
    out
}

/// As ggml stores mxfp4, a byte an element: behind each block's exponent 16 bytes, of which byte j has code j
/// below code j + 16.
pub(crate) fn ggml_blocks(words: &Array, exponents: &Array) -> Array {
    let (words, exponents): (Vec<u32>, Vec<u8>) =
        (words.to_vec().unwrap(), exponents.to_vec().unwrap());
    let block = |(words, exponent): (&[u32], &u8)| {
        let code = |i: usize| (words[i / 8] >> (i % 8 * 4) & 15) as u8;
        let bytes = (0..16).map(|j| code(j) | code(j + 16) << 4);
        std::iter::once(*exponent).chain(bytes).map(|byte| byte as i8).collect::<Vec<_>>()
    };
    let blocks: Vec<i8> = words.chunks(4).zip(&exponents).flat_map(block).collect();
    Array::from_slice(&blocks, &[blocks.len()]).unwrap()
}

/// As OpenAI publishes them: rows of gate and up take turns, words are 16 bytes a block.
pub(crate) fn interleaved(weights: Arrays) -> Arrays {
    let mut out = Arrays::new();
    let in_blocks = |array: &Array| {
        let [count, rows, words] = array.shape() else { panic!("a stack") };
        let shape = [*count, *rows, words / 4, 16].map(|n| n as isize);
        ops::reshape(&ops::view(array, Dtype::Uint8).unwrap(), &shape).unwrap()
    };
    let part = |part: &str| match part {
        "weight" => "_blocks",
        "scales" => "_scales",
        _ => "_bias",
    };
    for (name, array) in &weights {
        let Some((module, kind)) = name.rsplit_once('.').filter(|(m, _)| m.contains(".experts."))
        else {
            out.insert(name.clone(), array.clone());
            continue;
        };
        let stored =
            |array: &Array| if kind == "weight" { in_blocks(array) } else { array.clone() };
        if module.ends_with("down_proj") {
            out.insert(format!("{module}{}", part(kind)), stored(array));
        } else if module.ends_with("gate_proj") {
            let up = &weights[&name.replace("gate_proj", "up_proj")];
            let both = ops::stack(&[&stored(array), &stored(up)], 2).unwrap();
            let joined = ops::flatten(&both, 1, 2).unwrap();
            let module = module.replace("gate_proj", "gate_up_proj");
            out.insert(format!("{module}{}", part(kind)), joined);
        }
    }
    out
}
