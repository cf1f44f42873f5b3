//! `cargo xtask setup`: finds out which system packages are missing and installs them where it may.

mod apt;
mod backports;
pub(crate) mod component;
pub(crate) mod probe;
mod system;

use crate::error::{Error, Result};
use clap::ValueEnum;
use component::{COMPONENTS, Component, Purpose};
use system::System;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// What the machine is wanted for (everything by default)
    purposes: Vec<Purpose>,
}

/// `cargo xtask setup [PURPOSE…]`.
pub(crate) fn main(args: &Args) -> Result<()> {
    let all = args.purposes.is_empty();
    ensure(if all { Purpose::value_variants() } else { &args.purposes })?;
    let done =
        if probe::has_hardware_vulkan() { "a hardware driver" } else { "software drivers only" };
    println!("setup: complete; Vulkan has {done}");
    Ok(())
}

/// Makes sure that everything for `purposes` is installed.
///
/// # Errors
/// When something is missing that may not or cannot be installed; the message names the packages.
pub(crate) fn ensure(purposes: &[Purpose]) -> Result<()> {
    if let Some(note) = purposes.contains(&Purpose::Run).then(probe::idle_gpu).flatten() {
        eprintln!("xtask: note: {note}");
    }
    let missing = missing(purposes);
    if missing.is_empty() {
        return Ok(());
    }
    for component in &missing {
        eprintln!("xtask: missing: {}", component.name);
    }
    match system::current() {
        System::Debian => apt::install(&packages(&missing, System::Debian))?,
        other => return Err(Error::new(advice(&missing, other))),
    }
    verify(&missing)
}

fn missing(purposes: &[Purpose]) -> Vec<&'static Component> {
    let wanted = COMPONENTS.iter().filter(|component| purposes.contains(&component.purpose));
    wanted.filter(|component| !(component.present)()).collect()
}

fn packages(components: &[&'static Component], system: System) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for package in components.iter().flat_map(|component| component.packages(system)) {
        if !packages.contains(package) {
            packages.push(*package);
        }
    }
    packages
}

/// A package may install and still not bring what was looked for; better said here than by a linker later.
fn verify(installed: &[&'static Component]) -> Result<()> {
    match installed.iter().find(|component| !(component.present)()) {
        None => Ok(()),
        Some(component) => {
            let packages = component.debian.join(", ");
            Err(Error::new(format!(
                "{} is still missing after installing {packages}",
                component.name
            )))
        }
    }
}

fn advice(components: &[&'static Component], system: System) -> String {
    let packages = packages(components, system).join(" ");
    match system {
        System::Debian => apt::command_line(&packages.split(' ').collect::<Vec<_>>()),
        System::Fedora => format!("run: sudo dnf install {packages}"),
        System::Arch => format!("run: sudo pacman -S --needed {packages}"),
        System::MacOs => format!("run: brew install {packages}"),
        System::Windows => format!("install (with winget or from the vendor): {packages}"),
        System::Other => {
            format!("install what your system calls these packages of Debian: {packages}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_has_packages_everywhere() {
        let systems =
            [System::Debian, System::Fedora, System::Arch, System::MacOs, System::Windows];
        for component in &COMPONENTS {
            assert!(
                systems.iter().all(|system| !component.packages(*system).is_empty()),
                "{}",
                component.name
            );
        }
    }

    #[test]
    fn advice_names_each_package_once() {
        let all: Vec<_> = COMPONENTS.iter().collect();
        let text = advice(&all, System::Fedora);
        assert!(text.starts_with("run: sudo dnf install "));
        assert_eq!(text.matches(" spirv-tools ").count(), 1, "{text}");
    }
}
