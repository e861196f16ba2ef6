//! Numbers, and texts of others, as messages and reports write them.

/// A text that others may have written, as one line without power over a terminal: control characters but the tab and marks of
/// direction are escaped.
///
/// ```
/// use becalm::words::shown;
/// assert_eq!(shown("sum\u{1b}[31m\n".into()), r"sum\u{1b}[31m\n");
/// assert_eq!(shown("σ ≤ 2^-14.8".into()), "σ ≤ 2^-14.8");
/// ```
pub fn shown(text: String) -> String {
    if !text.contains(has_power) {
        return text;
    }
    let mut line = String::new();
    for c in text.chars() {
        match has_power(c) {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Whether a character moves the cursor, changes colours, ends a line or turns the direction of writing.
fn has_power(c: char) -> bool {
    let turns = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'].contains(&c);
    c.is_control() && c != '\t'
        || turns
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// A number in few characters.
///
/// ```
/// use becalm::words::number;
/// assert_eq!([0.0, -1.0, 0.25, 1e300].map(number), ["0", "-1", "0.25", "1e300"]);
/// ```
pub fn number(x: f64) -> String {
    match x == 0.0 || (1e-4..1e9).contains(&x.abs()) {
        true => format!("{x}"),
        false => format!("{x:e}"),
    }
}

/// Bytes in words: `60.2 MB`.
///
/// ```
/// use becalm::words::megabytes;
/// assert_eq!([999, 60_162_048, 1_230_000_000].map(megabytes), ["1.0 kB", "60.2 MB", "1.23 GB"]);
/// ```
pub fn megabytes(bytes: usize) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// A number of things, of which `one` is the name of one: `1 ciphertext`, `3 ciphertexts`, `2 branches`.
///
/// ```
/// use becalm::words::counted;
/// assert_eq!([1, 3].map(|n| counted(n, "ciphertext")), ["1 ciphertext", "3 ciphertexts"]);
/// assert_eq!(counted(2, "key switch"), "2 key switches");
/// ```
pub fn counted(number: usize, one: &str) -> String {
    let many = if one.ends_with("ch") { "es" } else { "s" };
    format!("{number} {one}{}", if number == 1 { "" } else { many })
}
