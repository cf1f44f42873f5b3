//! Tests that read the crate's own sources: what a file names lies in its own layer or in one below,
//! and every knob is read where something is decided.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use crate::runtime::config;

/// The layers from below, by the modules of the crate's root; modules that no layer names are above all
/// of them.
const LAYERS: [&[&str]; 3] = [&["runtime", "shaders"], &["kernels"], &["graph"]];

fn layer(module: Option<&String>) -> usize {
    let is_in = |layer: &&[&str]| module.is_some_and(|name| layer.contains(&name.as_str()));
    LAYERS.iter().position(is_in).unwrap_or(LAYERS.len())
}

/// Names, `::` and single characters of a source file without its comments.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for line in text.lines() {
        let mut rest = line.split("//").next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                _ if is_name(first) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            tokens.push(rest[..length].to_owned());
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// The paths that begin with `prefix` and go on at `tokens[*at]`, which may be a tree in braces.
fn paths(tokens: &[String], at: &mut usize, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token == text);
    let mut path = prefix.to_vec();
    loop {
        if is(*at, "{") {
            while !is(*at, "}") && *at < tokens.len() {
                *at += 1;
                if is(*at, "}") {
                    break;
                }
                paths(tokens, at, &path, found);
                // An alias.
                while !is(*at, ",") && !is(*at, "}") && *at < tokens.len() {
                    *at += 1;
                }
            }
            *at += 1;
            return;
        }
        match tokens.get(*at) {
            Some(name) if name.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                path.push(name.clone());
                *at += 1;
            }
            _ => break,
        }
        if !is(*at, "::") {
            break;
        }
        *at += 1;
    }
    found.push(path);
}

/// The paths from the crate's root that the module `own` names.
fn named(text: &str, own: &[String]) -> Vec<Vec<String>> {
    let tokens = tokens(text);
    // Modules within the file, with the braces that are open around them.
    let (mut inner, mut braces) = (Vec::new(), 0);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let starts_path = at == 0 || tokens[at - 1] != "::";
        match tokens[at].as_str() {
            "mod" if tokens.get(at + 2).is_some_and(|token| token == "{") => {
                inner.push((tokens[at + 1].clone(), braces));
                at += 2;
            }
            "{" => {
                braces += 1;
                at += 1;
            }
            "}" => {
                braces -= 1;
                inner.retain(|(_, around)| *around < braces);
                at += 1;
            }
            root @ ("crate" | "super")
                if starts_path && tokens.get(at + 1).is_some_and(|t| t == "::") =>
            {
                let mut module: Vec<String> = Vec::new();
                if root == "super" {
                    module.extend_from_slice(own);
                    module.extend(inner.iter().map(|(name, _)| name.clone()));
                }
                while tokens[at] == "super" || tokens[at] == "crate" {
                    module.pop();
                    at += 2;
                }
                paths(&tokens, &mut at, &module, &mut found);
            }
            _ => at += 1,
        }
    }
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Every file of the crate below `src`, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 90, "the sources were not found");
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        (file.strip_prefix(&root).unwrap().to_owned(), text)
    };
    files.into_iter().map(read).collect()
}

/// The module that a file is, as names from the crate's root.
fn module(file: &Path) -> Vec<String> {
    let names = file.with_extension("");
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name != "mod" && name != "lib").collect()
}

#[test]
fn each_layer_uses_only_those_below() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let own = module(&file);
        for path in named(&text, &own) {
            if layer(path.first()) > layer(own.first()) {
                wrong.push(format!("{} uses {}", file.display(), path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "a layer uses one above it:\n{}", wrong.join("\n"));
}

/// A circle among rooms, of which each uses some others.
fn circle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut left = uses.clone();
    // What uses nothing that is left is in no circle.
    while let Some(free) =
        left.iter().find(|(_, used)| used.is_empty()).map(|(room, _)| room.clone())
    {
        left.remove(&free);
        for used in left.values_mut() {
            used.remove(&free);
        }
    }
    let mut path = vec![left.keys().next()?.clone()];
    loop {
        let next = left[path.last()?].iter().next()?.clone();
        if let Some(first) = path.iter().position(|room| *room == next) {
            path.drain(..first);
            path.push(next);
            return Some(path);
        }
        path.push(next);
    }
}

/// The files and folders of a layer, with those that each uses.
fn rooms(layer: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in sources() {
        let own = module(&file);
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let [first, room, ..] = own.as_slice() else { continue };
        if first != layer {
            continue;
        }
        let used = uses.entry(room.clone()).or_default();
        let paths = named(text, &own).into_iter().filter(|path| path.len() > 1 && path[0] == layer);
        used.extend(paths.map(|path| path[1].clone()).filter(|other| other != room));
    }
    let known: BTreeSet<String> = uses.keys().cloned().collect();
    uses.values_mut().for_each(|used| used.retain(|room| known.contains(room)));
    uses
}

#[test]
fn the_rooms_of_a_layer_use_each_other_one_way() {
    let mut arrows = 0;
    for layer in ["runtime", "kernels", "graph"] {
        let rooms = rooms(layer);
        arrows += rooms.values().map(BTreeSet::len).sum::<usize>();
        let circle = circle(&rooms).map(|path| path.join(" uses "));
        assert_eq!(circle, None, "a circle in {layer}");
    }
    assert!(arrows > 100, "the rooms were not read");
}

#[test]
fn circles_are_found() {
    let rooms = |uses: &[(&str, &[&str])]| {
        let used = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        uses.iter().map(|(room, names)| ((*room).to_owned(), used(names))).collect()
    };
    assert_eq!(circle(&rooms(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
    let found = circle(&rooms(&[("a", &["b"]), ("b", &["c"]), ("c", &["d", "b"]), ("d", &[])]));
    assert_eq!(found.unwrap(), ["b", "c", "b"]);
}

#[test]
fn every_knob_is_read_where_something_is_decided() {
    let declared =
        ["runtime/config.rs", "runtime/config_table.rs", "runtime/observe.rs", "sources.rs"];
    let mut read = HashSet::new();
    for (file, text) in sources() {
        if declared.iter().any(|name| file == Path::new(name)) {
            continue;
        }
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let tokens = tokens(text);
        read.extend(tokens.windows(2).filter(|pair| pair[0] == ".").map(|pair| pair[1].clone()));
    }
    let idle: Vec<_> = config::FIELDS.iter().filter(|field| !read.contains(**field)).collect();
    assert!(idle.is_empty(), "knobs that change nothing: {idle:?}");
}

/// What decides gets a configuration, so that tests can try others than the process's.
#[test]
fn the_process_s_configuration_is_asked_for_by_its_roots_alone() {
    let asks = |text: &str| {
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        tokens(text).windows(3).any(|at| at == ["Config", "::", "get"])
    };
    let mut asking: Vec<_> =
        sources().into_iter().filter(|(_, text)| asks(text)).map(|(file, _)| file).collect();
    asking.sort_unstable();
    // Who opens devices, and who ends the process.
    assert_eq!(asking, [Path::new("backend.rs"), Path::new("runtime/machine.rs")]);
}

#[test]
fn paths_are_found_in_trees_in_expressions_and_from_within_modules() {
    let own = ["kernels".to_owned(), "norm".to_owned()];
    let text = "
        use crate::{graph::{self, fusion::Found as F}, runtime::stats,}; // crate::comment
        fn f() -> super::Ctx { crate::backend::open(0) }
        mod tests { use super::*; use super::super::copy; }
        use super::strided::Walk;
    ";
    let found: Vec<String> = named(text, &own).iter().map(|path| path.join("::")).collect();
    let wanted = [
        "graph::self",
        "graph::fusion::Found",
        "runtime::stats",
        "kernels::Ctx",
        "backend::open",
        "kernels::norm",
        "kernels::copy",
        "kernels::strided::Walk",
    ];
    assert_eq!(found, wanted);
    assert!(layer(Some(&"backend".to_owned())) > layer(Some(&"graph".to_owned())));
    assert!(layer(None) > layer(Some(&"kernels".to_owned())));
}
