//! Guards around the indices of arrays, written into the text for Yosys.
//!
//! Yosys flattens dimensions before anybody can look at them: an index past the end of an inner one names the bits that lie behind,
//! and an index that is wider than an array's addresses loses its high bits. So the text asks first whether every index is within its
//! range, in the words of `$low` and `$size`. A read past the end gives 0 then, and a write does nothing.
//!
//! What Yosys folds tells constants from the rest: a read with a constant index out of range becomes `x`, which is refused. Conditions
//! are compared beside a number that is [`READ`], [`PAST`] or [`PART`] bits wide, by which the script finds them.

use super::arrays::{Arrays, Declared, Source};
use super::source::at_line;
use crate::Result;
use std::path::Path;

/// Bits of the number beside the condition of a read, of its value past the end, and of a part that is written.
const READ: usize = 131;
const PAST: usize = 134;
const PART: usize = 132;
/// The widths of those comparisons in Yosys.
pub(super) const PAST_WIDTH: usize = PAST + 1;
pub(super) const PART_WIDTH: usize = PART + 1;
/// The width of the choice that a guarded write is.
pub(super) const WRITE_WIDTH: usize = READ + 1;
/// How deep indices of arrays stand within each other: each level is written several times.
const DEEP: usize = 4;
/// Indices of one signal, at most.
const MOST: usize = 16;
/// Functions that look at a name and not at its value.
const QUERIES: [&str; 9] = [
    "$bits",
    "$size",
    "$high",
    "$low",
    "$left",
    "$right",
    "$increment",
    "$dimensions",
    "$unpacked_dimensions",
];

/// An index that has a guard: its line, its text, and the declaration of its signal.
#[derive(Debug)]
pub(super) struct Site {
    pub line: usize,
    pub text: String,
    pub declared: String,
}

/// A text with guards.
#[derive(Debug)]
pub(super) struct Guarded {
    pub text: String,
    pub sites: Vec<Site>,
}

/// What stands between square brackets.
enum Index {
    At(String),
    Range(String, String),
    /// A first place, a width, and whether it goes up.
    Part(String, String, bool),
}

impl Index {
    fn text(&self) -> String {
        match self {
            Index::At(at) => format!("[{at}]"),
            Index::Range(left, right) => format!("[{left}:{right}]"),
            Index::Part(first, width, true) => format!("[{first}+:{width}]"),
            Index::Part(first, width, false) => format!("[{first}-:{width}]"),
        }
    }
}

/// A signal with indices.
struct Chain {
    path: String,
    ranges: Vec<(usize, usize)>,
    declared: Declared,
    end: usize,
}

/// Puts guards around all indices that need them. Macros are expanded. The text may grow to so many bytes.
///
/// # Errors
/// [`Error::BadInput`](crate::Error::BadInput) for indices that cannot have one, with the line of the file at `path`.
pub(super) fn guarded(
    source: &Source,
    arrays: &Arrays,
    (path, most): (&Path, u64),
) -> Result<Guarded> {
    let places = Places::new(source);
    let mut writer = Writer { places, source, arrays, path, most, sites: vec![] };
    let count = source.tokens.len();
    let inner = writer.rewritten(0, count, 0, true)?;
    let piece = source.piece(0, count);
    let (begin, end) = (source.begin(0), source.begin(0) + piece.len());
    let text = [&source.text[..begin], &inner, &source.text[end..]].concat();
    Ok(Guarded { text, sites: writer.sites })
}

/// Which tokens begin a statement, are assigned continuously, and stand in lists that are assigned or in `initial`.
struct Places {
    statement: Vec<bool>,
    continuous: Vec<bool>,
    list: Vec<bool>,
    initial: Vec<bool>,
}

impl Places {
    fn new(source: &Source) -> Self {
        let count = source.tokens.len();
        let none = || vec![false; count];
        let mut places =
            Places { statement: none(), continuous: none(), list: none(), initial: none() };
        // Open `?`, in each open bracket.
        let mut choices = vec![0_usize];
        for i in 0..count {
            let (last, second) = (source.before(i, 1), source.before(i, 2));
            let mut label = false;
            match last {
                "?" => *choices.last_mut().unwrap_or(&mut 0) += 1,
                ":" => match choices.last_mut() {
                    Some(open) if *open > 0 => *open -= 1,
                    _ => label = second != ":",
                },
                ";" => choices = vec![0],
                "(" | "[" | "{" => choices.push(0),
                ")" | "]" | "}" if choices.len() > 1 => drop(choices.pop()),
                _ => {}
            }
            let begins = matches!(
                last,
                ";" | ")"
                    | "begin"
                    | "end"
                    | "else"
                    | "endcase"
                    | "initial"
                    | "final"
                    | "fork"
                    | "join"
                    | "do"
                    | "forever"
                    | "default"
                    | "always_comb"
                    | "always_latch"
            );
            let named = i > 0 && source.is_label(i - 1);
            // `@*`, `@clock` and `#10`.
            let waits = matches!(second, "@" | "#") && last != "(";
            places.statement[i] = begins || named || waits || label && !source.is_label(i);
            if source.word(i) == "assign" {
                places.assigned(source, i + 1);
            }
            let first = places.statement[i] || places.continuous[i];
            if source.word(i) == "{" && first && assigns(source, source.close[i] + 1) {
                places.list[i..source.close[i]].fill(true);
                let continuous = places.continuous[i];
                places.continuous[i..source.close[i]].fill(continuous);
            }
            if source.word(i) == "initial" {
                let end = ends(source, i + 1);
                places.initial[i..end].fill(true);
            }
        }
        places
    }

    /// Marks the signals that a list of continuous assignments assigns.
    fn assigned(&mut self, source: &Source, mut at: usize) {
        if source.word(at) == "#" {
            at += 2;
        }
        while at < source.tokens.len() {
            self.continuous[at] = true;
            at = source.until(at, &[",", ";"]);
            if source.word(at) != "," {
                return;
            }
            at += 1;
        }
    }
}

/// The place behind the statement that begins at one.
fn ends(source: &Source, from: usize) -> usize {
    let mut depth = 0;
    for i in from..source.tokens.len() {
        match source.word(i) {
            "begin" | "case" | "casez" | "casex" => depth += 1,
            "end" | "endcase" => {
                depth -= 1;
                if depth <= 0 {
                    return i + 1;
                }
            }
            ";" if depth == 0 && source.until(from, &[";"]) <= i => return i + 1,
            "endmodule" => return i,
            _ => {}
        }
    }
    source.tokens.len()
}

/// Whether an assignment to what stands before a place goes on there.
fn assigns(source: &Source, at: usize) -> bool {
    let word = |n| source.word(at + n);
    match word(0) {
        "=" => word(1) != "=",
        "<" if word(1) == "<" => word(2) == "=" || word(2) == "<" && word(3) == "=",
        ">" if word(1) == ">" => word(2) == "=" || word(2) == ">" && word(3) == "=",
        "+" | "-" => word(1) == "=" || word(1) == word(0),
        "<" | "*" | "/" | "%" | "&" | "|" | "^" => word(1) == "=",
        _ => false,
    }
}

struct Writer<'s, 'a> {
    source: &'s Source<'a>,
    arrays: &'s Arrays<'a>,
    path: &'s Path,
    /// Bytes that a text with guards may have.
    most: u64,
    places: Places,
    sites: Vec<Site>,
}

impl Writer<'_, '_> {
    /// The text of some tokens with guards: with its lines and comments, or in one line.
    fn rewritten(&mut self, from: usize, to: usize, depth: usize, lines: bool) -> Result<String> {
        let (source, mut out, mut i) = (self.source, String::new(), from);
        while i < to {
            if i > from {
                out += if lines { source.gap(i) } else { source.space(i) };
            }
            let query = QUERIES.contains(&source.word(i)) && source.word(i + 1) == "(";
            i = match self.chain(i).filter(|chain| chain.end <= to) {
                _ if query => {
                    let end = (source.close[i + 1] + 1).min(to);
                    out += &if lines { source.piece(i, end).into() } else { source.joined(i, end) };
                    end
                }
                Some(chain) => {
                    let (text, end) = self.guard(i, &chain, depth)?;
                    out += &text;
                    // Lines keep their numbers.
                    let piece = source.piece(i, chain.end);
                    out.extend(piece.chars().filter(|c| lines && *c == '\n'));
                    end
                }
                None => {
                    out += source.word(i);
                    i + 1
                }
            };
            // An index is written several times.
            if out.len() as u64 > self.most / if lines { 1 } else { 64 } {
                let wanted = "indices whose guards fit the memory";
                let line = self.source.tokens[from].line;
                let remedy =
                    "give inner indices signals of their own, or raise the limit of memory";
                return Err(at_line(wanted, line, self.path, self.source.word(from), remedy));
            }
        }
        Ok(out)
    }

    /// The signal with indices that begins at a place, if they need guards.
    fn chain(&self, i: usize) -> Option<Chain> {
        let source = self.source;
        let scoped = source.before(i, 1) == ":" && source.before(i, 2) == ":";
        let part = scoped || source.before(i, 1) == ".";
        if part || !source.is_name(i) || self.arrays.declares[i] {
            return None;
        }
        // `scope[0].structure.member[1]`: the last name has the indices.
        let (mut last, mut at) = (i, i + 1);
        let ranges = loop {
            let ranges = source.ranges(at);
            let behind = source.behind(at);
            if source.word(behind) != "." || !source.is_name(behind + 1) {
                break ranges;
            }
            (last, at) = (behind + 1, behind + 2);
        };
        if ranges.is_empty() {
            return None;
        }
        let declared = match self.arrays.of(i, source.word(last)) {
            Some(declared) => declared.clone(),
            None => Declared { typed: true, packed: 2, ..Declared::default() },
        };
        let several = ranges.len() > 1;
        let split = |(open, close): &(usize, usize)| self.split(*open, *close).is_some();
        let parts = ranges.iter().filter(|range| split(range)).count();
        let last_is_part = ranges.last().is_some_and(split);
        let wanted = match &declared {
            d if d.text.is_empty() => several,
            d if d.constant => several,
            d if !d.typed && d.unpacked == 0 => several || parts > 0 && d.packed > 1,
            d => ranges.len() >= d.unpacked.max(1),
        };
        // Only the last index is a part, and the order of the bits in that of a sole dimension is Yosys's affair.
        let rows = declared.packed > 1 || declared.typed;
        let sole = parts == 1 && last_is_part && (several || rows) || parts == 0;
        (wanted && sole).then(|| Chain {
            path: source.joined(i, at) + " ",
            end: source.behind(at),
            ranges,
            declared,
        })
    }

    /// Where the colon of a part stands between brackets.
    fn split(&self, open: usize, close: usize) -> Option<usize> {
        let (mut at, mut choices) = (open + 1, 0);
        loop {
            at = self.source.until(at, &["?", ":"]);
            match self.source.word(at) {
                _ if at >= close => return None,
                "?" => choices += 1,
                _ if choices == 0 => return Some(at),
                _ => choices -= 1,
            }
            at += 1;
        }
    }

    /// The guarded text of a signal with indices, or of the statement that writes it, and the place behind.
    fn guard(&mut self, i: usize, chain: &Chain, depth: usize) -> Result<(String, usize)> {
        let line = self.source.tokens[i].line;
        let shown = self.source.joined(i, chain.end);
        let refused =
            |wanted: &str, remedy: &str| Err(at_line(wanted, line, self.path, &shown, remedy));
        if depth > DEEP {
            let wanted = format!("at most {DEEP} indices of arrays within each other");
            return refused(&wanted, "give the inner index a signal of its own");
        }
        let declared = &chain.declared;
        if declared.constant {
            let remedy = "copy the parameter to a signal, and index that";
            return refused("a parameter with at most one index", remedy);
        }
        let most = if declared.typed { MOST } else { declared.packed + declared.unpacked };
        let most = most.clamp(1, MOST);
        if chain.ranges.len() > most {
            let word = if most > 1 { "indices" } else { "index" };
            return refused(&format!("at most {most} {word}"), "take the others out");
        }
        let writes = assigns(self.source, chain.end);
        let (list, initial) = (self.places.list[i], self.places.initial[i]);
        let kept = declared.typed || declared.unpacked > 0;
        let statement = self.places.statement[i] && writes && !initial;
        let number = |(open, close): &(usize, usize)| {
            *close == open + 2 && self.source.word(open + 1).bytes().all(|c| c.is_ascii_digit())
        };
        let continuous = self.places.continuous[i];
        if list && kept && !continuous && !chain.ranges.iter().all(number) {
            let remedy = "write each in an assignment of its own";
            return refused("elements of arrays that are assigned one by one", remedy);
        }
        let declared_as = declared.text.clone();
        self.sites.push(Site { line, text: shown, declared: declared_as });
        let mut indices = vec![];
        for (open, close) in &chain.ranges {
            indices.push(self.index(*open, *close, depth + 1)?);
        }
        // A part of an element of one dimension is Yosys's affair, and right.
        let exempt = !declared.typed
            && declared.unpacked > 0
            && declared.packed < 2
            && !matches!(indices.last(), Some(Index::At(_)));
        let guards = Guards { path: &chain.path, indices: &indices, exempt };
        if statement && kept {
            let end = self.source.until(chain.end, &[";"]);
            let last = (end + 1).min(self.source.tokens.len());
            let rest = self.rewritten(chain.end, last, depth, true)?;
            return Ok((guards.statement(&rest), end + 1));
        }
        let text = match writes && (statement || initial || continuous || list) || list {
            true => guards.written(),
            false => guards.read(),
        };
        Ok((text, chain.end))
    }

    fn index(&mut self, open: usize, close: usize, depth: usize) -> Result<Index> {
        let (source, split) = (self.source, self.split(open, close));
        // A name that begins with a backslash ends with a space.
        let mut flat = |from, to| Ok(self.rewritten(from, to, depth, false)? + " ");
        let Some(at) = split else {
            return Ok(Index::At(flat(open + 1, close)?));
        };
        let sign = source.word(at - 1);
        let part = at > open + 2 && matches!(sign, "+" | "-");
        let first = flat(open + 1, at - usize::from(part))?;
        let second = flat(at + 1, close)?;
        Ok(match part {
            true => Index::Part(first, second, sign == "+"),
            false => Index::Range(first, second),
        })
    }
}

/// The guards of one signal with indices.
struct Guards<'a> {
    path: &'a str,
    indices: &'a [Index],
    /// Whether the last index needs none.
    exempt: bool,
}

impl Guards<'_> {
    fn plain(&self) -> String {
        self.indices.iter().fold(self.path.to_string(), |text, index| text + &index.text())
    }

    /// Whether a number is within a dimension, the first of which is 1.
    fn holds(&self, dimension: usize, number: &str) -> String {
        let p = self.path;
        format!("($unsigned(({number})-$low({p},{dimension}))<=$size({p},{dimension})-1)")
    }

    /// Whether an index is within its dimension, whole.
    fn within(&self, dimension: usize) -> String {
        let holds = |number: &str| self.holds(dimension, number);
        match &self.indices[dimension - 1] {
            Index::At(at) => holds(at),
            Index::Range(left, right) => format!("({}&&{})", holds(left), holds(right)),
            // Yosys turns the bits of a part round where several dimensions count upwards.
            Index::Part(..) if self.indices.len() == 1 => {
                let p = self.path;
                format!("($left({p},1)>=$right({p},1)||$dimensions({p})==1)")
            }
            Index::Part(first, width, up) => {
                let sign = if *up { "-1+" } else { "+1-" };
                let last = format!("({first}){sign}({width})");
                format!("({}&&{})", holds(first), holds(&last))
            }
        }
    }

    /// The dimensions that need guards.
    fn dimensions(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.indices.len() - usize::from(self.exempt)
    }

    /// The signal where every index is within its range, and 0 elsewhere. Constants out of range give `x`.
    fn read(&self) -> String {
        let (p, all) = (self.path, self.indices.len());
        let sizes: Vec<String> = (1..=all).map(|k| format!("$size({p},{k})")).collect();
        let stride = format!("($bits({p})/({}))", sizes.join("*"));
        let width = match &self.indices[all - 1] {
            Index::At(_) => stride.clone(),
            Index::Part(_, width, _) => format!("(({width})*{stride})"),
            Index::Range(l, r) => format!("((({l})>({r})?({l})-({r}):({r})-({l}))+1)*{stride}"),
        };
        let mut text = self.plain();
        for k in self.dimensions().rev() {
            let within = self.within(k);
            let none = format!("{{({width}){{{}?1'b0:1'bx}}}}", beside(&within, PAST));
            let past = match &self.indices[k - 1] {
                Index::Part(first, count, up) if all > 1 => {
                    let shifted = self.shifted(k, first, count, *up, &stride);
                    format!("(({width})'({shifted})|{none})")
                }
                _ => format!("$signed({none})"),
            };
            let whole = match (&self.indices[k - 1], all) {
                (Index::Part(..), 2..) => format!("({within}&&$left({p},{k})>=$right({p},{k}))"),
                _ => within,
            };
            text = format!("({}?{text}:{past})", beside(&whole, READ));
        }
        text
    }

    /// The bits of the last dimension from a place on that may lie outside, with zeros there.
    fn shifted(&self, k: usize, first: &str, count: &str, up: bool, stride: &str) -> String {
        let p = self.path;
        let (before, exempt) = (&self.indices[..k - 1], false);
        let element = Guards { path: p, indices: before, exempt }.plain();
        let (down, rising) = match up {
            true => (
                format!("({first})-$low({p},{k})+({count})"),
                format!("$high({p},{k})+1-({first})"),
            ),
            false => (
                format!("({first})-$low({p},{k})+1"),
                format!("$high({p},{k})-({first})+({count})"),
            ),
        };
        let amount = format!("(($left({p},{k})>=$right({p},{k})?{down}:{rising})*{stride})");
        format!("{{{element},{{(({count})*{stride}){{1'b0}}}}}}>>{amount}")
    }

    /// The signal as it is assigned, with indices that name no bit where one is out of its range.
    fn written(&self) -> String {
        let p = self.path;
        let all: Vec<String> = self.dimensions().map(|k| self.condition(k)).collect();
        let all = all.join("&&");
        let mut text = p.to_string();
        for (k, index) in (1..).zip(self.indices) {
            let rising =
                format!("($left({p},{k})<$right({p},{k}))^({k}<=$unpacked_dimensions({p}))");
            let beyond = format!("(({rising})?$low({p},{k})-1:$high({p},{k})+1)");
            let first = format!("{k}==1||{k}==$unpacked_dimensions({p})+1");
            let none = format!("(({first})?{beyond}:$low({p},{k}))");
            let choice = |number: &str| format!("({all})?({number}):{none}");
            text += &match index {
                _ if !self.dimensions().contains(&k) => index.text(),
                Index::Part(first, width, true) => format!("[({})+:{width}]", choice(first)),
                Index::Part(first, width, false) => format!("[({})-:{width}]", choice(first)),
                Index::At(at) => format!("[{}]", choice(at)),
                Index::Range(left, right) => format!("[{}:{}]", choice(left), choice(right)),
            };
        }
        text
    }

    /// Whether an index that is written is within its range. The script finds parts that move: some of their bits might be within.
    fn condition(&self, k: usize) -> String {
        let within = self.within(k);
        let p = self.path;
        match self.indices[k - 1] {
            Index::Part(..) => {
                beside(&format!("({within}&&$left({p},{k})>=$right({p},{k}))"), PART)
            }
            _ => within,
        }
    }

    /// A statement that writes where every index is within its range, from what stands behind the signal.
    fn statement(&self, rest: &str) -> String {
        let mut text = [&self.plain(), rest].concat();
        for k in self.dimensions().rev() {
            let within = self.condition(k);
            text = format!("case({{{within},{READ}'d5}}){{1'b1,{READ}'d5}}:{text} endcase");
        }
        format!("begin {text} end")
    }
}

/// A condition that the width of a number beside it marks.
fn beside(condition: &str, bits: usize) -> String {
    format!("({{{condition},{bits}'d5}}=={{1'b1,{bits}'d5}})")
}

#[cfg(test)]
mod tests {
    use super::super::source::tokens;
    use super::*;

    fn with_guards(text: &str) -> Result<Guarded> {
        let tokens = tokens(text);
        let source = Source::new(text, &tokens);
        guarded(&source, &Arrays::new(&source), (Path::new("mine.v"), 1 << 20))
    }

    #[test]
    fn only_indices_of_arrays_get_guards_and_lines_stay() {
        for text in [
            "module m(input [3:0] a, input [1:0] i); wire [3:0][1:0] b = a; // b[0][1]\n\
             wire [1:0] v = b[i], w = a[i +: 2]; reg [7:0] t [0:3]; endmodule",
            "module m; parameter N = $size(b[0]); wire [1:0] [N-1:0] b, c [0:1]; endmodule\n",
        ] {
            assert_eq!(with_guards(text).unwrap().text, text);
        }
        let text = "module m(input [1:0][1:0] a, input i);\nreg t [0:1]; wire w =\na[i][\n0];\n\
            always @* if (i) t[i] = a[0]; else t[0] = 1; endmodule";
        let made = with_guards(text).unwrap();
        assert_eq!(made.text.lines().count(), text.lines().count());
        let sites: Vec<(usize, &str)> = made.sites.iter().map(|s| (s.line, &*s.text)).collect();
        assert_eq!(sites, [(3, "a[i][ 0]"), (5, "t[i]"), (5, "t[0]")]);
        assert!(made.text.contains("if (i) begin case(") && made.text.contains("endcase end else"));
    }

    #[test]
    fn indices_that_cannot_have_guards_are_refused() {
        for (text, wanted) in [
            ("wire [3:0] a; wire b =\na[1][2];", "at most 1 index in line 2 of mine.v"),
            ("reg a [0:1], b; always @*\n{a[i], b} = c;", "one by one in line 2 of mine.v"),
            ("reg a [0:1]; wire b =\na[a[a[a[a[a[a[0]]]]]]];", "within each other in line 2"),
        ] {
            let error = with_guards(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn texts_that_end_anywhere_are_rewritten() {
        let text = "module m(input p::t [1:0] a [3]); assign {a[1][2], b} = x ? y[z[0][1] +: 2] : 1;\n\
            initial for (i = 0; i < 2; i++) begin : n a[0] <= s.t[1].u[0][2]; end endmodule }";
        for at in 0..=text.len() {
            let _ = (with_guards(&text[..at]), with_guards(&text[at..]));
        }
    }
}
