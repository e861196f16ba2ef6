//! Files of keys, ciphertexts and programs, in the safetensors container (docs/files.md gives every byte).
//!
//! `u64 length | JSON header | tensors`, little endian, tensors 8-aligned and in the order of their names. The header
//! is accepted only in the one form in which it is written, so equal contents are equal files. A BLAKE3 checksum covers
//! every byte. It finds accidents, not forgers: what a file claims is checked against its parameter set, and the set
//! against the table of sets. Nothing is allocated that the length of the file does not pay for.

mod ciphertexts;
mod disk;
mod header;
mod inspect;
pub(crate) mod key_header;
mod keys;
mod limits;
mod map;
mod place;
mod read;
mod secret;
mod slot_keys;
mod write;

pub(crate) use disk::{read_file, read_file_with, read_header, write_error};
pub(crate) use header::{Dtype, Header};
pub(crate) use inspect::kind_of_head;
pub use inspect::{Description, TensorShape, inspect, kind_of, verify};
pub use limits::Limits;
pub(crate) use limits::{payable, readable, require_limit};
pub use place::{Files, Output, Part, replace, replace_all};
pub(crate) use read::Reader;
pub(crate) use write::Data;
pub use write::{Draft, Sealed};

use crate::Error;
use std::fmt;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// The sets and sizes that the reader of a file accepts. The default is right for files of strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    /// Also accept sets below 128 bits, and sets that are not in the table, whose claims are not checked.
    pub allow_insecure: bool,
    /// Most bytes of memory for a batch of ciphertexts or a program (which takes up to 64 for each byte of its instructions).
    /// The length of a key follows from its parameter set.
    pub limit: u64,
}

impl Default for Trust {
    fn default() -> Self {
        Trust { allow_insecure: false, limit: 1 << 30 }
    }
}

impl Trust {
    /// The default, and parameter sets that are insecure or unknown.
    pub fn insecure() -> Self {
        Trust { allow_insecure: true, ..Trust::default() }
    }
}

/// The kind of a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// [`SecretKey`](crate::cipher::SecretKey).
    SecretKey,
    /// [`EvaluationKey`](crate::cipher::EvaluationKey).
    EvaluationKey,
    /// [`SlotKey`](crate::cipher::SlotKey).
    SlotKey,
    /// A batch of [`Lwe`](crate::cipher::Lwe) ciphertexts.
    Lwe,
    /// A [`Glwe`](crate::cipher::Glwe) ciphertext.
    Glwe,
    /// A batch of encrypted integers.
    Integers,
    /// Encrypted bytes, bit by bit, or an encrypted key of AES.
    Bits,
    /// A program.
    Program,
    /// [`Rlwe`](crate::cipher::Rlwe), a ciphertext of CKKS.
    Rlwe,
    /// [`CkksSecretKey`](crate::cipher::CkksSecretKey).
    CkksSecretKey,
    /// [`CkksPublicKey`](crate::cipher::CkksPublicKey).
    CkksPublicKey,
    /// A program of CKKS.
    CkksProgram,
    /// [`KeyShare`](crate::ckks::KeyShare), a party's share of a secret key of CKKS.
    CkksKeyShare,
    /// [`PartialDecryption`](crate::ckks::PartialDecryption), a party's part of a decryption of CKKS.
    CkksPartial,
    /// [`CkksKeys`](crate::cipher::CkksKeys), the evaluation keys of CKKS, which are a format of their own.
    CkksEvaluationKeys,
    /// [`Party`](crate::ckks::Party), what a party of a collective key of CKKS keeps secret.
    CkksParty,
    /// [`PartyMessage`](crate::ckks::PartyMessage), what a party tells to make a collective key of CKKS.
    CkksMessage,
    /// [`BridgeKey`](crate::bridge::BridgeKey), which turns packed integers of CKKS into ciphertexts of TFHE.
    BridgeKey,
    /// [`PackingKey`](crate::bridge::PackingKey), which turns ciphertexts of TFHE into packed integers of CKKS.
    PackingKey,
}

/// The metadata of parties of a collective key, and of their messages.
const OF_PARTIES: &[&str] =
    &["checksum", "format", "keys", "params", "parties", "party", "seed", "threshold", "version"];
const OF_MESSAGES: &[&str] = &[
    "checksum",
    "format",
    "keys",
    "params",
    "parties",
    "party",
    "round",
    "seed",
    "threshold",
    "version",
];

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 19] = [
        Kind::SecretKey,
        Kind::EvaluationKey,
        Kind::SlotKey,
        Kind::Lwe,
        Kind::Glwe,
        Kind::Integers,
        Kind::Bits,
        Kind::Program,
        Kind::Rlwe,
        Kind::CkksSecretKey,
        Kind::CkksPublicKey,
        Kind::CkksProgram,
        Kind::CkksKeyShare,
        Kind::CkksPartial,
        Kind::CkksEvaluationKeys,
        Kind::CkksParty,
        Kind::CkksMessage,
        Kind::BridgeKey,
        Kind::PackingKey,
    ];

    /// The word that names it in a file: `"becalm.lwe"`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::SecretKey => "becalm.secret_key",
            Kind::EvaluationKey => "becalm.evaluation_key",
            Kind::SlotKey => "becalm.slot_key",
            Kind::Lwe => "becalm.lwe",
            Kind::Glwe => "becalm.glwe",
            Kind::Integers => "becalm.integers",
            Kind::Bits => "becalm.bits",
            Kind::Program => "becalm.program",
            Kind::Rlwe => "becalm.rlwe",
            Kind::CkksSecretKey => "becalm.ckks_secret_key",
            Kind::CkksPublicKey => "becalm.ckks_public_key",
            Kind::CkksProgram => "becalm.ckks_program",
            Kind::CkksKeyShare => "becalm.ckks_key_share",
            Kind::CkksPartial => "becalm.ckks_partial_decryption",
            Kind::CkksEvaluationKeys => "becalm.ckks_evaluation_keys",
            Kind::CkksParty => "becalm.ckks_party",
            Kind::CkksMessage => "becalm.ckks_party_message",
            Kind::BridgeKey => "becalm.bridge_key",
            Kind::PackingKey => "becalm.packing_key",
        }
    }

    /// The kind in words, as messages name it.
    pub fn words(self) -> &'static str {
        match self {
            Kind::SecretKey => "a secret key of TFHE",
            Kind::EvaluationKey => "an evaluation key of TFHE",
            Kind::SlotKey => "a key between slots of TFHE",
            Kind::Lwe => "ciphertexts of TFHE",
            Kind::Glwe => "an encrypted table of TFHE",
            Kind::Integers => "encrypted integers of TFHE",
            Kind::Bits => "encrypted bits of TFHE",
            Kind::Program => "a program of TFHE",
            Kind::Rlwe => "a ciphertext of CKKS",
            Kind::CkksSecretKey => "a secret key of CKKS",
            Kind::CkksPublicKey => "a public key of CKKS",
            Kind::CkksProgram => "a program of CKKS",
            Kind::CkksKeyShare => "a share of a secret key of CKKS",
            Kind::CkksPartial => "a partial decryption of CKKS",
            Kind::CkksEvaluationKeys => "evaluation keys of CKKS",
            Kind::CkksParty => "a party's secret of a collective key of CKKS",
            Kind::CkksMessage => "a party's message of a collective key of CKKS",
            Kind::BridgeKey => "a key from CKKS to TFHE",
            Kind::PackingKey => "a key from TFHE to CKKS",
        }
    }

    /// Metadata that such a file may have too: files of before had none of it.
    fn optional(self) -> &'static [&'static str] {
        match self {
            Kind::Lwe | Kind::Integers => &["shape"],
            Kind::Rlwe => &["bound", "count", "integer_bits", "parties", "values", "worst"],
            Kind::CkksPublicKey => &["parties"],
            Kind::CkksKeyShare => &["made"],
            Kind::CkksMessage => &["answers"],
            Kind::CkksProgram => &["integers"],
            _ => &[],
        }
    }

    /// The metadata of such a file: exactly these, in order, but for those that are [optional](Kind::optional).
    #[rustfmt::skip]
    fn entries(self) -> &'static [&'static str] {
        match self {
            Kind::SecretKey | Kind::EvaluationKey | Kind::CkksSecretKey | Kind::CkksPublicKey => {
                &["checksum", "format", "key", "params", "version"]
            }
            Kind::SlotKey => &["checksum", "format", "key", "params", "slots", "version"],
            Kind::Lwe => &[
                "checksum", "encoding", "format", "key", "noise", "params", "range", "role",
                "version",
            ],
            Kind::Glwe => {
                &["checksum", "encoding", "format", "key", "noise", "params", "range", "version"]
            }
            Kind::Integers => &[
                "checksum", "encoding", "format", "key", "noise", "params", "range", "role",
                "type", "version",
            ],
            Kind::Bits => &[
                "checksum", "content", "encoding", "format", "key", "noise", "params", "range",
                "role", "version",
            ],
            Kind::Program | Kind::CkksProgram => &["checksum", "format", "params", "version"],
            Kind::Rlwe => &[
                "checksum", "error", "format", "key", "level", "params", "scale", "slots",
                "version",
            ],
            Kind::CkksKeyShare => &[
                "checksum", "format", "key", "params", "parties", "party", "split",
                "threshold", "version",
            ],
            Kind::CkksPartial => &[
                "checksum", "ciphertext", "format", "key", "level", "params", "party",
                "quorum", "split", "version",
            ],
            Kind::CkksEvaluationKeys => &[],
            Kind::CkksParty => OF_PARTIES,
            Kind::CkksMessage => OF_MESSAGES,
            Kind::BridgeKey => &[
                "checksum", "format", "key", "moduli", "params", "source", "source_key", "version",
            ],
            Kind::PackingKey => &[
                "checksum", "format", "key", "moduli", "params", "target", "target_key", "version",
            ],
        }
    }

    /// Whether a file of this kind belongs to CKKS.
    pub fn of_ckks(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Rlwe | CkksSecretKey
                | CkksPublicKey
                | CkksProgram
                | CkksKeyShare
                | CkksPartial
                | CkksEvaluationKeys
                | CkksParty
                | CkksMessage
        )
    }

    /// Whether it holds a secret, or, as a part of a decryption, a piece of one.
    pub fn is_secret(self) -> bool {
        use Kind::*;
        matches!(self, SecretKey | CkksSecretKey | CkksKeyShare | CkksPartial | CkksParty)
    }

    /// Whether both are secret keys, both evaluation keys, or one kind.
    pub(crate) fn is_like(self, other: Kind) -> bool {
        use Kind::*;
        let alike = [[SecretKey, CkksSecretKey], [EvaluationKey, CkksEvaluationKeys]];
        self == other || alike.iter().any(|kinds| kinds.contains(&self) && kinds.contains(&other))
    }

    /// Whether it holds a key, or a share of one: no result belongs in its place.
    pub fn is_key(self) -> bool {
        use Kind::*;
        let own = matches!(self, EvaluationKey | SlotKey | BridgeKey | PackingKey);
        let public = own || matches!(self, CkksPublicKey | CkksEvaluationKeys);
        public || matches!(self, SecretKey | CkksSecretKey | CkksKeyShare | CkksParty)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A damaged file; most often it was cut or altered on the way.
pub(crate) fn bad(wanted: impl Into<String>, got: impl Into<String>) -> Error {
    bad_but(wanted, got, "copy the file again from where it was made, or make it again")
}

/// [`bad`] with its own remedy.
pub(crate) fn bad_but(
    wanted: impl Into<String>,
    got: impl Into<String>,
    remedy: impl Into<String>,
) -> Error {
    Error::bad_file("load", wanted, got, remedy)
}

/// The error of bytes that becalm did not write.
pub(crate) fn foreign(got: impl Into<String>) -> Error {
    bad_but(
        "a file of becalm",
        got,
        "give a file that becalm wrote; if it did, copy the file again",
    )
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::new(), |mut text, b| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// Inverse of [`hex`].
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let digit = |d: u8| match d {
        b'0'..=b'9' => Some(d - b'0'),
        b'a'..=b'f' => Some(d - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    for (b, d) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *b = digit(d[0])? << 4 | digit(d[1])?;
    }
    Some(bytes)
}
