//! The layer sentence as a test: *math → security → params → cipher → {tfhe, ckks} → program → bootstrap → {apps,
//! backend} → {bridge, job, laboratory}*, each importing only what stands left of it.
//!
//! Every path that begins with `crate::`, or climbs to the crate with `super::`, is read from the sources, tests
//! included. An item that `lib.rs` re-exports counts as the module it comes from. Every module may use the errors.

mod source;

use source::Token;
use std::collections::BTreeMap;
use std::path::Path;

/// The layers from left to right. Modules in one row do not know each other.
const LAYERS: &[&[&str]] = &[
    &["words"],
    &["error", "progress"],
    &["math"],
    &["security"],
    &["params"],
    &["cipher"],
    &["tfhe", "ckks"],
    &["program"],
    &["bootstrap"],
    &["apps", "backend"],
    &["bridge", "job", "laboratory"],
];

/// Folders that may import less than their layer: the TFHE bootstraps are arithmetic, the backends call them.
const EXCEPT: &[(&str, &str)] = &[("bootstrap::tfhe", "program")];

/// A path in a source file, as the module it names.
#[derive(Debug)]
struct Arrow {
    line: usize,
    to: String,
}

/// Whether the module `from` (`bootstrap::tfhe::classic`) may name the top-level module `to`.
fn allowed(from: &str, to: &str) -> Result<(), String> {
    let rank = |module: &str| {
        let found = LAYERS.iter().position(|row| row.contains(&module));
        found.ok_or_else(|| format!("`{module}` has no layer; add it to LAYERS"))
    };
    let layer = from.split("::").next().unwrap_or(from);
    let (here, there) = (rank(layer)?, rank(to)?);
    let under = |folder: &str| from == folder || from.starts_with(&format!("{folder}::"));
    if to == "error" || layer == to {
        return Ok(());
    }
    if here <= there {
        return Err(format!("`{layer}` must not know `{to}`"));
    }
    match EXCEPT.iter().find(|(folder, hidden)| under(folder) && *hidden == to) {
        Some((folder, _)) => Err(format!("`{folder}` must not know `{to}`")),
        None => Ok(()),
    }
}

/// The items that `lib.rs` re-exports: name → top-level module.
fn exports(lib: &[Token]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (i, pair) in lib.windows(2).enumerate() {
        if pair[0].text == "pub" && pair[1].text == "use" {
            let module = &lib[i + 2].text;
            let end = lib[i..].iter().position(|t| t.text == ";").map_or(lib.len(), |n| i + n);
            for name in &lib[i + 3..end] {
                names.insert(name.text.clone(), module.clone());
            }
        }
    }
    names
}

/// The first segments of the path or group (`{a::b, c::{d, e}}`) that begins at `at`.
fn heads(tokens: &[Token], at: usize) -> Vec<&Token> {
    if tokens[at].text != "{" {
        return vec![&tokens[at]];
    }
    let (mut depth, mut first, mut found) = (0, true, Vec::new());
    for token in &tokens[at..] {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," => first = first || depth == 1,
            _ if first && depth == 1 => {
                found.push(token);
                first = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// The arrows out of one file, which is the module `module` (empty for the crate itself).
fn arrows(tokens: &[Token], module: &str) -> Vec<Arrow> {
    let depth = module.split("::").filter(|s| !s.is_empty()).count();
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|t| t.text == text);
    let (mut found, mut braces, mut inline) = (Vec::new(), 0, Vec::new());
    let mut i = 0;
    while i < tokens.len() {
        match tokens[i].text.as_str() {
            "{" => braces += 1,
            "}" => {
                braces -= 1;
                inline.retain(|opened| *opened <= braces);
            }
            "mod" if is(i + 2, "{") => inline.push(braces + 1),
            "crate" | "super" if is(i + 1, "::") => {
                let mut climbed = if is(i, "crate") { depth + inline.len() } else { 1 };
                i += 2;
                while is(i, "super") && is(i + 1, "::") {
                    (climbed, i) = (climbed + 1, i + 2);
                }
                if climbed >= depth + inline.len() {
                    let to = |t: &Token| Arrow { line: t.line, to: t.text.clone() };
                    found.extend(heads(tokens, i).into_iter().map(to));
                }
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// The wrong arrows of one file, as sentences.
fn faults(text: &str, module: &str, exports: &BTreeMap<String, String>) -> Vec<String> {
    let arrows = arrows(&source::tokens(text), module);
    let judged = arrows.into_iter().filter_map(|arrow| {
        let to = exports.get(&arrow.to).unwrap_or(&arrow.to);
        let why = allowed(module, to).err()?;
        Some(format!("{module}, line {}: `{}`: {why}", arrow.line, arrow.to))
    });
    judged.collect()
}

/// `bootstrap/tfhe/mod.rs` → `bootstrap::tfhe`.
fn module_of(file: &Path) -> String {
    let path = file.with_extension("");
    let parts: Vec<&str> = path.iter().filter_map(|p| p.to_str()).collect();
    let parts = parts.strip_suffix(&["mod"]).unwrap_or(&parts);
    parts.join("::")
}

#[test]
fn no_arrow_runs_back() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = std::fs::read_to_string(src.join("lib.rs")).expect("src/lib.rs");
    let exports = exports(&source::tokens(&lib));
    let (mut wrong, mut files) = (Vec::new(), 0);
    for file in source::files(&src, "rs") {
        let module = module_of(file.strip_prefix(&src).expect("a file below src"));
        if module != "lib" {
            let text = std::fs::read_to_string(&file).expect("a readable source");
            wrong.extend(faults(&text, &module, &exports));
            files += 1;
        }
    }
    assert!(files > 3, "found only {files} source files below {}", src.display());
    assert!(wrong.is_empty(), "arrows that run back:\n{}", wrong.join("\n"));
}

/// A parallel loop or a pool that began anywhere else would wait for ever in a forked child.
#[test]
fn parallel_loops_begin_in_one_place() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let all =
        ["becalm", "becalm-cli", "becalm-client", "becalm-cuda", "becalm-python", "becalm-serve"];
    let files: Vec<_> =
        all.iter().flat_map(|name| source::files(&crates.join(name).join("src"), "rs")).collect();
    let naming = files.iter().filter(|file| {
        let text = std::fs::read_to_string(file).expect("a readable source");
        // Tests below the code may name rayon.
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_string();
        source::tokens(&code).iter().any(|t| t.text == "rayon")
    });
    let found: Vec<String> =
        naming.filter_map(|f| f.file_name()?.to_str().map(String::from)).collect();
    assert_eq!(found, ["parallel.rs", "threads.rs"], "use `math::parallel` instead of rayon");
}

/// The crates of front ends, which hand the free memory over to the library: it decides what fits.
const FRONT_ENDS: &[&str] = &["becalm-cli", "becalm-client", "becalm-python", "becalm-serve"];
/// The two that tell how much is free: `becalm doctor`, and the reading for the Python package.
const READINGS: &[&str] = &["doctor.rs", "keys.rs"];

/// The lines of a front end that weigh memory themselves: a reading that is not an argument of a call, and a comparison with it.
fn weighed(text: &str, reads: bool) -> Vec<usize> {
    let tokens = source::tokens(text);
    let at = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    let compared = |i: usize| {
        let before = if at(i - 1) == "=" { i - 2 } else { i - 1 };
        ["<", ">"].contains(&at(before)) || ["<", ">"].contains(&at(i + 1))
    };
    let wrong = |i: &usize| match at(*i) {
        "require_memory" | "require_memory_or" | "require_free" | "require_for_threads" => true,
        "available_memory" if at(i + 1) == "(" => {
            let handed = ["(", ","].contains(&at(i - 1)) && [",", ")"].contains(&at(i + 3));
            !reads && !handed
        }
        "free" => compared(*i),
        _ => false,
    };
    (2..tokens.len()).filter(wrong).map(|i| tokens[i].line).collect()
}

#[test]
fn no_front_end_weighs_memory_itself() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut readings = vec![];
    for name in FRONT_ENDS {
        for file in source::files(&crates.join(name).join("src"), "rs") {
            let text = std::fs::read_to_string(&file).expect("a readable source");
            let own = file.file_name().and_then(|f| f.to_str()).unwrap_or_default();
            let reads = READINGS.contains(&own) && text.contains("available_memory()");
            readings.extend(reads.then(|| own.to_string()));
            let lines = weighed(&text, reads);
            assert_eq!(
                lines,
                Vec::<usize>::new(),
                "{}: a call of the library decides",
                file.display()
            );
        }
    }
    assert_eq!(readings, READINGS);
    for planted in [
        "fn f() { require_memory(op, price.peak())?; }",
        "fn f() { let free = available_memory().unwrap_or(0); }",
        "fn f() { offers.iter().find(|o| o.bytes <= free) }",
        "fn f() { if free > price.peak() { } }",
    ] {
        assert_eq!(weighed(planted, false).len(), 1, "{planted}");
    }
    let fine =
        "use a::available_memory; fn f() { plan.require(op, available_memory(), free, words) }";
    assert_eq!(weighed(fine, false), Vec::<usize>::new());
}

#[test]
fn a_planted_back_arrow_is_found() {
    let exports =
        exports(&source::tokens("pub use backend::{Cpu, Evaluator}; pub use error::Error;"));
    let planted = [
        ("math::fft", "use crate::cipher::Lwe;"),
        ("math", "use super::params::TfheParams;"),
        ("math::fft", "mod tests { use super::super::super::tfhe::Table; }"),
        ("params", "use crate::{Error, math::{Modulus, simd}, program::Op};"),
        ("tfhe::keygen", "fn f() -> crate::bootstrap::Key { todo!() }"),
        ("tfhe", "use crate::ckks::Encoder;"),
        ("cipher", "use crate::Evaluator;"),
        ("bootstrap::tfhe::classic", "use crate::program::Op;"),
        ("backend::cpu", "use crate::apps::uint;"),
        ("error", "use crate::math::Modulus;"),
        ("math", "use crate::gadgetry::Thing;"),
    ];
    for (module, text) in planted {
        assert_eq!(faults(text, module, &exports).len(), 1, "`{text}` in {module}");
    }
}

#[test]
fn arrows_that_run_forward_are_free() {
    let exports = exports(&source::tokens("pub use error::{Error, Result};"));
    let fine = [
        (
            "math::fft",
            "use super::simd::Level; mod tests { use super::*; use super::super::gadget; }",
        ),
        (
            "math",
            "//! See [`crate::backend`].\n/* crate::backend::x */ const S: &str = \"crate::backend::y\";",
        ),
        ("cipher::key", "use crate::{Error, Result}; pub(crate) fn f(x: crate::params::Noise) {}"),
        ("bootstrap::tfhe", "use crate::tfhe::noise;"),
        ("bootstrap::ckks::regular", "use crate::program::{Op, Program};"),
        ("backend::cpu", "use crate::bootstrap::tfhe::classic; use super::registers;"),
    ];
    for (module, text) in fine {
        assert_eq!(faults(text, module, &exports), Vec::<String>::new(), "`{text}` in {module}");
    }
}
