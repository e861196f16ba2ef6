//! The modules of a Verilog text: which of them is compiled, and the order of its ports.

use super::refused;
use super::source::Token;
use crate::{Error, Result};
use std::path::Path;

const CHOOSE: &str =
    "choose one: `--top NAME` of the command, `top=` in Python, `Circuit::load_with` in Rust";

/// The module that a user has named, if there is one.
///
/// # Errors
/// [`Error::BadInput`] for a name that no module has.
pub(super) fn named<'a>(
    tokens: &[Token],
    name: Option<&'a str>,
    path: &Path,
) -> Result<Option<&'a str>> {
    let Some(name) = name else { return Ok(None) };
    let all = all(tokens);
    // The name becomes a part of a script: no other letters may come there.
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain(name) && all.contains(&name) {
        return Ok(Some(name));
    }
    let got: String = name.chars().take(60).collect();
    let wanted = format!("a module of {} as the top", path.display());
    let taken: Vec<&str> = all.into_iter().filter(|name| plain(name)).collect();
    let remedy = match taken[..] {
        [] => "name a module in letters, digits and underscores".into(),
        _ => format!("choose one of these: {}", taken.join(", ")),
    };
    Err(Error::bad_input("circuit", wanted, format!("`{got}`"), &remedy))
}

/// The module that is compiled, as what Yosys `said` names it.
///
/// # Errors
/// [`Error::BadInput`] for a text without a module that no other contains, and for a text with several.
pub(super) fn top<'a>(said: &'a str, tokens: &[Token], path: &Path) -> Result<&'a str> {
    let mut lines = said.lines().skip_while(|line| !line.starts_with("Top level design units:"));
    lines.next();
    let names: Vec<&str> = lines.map_while(|line| line.strip_prefix("    ")).collect();
    match names[..] {
        [name] => Ok(name),
        [] => {
            let wanted = "a module that no other module contains";
            let (got, remedy) = match &all(tokens)[..] {
                [] => (
                    "a file without one".into(),
                    "write the circuit as `module NAME(input …, output …); … endmodule`",
                ),
                // As one that contains itself.
                all => (
                    format!("modules that others or they themselves contain: {}", all.join(", ")),
                    CHOOSE,
                ),
            };
            Err(refused(wanted, got, path, remedy))
        }
        _ => {
            let remedy = CHOOSE;
            let (several, all) = (names.len(), names.join(", "));
            let got = format!("{several} that no other module contains: {all}");
            Err(refused("one top module", got, path, remedy))
        }
    }
}

/// The ports of a module, in the order of its header. Words of types may stand among them: no port has such a name.
pub(super) fn ports<'a>(tokens: &[Token<'a>], module: &str) -> Vec<&'a str> {
    let text = |i: usize| tokens.get(i).map_or("", |token: &Token<'a>| token.text);
    let begins = |i: &usize| declared(tokens, *i) == Some(module);
    let Some(begin) = (0..tokens.len()).find(begins) else { return vec![] };
    let (mut found, mut depth, mut parameters, mut import) = (vec![], 0usize, false, false);
    for i in begin..tokens.len() {
        match text(i) {
            "#" if depth == 0 => parameters = true,
            "import" if depth == 0 => import = true,
            ";" if depth == 0 && !import => break,
            ";" if depth == 0 => import = false,
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                match depth {
                    0 if parameters => parameters = false,
                    0 => break,
                    _ => {}
                }
            }
            name if depth == 1 && !parameters => {
                if matches!(text(i + 1), "," | ")" | "[" | "=") {
                    found.push(name.trim_start_matches('\\'));
                }
            }
            _ => {}
        }
    }
    found
}

/// The names of all modules of a text.
fn all<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    (0..tokens.len()).filter_map(|i| declared(tokens, i)).collect()
}

/// The name of the module that a token begins.
fn declared<'a>(tokens: &[Token<'a>], begin: usize) -> Option<&'a str> {
    let text = |i: usize| tokens.get(i).map(|token: &Token<'a>| token.text);
    let begins = matches!(text(begin)?, "module" | "macromodule");
    let lifetime = matches!(text(begin + 1)?, "automatic" | "static");
    text(begin + 1 + usize::from(lifetime)).filter(|_| begins)
}

#[cfg(test)]
mod tests {
    use super::super::source::tokens;
    use super::*;

    #[test]
    fn several_tops_are_refused_with_their_names() {
        let path = Path::new("mine.v");
        let units = "1. Executing SLANG frontend.\nTop level design units:\n";
        let one = format!("{units}    m\n\nBuild succeeded\n    n\n");
        assert_eq!(top(&one, &[], path), Ok("m"));
        let said = top(&format!("{units}    a\n    b\n\n"), &[], path).unwrap_err().to_string();
        assert!(said.contains("2 that no other module contains: a, b"), "{said}");
        assert!(said.contains("mine.v") && said.contains("--top NAME"), "{said}");
        let none = |text| top("Warning: no top", &tokens(text), path).unwrap_err().to_string();
        let said = none("wire x;");
        assert!(said.contains("in mine.v, got a file without one"), "{said}");
        let said = none("module tree(input x); tree t(x); endmodule");
        assert!(said.contains("themselves contain: tree; choose one: `--top NAME`"), "{said}");
        assert!(said.contains("`top=` in Python") && !said.contains("module NAME"), "{said}");
    }

    #[test]
    fn a_top_is_a_module_of_the_text() {
        let two = "module a(input x); endmodule module automatic b(input a); endmodule";
        let named = |name| named(&tokens(two), Some(name), Path::new("mine.v"));
        assert_eq!((named("a"), named("b")), (Ok(Some("a")), Ok(Some("b"))));
        for name in ["c", "x", "b; exec", "", "\\b"] {
            let said = named(name).unwrap_err().to_string();
            assert!(said.contains("choose one of these: a, b"), "{said}");
        }
        let escaped = "module a(input x); endmodule module \\a;b (input x); endmodule";
        let said = |text| {
            let tokens = tokens(text);
            super::named(&tokens, Some("\\a;b"), Path::new("mine.v")).unwrap_err().to_string()
        };
        assert!(said(escaped).ends_with("choose one of these: a"), "{}", said(escaped));
        let alone = said(&escaped[29..]);
        assert!(alone.ends_with("letters, digits and underscores"), "{alone}");
    }

    #[test]
    fn ports_come_as_the_header_names_them() {
        for (text, names) in [
            ("module o(input z); endmodule module m(b, \\a+ , c); input c;", &["b", "a+", "c"][..]),
            (
                "module m import p::*; #(parameter W = f(1), V = 2) (input [W-1:b] c,\n\
                 (* x = 1 *) output t [0:1] b = g(1, 2), input signed a)",
                &["input", "c", "t", "b", "a"],
            ),
            ("module m; wire w; endmodule", &[]),
            ("module m(", &[]),
        ] {
            assert_eq!(ports(&tokens(text), "m"), names, "{text}");
        }
    }
}
