//! Making and reading the keys between the slots of a common-mask set; what they are: [`SlotKey`].

use super::key_switch::KeySwitchShape;
use super::keygen::expand_key_switch;
use crate::cipher::{RowSums, SecretKey, SlotKey, SlotKeyKind, Words};
use crate::math::buffer::zeroed;
use crate::math::random::{PublicSeed, SecretSeed};
use crate::{Error, Result};
use rayon::prelude::*;
use std::sync::Arc;

impl SecretKey {
    /// The key that packs plain ciphertexts under the key of slot 0 ([`SecretKey::encrypt_slot`]), one for each slot, into a
    /// common-mask ciphertext. Stored: w²·k·N·ℓ words; expanded, w·k·N·ℓ·(n + w).
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a set of one slot; [`Error::Memory`] if the key does not fit; [`Error::Io`] if the system
    /// gives no randomness.
    pub fn pack_key(&self) -> Result<SlotKey> {
        let (size, first) = (self.params.big_dimension(), self.big.iter());
        let first: Vec<u64> = first.take(size).copied().collect();
        let first = zeroize::Zeroizing::new(first);
        // Branch-free: a bit, times whether the row is of the slot.
        self.slot_key(SlotKeyKind::Pack, |i, slot| first[i % size] * u64::from(i / size == slot))
    }

    /// The key of a private linear map: slot j becomes Σ_t `rows[j][t]`·slot t. The server learns the [`RowSums`] of the
    /// matrix and nothing else.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a matrix that is not w × w or whose sums are beyond 2^20; as [`SecretKey::pack_key`].
    pub fn slot_map_key(&self, rows: &[Vec<i64>]) -> Result<SlotKey> {
        let (p, w) = (&*self.params, self.params.slots);
        if rows.len() != w || rows.iter().any(|r| r.len() != w) {
            let got = rows.iter().map(|r| r.len().to_string()).collect::<Vec<_>>().join(", ");
            let wanted = format!("{w} rows of {w} integers");
            let remedy = "give a row for each slot, an entry for each slot";
            return Err(Error::bad_input("slot_map", wanted, format!("rows of {got}"), remedy));
        }
        let (kind, size, q) =
            (SlotKeyKind::Map(RowSums::of(rows).checked()?), p.big_dimension(), p.modulus);
        self.slot_key(kind, |i, slot| {
            let row = rows[slot].iter().map(|m| q.from_signed(*m));
            if i >= size {
                return q.from_signed(-rows[slot][i - size]);
            }
            let bits = self.big[i..].iter().step_by(size);
            row.zip(bits).fold(0, |sum, (m, s)| q.add(sum, q.mul(m, *s)))
        })
    }

    /// A key switch to the small keys whose row i encrypts `message(i, slot)` in each slot.
    fn slot_key(
        &self,
        kind: SlotKeyKind,
        message: impl Fn(usize, usize) -> u64 + Sync,
    ) -> Result<SlotKey> {
        let p = &*self.params;
        if p.slots == 1 {
            return Err(Error::wrong_params(
                "slot key",
                "a common-mask set",
                format!("`{}` of one slot", p.name),
                "choose a set with slots, as `cm_1_1_w4`",
            ));
        }
        let (seed, noise) = (PublicSeed::from_system()?, SecretSeed::from_system()?);
        let size = p.ks.level as usize * p.slots;
        let mut words = zeroed("keygen", kind.rows(p) * size)?;
        words.par_chunks_exact_mut(size).enumerate().for_each(|(i, out)| {
            self.key_switch_bodies(&seed, &noise, i, |slot| message(i, slot), out);
        });
        let words = Words::Owned(Arc::new(words));
        Ok(SlotKey { params: self.params.clone(), id: self.id, kind, seed, words })
    }
}

impl SlotKey {
    /// What it switches between: the masks that it reads, to the small keys.
    pub fn shape(&self) -> KeySwitchShape {
        let input_dimension = self.kind.rows(&self.params);
        KeySwitchShape { input_dimension, ..KeySwitchShape::of(&self.params) }
    }

    /// Writes rows `(i, 1..=ℓ)`, `[ℓ][n + w]` torus elements.
    pub(crate) fn expand(&self, i: usize, out: &mut [u64]) {
        expand_key_switch(&self.params, &self.seed, &self.words, i, out);
    }
}
