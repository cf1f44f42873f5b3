//! Which operating system this is.

use std::fs;

/// The systems whose package names are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    /// Debian, Ubuntu and their descendants: apt-get.
    Debian,
    /// Fedora, RHEL and their descendants: dnf.
    Fedora,
    /// Arch and its descendants: pacman.
    Arch,
    /// macOS: MoltenVK through Homebrew.
    MacOs,
    /// Windows: the Vulkan SDK.
    Windows,
    /// Something else; the message says what is needed, not what it is called.
    Other,
}

/// What `/etc/os-release` tells.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct OsRelease {
    /// `ID`, such as `debian`.
    pub(crate) id: String,
    /// `ID_LIKE`: what it descends from.
    pub(crate) like: Vec<String>,
    /// `VERSION_CODENAME`, such as `bookworm`.
    pub(crate) codename: String,
}

impl OsRelease {
    /// Reads the machine's own file; empty where there is none.
    pub(crate) fn read() -> Self {
        Self::parse(&fs::read_to_string("/etc/os-release").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
        };
        let like = field("ID_LIKE").split_whitespace().map(str::to_owned).collect();
        Self { id: field("ID"), like, codename: field("VERSION_CODENAME") }
    }

    fn is(&self, id: &str) -> bool {
        self.id == id || self.like.iter().any(|like| like == id)
    }
}

/// The system xtask runs on.
pub(crate) fn current() -> System {
    match std::env::consts::OS {
        "macos" => System::MacOs,
        "windows" => System::Windows,
        _ => of_release(&OsRelease::read()),
    }
}

fn of_release(release: &OsRelease) -> System {
    let known = [
        (System::Debian, ["debian", "ubuntu"]),
        (System::Fedora, ["fedora", "rhel"]),
        (System::Arch, ["arch", "archlinux"]),
    ];
    let found = known.into_iter().find(|(_, ids)| ids.iter().any(|id| release.is(id)));
    found.map_or(System::Other, |(system, _)| system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_is_read_with_and_without_quotes() {
        let release = OsRelease::parse(
            "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=xia\n",
        );
        assert_eq!(release.id, "linuxmint");
        assert_eq!(release.like, ["ubuntu", "debian"]);
        assert_eq!(release.codename, "xia");
    }

    #[test]
    fn descendants_count_as_their_ancestor() {
        let of = |text| of_release(&OsRelease::parse(text));
        assert_eq!(of("ID=debian"), System::Debian);
        assert_eq!(of("ID=pop\nID_LIKE=\"ubuntu debian\""), System::Debian);
        assert_eq!(of("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\""), System::Fedora);
        assert_eq!(of("ID=manjaro\nID_LIKE=arch"), System::Arch);
        assert_eq!(of("ID=nixos"), System::Other);
    }
}
