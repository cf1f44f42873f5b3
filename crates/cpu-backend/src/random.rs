//! Random bits: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as
//! 1, 2, 3", 2011), laid out as MLX does.

use mlx_vulkan_core::{Array, Result, backend::Output, dtype::Element};
use rayon::prelude::*;

use crate::encoder::{Encoder, In};

/// Words from which the two halves are filled on all cores.
const PARALLEL: usize = 1 << 14;
/// Words of each half that one core takes at a time.
const CHUNK: usize = 1 << 12;

/// Encodes bits for keys (…, 2): each key fills its own part of the output.
pub(crate) fn bits(
    enc: &mut Encoder<'_>,
    width: usize,
    [keys]: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    let (keys, out) = (In::from(keys), enc.allocate(output)?);
    enc.push(move || match width {
        1 => fill_all::<u8>(&keys, &mut out.write()),
        2 => fill_all::<u16>(&keys, &mut out.write()),
        _ => fill_all::<u32>(&keys, &mut out.write()),
    })
}

fn fill_all<T: Element>(keys: &In, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    let data = keys.read::<u32>();
    let starts = crate::rows::RowStarts::new(keys, 1);
    let stride = keys.layout.strides[keys.shape.len() - 1];
    let each = out.len() / starts.count;
    for (i, out) in out.chunks_mut(each).enumerate() {
        let first = starts.at(i);
        let key = [data.buffer()[first], data.buffer()[first.wrapping_add_signed(stride)]];
        fill(key, out);
    }
}

/// Fills `out` with the words of one key, little endian; what does not fill a word is cut off.
fn fill<T: Element>(key: [u32; 2], out: &mut [T]) {
    let bytes = size_of_val(out);
    let mut words = vec![0u32; bytes.div_ceil(4)];
    fill_words(key, &mut words);
    out.copy_from_slice(bytemuck::cast_slice(&bytemuck::cast_slice::<_, u8>(&words)[..bytes]));
}

/// The counter `(i, i + ceil(n / 2))` gives words `i` and `i + ceil(n / 2)`; of an odd number the
/// middle word is the first half of the counter `(n / 2, 0)`.
fn fill_words(key: [u32; 2], words: &mut [u32]) {
    let half = words.len() / 2;
    let odd = words.len() % 2;
    let (low, high) = words.split_at_mut(half + odd);
    if odd == 1 {
        low[half] = threefry(key, [half as u32, 0])[0];
    }
    let chunk = |at: usize, low: &mut [u32], high: &mut [u32]| {
        for (i, (low, high)) in low.iter_mut().zip(high).enumerate() {
            let count = at + i;
            [*low, *high] = threefry(key, [count as u32, (count + half + odd) as u32]);
        }
    };
    if half < PARALLEL {
        return chunk(0, &mut low[..half], high);
    }
    let halves = low[..half].par_chunks_mut(CHUNK).zip(high.par_chunks_mut(CHUNK));
    halves.enumerate().for_each(|(i, (low, high))| chunk(i * CHUNK, low, high));
}

/// The block cipher: 20 rounds, with a key injection after every fourth.
#[inline(always)]
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let mut x = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for i in 0..5 {
        for rotation in ROTATIONS[i % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(i + 1) % 3]);
        x[1] = x[1].wrapping_add(keys[(i + 2) % 3]).wrapping_add(i as u32 + 1);
    }
    x
}
