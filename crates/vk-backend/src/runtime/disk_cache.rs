//! The driver's pipeline cache on disk: one file per device and driver, written atomically,
//! ignored when it is damaged or another's.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use vulkano::device::Device;

use crate::runtime::config::Config;

const MAGIC: &[u8; 8] = b"MLXVKPC1";
const HEADER: usize = MAGIC.len() + 8;

/// The file for this device and driver; `None` when caching is off or there is no home.
pub(crate) fn path(device: &Device, config: &Config) -> Option<PathBuf> {
    let folder = folder(config)?;
    let p = device.physical_device().properties();
    let mut name = format!("{:04x}-{:04x}-{:08x}", p.vendor_id, p.device_id, p.driver_version);
    for uuid in [Some(p.pipeline_cache_uuid), p.device_uuid].into_iter().flatten() {
        name += "-";
        uuid.iter().for_each(|byte| name += &format!("{byte:02x}"));
    }
    Some(folder.join(name + ".bin"))
}

fn folder(config: &Config) -> Option<PathBuf> {
    match config.pipeline_cache.as_deref() {
        Some("off" | "0") => None,
        Some(folder) => Some(folder.into()),
        None => {
            let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let base =
                base.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
            Some(base.join("mlx-vulkan"))
        }
    }
}

/// The data that [`save`] wrote, if the file is whole.
pub(crate) fn load(file: &Path) -> Option<Vec<u8>> {
    decode(&std::fs::read(file).ok()?)
}

/// Writes `data` beside the file and renames it, so that readers see all or nothing. Failing only
/// costs the next process time.
pub(crate) fn save(file: &Path, data: &[u8]) {
    if let Err(error) = try_save(file, data) {
        tracing::debug!("pipeline cache {} not saved: {error}", file.display());
    }
}

fn try_save(file: &Path, data: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
    let written = std::fs::File::create(&temporary).and_then(|mut f| f.write_all(&encode(data)));
    let renamed = written.and_then(|()| std::fs::rename(&temporary, file));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    renamed
}

fn encode(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + data.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&checksum(data).to_le_bytes());
    out.extend_from_slice(data);
    out
}

fn decode(file: &[u8]) -> Option<Vec<u8>> {
    let (header, data) = file.split_at_checked(HEADER)?;
    let (magic, sum) = header.split_at(MAGIC.len());
    (magic == MAGIC && sum == checksum(data).to_le_bytes()).then(|| data.to_vec())
}

/// FNV-1a, 64 bits.
fn checksum(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_ignored() {
        let mut file = encode(b"pipelines");
        assert_eq!(decode(&file).as_deref(), Some(&b"pipelines"[..]));
        assert_eq!(decode(&file[..file.len() - 1]), None);
        assert_eq!(decode(&file[..5]), None);
        *file.last_mut().unwrap() ^= 1;
        assert_eq!(decode(&file), None);
        assert_eq!(decode(b""), None);
    }
}
