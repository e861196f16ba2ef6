//! No modules of one folder import each other in a circle, in any crate: an order stands in every folder, as the layers do in the
//! crate. Where the order says what the architecture is, it is written down here. `tests/test_python_layers.py` tests the same for the
//! Python package.
//!
//! Every path that begins with `crate::` or `super::` is followed into the folders, through what their `mod.rs` re-exports. Tests
//! below the code may name anything.
//!
//! A method reaches every file without a path. So a type has its methods where it is defined, or below, in the folder of its `mod.rs`;
//! the files that add more are listed, and a call of what such a file alone defines is an arrow to it like a path.

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
    (
        "backend::cpu::rlwe",
        &[
            &["residues"],
            &["key_switch"],
            &["sum"],
            &["arithmetic"],
            &["instructions", "plain"],
            &["linear", "polynomial"],
            &["constants"],
            &["work"],
            &["session"],
        ],
    ),
    ("program", &[&["file", "graph", "isa"], &["pace"], &["lwe", "rlwe"], &["circuit", "lower"]]),
    (
        "bootstrap::ckks",
        &[
            &["coeffs_to_slots", "eval_mod"],
            &["pipeline"],
            &["regular", "slots_first", "sparse", "table", "wish"],
            &["offer", "sign"],
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
            &["encode"],
            &["keygen"],
            &["share"],
            &["encrypt", "file"],
            &["integers", "wire"],
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

/// Types with methods in other files than their own: the module and name of each, and the files, of which those that call a method stand
/// right of the file that has it.
const EXTENDED: &[(&str, &[&str])] = &[
    (
        "apps::circuit::Circuit",
        &[
            "apps::integer",
            "apps::integer::arithmetic",
            "apps::integer::array",
            "apps::integer::compare",
            "apps::integer::count",
            "apps::integer::divide",
            "apps::integer::element",
            "apps::integer::multiply",
            "apps::integer::prefix",
            "apps::integer::shift",
            "apps::integer::sign",
            "apps::integer::table",
            "apps::integer::tabulate",
            "apps::integer::zero",
        ],
    ),
    ("apps::integer::value::Integers", &["apps::integer::file"]),
    ("apps::real::formula::Formula", &["apps::real::record"]),
    ("backend::cpu::rlwe::plain::Plain", &["backend::cpu::rlwe::constants"]),
    ("backend::cuda::handles::Function", &["backend::cuda::driver"]),
    (
        "backend::cuda::rlwe::recorder::Recorder",
        &[
            "backend::cuda::rlwe::instructions",
            "backend::cuda::rlwe::linear",
            "backend::cuda::rlwe::polynomial",
        ],
    ),
    (
        "backend::cuda::rlwe::tape::Tape",
        &["backend::cuda::rlwe::arithmetic", "backend::cuda::rlwe::key_switch"],
    ),
    ("backend::cuda::session::CudaSession", &["backend::cuda::rotation"]),
    ("bootstrap::ckks::pipeline::Pipeline", &["bootstrap::ckks::table"]),
    ("cipher::ciphertext::Glwe", &["cipher::file::ciphertexts"]),
    ("cipher::ciphertext::Lwe", &["cipher::file::ciphertexts", "tfhe::encrypt", "tfhe::linear"]),
    ("cipher::evaluation_key::EvaluationKey", &["cipher::file::keys", "tfhe::keygen"]),
    ("cipher::file::limits::Limits", &["cipher::file::disk"]),
    (
        "cipher::key::SecretKey",
        &["cipher::file::keys", "tfhe::encrypt", "tfhe::keygen", "tfhe::slots"],
    ),
    ("cipher::rlwe::CkksKeys", &["cipher::purpose"]),
    ("cipher::rlwe::Purpose", &["cipher::purpose"]),
    ("cipher::rlwe::Rlwe", &["ckks::encrypt"]),
    ("cipher::rlwe::StoredKey", &["ckks::wire"]),
    ("cipher::slot_key::SlotKey", &["cipher::file::slot_keys", "tfhe::slots"]),
    ("ckks::chain::Chain", &["ckks::file", "ckks::needs"]),
    (
        "ckks::context::Context",
        &[
            "ckks::encode",
            "ckks::encrypt",
            "ckks::file",
            "ckks::integers",
            "ckks::keygen",
            "ckks::share",
            "ckks::wire",
        ],
    ),
    (
        "job::folder::Job",
        &["job::check", "job::collect", "job::look", "job::time", "job::verify", "job::work"],
    ),
    ("params::ckks::CkksParams", &["params::lookup"]),
    ("program::graph::Graph", &["program::pace"]),
    ("program::lwe::Program", &["program::lower"]),
];

/// Methods of a circuit that are called as those of numbers are.
const NUMBERS: &[&str] = &[
    "any",
    "count_ones",
    "ilog2",
    "leading_zeros",
    "min",
    "overflowing_add",
    "overflowing_sub",
    "trailing_zeros",
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

/// The methods of each block `impl T` that stands in a module: the name of the type, and those of the methods.
fn methods(tokens: &[Token]) -> Vec<(String, Vec<String>)> {
    let at = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    let mut found = vec![];
    for i in 0..tokens.len() {
        // Elsewhere it is the type of an argument or a result.
        let item = i == 0 || ["}", ";", "]", "{", "unsafe"].contains(&at(i - 1));
        if at(i) != "impl" || !item {
            continue;
        }
        let mut start = i + 1;
        let mut depth = 0;
        while depth > 0 || at(start) == "<" {
            depth += i32::from(at(start) == "<");
            depth -= i32::from(at(start) == ">" && at(start - 1) != "-");
            start += 1;
        }
        let open = (start..tokens.len()).find(|k| at(*k) == "{").unwrap_or(tokens.len());
        let head = &tokens[start..open];
        if head.iter().any(|t| t.text == "for") {
            continue;
        }
        let path = head.iter().take_while(|t| t.text != "<" && t.text != "where");
        let Some(name) = path.last().map(|t| t.text.clone()) else { continue };
        let (mut own, mut depth, mut k) = (vec![], 0, open);
        while k < tokens.len() {
            depth += i32::from(at(k) == "{") - i32::from(at(k) == "}");
            if depth == 1 && at(k) == "fn" {
                own.push(at(k + 1).to_string());
            }
            if depth == 0 {
                break;
            }
            k += 1;
        }
        found.push((name, own));
    }
    found
}

/// The modules that define each name after one of these keywords.
fn defined(all: &BTreeMap<Module, Vec<Token>>, keywords: &[&str]) -> BTreeMap<String, Vec<Module>> {
    let mut found: BTreeMap<String, Vec<Module>> = BTreeMap::new();
    for (module, tokens) in all {
        let each = tokens.windows(2).filter(|pair| keywords.contains(&pair[0].text.as_str()));
        for pair in each {
            let of = found.entry(pair[1].text.clone()).or_default();
            if of.last() != Some(module) {
                of.push(module.clone());
            }
        }
    }
    found
}

/// Blocks `impl T` in other files than that of T or those of its folder: T with its module, the file, the methods.
fn extended(all: &BTreeMap<Module, Vec<Token>>) -> Vec<(String, Module, Vec<String>)> {
    let types = defined(all, &["struct", "enum", "union"]);
    let near = |module: &Module, other: &Module| {
        module.iter().zip(other).take_while(|(a, b)| a == b).count()
    };
    let mut found = vec![];
    for (module, tokens) in all {
        let named = named(module, all);
        for (name, own) in methods(tokens) {
            let homes = types.get(&name).map_or(&[][..], |homes| homes);
            // Of several types of one name the one in this file, or that it imports, or the nearest.
            let best =
                |home: &&Module| (**home == *module, named.contains(*home), near(module, home));
            let Some(home) = homes.iter().max_by_key(best) else { continue };
            if !module.starts_with(home) {
                found.push((format!("{}::{name}", home.join("::")), module.clone(), own));
            }
        }
    }
    found
}

/// The calls of methods that one file alone defines, where it is not that of the type: from which module to which.
fn called(all: &BTreeMap<Module, Vec<Token>>) -> Vec<(Module, Module)> {
    let functions = defined(all, &["fn"]);
    let mut found = vec![];
    let extended = extended(all);
    let added = extended.iter().flat_map(|(_, _, own)| own);
    let added: BTreeSet<&String> = added.filter(|name| !NUMBERS.contains(&name.as_str())).collect();
    for (module, tokens) in all {
        for three in tokens.windows(3).filter(|three| three[0].text == "." && three[2].text == "(")
        {
            let Some(name) = added.get(&three[1].text) else { continue };
            if let [only] = &functions[*name][..] {
                found.push((module.clone(), only.clone()));
            }
        }
    }
    found
}

/// For each folder, which of its modules names which other one.
type Arrows = BTreeMap<String, BTreeSet<(String, String)>>;

/// The arrows of the paths, and of these calls.
fn arrows(all: &BTreeMap<Module, Vec<Token>>, calls: &[(Module, Module)]) -> Arrows {
    let mut folders = Arrows::new();
    for module in all.keys() {
        let calls = calls.iter().filter(|(from, _)| from == module).map(|(_, to)| to.clone());
        for to in named(module, all).into_iter().chain(calls) {
            let apart = module.iter().zip(&to).position(|(a, b)| a != b);
            if let Some(k) = apart {
                let arrow = (module[k].clone(), to[k].clone());
                folders.entry(module[..k].join("::")).or_default().insert(arrow);
            }
        }
    }
    folders
}

/// In every folder the modules that know each other in a circle.
fn circles(mut folders: Arrows) -> BTreeMap<String, BTreeSet<String>> {
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
        found.extend(circles(arrows(&all, &[])).into_iter().map(named));
        // Between the layers calls count as well.
        let mut layers = arrows(&all, &called(&all));
        layers.retain(|folder, _| folder.is_empty());
        found.extend(circles(layers).into_iter().map(named));
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
    let arrows = arrows(&all, &called(&all));
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
fn methods_stand_with_their_types() {
    let all = modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, module, _) in extended(&all) {
        found.entry(name).or_default().insert(module.join("::"));
    }
    let listed = EXTENDED.iter().map(|(name, files)| {
        (name.to_string(), files.iter().map(|file| file.to_string()).collect())
    });
    assert_eq!(found, listed.collect::<BTreeMap<_, BTreeSet<String>>>());
}

#[test]
fn a_planted_method_is_found() {
    let crate_of = |texts: &[(&str, &str)]| -> BTreeMap<Module, Vec<Token>> {
        let module = |(path, text): &(&str, &str)| {
            (path.split("::").map(String::from).collect(), source::tokens(text))
        };
        texts.iter().map(module).collect()
    };
    let ring = ("math", "mod ring; pub use ring::Ring;");
    let own = ("math::ring", "pub struct Ring; impl<F: Fn() -> u8> Ring { fn size(&self) {} }");
    let other = |text| crate_of(&[ring, own, ("machine", text)]);
    for text in [
        "use crate::math::Ring; impl Ring { pub fn turned(&self) {} }",
        "impl<'a> crate::math::Ring<'a> { fn turned(&self, f: impl Fn(u8) -> u8) { f(1) } }",
    ] {
        let found = extended(&other(text));
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(
            (&found[0].0[..], &found[0].2[..]),
            ("math::ring::Ring", &["turned".to_string()][..])
        );
    }
    for fine in [
        "use crate::math::Ring; impl Clone for Ring { fn clone(&self) -> Ring { Ring } }",
        "struct Ring; impl Ring { fn turned(&self) {} }",
        "fn turned(ring: &Ring) -> impl Iterator<Item = u8> { ring.size() }",
    ] {
        assert_eq!(extended(&other(fine)), [], "{fine}");
    }
    // A call of a method that a machine alone defines leads to the machine.
    let machine = ("machine", "use crate::math::Ring; impl Ring { pub fn turned(&self) {} }");
    let back = |text| {
        let all = crate_of(&[ring, own, machine, ("math::fft", text)]);
        circles(arrows(&all, &called(&all)))
    };
    let wanted = BTreeSet::from(["machine".to_string(), "math".to_string()]);
    let found = back("fn f(ring: &super::Ring) { ring.turned() }");
    assert_eq!(found, BTreeMap::from([(String::new(), wanted)]));
    assert_eq!(back("fn f(ring: &super::Ring) { ring.size() }"), BTreeMap::new());
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
        let found = circles(arrows(&crate_of(back), &[]));
        let wanted = BTreeSet::from(["key".to_string(), "sum".to_string()]);
        assert_eq!(found, BTreeMap::from([("ckks".to_string(), wanted)]), "{back}");
    }
    for fine in [
        "use super::super::math;",
        "use crate::math;",
        "// use super::key::Key;",
        "use super::{Sum, Term};",
    ] {
        assert_eq!(circles(arrows(&crate_of(fine), &[])), BTreeMap::new(), "{fine}");
    }
}
