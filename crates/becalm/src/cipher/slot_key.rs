//! Keys between the slots of a common-mask set: packing, and private linear maps. Both are key switches to the big keys,
//! so that results rest as any other; under the small keys w·k·N rows would be too much noise.
//!
//! * Packing reads w plain ciphertexts under the key of slot 0 as one of w·k·N mask coefficients: row t·k·N + i encrypts
//!   S_(0,i) in slot t and 0 in the others. Rows: w·k·N. Source: Bergerat et al. 2025 (TCHES 2025/4), "compression".
//! * A map M reads a common-mask ciphertext, bodies included, as k·N + w mask coefficients: row i < k·N encrypts
//!   Σ_t M_(j,t)·S_(t,i) in slot j, row k·N + t encrypts −M_(j,t). Rows: k·N + w. M is secret but for the sums of its rows.

use super::{KeyId, Words};
use crate::math::random::PublicSeed;
use crate::params::{Gadget, TfheParams};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The largest sum of a row of a map: more would leave no message under the noise of any set.
const MAX_SUM: u64 = 1 << 20;

/// The public facts of a map between slots: bounds on the entries of any of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowSums {
    /// Largest sum of the positive entries of a row.
    pub positive: u64,
    /// Largest sum of the magnitudes of the negative entries of a row.
    pub negative: u64,
}

impl RowSums {
    /// The sums of the rows of a matrix.
    pub fn of(rows: &[Vec<i64>]) -> Self {
        let sum = |sign: i64| {
            let of = |row: &Vec<i64>| {
                row.iter().fold(0u64, |s, m| s.saturating_add(m.saturating_mul(sign).max(0) as u64))
            };
            rows.iter().map(of).max().unwrap_or(0)
        };
        RowSums { positive: sum(1), negative: sum(-1) }
    }

    /// A bound on the 1-norm of every row.
    pub fn norm(self) -> f64 {
        self.positive as f64 + self.negative as f64
    }

    /// The least and greatest value of a row times values of a range.
    pub fn range(self, (low, high): (i64, i64)) -> (i64, i64) {
        let (below, above) = (low.min(0).saturating_neg(), high.max(0));
        let (p, n) = (self.positive as i64, self.negative as i64);
        let most = p.saturating_mul(above).saturating_add(n.saturating_mul(below));
        let least = p.saturating_mul(below).saturating_add(n.saturating_mul(above));
        (least.saturating_neg(), most)
    }

    /// Whether maps of these sums are maps of those.
    pub fn within(self, bound: RowSums) -> bool {
        self.positive <= bound.positive && self.negative <= bound.negative
    }

    /// The sums themselves if a map may have them.
    ///
    /// # Errors
    /// [`Error::BadInput`] beyond 2^20.
    pub fn checked(self) -> Result<Self> {
        if self.positive.max(self.negative) <= MAX_SUM {
            return Ok(self);
        }
        let got = format!("{} and {}", self.positive, self.negative);
        let remedy = "use a map of small integers";
        Err(Error::bad_input("slot_map", format!("rows of sum at most {MAX_SUM}"), got, remedy))
    }
}

/// The work of a key between slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SlotKeyKind {
    /// Packs plain ciphertexts under the key of slot 0.
    Pack,
    /// Applies a private linear map.
    Map(RowSums),
}

impl fmt::Display for RowSums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sums of a row up to {} and down to -{}", self.positive, self.negative)
    }
}

impl fmt::Display for SlotKeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotKeyKind::Pack => f.write_str("packs ciphertexts of slot 0"),
            SlotKeyKind::Map(sums) => write!(f, "maps slots, {sums}"),
        }
    }
}

/// A key between the slots of a common-mask set, seeded. Holds no secret.
#[derive(Clone)]
pub struct SlotKey {
    pub(crate) params: Arc<TfheParams>,
    pub(crate) id: KeyId,
    pub(crate) kind: SlotKeyKind,
    pub(crate) seed: PublicSeed,
    /// Bodies: [rows][ℓ][w].
    pub(crate) words: Words,
}

impl SlotKey {
    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.params
    }

    /// Identity of the secret key that it belongs to.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Its work.
    pub fn kind(&self) -> SlotKeyKind {
        self.kind
    }

    /// Bytes as stored: bodies and a seed.
    pub fn seeded_bytes(&self) -> usize {
        self.words.len() * 8 + 32
    }
}

/// The gadget of keys between slots: 9 bits a digit, all that the key switch takes. Their rounding is then about the noise
/// of a bootstrap, and that of the key far below.
pub(crate) fn slot_gadget(p: &TfheParams) -> Gadget {
    Gadget { base_log: 9, level: if p.big_dimension() <= 2048 { 2 } else { 3 } }
}

impl SlotKeyKind {
    /// Rows of such a key: the mask coefficients that it reads.
    pub(crate) fn rows(self, p: &TfheParams) -> usize {
        match self {
            SlotKeyKind::Pack => p.slots * p.big_dimension(),
            SlotKeyKind::Map(_) => p.big_dimension() + p.slots,
        }
    }
}

impl fmt::Debug for SlotKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.seeded_bytes() as f64 / 1e6;
        let Self { kind, params, id, .. } = self;
        write!(f, "SlotKey({kind:?}, {}, key {id}, {megabytes:.1} MB seeded)", params.name)
    }
}
