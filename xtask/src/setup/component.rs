//! What a machine must have, how to tell that it is there, and what the package is called where.

use super::probe;
use super::system::{self, System};
use crate::process;
use std::process::Command;

/// What the machine is set up for; each task asks for what it uses and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Purpose {
    /// Running programs on Vulkan
    Run,
    /// Fetching model files
    Model,
    /// Installing upstream MLX, to compare with it
    Oracle,
    /// Compiling and validating shaders
    Shaders,
    /// Building with vulkano's `shader!` macro (feature `shader-macros`)
    ShaderMacros,
    /// Running the tests under the validation layers
    Validation,
    /// Running the tests sooner where there is no GPU
    Test,
}

/// One thing that must be installed.
pub(crate) struct Component {
    /// What it is, for a person.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// Tells whether it is there.
    pub(crate) present: fn() -> bool,
    /// Its packages on Debian.
    pub(crate) debian: &'static [&'static str],
    fedora: &'static [&'static str],
    arch: &'static [&'static str],
    macos: &'static [&'static str],
    windows: &'static [&'static str],
}

impl Component {
    /// What the packages are called on `system`.
    pub(crate) fn packages(&self, system: System) -> &'static [&'static str] {
        match system {
            System::Debian | System::Other => self.debian,
            System::Fedora => self.fedora,
            System::Arch => self.arch,
            System::MacOs => self.macos,
            System::Windows => self.windows,
        }
    }
}

/// Debian's package with every Mesa driver, lavapipe among them.
pub(crate) const MESA_DRIVERS: &str = "mesa-vulkan-drivers";

/// Everything that any task needs.
pub(crate) const COMPONENTS: [Component; 11] = [
    Component {
        name: "Vulkan loader",
        purpose: Purpose::Run,
        present: has_loader,
        debian: &["libvulkan1"],
        fedora: &["vulkan-loader"],
        arch: &["vulkan-icd-loader"],
        macos: &["vulkan-loader"],
        windows: &["a GPU driver, or KhronosGroup.VulkanSDK"],
    },
    Component {
        name: "Vulkan driver (Mesa's lavapipe where there is no GPU)",
        purpose: Purpose::Run,
        present: has_driver,
        debian: &[MESA_DRIVERS],
        fedora: &["mesa-vulkan-drivers"],
        arch: &["vulkan-swrast"],
        macos: &["molten-vk"],
        windows: &["a GPU driver"],
    },
    Component {
        name: "pip",
        purpose: Purpose::Model,
        present: has_pip,
        debian: &["python3-pip"],
        fedora: &["python3-pip"],
        arch: &["python-pip"],
        macos: &["python"],
        windows: &["Python.Python.3.13"],
    },
    Component {
        name: "Python's venv",
        purpose: Purpose::Oracle,
        present: has_venv,
        debian: &["python3-venv"],
        fedora: &["python3"],
        arch: &["python"],
        macos: &["python"],
        windows: &["Python.Python.3.13"],
    },
    Component {
        name: "glslc",
        purpose: Purpose::Shaders,
        present: || process::on_path("glslc").is_some(),
        debian: &["glslc"],
        fedora: &["glslc"],
        arch: &["shaderc"],
        macos: &["shaderc"],
        windows: &["KhronosGroup.VulkanSDK"],
    },
    Component {
        name: "SPIR-V tools (spirv-val, spirv-dis)",
        purpose: Purpose::Shaders,
        present: || process::on_path("spirv-val").is_some(),
        debian: &["spirv-tools"],
        fedora: &["spirv-tools"],
        arch: &["spirv-tools"],
        macos: &["spirv-tools"],
        windows: &["KhronosGroup.VulkanSDK"],
    },
    Component {
        name: "shaderc, glslang and SPIR-V tools as static libraries",
        purpose: Purpose::ShaderMacros,
        present: has_shaderc,
        debian: &["libshaderc-dev", "glslang-dev", "spirv-tools"],
        fedora: &["libshaderc-static", "glslang-devel", "spirv-tools-devel"],
        arch: &["shaderc"],
        macos: &["shaderc"],
        windows: &["KhronosGroup.VulkanSDK"],
    },
    Component {
        name: "ar (binutils)",
        purpose: Purpose::ShaderMacros,
        present: || process::on_path("ar").is_some(),
        debian: &["binutils"],
        fedora: &["binutils"],
        arch: &["binutils"],
        macos: &["binutils"],
        windows: &["KhronosGroup.VulkanSDK"],
    },
    Component {
        name: "C++ standard library to link shaderc with",
        purpose: Purpose::ShaderMacros,
        present: || process::on_path("c++").is_some(),
        debian: &["g++"],
        fedora: &["gcc-c++"],
        arch: &["gcc"],
        macos: &["gcc"],
        windows: &["Microsoft.VisualStudio.2022.BuildTools"],
    },
    Component {
        name: "Vulkan validation layers",
        purpose: Purpose::Validation,
        present: || probe::has_layer("VkLayer_khronos_validation"),
        debian: &["vulkan-validationlayers"],
        fedora: &["vulkan-validation-layers"],
        arch: &["vulkan-validation-layers"],
        macos: &["vulkan-validationlayers"],
        windows: &["KhronosGroup.VulkanSDK"],
    },
    Component {
        name: "jemalloc, with which lavapipe's compiler takes less time",
        purpose: Purpose::Test,
        present: || !probe::wants_allocator() || probe::library(ALLOCATOR).is_some(),
        debian: &["libjemalloc2"],
        fedora: &["jemalloc"],
        arch: &["jemalloc"],
        macos: &["jemalloc"],
        windows: &["jemalloc"],
    },
];

/// The allocator's file.
pub(crate) const ALLOCATOR: &str = "libjemalloc.so.2";

fn has_loader() -> bool {
    let names: &[&str] = match std::env::consts::OS {
        "macos" => &["libvulkan.1.dylib", "libMoltenVK.dylib"],
        "windows" => return std::path::Path::new(r"C:\Windows\System32\vulkan-1.dll").exists(),
        _ => &["libvulkan.so.1"],
    };
    let homebrew = std::path::Path::new("/opt/homebrew/lib");
    names.iter().any(|name| probe::library(name).is_some() || homebrew.join(name).exists())
}

fn has_driver() -> bool {
    probe::has_hardware_vulkan() || probe::has_software_vulkan()
}

fn has_pip() -> bool {
    process::succeeds(Command::new("python3").args(["-m", "pip", "--version"]))
}

/// Debian packages `venv` without what it needs to install pip.
fn has_venv() -> bool {
    process::succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"]))
}

/// shaderc as a static library; Debian keeps its parts in three packages, elsewhere one archive holds them
/// all.
fn has_shaderc() -> bool {
    let parts: &[&str] = match system::current() {
        System::Debian => &["libshaderc_combined.a", "libglslang.a", "libSPIRV-Tools-opt.a"],
        _ => &["libshaderc_combined.a"],
    };
    std::env::var_os("SHADERC_LIB_DIR").is_some()
        || parts.iter().all(|file| probe::library(file).is_some())
}
