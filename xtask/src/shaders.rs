//! `cargo xtask shaders`: from the list of kernels to the committed SPIR-V, and from that to what
//! the host knows of it.

mod embedded;
mod glslc;
mod includes;
mod kernels;
mod layouts;
mod numbers;
mod reflect;
mod shaderc;

use crate::error::{Context, Error, Result};
use crate::paths;
use crate::setup::{self, component::Purpose};
use glslc::Glslc;
use kernels::Kernel;
use mlx_fetch::digest;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the kernels are declared, relative to the root.
const REGISTRY: &str = "crates/vk-backend/src/shaders/registry.rs";

/// What the host knows of the kernels' interfaces, relative to the root.
const LAYOUTS: &str = "crates/vk-backend/src/shaders/layouts.rs";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fail if the sources do not compile to what is committed, and write nothing
    #[arg(long)]
    pub(crate) check: bool,
}

/// `cargo xtask shaders [--check]`.
pub(crate) fn main(args: &Args) -> Result<()> {
    setup::ensure(&[Purpose::Shaders])?;
    let workshop = Workshop::open()?;
    if args.check { workshop.check() } else { workshop.write() }
}

/// Everything the task works with.
struct Workshop {
    kernels: Vec<Kernel>,
    glslc: Glslc,
    /// The committed modules.
    committed: PathBuf,
    /// What this task keeps between runs: a key for every module that is up to date.
    keys: PathBuf,
}

impl Workshop {
    fn open() -> Result<Self> {
        let root = paths::root();
        let text = fs::read_to_string(root.join(REGISTRY))
            .context(|| format!("cannot read {REGISTRY}"))?;
        let shaders = root.join("shaders");
        let keys = paths::target().join("shaders");
        fs::create_dir_all(&keys).context(|| format!("cannot create {}", keys.display()))?;
        Ok(Self {
            kernels: kernels::parse(REGISTRY, &text)?,
            glslc: Glslc::new(&shaders)?,
            committed: shaders.join("spv"),
            keys,
        })
    }

    /// Compiles what is out of date and removes what no kernel owns any more.
    fn write(&self) -> Result<()> {
        fs::create_dir_all(&self.committed)
            .context(|| format!("cannot create {}", paths::shown(&self.committed)))?;
        let written = in_parallel(&self.kernels, |kernel| self.write_one(kernel))?;
        let written = written.into_iter().filter(|written| *written).count();
        let stale = self.stale()?;
        for path in &stale {
            fs::remove_file(path).context(|| format!("cannot remove {}", paths::shown(path)))?;
        }
        let layouts = self.layouts()?;
        let path = paths::root().join(LAYOUTS);
        let changed = fs::read_to_string(&path).unwrap_or_default() != layouts;
        if changed {
            write_whole(&path, layouts.as_bytes())?;
        }
        println!(
            "shaders: {} kernels, {written} written, {} removed; {LAYOUTS} {}",
            self.kernels.len(),
            stale.len(),
            if changed { "written" } else { "unchanged" }
        );
        Ok(())
    }

    /// The Rust text of what the committed modules take from the host.
    fn layouts(&self) -> Result<String> {
        let interfaces = in_parallel(&self.kernels, |kernel| {
            let path = self.module_path(&kernel.name);
            let module =
                fs::read(&path).context(|| format!("cannot read {}", paths::shown(&path)))?;
            reflect::interface(&module)
        })?;
        let mut numbers = BTreeMap::new();
        for kernel in &self.kernels {
            for (path, text) in self.glslc.texts(kernel)? {
                let found = numbers::of(&path, &text)?;
                if !found.is_empty() {
                    numbers.insert(path, found);
                }
            }
        }
        layouts::text(&layouts::sources(&self.kernels, interfaces, numbers)?)
    }

    /// Compiles a kernel unless its module is up to date; tells whether the module changed.
    fn write_one(&self, kernel: &Kernel) -> Result<bool> {
        if kernel.committed {
            return self.write_committed(kernel);
        }
        let path = self.module_path(&kernel.name);
        let committed = fs::read(&path).unwrap_or_default();
        let fingerprint = self.glslc.fingerprint(kernel)?;
        let key_path = self.keys.join(format!("{}.key", kernel.name));
        if fs::read_to_string(&key_path).is_ok_and(|known| known == key(&fingerprint, &committed)) {
            return Ok(false);
        }
        let module = self.compile(kernel)?;
        // An unchanged file keeps its time, so that nothing that embeds it is built again.
        if module != committed {
            write_whole(&path, &module)?;
        }
        write_whole(&key_path, key(&fingerprint, &module).as_bytes())?;
        Ok(module != committed)
    }

    /// The same for a kernel that only a newer glslc can compile: what it was compiled from
    /// and by is committed beside it, so that a machine without that compiler still knows
    /// whether the module is up to date.
    fn write_committed(&self, kernel: &Kernel) -> Result<bool> {
        let digest = self.glslc.source_digest(kernel)?;
        let path = self.module_path(&kernel.name);
        let record = fs::read_to_string(self.record_path(kernel)).unwrap_or_default();
        if path.is_file() && record.lines().next() == Some(digest.as_str()) {
            return Ok(false);
        }
        let module = self.compile(kernel)?;
        write_whole(&path, &module)?;
        let record = format!("{digest}\n{}", self.glslc.newer_version()?);
        write_whole(&self.record_path(kernel), record.as_bytes())?;
        Ok(true)
    }

    /// Whether a committed kernel's module belongs to its sources, and is what they compile to
    /// where the very compiler is at hand.
    fn is_current(&self, kernel: &Kernel) -> Result<bool> {
        let record = fs::read_to_string(self.record_path(kernel)).unwrap_or_default();
        let (digest, version) = record.split_once('\n').unwrap_or_default();
        let same_sources = digest == self.glslc.source_digest(kernel)?;
        let same_compiler = self.glslc.newer_version().is_ok_and(|found| found == version);
        match same_sources && same_compiler {
            true => Ok(self.is_committed(&kernel.name, &self.compile(kernel)?)),
            false => Ok(same_sources && self.module_path(&kernel.name).is_file()),
        }
    }

    /// Compares the committed files with what the sources compile to. For all that `shader!` embeds it does
    /// the compiling, so that nothing is compiled twice.
    fn check(&self) -> Result<()> {
        let (ours, plain): (Vec<_>, Vec<_>) =
            self.kernels.iter().cloned().partition(|kernel| kernel.committed);
        let current = in_parallel(&ours, |kernel| self.is_current(kernel))?;
        let outdated = ours.iter().zip(current).filter(|(_, current)| !current);
        let outdated = outdated.map(|(kernel, _)| paths::shown(&self.module_path(&kernel.name)));
        let stale = self.stale()?.into_iter().map(|path| paths::shown(&path));
        let wrong: Vec<_> = outdated.chain(stale).collect();
        if !wrong.is_empty() {
            let files = wrong.join(", ");
            return Err(Error::new(format!(
                "not what the sources compile to (run `cargo xtask shaders`): {files}"
            )));
        }
        let committed = in_parallel(&plain, |kernel| self.committed_module(kernel))?;
        let layouts = fs::read_to_string(paths::root().join(LAYOUTS)).unwrap_or_default();
        if layouts != self.layouts()? {
            return Err(Error::new(format!(
                "{LAYOUTS} is not what the modules say (run `cargo xtask shaders`)"
            )));
        }
        setup::ensure(&[Purpose::ShaderMacros])?;
        embedded::check(&committed)?;
        println!(
            "shaders: {} kernels are what is committed and what shader! embeds",
            self.kernels.len()
        );
        Ok(())
    }

    /// A module that `shader!` would compile, as it is committed, validated.
    fn committed_module(&self, kernel: &Kernel) -> Result<embedded::Module> {
        let path = self.module_path(&kernel.name);
        glslc::validate(kernel, &path)?;
        let module = fs::read(&path).context(|| format!("cannot read {}", paths::shown(&path)))?;
        Ok((kernel.name.clone(), module))
    }

    fn compile(&self, kernel: &Kernel) -> Result<Vec<u8>> {
        let scratch = self.keys.join(format!("{}-{}.tmp", kernel.name, std::process::id()));
        self.glslc.compile(kernel, &scratch)
    }

    fn is_committed(&self, name: &str, module: &[u8]) -> bool {
        fs::read(self.module_path(name)).is_ok_and(|committed| committed == module)
    }

    fn module_path(&self, name: &str) -> PathBuf {
        self.committed.join(format!("{name}.spv"))
    }

    /// What a committed kernel's module was made from: a digest of the sources, and the compiler's version.
    fn record_path(&self, kernel: &Kernel) -> PathBuf {
        self.committed.join(format!("{}.source", kernel.name))
    }

    /// Committed files that belong to no kernel.
    fn stale(&self) -> Result<Vec<PathBuf>> {
        let owned: BTreeSet<_> =
            self.kernels.iter().map(|kernel| self.module_path(&kernel.name)).collect();
        let Ok(entries) = fs::read_dir(&self.committed) else {
            return Ok(Vec::new());
        };
        let files = entries.flatten().map(|entry| entry.path());
        let modules =
            files.filter(|path| path.extension().is_some_and(|extension| extension == "spv"));
        let stale: BTreeSet<_> = modules.filter(|path| !owned.contains(path)).collect();
        Ok(stale.into_iter().collect())
    }
}

/// What is remembered of a module that is up to date: what went in and what came out.
fn key(fingerprint: &str, module: &[u8]) -> String {
    format!("{fingerprint} {}\n", digest::of_bytes(module))
}

/// Replaces a file at once, so that a build that runs meanwhile never sees half of it.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_extension(format!("part{}", std::process::id()));
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    written.context(|| format!("cannot write {}", paths::shown(path)))
}

/// Runs `work` on every kernel over all cores; the results come in the order of the list.
///
/// # Errors
/// With the names of the kernels that failed, after all were tried.
fn in_parallel<T: Send>(
    kernels: &[Kernel],
    work: impl Fn(&Kernel) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let results: Vec<Mutex<Option<Result<T>>>> = kernels.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some((kernel, slot)) = take(kernels, &results, &next) {
            // A compiler's complaint is many lines long: shown as it is, and named in one line at the end.
            let result = work(kernel)
                .inspect_err(|error| eprintln!("{} ({}):\n{error:#}", kernel.name, kernel.source));
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(worker)));
    });
    collect(kernels, results)
}

fn take<'a, S>(
    kernels: &'a [Kernel],
    slots: &'a [S],
    next: &AtomicUsize,
) -> Option<(&'a Kernel, &'a S)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    kernels.get(index).zip(slots.get(index))
}

fn collect<T>(kernels: &[Kernel], results: Vec<Mutex<Option<Result<T>>>>) -> Result<Vec<T>> {
    let mut done = Vec::new();
    let mut failed = Vec::new();
    for (kernel, slot) in kernels.iter().zip(results) {
        match slot.into_inner() {
            Ok(Some(Ok(result))) => done.push(result),
            _ => failed.push(kernel.name.as_str()),
        }
    }
    match failed.is_empty() {
        true => Ok(done),
        false => Err(Error::new(format!(
            "{} of {} kernels failed: {}",
            failed.len(),
            kernels.len(),
            failed.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(names: &[&str]) -> Vec<Kernel> {
        let kernel = |name: &&str| Kernel {
            name: (*name).to_owned(),
            source: String::new(),
            defines: Vec::new(),
            committed: false,
        };
        names.iter().map(kernel).collect()
    }

    #[test]
    fn results_come_in_the_order_of_the_list() {
        let kernels = kernels(&["a", "b", "c", "d", "e"]);
        let names = in_parallel(&kernels, |kernel| Ok(kernel.name.clone())).unwrap();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn every_failure_is_named() {
        let kernels = kernels(&["a", "b", "c"]);
        let only_b = |kernel: &Kernel| {
            if kernel.name == "b" { Ok(()) } else { Err(Error::new("no")) }
        };
        let error = in_parallel(&kernels, only_b).unwrap_err();
        assert_eq!(error.to_string(), "2 of 3 kernels failed: a, c");
    }
}
