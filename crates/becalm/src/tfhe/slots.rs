//! Making and reading the keys between the slots of a common-mask set: [`SlotKey`].

use super::key_switch::KeySwitchShape;
use super::lwe::{fill_noise, inner_product};
use crate::cipher::{RowSums, SecretKey, SlotKey, SlotKeyKind, Words, slot_gadget};
use crate::math::Modulus;
use crate::math::buffer::zeroed;
use crate::math::parallel::*;
use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use crate::math::sampling::uniform;
use crate::{Error, Result};
use std::sync::Arc;
use zeroize::Zeroizing;

impl SecretKey {
    /// The key that packs plain ciphertexts under the key of slot 0 ([`SecretKey::encrypt_slot`]), one for each slot, into a
    /// common-mask ciphertext. Stored: w²·k·N·ℓ words; expanded, w·k·N·ℓ·(k·N + w).
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a set of one slot; [`Error::Memory`] if the key does not fit; [`Error::Io`] if the system
    /// gives no randomness.
    pub fn pack_key(&self) -> Result<SlotKey> {
        let (size, first) = (self.params.big_dimension(), self.big.iter());
        let first: Vec<u64> = first.take(size).copied().collect();
        let first = Zeroizing::new(first);
        // Without a branch on the key: a bit, times whether the row is of the slot.
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

    /// A key switch to the big keys whose row i encrypts `message(i, slot)` in each slot.
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
        let size = slot_gadget(p).level as usize * p.slots;
        let mut words = zeroed("keygen", kind.rows(p) * size)?;
        words.par_chunks_exact_mut(size).enumerate().for_each(|(i, out)| {
            self.slot_bodies(&seed, &noise, i, |slot| message(i, slot), out);
        });
        let words = Words::Owned(Arc::new(words));
        Ok(SlotKey { params: self.params.clone(), id: self.id, kind, seed, words })
    }

    /// Bodies of rows (i, 1..=ℓ): slot j of row l encrypts `message(j)`·q/B^l under S_j.
    fn slot_bodies(
        &self,
        seed: &PublicSeed,
        noise: &SecretSeed,
        i: usize,
        message: impl Fn(usize) -> u64,
        out: &mut [u64],
    ) {
        let p = &*self.params;
        let (q, size) = (p.modulus, p.big_dimension());
        let mut masks = MaskStream::new(seed, Domain::Packing, i as u32);
        let mut stream = NoiseStream::new(noise, Domain::Packing, i as u32);
        let mut errors = Zeroizing::new(vec![0i64; out.len()]);
        fill_noise(&mut stream, p.glwe_noise, Modulus::LOG2, &mut errors);
        let mut mask = vec![0u64; size];
        let rows = out.chunks_exact_mut(p.slots).zip(errors.chunks_exact(p.slots));
        for (l, (bodies, errors)) in rows.enumerate() {
            uniform(&mut masks, q, &mut mask);
            let unit = 1 << (Modulus::LOG2 - (l as u32 + 1) * slot_gadget(p).base_log);
            let secrets = self.big.chunks_exact(size);
            for (slot, ((body, e), secret)) in
                bodies.iter_mut().zip(errors).zip(secrets).enumerate()
            {
                let scaled = q.add(q.mul(message(slot), unit), q.from_signed(*e));
                *body = q.add(inner_product(q, &mask, secret), scaled);
            }
        }
    }
}

impl SlotKey {
    /// The dimensions that it switches between: from the masks that it reads to the big keys.
    pub fn shape(&self) -> KeySwitchShape {
        let p = &*self.params;
        KeySwitchShape {
            shared: 0,
            input_dimension: self.kind.rows(p),
            output_dimension: p.big_dimension(),
            bodies: p.slots,
            gadget: slot_gadget(p),
            modulus: p.modulus,
            modulus_log2: Modulus::LOG2,
        }
    }

    /// Writes rows `(i, 1..=ℓ)`, `[ℓ][k·N + w]` elements modulo q.
    pub(crate) fn expand(&self, i: usize, out: &mut [u64]) {
        let p = &*self.params;
        let (dimension, size) = (p.big_dimension(), slot_gadget(p).level as usize * p.slots);
        let bodies = self.words[i * size..(i + 1) * size].chunks_exact(p.slots);
        let mut masks = MaskStream::new(&self.seed, Domain::Packing, i as u32);
        for (row, bodies) in out.chunks_exact_mut(dimension + p.slots).zip(bodies) {
            uniform(&mut masks, p.modulus, &mut row[..dimension]);
            row[dimension..].copy_from_slice(bodies);
        }
    }
}
