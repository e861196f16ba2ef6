//! Refusals of a Verilog text before Yosys sees it, with the line: other files, and bits that are neither 0 nor 1.
//!
//! Yosys takes `x` and `z` for whatever suits it, so that a circuit with them would compute something that the text does not
//! say. In the labels of `casez` and `casex` they are patterns, and stay.

use super::super::quoted;
use crate::{Error, Result};
use std::path::Path;

/// A piece of the text with its line: a word with what belongs to it (`4'b1?`, `$readmemh`, `` `define ``), or a sign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub line: usize,
    pub text: &'a str,
}

/// Refuses a text that names other files, or that has bits which are neither 0 nor 1. The tokens that Yosys may read.
///
/// # Errors
/// [`Error::BadInput`] with the line of the file at `path`.
pub(super) fn check<'a>(text: &'a str, path: &Path) -> Result<Vec<Token<'a>>> {
    let mut cases = Cases::default();
    let tokens = tokens(text);
    for (i, token) in tokens.iter().enumerate() {
        let refused =
            |wanted: &str, remedy: &str| Err(at_line(wanted, token.line, path, token.text, remedy));
        if matches!(token.text, "`include" | "$readmemh" | "$readmemb" | "$fopen") {
            let remedy = "copy the contents of that file to this place; the text of a branch that is not taken counts too";
            return refused("a text that reads no other file", remedy);
        }
        if token.text == "``" {
            let remedy = "write out the name that the macro puts together";
            return refused("names that are written out", remedy);
        }
        if matches!(token.text, "bufif0" | "bufif1" | "notif0" | "notif1") {
            return refused(
                "gates that drive 0 or 1",
                "write the choice with `?:`, because a circuit has no `z`",
            );
        }
        let before = i.checked_sub(1).map_or("", |b| tokens[b].text);
        let after = tokens.get(i + 1).map_or("", |a| a.text);
        cases.step(token.text);
        if is_unknown(token.text) && !cases.is_label(before, after) {
            let wanted = "bits that are 0 or 1";
            return refused(wanted, "give a value in every case: a circuit has no `x` and no `z`");
        }
    }
    Ok(tokens)
}

/// The text without comments, with one kind of line end. A text that readers of Verilog take in different ways raises an error: what one takes for
/// a comment or a string must be code for none. Lines keep their numbers.
///
/// # Errors
/// [`Error::BadInput`] with the line of the file at `path`.
pub(super) fn plain(text: &str, path: &Path) -> Result<String> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let (mut made, mut rest, mut line) = (String::with_capacity(text.len()), &text[..], 1);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(length(rest));
        if let Some((wanted, remedy)) = ambiguous(piece, behind) {
            return Err(at_line(wanted, line, path, piece.lines().next().unwrap_or(""), remedy));
        }
        match piece.starts_with("//") || piece.starts_with("/*") {
            true => made.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' })),
            false => made.push_str(piece),
        }
        line += piece.matches('\n').count();
        rest = behind;
    }
    Ok(made)
}

/// The need that a piece does not meet, and the remedy, where readers differ in what it is.
fn ambiguous(piece: &str, behind: &str) -> Option<(&'static str, &'static str)> {
    match piece.as_bytes()[0] {
        b'"' if !is_closed(piece) || piece == "\"\"" && behind.starts_with('"') => {
            Some(("strings that end in their line", "close the string with one quote"))
        }
        b'"' | b'\\' if piece.contains('`') => {
            Some(("strings and names without the sign of macros", "leave the sign out"))
        }
        b'/' if piece.starts_with("/*") && !(piece.len() > 3 && piece.ends_with("*/")) => {
            Some(("comments that end", "close the comment with `*/`"))
        }
        b'`' if !piece[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "_`".contains(c)) => {
            Some(("the name of a macro or directive", "write the name right behind the sign"))
        }
        _ => None,
    }
}

/// Whether a string ends with the quote that closes it.
fn is_closed(piece: &str) -> bool {
    let escapes =
        piece[1..].strip_suffix('"').map(|rest| rest.len() - rest.trim_end_matches('\\').len());
    escapes.is_some_and(|escapes| escapes % 2 == 0)
}

/// [`check`] of the text that Yosys gets, behind macros, which may have put a name together: `$` and `readmemh`. It names no other file
/// anywhere, whatever stands around the name: in strings too.
///
/// # Errors
/// As [`check`].
pub(super) fn check_expanded<'a>(text: &'a str, path: &Path) -> Result<Vec<Token<'a>>> {
    // The second is another spelling of directives.
    let names = ["`include", "`\\", "$readmem", "$fopen"];
    if let Some((name, at)) = names.iter().find_map(|name| Some((name, text.find(name)?))) {
        let line = 1 + text[..at].matches('\n').count();
        let (wanted, remedy) =
            ("a text that reads no other file", "copy the contents of that file to this place");
        return Err(at_line(wanted, line, path, name, remedy));
    }
    check(text, path)
}

/// A refusal of a piece of text in a line.
pub(super) fn at_line(wanted: &str, line: usize, path: &Path, got: &str, remedy: &str) -> Error {
    refused_with(line, wanted, quoted(got), path, remedy)
}

/// [`at_line`] with its own words for the input.
pub(super) fn refused_with(
    line: usize,
    wanted: &str,
    got: String,
    path: &Path,
    remedy: &str,
) -> Error {
    let wanted = format!("{wanted} in line {line} of {}", path.display());
    Error::bad_input("circuit", wanted, got, remedy)
}

/// Which `case` statements are open.
#[derive(Default)]
struct Cases {
    /// For each whether it has patterns, and how deep in brackets it stands.
    open: Vec<(bool, usize)>,
    depth: usize,
}

impl Cases {
    fn step(&mut self, token: &str) {
        match token {
            "(" | "[" | "{" => self.depth += 1,
            ")" | "]" | "}" => self.depth = self.depth.saturating_sub(1),
            "casez" | "casex" => self.open.push((true, self.depth)),
            "case" => self.open.push((false, self.depth)),
            "endcase" => drop(self.open.pop()),
            _ => {}
        }
    }

    /// Whether a number between these two is a label of a `case` with patterns.
    fn is_label(&self, before: &str, after: &str) -> bool {
        let labels = self.open.last().is_some_and(|(patterns, at)| *patterns && *at == self.depth);
        let begins = matches!(before, ")" | ";" | "," | "end" | "endcase");
        labels && begins && matches!(after, ":" | ",")
    }
}

/// Whether a number has bits that are neither 0 nor 1: `1'bx`, `8'hzz`, `4'b1??0`, `'x`.
fn is_unknown(token: &str) -> bool {
    let Some((_, digits)) = token.split_once('\'').filter(|_| !token.starts_with('\\')) else {
        return false;
    };
    let digits = digits.trim_start_matches(['s', 'S']);
    let digits = digits.trim_start_matches(['b', 'B', 'o', 'O', 'd', 'D', 'h', 'H']);
    digits.trim_start().contains(['x', 'X', 'z', 'Z', '?'])
}

/// Words and signs without comments and strings.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut found, mut at, mut line) = (vec![], 0, 1);
    while at < bytes.len() {
        let end = at + length(&text[at..]);
        let piece = &text[at..end];
        let comment = piece.starts_with("//") || piece.starts_with("/*");
        if !comment && !piece.starts_with('"') && !piece.trim().is_empty() {
            found.push(Token { line, text: piece });
        }
        line += piece.matches('\n').count();
        at = end;
    }
    found
}

/// The text for Yosys: without the words by which a `case` or an `if` promises that all values have a branch, and one alone. Yosys believes
/// them, and gives values without a branch, or with two, whatever suits it. Without them the first branch that fits is taken, and a
/// result without a branch is memory, which raises an error. Lines keep their numbers.
pub(super) fn without_promises(text: &str) -> String {
    let promise = |piece: &str| piece.contains("full_case") || piece.contains("parallel_case");
    let (mut made, mut rest) = (String::with_capacity(text.len()), text);
    let (mut attribute, mut define) = (false, false);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(length(rest));
        attribute = match piece {
            "(" => attribute || behind.starts_with('*') && !behind.starts_with("*)"),
            "*" => attribute && !behind.starts_with(')'),
            _ => attribute,
        };
        // A macro may be an attribute. Its text ends with the line, unless a backslash stands there.
        let ends = piece.trim().is_empty() && piece.contains('\n') && !made.ends_with('\\');
        define = piece == "`define" || define && !ends;
        let comment = piece.starts_with("//") || piece.starts_with("/*");
        match matches!(piece, "unique" | "unique0" | "priority") || comment && promise(piece) {
            true => made.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' })),
            // An attribute that means nothing to Yosys.
            false if (attribute || define) && promise(piece) => made.extend(["no_", piece]),
            false => made.push_str(piece),
        }
        rest = behind;
    }
    made
}

/// How many bytes the piece at the beginning of a text has, which is not empty.
fn length(text: &str) -> usize {
    let until = |what: &str| text.find(what).unwrap_or(text.len());
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let run = |text: &str| text.find(|c| !word(c)).unwrap_or(text.len());
    let first = text.chars().next().unwrap_or(' ');
    match first {
        '/' if text.starts_with("//") => until("\n"),
        '/' if text.starts_with("/*") => (text[2..].find("*/")).map_or(text.len(), |end| end + 4),
        '"' => string(text),
        '\\' => text.find(char::is_whitespace).unwrap_or(text.len()),
        '`' if text.starts_with("``") => 2,
        '`' => 1 + run(&text[1..]),
        '\'' => number(text, 0),
        c if c.is_ascii_digit() => {
            let size = run(text);
            let rest = text[size..].trim_start();
            match rest.starts_with('\'') {
                true => number(text, text.len() - rest.len()),
                false => size,
            }
        }
        c if word(c) => run(text),
        c if c.is_whitespace() => text.find(|c: char| !c.is_whitespace()).unwrap_or(text.len()),
        c => c.len_utf8(),
    }
}

/// The length of a string with its quotes, or of what stands in its line; a backslash takes the next letter along.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\n' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The length of a number whose quote stands at `quote`: base, perhaps white space, digits.
fn number(text: &str, quote: usize) -> usize {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '?';
    let run = |at: usize| text[at..].find(|c| !word(c)).map_or(text.len(), |n| at + n);
    let base = run(quote + 1);
    // `4 'b 01`: the base alone, and digits after it.
    let alone = &text[quote + 1..base].trim_start_matches(['s', 'S']);
    if !matches!(*alone, "b" | "B" | "o" | "O" | "d" | "D" | "h" | "H") {
        return base;
    }
    let digits = text.len() - text[base..].trim_start().len();
    run(digits).max(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        check(text, Path::new("mine.v")).map_or_else(|e| e.to_string(), |_| String::new())
    }

    #[test]
    fn bits_that_are_neither_0_nor_1_are_refused_with_their_line() {
        for (text, line) in [
            ("assign y = 1'bx;", 1),
            ("\n\nassign y = 1'bz;", 3),
            ("// 1'bx\nassign y = a ? 8 'h zz : b;", 2),
            ("/* 1'bx\n */ y <= 'x;", 2),
            ("y = '0;\ny = 4'b1??0;", 2),
            ("casez (a) 2'b1?: y = 1'bx; endcase", 1),
            ("casez (a)\n2'b1?: y = s ? 1'bz : b;\nendcase", 2),
            ("casez (a)\n2'b1?: y = {1'b0, 1'bz, b};\nendcase", 2),
            ("casez (a)\n2'b1?: y = 1;\nendcase\nassign z = 1'sbX;", 4),
            ("case (a)\n2'b1?: y = 1;\nendcase", 2),
            ("s = \"\\\"\";\ny = 12'o7x;", 2),
            ("y = 3'dz;", 1),
            ("\nbufif1 (c, a, b);", 2),
        ] {
            let said = said(text);
            let place = format!("in line {line} of mine.v");
            assert!(said.contains(&place) && said.contains("0 or 1"), "{text}: {said}");
        }
    }

    #[test]
    fn promises_are_taken_out_and_nothing_else() {
        for (text, made) in [
            ("unique case (a)", "       case (a)"),
            ("priority if (a)", "         if (a)"),
            ("(* full_case, keep *) case (a)", "(* no_full_case, keep *) case (a)"),
            ("(*\nfull_case *) case (a)", "(*\nno_full_case *) case (a)"),
            ("`define F full_case\nfull_case", "`define F no_full_case\nfull_case"),
            ("`define F \\\n full_case", "`define F \\\n no_full_case"),
            ("case (a) // synopsys full_case\n1", "case (a)                      \n1"),
            ("/* synopsys\nparallel_case */ b", "           \n                 b"),
        ] {
            assert_eq!(without_promises(text), made);
        }
        for text in [
            "always @(*) y = full_case * (a); // unique",
            "assign y = (a*b)*(full_case); initial $display(\"unique (* full_case *)\");",
            "(* keep *) wire full_case; // synopsys translate_off",
        ] {
            assert_eq!(without_promises(text), text);
        }
    }

    #[test]
    fn patterns_names_and_comments_stay() {
        for text in [
            "casez (a) 2'b1?, 2'b?1: y = 1; default: y = 0; endcase",
            "casex (a) 2'b1x: begin y = 1; end 2'bx1: y = 0; endcase",
            "casez (a) 2'b1?: case (b) 1'b0: y = 1; endcase 2'b?1: y = 0; endcase",
            "assign x = z ? '1 : 8'hab + 8'd10 + 'd3 + 4'sb01; // 1'bx",
            "wire \\1'bx ; initial $display(\"1'bz `include\");",
            "/* `include \"x\" $readmemh */ `define A 1\nassign y = `A; // ``",
        ] {
            assert_eq!(said(text), "", "{text}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "`include \"a.v\"",
            "`define I `include \"a.v\"\n`I",
            "initial $readmemh(\"a\", m);",
            "initial $readmemb(\"a\", m);",
            "`define R(x) $read``x\ninitial `R(memh)(\"a\", m);",
        ] {
            let said = said(text);
            assert!(said.contains("in line 1 of mine.v"), "{text}: {said}");
        }
    }

    #[test]
    fn texts_that_readers_take_in_different_ways_are_refused() {
        for text in [
            "`ifdef NOPE\n`\"\n`endif",
            "`define Q() `\n",
            "`ifdef NOPE\n\"\n`endif\n\"",
            "x = \"\"\"a\nb\"\"\";",
            "\"`include\"",
            "\\a`b ",
            "assign y = a; /* b",
            "`\\include \"a\"",
            "\"a\\\\\\\"\n",
        ] {
            let said = plain(text, Path::new("mine.v")).map_err(|e| e.to_string());
            assert!(said.as_ref().is_err_and(|e| e.contains("of mine.v")), "{text}: {said:?}");
        }
        let text = "a // b\rc /* `\" */ d \"e\\\"f\\\\\" \\g\" \"h\\\ni\"\r\n`ifdef j";
        let found = plain(text, Path::new("mine.v")).unwrap();
        assert_eq!(found, "a     \nc          d \"e\\\"f\\\\\" \\g\" \"h\\\ni\"\n`ifdef j");
    }

    /// Whether a branch is taken is Yosys' affair: a check that guesses it could be led astray.
    #[test]
    fn branches_are_checked_whether_taken_or_not() {
        for text in ["`ifdef SIM\nBAD\n`endif", "`ifdef SIM\ny\n`else\nBAD\n`endif"] {
            let said = said(&text.replace("BAD", "initial $readmemh(\"f\", m);"));
            assert!(said.contains("$readmemh") && said.contains("not taken"), "{text}: {said}");
        }
    }

    #[test]
    fn texts_that_end_anywhere_are_read() {
        let text = "casez (a) 4 'b 1?: \"s\\\"\" /* c */ `d \\e // é\n 'h\u{e9} ``";
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = check(&text[..end], Path::new("mine.v"));
            let _ = check(&text[end..], Path::new("mine.v"));
        }
    }
}
