//! The evaluation key that a server holds.
//!
//! It is kept as it travels: bodies and the seed of the masks, about half of the expanded size. A backend expands what it
//! needs, in the order it needs it.

use super::{KeyId, SlotKey, SlotKeyKind, Words};
use crate::math::random::PublicSeed;
use crate::params::TfheParams;
use crate::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// The key that a server bootstraps with: the bootstrapping key and the key-switching key, seeded. It holds no secret.
#[derive(Clone)]
pub struct EvaluationKey {
    pub(crate) params: Arc<TfheParams>,
    pub(crate) id: KeyId,
    pub(crate) seed: PublicSeed,
    /// Bodies of the GGSW ciphertexts: [GGSW][ℓ][k+w rows][w][N].
    pub(crate) bootstrap: Words,
    /// Bodies of ℓ LWE ciphertexts for each big key bit that is not shared, torus elements (multiples of 2^32 where the
    /// key lives modulo 2^32): [k·N][ℓ][w].
    pub(crate) key_switch: Words,
    /// Keys between the slots of a common-mask set, as far as they were given.
    pub(crate) slot_keys: Vec<SlotKey>,
}

impl EvaluationKey {
    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.params
    }

    /// Identity of the secret key that it belongs to.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Bytes as stored: bodies and a seed.
    pub fn seeded_bytes(&self) -> usize {
        let slots: usize = self.slot_keys.iter().map(SlotKey::seeded_bytes).sum();
        (self.bootstrap.len() + self.key_switch.len()) * 8 + 32 + slots
    }

    /// This key and one between slots: the packing key (the last one counts), or one more map.
    ///
    /// # Errors
    /// [`Error::WrongParams`] or [`Error::WrongKey`] if they do not belong together.
    pub fn with_slot_key(mut self, key: SlotKey) -> Result<Self> {
        if key.params != self.params {
            return Err(Error::wrong_params(
                "slot key",
                format!("a key of {}", self.params.name),
                key.params.name.to_string(),
                "make both with one secret key",
            ));
        }
        if key.id != self.id {
            return Err(Error::wrong_key(
                "slot key",
                format!("one of key {}", self.id),
                key.id.to_string(),
                "make both with one secret key",
            ));
        }
        if key.kind == SlotKeyKind::Pack {
            self.slot_keys.retain(|k| k.kind != SlotKeyKind::Pack);
        }
        self.slot_keys.push(key);
        Ok(self)
    }

    /// The packing key, if it was given.
    pub fn pack_key(&self) -> Option<&SlotKey> {
        self.slot_keys.iter().find(|k| k.kind == SlotKeyKind::Pack)
    }

    /// The keys of private maps between slots, in the order in which they were given.
    pub fn slot_maps(&self) -> impl Iterator<Item = &SlotKey> {
        self.slot_keys.iter().filter(|k| k.kind != SlotKeyKind::Pack)
    }
}

impl fmt::Debug for EvaluationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "EvaluationKey({}, key {}, {:.1} MB seeded{})",
            self.params.name,
            self.id,
            self.seeded_bytes() as f64 / 1e6,
            self.params.assumption().map(|a| format!("; {a}")).unwrap_or_default()
        )
    }
}
