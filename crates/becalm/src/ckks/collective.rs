//! Collective keys: n parties make a key together, and nobody ever has its secret, the sum s = Σ s_i of a ternary secret of each.
//!
//! The protocols are those of Mouchet, Troncoso-Pastoriza, Bossuat and Hubaux (2020/304), in two rounds of public messages. All masks a
//! come from a seed that the parties agree on. A key is linear in the secret, so that the sum of the parties' keys is a key of the sum:
//!
//!   public          b_i = e − a·s_i                    σ_g      b_i = e − a·σ_g(s_i) + P·s_i
//!   products, first h_i = e_0 − a·u_i + P·s_i, k_i = e_1 − a·s_i
//!   products, second    e_2 + s_i·(h − a') − u_i·k, with h = Σ h_i and k = Σ k_i
//!
//! The last sum is e − a'·s + P·s², e = s·e_0 − u·e_1 + e_2, with u = Σ u_i of fresh ternary polynomials for each digit. There the
//! protocol of the paper has k for the mask; a' is a fresh one from the seed. It makes these keys files like all others, and the samples of s_i
//! in the second round have masks that are uniform whatever the first round brought. No message needs noise beyond that of fresh
//! keys: nothing is decrypted, so that e is hidden by s as in every key. Messages are as good as uniform to all other parties together by
//! RLWE and circular security of (s_i, u_i), which keys of products ask for in any case; but only where all follow the protocol.
//!
//! Where t < n parties decrypt, each splits s_i among all as an owner would ([`threshold`](super::threshold)), and adds up what it was dealt.
//! Secrets, noise and dealt parts follow from one secret seed and the agreement: a message made twice is the same message. Noise that
//! differed under the same masks would give noise away, and the same noise under other masks the secret.

use super::threshold::{Split, require_parts};
use super::{Context, Needs};
use crate::cipher::file::bad;
use crate::cipher::{KeyId, MOST_PARTIES, Purpose};
use crate::math::buffer::or_refused;
use crate::math::parallel::*;
use crate::math::random::{Domain, NoiseStream, PublicSeed, SecretSeed};
use crate::math::rns::centred;
use crate::progress::tell;
use crate::{Error, Progress, Result};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Most keys of an agreement: as many as the header of a message has room for.
const MOST_KEYS: usize = 1024;

/// The facts that all parties of a collective key agree on before the first message. They are public.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    pub(super) params: &'static str,
    pub(super) parties: usize,
    pub(super) threshold: usize,
    pub(super) seed: PublicSeed,
    /// The evaluation keys, each for a level and those below, in order.
    pub(super) keys: Vec<(Purpose, usize)>,
    pub(super) id: [u8; 32],
}

/// A party of a collective key: its number, and the seed of all its secrets, wiped when dropped.
pub struct Party {
    pub(super) agreement: Agreement,
    pub(super) party: usize,
    pub(super) seed: SecretSeed,
}

/// A message of a party to all others. It holds no secret.
#[derive(Clone, PartialEq)]
pub struct PartyMessage {
    pub(super) agreement: Agreement,
    pub(super) party: usize,
    /// The digest of the first messages that a second one answers.
    pub(super) answers: Option<[u8; 32]>,
    /// The limbs of all [`Row`]s, packed.
    pub(super) residues: Arc<Vec<u8>>,
}

/// A digit of a key in a message.
pub(super) struct Row {
    /// Purpose and level; none for the public key.
    key: Option<(Purpose, usize)>,
    digit: usize,
    /// 0 and 1 in first messages, 2 in second ones.
    part: u8,
    special: usize,
    pub(super) words: Vec<usize>,
    /// Those of its limbs that are the digit.
    own: Range<usize>,
    /// Where it begins in a message.
    pub(super) at: usize,
}

/// The parts of a digit of a key, told apart in an agreement.
fn label(key: Option<(Purpose, usize)>, digit: usize, part: u8) -> Vec<u8> {
    let (purpose, level) = match key {
        None => ([0, 0], 0),
        Some((Purpose::Galois(g), level)) => ([2, g], level),
        Some((_, level)) => ([1, 0], level),
    };
    let numbers = [purpose[0], purpose[1], level as u32, digit as u32, u32::from(part)];
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// The keys of an agreement, as they stand in files.
fn keys_text(keys: &[(Purpose, usize)]) -> Result<String> {
    serde_json::to_string(keys).map_err(|e| bad("keys that can be written", e.to_string()))
}

impl Agreement {
    /// Number of parties.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// How many of them decrypt together.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Identity: the digest of all that was agreed on.
    pub fn id(&self) -> [u8; 32] {
        self.id
    }

    /// The seed of the masks of a key, as it is used or in first messages of keys of products.
    fn mask(&self, key: Option<(Purpose, usize)>, used: bool) -> PublicSeed {
        let mut hash = blake3::Hasher::new_derive_key("becalm v1 masks of a collective key");
        hash.update(&self.id).update(&label(key, 0, u8::from(used)));
        PublicSeed(*hash.finalize().as_bytes())
    }

    /// The identity of the splitting of a party's secret; 0 is all of them.
    fn split(&self, dealer: usize) -> Split {
        let mut hash = blake3::Hasher::new_derive_key("becalm v1 shares of a collective key");
        hash.update(&self.id).update(&[dealer as u8]);
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize().as_bytes()[..16]);
        Split(id)
    }

    /// Stands for the identity of a key in the shares that parties deal, because the key is not made yet.
    fn unmade(&self) -> KeyId {
        KeyId(self.split(MOST_PARTIES + 1).0)
    }
}

impl Party {
    /// The agreement that it is a party of.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Its number, from 1.
    pub fn party(&self) -> usize {
        self.party
    }

    /// A seed for one purpose of this agreement.
    fn derived(&self, purpose: &str, labels: &[&[u8]]) -> SecretSeed {
        let label = [&[&self.agreement.id[..]], labels].concat().concat();
        self.seed.derived(&format!("becalm v1 party of a collective key, {purpose}"), &label)
    }
}

impl fmt::Debug for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement { params, parties, .. } = self.agreement;
        write!(f, "Party({params}, party {} of {parties})", self.party)
    }
}

impl PartyMessage {
    /// The agreement of its party.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Number of the party.
    pub fn party(&self) -> usize {
        self.party
    }

    /// 1 or 2.
    pub fn round(&self) -> usize {
        if self.answers.is_some() { 2 } else { 1 }
    }

    /// Digest of all of it. Parties that exchange the digests of their first messages before the messages know that nobody chose one with
    /// knowledge of the others.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = blake3::Hasher::new_derive_key("becalm v1 message of a collective key");
        hash.update(&self.agreement.id).update(&[self.party as u8, self.round() as u8]);
        hash.update(&self.answers.unwrap_or_default()).update(&self.residues);
        *hash.finalize().as_bytes()
    }
}

impl fmt::Debug for PartyMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement { params, parties, .. } = self.agreement;
        let (party, round, bytes) = (self.party, self.round(), self.residues.len());
        write!(
            f,
            "PartyMessage({params}, party {party} of {parties}, round {round}, {bytes} bytes)"
        )
    }
}

impl Agreement {
    /// The agreement of parties: how many they are, how many of them decrypt together, a public random seed of all masks, and the keys of
    /// the server. Every party makes it of the same facts.
    ///
    /// # Errors
    /// `Unsupported` for the keys of a bootstrap: its ephemeral secret would be a sum of sparse ones, for which EvalMod has no range.
    /// `BadInput` for parties that [`KeyShare::split`](super::KeyShare::split) would refuse, levels above the user's and more than 1024 keys.
    ///
    /// ```
    /// use becalm::UNWATCHED;
    /// use becalm::cipher::KeyForm;
    /// use becalm::ckks::{Agreement, Context, Needs, PartialDecryption, Party, PartyMessage};
    /// use becalm::math::complex::Complex;
    /// use becalm::math::random::PublicSeed;
    /// use becalm::params::CkksParams;
    ///
    /// let context = Context::new(CkksParams::named("ckks_toy_12")?, true)?;
    /// let agreement = Agreement::new(&context, 2, 2, PublicSeed::from_system()?, &Needs::default())?;
    /// let (a, b) = (Party::new(&context, &agreement, 1)?, Party::new(&context, &agreement, 2)?);
    /// let firsts = [&a, &b].map(|party| party.first_message(&context, UNWATCHED));
    /// let firsts = firsts.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let mut messages = firsts.clone();
    /// for party in [&a, &b] {
    ///     messages.push(party.second_message(&context, &firsts, UNWATCHED)?);
    /// }
    /// let (public, _keys) = PartyMessage::aggregate(&context, &messages, KeyForm::Ready, UNWATCHED)?;
    ///
    /// let x = context.encrypt_public(&[Complex::from(0.5)], 1, &public)?;
    /// let shares = [&a, &b].map(|party| party.share(&context, &firsts, &[]));
    /// let mut parts = vec![];
    /// for share in shares {
    ///     parts.push(share?.decrypt_partially(&context, &x, &[1, 2], -4.0, 1)?);
    /// }
    /// assert!((PartialDecryption::combine(&context, &x, &parts)?[0] - Complex::from(0.5)).abs() < 160.0);
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn new(
        context: &Context,
        parties: usize,
        threshold: usize,
        seed: PublicSeed,
        needs: &Needs,
    ) -> Result<Agreement> {
        let op = "agree on a key";
        require_parts(op, parties, threshold)?;
        if needs.bootstrap.is_some() {
            let (wanted, got) = ("keys without a bootstrap", "those of a bootstrap");
            let remedy = "let one party make the key and `split` it, or take levels enough for the program without a bootstrap";
            return Err(Error::unsupported(op, wanted, got, remedy));
        }
        let keys: Vec<_> = context.keys_for(needs).into_iter().map(|((p, _), l)| (p, l)).collect();
        let (top, highest) = (context.params().levels, keys.iter().map(|(_, l)| *l).max());
        if highest > Some(top) {
            let wanted = format!("keys for levels of at most {top}");
            let got = highest.unwrap_or_default().to_string();
            let remedy = "name lower levels: those above belong to bootstraps";
            return Err(Error::bad_input(op, wanted, got, remedy));
        }
        if keys.len() > MOST_KEYS {
            let (wanted, got) = (format!("at most {MOST_KEYS} keys"), keys.len().to_string());
            return Err(Error::bad_input(op, wanted, got, "name fewer rotations"));
        }
        Agreement::of(context, parties, threshold, seed, keys)
    }

    /// An agreement on facts that were checked.
    pub(super) fn of(
        context: &Context,
        parties: usize,
        threshold: usize,
        seed: PublicSeed,
        keys: Vec<(Purpose, usize)>,
    ) -> Result<Agreement> {
        let mut agreement = Agreement {
            params: context.params().name,
            parties,
            threshold,
            seed,
            keys,
            id: [0; 32],
        };
        let mut hash = blake3::Hasher::new_derive_key("becalm v1 agreement on a collective key");
        for fact in [context.row()?.into_bytes(), keys_text(&agreement.keys)?.into_bytes()] {
            hash.update(&(fact.len() as u64).to_le_bytes()).update(&fact);
        }
        hash.update(&[parties as u8, threshold as u8]).update(&seed.0);
        agreement.id = *hash.finalize().as_bytes();
        Ok(agreement)
    }

    /// The rows of a message of a round.
    pub(super) fn rows(&self, context: &Context, round: usize) -> Vec<Row> {
        let mut rows = vec![];
        if round == 1 {
            let words = context.words_of(context.params().levels, 0);
            rows.push(Row { key: None, digit: 0, part: 0, special: 0, words, own: 0..0, at: 0 });
        }
        for (purpose, level) in &self.keys {
            let parts: &[u8] = match (purpose, round) {
                (Purpose::Multiply, 1) => &[0, 1],
                (Purpose::Multiply, _) => &[2],
                (_, 1) => &[0],
                _ => &[],
            };
            let (_, special) = context.key_shape(*purpose, *level);
            for (digit, own) in context.digits(*level).into_iter().enumerate() {
                for part in parts {
                    let (key, words) =
                        (Some((*purpose, *level)), context.words_of(*level, special));
                    let own = own.clone();
                    rows.push(Row { key, digit, part: *part, special, words, own, at: 0 });
                }
            }
        }
        let mut at = 0;
        for row in &mut rows {
            row.at = at;
            at += bytes_of_words(context, &row.words);
        }
        rows
    }
}

impl Party {
    /// A party of fresh secrets.
    ///
    /// # Errors
    /// `WrongParams` for an agreement on another set, `BadInput` for a number that is not in 1 to the number of parties, `Io` when the
    /// system has no randomness.
    pub fn new(context: &Context, agreement: &Agreement, party: usize) -> Result<Party> {
        let op = "make a party";
        context.check_set(op, agreement.params)?;
        if !(1..=agreement.parties).contains(&party) {
            let wanted = format!("a number from 1 to {}", agreement.parties);
            let remedy = "agree on a number for each party";
            return Err(Error::bad_input(op, wanted, party.to_string(), remedy));
        }
        Ok(Party { agreement: agreement.clone(), party, seed: SecretSeed::from_system()? })
    }

    /// The values of a party's secret modulo all words.
    fn limbs(&self, context: &Context) -> Zeroizing<Vec<f64>> {
        let s = Zeroizing::new(context.ternary(&self.derived("secret", &[]), None));
        context.secret_limbs(&s, &(0..context.all_words()).collect::<Vec<_>>())
    }

    /// The sum of the secrets of parties, which nobody has outside of tests.
    #[cfg(test)]
    pub(crate) fn summed_secret(
        context: &Context,
        parties: &[Party],
        id: KeyId,
    ) -> crate::cipher::CkksSecretKey {
        let mut sum = vec![0.0; context.params().degree()];
        for party in parties {
            let own = context.ternary(&party.derived("secret", &[]), None);
            sum.iter_mut().zip(own).for_each(|(x, y)| *x += y);
        }
        crate::cipher::CkksSecretKey::new(context.params().name, id, sum)
    }

    /// u_i of a digit, modulo the words of its rows.
    fn ephemeral(&self, context: &Context, row: &Row) -> Zeroizing<Vec<f64>> {
        let u = Zeroizing::new(
            context.ternary(&self.derived("ephemeral", &[&label(row.key, row.digit, 0)]), None),
        );
        context.secret_limbs(&u, &row.words)
    }

    /// Fresh noise of a row, and of the messages that it answers.
    fn noise(&self, context: &Context, row: &Row, answers: &[u8]) -> Zeroizing<Vec<f64>> {
        let seed = self.derived("noise", &[&label(row.key, row.digit, row.part), answers]);
        context.noise(&mut NoiseStream::new(&seed, Domain::Evaluation, 0))
    }

    /// e − a·`to`, and in the digit's words + P·s.
    fn first_row(&self, context: &Context, row: &Row, s: &[f64], image: &[f64]) -> Result<Vec<u8>> {
        let (ring, n) = (context.ring(), context.params().degree());
        let noise = self.noise(context, row, &[]);
        let multiply = matches!(row.key, Some((Purpose::Multiply, _)));
        let mask = self.agreement.mask(row.key, !multiply);
        let ephemeral = (multiply && row.part == 0).then(|| self.ephemeral(context, row));
        let hidden = if multiply && row.part == 1 { 0..0 } else { row.own.clone() };
        row.packed(context, |i, word, x| {
            let mut a = vec![0.0; n];
            context.uniform(context.mask_stream(&mask, row.digit, word), word, &mut a);
            x.copy_from_slice(noise.as_slice());
            ring.forward(word, x);
            let to = match &ephemeral {
                Some(u) => &u[i * n..][..n],
                None => &image[word * n..][..n],
            };
            ring.mul_sub(word, x, &a, to);
            if hidden.contains(&i) {
                let p = centred(context.special_product(row.special, word), ring.word(word).p);
                ring.scale_add(word, x, &s[word * n..][..n], p);
            }
            Ok(())
        })
    }

    /// A party's first message, to all others and to whoever adds up the messages.
    ///
    /// # Errors
    /// `WrongParams` for a party of another set, `Memory` where the message does not fit, `Interrupted` when stopped.
    pub fn first_message(&self, context: &Context, progress: Progress) -> Result<PartyMessage> {
        let op = "tell the first message";
        context.check_set(op, self.agreement.params)?;
        let rows = self.agreement.rows(context, 1);
        or_refused(op, || {
            let s = self.limbs(context);
            let mut image = s.clone();
            let mut residues = vec![];
            let mut of = None;
            for (done, row) in rows.iter().enumerate() {
                tell(op, progress, done, rows.len())?;
                if row.key != of {
                    of = row.key;
                    image = match row.key {
                        Some((Purpose::Galois(g), _)) => context.image(&s, g as usize),
                        _ => s.clone(),
                    };
                }
                residues.extend(self.first_row(context, row, &s, &image)?);
            }
            let (agreement, party) = (self.agreement.clone(), self.party);
            Ok(PartyMessage { agreement, party, answers: None, residues: Arc::new(residues) })
        })
    }
}

impl Row {
    /// Limbs of a row, each made from its number and word, packed.
    fn packed(
        &self,
        context: &Context,
        make: impl Fn(usize, usize, &mut [f64]) -> Result<()> + Sync,
    ) -> Result<Vec<u8>> {
        let limb = |(i, word): (usize, &usize)| {
            let mut x = Zeroizing::new(vec![0.0; context.params().degree()]);
            make(i, *word, &mut x)?;
            Ok(context.ring().packed(*word, &x))
        };
        Ok(self.words.par_iter().enumerate().map(limb).collect::<Result<Vec<_>>>()?.concat())
    }
}

pub(super) fn bytes_of_words(context: &Context, words: &[usize]) -> usize {
    words.iter().map(|i| context.limb_bytes(*i)).sum()
}

mod answer;
mod file;

#[cfg(test)]
mod tests;
