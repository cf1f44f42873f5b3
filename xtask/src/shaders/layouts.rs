//! The Rust side of what modules take from the host: one module per source, with a struct of its
//! specialization constants, its push block, and its kernels typed by both.

use super::kernels::Kernel;
use super::numbers::Number;
use super::reflect::{Constant, Interface, Struct, Type, Value};
use crate::error::{Context, Error, Result};
use crate::paths;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Alignment of generated structs: nothing is padded behind the last field.
const PACKED: u32 = 4;

const HEAD: &str = "\
//! What kernels take from the host: `cargo xtask shaders` writes this file from their compiled
//! modules. Never edit it.
//!
//! A source's module has its specialization constants (`Constants`), its push constants (`Push`,
//! shared with other sources whose block is the same), its kernels, structs that shaders read from
//! memory, and numbers that both sides name.

use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};

use super::{Kernel, KernelOf, SpecConstants};
";

/// A source and what its kernels' modules say.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Path below `shaders/`.
    pub(crate) path: String,
    /// Its kernels with their interfaces.
    pub(crate) kernels: Vec<(String, Interface)>,
    pub(crate) numbers: Vec<Number>,
}

/// The number of the specialization constant that is the device's, and no kernel's.
const DEVICE_CONSTANT: &str = "DEVICE_CONSTANT";

/// The sources of kernels in the order of their modules' names; an include with numbers is one
/// without kernels.
pub(crate) fn sources(
    kernels: &[Kernel],
    interfaces: Vec<Interface>,
    mut numbers: BTreeMap<String, Vec<Number>>,
) -> Result<Vec<Source>> {
    let mut found: BTreeMap<String, Source> = BTreeMap::new();
    let device = numbers.values().flatten().find(|(name, _)| name == DEVICE_CONSTANT);
    let device = device.map(|&(_, id)| id);
    for (kernel, mut interface) in kernels.iter().zip(interfaces) {
        interface.constants.retain(|constant| Some(constant.id) != device);
        let source = found.entry(module_name(&kernel.source)).or_default();
        source.path.clone_from(&kernel.source);
        source.kernels.push((kernel.name.clone(), interface));
    }
    for source in found.values_mut() {
        source.numbers = numbers.remove(&source.path).unwrap_or_default();
    }
    for (path, numbers) in numbers {
        let name = module_name(&path);
        if let Some(other) = found.get(&name) {
            return Err(Error::new(format!("{path} and {} would both be `{name}`", other.path)));
        }
        found.insert(name, Source { path, kernels: Vec::new(), numbers });
    }
    Ok(found.into_values().collect())
}

/// The name of a source's module: `norm/norm.comp` is `norm`, `softmax/rows.comp` is `softmax_rows`,
/// and an include has its own.
fn module_name(path: &str) -> String {
    let path = path.strip_prefix("include/").unwrap_or(path);
    let path = path.rsplit_once('.').map_or(path, |(path, _)| path);
    match path.split_once('/') {
        Some((family, name)) if family == name => name.to_owned(),
        _ => path.replace('/', "_"),
    }
}

/// The text of the generated file, formatted.
///
/// # Errors
/// When kernels of a source contradict each other, or a name or a type cannot be one of Rust.
pub(crate) fn text(sources: &[Source]) -> Result<String> {
    let mut out = HEAD.to_owned();
    let mut known = Vec::new();
    for source in sources {
        let written = module(source, &mut known);
        out += &written.map_err(|why| Error::new(format!("shaders/{}: {why}", source.path)))?;
    }
    out += &push_bytes(sources);
    formatted(&out)
}

/// The function by which a test sees every kernel's push block. Its match is exhaustive: a kernel
/// that this file does not know is an error.
fn push_bytes(sources: &[Source]) -> String {
    let mut arms = String::new();
    for source in sources {
        for (kernel, interface) in &source.kernels {
            let push = interface.push.as_ref();
            let push = push.map(|push| format!("{}::{}", module_name(&source.path), push.name));
            let push = push.unwrap_or_else(|| "()".to_owned());
            let _ = writeln!(arms, "Kernel::{kernel} => size_of::<{push}>(),");
        }
    }
    format!(
        "\n/// Bytes of a kernel's push constants.\n#[cfg(test)]\n\
         pub(super) const fn push_bytes(kernel: Kernel) -> usize {{\nmatch kernel {{\n{arms}}}\n}}\n"
    )
}

/// Structs that are written already, with their module.
type Known = Vec<(String, Struct)>;

fn module(source: &Source, known: &mut Known) -> Result<String> {
    let name = module_name(&source.path);
    let mut body = String::new();
    for (number, value) in &source.numbers {
        let _ = writeln!(body, "pub(crate) const {number}: u32 = {value};");
    }
    let mut structs = Structs { module: &name, known, own: BTreeMap::new(), text: String::new() };
    for (kernel, interface) in &source.kernels {
        for of in interface.memory.iter().chain(&interface.push) {
            structs.write(of).map_err(|why| Error::new(format!("{kernel}: {why}")))?;
        }
    }
    let structs = structs.text;
    if !source.kernels.is_empty() {
        body += &kernels(&source.kernels);
        body += &constants(&union(&source.kernels)?)?;
    }
    Ok(format!(
        "\n/// `shaders/{}`.\npub(crate) mod {name} {{\nuse super::*;\n{body}{structs}}}\n",
        source.path
    ))
}

fn kernels(kernels: &[(String, Interface)]) -> String {
    let one = |(name, interface): &(String, Interface)| {
        let push = interface.push.as_ref().map_or("()", |push| push.name.as_str());
        let upper = name.to_uppercase();
        format!(
            "pub(crate) const {upper}: KernelOf<Constants, {push}> = KernelOf::new(Kernel::{name});\n"
        )
    };
    kernels.iter().map(one).collect()
}

/// The specialization constants of all kernels of a source: some declare fewer than others.
fn union(kernels: &[(String, Interface)]) -> Result<Vec<Constant>> {
    let mut all: BTreeMap<u32, Constant> = BTreeMap::new();
    for constant in kernels.iter().flat_map(|(_, interface)| &interface.constants) {
        let known = all.entry(constant.id).or_insert_with(|| constant.clone());
        if known != constant {
            return Err(Error::new(format!(
                "kernels disagree about specialization constant {}: {known:?} and {constant:?}",
                constant.id
            )));
        }
    }
    Ok(all.into_values().collect())
}

fn constants(constants: &[Constant]) -> Result<String> {
    let (mut fields, mut words, mut defaults) = (String::new(), String::new(), String::new());
    let mut names = BTreeSet::new();
    let mut next = 0;
    for Constant { id, name, default } in constants {
        let name = name.as_deref().map_or_else(|| "workgroup".to_owned(), field_name);
        if !names.insert(name.clone()) {
            return Err(Error::new(format!("two specialization constants are `{name}`")));
        }
        // A constant that no kernel has has no effect.
        words += &"0, ".repeat((id - next) as usize);
        next = id + 1;
        let (of, default, word) = match default {
            Value::Bool(x) => ("bool", x.to_string(), format!("self.{name} as u32")),
            Value::Uint(x) => ("u32", x.to_string(), format!("self.{name}")),
            Value::Int(x) => ("i32", x.to_string(), format!("self.{name} as u32")),
            Value::Float(x) => ("f32", format!("{x:?}"), format!("self.{name}.to_bits()")),
        };
        let _ = writeln!(fields, "/// `constant_id = {id}`.\npub(crate) {name}: {of},");
        let _ = write!(words, "{word}, ");
        let _ = write!(defaults, "{name}: {default}, ");
    }
    Ok(format!(
        "/// Specialization constants; the defaults are the shader's.\n\
         #[derive(Debug, Clone, Copy, PartialEq)]\npub(crate) struct Constants {{\n{fields}}}\n\
         impl Default for Constants {{\nfn default() -> Self {{ Constants {{ {defaults} }} }}\n}}\n\
         impl SpecConstants for Constants {{\ntype Words = [u32; {next}];\n\
         fn words(&self) -> [u32; {next}] {{ [{words}] }}\n}}\n"
    ))
}

/// The structs of a source's module.
struct Structs<'a> {
    module: &'a str,
    known: &'a mut Known,
    /// By name, those that the module has already.
    own: BTreeMap<String, Struct>,
    text: String,
}

impl Structs<'_> {
    /// Writes a struct and those in it, or names the module that has the same one.
    fn write(&mut self, of: &Struct) -> Result<()> {
        if let Some(other) = self.own.insert(of.name.clone(), of.clone()) {
            return match other == *of {
                true => Ok(()),
                false => Err(Error::new(format!("two structs that differ are `{}`", of.name))),
            };
        }
        for field in &of.fields {
            if let Some(inner) = inner(&field.of) {
                self.write(inner)?;
            }
        }
        match self.known.iter().find(|(_, known)| known == of) {
            Some((module, _)) => {
                let _ = writeln!(self.text, "pub(crate) use super::{module}::{};", of.name);
            }
            None => {
                self.text += &structure(of)?;
                self.known.push((self.module.to_owned(), of.clone()));
            }
        }
        Ok(())
    }
}

fn inner(of: &Type) -> Option<&Struct> {
    match of {
        Type::Number(..) => None,
        Type::Array(of, _) => inner(of),
        Type::Struct(of) => Some(of),
    }
}

fn structure(of: &Struct) -> Result<String> {
    let Struct { name, fields } = of;
    let (mut declared, mut asserted) = (String::new(), String::new());
    let mut names = BTreeSet::new();
    let mut end = 0;
    for field in fields {
        if field.offset < end {
            return Err(Error::new(format!("{name}.{} lies over the field before it", field.name)));
        }
        // A packed struct has no holes of its own.
        let hole = field.offset.next_multiple_of(PACKED) - end.next_multiple_of(PACKED);
        if hole > 0 {
            let _ = writeln!(declared, "pub(crate) padding_{end}: [u8; {hole}],");
        }
        let (field_name, of) = (field_name(&field.name), rust(&field.of));
        if !names.insert(field_name.clone()) {
            return Err(Error::new(format!("two fields of {name} are `{field_name}`")));
        }
        let _ = writeln!(declared, "pub(crate) {field_name}: {of},");
        let _ =
            writeln!(asserted, "assert!(offset_of!({name}, {field_name}) == {});", field.offset);
        end = field.offset + field.of.size();
    }
    Ok(format!(
        "/// `{name}` of the shader.\n\
         #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]\n#[repr(C, packed({PACKED}))]\n\
         pub(crate) struct {name} {{\n{declared}}}\n\
         const _: () = {{\n{asserted}assert!(size_of::<{name}>() == {end});\n}};\n"
    ))
}

fn rust(of: &Type) -> String {
    match of {
        Type::Number(name, _) => (*name).to_owned(),
        Type::Array(of, count) => format!("[{}; {count}]", rust(of)),
        Type::Struct(of) => of.name.clone(),
    }
}

/// A name of GLSL in snake case. An underscore behind it tells it from a word of the language,
/// here of Rust.
fn field_name(name: &str) -> String {
    let mut snake = String::new();
    let mut before = '_';
    for c in name.trim_end_matches('_').chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
        before = c;
    }
    const WORDS: [&str; 12] =
        ["as", "box", "fn", "impl", "let", "loop", "match", "move", "mut", "ref", "type", "where"];
    if WORDS.contains(&snake.as_str()) {
        snake.push('_');
    }
    snake
}

/// What rustfmt makes of a text, with the workspace's settings.
fn formatted(text: &str) -> Result<String> {
    let failed = || "cannot run rustfmt".to_owned();
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--emit", "stdout", "--config-path"]).arg(paths::root());
    let pipes = rustfmt.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().context(failed)?;
    // It reads all before it writes, so the pipes cannot wait for each other.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes()).context(failed)?;
    }
    let output = child.wait_with_output().context(failed)?;
    if !output.status.success() {
        return Err(Error::new(String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).context(failed)
}

#[cfg(test)]
mod tests {
    use super::super::reflect;
    use super::*;

    fn kernel(name: &str, source: &str) -> Kernel {
        let (name, source) = (name.to_owned(), source.to_owned());
        Kernel { name, source, defines: Vec::new(), committed: false }
    }

    fn interface() -> Interface {
        reflect::interface(include_bytes!("testdata/interface.spv")).unwrap()
    }

    fn written(kernels: &[Kernel], interfaces: Vec<Interface>) -> Result<String> {
        text(&sources(kernels, interfaces, BTreeMap::new())?)
    }

    #[test]
    fn fields_and_constants_stand_at_their_places() {
        let text = written(&[kernel("a", "twist/twist.comp")], vec![interface()]).unwrap();
        for line in [
            "pub(crate) mod twist {",
            "pub(crate) const A: KernelOf<Constants, Push> = KernelOf::new(Kernel::a);",
            "pub(crate) vector: bool,",
            "type Words = [u32; 6];",
            "pub(crate) pairs: [Pair; 2],",
            "pub(crate) step: i64,",
            "assert!(offset_of!(Push, eps) == 52);",
            "assert!(size_of::<Push>() == 64);",
            "Kernel::a => size_of::<twist::Push>(),",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let words = text.split("fn words").nth(1).unwrap();
        let words: String = words.split_whitespace().collect();
        let expected = "[self.workgroup,self.dtype,self.vectorasu32,0,self.shiftasu32,\
                        self.scale.to_bits()";
        assert!(words.contains(expected), "{words}");
    }

    #[test]
    fn what_is_the_same_is_one_type_and_what_differs_must_not_share_a_name() {
        let kernels = [kernel("a", "twist/first.comp"), kernel("b", "twist/second.comp")];
        let text = written(&kernels, vec![interface(), interface()]).unwrap();
        assert!(text.contains("pub(crate) use super::twist_first::Push;"), "{text}");
        let kernels = [kernel("a", "twist/twist.comp"), kernel("b", "twist/twist.comp")];
        let mut other = interface();
        other.push.as_mut().unwrap().fields.swap(0, 2);
        let error = written(&kernels, vec![interface(), other]).unwrap_err().to_string();
        assert!(error.contains("two structs that differ are `Push`"), "{error}");
        let mut other = interface();
        other.constants[1].default = Value::Uint(9);
        let error = written(&kernels, vec![interface(), other]).unwrap_err().to_string();
        assert!(error.contains("disagree about specialization constant 1"), "{error}");
    }

    #[test]
    fn names_are_those_of_rust() {
        assert_eq!(
            ["step_", "keyHead", "A_VECTOR", "FN"].map(field_name),
            ["step", "key_head", "a_vector", "fn_"]
        );
        let paths = ["norm/norm.comp", "softmax/rows.comp", "include/common.glsl"];
        assert_eq!(paths.map(module_name), ["norm", "softmax_rows", "common"]);
    }
}
