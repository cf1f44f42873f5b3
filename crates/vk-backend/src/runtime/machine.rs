//! The Vulkan devices of the machine, and those in use.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use mlx_vulkan_core::{Error, Result};
use once_cell::sync::{Lazy, OnceCell};
use vulkano::device::physical::PhysicalDevice;

use crate::runtime::{
    config::Config,
    device::DeviceState,
    raw::{device, ending::InDriver, instance},
    select::{self, Candidate},
};

/// Found when first asked for, with the process's configuration.
static MACHINE: Lazy<Result<Machine>> = Lazy::new(|| Machine::find(Config::get()));

struct Machine {
    config: &'static Config,
    listed: Vec<Candidate>,
    /// The devices in use, best first.
    used: Vec<Slot>,
}

/// A device in use: opened when first needed.
struct Slot {
    physical: Arc<PhysicalDevice>,
    opened: OnceCell<Arc<DeviceState>>,
    streams: AtomicUsize,
}

impl Machine {
    fn find(config: &'static Config) -> Result<Machine> {
        let _in_driver = InDriver::new();
        let devices = instance::physical_devices(config)?;
        let listed: Vec<Candidate> =
            devices.iter().enumerate().map(|(i, d)| candidate(i, d)).collect();
        let chosen = select::choose(&listed, config.device.as_deref(), config.allow_software)
            .map_err(|message| Error::device("vulkan", message))?;
        let used = chosen
            .into_iter()
            .map(|i| Slot {
                physical: devices[i].clone(),
                opened: OnceCell::new(),
                streams: AtomicUsize::new(0),
            })
            .collect();
        Ok(Machine { config, listed, used })
    }

    fn slot(&self, index: u32) -> Result<&Slot> {
        let slot = self.used.get(index as usize);
        slot.ok_or_else(|| Error::device("vulkan", format!("there is no device {index}")))
    }
}

fn candidate(index: usize, device: &PhysicalDevice) -> Candidate {
    let p = device.properties();
    let heaps = &device.memory_properties().memory_heaps;
    Candidate {
        index,
        name: p.device_name.clone(),
        vendor_id: p.vendor_id,
        device_id: p.device_id,
        kind: instance::kind(device),
        memory: heaps.iter().map(|h| h.size).max().unwrap_or_default(),
        lacks: device::unusable(device),
    }
}

fn machine() -> Result<&'static Machine> {
    MACHINE.as_ref().map_err(Clone::clone)
}

/// Device `index` of those in use.
pub(crate) fn open(index: u32) -> Result<&'static Arc<DeviceState>> {
    let machine = machine()?;
    let slot = machine.slot(index)?;
    slot.opened.get_or_try_init(|| {
        let _in_driver = InDriver::new();
        DeviceState::new(&slot.physical, machine.config)
    })
}

/// Counts one more stream of device `index`: how many it had before.
pub(crate) fn count_stream(index: u32) -> Result<usize> {
    Ok(machine()?.slot(index)?.streams.fetch_add(1, Relaxed))
}

/// Number of devices in use.
pub(crate) fn count() -> usize {
    MACHINE.as_ref().map_or(0, |m| m.used.len())
}

/// Why there is no device `index`.
pub(crate) fn why_not(index: u32) -> String {
    match MACHINE.as_ref() {
        Err(Error::Device { message, .. }) => message.clone(),
        Err(error) => error.to_string(),
        Ok(machine) => select::why_not(&machine.listed, machine.used.len(), index as usize),
    }
}

/// Every Vulkan device of the machine, usable or not, in the driver's order.
///
/// # Errors
/// When there is no Vulkan loader or driver; the message says what to install.
pub(crate) fn devices() -> Result<Vec<Candidate>> {
    machine().map(|machine| machine.listed.clone())
}

/// The devices that are open.
pub(crate) fn opened() -> impl Iterator<Item = &'static Arc<DeviceState>> {
    let machine = Lazy::get(&MACHINE).and_then(|m| m.as_ref().ok());
    machine.into_iter().flat_map(|m| &m.used).filter_map(|slot| slot.opened.get())
}
