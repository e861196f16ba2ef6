//! Refusals of a Verilog text before Yosys sees it, with the line: other files, bits that are neither 0 nor 1, and divisions by 0.
//!
//! Yosys takes `x` and `z` for whatever suits it, so that a circuit with them would compute something that the text does not
//! say. In the labels of `casez` and `casex` they are patterns, and stay.

use crate::{Error, Result};
use std::path::Path;

/// A piece of the text with its line: a word with what belongs to it (`4'b1?`, `$readmemh`, `` `define ``), or a sign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub line: usize,
    pub text: &'a str,
}

/// The words for a divisor of 0: the value wanted, and the remedy.
pub(super) const DIVISOR: (&str, &str) =
    ("a divisor other than 0", "do not divide by 0: the result would have no value");

/// The words for a port of both directions: the value wanted, and the remedy.
const DIRECTION: (&str, &str) =
    ("ports that are inputs or outputs", "make an input and an output of it, with two names");

/// System tasks and functions that a circuit cannot do, and why.
const TASKS: [(&str, &str); 8] = [
    ("$finish", "a circuit does not stop"),
    ("$stop", "a circuit does not stop"),
    ("$fatal", "a circuit does not stop"),
    ("$random", "a circuit draws no random numbers; make them an input"),
    ("$urandom", "a circuit draws no random numbers; make them an input"),
    ("$urandom_range", "a circuit draws no random numbers; make them an input"),
    ("$time", "a circuit has no clock; make the time an input"),
    ("$realtime", "a circuit has no clock; make the time an input"),
];

/// Refuses a text that names other files, that has bits which are neither 0 nor 1, or that divides by the number 0. The tokens
/// that Yosys may read.
///
/// # Errors
/// [`Error::BadInput`] with the line of the file at `path`.
pub(super) fn check<'a>(text: &'a str, path: &Path) -> Result<Vec<Token<'a>>> {
    let (mut cases, mut routine) = (Cases::default(), false);
    let tokens = tokens(text);
    for (i, token) in tokens.iter().enumerate() {
        let refused =
            |wanted: &str, remedy: &str| Err(at_line(wanted, token.line, path, token.text, remedy));
        if matches!(token.text, "`include" | "$readmemh" | "$readmemb" | "$fopen") {
            let remedy = "copy the contents of that file to this place; the text of a branch that is not taken counts too";
            return refused("a text that reads no other file", remedy);
        }
        if let Some((_, why)) = TASKS.iter().find(|task| task.0 == token.text) {
            return refused("a module without this system task", &format!("take it out: {why}"));
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
        match token.text {
            "task" | "function" => routine = true,
            "endtask" | "endfunction" => routine = false,
            // An argument of a task is copied in and out; a port would be an input beside an output.
            "inout" if !routine => {
                let got = format!("inout {}", declared(&tokens[i + 1..]));
                let (wanted, remedy) = DIRECTION;
                return Err(at_line(wanted, token.line, path, &got, remedy));
            }
            _ => {}
        }
        let before = i.checked_sub(1).map_or("", |b| tokens[b].text);
        let after = tokens.get(i + 1).map_or("", |a| a.text);
        if let Some(refusal) = zero_divisor(&tokens[i..]) {
            let (wanted, remedy) = DIVISOR;
            let got = [token.text, refusal].concat();
            return Err(at_line(wanted, token.line, path, &got, remedy));
        }
        cases.step(token.text);
        if is_unknown(token.text) && !cases.is_label(before, after) {
            let wanted = "bits that are 0 or 1";
            return refused(wanted, "give a value in every case: a circuit has no `x` and no `z`");
        }
    }
    Ok(tokens)
}

/// The first name that a declaration gives, after its type and its range.
fn declared<'a>(tokens: &[Token<'a>]) -> &'a str {
    let mut depth = 0;
    for text in tokens.iter().map(|token| token.text) {
        match text {
            "[" => depth += 1,
            "]" => depth -= 1,
            _ if depth > 0 => {}
            "wire" | "tri" | "wand" | "wor" | "logic" | "reg" | "var" | "signed" | "unsigned" => {}
            name => return name,
        }
    }
    ""
}

/// A refusal of a piece of text in a line.
pub(super) fn at_line(wanted: &str, line: usize, path: &Path, got: &str, remedy: &str) -> Error {
    let wanted = format!("{wanted} in line {line} of {}", path.display());
    let got: String = got.chars().take(60).collect();
    Error::bad_input("circuit", wanted, format!("`{got}`"), remedy)
}

/// The number 0 by which the first of the tokens divides, perhaps in brackets.
fn zero_divisor<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text);
    // `/=` and `%=` divide too.
    let first = 1 + usize::from(text(1) == "=");
    let open = tokens.iter().skip(first).take_while(|token| token.text == "(").count();
    let (number, after) = (text(first + open), first + open + 1);
    let end = after + if text(after) == "." { 2 } else { 0 };
    let closed = tokens.iter().skip(end).take_while(|token| token.text == ")").count();
    let fraction = text(after + 1).chars().all(|c| c == '0' || c == '_');
    // `0.5`, and a power, which binds tighter.
    let alone = (text(after) != "." || fraction) && [text(after), text(after + 1)] != ["*", "*"];
    (matches!(text(0), "/" | "%") && is_zero(number) && alone && closed >= open).then_some(number)
}

/// Whether a token is the number 0: `0`, `4'd0`, `8'b0000_0000`, `'0`.
fn is_zero(token: &str) -> bool {
    let number = token.starts_with(|c: char| c == '\'' || c.is_ascii_digit());
    let digits = token.split_once('\'').map_or(token, |(_, digits)| digits);
    let digits = digits.trim_start_matches(['s', 'S']);
    let digits = digits.trim_start_matches(['b', 'B', 'o', 'O', 'd', 'D', 'h', 'H']).trim_start();
    let zeros = digits.chars().all(|c| c == '0' || c == '_');
    number && zeros && digits.starts_with('0')
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
/// result without a branch is memory, which is refused. Lines keep their numbers.
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

/// The length of a string with its quotes; a backslash takes the next letter along.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
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
    fn divisions_by_the_number_0_are_refused_with_their_line() {
        for (text, line) in [
            ("assign y = e ? a : (a/4'd0);", 1),
            ("\nlocalparam P = 2'd1/2'd0;", 2),
            ("// a/0\n\nassign y = a % ((8'b0000_0000)) + 1;", 3),
            ("y = a /\n0;", 1),
            ("for (i = 1; i < 3; i = i + 1)\n  y /= 'h 00;", 2),
            ("y = f(a / '0);", 1),
            ("`define D a % 3'so0", 1),
            ("\nlocalparam real R = 1.0 / (0.00);", 2),
        ] {
            let said = said(text);
            let place = format!("a divisor other than 0 in line {line} of mine.v");
            assert!(said.contains(&place), "{text}: {said}");
        }
        for text in [
            "assign y = a / 4'd10 + 0 / a; // a/0",
            "`timescale 1ns/1ps\n(* src = \"a/0\" *) assign y = a % (0 + 8'h01);",
            "localparam real R = 1.0 / 0.5; y = a / 0 ** b / zero / \\0 ;",
            "/* a/0 */ y = a / '1 % 'd0_1 / b[0];",
        ] {
            assert_eq!(said(text), "", "{text}");
        }
    }

    #[test]
    fn ports_of_both_directions_are_refused_with_their_line() {
        for (text, line, name) in [
            ("module m(input a, inout b);", 1, "inout b"),
            ("module m(a, b);\ninput a;\ninout wire signed [2*W-1:0][1:0] b, c;", 3, "inout b"),
            ("task t(inout x); endtask\nmodule m(inout\n\\x* , y);", 2, "inout \\x*"),
            ("inout", 1, "inout "),
        ] {
            let said = said(text);
            let place = format!("inputs or outputs in line {line} of mine.v, got `{name}`");
            assert!(said.contains(&place), "{text}: {said}");
        }
        let routines = "task t(inout x); endtask\nfunction automatic f(inout x); endfunction";
        assert_eq!(said(routines), "");
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

    /// Whether a branch is taken is Yosys' affair: a check that guesses it could be led astray.
    #[test]
    fn branches_are_checked_whether_taken_or_not() {
        for text in ["`ifdef SIM\nBAD\n`endif", "`ifdef SIM\ny\n`else\nBAD\n`endif"] {
            let said = said(&text.replace("BAD", "initial $readmemh(\"f\", m);"));
            assert!(said.contains("$readmemh") && said.contains("not taken"), "{text}: {said}");
        }
    }

    #[test]
    fn system_tasks_are_refused_with_their_line() {
        for (text, line) in [("initial $finish;", 1), ("\nassign y = $random;", 2)] {
            let said = said(text);
            let place = format!("a module without this system task in line {line} of mine.v");
            assert!(said.contains(&place) && said.contains("take it out"), "{said}");
        }
    }

    #[test]
    fn several_tops_are_refused_with_their_names() {
        let top = |text: &str, named| {
            super::super::modules::top(&tokens(text), named, Path::new("mine.v"))
                .map_err(|e| e.to_string())
        };
        let two = "module a(input x); endmodule module b(input a); assign y = a; endmodule";
        let said = top(two, None).unwrap_err();
        assert!(said.contains("2 that no other module contains: a, b"), "{said}");
        assert!(said.contains("--top NAME"), "{said}");
        assert_eq!(top(two, Some("b")), Ok(Some("b")));
        for name in ["c", "b; exec", "", "\\b"] {
            let said = top(two, Some(name)).unwrap_err();
            assert!(said.contains("choose one of these: a, b"), "{said}");
        }
        for text in [
            "module a(input x); endmodule module b; a u(x); endmodule",
            "module a #(parameter W = 1) (input x); endmodule module b; a #(2) u(x); endmodule",
            "module a; endmodule : a (* top *) module b; endmodule",
            "module automatic a; endmodule",
        ] {
            assert_eq!(top(text, None), Ok(None), "{text}");
        }
        assert!(top("wire x;", None).unwrap_err().contains("a module in mine.v, got a file"));
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
