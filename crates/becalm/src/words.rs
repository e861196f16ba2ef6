//! Numbers as messages and reports write them.

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
