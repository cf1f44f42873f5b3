//! What every plan keeps, whatever the sizes and the device: a device's limits, and work for everything.

use mlx_vulkan_core::{
    Dtype,
    primitives::{Affine, FpMode, Packing},
};
use proptest::prelude::*;

use super::{
    Operand,
    attention::{
        planner as attention, prefill,
        vjp::{matrix as attention_vjp_matrix, planner as attention_vjp},
    },
    convolution::planner as convolution,
    fft::planner as fft,
    matmul::{
        matrix::Right,
        planner::{self as matmul, Gemm},
    },
    matvec::{Format, planner as matvec, rows},
    norm::planner as norm,
    operands::{MatrixSide, Picks},
    quantized::{gather_rows, planner as quantized},
    reduce::planner as reduce,
    team::Team,
};
use crate::runtime::{
    capabilities::{Capabilities, DeviceKind, Fragment, Fragments, Quirks, SubgroupOps},
    cases,
    config::Config,
};

/// Devices as drivers report them: GPUs of every width of subgroup, and the CPU.
fn device() -> impl Strategy<Value = Capabilities> {
    let kind = prop_oneof![3 => Just(DeviceKind::Discrete), 1 => Just(DeviceKind::Software)];
    let subgroup = (2u32..8).prop_map(|bits| 1 << bits);
    let ops = prop::array::uniform3(prop::bool::weighted(0.8));
    let memory = (16u32..229).prop_map(|kib| kib << 10);
    let workgroup = prop_oneof![Just(128u32), Just(256), Just(512), Just(1024), Just(1536)];
    (kind, subgroup, ops, memory, workgroup, 1u32..200).prop_map(
        |(kind, subgroup_size, [arithmetic, ballot, shuffle], memory, group, units)| Capabilities {
            kind,
            subgroup_size,
            subgroup_ops: SubgroupOps { arithmetic, ballot, shuffle },
            shared_memory: memory,
            max_workgroup: group.max(subgroup_size),
            compute_units: units,
            quirks: Quirks { few_workgroups: kind == DeviceKind::Software },
            ..Capabilities::default()
        },
    )
}

fn fragments() -> impl Strategy<Value = Option<Fragment>> {
    prop_oneof![
        Just(None),
        Just(Some(Fragment { m: 16, n: 16, k: 16 })),
        Just(Some(Fragment { m: 16, n: 8, k: 16 })),
        Just(Some(Fragment { m: 8, n: 8, k: 16 })),
    ]
}

/// Bits and elements to a scale.
fn packings() -> impl Strategy<Value = (usize, usize)> {
    let bits = prop::sample::select(vec![2usize, 3, 4, 4, 4, 5, 6, 8]);
    (bits, prop::sample::select(vec![32usize, 64, 128]))
}

/// Sizes from one on, of every magnitude.
fn size(bits: u32) -> impl Strategy<Value = usize> {
    (0..bits, any::<u32>()).prop_map(|(bits, x)| (1 << bits) + (x as usize & ((1 << bits) - 1)))
}

/// That tiles cover a result, and fit.
fn expect_gemm(
    gemm: Gemm,
    [m, n, k, batches]: [usize; 4],
    fragment: Option<Fragment>,
    caps: &Capabilities,
) -> Result<(), TestCaseError> {
    let covered = |rows: u32, columns: u32, count: u64| {
        u128::from(count) * u128::from(rows) * u128::from(columns) >= (m * n * batches) as u128
    };
    match gemm {
        Gemm::Tile(tile, splits) => {
            prop_assert!(
                tile.threads() <= caps.max_workgroup && tile.shared() <= caps.shared_memory
            );
            prop_assert!(covered(tile.bm, tile.bn, tile.count(m, n, batches)));
            prop_assert!(splits == 1 || splits as usize * tile.bk as usize <= k);
        }
        Gemm::Matrix(tile, splits) => {
            prop_assert_eq!(Some(tile.fragment), fragment);
            prop_assert!(
                tile.threads() <= caps.max_workgroup && tile.shared() <= caps.shared_memory
            );
            prop_assert!(covered(tile.bm, tile.bn, tile.count(m, n, batches)));
            prop_assert!(splits == 1 || splits as usize * tile.bk as usize <= k);
        }
        Gemm::Lanes { tm, tn } => {
            prop_assert!(caps.is_software() && caps.subgroup_ops.ballot && tm * tn > 0);
        }
    }
    Ok(())
}

/// That a workgroup is whole subgroups, of which a device has the operations.
fn expect_group(team: &Team, workgroup: u32, caps: &Capabilities) -> Result<(), TestCaseError> {
    prop_assert!((1..=caps.max_workgroup).contains(&workgroup), "{}", workgroup);
    prop_assert!(workgroup.is_multiple_of(team.subgroup));
    prop_assert!(!team.subgroups || caps.subgroup_ops.arithmetic);
    Ok(())
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn products(
        caps in device(),
        fragment in fragments(),
        (m, n, k) in (size(14), size(16), size(14)),
        batches in size(4),
        along in prop::array::uniform4(any::<bool>()),
    ) {
        let [a_along_k, a_along_m, b_along_k, b_along_n] = along;
        let p = matmul::MatmulSizes {
            m, n, k, batches, a_along_k, a_along_m, b_along_k, b_along_n, fragment,
        };
        match matmul::plan(&p, &caps) {
            matmul::MatmulPlan::Gemm(gemm) => expect_gemm(gemm, [m, n, k, batches], fragment, &caps)?,
            // Vectors are few, and the matrix is dense in the direction that the kernel walks.
            matmul::MatmulPlan::MatVec(MatrixSide::Right) => prop_assert!(b_along_k && m <= matmul::FEW),
            matmul::MatmulPlan::VecMat(MatrixSide::Right) => prop_assert!(b_along_n && m <= matmul::FEW),
            matmul::MatmulPlan::MatVec(MatrixSide::Left) => prop_assert!(a_along_k && n <= matmul::FEW),
            matmul::MatmulPlan::VecMat(MatrixSide::Left) => prop_assert!(a_along_m && n <= matmul::FEW),
        }
        for segments in [false, true] {
            let listed = matmul::listed(m, n, batches, segments, &caps);
            prop_assert!(!segments || matches!(listed, Gemm::Tile(..)));
            expect_gemm(listed, [m, n, 1, batches], None, &caps)?;
        }
    }

    #[test]
    fn products_with_quantized_matrices(
        caps in device(),
        fragment in fragments(),
        (rows, outputs, inner) in (size(10), size(16), (1usize..400).prop_map(|n| 32 * n)),
        batches in size(4),
        transpose in any::<bool>(),
        (bits, group_size) in packings(),
    ) {
        let config = Config::default();
        let packing = Affine { group_size, bits }.into();
        let right = quantized::right_of(packing, transpose, inner, fragment, &caps);
        if let Right::Fields(group) = right {
            prop_assert!(transpose && bits == 4 && inner.is_multiple_of(group as usize));
        }
        let p = quantized::QuantizedProduct {
            rows, outputs, inner, batches, transpose, packing, fragment, right,
        };
        match quantized::plan(&p, &caps, &config) {
            quantized::QuantizedPlan::MatVec { team, workgroup, rows: at_once, outputs } => {
                expect_group(&team, workgroup, &caps)?;
                prop_assert!(transpose && outputs > 0 && (1..=8).contains(&at_once));
            }
            quantized::QuantizedPlan::VecMat { rows } => prop_assert!(!transpose && (1..=4).contains(&rows)),
            quantized::QuantizedPlan::Gemm(gemm) => {
                expect_gemm(gemm, [rows, outputs, inner, batches], fragment, &caps)?;
            }
            quantized::QuantizedPlan::Dense(gemm) => {
                prop_assert!(transpose && batches == 1 && matches!(gemm, Gemm::Matrix(..)));
                expect_gemm(gemm, [rows, outputs, inner, batches], fragment, &caps)?;
            }
        }
    }

    #[test]
    fn products_of_grouped_rows(
        caps in device(),
        fragment in fragments(),
        (rows, matrices, n) in (size(20), size(10), size(14)),
        right in prop::sample::select(vec![
            Right::Dense, Right::Packed, Right::Fields(32), Right::Fields(64), Right::Fields(128),
        ]),
    ) {
        let lists = [Operand::default(); 2];
        let picks = Picks { lists, strides: [1, 1], counts: [rows, matrices], batches: rows, tiles: None };
        match matmul::grouped(&picks, n, fragment, right, &caps) {
            Some(gemm) => {
                let lanes = matches!(gemm, Gemm::Lanes { .. });
                prop_assert!(rows >= matrices && !lanes);
                expect_gemm(gemm, [rows, n, 1, 1], fragment, &caps)?;
            }
            None => prop_assert!(rows < matrices.max(matmul::FEW)),
        }
    }

    #[test]
    fn products_of_few_rows(
        caps in device(),
        rows in 1u32..9,
        outputs in prop::array::uniform3(0u32..20_000),
        sets in 1u32..3,
        (bits, inner) in (prop_oneof![Just(4u32), Just(8), Just(16)], (1u32..400).prop_map(|n| 32 * n)),
        asked in prop::option::of(0u64..12),
        fragment in fragments(),
        group in prop_oneof![Just(32u32), Just(64), Just(128)],
    ) {
        let first = outputs[0] + 1;
        let outputs = if sets == 2 { [first, first, 0] } else { [first, outputs[1], outputs[2]] };
        let p = matvec::MatvecSizes { rows, outputs, sets };
        if matvec::serves(rows as usize, inner as usize, bits as usize, 2, &caps, &Config::default()) {
            let plan = matvec::plan(&p, inner, bits, asked, &caps);
            expect_group(&Team::of(&caps, true), plan.workgroup, &caps)?;
            prop_assert!(plan.teams() >= 1);
            prop_assert_eq!(plan.teams() * plan.splits * plan.subgroup, plan.workgroup);
            prop_assert!(outputs.iter().all(|o| o.is_multiple_of(plan.outputs)));
        }
        let Some(fragment) = fragment else { return Ok(()) };
        if let Some(plan) = matvec::plan_matrix(&p, inner, group, fragment, &caps) {
            prop_assert!(plan.workgroup <= caps.max_workgroup && plan.teams() >= 1);
            let chunks = inner / 128;
            prop_assert!(chunks.is_multiple_of(plan.splits));
            prop_assert!((chunks / plan.splits).is_multiple_of(plan.depth));
            prop_assert_eq!(caps.subgroup_size, matvec::MATRIX_SUBGROUP);
        }
    }

    #[test]
    fn derivatives_of_attentions(caps in device(), rows in size(20), width in 0usize..3000) {
        let plan = attention_vjp::plan(&caps);
        prop_assert!(plan.threads() <= caps.max_workgroup && plan.shared() <= caps.shared_memory);
        prop_assert!(plan.blocks(rows) * plan.block as usize >= rows);
        let columns = plan.columns(width);
        prop_assert!(columns.is_power_of_two());
        let features = (4 * columns * plan.block / 4) as usize;
        prop_assert!(features <= 128 && plan.shares(width) * features >= width);
    }

    #[test]
    fn derivatives_of_attentions_on_matrices(
        caps in device(),
        fragment in fragments(),
        (heads, queries, keys) in (size(4), size(11), size(11)),
        (key_width, value_width) in (1usize..12, 1usize..12),
        pass in 0u32..3,
    ) {
        let (key_width, value_width) = (16 * key_width, 16 * value_width);
        let sizes = attention::Sizes {
            batches: 1, heads, kv_heads: heads, queries, keys, key_width, value_width,
        };
        if let Some(plan) = attention_vjp_matrix::plan(&sizes, pass, fragment, &caps) {
            prop_assert!(caps.subgroup_ops.ballot);
            prop_assert_eq!(fragment, Some(Fragment { m: 16, n: 16, k: 16 }));
            prop_assert!(plan.runs(&sizes, pass, &caps) && plan.walked.is_multiple_of(16));
            prop_assert!(plan.threads() <= caps.max_workgroup && plan.walked <= plan.threads());
        }
    }

    #[test]
    fn products_of_several_rows(
        caps in device(),
        fragment in fragments(),
        rows in 1u32..20,
        outputs in prop::array::uniform3(0u32..1200),
        sets in 1u32..3,
        inner in (1u32..2240).prop_map(|n| 8 * n),
        format in prop_oneof![
            (prop_oneof![Just(32usize), Just(64), Just(128)], prop_oneof![Just(4usize), Just(8)])
                .prop_map(|(group_size, bits)| Packing::from(Affine { group_size, bits }))
                .prop_map(|packing| Format::packed(Dtype::Bfloat16, packing)),
            Just(Format::packed(Dtype::Bfloat16, FpMode::Mxfp4.into())),
            Just(Format::dense(Dtype::Float16)),
        ],
    ) {
        let first = outputs[0] + 1;
        let outputs = if sets == 2 { [first, first, 0] } else { [first, outputs[1], outputs[2]] };
        let p = matvec::MatvecSizes { rows, outputs: outputs.map(|o| 16 * o), sets };
        let served = |&fragment: &Fragment| rows::serves(&p, inner, format, fragment, &caps);
        let plan = fragment.filter(served).and_then(|_| rows::plan(&p, inner, format, &caps));
        if let Some(plan) = plan {
            prop_assert!(plan.workgroup <= caps.max_workgroup && plan.teams() >= 1);
            prop_assert_eq!(plan.teams() * plan.splits * caps.subgroup_size, plan.workgroup);
            prop_assert!(inner.is_multiple_of(rows::group(format)));
            prop_assert!(plan.splits <= (inner * format.bits).div_ceil(512));
            prop_assert!(p.outputs.iter().all(|o| o.is_multiple_of(matvec::MATRIX_BLOCK)));
            prop_assert!(plan.shared(&p) <= caps.shared_memory);
        }
    }

    #[test]
    fn rows_that_pick_matrices(
        caps in device(),
        fragment in fragments(),
        (picks, experts) in (1usize..1100, 1usize..300),
        (outputs, inner) in ((1usize..200).prop_map(|n| 16 * n), (1usize..240).prop_map(|n| 32 * n)),
        packing in prop_oneof![
            prop_oneof![Just(32usize), Just(64), Just(128)]
                .prop_map(|group_size| Packing::from(Affine { group_size, bits: 4 })),
            Just(FpMode::Mxfp4.into()),
        ],
        paired in any::<bool>(),
    ) {
        let fragments = Fragments { float16: fragment, bfloat16: fragment };
        let caps = Capabilities { fragments, ..caps };
        let dtype = Dtype::Bfloat16;
        let sizes = gather_rows::Sizes { dtype, packing, picks, experts, outputs, inner, paired };
        if let Some(plan) = gather_rows::plan(&sizes, &caps, &Config::default()) {
            let teams = plan.workgroup / caps.subgroup_size / plan.splits;
            prop_assert!(plan.workgroup <= caps.max_workgroup && teams >= 1 && plan.groups >= 1);
            prop_assert!(plan.groups <= caps.max_groups[0]);
            if let Some(buffers) = plan.slices {
                prop_assert!(packing.affine().is_some() && (1..=2).contains(&buffers));
                prop_assert_eq!((plan.columns, inner), (8, plan.splits as usize * 256));
                let unit = if paired { 16 } else { 32 };
                prop_assert!(outputs.is_multiple_of(unit));
            }
            prop_assert_eq!(teams * plan.splits * caps.subgroup_size, plan.workgroup);
            prop_assert!(inner.is_multiple_of(packing.group_size()));
            prop_assert!(plan.splits <= (inner as u32).div_ceil(128));
            prop_assert!(picks as u32 <= plan.most_picks && plan.most_picks <= 1024);
            prop_assert!(plan.shared(&sizes) <= caps.shared_memory);
            prop_assert!(gather_rows::runs_on(dtype, &caps, &Config::default()));
        }
    }

    #[test]
    fn attentions(
        caps in device(),
        fragment in fragments(),
        (batches, kv_heads, group) in (size(3), size(4), size(4)),
        (queries, keys) in (prop_oneof![Just(1usize), size(11)], size(15)),
        (key_width, value_width) in (1usize..300, 1usize..300),
        same in any::<bool>(),
    ) {
        let config = Config::default();
        let (key_width, value_width) = match same {
            true => (64 * (1 + key_width % 4), 64 * (1 + key_width % 4)),
            false => (key_width, value_width),
        };
        let heads = kv_heads * group;
        let sizes =
            attention::Sizes { batches, heads, kv_heads, queries, keys, key_width, value_width };
        let plan = attention::plan(&sizes, &caps, &config);
        // Only a head that is wide for little memory has none.
        prop_assert!(plan.is_some() || key_width as u32 * 16 > caps.shared_memory / 4);
        if let Some(plan) = plan {
            expect_group(&plan.team, plan.workgroup, &caps)?;
            prop_assert!(plan.rows.is_power_of_two() && plan.workgroup.is_multiple_of(plan.parts));
            prop_assert!((1..=keys as u32).contains(&plan.splits));
        }
        if let Some(plan) = attention::decode(&sizes, fragment, &caps, &config) {
            prop_assert!(caps.subgroup_ops.arithmetic && caps.subgroup_ops.shuffle);
            prop_assert!(queries == 1 && (1..=attention::MOST_SPLITS).contains(&plan.splits));
            let groups = [(batches * kv_heads) as u32, group as u32];
            prop_assert!(groups[0] <= caps.max_groups[2]);
            let shape = match plan.fragments {
                true => attention::fragment_shape(groups, same, &caps),
                false => attention::decode_shape(key_width as u32, groups, plan.splits, &caps),
            };
            prop_assert!(!plan.fragments || caps.subgroup_ops.ballot && group <= 8);
            prop_assert!(shape.workgroup <= caps.max_workgroup);
            prop_assert!(shape.workgroup.is_multiple_of(shape.subgroup));
            prop_assert!(group.is_multiple_of(shape.heads as usize));
        }
        if let Some(plan) = prefill::plan(&sizes, fragment, &caps, &config) {
            prop_assert!(caps.subgroup_ops.ballot && caps.subgroup_ops.shuffle);
            prop_assert_eq!(Some(plan.fragment), fragment);
            prop_assert!(plan.threads() <= caps.max_workgroup);
            let rows = plan.count(&sizes) * u64::from(plan.rows());
            prop_assert!(rows >= (batches * heads * queries) as u64);
            prop_assert!((1..=keys as u32).contains(&plan.splits));
        }
    }

    #[test]
    fn reductions(
        caps in device(),
        (count, length) in (size(20), prop_oneof![Just(0usize), size(28)]),
        word in prop_oneof![Just(1u64), Just(2), Just(4), Just(16)],
        across in any::<bool>(),
    ) {
        let (count, length) = (count as u64, length as u64);
        let plan = reduce::ReducePlan::new(&caps, count, length, word, across);
        prop_assert!(plan.group <= caps.max_workgroup);
        prop_assert!(plan.team.is_power_of_two() && plan.group.is_multiple_of(plan.team));
        prop_assert!(plan.splits * plan.chunk >= length, "a tail is left: {:?}", plan);
        prop_assert!(plan.splits == 1 || (plan.splits - 1) * plan.chunk < length, "{:?}", plan);
    }

    #[test]
    fn derivatives_of_norms(
        caps in device(),
        (rows, width) in (size(24), size(30)),
        (allowed, parameters) in any::<(bool, bool)>(),
    ) {
        let team = Team::of(&caps, allowed);
        let plan = norm::plan(rows as u64, width as u32, parameters, team, &caps);
        expect_group(&team, plan.workgroup, &caps)?;
        prop_assert!((1..=caps.max_groups[0]).contains(&plan.groups));
        let lanes = if plan.narrow { team.subgroup } else { plan.workgroup };
        prop_assert!(plan.long != (plan.kept * lanes >= width.div_ceil(4) as u32), "{:?}", plan);
        // A workgroup without rows would leave its sums of long ones unwritten.
        prop_assert!(plan.kept > 0 && (!parameters || u64::from(plan.groups) <= rows as u64));
        prop_assert!(!plan.narrow || (team.subgroups && !plan.long));
    }

    #[test]
    fn transforms(caps in device(), n in size(22), across in any::<bool>()) {
        let most = fft::longest_pass(caps.shared_memory);
        match fft::plan(n, most) {
            fft::FftPlan::Passes(passes) => {
                prop_assert_eq!(passes.iter().product::<usize>(), n);
                for &pass in &passes {
                    prop_assert!(pass <= most, "{:?}", passes);
                    let block = fft::Block::new(&caps, pass as u32, across);
                    prop_assert!((1..=caps.max_workgroup).contains(&block.group));
                    prop_assert!(block.lines.is_power_of_two());
                }
            }
            // A circular convolution of the chirp with itself needs that much room.
            fft::FftPlan::Bluestein(m) => prop_assert!(m.is_power_of_two() && m + 1 >= 2 * n),
        }
    }

    #[test]
    fn convolutions(
        caps in device(),
        fragment in fragments(),
        (windows, taps, groups) in (size(17), 1usize..28, size(6)),
        (channels, outputs) in (size(9), size(9)),
        (aligned, pointwise) in any::<(bool, bool)>(),
    ) {
        let taps = if pointwise { 1 } else { taps };
        let p = convolution::ConvolutionSizes {
            windows, taps, groups, channels, outputs, aligned, pointwise, size: 4, fragment,
        };
        match convolution::plan(&p, &caps) {
            convolution::ConvolutionPlan::Depthwise => prop_assert!(channels == 1 && outputs == 1 && aligned),
            convolution::ConvolutionPlan::Direct => {}
            convolution::ConvolutionPlan::Tile(tile, quads) => {
                prop_assert!(!quads || (aligned && channels.is_multiple_of(4)));
                expect_gemm(Gemm::Tile(tile, 1), [windows, outputs, p.depth(), groups], None, &caps)?;
            }
            convolution::ConvolutionPlan::Product(gemm, at_once) => {
                prop_assert!(groups == 1 && (1..=windows).contains(&at_once));
                expect_gemm(gemm, [at_once, outputs, p.depth(), 1], fragment, &caps)?;
            }
        }
    }

    #[test]
    fn convolutions_on_cooperative_matrices(
        caps in device(),
        fragment in fragments(),
        (windows, outputs, depth) in (size(20), size(11), size(13)),
        classes in 1usize..20,
    ) {
        let Some(fragment) = fragment else { return Ok(()) };
        let sizes = [windows, outputs, depth];
        if let Some((tile, splits)) = convolution::windows(sizes, classes, fragment, &caps) {
            prop_assert!(splits == 1 || classes == 1);
            let gemm = Gemm::Matrix(tile, splits);
            expect_gemm(gemm, [windows, outputs, depth, 1], Some(fragment), &caps)?;
            // Octets of k are as many in a row of either slice.
            prop_assert!(tile.threads().is_multiple_of(tile.bk / 8));
        }
        if let Some((tile, splits)) = convolution::weight([outputs, depth, windows], fragment, &caps) {
            let gemm = Gemm::Matrix(tile, splits);
            expect_gemm(gemm, [outputs, depth, windows, 1], Some(fragment), &caps)?;
            // A thread's vectors of windows are of one tap.
            prop_assert!(tile.threads().is_multiple_of(tile.bn / 8));
        }
    }

    #[test]
    fn grids(caps in device(), items in any::<u64>(), per_group in 0u64..2000) {
        let groups = caps.groups_1d(items, per_group);
        prop_assert!((1..=caps.max_groups[0]).contains(&groups));
        prop_assert!((1..=caps.max_workgroup).contains(&caps.elementwise_workgroup()));
        prop_assert!((1..=caps.max_workgroup).contains(&reduce::group(&caps)));
    }
}
