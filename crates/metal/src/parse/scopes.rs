//! Which names are types: without that casts, declarations and comparisons look alike.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::ast::Space;

/// What a name of the program stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Type,
    /// A type whose constants may be named with it: `NAME::A`.
    Enumeration,
    /// A constant of an enumeration.
    Enumerator,
    /// A struct that stands in a function.
    LocalStruct,
    /// A field of the struct whose function is read.
    Field,
    /// A function of that struct, or a static one.
    Method,
    StaticMethod,
    Variable,
    Function,
}

impl Meaning {
    fn is_type(self) -> bool {
        matches!(self, Meaning::Type | Meaning::Enumeration | Meaning::LocalStruct)
    }
}

/// The names of the program, by the blocks that they are declared in.
pub(super) struct Scopes {
    outermost: FxHashMap<Rc<str>, Meaning>,
    inner: Vec<FxHashMap<Rc<str>, Meaning>>,
}

impl Scopes {
    pub(super) fn new() -> Scopes {
        Scopes { outermost: FxHashMap::default(), inner: Vec::new() }
    }

    pub(super) fn enter(&mut self) {
        self.inner.push(FxHashMap::default());
    }

    pub(super) fn leave(&mut self) {
        self.inner.pop();
    }

    pub(super) fn declare(&mut self, name: &Rc<str>, meaning: Meaning) {
        self.inner.last_mut().unwrap_or(&mut self.outermost).insert(name.clone(), meaning);
    }

    pub(super) fn declare_outermost(&mut self, name: &Rc<str>, meaning: Meaning) {
        self.outermost.insert(name.clone(), meaning);
    }

    pub(super) fn meaning(&self, name: &str) -> Option<Meaning> {
        let inner = self.inner.iter().rev().find_map(|scope| scope.get(name));
        inner.or_else(|| self.outermost.get(name)).copied()
    }

    /// Whether a name means something of the function that is read: a struct in it aside.
    pub(super) fn is_of_function(&self, name: &str) -> bool {
        let found = self.inner.iter().rev().find_map(|scope| scope.get(name));
        found.is_some_and(|meaning| *meaning != Meaning::LocalStruct)
    }

    pub(super) fn is_type(&self, name: &str) -> bool {
        self.meaning(name).map_or_else(|| is_language_type(name), Meaning::is_type)
    }

    /// Whether a name is that of a type outside of functions.
    pub(super) fn is_type_of_program(&self, name: &str) -> bool {
        self.outermost.get(name).is_some_and(|meaning| meaning.is_type())
    }
}

/// Scalars of the language.
const SCALARS: [&str; 26] = [
    "bool",
    "char",
    "uchar",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "half",
    "bfloat",
    "float",
    "double",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "float16_t",
    "bfloat16_t",
    "complex64_t",
    "size_t",
    "ptrdiff_t",
];

/// Other types of the language.
const TYPES: [&str; 12] = [
    "void",
    "vec",
    "packed_vec",
    "matrix",
    "array",
    "atomic",
    "atomic_int",
    "atomic_uint",
    "atomic_bool",
    "atomic_float",
    "atomic_ulong",
    "numeric_limits",
];

fn is_language_type(name: &str) -> bool {
    if SCALARS.contains(&name) || TYPES.contains(&name) {
        return true;
    }
    if let Some(rest) = name.strip_prefix("simdgroup_") {
        return rest == "matrix"
            || matches!(rest.strip_suffix("8x8"), Some("float" | "half" | "bfloat"));
    }
    if name == "simd_vote" {
        return true;
    }
    let element = name.strip_prefix("packed_").unwrap_or(name);
    let Some(element) = element.strip_suffix(['2', '3', '4']) else { return false };
    let rows = element.strip_suffix('x').and_then(|element| element.strip_suffix(['2', '3', '4']));
    SCALARS.contains(&element) || matches!(rows, Some("float" | "half"))
}

/// Words of the language that name nothing, but for those of types.
const KEYWORDS: [&str; 43] = [
    "auto",
    "break",
    "case",
    "class",
    "const",
    "constant",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "device",
    "do",
    "else",
    "enum",
    "extern",
    "false",
    "for",
    "if",
    "inline",
    "kernel",
    "namespace",
    "private",
    "public",
    "restrict",
    "return",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "const_cast",
    "reinterpret_cast",
    "struct",
    "switch",
    "template",
    "thread",
    "threadgroup",
    "true",
    "typedef",
    "typename",
    "unsigned",
    "using",
    "while",
];

pub(super) fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// Words that begin what is not supported at all.
const UNSUPPORTED: [&str; 20] = [
    "alignas",
    "alignof",
    "asm",
    "__asm__",
    "catch",
    "delete",
    "dynamic_cast",
    "explicit",
    "friend",
    "goto",
    "mutable",
    "new",
    "nullptr",
    "operator",
    "this",
    "throw",
    "try",
    "typeid",
    "union",
    "virtual",
];

pub(super) fn is_unsupported(name: &str) -> bool {
    UNSUPPORTED.contains(&name)
}

pub(super) fn space(word: &str) -> Option<Space> {
    Some(match word {
        "device" => Space::Device,
        "constant" => Space::Constant,
        "threadgroup" => Space::Threadgroup,
        "thread" => Space::Thread,
        _ => return None,
    })
}

/// Words before a type that change nothing here.
pub(super) fn is_skipped(word: &str) -> bool {
    const SKIPPED: [&str; 11] = [
        "static",
        "volatile",
        "restrict",
        "__restrict",
        "__restrict__",
        "inline",
        "extern",
        "typename",
        "METAL_FUNC",
        "METAL_CONST",
        "__inline__",
    ];
    SKIPPED.contains(&word)
}

/// Words that may be joined to the name of an integer.
pub(super) fn is_part_of_integer(word: &str) -> bool {
    matches!(word, "unsigned" | "signed" | "char" | "short" | "int" | "long")
}
