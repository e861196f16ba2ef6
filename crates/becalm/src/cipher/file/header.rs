//! The header of a file: what it claims, read strictly, written canonically.
//!
//! JSON with sorted keys and no white space, padded with spaces to a multiple of 8. A header is accepted only if writing
//! it again gives the same bytes; so no key appears twice, nothing is hidden in it, and every bit of it counts.

use super::{Kind, Trust, VERSION, bad, bad_but, foreign, hex, unhex};
use crate::cipher::{Encoding, KeyId, KeyRole, RowSums, SlotKeyKind};
use crate::params::TfheParams;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Longest header that is read; those written have about 1 KiB.
pub(super) const MAX_HEADER: u64 = 1 << 16;
/// Texts and files of other formats begin with bytes that would be a greater length than any file has.
const NO_LENGTH: u64 = 1 << 40;
/// Axes of an array, at most.
const MAX_AXES: usize = 32;
/// Elements of an array at most, without its empty axes: other software counts them.
const MAX_ELEMENTS: usize = 1 << 30;
/// Bytes that hold the length of the header.
pub(super) const LENGTH: usize = 8;
/// The first bytes of evaluation keys of CKKS, which are files of another form.
pub(super) const CKKS_KEYS: [u8; LENGTH] = *b"becalm c";

/// Elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Dtype {
    U8,
    U64,
    F64,
}

impl Dtype {
    pub(crate) fn size(self) -> u64 {
        match self {
            Dtype::U8 => 1,
            Dtype::U64 | Dtype::F64 => 8,
        }
    }
}

/// A tensor as the header tells of it; offsets count from the end of the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tensor {
    pub(crate) data_offsets: (u64, u64),
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
}

/// A header. The fields in the order of their names in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    #[serde(rename = "__metadata__")]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) tensors: BTreeMap<String, Tensor>,
}

impl Header {
    /// How many bytes of JSON follow the first eight, in a file of `total` bytes.
    pub(super) fn length(first: [u8; LENGTH], total: u64) -> Result<usize> {
        let n = u64::from_le_bytes(first);
        if first == CKKS_KEYS {
            let remedy =
                "give them where a program of CKKS runs; `becalm inspect` tells the kind of a file";
            return Err(bad_but(
                "a key or ciphertext of TFHE, or a secret key, program or ciphertext of CKKS",
                "evaluation keys of CKKS",
                remedy,
            ));
        }
        if n >= NO_LENGTH {
            // Not a byte of it: whoever named a wrong file may show the message to others.
            return Err(foreign("another file"));
        }
        if n > MAX_HEADER {
            return Err(bad(
                format!("a header of at most {MAX_HEADER} bytes"),
                format!("{n} bytes"),
            ));
        }
        if !n.is_multiple_of(8) {
            return Err(bad("a header that ends 8-aligned", format!("{n} bytes")));
        }
        if total < LENGTH as u64 + n {
            return Err(bad(format!("a header of {n} bytes"), format!("a file of {total} bytes")));
        }
        Ok(n as usize)
    }

    /// Reads the first bytes of a file, length and header; `total` is the length of all of it.
    pub(super) fn parse(head: &[u8], total: u64) -> Result<Self> {
        let header: Header = serde_json::from_slice(&head[LENGTH..])
            .map_err(|e| bad("a header in JSON with metadata and tensors", e.to_string()))?;
        header.check_layout(total - head.len() as u64)?;
        header.kind()?;
        if header.encode()? != head {
            return Err(bad("a header in canonical form", "another spelling of the same"));
        }
        Ok(header)
    }

    /// Tensors follow each other in the order of their names, fill the file, and words are aligned.
    fn check_layout(&self, data: u64) -> Result<()> {
        let mut end = 0u64;
        for (name, t) in &self.tensors {
            let bytes = byte_length(t.dtype, &t.shape);
            let next = bytes.and_then(|b| end.checked_add(b));
            if next != Some(t.data_offsets.1) || t.data_offsets.0 != end {
                return Err(bad(
                    format!("tensor {name:.32} where its shape puts it, from byte {end}"),
                    format!("{:?}", t.data_offsets),
                ));
            }
            if !end.is_multiple_of(t.dtype.size()) {
                return Err(bad("aligned words", format!("byte {end}")));
            }
            end = t.data_offsets.1;
        }
        if end != data {
            return Err(bad(format!("{end} bytes of tensors"), format!("{data} bytes")));
        }
        Ok(())
    }

    /// Length and JSON as they stand in the file.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(self)
            .map_err(|e| bad("a header that can be written", e.to_string()))?;
        let n = json.len().next_multiple_of(8);
        let mut bytes = (n as u64).to_le_bytes().to_vec();
        bytes.extend(json);
        bytes.resize(LENGTH + n, b' ');
        Ok(bytes)
    }

    /// The hash of a file without its tensors: of the header with a checksum of 64 zeros.
    pub(super) fn hasher(&self) -> Result<blake3::Hasher> {
        let mut blank = self.clone();
        blank.metadata.insert("checksum".into(), "0".repeat(64));
        let mut hasher = blake3::Hasher::new();
        hasher.update(&blank.encode()?);
        Ok(hasher)
    }

    pub(crate) fn entry(&self, name: &str) -> Result<&str> {
        let entry = self.metadata.get(name).map(String::as_str);
        entry.ok_or_else(|| bad(format!("the metadata {name}"), "none"))
    }

    /// Whether there is such an entry.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.metadata.contains_key(name)
    }

    /// The kind that the file names. Refuses another version, and entries that are not read here.
    pub(crate) fn kind(&self) -> Result<Kind> {
        let name = self.entry("format")?;
        let Some(kind) =
            Kind::ALL.into_iter().find(|k| k.name() == name && !k.entries().is_empty())
        else {
            return Err(bad_but(
                "a file of becalm",
                format!("format {name:.32}"),
                "pass a file that becalm wrote",
            ));
        };
        let version = self.entry("version")?;
        if version != VERSION.to_string() {
            return Err(bad_but(
                format!("version {VERSION}"),
                format!("version {version:.16}"),
                "read it with the becalm that wrote it, or a newer one",
            ));
        }
        let own = self.metadata.keys().filter(|name| !kind.optional().contains(&name.as_str()));
        if !own.eq(kind.entries()) {
            return Err(bad(format!("the metadata {:?}", kind.entries()), "other entries"));
        }
        Ok(kind)
    }

    /// Refuses a file of another kind.
    pub(crate) fn require(&self, wanted: Kind) -> Result<()> {
        let got = self.kind()?;
        if got == wanted {
            return Ok(());
        }
        let remedy = format!("give {}; `becalm inspect` tells the kind of a file", wanted.words());
        Err(bad_but(wanted.words(), self.described()?, remedy))
    }

    /// The kind, and the set as the file spells it, in words.
    pub(crate) fn described(&self) -> Result<String> {
        Ok(format!("{}, of the set {}", self.kind()?.words(), set_name(&self.row()?)))
    }

    /// The parameter set of either scheme as JSON, unchecked.
    pub(crate) fn row(&self) -> Result<serde_json::Value> {
        serde_json::from_str(self.entry("params")?)
            .map_err(|e| bad("a parameter set", e.to_string()))
    }

    /// Refuses other tensors than these.
    pub(crate) fn expect(&self, tensors: &[(&str, Dtype, &[u64])]) -> Result<()> {
        let has = |(name, dtype, shape): &(&str, Dtype, &[u64])| {
            let t = self.tensors.get(*name);
            t.is_some_and(|t| t.dtype == *dtype && t.shape == *shape)
        };
        if self.tensors.len() == tensors.len() && tensors.iter().all(has) {
            return Ok(());
        }
        Err(bad(
            format!("tensors {tensors:?}"),
            format!("{} of other names, types or shapes", self.tensors.len()),
        ))
    }

    /// Bytes of a tensor, counted from the end of the header; nothing if there is no such tensor.
    pub(crate) fn range(&self, name: &str) -> Range<usize> {
        let (from, to) = self.tensors.get(name).map_or((0, 0), |t| t.data_offsets);
        from as usize..to as usize
    }

    /// First dimension of a tensor of rows, 0 if there is none.
    pub(crate) fn rows(&self, name: &str) -> u64 {
        let shape = self.tensors.get(name).map(|t| t.shape.as_slice());
        shape.and_then(|s| s.first().copied()).unwrap_or(0)
    }

    /// The parameter set as the file spells it, each field within its range.
    pub(super) fn claimed_params(&self) -> Result<TfheParams> {
        let row: TfheParams = serde_json::from_str(self.entry("params")?)
            .map_err(|e| bad("a parameter set", e.to_string()))?;
        row.validate()?;
        Ok(row)
    }

    /// The parameter set. One of a name in the table must be that of the table, and what the table says of its
    /// security and failure probability counts, not what the file says. Others are for those who allow them.
    pub(crate) fn params(&self, trust: Trust) -> Result<Arc<TfheParams>> {
        let row = self.claimed_params()?;
        let Some(known) = TfheParams::all().iter().find(|t| t.name == row.name) else {
            if trust.allow_insecure {
                return Ok(Arc::new(row));
            }
            return Err(Error::insecure(
                "load",
                "a set of the table",
                format!("`{}`, whose claims are not checked", row.name),
                "use a set of the table, or allow insecure parameters if nothing secret is encrypted",
            ));
        };
        if known.id() != row.id() {
            return Err(Error::wrong_params(
                "load",
                format!("{} as in the table", known.name),
                "other numbers under that name",
                "give the set another name, or make the file again with a set of the table",
            ));
        }
        known.require_secure(trust.allow_insecure)?;
        Ok(Arc::new(known.clone()))
    }

    /// Identity of the secret key.
    pub(crate) fn key(&self) -> Result<KeyId> {
        let id = unhex(self.entry("key")?).map(KeyId);
        id.ok_or_else(|| bad("a key id of 32 hexadecimal digits", "something else"))
    }

    /// Which key of the set.
    pub(super) fn role(&self) -> Result<KeyRole> {
        match self.entry("role")? {
            "small" => Ok(KeyRole::Small),
            "big" => Ok(KeyRole::Big),
            other => match other.strip_prefix("slot ").map(str::parse) {
                // The number as it is written here, without sign or leading zeros.
                Some(Ok(slot)) if role_text(KeyRole::Slot(slot)) == other => {
                    Ok(KeyRole::Slot(slot))
                }
                _ => Err(bad("the role small, big or of a slot", format!("{other:.16}"))),
            },
        }
    }

    /// The work of a key between slots: packing, or a map.
    pub(super) fn slot_kind(&self) -> Result<SlotKeyKind> {
        let text = self.entry("slots")?;
        let sums = |text: &str| {
            let (positive, negative) = text.split_once(' ')?;
            Some(RowSums { positive: positive.parse().ok()?, negative: negative.parse().ok()? })
        };
        let kind = match text.strip_prefix("map ") {
            Some(text) => sums(text).map(SlotKeyKind::Map),
            None => Some(SlotKeyKind::Pack),
        };
        // Only what is written here is read, without signs or leading zeros.
        let Some(kind) = kind.filter(|kind| slot_kind_text(*kind) == text) else {
            return Err(bad("the word pack, or map and two sums", format!("{text:.32}")));
        };
        let refused = |e: Error| bad(&e.detail().wanted, &e.detail().got);
        match kind {
            SlotKeyKind::Map(sums) => sums.checked().map(SlotKeyKind::Map).map_err(refused),
            SlotKeyKind::Pack => Ok(kind),
        }
    }

    /// Where messages lie.
    pub(super) fn encoding(&self) -> Result<Encoding> {
        let encoding: Encoding = serde_json::from_str(self.entry("encoding")?)
            .map_err(|e| bad("an encoding", e.to_string()))?;
        let refused = |e: Error| bad(&e.detail().wanted, &e.detail().got);
        encoding.checked().map_err(refused)
    }

    /// Least and greatest message.
    pub(super) fn message_range(&self, encoding: Encoding) -> Result<(i64, i64)> {
        let range: (i64, i64) = serde_json::from_str(self.entry("range")?)
            .map_err(|e| bad("a range of messages", e.to_string()))?;
        if stored_range(encoding, range) == range {
            return Ok(range);
        }
        Err(bad(
            format!("messages among {} parts of the torus", encoding.parts()),
            format!("{range:?}"),
        ))
    }

    /// Variance of the phase error, as claimed.
    pub(super) fn noise(&self) -> Result<f64> {
        let text = self.entry("noise")?;
        match text.parse::<f64>() {
            Ok(v) if (0.0..=1.0).contains(&v) => Ok(v),
            _ => Err(bad("a noise variance from 0 to 1", format!("{text:.32}"))),
        }
    }

    /// The shape of an array of `count` elements: one axis unless the file says otherwise.
    pub(crate) fn shape(&self, count: usize) -> Result<Vec<usize>> {
        let Some(text) = self.metadata.get("shape") else { return Ok(vec![count]) };
        let shape: Vec<usize> = serde_json::from_str(text)
            .map_err(|_| bad("a shape such as [2,3]", format!("{text:.32}")))?;
        match shape_text(&shape, count) {
            Some(spelled) if spelled == *text && shape.len() != 1 => Ok(shape),
            _ => Err(bad(format!("{} of {count} elements", shape_words()), format!("{text:.32}"))),
        }
    }

    /// The checksum that the file claims.
    pub(super) fn checksum(&self) -> Result<&str> {
        self.entry("checksum")
    }
}

/// The name of a parameter set, as far as it can be shown.
pub(crate) fn set_name(row: &serde_json::Value) -> String {
    let name = row.get("name").and_then(|n| n.as_str()).unwrap_or("");
    name.chars().take(32).collect()
}

/// Bytes of a tensor of this shape, if they can be counted.
pub(super) fn byte_length(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(dtype.size(), |bytes, dim| bytes.checked_mul(*dim))
}

/// The range as a file holds it. Values count modulo the parts of the torus, so a range that covers all parts, or lies
/// many turns away, has a shorter name for the same.
pub(super) fn stored_range(encoding: Encoding, (lo, hi): (i64, i64)) -> (i64, i64) {
    let parts = encoding.parts() as i64;
    match hi.checked_sub(lo) {
        Some(width) if (0..parts).contains(&width) => {
            if lo >= -2 * parts && hi <= 2 * parts {
                return (lo, hi);
            }
            let lo = lo.rem_euclid(parts);
            (lo, lo + width)
        }
        _ => (0, parts - 1),
    }
}

/// The text of the shape of an array of `count` elements, if it is one.
pub(super) fn shape_text(shape: &[usize], count: usize) -> Option<String> {
    let times = |all: usize, axis: &usize| all.checked_mul(*axis);
    let filled = shape.iter().filter(|axis| **axis > 0).try_fold(1, times);
    let fits = shape.len() <= MAX_AXES && filled.is_some_and(|n| n <= MAX_ELEMENTS);
    let texts: Vec<String> = shape.iter().map(usize::to_string).collect();
    (fits && shape.iter().product::<usize>() == count).then(|| format!("[{}]", texts.join(",")))
}

/// The words of a message for the shapes that are accepted.
pub(super) fn shape_words() -> String {
    format!("at most {MAX_AXES} axes")
}

/// The text of a key id.
pub(super) fn key_text(id: KeyId) -> String {
    hex(&id.0)
}

/// The word for a role.
pub(super) fn role_text(role: KeyRole) -> String {
    match role {
        KeyRole::Small => "small".into(),
        KeyRole::Big => "big".into(),
        KeyRole::Slot(slot) => format!("slot {slot}"),
    }
}

/// The words for a kind of key between slots.
pub(super) fn slot_kind_text(kind: SlotKeyKind) -> String {
    match kind {
        SlotKeyKind::Pack => "pack".into(),
        SlotKeyKind::Map(RowSums { positive, negative }) => format!("map {positive} {negative}"),
    }
}
