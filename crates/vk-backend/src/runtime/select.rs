//! Which of the machine's Vulkan devices are used. A pure function of what the driver lists.

use crate::runtime::capabilities::DeviceKind;

/// What is known of a device before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Index in the driver's list.
    pub index: usize,
    /// Name.
    pub name: String,
    /// PCI vendor id.
    pub vendor_id: u32,
    /// PCI device id.
    pub device_id: u32,
    /// Kind.
    pub kind: DeviceKind,
    /// Bytes of device-local memory.
    pub memory: u64,
    /// What it lacks, if it cannot be used.
    pub lacks: Option<&'static str>,
}

/// The devices to use, best first, as indices in the driver's list.
///
/// `selector` (`MLX_VK_DEVICE`) picks one by index, by a part of its name, or by
/// `vendor:device` in hex; a software device is taken only then or when `allow_software`.
///
/// # Errors
/// A message when the selector fits no usable device.
pub(crate) fn choose(
    candidates: &[Candidate],
    selector: Option<&str>,
    allow_software: bool,
) -> Result<Vec<usize>, String> {
    if let Some(selector) = selector {
        return pick(candidates, selector).map(|i| vec![i]);
    }
    let usable =
        |c: &&Candidate| c.lacks.is_none() && (allow_software || c.kind != DeviceKind::Software);
    let mut chosen: Vec<&Candidate> = candidates.iter().filter(usable).collect();
    chosen.sort_by_key(|c| (rank(c.kind), std::cmp::Reverse(c.memory), c.index));
    Ok(chosen.into_iter().map(|c| c.index).collect())
}

/// Why there is no device `index` among the `used` ones: what is missing, and the remedy.
pub(crate) fn why_not(candidates: &[Candidate], used: usize, index: usize) -> String {
    if used > 0 {
        let (is, plural) = if used == 1 { ("is", "") } else { ("are", "s") };
        return format!(
            "there {is} {used} usable Vulkan device{plural}, counted from 0, not {index}"
        );
    }
    if candidates.is_empty() {
        return "no Vulkan driver found a device; install your GPU's driver, or \
                mesa-vulkan-drivers for a software one"
            .into();
    }
    let each: Vec<String> = candidates
        .iter()
        .map(|c| match c.lacks {
            Some(lack) => format!("{} lacks {lack}", c.name),
            None => format!("{} is a software device, which needs MLX_VK_ALLOW_SOFTWARE=1", c.name),
        })
        .collect();
    format!("no usable Vulkan device: {}", each.join("; "))
}

fn rank(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Discrete => 0,
        DeviceKind::Integrated => 1,
        DeviceKind::Virtual => 2,
        DeviceKind::Other => 3,
        DeviceKind::Software => 4,
    }
}

fn pick(candidates: &[Candidate], selector: &str) -> Result<usize, String> {
    let wanted = selector.trim().to_ascii_lowercase();
    let ids = |c: &Candidate| format!("{:x}:{:x}", c.vendor_id, c.device_id);
    let normal = wanted.split_once(':').and_then(|(v, d)| {
        let parse = |t: &str| u32::from_str_radix(t.trim_start_matches("0x"), 16).ok();
        Some(format!("{:x}:{:x}", parse(v)?, parse(d)?))
    });
    let found = match wanted.parse::<usize>() {
        Ok(index) => candidates.iter().find(|c| c.index == index),
        Err(_) => candidates.iter().find(|c| {
            normal.as_ref() == Some(&ids(c)) || c.name.to_ascii_lowercase().contains(&wanted)
        }),
    };
    let list: Vec<String> =
        candidates.iter().map(|c| format!("{}: {} ({})", c.index, c.name, ids(c))).collect();
    let Some(found) = found else {
        return Err(format!(
            "MLX_VK_DEVICE={selector} fits none of the devices [{}]",
            list.join(", ")
        ));
    };
    match found.lacks {
        Some(lack) => Err(format!("MLX_VK_DEVICE={selector}: {} lacks {lack}", found.name)),
        None => Ok(found.index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeviceKind::*;

    fn machine() -> Vec<Candidate> {
        let make = |index, name: &str, vendor_id, kind, memory| Candidate {
            index,
            name: name.into(),
            vendor_id,
            device_id: 0x10 + index as u32,
            kind,
            memory,
            lacks: None,
        };
        vec![
            make(0, "llvmpipe (LLVM 15)", 0x10005, Software, 64),
            make(1, "Radeon 780M", 0x1002, Integrated, 16),
            make(2, "NVIDIA H200", 0x10de, Discrete, 140),
            make(3, "NVIDIA RTX", 0x10de, Discrete, 24),
        ]
    }

    #[test]
    fn hardware_comes_first_and_software_only_when_allowed() {
        assert_eq!(choose(&machine(), None, false), Ok(vec![2, 3, 1]));
        assert_eq!(choose(&machine(), None, true), Ok(vec![2, 3, 1, 0]));
        assert_eq!(choose(&machine()[..1], None, false), Ok(vec![]));
    }

    #[test]
    fn selects_by_index_name_and_ids() {
        for (selector, want) in
            [("0", 0), ("radeon", 1), ("10de:13", 3), ("0x10DE:0x12", 2), ("LLVMPIPE", 0)]
        {
            assert_eq!(choose(&machine(), Some(selector), false), Ok(vec![want]), "{selector}");
        }
        assert!(choose(&machine(), Some("9"), false).unwrap_err().contains("fits none"));
    }

    #[test]
    fn reasons_name_devices_and_remedies() {
        let mut machine = machine();
        machine.truncate(2);
        machine[1].lacks = Some("Vulkan 1.2");
        let why = why_not(&machine, 0, 0);
        assert!(why.contains("llvmpipe (LLVM 15) is a software device"), "{why}");
        assert!(why.contains("MLX_VK_ALLOW_SOFTWARE=1; Radeon 780M lacks Vulkan 1.2"), "{why}");
        assert!(why_not(&[], 0, 0).contains("install"));
        assert!(why_not(&machine, 1, 3).contains("1 usable Vulkan device, counted from 0, not 3"));
    }

    #[test]
    fn unusable_devices_are_left_out_and_named_when_asked_for() {
        let mut machine = machine();
        machine[2].lacks = Some("64-bit integers in shaders");
        assert_eq!(choose(&machine, None, false), Ok(vec![3, 1]));
        assert!(choose(&machine, Some("2"), false).unwrap_err().contains("64-bit integers"));
    }
}
