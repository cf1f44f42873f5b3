//! Kernels that users write in Metal's language.
//!
//! A body gets the signature that upstream writes around it, and the Vulkan backend compiles the whole
//! program. A function that calls one can be exported: the file has the program, too.

use crate::{
    Array, Device, DeviceType, Dtype, Error, Result, Shape, export, graph,
    primitives::{CustomKernel, Exact, MathMode, Spec},
    stream::{current_stream, default_stream, with_stream},
};

const OP: &str = "metal_kernel";

/// Arrays of fewer elements are constants.
const LARGEST_CONSTANT: usize = 7;

/// What a thread can ask for by name, and its type.
const ATTRIBUTES: [(&str, &str); 20] = [
    ("dispatch_quadgroups_per_threadgroup", "uint"),
    ("dispatch_simdgroups_per_threadgroup", "uint"),
    ("dispatch_threads_per_threadgroup", "uint3"),
    ("grid_origin", "uint3"),
    ("grid_size", "uint3"),
    ("quadgroup_index_in_threadgroup", "uint"),
    ("quadgroups_per_threadgroup", "uint"),
    ("simdgroup_index_in_threadgroup", "uint"),
    ("simdgroups_per_threadgroup", "uint"),
    ("thread_execution_width", "uint"),
    ("thread_index_in_quadgroup", "uint"),
    ("thread_index_in_simdgroup", "uint"),
    ("thread_index_in_threadgroup", "uint"),
    ("thread_position_in_grid", "uint3"),
    ("thread_position_in_threadgroup", "uint3"),
    ("threadgroup_position_in_grid", "uint3"),
    ("threadgroups_per_grid", "uint3"),
    ("threads_per_grid", "uint3"),
    ("threads_per_simdgroup", "uint"),
    ("threads_per_threadgroup", "uint3"),
];

/// A kernel in Metal's language.
#[derive(Debug, Clone)]
pub struct MetalKernel {
    /// Its name.
    pub name: String,
    /// What its body calls the inputs. It may also read `NAME_shape`, `NAME_strides` and `NAME_ndim`.
    pub input_names: Vec<String>,
    /// What its body calls the outputs.
    pub output_names: Vec<String>,
    /// The body.
    pub source: String,
    /// What comes before it.
    pub header: String,
    /// Whether inputs are copied into rows.
    pub ensure_row_contiguous: bool,
    /// Whether outputs are atomic.
    pub atomic_outputs: bool,
    /// How exact the compiler has to be.
    pub math_mode: MathMode,
}

/// How a kernel is called.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Shapes of the outputs.
    pub output_shapes: Vec<Shape>,
    /// Dtypes of the outputs.
    pub output_dtypes: Vec<Dtype>,
    /// Threads along three axes.
    pub grid: [i32; 3],
    /// Threads of a group along three axes.
    pub threadgroup: [i32; 3],
    /// Parameters of the body, which becomes a template.
    pub template: Vec<(String, TemplateArg)>,
    /// What outputs hold before the kernel runs.
    pub init_value: Option<f32>,
    /// Whether the whole program is printed.
    pub verbose: bool,
    /// Where it shall run, if not where this thread's operations do.
    pub device: Option<DeviceType>,
}

/// What a parameter of a kernel's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are types")]
pub enum TemplateArg {
    Int(i32),
    Bool(bool),
    Dtype(Dtype),
}

impl MetalKernel {
    /// A kernel of this body, without a header and other options.
    ///
    /// # Errors
    /// When it has no outputs.
    pub fn new(
        name: impl Into<String>,
        input_names: Vec<String>,
        output_names: Vec<String>,
        source: impl Into<String>,
    ) -> Result<Self> {
        if output_names.is_empty() {
            return Err(Error::invalid(OP, "Must specify at least one output."));
        }
        Ok(MetalKernel {
            name: name.into(),
            input_names,
            output_names,
            source: source.into(),
            header: String::new(),
            ensure_row_contiguous: true,
            atomic_outputs: false,
            math_mode: MathMode::default(),
        })
    }

    /// What the kernel makes of arrays. What is wrong with its source is told when that is evaluated.
    ///
    /// # Errors
    /// When it is given too many or too few arrays, shapes or dtypes; when it shall run on the CPU.
    pub fn call(&self, inputs: &[Array], launch: &Launch) -> Result<Vec<Array>> {
        let outputs = self.output_names.len();
        launch.expect_counts(OP, [inputs.len(), self.input_names.len()], outputs)?;
        let stream = match launch.device {
            // A file may be written where there is no GPU.
            _ if export::is_exporting() => None,
            Some(kind) if kind != current_stream()?.device.kind => {
                Some(default_stream(Device { kind, index: 0 })?)
            }
            _ => Some(current_stream()?),
        };
        if stream.map_or(launch.device, |s| Some(s.device.kind)) == Some(DeviceType::Cpu) {
            return Err(Error::invalid(OP, "Only supports the GPU."));
        }
        let kernel = self.kernel(inputs, launch);
        if launch.verbose {
            print(&self.name, &kernel.source);
        }
        let apply = || graph::apply(Box::new(kernel).into(), inputs.into());
        let outputs = match stream {
            Some(stream) => with_stream(stream, apply),
            None => apply(),
        };
        Ok(outputs?.into_vec())
    }

    fn kernel(&self, inputs: &[Array], launch: &Launch) -> CustomKernel {
        let name = self.specialized(inputs, launch);
        let shape_infos: Vec<[bool; 3]> = self.input_names.iter().map(|n| self.asks(n)).collect();
        let outputs = launch.output_shapes.iter().zip(&launch.output_dtypes);
        let outputs = outputs.map(|(shape, &dtype)| Spec { shape: shape.clone(), dtype });
        CustomKernel {
            source: self.program(&name, inputs, &shape_infos, launch),
            name,
            grid: launch.grid,
            threadgroup: launch.threadgroup,
            shape_infos,
            ensure_row_contiguous: self.ensure_row_contiguous,
            init_value: launch.init_value.map(Exact),
            scalars: Vec::new(),
            is_precompiled: false,
            shared_memory: 0,
            math_mode: self.math_mode,
            outputs: outputs.collect(),
        }
    }

    /// Whether the body reads shape, strides and number of axes of an input.
    fn asks(&self, input: &str) -> [bool; 3] {
        ["shape", "strides", "ndim"].map(|what| self.source.contains(&format!("{input}_{what}")))
    }

    /// The name of the kernel for such arguments: others have another program.
    fn specialized(&self, inputs: &[Array], launch: &Launch) -> String {
        let mut name = format!("custom_kernel_{}", self.name);
        if !launch.template.is_empty() {
            name.push('_');
        }
        for (_, argument) in &launch.template {
            name += &format!("_{}", argument.value().replace('-', "_"));
        }
        for input in inputs {
            let kind = match input.ndim() {
                0 => "s",
                _ if is_constant(input) => "c",
                _ => "",
            };
            name += &format!("_{}{kind}", type_name(input.dtype()));
        }
        launch.output_dtypes.iter().fold(name, |name, &dtype| name + "_" + type_name(dtype))
    }

    /// The whole program: header, signature, body, and which instance of a template is meant.
    fn program(
        &self,
        name: &str,
        inputs: &[Array],
        shape_infos: &[[bool; 3]],
        launch: &Launch,
    ) -> String {
        let mut program = self.header.clone();
        let list = |of: fn(&(String, TemplateArg)) -> String| {
            launch.template.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        let is_template = !launch.template.is_empty();
        if is_template {
            let parameters = list(|(name, argument)| format!("{} {name}", argument.kind()));
            program += &format!("template <{parameters}>\n");
        }
        let parameters = self.parameters(inputs, shape_infos, &launch.output_dtypes).join(",\n");
        program += &format!("[[kernel]] void {name}(\n{parameters}) {{\n{}\n}}\n", self.source);
        if is_template {
            let instance = format!("{name}<{}>", list(|(_, argument)| argument.value()));
            program += &format!(
                "\ntemplate [[host_name(\"{name}\")]] [[kernel]] decltype({instance}) {instance};\n"
            );
        }
        program
    }

    /// Buffers, and what a thread asks for.
    fn parameters(
        &self,
        inputs: &[Array],
        shape_infos: &[[bool; 3]],
        outputs: &[Dtype],
    ) -> Vec<String> {
        let mut all = Vec::new();
        let mut buffer = |declared: String| {
            let parameter = format!("  {declared} [[buffer({})]]", all.len());
            all.push(parameter);
        };
        for ((name, input), asks) in self.input_names.iter().zip(inputs).zip(shape_infos) {
            let space = if is_constant(input) { "constant" } else { "device" };
            let reference = if input.ndim() == 0 { '&' } else { '*' };
            buffer(format!("const {space} {}{reference} {name}", type_name(input.dtype())));
            let kinds = ["int* NAME_shape", "int64_t* NAME_strides", "int& NAME_ndim"];
            let asked = kinds.into_iter().zip(asks).filter(|(_, asks)| **asks);
            for (kind, _) in asked.filter(|_| input.ndim() > 0) {
                buffer(format!("const constant {}", kind.replace("NAME", name)));
            }
        }
        for (name, &dtype) in self.output_names.iter().zip(outputs) {
            let kind = type_name(dtype);
            let kind = if self.atomic_outputs { format!("atomic<{kind}>") } else { kind.into() };
            buffer(format!("device {kind}* {name}"));
        }
        let asked = ATTRIBUTES.iter().filter(|(name, _)| self.source.contains(name));
        all.extend(asked.map(|(name, kind)| format!("  {kind} {name} [[{name}]]")));
        all
    }
}

impl Launch {
    /// Checks how many inputs there are, and how many there have to be, and that there are shapes and dtypes
    /// for so many outputs.
    ///
    /// # Errors
    /// The first number that is another one, said by `op`.
    pub fn expect_counts(
        &self,
        op: &'static str,
        [inputs, wanted]: [usize; 2],
        outputs: usize,
    ) -> Result<()> {
        let counts = [
            ("inputs", inputs, wanted),
            ("output_shapes", self.output_shapes.len(), outputs),
            ("output_dtypes", self.output_dtypes.len(), outputs),
        ];
        let is_wrong = |(_, given, wanted): &(&str, usize, usize)| given != wanted;
        counts.into_iter().find(is_wrong).map_or(Ok(()), |(what, given, wanted)| {
            let message = format!("Expected `{what}` to have size {wanted} but got size {given}.");
            Err(Error::invalid(op, message))
        })
    }
}

impl TemplateArg {
    /// What Metal calls the kind of parameter.
    fn kind(self) -> &'static str {
        match self {
            Self::Int(_) => "int",
            Self::Bool(_) => "bool",
            Self::Dtype(_) => "typename",
        }
    }

    /// As upstream writes it.
    fn value(self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Bool(value) => u8::from(value).to_string(),
            Self::Dtype(dtype) => type_name(dtype).into(),
        }
    }
}

#[expect(clippy::print_stdout, reason = "the caller asks for it")]
fn print(name: &str, program: &str) {
    println!("Generated source code for `{name}`:\n```\n{program}\n```");
}

/// Whether an input is in the address space of constants.
fn is_constant(input: &Array) -> bool {
    input.size() <= LARGEST_CONSTANT
}

/// What Metal calls a dtype.
fn type_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "bool",
        Dtype::Uint8 => "uint8_t",
        Dtype::Uint16 => "uint16_t",
        Dtype::Uint32 => "uint32_t",
        Dtype::Uint64 => "uint64_t",
        Dtype::Int8 => "int8_t",
        Dtype::Int16 => "int16_t",
        Dtype::Int32 => "int32_t",
        Dtype::Int64 => "int64_t",
        Dtype::Float16 => "float16_t",
        Dtype::Bfloat16 => "bfloat16_t",
        Dtype::Float32 => "float",
        Dtype::Float64 => "double",
        Dtype::Complex64 => "complex64_t",
    }
}
