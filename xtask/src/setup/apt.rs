//! Installing packages with apt-get.

use super::backports::{self, Backports, Source};
use super::component::MESA_DRIVERS;
use super::system::OsRelease;
use crate::error::{Context, Error, Result};
use crate::process;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// The file that adds the backports suite.
const BACKPORTS_FILE: &str = "/etc/apt/sources.list.d/mlx-vulkan-backports.sources";

/// The release whose own Mesa (22.3) is worth replacing: its backport (25.0) runs twice as fast and offers a
/// heap of the machine's memory where the old one stops at 2 GiB.
const RELEASE_WITH_OLD_MESA: &str = "bookworm";

/// The command that installs `packages`, for a person to type.
pub(crate) fn command_line(packages: &[&str]) -> String {
    format!(
        "sudo apt-get update && sudo apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    )
}

/// Installs `packages`, Mesa from the backports where that is better.
///
/// # Errors
/// When neither root nor a sudo that asks nothing is at hand (the message says what
/// to type), or when apt-get fails.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let Some(root) = Privilege::find() else {
        return Err(Error::new(format!(
            "may not install packages; run: {}",
            command_line(packages)
        )));
    };
    let (mesa, others): (Vec<_>, Vec<_>) =
        packages.iter().copied().partition(|name| *name == MESA_DRIVERS);
    if !others.is_empty() {
        root.install_with_update(&others)?;
    }
    if mesa.is_empty() { Ok(()) } else { install_mesa(&root) }
}

fn install_mesa(root: &Privilege) -> Result<()> {
    let release = OsRelease::read();
    if release.id != "debian" || release.codename != RELEASE_WITH_OLD_MESA {
        return root.install_with_update(&[MESA_DRIVERS]);
    }
    let suite = backports::suite(&release.codename);
    match add_backports(root, &release.codename)
        .and_then(|()| root.install_from(&suite, &[MESA_DRIVERS]))
    {
        Ok(()) => Ok(()),
        Err(why) => {
            eprintln!(
                "xtask: note: no Mesa from {suite} ({why}); taking the older one, at half the speed"
            );
            root.install_with_update(&[MESA_DRIVERS])
        }
    }
}

/// Makes the backports suite known to apt; a suite that the place turns out not to serve is taken out again,
/// because it would make every later `apt-get update` fail.
fn add_backports(root: &Privilege, codename: &str) -> Result<()> {
    match backports::of_machine(codename) {
        Backports::Unknown => Err(Error::new(format!("no source list names {codename}"))),
        Backports::Listed => root.update(&[]),
        Backports::Derived(source) => {
            write_backports(root, &source, &backports::suite(codename))?;
            let updated = root.update(&only_backports());
            updated.inspect_err(|_| root.remove(BACKPORTS_FILE))
        }
    }
}

fn write_backports(root: &Privilege, source: &Source, suite: &str) -> Result<()> {
    root.write(BACKPORTS_FILE, &source.stanza(suite))
}

/// Options that make `apt-get update` read one file and keep the other lists.
fn only_backports() -> [String; 6] {
    let options = [
        format!("Dir::Etc::sourcelist={BACKPORTS_FILE}"),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        "APT::Get::List-Cleanup=0".to_owned(),
    ];
    let [list, parts, cleanup] = options;
    ["-o".to_owned(), list, "-o".to_owned(), parts, "-o".to_owned(), cleanup]
}

/// How this process may change the system.
enum Privilege {
    Root,
    Sudo,
}

impl Privilege {
    /// Root, or a sudo that asks for no password: a task must not stop to wait for one.
    fn find() -> Option<Self> {
        let id = process::capture(Command::new("id").arg("-u")).ok()?;
        if id.trim_ascii() == b"0" {
            return Some(Self::Root);
        }
        process::succeeds(Command::new("sudo").args(["-n", "true"])).then_some(Self::Sudo)
    }

    fn command(&self, program: &str) -> Command {
        match self {
            Self::Root => Command::new(program),
            Self::Sudo => {
                let mut command = Command::new("sudo");
                command.args(["-n", program]);
                command
            }
        }
    }

    /// apt-get that asks no question and waits for another one to finish.
    fn apt_get(&self) -> Command {
        let mut command = self.command("env");
        command.args([
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            "-q",
            "-o",
            "DPkg::Lock::Timeout=300",
        ]);
        command.stdin(Stdio::null());
        command
    }

    fn update(&self, options: &[String]) -> Result<()> {
        // Without this a list that cannot be fetched is a warning, and the old packages are silently taken.
        process::run(
            self.apt_get().arg("update").args(options).args(["-o", "APT::Update::Error-Mode=any"]),
        )
    }

    fn install(&self, options: &[&str], packages: &[&str]) -> Result<()> {
        let mut command = self.apt_get();
        command.args(["install", "-y", "--no-install-recommends"]).args(options).args(packages);
        process::run(&mut command)
    }

    fn install_from(&self, suite: &str, packages: &[&str]) -> Result<()> {
        self.install(&["-t", suite], packages)
    }

    /// Installs; where that fails, or no list was ever fetched, the lists are fetched first.
    fn install_with_update(&self, packages: &[&str]) -> Result<()> {
        if has_lists() && self.install(&[], packages).is_ok() {
            return Ok(());
        }
        process::run(self.apt_get().arg("update"))?;
        self.install(&[], packages)
    }

    fn write(&self, path: &str, text: &str) -> Result<()> {
        let mut tee = self.command("tee");
        tee.arg(path).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = tee.spawn().context(|| format!("cannot write {path}"))?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(text.as_bytes()).context(|| format!("cannot write {path}"))?;
        }
        let status = child.wait().context(|| format!("cannot write {path}"))?;
        process::check(&tee, status)
    }

    fn remove(&self, path: &str) {
        // Best effort: this tidies up after an error that is reported already.
        let _ = process::run(self.command("rm").args(["-f", path]));
    }
}

fn has_lists() -> bool {
    let files = fs::read_dir("/var/lib/apt/lists").into_iter().flatten().flatten();
    files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .any(|name| name.contains("_Packages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_can_be_pasted() {
        let line = command_line(&["libvulkan1", "glslc"]);
        assert!(
            line.ends_with("apt-get install -y --no-install-recommends libvulkan1 glslc"),
            "{line}"
        );
    }
}
