//! Compiling one kernel with glslc, exactly as vulkano's `shader!` macro does.
//!
//! The macro gives shaderc the Vulkan and SPIR-V version, the macros and the include folders, and leaves its
//! optimizer off. So no `-O` here either: the committed files are then byte for byte what the macro embeds,
//! which `shaders --check` proves. Nothing is lost by it: every Vulkan driver optimizes what it is given.

use super::includes;
use super::kernels::Kernel;
use crate::error::{Context, Error, Result};
use crate::process;
use mlx_fetch::digest;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every kernel is compiled with; `shader!` is given the same.
const OPTIONS: [&str; 3] =
    ["-fshader-stage=compute", "--target-env=vulkan1.2", "--target-spv=spv1.5"];

/// The define of committed kernels that go through the optimizer, which `shader!` leaves off.
const OPTIMIZE: &str = "OPTIMIZE";

/// What makes of a module the words that `glslc -O` compiles, but with names.
const OPTIMIZER: [&str; 2] = ["-O", "--target-env=vulkan1.2"];

/// What every module is validated with; scalar block layout is a feature that the
/// backend requires of every device.
const VALIDATION: [&str; 3] = ["--target-env", "vulkan1.2", "--scalar-block-layout"];

/// The folder of a glslc, spirv-val and spirv-opt that know cooperative matrices of bfloat16 (shaderc
/// 2025.4 or newer; Debian's unstable has one, whose unpacked packages run through their own
/// ld.so), for kernels marked `committed`.
const NEWER: &str = "MLX_VK_GLSLC";

/// The compiler and where its input lies.
pub(crate) struct Glslc {
    shaders: PathBuf,
    version: String,
}

impl Glslc {
    /// The glslc on `PATH`, for the sources below `shaders`.
    pub(crate) fn new(shaders: &Path) -> Result<Self> {
        let version = process::capture(Command::new("glslc").arg("--version"))?;
        let version = String::from_utf8_lossy(&version).into_owned();
        Ok(Self { shaders: shaders.to_path_buf(), version })
    }

    /// A hash of everything that the result depends on: compiler, options, source and all it includes.
    pub(crate) fn fingerprint(&self, kernel: &Kernel) -> Result<String> {
        let mut all =
            format!("{}\n{OPTIONS:?}\n{VALIDATION:?}\n{:?}\n", self.version, kernel.defines);
        for path in includes::closure(&self.source(kernel), &self.include_folder())? {
            let text =
                fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
            all.push_str(&format!("{}\n{}\n{text}", path.display(), text.len()));
        }
        Ok(digest::of_bytes(all.as_bytes()))
    }

    /// A hash of what a committed kernel's module depends on, but for the compiler and where the checkout
    /// lies.
    pub(crate) fn source_digest(&self, kernel: &Kernel) -> Result<String> {
        let mut all = format!("{OPTIONS:?}\n{VALIDATION:?}\n{:?}\n", kernel.defines);
        for (name, text) in self.texts(kernel)? {
            all.push_str(&format!("{name}\n{}\n{text}", text.len()));
        }
        Ok(digest::of_bytes(all.as_bytes()))
    }

    /// The source of a kernel and all that it includes: paths below the folder of shaders, and texts.
    pub(crate) fn texts(&self, kernel: &Kernel) -> Result<Vec<(String, String)>> {
        let paths = includes::closure(&self.source(kernel), &self.include_folder())?;
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path);
            let text = text.context(|| format!("cannot read {}", path.display()))?;
            Ok((path.strip_prefix(&self.shaders).unwrap_or(path).display().to_string(), text))
        };
        paths.iter().map(read).collect()
    }

    /// The version of the compiler for committed kernels.
    ///
    /// # Errors
    /// When there is none that can be asked.
    pub(crate) fn newer_version(&self) -> Result<String> {
        let version = process::capture(newer("glslc").arg("--version"))?;
        Ok(String::from_utf8_lossy(&version).into_owned())
    }

    /// Compiles and validates; the module passes through the file `scratch`, which is removed again.
    ///
    /// # Errors
    /// With what the compiler or the validator says.
    pub(crate) fn compile(&self, kernel: &Kernel, scratch: &Path) -> Result<Vec<u8>> {
        let module = self.compile_into(kernel, scratch);
        // Best effort: the folder of scratch files belongs to this run and is emptied by the next.
        let _ = fs::remove_file(scratch);
        module
    }

    fn compile_into(&self, kernel: &Kernel, file: &Path) -> Result<Vec<u8>> {
        let mut glslc = tool(kernel, "glslc");
        glslc.args(OPTIONS).arg("-I").arg(self.include_folder());
        glslc.args(kernel.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        let compiled = quietly(glslc.arg(self.source(kernel)).arg("-o").arg(file));
        match kernel.committed {
            true => compiled.context(|| format!("set {NEWER} to the folder of a newer glslc"))?,
            false => compiled?,
        }
        // glslc's own `-O` would strip the names that layouts are made of.
        if kernel.defines.iter().any(|(name, _)| name == OPTIMIZE) {
            quietly(tool(kernel, "spirv-opt").args(OPTIMIZER).arg(file).arg("-o").arg(file))?;
        }
        validate(kernel, file)?;
        fs::read(file).context(|| format!("cannot read {}", file.display()))
    }

    fn source(&self, kernel: &Kernel) -> PathBuf {
        self.shaders.join(&kernel.source)
    }

    fn include_folder(&self) -> PathBuf {
        self.shaders.join("include")
    }
}

/// Validates a kernel's module.
///
/// # Errors
/// With what the validator says.
pub(crate) fn validate(kernel: &Kernel, file: &Path) -> Result<()> {
    quietly(tool(kernel, "spirv-val").args(VALIDATION).arg(file))
}

/// A tool for a kernel: committed ones may want a newer one.
fn tool(kernel: &Kernel, name: &str) -> Command {
    if kernel.committed { newer(name) } else { Command::new(name) }
}

/// A tool for committed kernels: from the folder that the environment names, else from `PATH`.
fn newer(name: &str) -> Command {
    match std::env::var_os(NEWER) {
        Some(folder) => Command::new(Path::new(&folder).join(name)),
        None => Command::new(name),
    }
}

/// Runs a tool whose complaint is the whole error: its lines name file, line and reason already.
fn quietly(command: &mut Command) -> Result<()> {
    let output =
        command.output().context(|| format!("cannot start `{}`", process::shown(command)))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error::new(String::from_utf8_lossy(&said).into_owned()))
}
