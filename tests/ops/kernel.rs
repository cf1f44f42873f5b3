//! Kernels that users write in Metal's language: what they make, against the same computed here.

mod expressions;
mod groups;
mod matrices;
mod programs;
mod structs;

use mlx::{
    Array, Device, DeviceType, Dtype, Result, Shape,
    fast::{Launch, MetalKernel, TemplateArg},
    random,
};
use mlx_tests::on_each_device;

/// A call of a kernel.
struct Call<'a> {
    source: &'a str,
    header: &'a str,
    inputs: &'a [(&'a str, &'a Array)],
    template: &'a [(&'a str, TemplateArg)],
    /// Names, shapes and dtypes.
    outputs: &'a [(&'a str, &'a [usize], Dtype)],
    grid: [i32; 3],
    threadgroup: [i32; 3],
    in_rows: bool,
    atomic: bool,
    init_value: Option<f32>,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Call {
            source: "",
            header: "",
            inputs: &[],
            template: &[],
            outputs: &[],
            grid: [1; 3],
            threadgroup: [1; 3],
            in_rows: true,
            atomic: false,
            init_value: None,
        }
    }
}

impl Call<'_> {
    fn run(&self) -> Result<Vec<Array>> {
        let names = |names: Vec<&str>| names.into_iter().map(String::from).collect();
        let inputs: Vec<Array> = self.inputs.iter().map(|&(_, array)| array.clone()).collect();
        let kernel = MetalKernel {
            header: self.header.into(),
            ensure_row_contiguous: self.in_rows,
            atomic_outputs: self.atomic,
            ..MetalKernel::new(
                "tried",
                names(self.inputs.iter().map(|&(name, _)| name).collect()),
                names(self.outputs.iter().map(|&(name, ..)| name).collect()),
                self.source,
            )?
        };
        let outputs = kernel.call(
            &inputs,
            &Launch {
                output_shapes: self
                    .outputs
                    .iter()
                    .map(|&(_, shape, _)| Shape::from_slice(shape))
                    .collect(),
                output_dtypes: self.outputs.iter().map(|&(.., dtype)| dtype).collect(),
                grid: self.grid,
                threadgroup: self.threadgroup,
                template: self.template.iter().map(|&(name, value)| (name.into(), value)).collect(),
                init_value: self.init_value,
                verbose: false,
                device: None,
            },
        )?;
        mlx::eval(&outputs.iter().collect::<Vec<_>>())?;
        Ok(outputs)
    }

    /// The only output.
    fn one(&self) -> Array {
        self.run().unwrap().remove(0)
    }

    /// What is said of it.
    fn error(&self) -> String {
        self.run().expect_err(self.source).to_string()
    }
}

/// Runs a test where kernels run.
fn on_gpu(mut test: impl FnMut()) {
    on_each_device(|device: Device| {
        if device.kind == DeviceType::Gpu {
            test();
        }
    });
}

#[test]
fn they_run_on_a_gpu_only() {
    on_each_device(|device| {
        let call = Call {
            source: "out[0] = 1;",
            outputs: &[("out", &[1], Dtype::Int32)],
            ..Call::default()
        };
        match device.kind {
            DeviceType::Gpu => assert_eq!(call.one().to_vec::<i32>().unwrap(), [1]),
            DeviceType::Cpu => assert_eq!(call.error(), "[metal_kernel] Only supports the GPU."),
        }
    });
}

#[test]
fn errors_say_the_line() {
    on_gpu(|| {
        let error = |source: &str| {
            Call { source, outputs: &[("out", &[1], Dtype::Int32)], ..Call::default() }.error()
        };
        let unknown = error("int a = 1;\nout[0] = a +\n  missing(a);");
        assert!(unknown.contains("line 5: there is no function `missing` of (int)"), "{unknown}");
        assert!(unknown.contains("missing(a);"), "{unknown}");
        for (source, said) in [
            ("out[0] = b;", "`b` is not known"),
            ("out[0] = 1", "expected `;`"),
            ("complex64_t m;", "`complex64_t` is not supported"),
            ("float2 v = float2(1, 2); out[0] = v.z;", "`z` names no numbers of 2"),
            ("int a[4]; out[0] = a[4];", "an array of 4 has no such element"),
            ("break;", "there is no loop here"),
            ("float a = 1; out[0] = a % 2;", "`float` has no remainder"),
            ("int n = thread_position_in_grid.x; int a[n];", "has to be known"),
            ("out += 1.5;", "no index"),
            ("goto end;", "goto"),
            ("switch (1) { case 1: case 1: break; }", "there is a case 1 already"),
            ("int x[2]; thread int* p[2] = {x, x};", "arrays of `thread int*` are not supported"),
            ("struct S { threadgroup float* p; }; S s;", "are not supported"),
            ("int a = void();", "no value of `void`"),
        ] {
            let error = error(source);
            assert!(
                error.starts_with("[metal_kernel] kernel \"custom_kernel_tried_int32_t\", line"),
                "{error}"
            );
            assert!(error.contains(said), "{source}: {error}");
        }
    });
}

/// Programs that have no end, or take more of a compiler than they are worth, are refused.
#[test]
fn hostile_programs_are_refused() {
    on_gpu(|| {
        let error = |header: &str, source: &str| {
            let outputs: &[_] = &[("out", [1usize].as_slice(), Dtype::Float32)];
            Call { header, source, outputs, ..Call::default() }.error()
        };
        let circle = "float g(int n); float f(int n) { return n > 0 ? g(n - 1) : 0; }
            float g(int n) { return f(n); }";
        let said = error(circle, "out[0] = f(3);");
        assert!(said.contains("in a circle"), "{said}");
        let doubled = (1..60).map(|n| format!("struct S{n} {{ S{m} a; S{m} b; }};\n", m = n - 1));
        let doubled = format!("struct S0 {{ float a, b; }};\n{}", doubled.collect::<String>());
        let said = error(&doubled, "S59 s; out[0] = 1;");
        assert!(said.contains("a structure has no more than a MiB"), "{said}");
        let large = "struct S { char a[1000000]; };";
        let said = error(
            large,
            "S s = *(const device S*)out; S t = *(const device S*)out; out[0] = s.a[0];",
        );
        assert!(said.contains("too large"), "{said}");
        let deep = "(".repeat(5000) + "1" + &")".repeat(5000);
        assert!(error("", &format!("out[0] = {deep};")).contains("nested too deeply"));
    });
}

/// Who tries a kernel and goes another way when it fails has lost nothing.
#[test]
fn an_error_is_the_kernels_alone() {
    on_gpu(|| {
        let x = random::uniform(0.0, 1.0, &[8], Dtype::Float32, None).unwrap();
        let error = Call {
            source: "out[0] = x[0] + missing;",
            inputs: &[("x", &x)],
            outputs: &[("out", &[1], Dtype::Float32)],
            ..Call::default()
        }
        .error();
        assert!(error.contains("`missing` is not known"), "{error}");
        x.eval().unwrap();
        random::uniform(0.0, 1.0, &[8], Dtype::Float32, None).unwrap().eval().unwrap();
    });
}

#[test]
fn sizes_are_checked() {
    on_gpu(|| {
        let outputs: &[_] = &[("out", [4usize].as_slice(), Dtype::Int32)];
        let call = Call { source: "out[0] = 1;", outputs, ..Call::default() };
        let error = Call { threadgroup: [1 << 20, 1, 1], grid: [1 << 20, 1, 1], ..call }.error();
        assert!(error.contains("greater than the maximum allowed threads"), "{error}");
        let call = Call { source: "out[0] = 1;", outputs, ..Call::default() };
        let error = Call { threadgroup: [0, 1, 1], ..call }.error();
        assert!(error.contains("threadgroup [0, 1, 1] has a size below 1"), "{error}");
        let call = Call { source: "out[0] = 1;", outputs, ..Call::default() };
        assert!(Call { grid: [-1, 1, 1], ..call }.error().contains("negative"));
        // Nothing runs, but outputs hold what they begin as.
        let call =
            Call { source: "out[0] = 1;", outputs, init_value: Some(3.0), ..Call::default() };
        let none = Call { grid: [0, 1, 1], ..call }.one();
        assert_eq!(none.to_vec::<i32>().unwrap(), [3; 4]);
        let source = "threadgroup float a[200000]; a[0] = 1; out[0] = a[0];";
        let error = Call { source, outputs, ..Call::default() }.error();
        assert!(error.contains("shares 800000 bytes in a group"), "{error}");
    });
}
