//! Arguments that are given by name, in the order of the parameters.

use std::{
    ffi::{CString, c_char},
    sync::OnceLock,
};

use pyo3::{
    exceptions::PyValueError,
    ffi::{self, Py_ssize_t, PyObject},
    prelude::*,
    types::{PyCFunction, PyModule, PyString},
};

/// The most parameters that a function here may have.
const MOST: usize = 16;

/// A function that models call hundreds of times a token with most of its arguments by name.
///
/// PyO3 compares each name with the parameters' as texts, which takes 1,400 instructions for the six of a
/// quantized product. Names in compiled code are interned: a name is a parameter's where both are one object.
/// Calls with any other names are left to PyO3.
struct Function {
    call: ffi::PyCFunctionFastWithKeywords,
    /// Those that may be given by position.
    parameters: Vec<Parameter>,
    /// How many of them have no name for callers.
    unnamed: usize,
    /// Names of those that may not.
    keyword_only: Vec<Py<PyString>>,
}

struct Parameter {
    name: Py<PyString>,
    is_none_by_default: bool,
}

/// The functions, each with a place of its own: Python calls them without saying which one it means.
static FUNCTIONS: [OnceLock<Function>; 2] = [const { OnceLock::new() }; 2];

/// Adds a function to a module as [`FUNCTIONS`]`[PLACE]`. Its text signature is taken at its word: what it
/// shows as `None` is left out by giving `None`, and no default has a comma.
///
/// # Errors
/// When the place is another function's, or it has more than [`MOST`] parameters, none, or no documentation.
pub(crate) fn add<const PLACE: usize>(
    module: &Bound<'_, PyModule>,
    function: &Bound<'_, PyCFunction>,
) -> PyResult<()> {
    let py = module.py();
    let text = |attribute: &str| function.getattr(attribute)?.extract::<String>();
    let (name, signature, doc) = (text("__name__")?, text("__text_signature__")?, text("__doc__")?);
    let flags = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;
    // SAFETY: it is a function, and not null.
    let (call, way) = unsafe {
        let function = function.as_ptr();
        (ffi::PyCFunction_GetFunction(function), ffi::PyCFunction_GetFlags(function))
    };
    let Some(call) = call.filter(|_| way == flags) else {
        return Err(PyValueError::new_err(format!("{name} is called in another way")));
    };
    // SAFETY: its flags say that it is called like this.
    let call: ffi::PyCFunctionFastWithKeywords = unsafe { std::mem::transmute(call) };
    // The module is made once more where a program forgets it and imports it again.
    let new = Function::new(py, call, &signature)?;
    let placed = FUNCTIONS[PLACE].get_or_init(|| new);
    if !std::ptr::fn_addr_eq(placed.call, call) {
        return Err(PyValueError::new_err(format!("{name} takes another function's place")));
    }
    let def = ffi::PyMethodDef {
        ml_name: kept(name.clone())?,
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: by_position::<PLACE> },
        ml_flags: flags,
        ml_doc: kept(format!("{name}{signature}\n--\n\n{doc}"))?,
    };
    let of = module.name()?;
    // SAFETY: the definition and its texts live as long as the process; the function keeps the module.
    let made = unsafe {
        let def = Box::into_raw(Box::new(def));
        let made = ffi::PyCFunction_NewEx(def, module.as_ptr(), of.as_ptr());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    module.add(name, made)
}

/// A text that lives as long as the process.
fn kept(text: String) -> PyResult<*const c_char> {
    Ok(CString::new(text)?.into_raw())
}

impl Function {
    fn new(
        py: Python<'_>,
        call: ffi::PyCFunctionFastWithKeywords,
        signature: &str,
    ) -> PyResult<Self> {
        let mut function =
            Function { call, parameters: Vec::new(), unnamed: 0, keyword_only: Vec::new() };
        let mut by_position = true;
        for parameter in signature.trim_matches(['(', ')']).split(", ") {
            let (name, default) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (name, is_none_by_default) =
                (PyString::intern(py, name).unbind(), default == "None");
            match parameter {
                "/" => function.unnamed = function.parameters.len(),
                "*" => by_position = false,
                _ if by_position => {
                    function.parameters.push(Parameter { name, is_none_by_default })
                }
                _ => function.keyword_only.push(name),
            }
        }
        match function.parameters.len() + function.keyword_only.len() <= MOST {
            true => Ok(function),
            false => Err(PyValueError::new_err(format!("too many parameters: {signature}"))),
        }
    }

    fn is_keyword_only(&self, name: *mut PyObject) -> bool {
        self.keyword_only.iter().any(|keyword| keyword.as_ptr() == name)
    }

    /// The arguments by position, if names are in the order of the parameters and what is left out between
    /// them is `None` by default.
    ///
    /// # Safety
    /// As for a call of the function.
    unsafe fn ordered(
        &self,
        arguments: *const *mut PyObject,
        given: usize,
        names: *mut PyObject,
    ) -> Option<Ordered> {
        if names.is_null() || given < self.unnamed || given > self.parameters.len() {
            return None;
        }
        let (mut values, mut at) = ([std::ptr::null_mut(); MOST], given);
        // SAFETY: values of named arguments lie behind the others, one for each name.
        unsafe {
            std::ptr::copy_nonoverlapping(arguments, values.as_mut_ptr(), given);
            let (mut named, all) = (0, ffi::PyTuple_Size(names));
            while named < all {
                let name = ffi::PyTuple_GetItem(names, named);
                if self.is_keyword_only(name) {
                    break;
                }
                while self.parameters.get(at)?.name.as_ptr() != name {
                    self.parameters[at].is_none_by_default.then_some(())?;
                    values[at] = ffi::Py_None();
                    at += 1;
                }
                values[at] = *arguments.add(given + named as usize);
                (at, named) = (at + 1, named + 1);
            }
            for left in named..all {
                self.is_keyword_only(ffi::PyTuple_GetItem(names, left)).then_some(())?;
                *values.get_mut(at + (left - named) as usize)? =
                    *arguments.add(given + left as usize);
            }
            Some(Ordered { values, by_position: at, named })
        }
    }
}

/// Arguments in the order of a function's parameters.
struct Ordered {
    values: [*mut PyObject; MOST],
    by_position: usize,
    /// How many of the names are not needed any more; what they name stands by position.
    named: Py_ssize_t,
}

/// Calls a function with as few names as it can.
///
/// # Safety
/// Python calls it as it calls every function with these flags.
unsafe extern "C" fn by_position<const PLACE: usize>(
    module: *mut PyObject,
    arguments: *const *mut PyObject,
    given: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    let Some(function) = FUNCTIONS[PLACE].get() else {
        // Python has it from `add` alone, which sets it before.
        return std::ptr::null_mut();
    };
    // SAFETY: the caller promises it; what is passed on are arguments of this call, and `None`.
    unsafe {
        let Some(ordered) = function.ordered(arguments, given as usize, names) else {
            return (function.call)(module, arguments, given, names);
        };
        let all = ffi::PyTuple_Size(names);
        let mut left = std::ptr::null_mut();
        if ordered.named < all {
            left = ffi::PyTuple_GetSlice(names, ordered.named, all);
            if left.is_null() {
                return left;
            }
        }
        let by_position = ordered.by_position as Py_ssize_t;
        let result = (function.call)(module, ordered.values.as_ptr(), by_position, left);
        ffi::Py_XDECREF(left);
        result
    }
}
