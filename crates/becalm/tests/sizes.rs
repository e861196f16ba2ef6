//! Small files, small functions: at most 600 lines a file and 60 a function, in every crate of the workspace.
//! Files of Python have at most 600 lines too.

mod source;

use source::Token;
use std::path::{Path, PathBuf};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 60;

/// Name, first line and number of lines of every function that has a body, from `fn` to the closing brace.
fn functions(tokens: &[Token]) -> Vec<(&str, usize, usize)> {
    let mut found = Vec::new();
    for (i, pair) in tokens.windows(2).enumerate() {
        // `fn(` is a type, `fn name` a function.
        if pair[0].text == "fn" && pair[1].text != "(" {
            let end = body_end(&tokens[i..]).map(|n| &tokens[i + n]);
            found.extend(
                end.map(|e| (pair[1].text.as_str(), pair[0].line, e.line - pair[0].line + 1)),
            );
        }
    }
    found
}

/// Position of the brace that closes the body; `None` for a declaration without one.
fn body_end(tokens: &[Token]) -> Option<usize> {
    let (mut braces, mut others) = (0, 0);
    for (i, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" => others += 1,
            ")" | "]" => others -= 1,
            // The `;` of `[u8; 4]` in a signature is not an end.
            ";" if braces == 0 && others == 0 => return None,
            "{" => braces += 1,
            "}" => {
                braces -= 1;
                if braces == 0 && others == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// The sources of this crate and of those beside it.
fn sources() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = here.join("../../Cargo.toml").exists();
    let crates = if workspace { here.join("..") } else { here.to_path_buf() };
    let built = |p: &PathBuf| p.iter().any(|part| part == "target");
    source::files(&crates, "rs").into_iter().filter(|p| !built(p)).collect()
}

#[test]
fn files_and_functions_are_small() {
    let mut large = Vec::new();
    let sources = sources();
    assert!(sources.len() > 3, "found only {} sources", sources.len());
    for file in sources {
        let text = std::fs::read_to_string(&file).expect("a readable source");
        let lines = text.lines().count();
        if lines > FILE_LINES {
            large.push(format!("{}: {lines} lines", file.display()));
        }
        for (name, line, lines) in functions(&source::tokens(&text)) {
            if lines > FUNCTION_LINES {
                large.push(format!("{}:{line}: fn {name}: {lines} lines", file.display()));
            }
        }
    }
    assert!(
        large.is_empty(),
        "over {FILE_LINES} lines a file or {FUNCTION_LINES} a function:\n{}",
        large.join("\n")
    );
}

#[test]
fn files_of_python_are_small() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    if !root.join("pyproject.toml").exists() {
        // Cargo puts this file into the crate that is published, which stands alone.
        assert!(here.join("Cargo.toml.orig").exists(), "no Python beside {}", here.display());
        return;
    }
    let mut large = Vec::new();
    for folder in ["bench", "packaging", "python", "rtl", "tests"] {
        let files = source::files(&root.join(folder), "py");
        assert!(!files.is_empty(), "no Python in {folder}");
        for file in files {
            let lines = std::fs::read_to_string(&file).expect("a readable file").lines().count();
            if lines > FILE_LINES {
                large.push(format!("{}: {lines} lines", file.display()));
            }
        }
    }
    assert!(large.is_empty(), "over {FILE_LINES} lines:\n{}", large.join("\n"));
}

#[test]
fn a_long_function_is_measured() {
    let text = "trait T { fn a(x: [u8; 2]); }\nfn b(f: fn(u8) -> u8) -> [u8; 2] {\n if x { \"}\" }\n\n}\nfn c() {}";
    let found = source::tokens(text);
    assert_eq!(functions(&found), [("b", 2, 4), ("c", 6, 1)]);
}
