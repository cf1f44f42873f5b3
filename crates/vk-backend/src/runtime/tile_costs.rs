//! What tiles of products take on a device: a table measured on one GPU, or the device's own, stored
//! beside its pipeline cache.

use std::path::PathBuf;

use vulkano::device::Device;

use crate::runtime::{config::Config, disk_cache};

/// What tiles of products on cooperative matrices take compared with each other, per 64 of k, when each
/// compute unit has several one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileCosts([u32; 4]);

impl Default for TileCosts {
    /// Those of an H200.
    fn default() -> Self {
        TileCosts([221, 181, 73, 60])
    }
}

impl TileCosts {
    /// Measured ones: none if a number makes no sense.
    pub fn new(costs: [u32; 4]) -> Option<TileCosts> {
        costs.iter().all(|c| (1..1 << 24).contains(c)).then_some(TileCosts(costs))
    }

    /// The numbers, of the widest tile first.
    pub fn numbers(&self) -> [u32; 4] {
        self.0
    }

    /// The measured costs of a device, if it was tuned and the file is whole.
    pub(crate) fn load(device: &Device, config: &Config) -> Option<TileCosts> {
        if !config.enable_tuned_tiles {
            return None;
        }
        decode(&disk_cache::load(&file(device, config)?)?)
    }

    /// Stores them for later processes, where there is a folder for that.
    pub(crate) fn save(&self, device: &Device, config: &Config) {
        if let Some(file) = file(device, config) {
            disk_cache::save(&file, &encode(self));
        }
    }
}

fn file(device: &Device, config: &Config) -> Option<PathBuf> {
    Some(disk_cache::path(device, config)?.with_extension("tiles"))
}

fn encode(costs: &TileCosts) -> Vec<u8> {
    costs.numbers().iter().flat_map(|cost| cost.to_le_bytes()).collect()
}

fn decode(data: &[u8]) -> Option<TileCosts> {
    let (words, rest) = data.as_chunks::<4>();
    let numbers: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
    if rest.is_empty() { TileCosts::new(numbers.try_into().ok()?) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_contents_are_ignored() {
        let costs = TileCosts::new([7, 8, 9, 10]).unwrap();
        let data = encode(&costs);
        assert_eq!(decode(&data), Some(costs));
        assert_eq!(decode(&data[1..]), None);
        assert_eq!(decode(&data[..12]), None);
        assert_eq!(decode(&[0; 16]), None);
        assert_eq!(decode(&[0xff; 16]), None);
    }
}
