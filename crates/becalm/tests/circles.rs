//! No modules of one folder import each other in a circle, in any crate: an order stands in every folder, as the layers do in the
//! crate. Where the order says what the architecture is, it is written down here. `tests/test_python_layers.py` tests the same for the
//! Python package.
//!
//! `arrows` reads them from the paths in every file and from its calls of methods. A type has its methods where it is defined, or below, in the folder of its
//! `mod.rs`; the files that add more are listed here.

mod arrows;
mod source;

use arrows::{Module, Types, arrows, circles, modules};
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
/// and no machine another one, but that the CPU brings arguments to their level and turns keys for a GPU.
const ORDERS: &[(&str, &[&[&str]])] = &[
    (
        "backend",
        &[
            &["family"],
            &["encoded", "registers"],
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
            &["budget", "work"],
            &["session"],
        ],
    ),
    (
        "program",
        &[
            &["constants"],
            &["file", "graph", "isa"],
            &["pace"],
            &["lwe", "rlwe"],
            &["circuit", "lower"],
        ],
    ),
    (
        "bootstrap::ckks",
        &[
            &["coeffs_to_slots", "eval_mod"],
            &["pipeline"],
            &["regular", "slots_first", "sparse", "table", "wish"],
            &["offer", "pack", "sign"],
            &["keys"],
        ],
    ),
    ("bridge", &[&["switch"], &["merge"], &["pack", "unpack"], &["file"]]),
    ("bootstrap::tfhe", &[&["extended"], &["blind_rotate", "ntt_rotate"], &["classic"]]),
    (
        "cipher",
        &[
            &["account", "encoding", "key"],
            &["ciphertext", "rlwe", "slot_key"],
            &["evaluation_key", "key_form", "purpose", "vouch"],
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
            &["flood"],
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

/// Types with methods in other files than their own: the module and name of each, and the files.
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
    ("backend::cuda::state::CudaSession", &["backend::cuda::rotation", "backend::cuda::session"]),
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
    ("cipher::rlwe::Rlwe", &["cipher::vouch", "ckks::encrypt"]),
    ("cipher::rlwe::StoredKey", &["ckks::wire"]),
    ("cipher::slot_key::SlotKey", &["cipher::file::slot_keys", "tfhe::slots"]),
    ("ckks::chain::Chain", &["ckks::file", "ckks::needs"]),
    (
        "ckks::context::Context",
        &[
            "ckks::encode",
            "ckks::encrypt",
            "ckks::file",
            "ckks::flood",
            "ckks::integers",
            "ckks::keygen",
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

#[test]
fn no_folder_has_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    for name in CRATES {
        let all = modules(&crates.join(name).join("src"));
        assert!(all.len() > 3, "found only {} modules of {name}", all.len());
        let named = |(folder, names)| ((name.to_string(), folder), names);
        found.extend(circles(arrows(&all, &Types::of(&all).calls())).into_iter().map(named));
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
    let arrows = arrows(&all, &Types::of(&all).calls());
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
    for (name, module, _) in Types::of(&all).extended() {
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
        let found = Types::of(&other(text)).extended();
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
        assert_eq!(Types::of(&other(fine)).extended(), [], "{fine}");
    }
    // A call of a method that a machine alone defines leads to the machine.
    let machine = ("machine", "use crate::math::Ring; impl Ring { pub fn turned(&self) {} }");
    let back = |text| {
        let all = crate_of(&[ring, own, machine, ("math::fft", text)]);
        circles(arrows(&all, &Types::of(&all).calls()))
    };
    let wanted = BTreeSet::from(["machine".to_string(), "math".to_string()]);
    let found = back("fn f(ring: &super::Ring) { ring.turned() }");
    assert_eq!(found, BTreeMap::from([(String::new(), wanted)]));
    assert_eq!(back("fn f(ring: &super::Ring) { ring.size() }"), BTreeMap::new());
}

#[test]
fn a_planted_call_is_found() {
    let crate_of = |texts: &[(&str, &str)]| -> BTreeMap<Module, Vec<Token>> {
        let module = |(path, text): &(&str, &str)| {
            (path.split("::").map(String::from).collect(), source::tokens(text))
        };
        texts.iter().map(module).collect()
    };
    let found = |texts: &[(&str, &str)]| {
        let all = crate_of(texts);
        circles(arrows(&all, &Types::of(&all).calls()))
    };
    let both = |folder: &str, names: [&str; 2]| {
        BTreeMap::from([(folder.to_string(), BTreeSet::from(names.map(String::from)))])
    };
    // A name that another type has too: the type of the block says whose method it is.
    let wheel = ("math::wheel", "pub struct Wheel; impl Wheel { pub fn turned(&self) {} }");
    let turn = (
        "math::turn",
        "use super::ring::Ring; impl Ring { pub fn turned(&self) {} } pub struct Turn;",
    );
    let ring = |text| found(&[wheel, turn, ("math::ring", text)]);
    for back in [
        "pub struct Ring; impl Ring { fn size(&self) { self.turned() } }",
        "pub struct Ring; impl<'a> Ring { fn size(&self) -> [u8; 2] { Self::turned(self) } }",
        "pub struct Ring; impl Clone for Ring { fn clone(&self) -> Ring { self.turned(); Ring } }",
        "pub struct Ring; fn size(all: &[Ring]) { all.iter().for_each(Ring::turned) }",
        "pub struct Ring; struct Hub; impl Deref for Hub { type Target = Ring; } impl Hub { fn f(&self) { self.turned() } }",
    ] {
        assert_eq!(ring(back), both("math", ["ring", "turn"]), "{back}");
    }
    for fine in [
        "pub struct Ring; impl Ring { fn size(&self) { self.0.turned() } }",
        "use super::wheel::Wheel; pub struct Ring; fn size(wheel: &Wheel) { Wheel::turned(wheel) }",
        "pub struct Ring; impl Ring { fn size(&self) {} } fn new() { other::Turn::turned() }",
    ] {
        assert_eq!(ring(fine), BTreeMap::new(), "{fine}");
    }
    // Two files below one `mod.rs`, which has their type.
    let (mods, left) = ("pub struct Ring; mod left; mod right;", "math::ring::left");
    let below = |text| {
        let right = "use super::Ring; impl Ring { pub(super) fn right(&self) { self.left() } }";
        found(&[("math::ring", mods), (left, text), ("math::ring::right", right), wheel])
    };
    let back = "use super::Ring; impl Ring { pub(super) fn left(&self) { self.right() } }";
    assert_eq!(below(back), both("math::ring", ["left", "right"]));
    assert_eq!(
        below("use super::Ring; impl Ring { pub(super) fn left(&self) {} }"),
        BTreeMap::new()
    );
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

/// A child names what its `mod.rs` imports for itself, or takes by a star.
#[test]
fn names_that_a_folder_imports_are_followed() {
    let module = |path: &str, text: &str| {
        (path.split("::").map(String::from).collect::<Module>(), source::tokens(text))
    };
    let folder = |root: &str| {
        BTreeMap::from([
            module("ckks", root),
            module("ckks::key", "use super::sum::Sum; pub struct Key;"),
            module("ckks::sum", "use super::Key; pub struct Sum;"),
            module("math", "pub struct Key;"),
        ])
    };
    for root in [
        "mod sum; mod key; use key::Key;",
        "mod sum; mod key; use self::key::{Key, Other};",
        "mod sum; mod key; pub use key::*;",
        "mod sum; mod key; use crate::ckks::key::*;",
        "mod sum; mod key; pub use sum::*; pub use key::*;",
    ] {
        let found = circles(arrows(&folder(root), &[]));
        let wanted = BTreeSet::from(["key".to_string(), "sum".to_string()]);
        assert_eq!(found, BTreeMap::from([("ckks".to_string(), wanted)]), "{root}");
    }
    for root in ["use crate::math::Key;", "use other::Key;", "use crate::math::*;"] {
        let found = arrows(&folder(root), &[]);
        assert_eq!(circles(found.clone()), BTreeMap::new(), "{root}");
        let up = found.get("").is_some_and(|all| all.contains(&("ckks".into(), "math".into())));
        assert_eq!(up, root.contains("math"), "{root}");
    }
}
