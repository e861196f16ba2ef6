//! Encryption and decryption of batches with a secret key.
//!
//! Fresh ciphertexts are (a, ⟨a, s⟩ + Δm + e) under the resting key of the set. Masks come from a public seed, noise
//! from a secret one, both fresh for every call. Sets with w slots put w values into each ciphertext, behind one mask
//! and under w keys; a batch that does not fill its last ciphertext is filled up with zeros. All work on the key is branch-free: its bits multiply.

use crate::cipher::{Encoding, Glwe, KeyRole, Lwe, Output, SecretKey};
use crate::math::Modulus;
use crate::math::buffer::{reserved, zeroed};
use crate::math::memory::require_memory_or;
use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use crate::math::sampling::uniform;
use crate::params::{Order, TfheParams};
use crate::progress::tell;
use crate::tfhe::lwe::{fill_noise, inner_product};
use crate::tfhe::polynomial::BinaryPolynomials;
use crate::tfhe::{Table, noise};
use crate::{Error, Progress, Result, UNWATCHED};
use zeroize::Zeroizing;

/// How many ciphertexts are made between two looks at whether the work is to stop.
const TELL: usize = 256;

impl SecretKey {
    /// The key that ciphertexts rest under between bootstraps.
    pub fn resting_role(&self) -> KeyRole {
        match self.params.order {
            Order::KsPbs => KeyRole::Big,
            Order::PbsKs => KeyRole::Small,
        }
    }

    /// Encrypts values in the set's own encoding, each below message·carry.
    ///
    /// # Errors
    /// As [`SecretKey::encrypt_as`].
    pub fn encrypt(&self, values: &[u64]) -> Result<Lwe> {
        let encoding = Encoding::of(&self.params);
        self.encrypt_as(values, encoding, encoding.values)
    }

    /// Encrypts values of an encoding that are known to lie in 0..`below`. A smaller `below` leaves room for sums
    /// before the next table; it is public. Value i is slot i mod w of ciphertext i/w; empty slots hold 0.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a value not below `below`, or `below` above the encoding's values; [`Error::Io`] if the
    /// system gives no randomness.
    pub fn encrypt_as(&self, values: &[u64], encoding: Encoding, below: u64) -> Result<Lwe> {
        self.encrypt_as_with(values, encoding, below, UNWATCHED)
    }

    /// [`SecretKey::encrypt_as`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`SecretKey::encrypt_as`], and [`Error::Interrupted`].
    pub fn encrypt_as_with(
        &self,
        values: &[u64],
        encoding: Encoding,
        below: u64,
        progress: Progress,
    ) -> Result<Lwe> {
        self.encrypt_under(self.resting_role(), values, encoding, below, progress)
    }

    /// Encrypts values as plain ciphertexts, one message each, under the key of one slot of a common-mask set: what
    /// [`Program::pack`](crate::program::Program::pack) takes, and the like of what
    /// [`Program::extract`](crate::program::Program::extract) gives.
    ///
    /// # Errors
    /// As [`SecretKey::encrypt_as`]; [`Error::BadInput`] if the set has no such slot.
    pub fn encrypt_slot(&self, slot: u32, values: &[u64], below: u64) -> Result<Lwe> {
        let role = KeyRole::Slot(slot).checked(&self.params)?;
        self.encrypt_under(role, values, Encoding::of(&self.params), below, UNWATCHED)
    }

    fn encrypt_under(
        &self,
        role: KeyRole,
        values: &[u64],
        encoding: Encoding,
        below: u64,
        progress: Progress,
    ) -> Result<Lwe> {
        encoding.checked()?;
        if below == 0 || below > encoding.values {
            return Err(Error::bad_input(
                "encrypt",
                format!("a bound from 1 to {}", encoding.values),
                below.to_string(),
                "choose a bound that the encoding has",
            ));
        }
        if let Some(at) = values.iter().position(|v| *v >= below) {
            // The position is public, the value is not.
            return Err(Error::bad_input(
                "encrypt",
                format!("values below {below}"),
                format!("a larger one at position {at}"),
                "reduce the values or choose an encoding with more of them",
            ));
        }
        let slots = role.bodies(&self.params);
        let words = values.len().div_ceil(slots).saturating_mul(role.width(&self.params));
        require_memory_or("encrypt", words.saturating_mul(8), "encrypt fewer values at once")?;
        // Allocated at its final length: a growing vector leaves copies behind.
        let length = values.len().next_multiple_of(slots);
        let mut phases = Zeroizing::new(zeroed("encrypt", length)?);
        encoding.encode_secret(self.params.modulus, values, &mut phases);
        let seed = (PublicSeed::from_system()?, 0);
        let mut batch = Lwe {
            params: self.params.clone(),
            key: self.id,
            role,
            encoding,
            range: (0, below as i64 - 1),
            noise: role.fresh_noise(&self.params).variance(Modulus::LOG2),
            independent: true,
            seed: Some(seed),
            // Each ciphertext takes its pages when it is made, so that work can stop before they are all taken.
            data: reserved("encrypt", words)?,
        };
        self.encrypt_phases(&phases, seed, &mut batch, progress)?;
        Ok(batch)
    }

    /// Encrypts torus elements, whole ciphertexts of them, behind masks of a seed.
    fn encrypt_phases(
        &self,
        phases: &[u64],
        (seed, first): (PublicSeed, u32),
        batch: &mut Lwe,
        progress: Progress,
    ) -> Result<()> {
        let (q, role) = (self.params.modulus, batch.role);
        let (dimension, slots) = (role.dimension(&self.params), role.bodies(&self.params));
        let secrets = self.expose(role);
        let noise_seed = SecretSeed::from_system()?;
        let mut noise = NoiseStream::new(&noise_seed, Domain::Ciphertext, 0);
        let mut errors = Zeroizing::new(vec![0i64; phases.len()]);
        fill_noise(&mut noise, role.fresh_noise(&self.params), Modulus::LOG2, &mut errors);
        let messages = phases.chunks_exact(slots).zip(errors.chunks_exact(slots));
        let all = messages.len();
        for (i, (at, (phases, errors))) in (first..).zip(messages).enumerate() {
            if i % TELL == 0 {
                tell("encrypt", progress, i, all)?;
            }
            let begin = batch.data.len();
            batch.data.resize(begin + dimension + slots, 0);
            let (mask, bodies) = batch.data[begin..].split_at_mut(dimension);
            uniform(&mut MaskStream::new(&seed, Domain::Ciphertext, at), q, mask);
            for (slot, secret) in secrets.chunks_exact(dimension).enumerate() {
                let message = q.add(phases[slot], q.from_signed(errors[slot]));
                bodies[slot] = q.add(inner_product(q, mask, secret), message);
            }
        }
        Ok(())
    }

    /// Decrypts a batch to its values, slot after slot of each ciphertext.
    ///
    /// # Errors
    /// [`Error::WrongParams`] or [`Error::WrongKey`] if the ciphertexts belong to another set or key;
    /// [`Error::TooNoisy`] if a value would be wrong more often than the set claims of a bootstrap.
    pub fn decrypt(&self, ct: &Lwe) -> Result<Vec<u64>> {
        noise::require_decodable("decrypt", &self.params, ct.encoding, ct.noise)?;
        let phases = Zeroizing::new(self.phases(ct)?);
        Ok(phases.iter().map(|x| ct.encoding.decode(self.params.modulus, *x)).collect())
    }

    /// The phases b_j − ⟨a, s_j⟩ of a batch: messages with their noise, for proofs and measurements. The result is secret,
    /// and the caller wipes it.
    ///
    /// # Errors
    /// [`Error::WrongParams`] or [`Error::WrongKey`], as [`SecretKey::decrypt`].
    pub fn phases(&self, ct: &Lwe) -> Result<Vec<u64>> {
        if *ct.params != *self.params {
            return Err(Error::wrong_params(
                "decrypt",
                format!("ciphertexts of {}", self.params.name),
                ct.params.name.to_string(),
                "use the secret key of their parameter set",
            ));
        }
        if ct.key != self.id {
            return Err(Error::wrong_key(
                "decrypt",
                format!("ciphertexts under key {}", self.id),
                ct.key.to_string(),
                "use the secret key that they were encrypted with",
            ));
        }
        let q = self.params.modulus;
        let (dimension, secrets) = (ct.role.dimension(&self.params), self.expose(ct.role));
        // Allocated at its final length: a growing vector leaves copies behind.
        let mut phases = zeroed("decrypt", ct.len() * ct.slots())?;
        let messages = phases.chunks_exact_mut(ct.slots());
        for (phases, c) in messages.zip(ct.data.chunks_exact(ct.width())) {
            let bodies = c[dimension..].iter().zip(secrets.chunks_exact(dimension));
            for (phase, (body, secret)) in phases.iter_mut().zip(bodies) {
                *phase = q.sub(*body, inner_product(q, c, secret));
            }
        }
        Ok(phases)
    }

    /// How far the phases of a batch are from the given values, in torus units (−1/2 ..= 1/2): its noise, for proofs and
    /// measurements. Learning it breaks the ciphertexts, so it needs the secret key. Slots past the values are left out.
    ///
    /// # Errors
    /// As [`SecretKey::phases`]; [`Error::BadInput`] if the values would fill more or fewer ciphertexts.
    pub fn errors(&self, ct: &Lwe, values: &[u64]) -> Result<Vec<f64>> {
        if values.len().div_ceil(ct.slots()) != ct.len() {
            return Err(Error::bad_input(
                "errors",
                format!("{} values", ct.len() * ct.slots()),
                values.len().to_string(),
                "give one value for each message",
            ));
        }
        let q = self.params.modulus;
        let error = |(x, v): (&u64, &u64)| {
            q.to_signed(q.sub(*x, ct.encoding.encode(q, *v as i64))) as f64 * 2f64.powi(-64)
        };
        let phases = Zeroizing::new(self.phases(ct)?);
        Ok(phases.iter().zip(values).map(error).collect())
    }

    /// Encrypts a lookup table, so that the server does not learn its entries. Its input encoding, its length and the encodings of its
    /// outputs are public. The results of a lookup have the whole range of these, whatever the entries are.
    ///
    /// # Errors
    /// [`Error::WrongParams`] if the table has another size; [`Error::BadInput`] if its input has no padding bit, as that
    /// of a gate; [`Error::Unsupported`] for a common-mask set, whose slots cannot be rotated apart behind a mask;
    /// [`Error::Io`] if the system gives no randomness.
    pub fn encrypt_table(&self, table: &Table) -> Result<Glwe> {
        let (n, k, q) =
            (self.params.polynomial_size, self.params.glwe_dimension, self.params.modulus);
        require_plain(&self.params, "encrypt_table")?;
        let size = self.params.table_size();
        if table.polynomial().len() != size {
            return Err(Error::wrong_params(
                "encrypt_table",
                format!("a table of {size} coefficients"),
                table.polynomial().len().to_string(),
                "build the table for this parameter set",
            ));
        }
        // The range that the entries have would tell the smallest and the largest of them.
        let all = |o: &Output| Output { range: (0, o.encoding.values as i64 - 1), ..*o };
        let empty = Glwe {
            params: self.params.clone(),
            key: self.id,
            input: table.input(),
            limit: table.limit,
            outputs: table.outputs().iter().map(all).collect(),
            noise: self.params.glwe_noise.variance(Modulus::LOG2),
            data: Vec::new(),
        };
        empty.check_metadata()?;
        let (mask_seed, noise_seed) = (PublicSeed::from_system()?, SecretSeed::from_system()?);
        let secret = BinaryPolynomials::new(q, n, &self.big)?;
        let mut masks = MaskStream::new(&mask_seed, Domain::Ciphertext, 0);
        let mut noise = NoiseStream::new(&noise_seed, Domain::Ciphertext, 0);
        let parts = self.params.accumulators();
        let mut data = vec![0u64; parts * (k + 1) * n];
        for (j, glwe) in data.chunks_exact_mut((k + 1) * n).enumerate() {
            let (mask, body) = glwe.split_at_mut(k * n);
            uniform(&mut masks, q, mask);
            secret.encrypt_zero(mask, &mut noise, self.params.glwe_noise, body);
            for (b, t) in body.iter_mut().zip(table.polynomial().iter().skip(j).step_by(parts)) {
                *b = q.add(*b, *t);
            }
        }
        Ok(Glwe { data, ..empty })
    }
}

impl Lwe {
    /// "Encryptions" without mask or noise: public values in the shape of ciphertexts, slot after slot.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a value that the encoding does not have.
    pub fn trivial(like: &Lwe, values: &[u64]) -> Result<Lwe> {
        if let Some(v) = values.iter().find(|v| **v >= like.encoding.values) {
            return Err(Error::bad_input(
                "trivial",
                format!("values below {}", like.encoding.values),
                v.to_string(),
                "reduce the values",
            ));
        }
        let (width, slots) = (like.width(), like.slots());
        let mut data = zeroed("trivial", values.len().div_ceil(slots).saturating_mul(width))?;
        for (ct, values) in data.chunks_exact_mut(width).zip(values.chunks(slots)) {
            for (body, v) in ct[width - slots..].iter_mut().zip(values) {
                *body = like.encoding.encode(like.params.modulus, *v as i64);
            }
        }
        let filler = (!values.len().is_multiple_of(slots)).then_some(0);
        let held = || values.iter().copied().chain(filler);
        let range = (held().min().unwrap_or(0) as i64, held().max().unwrap_or(0) as i64);
        Ok(Lwe { data, noise: 0.0, range, independent: true, ..like.empty_like() })
    }
}

/// Refuses an encrypted table where a ciphertext has several slots: each body of the table turns by its own exponent, and
/// a mask cannot turn by several.
pub(crate) fn require_plain(params: &TfheParams, op: &'static str) -> Result<()> {
    if params.slots == 1 {
        return Ok(());
    }
    let got = format!("`{}` with {} slots", params.name, params.slots);
    let remedy = "give a plaintext table for each slot, or use a set without a common mask";
    Err(Error::unsupported(op, "a set of one slot for an encrypted table", got, remedy))
}
