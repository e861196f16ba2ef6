//! No modules of one folder import each other in a circle, in any crate: an order stands in every folder, as the layers do in the
//! crate. Where the order says what the architecture is, it is written down here. `tests/test_python_layers.py` tests the same for the
//! Python package.
//!
//! Every path that begins with `crate::` or `super::` is followed into the folders, through what their `mod.rs` re-exports. Tests
//! below the code may name anything.

mod source;

use source::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const CRATES: &[&str] = &[
    "becalm",
    "becalm-bench",
    "becalm-cli",
    "becalm-client",
    "becalm-cuda",
    "becalm-emulator",
    "becalm-python",
    "becalm-serve",
];

/// Folders of the library and their modules from left to right. Modules in one row do not know each other: no scheme knows the other,
/// and no machine another one, but that a GPU takes constants in the form of the CPU.
const ORDERS: &[(&str, &[&[&str]])] = &[
    (
        "backend",
        &[
            &["family"],
            &["registers"],
            &["cpu", "processor", "reference", "several"],
            &["cuda"],
            &["auto", "evaluate"],
        ],
    ),
    ("program", &[&["file", "graph", "isa"], &["pace"], &["lwe", "rlwe"], &["circuit", "lower"]]),
    (
        "bootstrap::ckks",
        &[
            &["coeffs_to_slots", "eval_mod"],
            &["pipeline"],
            &["regular", "slots_first", "sparse", "table", "wish"],
            &["sign"],
            &["keys"],
        ],
    ),
    ("bootstrap::tfhe", &[&["extended"], &["blind_rotate", "ntt_rotate"], &["classic"]]),
    (
        "cipher",
        &[
            &["account", "encoding", "key"],
            &["ciphertext", "rlwe", "slot_key"],
            &["evaluation_key", "purpose"],
            &["file"],
        ],
    ),
    (
        "ckks",
        &[
            &["chain", "chebyshev", "stage"],
            &["context", "matrix", "needs"],
            &["encode", "integers", "keygen", "wire"],
            &["share"],
            &["encrypt", "file"],
            &["threshold"],
            &["collective"],
        ],
    ),
    (
        "math",
        &[
            &["complex", "memory", "modulus", "random", "round", "simd", "statistics"],
            &["buffer", "gadget", "ntt", "sampling"],
            &["exact", "fft", "threads"],
            &["parallel"],
            &["rns"],
        ],
    ),
];

type Module = Vec<String>;

/// The tokens of every module, without its tests.
fn modules(src: &Path) -> BTreeMap<Module, Vec<Token>> {
    let read = |file: &Path| {
        let path = file.strip_prefix(src).expect("a file below src").with_extension("");
        let mut module: Module = path.iter().filter_map(|p| p.to_str()).map(String::from).collect();
        module.pop_if(|last| last == "mod" || last == "lib");
        let text = std::fs::read_to_string(file).expect("a readable source");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        (module, source::tokens(code))
    };
    let all = source::files(src, "rs");
    let tested = all.iter().map(|file| read(file));
    tested.filter(|(module, _)| !module.iter().any(|part| part == "tests")).collect()
}

/// The paths of a tree such as `a::{b, c::d as e}`, which begins at `at`, and where it ends. The last name is the one that it gets.
fn paths(tokens: &[Token], mut at: usize, before: &[String], found: &mut Vec<Module>) -> usize {
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|t| t.text == text);
    let mut path = before.to_vec();
    while at < tokens.len() {
        if is(at, "{") {
            at += 1;
            while at < tokens.len() && !is(at, "}") {
                at = paths(tokens, at, &path, found).max(at + 1);
                at += usize::from(is(at, ","));
            }
            return at + 1;
        }
        path.push(tokens[at].text.clone());
        at += 1;
        if !is(at, "::") {
            break;
        }
        at += 1;
    }
    if is(at, "as") {
        path.extend(tokens.get(at + 1).map(|t| t.text.clone()));
        at += 2;
    }
    found.push(path);
    at
}

/// The names that a module re-exports: name → the child that it comes from.
fn exports(tokens: &[Token]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for i in 1..tokens.len() {
        let public = tokens[i - 1].text == "pub" || tokens[i - 1].text == ")";
        if public && tokens[i].text == "use" {
            let mut found = vec![];
            paths(tokens, i + 1, &[], &mut found);
            let each = found.iter().filter(|path| path.len() > 1);
            names.extend(each.map(|path| (path[path.len() - 1].clone(), path[0].clone())));
        }
    }
    names
}

/// The modules that one names.
fn named(module: &Module, all: &BTreeMap<Module, Vec<Token>>) -> Vec<Module> {
    let (tokens, mut found) = (&all[module], vec![]);
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|t| t.text == text);
    let mut at = 0;
    while at < tokens.len() {
        if !(is(at, "crate") || is(at, "super")) || !is(at + 1, "::") {
            at += 1;
            continue;
        }
        let mut base = if is(at, "crate") { vec![] } else { module.clone() };
        while is(at, "super") && is(at + 1, "::") {
            base.pop();
            at += 2;
        }
        at += if is(at, "crate") { 2 } else { 0 };
        at = paths(tokens, at, &base, &mut found);
    }
    let follow = |path: &Module| {
        let mut to = Module::new();
        for name in path {
            let child = [&to[..], std::slice::from_ref(name)].concat();
            if !all.keys().any(|m| m.starts_with(&child)) {
                let exported = all.get(&to).map(|t| exports(t)).unwrap_or_default();
                to.extend(exported.get(name).cloned());
                break;
            }
            to = child;
        }
        to
    };
    found.iter().map(follow).collect()
}

/// For each folder, which of its modules names which other one.
fn arrows(all: &BTreeMap<Module, Vec<Token>>) -> BTreeMap<String, BTreeSet<(String, String)>> {
    let mut folders: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    for module in all.keys() {
        for to in named(module, all) {
            let apart = module.iter().zip(&to).position(|(a, b)| a != b);
            if let Some(k) = apart {
                let arrow = (module[k].clone(), to[k].clone());
                folders.entry(module[..k].join("::")).or_default().insert(arrow);
            }
        }
    }
    folders
}

/// In every folder the modules that import each other in a circle.
fn circles(all: &BTreeMap<Module, Vec<Token>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut folders = arrows(all);
    for arrows in folders.values_mut() {
        // A module that imports none of the rest, or that none of the rest imports, is in no circle.
        loop {
            let (from, to): (BTreeSet<_>, BTreeSet<_>) = arrows.iter().cloned().unzip();
            let before = arrows.len();
            arrows.retain(|(a, b)| to.contains(a) && from.contains(b));
            if arrows.len() == before {
                break;
            }
        }
    }
    let names = |arrows: BTreeSet<(String, String)>| arrows.into_iter().map(|(a, _)| a).collect();
    folders.into_iter().filter(|(_, a)| !a.is_empty()).map(|(f, a)| (f, names(a))).collect()
}

#[test]
fn no_folder_has_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    for name in CRATES {
        let all = modules(&crates.join(name).join("src"));
        assert!(all.len() > 3, "found only {} modules of {name}", all.len());
        let named = |(folder, names)| ((name.to_string(), folder), names);
        found.extend(circles(&all).into_iter().map(named));
    }
    assert_eq!(found, BTreeMap::new());
}

/// The arrows of a folder that run back, and the modules that its order lacks or has too many.
fn astray(
    order: &[&[&str]],
    arrows: &BTreeSet<(String, String)>,
    modules: &BTreeSet<&str>,
) -> Vec<String> {
    let row = |name: &str| order.iter().position(|row| row.contains(&name));
    let back = arrows.iter().filter(|(from, to)| row(from) <= row(to));
    let listed: BTreeSet<&str> = order.iter().flat_map(|row| row.iter().copied()).collect();
    let odd = listed.symmetric_difference(modules);
    back.map(|(a, b)| format!("{a} names {b}")).chain(odd.map(|m| format!("{m}?"))).collect()
}

#[test]
fn no_arrow_inside_a_folder_runs_back() {
    let all = modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let arrows = arrows(&all);
    for (folder, order) in ORDERS {
        let path: Vec<&str> = folder.split("::").collect();
        let within = all.keys().filter(|m| m.len() > path.len() && m[..path.len()] == path[..]);
        let modules: BTreeSet<&str> = within.map(|m| m[path.len()].as_str()).collect();
        assert_eq!(astray(order, &arrows[*folder], &modules), Vec::<String>::new(), "{folder}");
    }
    let (order, arrow) = (&[&["a", "b"][..], &["c"]][..], |a: &str, b: &str| (a.into(), b.into()));
    let found = |arrows: &[(String, String)], modules: &[&str]| {
        let (arrows, modules) = (arrows.iter().cloned().collect(), modules.iter().copied());
        astray(order, &arrows, &modules.collect())
    };
    assert!(found(&[arrow("c", "a")], &["a", "b", "c"]).is_empty());
    assert_eq!(found(&[arrow("a", "c"), arrow("a", "b")], &["a", "b", "c"]).len(), 2);
    assert_eq!(found(&[], &["a", "b", "d"]), ["c?", "d?"]);
}

#[test]
fn a_planted_circle_is_found() {
    let module = |path: &str, text: &str| {
        let parts = path.split("::").filter(|part| !part.is_empty());
        (parts.map(String::from).collect::<Module>(), source::tokens(text))
    };
    let crate_of = |sum: &str| {
        BTreeMap::from([
            module("", "pub use ckks::Sum;"),
            module(
                "ckks",
                "mod sum; mod key; pub use key::Key; pub(crate) use sum::{Sum, Part as Term};",
            ),
            module("ckks::key", "use super::sum::Sum; pub struct Key;"),
            module("ckks::sum", sum),
            module("math", ""),
        ])
    };
    for back in [
        "use super::key::Key;",
        "use super::Key;",
        "use crate::{math, ckks::{Key}};",
        "fn f() -> crate::ckks::Key { todo!() }",
    ] {
        let found = circles(&crate_of(back));
        let wanted = BTreeSet::from(["key".to_string(), "sum".to_string()]);
        assert_eq!(found, BTreeMap::from([("ckks".to_string(), wanted)]), "{back}");
    }
    for fine in [
        "use super::super::math;",
        "use crate::math;",
        "// use super::key::Key;",
        "use super::{Sum, Term};",
    ] {
        assert_eq!(circles(&crate_of(fine)), BTreeMap::new(), "{fine}");
    }
}
