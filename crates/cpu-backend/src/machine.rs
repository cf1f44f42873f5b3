//! What Linux says of the machine; other systems are not asked.

use std::{env, fs};

use mlx_vulkan_core::backend::{DeviceInfo, InfoValue};

/// What programs ask of a device: name, architecture and, in bytes, memory.
pub(crate) fn info() -> DeviceInfo {
    let name = field("/proc/cpuinfo", "model name").unwrap_or_else(|| env::consts::ARCH.into());
    let mut info = DeviceInfo::from([
        ("device_name", InfoValue::Text(name)),
        ("architecture", InfoValue::Text(env::consts::ARCH.into())),
        ("threads", InfoValue::Number(rayon::current_num_threads() as u64)),
    ]);
    if let Some(bytes) = field("/proc/meminfo", "MemTotal").as_deref().and_then(bytes) {
        info.insert("memory_size", InfoValue::Number(bytes));
        // What Metal recommends is three quarters, too: the system and others need the rest.
        info.insert("max_recommended_working_set_size", InfoValue::Number(bytes / 4 * 3));
    }
    info
}

/// What stands behind the first `name :` of a file of lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(found, _)| found.trim() == name)?;
    Some(value.trim().to_owned())
}

/// The bytes of a number of `kB`, which are 1,024 bytes each.
fn bytes(size: &str) -> Option<u64> {
    size.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_units_of_1024_bytes() {
        assert_eq!(bytes("24606732 kB"), Some(25_197_293_568));
        assert_eq!(bytes("12 MB"), None);
    }
}
