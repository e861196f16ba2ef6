//! A job as a client asks for it.

use becalm::job::Digest;
use becalm::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bytes of the longest request.
pub(crate) const MAX_REQUEST: u64 = 16 << 20;
const MAX_INPUTS: usize = 200_000;
const MAX_SLOT_KEYS: usize = 256;
const MAX_NOTE: usize = 1 << 16;
const REMEDY: &str = "send the request as /openapi.json describes it";

/// A job as a client asks for it: its files by their digests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The program.
    pub program: Digest,
    /// The evaluation keys.
    pub keys: Digest,
    /// Keys between slots, in the order in which the program names its maps.
    #[serde(default)]
    pub slot_keys: Vec<Digest>,
    /// The inputs, in the order of [`Parts::inputs`](becalm::job::Parts::inputs).
    pub inputs: Vec<Digest>,
    /// Lanes of a chunk; none lets the service choose.
    #[serde(default)]
    pub chunk: Option<usize>,
    /// The share of the chunks that a second worker computes too.
    #[serde(default)]
    pub verify: f64,
    /// A text of the client, which the service keeps and does not read.
    #[serde(default)]
    pub note: String,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::BadInput`] for one of another form, and for numbers beyond a limit.
    pub fn parse(bytes: &[u8]) -> Result<Request> {
        let bad = |wanted: String, got: String| Error::bad_input("serve", wanted, got, REMEDY);
        if bytes.len() as u64 > MAX_REQUEST {
            let got = format!("{} bytes", bytes.len());
            return Err(bad(format!("a request of at most {MAX_REQUEST} bytes"), got));
        }
        let read = serde_json::from_slice(bytes);
        let request: Request =
            read.map_err(|e| bad("a request for a job".into(), e.to_string()))?;
        let lengths = [
            ("inputs", request.inputs.len(), 1, MAX_INPUTS),
            ("keys between slots", request.slot_keys.len(), 0, MAX_SLOT_KEYS),
            ("bytes of a note", request.note.len(), 0, MAX_NOTE),
            ("lanes of a chunk", request.chunk.unwrap_or(1), 1, usize::MAX),
        ];
        for (name, got, least, most) in lengths {
            if !(least..=most).contains(&got) {
                return Err(bad(format!("{least} to {most} {name}"), got.to_string()));
            }
        }
        if !(0.0..=1.0).contains(&request.verify) {
            return Err(bad("a share of checks from 0 to 1".into(), request.verify.to_string()));
        }
        Ok(request)
    }

    /// The bytes that are sent.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a share that is no number.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let refused = |e: serde_json::Error| {
            Error::bad_input("serve", "a request that can be written", e.to_string(), REMEDY)
        };
        serde_json::to_vec(self).map_err(refused)
    }

    /// Every file, each once.
    pub(crate) fn files(&self) -> Vec<Digest> {
        let mut all = vec![self.program, self.keys];
        for digest in self.slot_keys.iter().chain(&self.inputs) {
            all.push(*digest);
        }
        all.sort_by_key(|digest| digest.0);
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Request {
        let digest = Digest::of(b"x");
        Request {
            program: digest,
            keys: digest,
            slot_keys: vec![],
            inputs: vec![digest; 3],
            chunk: Some(2),
            verify: 0.5,
            note: "{}".into(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// A request that was altered anywhere is an error, or another request within the limits: it never panics.
        #[test]
        fn an_altered_request_is_refused_or_another(
            at in 0usize..400, byte: u8, cut in 0usize..400, doubled: bool, inserted in "[\\[\\]{}\",:0-9e-]{0,4}",
        ) {
            let whole = request().to_bytes().unwrap();
            let mut bytes = whole.clone();
            let at = at % bytes.len();
            match cut % 4 {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                2 => { bytes.splice(at..at, inserted.into_bytes()); }
                _ => { bytes.drain(at..(at + cut / 4).min(whole.len())); }
            }
            if doubled {
                bytes.extend(&whole);
            }
            match Request::parse(&bytes) {
                Ok(read) => {
                    prop_assert!((1..=MAX_INPUTS).contains(&read.inputs.len()) && read.chunk != Some(0));
                    prop_assert!((0.0..=1.0).contains(&read.verify));
                    let again = Request::parse(&read.to_bytes().unwrap()).unwrap();
                    prop_assert_eq!(again, read);
                }
                Err(e) => prop_assert_eq!(e.kind(), "bad_input"),
            }
        }
    }

    #[test]
    fn numbers_beyond_a_limit_are_refused() {
        let whole = request();
        let digest = whole.program;
        let wrong = [
            Request { inputs: vec![], ..whole.clone() },
            Request { inputs: vec![digest; MAX_INPUTS + 1], ..whole.clone() },
            Request { slot_keys: vec![digest; MAX_SLOT_KEYS + 1], ..whole.clone() },
            Request { note: "x".repeat(MAX_NOTE + 1), ..whole.clone() },
            Request { chunk: Some(0), ..whole.clone() },
            Request { verify: 1.5, ..whole.clone() },
        ];
        for request in wrong {
            let error = Request::parse(&request.to_bytes().unwrap()).unwrap_err();
            assert_eq!(error.kind(), "bad_input", "{error}");
        }
        let long = vec![b' '; MAX_REQUEST as usize + 1];
        for (bytes, why) in [(&long[..], "a request of at most"), (br#"{"program":"ab"}"#, "a job")]
        {
            let error = Request::parse(bytes).unwrap_err();
            assert!(error.kind() == "bad_input" && error.to_string().contains(why), "{error}");
        }
        assert_eq!(Request::parse(&whole.to_bytes().unwrap()).unwrap(), whole);
    }
}
