//! Threshold decryption: a secret key is split among n parties, of whom any t decrypt together, and t − 1 learn nothing.
//!
//! Replicated sharing (Ito–Saito–Nishizeki 1987): for each set A of t − 1 parties r_A is uniform in the ring, s = Σ_A r_A, and party
//! i has r_A for every A without i. The parties of A lack r_A; any t parties have all. All r_A but the last come from seeds.
//! In a quorum Q of t parties the first of Q outside A answers for r_A. Party i gives d_i = c_1·Σ r_A + e_i over its own A, and
//! c_0 + Σ d_i = m + e + Σ e_i.
//!
//! All other parties may be corrupt. They know all r_A but one, so an honest d_i is as much as m + e + e_i: e_i alone hides e, by
//! the formula of `flood.rs`. The whole polynomial is shown, whatever the slots, so D = N; and n − t + 1 parties may each answer q
//! times, so they count as q·(n − t + 1) queries. A coefficient's deviation is σ = scale·2^-bits/√N: Σ|z_j|² over the N/2 slots is
//! N/2·‖e‖²/scale², so ‖e‖ ≤ scale·E, and √2 of the noise is to spare. Shamir's shares are smaller, but their Lagrange factors multiply e_i.

use super::Context;
use super::flood;
use crate::cipher::{Budget, CkksSecretKey, KeyId, MOST_PARTIES, Rlwe};
use crate::math::buffer::or_refused;
use crate::math::complex::Complex;
use crate::math::parallel::*;
use crate::math::random::{Domain, NoiseStream, PublicSeed, SecretSeed};
use crate::math::rns::Scratch;
use crate::math::sampling;
use crate::{Error, Result};
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// Words of a level that decryption uses, at the most.
const WORDS: usize = 3;
/// Most parts of a key.
const MOST_PARTS: u64 = 1024;
/// Log2 of the standard deviation that is drawn in one piece: doubles are exact to a hundredth of a unit there.
const ONE_PIECE: i32 = 30;
/// Standard deviations that a coefficient of noise stays within, as doubles have it.
const NOISE_REACH: f64 = 10.0;

/// A party's share of a secret key, wiped when dropped. Each of the parties has one, and numbers from 1.
pub struct KeyShare {
    pub(super) params: &'static str,
    pub(super) key: KeyId,
    pub(super) split: Split,
    pub(super) parties: usize,
    pub(super) threshold: usize,
    pub(super) party: usize,
    /// The seed of r_A for each A without this party, but for the last of all A.
    pub(super) seeds: Vec<(Set, SecretSeed)>,
    /// The last r_A as values modulo the words of decryption, if its A is without this party.
    pub(super) last: Option<Zeroizing<Vec<f64>>>,
    /// Whether the parties made the key together. It has the seeds of all their secrets then, and the sum of the last r_A; where all
    /// decrypt, no seeds and the own secret in place of r_A, A all others.
    pub(super) together: bool,
    pub(super) budget: Budget,
}

/// Parties as bits, the first one the lowest.
pub(super) type Set = u32;

/// Identity of one splitting of a key: shares of two do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split(pub(super) [u8; 16]);

/// The part of a decryption that one party of a quorum computes.
#[derive(Clone, PartialEq)]
pub struct PartialDecryption {
    pub(super) params: &'static str,
    pub(super) key: KeyId,
    pub(super) split: Split,
    pub(super) party: usize,
    pub(super) quorum: Set,
    pub(super) level: usize,
    /// Digest of the ciphertext.
    pub(super) of: [u8; 32],
    /// d_i modulo the words of decryption, packed.
    pub(super) residues: Vec<u8>,
}

impl KeyShare {
    /// Identity of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.key
    }

    /// Number of the party that it is for, from 1.
    pub fn party(&self) -> usize {
        self.party
    }

    /// n: how many parties have shares.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// t: how many of them decrypt together.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// The part of its budget that partial decryptions have spent since this share was made or read, as
    /// [`CkksSecretKey::spent`].
    pub fn spent(&self) -> f64 {
        self.budget.spent()
    }

    /// How many parties made the key: all, or the one that split it.
    fn makers(&self) -> usize {
        if self.together { self.parties } else { 1 }
    }

    /// The parties of a quorum of which this one is.
    fn quorum(&self, op: &'static str, parties: &[usize]) -> Result<Set> {
        let known = parties.iter().filter(|p| (1..=self.parties).contains(p));
        let quorum = known.fold(0, |set, p| set | bit(*p));
        let whole = quorum.count_ones() as usize == self.threshold;
        if whole && parties.len() == self.threshold && quorum & bit(self.party) != 0 {
            return Ok(quorum);
        }
        let (all, t) = (self.parties, self.threshold);
        let wanted =
            format!("{t} different parties of 1 to {all}, party {} among them", self.party);
        let got = match parties.len() <= MOST_PARTIES {
            true => format!("{parties:?}"),
            false => format!("{} parties", parties.len()),
        };
        Err(Error::bad_input(op, wanted, got, "name all parties of the quorum, each once"))
    }
}

impl PartialDecryption {
    /// Identity of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.key
    }

    /// Number of the party that gave it.
    pub fn party(&self) -> usize {
        self.party
    }

    /// Numbers of all parties whose parts are needed.
    pub fn quorum(&self) -> Vec<usize> {
        members(self.quorum).collect()
    }
}

impl fmt::Debug for PartialDecryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { params, key, party, .. } = self;
        let quorum = self.quorum();
        write!(f, "PartialDecryption({params}, key {key}, party {party} of {quorum:?})")
    }
}

pub(super) fn bit(party: usize) -> Set {
    1 << (party - 1)
}

/// Numbers of the parties of a set.
pub(super) fn members(set: Set) -> impl Iterator<Item = usize> {
    (1..=MOST_PARTIES).filter(move |p| set & bit(*p) != 0)
}

/// The sets A, in order; none where there are too many or no threshold is meant.
pub(super) fn parts(parties: usize, threshold: usize) -> Option<Vec<Set>> {
    if !(2..=MOST_PARTIES).contains(&parties) || !(2..=parties).contains(&threshold) {
        return None;
    }
    let size = threshold - 1;
    // Each step is a whole number, below 32·2^32.
    let count = (0..size as u64).fold(1, |c, i| c * (parties as u64 - i) / (i + 1));
    if count > MOST_PARTS {
        return None;
    }
    // The next larger number with as many bits (Gosper).
    let next = |set: &u64| {
        let low = set & set.wrapping_neg();
        let up = set + low;
        Some(up | (((set ^ up) >> 2) / low))
    };
    let all = std::iter::successors(Some((1u64 << size) - 1), next);
    Some(all.take(count as usize).map(|set| set as Set).collect())
}

/// [`parts`], or a refusal.
pub(super) fn require_parts(
    op: &'static str,
    parties: usize,
    threshold: usize,
) -> Result<Vec<Set>> {
    parts(parties, threshold).ok_or_else(|| {
        let wanted =
            "2 to 32 parties, a threshold of 2 to as many, and at most 1024 sets of one fewer";
        let got = format!("{parties} parties, threshold {threshold}");
        Error::bad_input(op, wanted, got, "choose fewer parties, or a threshold near 2 or n")
    })
}

/// Refuses a ciphertext whose account counts other parties than made the key: its error would be understated.
fn require_makers(op: &'static str, x: &Rlwe, share: &KeyShare) -> Result<()> {
    if x.account.parties == share.makers() {
        return Ok(());
    }
    let named = |parties: usize| match parties {
        1 => "a key that one party made".to_string(),
        parties => format!("a key that {parties} parties made together"),
    };
    let (wanted, got) = (named(share.makers()), named(x.account.parties));
    let remedy = "encrypt with the public key that was made with this share";
    Err(Error::bad_input(op, format!("a ciphertext of {wanted}"), format!("one of {got}"), remedy))
}

impl KeyShare {
    /// Splits a secret key among `parties`, of whom any `threshold` decrypt together. Fewer learn nothing of it. Give each party its
    /// own share over a secret channel, and drop the others and the key.
    ///
    /// # Errors
    /// `WrongParams` for a key of another set; `BadInput` for fewer than 2 or more than 32 parties, a threshold that is not in 2 to
    /// `parties`, and more than 1024 parts, of which there are as many as sets of `threshold` − 1 parties; `Io` when the system has
    /// no randomness.
    pub fn split(
        context: &Context,
        secret: &CkksSecretKey,
        parties: usize,
        threshold: usize,
    ) -> Result<Vec<KeyShare>> {
        let op = "split";
        context.check_set(op, secret.params)?;
        let sets = require_parts(op, parties, threshold)?;
        // A vector that grows would leave copies of seeds behind.
        let mut seeds = Vec::with_capacity(sets.len());
        for _ in &sets[1..] {
            seeds.push(SecretSeed::from_system()?);
        }
        let mut split = Split([0; 16]);
        split.0.copy_from_slice(&PublicSeed::from_system()?.0[..16]);
        let s = context.secret_values(secret, 0);
        Ok(dealt(context, &s, &seeds, (secret.id, split), (parties, threshold)))
    }

    /// Bits that [`KeyShare::decrypt_partially`] can ask for, if `queries` decryptions under the key are published in all.
    ///
    /// # Errors
    /// As [`Context::bits_to_share`]; `WrongParams` for a share of another set.
    pub fn bits_to_decrypt_partially(
        &self,
        context: &Context,
        ciphertext: &Rlwe,
        queries: u64,
    ) -> Result<f64> {
        let op = "bits to decrypt partially";
        context.check_set(op, self.params)?;
        self.bits_of_parts(context, op, ciphertext, queries)
    }

    fn bits_of_parts(
        &self,
        context: &Context,
        op: &'static str,
        x: &Rlwe,
        queries: u64,
    ) -> Result<f64> {
        // Those who cannot be corrupt may each answer as often, in different quorums.
        let answers = queries.saturating_mul((self.parties - self.threshold + 1) as u64);
        let n = context.params().degree();
        let bits = context.bits_shown(op, x, n, answers)?;
        // An error is a whole number of units, whatever is vouched for: at least one.
        let unit = (24.0 * 2.0 * n as f64 * answers as f64).sqrt() / x.scale;
        Ok(bits.min(-unit.log2() - flood::STATISTICAL_BITS / 2.0))
    }

    /// A party's part of the decryption of a ciphertext by a quorum: as many parties as the threshold says, this one among them. Its
    /// noise of standard deviation 2^-`precision_bits` a slot hides the error of the ciphertext, even from all others together. The
    /// [combined](PartialDecryption::combine) values have the noise of all parts: √t as much. Each call spends 1/`queries` of the share's
    /// budget, which counts in memory; `queries` is the number of decryptions under this key that will be published in all.
    ///
    /// **The party must know that the ciphertext is the result of the agreed computation.** A part of a chosen one gives the share
    /// away; its account must be [known](Context::bits_to_share), or vouched for by this party.
    ///
    /// # Errors
    /// As [`Context::bits_to_share`]; `TooNoisy`, with the bits that are possible, where the noise asked for is too little to hide
    /// anything; `WrongParams` and `WrongKey` for a share of another set or key; `BadInput` for a quorum that is not one of this
    /// party, a level above the user's, a precision that is not in −60 ..= 60 or whose noise has no room at this level, and for a
    /// share that has answered as often as it may; `Io` when the system has no randomness. All are decided on public facts.
    pub fn decrypt_partially(
        &self,
        context: &Context,
        ciphertext: &Rlwe,
        quorum: &[usize],
        precision_bits: f64,
        queries: u64,
    ) -> Result<PartialDecryption> {
        let op = "decrypt partially";
        context.check_set(op, ciphertext.params)?;
        context.check_set(op, self.params)?;
        require_key(op, ciphertext, self.key)?;
        require_makers(op, ciphertext, self)?;
        ciphertext.require_slots(op)?;
        let quorum = self.quorum(op, quorum)?;
        let words = words_of_shares(context, op, ciphertext.level)?;
        flood::check_precision(op, precision_bits, || {
            self.bits_of_parts(context, op, ciphertext, queries)
        })?;
        let std = noise_of_part(context, op, ciphertext, self.threshold, precision_bits)?;
        let seed = SecretSeed::from_system()?;
        flood::spend(op, &self.budget, queries)?;
        let residues = or_refused(op, || {
            let mut noise = noise_limbs(context, &seed, std, &words);
            let residues = self.part_of(context, ciphertext, quorum, &noise, &words);
            noise.zeroize();
            Ok(residues)
        })?;
        let (params, key, split, party) = (self.params, self.key, self.split, self.party);
        let (level, of) = (ciphertext.level, digest(context, ciphertext, &words));
        Ok(PartialDecryption { params, key, split, party, quorum, level, of, residues })
    }

    /// c_1·Σ r_A + e, packed, over the A that are the party's matter in a quorum.
    pub(super) fn part_of(
        &self,
        context: &Context,
        x: &Rlwe,
        quorum: Set,
        noise: &[f64],
        words: &[usize],
    ) -> Vec<u8> {
        let (ring, n) = (context.ring(), context.params().degree());
        // Those of the quorum before this party are all in A, and it is not.
        let before = quorum & (bit(self.party) - 1);
        let mine = |set: &Set| before & !set == 0;
        let last = parts(self.parties, self.threshold).and_then(|all| all.last().copied());
        // Where all decrypt, each has one r_A, and it is its matter.
        let whole = self.parties == self.threshold;
        let last = self.last.as_ref().filter(|_| whole || last.is_some_and(|set| mine(&set)));
        let limb = |(k, word): (usize, &usize)| {
            let [mut key, mut part] = [0; 2].map(|_| Zeroizing::new(vec![0.0; n]));
            for (_, seed) in self.seeds.iter().filter(|(set, _)| mine(set)) {
                draw_part(context, seed, *word, &mut part);
                ring.add(*word, &mut key, &part);
            }
            if let Some(last) = last {
                ring.add(*word, &mut key, &last[k * n..][..n]);
            }
            part.copy_from_slice(&noise[k * n..][..n]);
            ring.mul_add(*word, &mut part, &key, &x.parts[1][k * n..][..n]);
            ring.packed(*word, &part)
        };
        words.par_iter().enumerate().map(limb).collect::<Vec<_>>().concat()
    }
}

impl PartialDecryption {
    /// The values of a ciphertext from the parts of a whole quorum, with the noise of all of them: whoever may see the parts may see
    /// the values.
    ///
    /// # Errors
    /// `WrongParams` and `WrongKey` for parts of another set or key; `BadInput` for parts of another ciphertext, splitting or
    /// quorum, and where one is missing or twice there; `BadFile` for residues that cannot be.
    pub fn combine(
        context: &Context,
        ciphertext: &Rlwe,
        parts: &[PartialDecryption],
    ) -> Result<Vec<Complex>> {
        let (op, n) = ("combine", context.params().degree());
        context.check_set(op, ciphertext.params)?;
        let words = words_of_shares(context, op, ciphertext.level)?;
        check_parts(context, op, ciphertext, parts, &words)?;
        let mut phase = context.ring().scratch(words.len() * n);
        phase.copy_from_slice(&ciphertext.parts[0][..words.len() * n]);
        for part in parts {
            let part = context.unpacked(&words, &part.residues)?;
            let limbs = phase.par_chunks_mut(n).zip(part.par_chunks(n)).zip(&words);
            limbs.for_each(|((x, y), word)| context.ring().add(*word, x, y));
        }
        let integers = context.integers(&phase, ciphertext.level);
        let mut values = context.values(integers, ciphertext.scale);
        values.truncate(ciphertext.slots);
        Ok(values)
    }
}

/// The words of decryption at `level`.
///
/// # Errors
/// `BadInput` for a level that has other words than the user's.
pub(super) fn words_of_shares(
    context: &Context,
    op: &'static str,
    level: usize,
) -> Result<Vec<usize>> {
    if level > context.params().top_level() || context.tier_at(level) > 0 {
        let most = context.tier_of(0).end - 1;
        let wanted = format!("a ciphertext at a level of at most {most}");
        let remedy = "bring it down with `level_down`: shares know the lowest words alone";
        return Err(Error::bad_input(op, wanted, level.to_string(), remedy));
    }
    let mut words = context.words_of(level, 0);
    words.truncate(WORDS);
    Ok(words)
}

/// All words that shares know.
pub(super) fn all_words_of_shares(context: &Context) -> Vec<usize> {
    let mut words = context.words_of(context.tier_of(0).end - 1, 0);
    words.truncate(WORDS);
    words
}

/// The shares of a secret of these values, of seeds for all sets A but the last one.
pub(super) fn dealt(
    context: &Context,
    s: &[f64],
    seeds: &[SecretSeed],
    (key, split): (KeyId, Split),
    (parties, threshold): (usize, usize),
) -> Vec<KeyShare> {
    let sets = parts(parties, threshold).unwrap_or_default();
    let (last, seeded) = sets.split_last().map_or((0, &[][..]), |(last, rest)| (*last, rest));
    let (words, n) = (all_words_of_shares(context), context.params().degree());
    let mut rest = Zeroizing::new(s[..words.len() * n].to_vec());
    rest.par_chunks_mut(n).zip(&words).for_each(|(x, word)| {
        let mut part = Zeroizing::new(vec![0.0; n]);
        for seed in seeds {
            draw_part(context, seed, *word, &mut part);
            context.ring().sub(*word, x, &part);
        }
    });
    let share = |party| {
        let own = |set: &Set| set & bit(party) == 0;
        let mut kept = Vec::with_capacity(seeds.len());
        for (set, seed) in seeded.iter().zip(seeds).filter(|(set, _)| own(set)) {
            kept.push((*set, seed.again()));
        }
        let last = own(&last).then(|| rest.clone());
        let (params, budget, together, seeds) =
            (context.params().name, Budget::default(), false, kept);
        KeyShare { params, key, split, parties, threshold, party, seeds, last, together, budget }
    };
    (1..=parties).map(share).collect()
}

/// r_A modulo a word, from its seed.
fn draw_part(context: &Context, seed: &SecretSeed, word: usize, out: &mut [f64]) {
    let mut stream = NoiseStream::new(seed, Domain::KeyShare, word as u32);
    context.ring().draw(word, |words| stream.fill_u64(words), out);
}

/// The standard deviation of a coefficient of the noise of a part.
///
/// # Errors
/// `BadInput` where the noise of all parts has no room.
fn noise_of_part(
    context: &Context,
    op: &'static str,
    x: &Rlwe,
    threshold: usize,
    bits: f64,
) -> Result<f64> {
    let unit = x.scale / (context.params().degree() as f64).sqrt();
    let room = context.room(x.level) / (NOISE_REACH * (threshold as f64).sqrt());
    let (std, most) = (unit * (-bits).exp2(), room.min(2f64.powi(59)));
    if std <= most {
        return Ok(std);
    }
    let wanted = format!("at least {:.1} bits", (unit / most).log2());
    let remedy = "ask for more bits, or decrypt at a higher level";
    Err(Error::bad_input(op, wanted, format!("{bits} bits"), remedy))
}

/// Gaussian noise as values modulo words, exact to the unit. Noise too large for doubles is the sum of 2^k times one and a
/// fine one eight times as wide as that step: as good as one of that size.
fn noise_limbs(context: &Context, seed: &SecretSeed, std: f64, words: &[usize]) -> Scratch {
    let (ring, n) = (context.ring(), context.params().degree());
    let steps = (std.log2().ceil() as i32 - ONE_PIECE).max(0);
    let step = 2f64.powi(steps);
    let draw = |index: u32, std: f64| {
        let mut e = Zeroizing::new(vec![0.0; n]);
        let mut stream = NoiseStream::new(seed, Domain::Flood, index);
        sampling::rounded_gaussian(&mut stream, std, &mut e);
        e
    };
    let mut coarse = draw(0, std / step);
    if steps == 0 {
        return context.limbs(&coarse, words);
    }
    coarse.iter_mut().for_each(|x| *x *= step);
    let mut out = context.limbs(&coarse, words);
    let mut fine = context.limbs(&draw(1, 8.0 * step), words);
    for ((x, y), word) in out.chunks_mut(n).zip(fine.chunks(n)).zip(words) {
        ring.add(*word, x, y);
    }
    fine.zeroize();
    out
}

/// The digest of what decryption uses of a ciphertext.
fn digest(context: &Context, x: &Rlwe, words: &[usize]) -> [u8; 32] {
    let n = context.params().degree();
    let mut digest = blake3::Hasher::new_derive_key("becalm v1 ciphertext of a part");
    digest.update(&(x.params.len() as u64).to_le_bytes()).update(x.params.as_bytes());
    digest.update(&x.key.0);
    for fact in [x.level as u64, x.scale.to_bits(), x.slots as u64] {
        digest.update(&fact.to_le_bytes());
    }
    for part in &x.parts {
        for (limb, word) in part.chunks(n).zip(words) {
            digest.update(&context.ring().packed(*word, limb));
        }
    }
    *digest.finalize().as_bytes()
}

/// Refuses parts that are not those of one quorum for this ciphertext.
fn check_parts(
    context: &Context,
    op: &'static str,
    x: &Rlwe,
    parts: &[PartialDecryption],
    words: &[usize],
) -> Result<()> {
    let of = digest(context, x, words);
    let quorum = parts.first().map_or(0, |part| part.quorum);
    for part in parts {
        context.check_set(op, part.params)?;
        require_key(op, x, part.key)?;
        let (wanted, party) = ("parts of one decryption of this ciphertext", part.party);
        let got = match (part.of == of, part.split == parts[0].split, part.quorum == quorum) {
            (true, true, true) => continue,
            (false, ..) => format!("a part of another ciphertext, of party {party}"),
            (_, false, _) => format!("a part of another splitting, of party {party}"),
            _ => format!("a part for another quorum, of party {party}"),
        };
        let remedy = "ask all parties of one quorum for parts of this ciphertext";
        return Err(Error::bad_input(op, wanted, got, remedy));
    }
    let there = parts.iter().fold(0, |set, part| set | bit(part.party));
    if !parts.is_empty() && there == quorum && parts.len() == quorum.count_ones() as usize {
        return Ok(());
    }
    let wanted = match quorum {
        0 => "a part of each party of a quorum".to_string(),
        _ => {
            format!("one part of each of the parties {:?}", members(quorum).collect::<Vec<_>>())
        }
    };
    let all: Vec<usize> = parts.iter().map(|part| part.party).take(MOST_PARTIES).collect();
    let got = format!("parts of {all:?}");
    Err(Error::bad_input(op, wanted, got, "ask those whose parts are missing"))
}

fn require_key(op: &'static str, x: &Rlwe, key: KeyId) -> Result<()> {
    if x.key == key {
        return Ok(());
    }
    let (wanted, got) = (format!("key {}", x.key), key.to_string());
    Err(Error::wrong_key(op, wanted, got, "use what was made from the key of the ciphertext"))
}

mod file;

#[cfg(test)]
mod tests;
