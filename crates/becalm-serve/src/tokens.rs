//! Tokens of clients. The service keeps their digests alone, and compares those in constant time.

use becalm::{Error, Result};
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

/// Characters of the shortest token: 128 bits in hexadecimal digits.
const SHORTEST: usize = 32;
const LONGEST: usize = 256;
const REMEDY: &str = "write lines of a name and a token, such as `openssl rand -hex 32` makes";

/// The tokens that a service accepts, and the name of each. Whoever has a token sees the files and jobs of its name alone.
#[derive(Clone)]
pub struct Tokens(Vec<(String, blake3::Hash)>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// Reads a file of tokens, which nobody but its owner may read.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that cannot be read, or that others may read; as [`Tokens::parse`].
    pub fn read(path: impl AsRef<Path>) -> Result<Tokens> {
        let path = path.as_ref();
        let refused = |e: std::io::Error| Error::unreadable("serve", path, &e);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = path.metadata().map_err(refused)?.permissions().mode();
            if mode & 0o077 != 0 {
                let wanted = format!("{} for its owner alone", path.display());
                let got = format!("mode {:o}", mode & 0o777);
                return Err(Error::io("serve", wanted, got, "run `chmod 600` on it"));
            }
        }
        Tokens::parse(&Zeroizing::new(std::fs::read_to_string(path).map_err(refused)?))
    }

    /// Reads lines of a name and a token. Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another line, a short token, and for no token at all. No error contains a token.
    pub fn parse(text: &str) -> Result<Tokens> {
        let mut found = vec![];
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |wanted: &str, got: &str| {
                let wanted = format!("{wanted} in line {}", number + 1);
                Error::bad_input("serve", wanted, got, REMEDY)
            };
            let two = line.split_once(' ');
            let (name, token) = two.ok_or_else(|| bad("a name and a token", "one word"))?;
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if !(1..=32).contains(&name.len()) || !name.chars().all(plain) {
                return Err(bad("a name of 1 to 32 of a-z, 0-9 and -", "another name"));
            }
            let token = token.trim_start();
            let plain = token.chars().all(|c| c.is_ascii_graphic());
            let wanted = "a token of 32 to 256 printable characters";
            if !plain {
                return Err(bad(wanted, "others"));
            }
            if !(SHORTEST..=LONGEST).contains(&token.len()) {
                return Err(bad(wanted, &format!("{} characters", token.len())));
            }
            found.push((name.to_string(), blake3::hash(token.as_bytes())));
        }
        if found.is_empty() {
            return Err(Error::bad_input("serve", "at least one token", "none", REMEDY));
        }
        Ok(Tokens(found))
    }

    /// The name that a token stands for. It looks at all of them, and equal digests take the time of others.
    pub(crate) fn name_of(&self, token: &str) -> Option<&str> {
        let digest = blake3::hash(token.as_bytes());
        let mut found = None;
        for (name, known) in &self.0 {
            // This comparison of digests is in constant time.
            if *known == digest {
                found = Some(name.as_str());
            }
        }
        found
    }

    /// The names, each once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_names_and_stay_out_of_texts() {
        let (a, b) = ("a".repeat(32), "b".repeat(64));
        let tokens = Tokens::parse(&format!("# ours\n\nalice {a}\nbob {b}\nalice {b}c\n")).unwrap();
        assert_eq!((tokens.name_of(&a), tokens.name_of(&b)), (Some("alice"), Some("bob")));
        assert_eq!(tokens.name_of(&format!("{b}c")), Some("alice"));
        assert_eq!((tokens.name_of(""), tokens.name_of(&a[1..])), (None, None));
        assert_eq!(tokens.names(), ["alice", "bob"]);
        assert_eq!(format!("{tokens:?}"), "Tokens(3)");
        for wrong in [
            "",
            "alice",
            "alice short",
            "../x aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "A secretsecretsecretsecretsecretsecret",
        ] {
            let error = Tokens::parse(wrong).unwrap_err();
            assert!(
                error.kind() == "bad_input" && !error.to_string().contains("secretsecret"),
                "{error}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("becalm-tokens-{}", std::process::id()));
        std::fs::write(&path, format!("alice {}\n", "a".repeat(32))).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        assert_eq!(Tokens::read(&path).unwrap_err().kind(), "io");
        mode(0o600);
        assert_eq!(Tokens::read(&path).unwrap().names(), ["alice"]);
        std::fs::remove_file(&path).unwrap();
    }
}
