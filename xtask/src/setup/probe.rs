//! Looking at the machine without Vulkan: files, device nodes and manifests.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Kernel drivers of display devices that are no GPU: what virtual machines and tests show.
const VIRTUAL_DRM_DRIVERS: [&str; 9] = [
    "ast",
    "bochs-drm",
    "cirrus",
    "mgag200",
    "simple-framebuffer",
    "vgem",
    "virtio_gpu",
    "virtio-pci",
    "vkms",
];

/// Manifests of Vulkan drivers that run on the CPU.
const SOFTWARE_MANIFESTS: [&str; 3] = ["lvp_icd", "vk_swiftshader_icd", "lavapipe"];

/// Folders where libraries lie on Linux, the multi-arch ones included.
pub(crate) fn library_folders() -> Vec<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let fixed = ["/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib"];
    let from_env = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed = env::split_paths(&from_env).filter(|dir| !dir.as_os_str().is_empty());
    listed.chain([PathBuf::from(multiarch)]).chain(fixed.map(PathBuf::from)).collect()
}

/// The first library folder that holds `file`.
pub(crate) fn library(file: &str) -> Option<PathBuf> {
    library_folders().into_iter().map(|dir| dir.join(file)).find(|path| path.exists())
}

/// Whether a Vulkan driver for a GPU of this machine is there: a GPU's device node and
/// a driver manifest that fits it.
pub(crate) fn has_hardware_vulkan() -> bool {
    match env::consts::OS {
        "linux" => has_nvidia() || (has_gpu_render_node() && has_mesa_hardware_manifest()),
        // MoltenVK and the Windows drivers always drive a real GPU.
        _ => true,
    }
}

/// Whether tests run on lavapipe, on a system where another allocator can be put before the C library's.
pub(crate) fn wants_allocator() -> bool {
    env::consts::OS == "linux" && !has_hardware_vulkan()
}

/// A GPU whose Vulkan driver is missing, and how to get it; another driver would run, but not on that GPU.
pub(crate) fn idle_gpu() -> Option<&'static str> {
    let nvidia = Path::new("/dev/nvidiactl").exists() && !has_nvidia();
    nvidia.then_some(
        "an NVIDIA GPU is here and no manifest of its Vulkan driver (nvidia_icd.json): install the \
         driver's Vulkan part; a \
         container needs the capability `graphics` (NVIDIA_DRIVER_CAPABILITIES=all)",
    )
}

/// Whether a Vulkan driver that runs on the CPU is there.
pub(crate) fn has_software_vulkan() -> bool {
    driver_manifests().iter().any(|path| is_software(path))
}

/// Whether the explicit layer `name` (a manifest's file name without `.json`) is installed.
pub(crate) fn has_layer(name: &str) -> bool {
    let file = format!("{name}.json");
    vulkan_folders("explicit_layer.d").iter().any(|dir| dir.join(&file).is_file())
}

/// The driver manifests that the Vulkan loader would read.
pub(crate) fn driver_manifests() -> Vec<PathBuf> {
    let forced = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].into_iter().find_map(env::var_os);
    match forced {
        Some(list) => env::split_paths(&list).flat_map(|path| manifests_at(&path)).collect(),
        None => installed_manifests().collect(),
    }
}

/// The manifest of an installed driver whose file's name begins so, whether or not the loader would read it.
pub(crate) fn installed_manifest(start: &str) -> Option<PathBuf> {
    installed_manifests().find(|path| file_stem(path).starts_with(start))
}

fn installed_manifests() -> impl Iterator<Item = PathBuf> {
    vulkan_folders("icd.d").into_iter().flat_map(|dir| manifests_at(&dir))
}

fn manifests_at(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_path_buf()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension() == Some(OsStr::new("json"))).collect();
    found.sort();
    found
}

fn vulkan_folders(kind: &str) -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let fixed = ["/etc", "/usr/local/share", "/usr/share"].map(PathBuf::from);
    let bases = home.into_iter().chain(fixed);
    bases.map(|base| base.join("vulkan").join(kind)).collect()
}

fn has_nvidia() -> bool {
    let manifest = driver_manifests().iter().any(|path| file_stem(path).starts_with("nvidia"));
    manifest && Path::new("/dev/nvidiactl").exists()
}

fn has_mesa_hardware_manifest() -> bool {
    driver_manifests()
        .iter()
        .any(|path| !is_software(path) && !file_stem(path).starts_with("nvidia"))
}

fn has_gpu_render_node() -> bool {
    let nodes = fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    let names = nodes.map(|node| node.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with("renderD"))
        .any(|name| is_gpu_driver(&kernel_driver(&name)))
}

fn kernel_driver(node: &str) -> String {
    let link = fs::read_link(format!("/sys/class/drm/{node}/device/driver")).unwrap_or_default();
    file_stem(&link)
}

fn is_gpu_driver(driver: &str) -> bool {
    !driver.is_empty() && !VIRTUAL_DRM_DRIVERS.contains(&driver)
}

fn is_software(manifest: &Path) -> bool {
    let name = file_stem(manifest);
    SOFTWARE_MANIFESTS.iter().any(|software| name.starts_with(software))
}

fn file_stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_drivers_are_told_by_their_manifest() {
        assert!(is_software(Path::new("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")));
        assert!(is_software(Path::new("/usr/share/vulkan/icd.d/lvp_icd.json")));
        assert!(!is_software(Path::new("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json")));
        assert!(!is_software(Path::new("/etc/vulkan/icd.d/nvidia_icd.json")));
    }

    #[test]
    fn virtual_displays_are_no_gpu() {
        assert!(is_gpu_driver("amdgpu"));
        assert!(is_gpu_driver("i915"));
        assert!(!is_gpu_driver("virtio_gpu"));
        assert!(!is_gpu_driver(""));
    }
}
