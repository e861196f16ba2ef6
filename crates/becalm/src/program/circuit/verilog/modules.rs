//! The modules of a Verilog text, and which of them is compiled: the only one that no other contains, or the one that is named.

use super::source::Token;
use crate::{Error, Result};
use std::path::Path;

/// A module, and whether another one contains it.
struct Module<'a> {
    name: &'a str,
    contained: bool,
}

/// The module that a user has named, if there is one; `None` where Yosys finds the top itself.
///
/// # Errors
/// [`Error::BadInput`] for a text without a module, for several that no other contains, and for a name that no module has.
pub(super) fn top<'a>(
    tokens: &[Token],
    named: Option<&'a str>,
    path: &Path,
) -> Result<Option<&'a str>> {
    let modules = modules(tokens);
    let file = path.display();
    if modules.is_empty() {
        let remedy = "write the circuit as `module NAME(input …, output …); … endmodule`";
        return Err(refused(format!("a module in {file}"), "a file without one", remedy));
    }
    let list = |names: Vec<&str>| names.join(", ");
    if let Some(name) = named {
        // The name becomes a part of a script: no other letters may come there.
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.chars().all(letter) && modules.iter().any(|m| m.name == name) {
            return Ok(named);
        }
        let all = list(modules.iter().map(|m| m.name).collect());
        let got: String = name.chars().take(60).collect();
        let wanted = format!("a module of {file} as the top");
        return Err(refused(wanted, format!("`{got}`"), &format!("choose one of these: {all}")));
    }
    let chosen = tokens.windows(3).any(|t| [t[0].text, t[1].text, t[2].text] == ["(", "*", "top"]);
    let free: Vec<&str> = modules.iter().filter(|m| !m.contained).map(|m| m.name).collect();
    if free.len() < 2 || chosen {
        return Ok(None);
    }
    let wanted = format!("one top module in {file}");
    let got = format!("{} that no other module contains: {}", free.len(), list(free));
    let remedy =
        "choose one: `--top NAME` of the command, `top=` in Python, `Circuit::load_with` in Rust";
    Err(refused(wanted, got, remedy))
}

fn refused(wanted: String, got: impl Into<String>, remedy: &str) -> Error {
    Error::bad_input("circuit", wanted, got, remedy)
}

/// The modules, in order. A name with a word or `#` after it is an instance.
fn modules<'a>(tokens: &[Token<'a>]) -> Vec<Module<'a>> {
    let text = |i: usize| tokens.get(i).map_or("", |t: &Token| t.text);
    let begins = |i: usize| matches!(text(i), "module" | "macromodule");
    let name = |i: usize| {
        let lifetime = matches!(text(i + 1), "automatic" | "static");
        tokens.get(i + 1 + usize::from(lifetime)).map_or("", |t: &Token<'a>| t.text)
    };
    let declared = (0..tokens.len()).filter(|i| begins(*i) && !name(*i).is_empty());
    let mut found: Vec<Module<'a>> = vec![];
    let mut places = std::collections::HashMap::new();
    for i in declared {
        // Two branches of a condition may declare the same.
        places.entry(name(i)).or_insert_with(|| {
            found.push(Module { name: name(i), contained: false });
            found.len() - 1
        });
    }
    let mut inside = "";
    for i in 0..tokens.len() {
        if begins(i) {
            inside = name(i);
        }
        let instance = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '\\' | '#' | '`');
        let declares = i > 0 && (begins(i - 1) || i > 1 && begins(i - 2));
        if let Some(at) = places.get(text(i))
            && !declares
            && text(i) != inside
            && text(i + 1).starts_with(instance)
        {
            found[*at].contained = true;
        }
    }
    found
}
