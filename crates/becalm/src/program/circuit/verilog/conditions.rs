//! The parts of a Verilog text that its preprocessor leaves out: the branches of `` `ifdef `` that are not taken.
//!
//! What is left out is not checked, so it must be certain that Yosys leaves it out too. Macros with arguments, directives in
//! the middle of a line and `` `undef `` could hide where a branch begins or ends. In a text with one of these nothing is left out.

use super::source::Token;

/// Names that Yosys defines, or may define.
const GIVEN: [&str; 4] = ["SYNTHESIS", "YOSYS", "FORMAL", "BLACKBOX"];

/// An open condition.
struct Branch {
    /// Whether the text around it is left out.
    outside: bool,
    /// Whether the branch that is open is left out for certain.
    left_out: bool,
    /// Whether one of its branches so far is taken; `None` where that is not certain.
    taken: Option<bool>,
}

/// The tokens of the branches that may be taken.
pub(super) fn taken<'a>(text: &'a str, tokens: Vec<Token<'a>>) -> Vec<Token<'a>> {
    if !plain(text, &tokens) {
        return tokens;
    }
    let named: Vec<&str> = following(&tokens, "`define").collect();
    let (mut open, mut kept): (Vec<Branch>, Vec<Token>) = (vec![], vec![]);
    let mut defined: Vec<&str> = GIVEN[..2].to_vec();
    let mut i = 0;
    while let Some(token) = tokens.get(i) {
        let name = tokens.get(i + 1).map_or("", |t| t.text);
        let is_defined = || match (defined.contains(&name), named.contains(&name)) {
            (true, _) => Some(true),
            (false, false) if word(name) && !GIVEN.contains(&name) => Some(false),
            _ => None,
        };
        let outside = open.last().is_some_and(|b| b.left_out);
        match token.text {
            "`ifdef" | "`ifndef" => {
                let taken = is_defined().map(|d| d == (token.text == "`ifdef"));
                open.push(Branch { outside, left_out: outside || taken == Some(false), taken });
                i += 1;
            }
            "`elsif" | "`else" => {
                let holds = if token.text == "`else" { Some(true) } else { is_defined() };
                if let Some(branch) = open.last_mut() {
                    let never = branch.taken == Some(true) || holds == Some(false);
                    branch.left_out = branch.outside || never;
                    branch.taken = match (branch.taken, holds) {
                        (Some(true), _) | (Some(false), Some(true)) => Some(true),
                        (Some(false), Some(false)) => Some(false),
                        _ => None,
                    };
                }
                i += usize::from(token.text == "`elsif");
            }
            "`endif" => drop(open.pop()),
            _ if outside => {}
            _ => {
                // Where no condition is open, the name is defined from here on.
                if token.text == "`define" && open.is_empty() {
                    defined.push(name);
                }
                kept.push(*token);
            }
        }
        i += 1;
    }
    kept
}

fn word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The tokens after each directive of a name.
fn following<'a>(tokens: &[Token<'a>], directive: &str) -> impl Iterator<Item = &'a str> {
    tokens.windows(2).filter(move |pair| pair[0].text == directive).map(|pair| pair[1].text)
}

/// Whether the name of a directive stands behind it in its line, with blanks between and nothing else: Yosys would take the end of a
/// line for the name.
fn names_next(line: Option<&str>, tokens: &[Token]) -> bool {
    let rest = line.and_then(|l| l.trim_start().strip_prefix(tokens[0].text));
    let name = rest.map_or("", |r| r.trim_start_matches([' ', '\t']));
    tokens.get(1).is_some_and(|t| name.starts_with(t.text))
}

/// Whether conditions and definitions are where they seem to be.
fn plain(text: &str, tokens: &[Token]) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let line = |number: usize| number.checked_sub(1).and_then(|i| lines.get(i)).copied();
    let directives = ["`define", "`ifdef", "`ifndef", "`elsif", "`else", "`endif"];
    tokens.iter().enumerate().all(|(i, token)| {
        let hides = ["`", "``"].contains(&token.text)
            || ["`undef", "`reset"].iter().any(|d| token.text.starts_with(d));
        let directive = directives.contains(&token.text);
        let begins = line(token.line).is_some_and(|l| l.trim_start().starts_with(token.text))
            && !line(token.line - 1).is_some_and(|l| l.trim_end().ends_with('\\'));
        // Only one directive may stand in a line, for the second would not begin it.
        let alone = i == 0 || !directive || tokens[i - 1].line < token.line;
        let names = match token.text {
            "`define" | "`ifdef" | "`ifndef" | "`elsif" => {
                names_next(line(token.line), &tokens[i..])
            }
            _ => true,
        };
        let arguments = token.text == "`define"
            && tokens.get(i + 2).is_some_and(|t| t.text == "(" && t.line == token.line);
        !hides && !arguments && (!directive || begins && alone && names)
    })
}
