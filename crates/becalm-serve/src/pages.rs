//! Pages in front of a service, which a browser fetches without a token.

use crate::answer::Answer;

/// A page: text, script, style or module, at a path of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its path, such as `/` or `/demo.js`.
    pub path: &'static str,
    /// Its media type.
    pub media: &'static str,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// A page talks to its own service alone, stands in no frame, and is never kept: another version may stand behind the same address.
pub(crate) const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; img-src 'self' data:; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

impl Page {
    pub(crate) fn answer(&self) -> Answer {
        Answer::of(200, self.media, self.body.clone()).with_headers(&HEADERS)
    }
}
