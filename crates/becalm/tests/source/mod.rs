//! Reads Rust sources as tokens with line numbers: comments, strings and characters are gone, so what a test finds is
//! code. Not a parser: enough for paths, braces and function heads, and no dependency.

use std::path::{Path, PathBuf};

/// An identifier, a `::`, or one other character; and the line it stands in, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// Every file below a folder whose name ends in `.` and this, in order.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The tokens of a source text.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut line, mut out) = (0, 1, Vec::new());
    while at < chars.len() {
        let end = match blank(&chars, at) {
            Some(end) => end,
            None => {
                let end = word(&chars, at);
                let text = chars[at..end].iter().collect();
                out.push(Token { text, line });
                end
            }
        };
        line += chars[at..end].iter().filter(|c| **c == '\n').count();
        at = end;
    }
    out
}

/// Where the space, comment, string or character that begins at `at` ends; `None` if none begins there.
fn blank(s: &[char], at: usize) -> Option<usize> {
    let next = |i: usize| s.get(at + i).copied();
    match s[at] {
        c if c.is_whitespace() => Some(at + 1),
        '/' if next(1) == Some('/') => Some(find(s, at, |c| c == '\n')),
        '/' if next(1) == Some('*') => Some(block_comment(s, at)),
        '"' => Some(quoted(s, at)),
        // 'x' and '\n' are characters, 'a without a second quote is a lifetime.
        '\'' if next(1) == Some('\\') => Some(find(s, at + 3, |c| c == '\'') + 1),
        '\'' if next(2) == Some('\'') => Some(at + 3),
        'b' | 'c' if next(1) == Some('"') => Some(quoted(s, at + 1)),
        'b' | 'c' if next(1) == Some('r') => raw(s, at + 2),
        'r' => raw(s, at + 1),
        _ => None,
    }
}

fn find(s: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    (from..s.len()).find(|&i| stop(s[i])).unwrap_or(s.len())
}

fn block_comment(s: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i + 1 < s.len() {
        match (s[i], s[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 1),
            ('*', '/') => (depth, i) = (depth - 1, i + 1),
            _ => {}
        }
        i += 1;
        if depth == 0 {
            return i;
        }
    }
    s.len()
}

/// The end of a string whose opening quote stands at `quote`.
fn quoted(s: &[char], quote: usize) -> usize {
    let mut i = quote + 1;
    while i < s.len() && s[i] != '"' {
        i += if s[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(s.len())
}

/// The end of a raw string whose hashes begin at `hashes`, if it is one (`r#type` is an identifier).
fn raw(s: &[char], hashes: usize) -> Option<usize> {
    let quote = find(s, hashes, |c| c != '#');
    if s.get(quote) != Some(&'"') {
        return None;
    }
    let tail = quote - hashes;
    let closes = |i: &usize| {
        s[*i] == '"' && s[i + 1..].iter().take(tail).filter(|c| **c == '#').count() == tail
    };
    Some((quote + 1..s.len()).find(closes).map_or(s.len(), |i| i + 1 + tail))
}

/// The end of the token that begins at `at`.
fn word(s: &[char], at: usize) -> usize {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    match s[at] {
        c if part(c) => find(s, at, |c| !part(c)),
        ':' if s.get(at + 1) == Some(&':') => at + 2,
        _ => at + 1,
    }
}

#[test]
fn tokens_are_code_only() {
    let text = "a // b\n/* c /* d */ e */ f \"g \\\" h\" 'i' 'j r#\"k \" l\"# m::n 'o: '\\'' p";
    let words: Vec<String> = tokens(text).into_iter().map(|t| t.text).collect();
    assert_eq!(words, ["a", "f", "'", "j", "m", "::", "n", "'", "o", ":", "p"]);
    let last = tokens("x\n\"two\nlines\"\ny").pop().unwrap();
    assert_eq!((last.text.as_str(), last.line), ("y", 4));
}
