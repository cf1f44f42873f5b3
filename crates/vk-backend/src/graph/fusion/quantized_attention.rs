//! The attention of one token over quantized keys and values: a product with the keys, softmax, and a product
//! with the values. Where the token's own key and value go to growing caches, with their norms, rotations,
//! quantization and the caches' new rows.

use mlx_vulkan_core::{
    Array, Dtype, Result,
    backend::Output,
    fusion::Group,
    graph::Node,
    primitives::{Affine, BinaryOp, Primitive, QuantizedOp, ShapeOp, SoftmaxOp},
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    Grouped,
    heads::{Cursor, TokenHeads, Walk, cache_strides, caches_in_place, input},
    inner,
    operands::dense,
};
use crate::{
    kernels::{
        Ctx, Operand, Region,
        attention::{
            decode::{self, Attention, Quantized, Token},
            planner::{self, Decode, Sizes},
        },
    },
    runtime::device::DeviceState,
};

/// Arrays of one side of a cache: words, scales and biases.
const PARTS: usize = 3;

/// Two products with a softmax between them, by places on the tape.
struct Found {
    /// With the keys, with the values.
    products: [usize; 2],
    /// Heads without the factor, in the order of the first product's rows.
    query: Cursor,
    /// What the scores are multiplied with: one element, or a view that repeats it.
    factor: Option<Cursor>,
    token: Option<CachedToken>,
    affine: Affine,
    sizes: Sizes,
    /// Neighbouring heads that views give the same rows of keys and values.
    shared: usize,
    plan: Decode,
}

/// A token whose key and value the group adds to caches.
struct CachedToken {
    heads: TokenHeads,
    /// Sequences that the token is of.
    batches: usize,
    /// Updates of the parts of the keys, then of the values.
    updates: [usize; 2 * PARTS],
}

/// The group that ends with the product at `place`, with quantized values.
pub(super) fn find(
    tape: &Tape,
    place: usize,
    affine: Affine,
    device: &DeviceState,
) -> Option<Group> {
    if !device.config.enable_fused_attention {
        return None;
    }
    let node = tape.node(place);
    let dtype = node.inputs[0].dtype();
    let mut walk = Walk::new(tape, node.stream, dtype);
    walk.members.push(place);
    let softmax = walk.pass((place, 0), |node| {
        matches!(node.primitive, Primitive::Softmax(SoftmaxOp::Softmax { .. }))
    })?;
    let keys =
        Primitive::from(QuantizedOp::QuantizedMatmul { packing: affine.into(), transpose: true });
    let products = [walk.pass((softmax, 0), |node| node.primitive == keys)?, place];
    let (sizes, shared) = walk.sizes(products).filter(|_| dtype.size() <= 4)?;
    let (caps, config) = (device.capabilities(), device.config);
    let fragment = planner::fields_fragment(&sizes, dtype, affine, caps, config);
    let plan = planner::decode(&sizes, fragment, caps, config)?.with_fields(&sizes, config);
    let (query, factor) = walk.scaled((products[0], 0));
    let token = walk.attempt(|walk| walk.token(products, query, affine, (&sizes, shared)));
    // Other rows are queries, of which products for many rows take care.
    (token.is_some() || walk.array((products[0], 0)).dim(-2) == 1).then_some(())?;
    let plan = if token.is_some() { plan.with_new_row(&sizes, caps, config) } else { plan };
    let mut kept = smallvec![place];
    kept.extend(token.iter().flat_map(|token| token.updates));
    let members = walk.members;
    let found = Found { products, query, factor, token, affine, sizes, shared, plan };
    Some(Group { members, kept, fusion: Box::new(Grouped(found)) })
}

impl Walk<'_> {
    /// Sizes of the attention, if one query meets keys and values of the same number and sharing; and how
    /// many heads views give the same rows. Heads of all batches are counted through, and heads that share
    /// keys may be rows of one matrix.
    fn sizes(&self, [first, second]: [usize; 2]) -> Option<(Sizes, usize)> {
        let [query, keys, values] = [(first, 0), (first, 1), (second, 1)].map(|at| self.array(at));
        // A matrix without heads would be everybody's.
        let batched = [query, keys, values].iter().all(|a| a.ndim() > 2);
        let (rows, shared) = (query.dim(-2), self.sharing((first, 1)));
        let one = rows == 1 || shared == 1;
        (batched && one && query.size() > 0 && keys.dim(-2) > 0).then_some(())?;
        let (width, value_width) = (query.dim(-1), self.tape.array(second).dim(-1));
        let heads = query.size() / width;
        let sizes = Sizes {
            batches: 1,
            heads,
            kv_heads: heads / (rows * shared),
            queries: 1,
            keys: keys.dim(-2),
            key_width: width,
            value_width,
        };
        (shared == self.sharing((second, 1))).then_some((sizes, shared))
    }

    /// How many neighbouring heads a view gives the same rows.
    fn sharing(&self, at: Cursor) -> usize {
        let array = self.array(at);
        let view = self.place(at).map(|place| self.tape.node(place));
        let repeats = view.is_some_and(|node| {
            let (from, to) = (node.inputs[0].shape(), array.shape());
            let same = |axis| axis + 3 == to.len() || from[axis] == to[axis];
            is_broadcast(node)
                && from.len() == to.len()
                && from[to.len() - 3] == 1
                && (0..to.len()).all(same)
        });
        if repeats { array.dim(-3) } else { 1 }
    }

    /// What is behind a multiplication with one element, and that element.
    fn scaled(&mut self, at: Cursor) -> (Cursor, Option<Cursor>) {
        let at = self.stripped(at);
        let (tape, dtype) = (self.tape, self.dtype);
        let multiply = Primitive::Binary(BinaryOp::Multiply);
        let product = self.place(at).filter(|&place| tape.node(place).primitive == multiply);
        let factor = product.and_then(|place| {
            let of = |&at: &Cursor| input(tape, at).dtype() == dtype && is_one_element(tape, at);
            [(place, 1), (place, 0)].into_iter().find(of)
        });
        match factor.filter(|_| self.pass(at, |_| true).is_some()) {
            Some((place, i)) => (self.stripped((place, 1 - i)), factor),
            None => (at, None),
        }
    }

    /// The token whose key and value are added to the caches that the products read, if they are.
    fn token(
        &mut self,
        [first, second]: [usize; 2],
        query: Cursor,
        affine: Affine,
        (sizes, shared): (&Sizes, usize),
    ) -> Option<CachedToken> {
        let batches = self.array(query).dim(0);
        let of = |heads| [batches, heads / batches, sizes.key_width];
        let query = self.rotated(query, of(sizes.heads))?;
        let ([a, b, c], rows) = self.side(first, affine, (sizes, shared))?;
        let key = self.rotated((rows, 0), of(sizes.kv_heads))?;
        let ([d, e, f], rows) = self.side(second, affine, (sizes, shared))?;
        let value = self.stripped((rows, 0));
        let heads = self.together(query, key, value)?;
        Some(CachedToken { heads, batches, updates: [a, b, c, d, e, f] })
    }

    /// The updates of the words, scales and biases of a product, and the quantization of their new rows.
    fn side(
        &mut self,
        product: usize,
        affine: Affine,
        sizes: (&Sizes, usize),
    ) -> Option<([usize; PARTS], usize)> {
        let mut updates = [0; PARTS];
        let mut quantization = None;
        for (part, update) in updates.iter_mut().enumerate() {
            *update = self.part((product, 1 + part), part, sizes)?;
            let rows = self.stripped((*update, 1));
            let made = inner(self.tape, rows, PARTS, self.stream)?;
            let same = *quantization.get_or_insert(made) == made;
            (same && self.tape.output(rows.0, rows.1) == Some(part)).then_some(())?;
        }
        let capacity = updates.map(|update| self.tape.array(update).dim(2));
        let quantization = quantization.filter(|_| capacity == [capacity[0]; PARTS])?;
        let right = self.tape.node(quantization).primitive == QuantizedOp::Quantize(affine).into();
        right.then(|| self.members.push(quantization))?;
        Some((updates, quantization))
    }

    /// The update of one part of a side.
    fn part(
        &mut self,
        mut at: Cursor,
        part: usize,
        (sizes, shared): (&Sizes, usize),
    ) -> Option<usize> {
        if shared > 1 {
            at = (self.pass(at, is_broadcast)?, 0);
        }
        let at = self.stripped(at);
        let filled = self.array(at);
        let fits = filled.ndim() == 4
            && filled.dim(0) * filled.dim(1) == sizes.kv_heads
            && filled.dim(2) == sizes.keys;
        let dtype = if part == 0 { Dtype::Uint32 } else { self.dtype };
        fits.then_some(())?;
        let update = self.update(at, [filled.dim(0), sizes.keys], dtype, 1)?;
        (update.first == 0).then_some(update.place)
    }
}

fn is_broadcast(node: &Node) -> bool {
    matches!(node.primitive, Primitive::Shape(ShapeOp::Broadcast(_)))
}

/// Whether the input at a cursor is one element, or a view that repeats one.
fn is_one_element(tape: &Tape, at: Cursor) -> bool {
    let node = tape.input(at.0, at.1).map(|place| tape.node(place));
    let view = node.filter(|node| is_broadcast(node));
    view.map_or(input(tape, at), |view| &view.inputs[0]).size() == 1
}

/// Where both sides of a cache lie.
struct Cache {
    /// Words, scales and biases of the keys, then of the values.
    parts: [Operand; 2 * PARTS],
    /// As in [`Attention`].
    strides: [u32; 4],
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.products[1]
    }

    fn counted(&self) -> &[usize] {
        &self.products
    }

    fn replaces(&self) -> u64 {
        // Two quantizations, and the caches' new rows.
        let of = |token: &CachedToken| token.heads.operations() + 2 + token.updates.len() as u64;
        3 + u64::from(self.factor.is_some()) + self.token.as_ref().map_or(0, of)
    }

    fn describe(&self, _: &Tape) -> String {
        let Sizes { heads, kv_heads, key_width, .. } = self.sizes;
        let before = self.token.as_ref().map_or("", |token| token.heads.name());
        format!("{before}attention {heads}:{kv_heads}x{key_width} b{}", self.affine.bits)
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let [result, updated @ ..] = kept else { return Ok(false) };
        let mut reads: SmallVec<[Region; 12]> = SmallVec::new();
        let (mut query, mut projections) = (0, None);
        match &self.token {
            Some(token) => {
                let Some((found, regions)) = token.heads.projections(ctx, tape)? else {
                    return Ok(false);
                };
                (projections, reads) = (Some(found), regions);
            }
            None => {
                let Some(at) = dense(ctx, input(tape, self.query))? else { return Ok(false) };
                reads.push(at.region);
                query = at.address;
            }
        }
        let factor = self.factor.map(|at| ctx.input(input(tape, at))).transpose()?;
        reads.extend(factor.map(|factor| factor.region));
        let Some(cache) = self.cache(ctx, tape, updated)? else { return Ok(false) };
        let to = ctx.output(result)?;
        let attention = self.attention(query, factor, &cache, to, result.dtype);
        let mut writes: SmallVec<[Region; 7]> = smallvec![to.region];
        let parts = cache.parts.map(|part| part.region);
        reads.extend(parts);
        writes.extend(parts.into_iter().take(updated.len()));
        let fragments = self.plan.fragments && attention.fits_fields();
        let (plan, sizes) = (Decode { fragments, ..self.plan }, self.of_sequence());
        match projections {
            Some(projections) => {
                let token = Token { plan, sizes, attention, projections };
                decode::encode_token(ctx, &token, &reads, &writes)?;
            }
            None => decode::encode(ctx, &plan, &sizes, &attention, None, &reads, &writes)?,
        }
        Ok(true)
    }
}

impl Found {
    /// The sizes by sequences, whose positions may differ.
    fn of_sequence(&self) -> Sizes {
        let batches = self.token.as_ref().map_or(1, |token| token.batches);
        let Sizes { heads, kv_heads, .. } = self.sizes;
        Sizes { batches, heads: heads / batches, kv_heads: kv_heads / batches, ..self.sizes }
    }

    /// Where the cache lies, if the kernel can read it there, and write its new rows if it has to.
    fn cache(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
        updated: &mut [Output],
    ) -> Result<Option<Cache>> {
        match &self.token {
            Some(token) => token.written(ctx, tape, updated, &self.sizes),
            None => self.read(ctx, tape),
        }
    }

    /// A cache that is only read.
    fn read(&self, ctx: &mut Ctx<'_>, tape: &Tape) -> Result<Option<Cache>> {
        let mut strides = [0; 4];
        let mut parts = [Operand::default(); 2 * PARTS];
        for (side, &product) in self.products.iter().enumerate() {
            let arrays = &tape.node(product).inputs[1..];
            let Some(found) = common_strides(arrays, self.shared, self.affine) else {
                return Ok(None);
            };
            strides[2 * side..][..2].copy_from_slice(&found);
            for (part, array) in parts[PARTS * side..].iter_mut().zip(arrays) {
                *part = ctx.input(array)?;
            }
            // Words of 4 and 8 bits are read up to 16 bytes at a time.
            let aligned = if [4, 8].contains(&self.affine.bits) { 16 } else { 4 };
            if !parts[PARTS * side].is_aligned(aligned) {
                return Ok(None);
            }
        }
        Ok(Some(Cache { parts, strides }))
    }

    fn attention(
        &self,
        q: u64,
        factor: Option<Operand>,
        cache: &Cache,
        to: Operand,
        dtype: Dtype,
    ) -> Attention {
        let Sizes { heads, kv_heads, keys, key_width, .. } = self.sizes;
        let [keys_at, key_scales, key_biases, values_at, scales, biases] =
            cache.parts.map(|part| part.address);
        Attention {
            q,
            keys: keys_at,
            values: values_at,
            result: to.address,
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            count: keys as u32,
            width: key_width as u32,
            strides: cache.strides,
            scale: 1.0,
            dtype: dtype as u32,
            quantized: Some(Quantized {
                affine: self.affine,
                parts: [key_scales, key_biases, scales, biases],
                factor: factor.map_or(0, |factor| factor.address),
            }),
            sinks: None,
            mask: None,
            marked: None,
        }
    }
}

impl CachedToken {
    /// The caches, which become their own updates, if nobody else has them.
    fn written(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
        updated: &mut [Output],
        sizes: &Sizes,
    ) -> Result<Option<Cache>> {
        let found = caches_in_place(ctx, tape, self.updates, updated)?;
        let strides = cache_strides(tape, [self.updates[0], self.updates[PARTS]], sizes.key_width);
        Ok(found.map(|parts| Cache { parts, strides }))
    }
}

/// Strides of heads and rows that words, scales and biases have in common, in elements that they stand for.
fn common_strides(parts: &[Array], sharing: usize, affine: Affine) -> Option<[u32; 2]> {
    let of_words = [32, affine.bits as isize];
    let of_groups = [affine.group_size as isize, 1];
    let strides = |part: usize, per| strides_of(&parts[part], sharing, per);
    let words = strides(0, of_words)?;
    let same = [1, 2].into_iter().all(|part| strides(part, of_groups) == Some(words));
    same.then_some(words)
}

/// Strides of heads, all leading axes counted through, and rows of an array (…, heads, rows, columns), or (…,
/// heads, `sharing`, rows, columns) if that is more than one, in elements of which `per[0]` are `per[1]` of
/// the array's. Where there is only one head or row, its stride is 0.
fn strides_of(array: &Array, sharing: usize, per: [isize; 2]) -> Option<[u32; 2]> {
    let (shape, strides) = (array.shape(), &array.evaluated().layout.strides);
    let (row, column) = (shape.len() - 2, shape.len() - 1);
    let shared = sharing > 1;
    let heads: SmallVec<[usize; 4]> =
        (0..row - usize::from(shared)).filter(|&axis| shape[axis] > 1).collect();
    let head = heads.last().copied();
    let one_by_one =
        |pair: &[usize]| strides[pair[0]] == shape[pair[1]] as isize * strides[pair[1]];
    let fits = heads.windows(2).all(one_by_one)
        && (!shared || strides[row - 1] == 0)
        && (strides[column] == 1 || shape[column] == 1);
    let stride = |axis: Option<usize>| {
        let elements = axis.map_or(0, |axis| strides[axis] * per[0]);
        (fits && elements % per[1] == 0).then(|| u32::try_from(elements / per[1]).ok()).flatten()
    };
    Some([stride(head)?, stride((shape[row] > 1).then_some(row))?])
}
