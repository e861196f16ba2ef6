//! How the names of a Verilog text are declared: the ranges of each in each module. Macros must be expanded.
//!
//! A declaration is a type, ranges, and names with ranges behind them. A name of two that stand side by side is a type.

use super::source::Token;
use std::collections::HashMap;

/// Words that begin a declaration for Yosys. Others may be names.
const TYPES: &[&str] = &[
    "wire",
    "tri",
    "wand",
    "wor",
    "triand",
    "trior",
    "supply0",
    "supply1",
    "reg",
    "logic",
    "bit",
    "var",
    "integer",
    "int",
    "shortint",
    "longint",
    "byte",
    "real",
    "input",
    "output",
    "inout",
    "signed",
    "unsigned",
    "parameter",
    "localparam",
    "specparam",
    "genvar",
    "typedef",
    "automatic",
    "const",
    "rand",
    "void",
    "function",
];
/// Words that are not names.
const KEYWORDS: &[&str] = &[
    "always",
    "always_comb",
    "always_ff",
    "always_latch",
    "and",
    "assert",
    "assign",
    "assume",
    "begin",
    "bind",
    "break",
    "buf",
    "bufif0",
    "bufif1",
    "case",
    "casex",
    "casez",
    "checker",
    "continue",
    "cover",
    "deassign",
    "default",
    "defparam",
    "disable",
    "do",
    "edge",
    "else",
    "end",
    "endcase",
    "endchecker",
    "endclass",
    "endfunction",
    "endgenerate",
    "endinterface",
    "endmodule",
    "endpackage",
    "endprimitive",
    "endproperty",
    "endspecify",
    "endtable",
    "endtask",
    "enum",
    "eventually",
    "final",
    "for",
    "force",
    "foreach",
    "forever",
    "fork",
    "generate",
    "if",
    "iff",
    "ifnone",
    "import",
    "initial",
    "inside",
    "interface",
    "join",
    "join_any",
    "join_none",
    "macromodule",
    "modport",
    "module",
    "nand",
    "negedge",
    "nor",
    "not",
    "notif0",
    "notif1",
    "or",
    "package",
    "packed",
    "posedge",
    "priority",
    "property",
    "release",
    "repeat",
    "restrict",
    "return",
    "specify",
    "struct",
    "task",
    "union",
    "unique",
    "unique0",
    "wait",
    "while",
    "xnor",
    "xor",
];

/// A text in pieces, with the brackets that belong together.
pub(super) struct Source<'a> {
    pub text: &'a str,
    pub tokens: &'a [Token<'a>],
    /// The closing bracket of each opening one; the number of tokens where there is none.
    pub close: Vec<usize>,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str, tokens: &'a [Token<'a>]) -> Self {
        let (mut close, mut open) = (vec![tokens.len(); tokens.len()], vec![]);
        for (i, token) in tokens.iter().enumerate() {
            match token.text {
                "(" | "[" | "{" => open.push(i),
                ")" | "]" | "}" => {
                    if let Some(first) = open.pop() {
                        close[first] = i;
                    }
                }
                _ => {}
            }
        }
        Source { text, tokens, close }
    }

    /// A token, or nothing beyond the ends.
    pub fn word(&self, i: usize) -> &'a str {
        self.tokens.get(i).map_or("", |token| token.text)
    }

    /// The token so many places before one.
    pub fn before(&self, i: usize, places: usize) -> &'a str {
        i.checked_sub(places).map_or("", |i| self.word(i))
    }

    pub fn is_name(&self, i: usize) -> bool {
        let word = self.word(i);
        let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '\\';
        word.starts_with(letter) && !TYPES.contains(&word) && !KEYWORDS.contains(&word)
    }

    /// Whether a name labels a block: `begin : name`, `endmodule : name`.
    pub fn is_label(&self, i: usize) -> bool {
        let block = self.before(i, 2);
        let blocks = matches!(block, "begin" | "fork") || block.starts_with("end");
        self.before(i, 1) == ":" && (blocks || block.starts_with("join"))
    }

    /// The square brackets that begin at a place, one behind another: where each opens and closes.
    pub fn ranges(&self, mut i: usize) -> Vec<(usize, usize)> {
        let mut found = vec![];
        while self.word(i) == "[" && self.close[i] < self.tokens.len() {
            found.push((i, self.close[i]));
            i = self.close[i] + 1;
        }
        found
    }

    /// The place behind the square brackets that begin at one.
    pub fn behind(&self, i: usize) -> usize {
        self.ranges(i).last().map_or(i, |(_, close)| close + 1)
    }

    /// The first place from one on with one of these words, outside of brackets, or with a bracket that closes.
    pub fn until(&self, mut i: usize, words: &[&str]) -> usize {
        while i < self.tokens.len() && !words.contains(&self.word(i)) {
            match self.word(i) {
                "(" | "[" | "{" => i = self.close[i],
                ")" | "]" | "}" => return i,
                _ => {}
            }
            i += 1;
        }
        i.min(self.tokens.len())
    }

    /// Where a token begins in the text.
    pub fn begin(&self, i: usize) -> usize {
        // Tokens are parts of the text.
        self.tokens
            .get(i)
            .map_or(self.text.len(), |t| t.text.as_ptr() as usize - self.text.as_ptr() as usize)
    }

    /// What stands between a token and the one before.
    pub fn gap(&self, i: usize) -> &'a str {
        let last = i.saturating_sub(1);
        let end = self.begin(last) + self.word(last).len();
        self.text.get(end..self.begin(i)).unwrap_or("")
    }

    /// The same in one line, without comments.
    pub fn space(&self, i: usize) -> &'static str {
        if self.gap(i).is_empty() { "" } else { " " }
    }

    /// Some tokens in one line.
    pub fn joined(&self, from: usize, to: usize) -> String {
        let token = |i| [if i > from { self.space(i) } else { "" }, self.word(i)].concat();
        (from..to).map(token).collect()
    }

    /// The text of some tokens, without what surrounds them.
    pub fn piece(&self, from: usize, to: usize) -> &'a str {
        let end = to.checked_sub(1).map_or(0, |last| self.begin(last) + self.word(last).len());
        self.text.get(self.begin(from)..end).unwrap_or("")
    }
}

/// The ranges of a name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Declared {
    /// How many ranges stand before it, and behind it.
    pub packed: usize,
    pub unpacked: usize,
    /// Whether a type of the text has ranges too, perhaps.
    pub typed: bool,
    /// Whether it is a parameter.
    pub constant: bool,
    /// The declaration, for a message.
    pub text: String,
}

/// The declarations of a text.
pub(super) struct Arrays<'a> {
    names: HashMap<usize, HashMap<&'a str, Declared>>,
    /// The module that each token stands in; 0 outside.
    module: Vec<usize>,
    /// Whether a token belongs to a declared name or to the type before it.
    pub declares: Vec<bool>,
}

impl<'a> Arrays<'a> {
    pub fn new(source: &Source<'a>) -> Self {
        let count = source.tokens.len();
        let mut arrays =
            Arrays { names: HashMap::new(), module: vec![0; count], declares: vec![false; count] };
        let mut module = 0;
        for i in 0..count {
            match source.word(i) {
                "module" | "macromodule" => module = i + 1,
                "endmodule" => module = 0,
                _ => {}
            }
            arrays.module[i] = module;
        }
        let mut i = 0;
        while i < count {
            i = match begins(source, i) {
                true => arrays.declaration(source, i).max(i + 1),
                false => i + 1,
            };
        }
        arrays
    }

    /// How the name at a place is declared.
    pub fn of(&self, place: usize, name: &str) -> Option<&Declared> {
        let module = self.module.get(place).copied().unwrap_or(0);
        [module, 0].iter().find_map(|module| self.names.get(module)?.get(name))
    }

    /// Reads a declaration, and returns the place behind it.
    fn declaration(&mut self, source: &Source<'a>, first: usize) -> usize {
        let (mut at, mut kind) = (first, Declared::default());
        kind.typed = source.word(first) == "}";
        at += usize::from(kind.typed);
        loop {
            let behind = source.behind(at + 1);
            match source.word(at) {
                "[" => {
                    kind.packed += 1;
                    at = source.close[at] + 1;
                    continue;
                }
                "parameter" | "localparam" | "specparam" | "genvar" => kind.constant = true,
                "integer" | "int" | "shortint" | "longint" | "byte" => kind.packed += 1,
                word if TYPES.contains(&word) => {}
                _ if !source.is_name(at) => return at,
                _ if source.word(at + 1) == ":" && source.word(at + 2) == ":" => {
                    kind.typed = true;
                    at += 2;
                }
                _ if source.is_name(behind) && !source.is_label(at) => {
                    kind.typed = true;
                    self.declares[at..behind].fill(true);
                }
                _ => {
                    if kind.text.is_empty() {
                        kind.text = shown(source.piece(first, at));
                    }
                    match self.name(source, at, &kind) {
                        Some(next) => at = next,
                        None => return behind,
                    }
                    continue;
                }
            }
            at += 1;
        }
    }

    /// Takes a declared name, and finds the next one of the same list.
    fn name(&mut self, source: &Source<'a>, at: usize, kind: &Declared) -> Option<usize> {
        let behind = source.behind(at + 1);
        self.declares[at..behind].fill(true);
        let mut declared = kind.clone();
        declared.unpacked = source.ranges(at + 1).len();
        declared.text = [&*kind.text, " ", &shown(source.piece(at, behind))].concat();
        let names = self.names.entry(self.module[at]).or_default();
        let known = names.entry(source.word(at)).or_insert_with(|| declared.clone());
        known.packed = known.packed.max(declared.packed);
        known.unpacked = known.unpacked.max(declared.unpacked);
        known.typed |= declared.typed;
        known.constant &= declared.constant;
        let end = match source.word(behind) {
            "=" => source.until(behind, &[",", ";"]),
            _ => behind,
        };
        let next = source.behind(end + 2);
        let listed = matches!(source.word(next), "," | ";" | "=" | ")");
        (source.word(end) == "," && source.is_name(end + 1) && listed).then_some(end + 1)
    }
}

/// Whether a declaration begins at a place.
fn begins(source: &Source, i: usize) -> bool {
    let word = source.word(i);
    if matches!(source.before(i, 1), "." | "#" | "@" | "`default_nettype") {
        return false;
    }
    if TYPES.contains(&word) {
        return true;
    }
    let scoped = source.word(i + 1) == ":" && source.word(i + 2) == ":" && source.is_name(i + 3);
    match word {
        // `} name` ends a structure.
        "}" => source.is_name(source.behind(i + 1)),
        _ if !source.is_name(i) => false,
        _ if scoped => source.is_name(source.behind(i + 4)),
        _ => source.is_name(source.behind(i + 1)) && !source.is_label(i),
    }
}

/// The first characters of a declaration, for a message.
fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;
    use std::path::Path;

    #[test]
    fn declarations_are_found() {
        let text = "module m #(parameter W = 4) (input [3:0][W-1:0] a, b, input nib [1:0] c, d);\n\
            typedef struct packed { logic [1:0][1:0] f; } s_t; s_t s, t [0:1];\n\
            reg [7:0] mem [0:3][0:1], rom [4] = x[1], v; genvar g;\n\
            always @* begin : name v[1] = a[0][1]; end\nfunction mat_t f(input p); endfunction\n\
            endmodule module n(input [3:0] a); endmodule";
        let tokens = source::check(text, Path::new("m.sv")).unwrap();
        let (source, last) = (Source::new(text, &tokens), tokens.len() - 1);
        let arrays = Arrays::new(&source);
        for (name, packed, unpacked, typed, constant) in [
            ("W", 0, 0, false, true),
            ("a", 2, 0, false, false),
            ("b", 2, 0, false, false),
            ("c", 1, 0, true, false),
            ("f", 2, 0, true, false),
            ("s", 0, 0, true, false),
            ("t", 0, 1, true, false),
            ("mem", 1, 2, false, false),
            ("rom", 1, 1, false, false),
            ("v", 1, 0, false, false),
            ("g", 0, 0, false, true),
        ] {
            let d = arrays.of(1, name).expect(name);
            let got = (d.packed, d.unpacked, d.typed, d.constant);
            assert_eq!(got, (packed, unpacked, typed, constant), "{name}");
        }
        assert_eq!(arrays.of(1, "mem").unwrap().text, "reg [7:0] mem [0:3][0:1]");
        assert_eq!(arrays.of(last - 1, "a").unwrap().packed, 1);
        let used = tokens.iter().rposition(|t| t.text == "a" && t.line == 4).unwrap();
        assert!(!arrays.declares[used]);
    }
}
