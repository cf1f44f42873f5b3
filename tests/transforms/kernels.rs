//! Kernels of users in files, and what transforms make of them.

use mlx::{
    Array, Device, DeviceType, Dtype, Result,
    export::{Argument, Event, Exporter, export_function, import_function, parse},
    fast::{Launch, MetalKernel, TemplateArg},
    io::{Arrays, FileBytes},
    ops,
    primitives::MathMode,
    transforms::{grad, vmap},
};
use mlx_tests::{array, cases, on_each_device};
use proptest::prelude::*;

use crate::export::file;

const BODY: &str = "uint elem = thread_position_in_grid.x;\nout[elem] = T(a[elem]) * b + a_shape[0];\n\
                    sum[0] = a_strides[0] + b_ndim;";

/// What upstream 0.32.4 makes of that body.
const PROGRAM: &str = "#include <x>
template <typename T, bool F, int N>
[[kernel]] void custom_kernel_mine__bfloat16_t_1__3_float_int32_ts_float16_t_int32_t(
  const device float* a [[buffer(0)]],
  const constant int* a_shape [[buffer(1)]],
  const constant int64_t* a_strides [[buffer(2)]],
  const constant int32_t& b [[buffer(3)]],
  device atomic<float16_t>* out [[buffer(4)]],
  device atomic<int32_t>* sum [[buffer(5)]],
  uint3 thread_position_in_grid [[thread_position_in_grid]]) {
uint elem = thread_position_in_grid.x;
out[elem] = T(a[elem]) * b + a_shape[0];
sum[0] = a_strides[0] + b_ndim;
}

template [[host_name(\"custom_kernel_mine__bfloat16_t_1__3_float_int32_ts_float16_t_int32_t\")]] [[kernel]] \
decltype(custom_kernel_mine__bfloat16_t_1__3_float_int32_ts_float16_t_int32_t<bfloat16_t, 1, -3>) \
custom_kernel_mine__bfloat16_t_1__3_float_int32_ts_float16_t_int32_t<bfloat16_t, 1, -3>;
";

fn names(names: &[&str]) -> Vec<String> {
    names.iter().copied().map(String::from).collect()
}

fn kernel() -> MetalKernel {
    let kernel = MetalKernel::new("mine", names(&["a", "b"]), names(&["out", "sum"]), BODY);
    MetalKernel {
        header: "#include <x>\n".into(),
        ensure_row_contiguous: false,
        atomic_outputs: true,
        math_mode: MathMode::Fast,
        ..kernel.unwrap()
    }
}

fn launch(device: Option<DeviceType>) -> Launch {
    let template = [
        ("T", TemplateArg::Dtype(Dtype::Bfloat16)),
        ("F", TemplateArg::Bool(true)),
        ("N", TemplateArg::Int(-3)),
    ];
    Launch {
        output_shapes: vec![[4, 2].as_slice().into(), [1].as_slice().into()],
        output_dtypes: vec![Dtype::Float16, Dtype::Int32],
        grid: [8, 2, 3],
        threadgroup: [4, 5, 6],
        template: template.map(|(name, argument)| (name.into(), argument)).into(),
        init_value: Some(0.5),
        verbose: false,
        device,
    }
}

fn call(args: &[Array], _: &Arrays) -> Result<Vec<Array>> {
    kernel().call(args, &launch(Some(DeviceType::Gpu)))
}

fn inputs() -> [Array; 2] {
    [array(&[1.0; 8], &[4, 2], Dtype::Float32), array(&[3.0], &[], Dtype::Int32)]
}

/// Runs a test where there need be no GPU.
fn on_cpu(test: impl FnOnce()) {
    mlx_tests::init();
    mlx::with_device(Device::CPU, test).unwrap();
}

/// A file with a call of the kernel.
fn sample() -> Vec<u8> {
    let (_folder, path) = file();
    export_function(&path, call, &inputs(), &Arrays::new(), false).unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn the_program_is_upstream_s() {
    on_cpu(|| {
        let mut told = Vec::new();
        let callback = |event: Event<'_>| {
            if let Event::Primitive { name, arguments, .. } = event {
                told.push((name.to_owned(), arguments.to_vec()));
            }
            Ok(())
        };
        let mut exporter = Exporter::to_callback(callback, call, false);
        exporter.export(&inputs(), &Arrays::new()).unwrap();
        drop(exporter);
        let [(name, arguments)] = told.try_into().unwrap();
        assert_eq!(name, "CustomKernel");
        assert_eq!(arguments[1], Argument::Text(PROGRAM.into()));
        let threads = [8, 2, 3, 4, 5, 6].map(Argument::Int);
        assert_eq!(arguments[2..8], threads);
        let asked = Argument::Flags(vec![[true, true, false], [false, false, true]]);
        assert_eq!(arguments[8], asked);
        assert_eq!(arguments[9..11], [Argument::Bool(false), Argument::MaybeFloat(Some(0.5))]);
        assert_eq!(arguments[14], Argument::Int(2));
    });
}

#[test]
fn files_keep_a_call() {
    on_cpu(|| {
        let bytes = sample();
        let imported = parse(&FileBytes::from_bytes("f", &bytes).unwrap()).unwrap();
        // What calls what a file calls can be written, too.
        let (_folder, path) = file();
        let again = |args: &[Array], kwargs: &Arrays| imported.call(args, kwargs);
        export_function(&path, again, &inputs(), &Arrays::new(), false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    });
}

#[test]
fn shapeless_functions_do_not_know_what_they_give() {
    on_cpu(|| {
        let (_folder, path) = file();
        export_function(&path, call, &inputs(), &Arrays::new(), true).unwrap();
        let imported = import_function(&path).unwrap();
        let error = imported.call(&inputs(), &Arrays::new()).unwrap_err().to_string();
        assert_eq!(error, "[Primitive::output_shapes] CustomKernel cannot infer output shapes.");
    });
}

#[test]
fn every_call_is_kept() {
    on_cpu(|| {
        let mut calls = 0;
        let callback = |event: Event<'_>| {
            calls += usize::from(matches!(event, Event::Primitive { name: "CustomKernel", .. }));
            Ok(())
        };
        let twice = |args: &[Array], kwargs: &Arrays| {
            Ok(vec![ops::add(&call(args, kwargs)?[0], &call(args, kwargs)?[0])?])
        };
        let mut exporter = Exporter::to_callback(callback, twice, false);
        exporter.export(&inputs(), &Arrays::new()).unwrap();
        drop(exporter);
        assert_eq!(calls, 2);
    });
}

#[test]
fn outputs_that_have_no_room_are_refused() {
    on_cpu(|| {
        let (_folder, path) = file();
        let large = |args: &[Array], _: &Arrays| {
            let shapes = vec![[1 << 31, 1 << 31].as_slice().into(); 2];
            kernel().call(args, &Launch { output_shapes: shapes, ..launch(None) })
        };
        let error = export_function(&path, large, &inputs(), &Arrays::new(), false).unwrap_err();
        let said =
            "[CustomKernel] An array [2147483648, 2147483648] float16 has more bytes than memory";
        assert!(error.to_string().starts_with(said), "{error}");
    });
}

#[test]
fn a_cpu_runs_none() {
    on_cpu(|| {
        let none = Arrays::new();
        let error = kernel().call(&inputs(), &launch(None)).unwrap_err().to_string();
        assert_eq!(error, "[metal_kernel] Only supports the GPU.");
        let on_the_cpu =
            |args: &[Array], _: &Arrays| kernel().call(args, &launch(Some(DeviceType::Cpu)));
        let (_folder, path) = file();
        let error = export_function(&path, on_the_cpu, &inputs(), &none, false).unwrap_err();
        assert_eq!(error.to_string(), "[metal_kernel] Only supports the GPU.");
        assert!(!path.exists());
    });
}

/// Its body assigns numbers to atomic ones.
#[test]
fn a_kernel_of_a_file_is_compiled_where_it_runs() {
    on_cpu(|| {
        let imported = parse(&FileBytes::from_bytes("f", &sample()).unwrap()).unwrap();
        let called = imported.call(&inputs(), &Arrays::new()).unwrap();
        let error = called[0].eval().unwrap_err().to_string();
        assert!(error.contains("`bfloat` does not become `atomic<half>`"), "{error}");
    });
}

#[test]
fn a_kernel_of_a_file_runs_on_a_gpu() {
    on_each_device(|device| {
        let source = "uint i = thread_position_in_grid.x; out[i] = T(a[i]) * b + a_shape[0];";
        let kernel = MetalKernel::new("simple", names(&["a", "b"]), names(&["out"]), source);
        let launch = Launch {
            output_shapes: vec![[2, 4].as_slice().into()],
            output_dtypes: vec![Dtype::Float32],
            grid: [8, 1, 1],
            threadgroup: [8, 1, 1],
            template: vec![("T".into(), TemplateArg::Dtype(Dtype::Float16))],
            init_value: None,
            verbose: false,
            device: None,
        };
        let (_folder, path) = file();
        let call = |args: &[Array], _: &Arrays| kernel.clone().unwrap().call(args, &launch);
        let a = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[2, 4], Dtype::Float32);
        let inputs = [a, Array::scalar(3i32).unwrap()];
        export_function(&path, call, &inputs, &Arrays::new(), false).unwrap();
        let imported = import_function(&path).unwrap();
        // The file says that it runs on a GPU, whatever the default is.
        if device.kind == DeviceType::Gpu {
            let called = imported.call(&inputs, &Arrays::new()).unwrap();
            let want = [5.0, 8.0, 11.0, 14.0, 17.0, 20.0, 23.0, 26.0f32];
            assert_eq!(called[0].to_vec::<f32>().unwrap(), want);
        }
    });
}

#[test]
fn counts_are_checked() {
    on_cpu(|| {
        let error = |inputs: &[Array], launch: &Launch| {
            kernel().call(inputs, launch).unwrap_err().to_string()
        };
        let expected = "[metal_kernel] Expected `inputs` to have size 2 but got size 1.";
        assert_eq!(error(&inputs()[..1], &launch(None)), expected);
        let launch = Launch { output_dtypes: vec![Dtype::Int32], ..launch(None) };
        let expected = "[metal_kernel] Expected `output_dtypes` to have size 2 but got size 1.";
        assert_eq!(error(&inputs(), &launch), expected);
        let none = MetalKernel::new("mine", names(&["a"]), Vec::new(), "").unwrap_err();
        assert_eq!(none.to_string(), "[metal_kernel] Must specify at least one output.");
    });
}

#[test]
fn there_are_no_transforms_of_them() {
    on_cpu(|| {
        let (_folder, path) = file();
        let [a, b] = inputs();
        let a = [a];
        let total = |a: &Array| {
            let called = call(&[a.clone(), b.clone()], &Arrays::new())?;
            ops::sum(&called[0], &[], false)
        };
        let by = |args: &[Array], _: &Arrays| Ok(vec![grad(total, &args[0])?]);
        let error = export_function(&path, by, &a, &Arrays::new(), false).unwrap_err();
        assert_eq!(error.to_string(), "[Primitive::vjp] Not implemented for CustomKernel.");
        let mapped = |args: &[Array], _: &Arrays| {
            vmap(|a| Ok(vec![total(&a[0])?]), args, &[Some(0)], |count| Ok(vec![Some(0); count]))
        };
        let error = export_function(&path, mapped, &a, &Arrays::new(), false).unwrap_err();
        assert_eq!(error.to_string(), "[Primitive::vmap] Not implemented for CustomKernel.");
    });
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn changed_files_do_no_harm(place in any::<prop::sample::Index>(), byte: u8) {
        on_cpu(|| {
            let mut bytes = sample();
            let place = place.index(bytes.len());
            bytes[place] = byte;
            if let Ok(imported) = parse(&FileBytes::from_bytes("f", &bytes).unwrap()) {
                let _ = imported.call(&inputs(), &Arrays::new());
            }
        });
    }
}
