//! The answers to the first messages of a collective key: second messages, shares of the secret, and the keys that all messages add up to.

use super::super::Context;
use super::super::threshold::{KeyShare, all_words_of_shares, dealt, parts};
use super::{Agreement, Party, PartyMessage, Row, bytes_of_words};
use crate::cipher::{Budget, CkksKeys, CkksPublicKey, KeyForm, KeyId, Purpose, SwitchKey};
use crate::math::buffer::or_refused;
use crate::math::memory::require_memory_or;
use crate::math::parallel::*;
use crate::math::random::SecretSeed;
use crate::math::rns::Scratch;
use crate::progress::tell;
use crate::{Error, Progress, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The digest of all first messages, in the order of the parties, on which the second ones and the identity of the key depend.
fn digest(agreement: &Agreement, firsts: &[&PartyMessage]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("becalm v1 first messages of a collective key");
    hash.update(&agreement.id);
    for message in firsts {
        hash.update(&message.digest());
    }
    *hash.finalize().as_bytes()
}

/// The identity of the key that first messages of this digest make.
fn key_of(answers: [u8; 32]) -> KeyId {
    let mut id = [0; 16];
    id.copy_from_slice(&answers[..16]);
    KeyId(id)
}

/// The messages of a round in the order of the parties.
///
/// # Errors
/// `BadInput` where one is missing, twice there, of another round or of another agreement.
fn of_round<'a>(
    op: &'static str,
    agreement: &Agreement,
    round: usize,
    messages: &'a [PartyMessage],
) -> Result<Vec<&'a PartyMessage>> {
    let n = agreement.parties;
    let name = if round == 1 { "first" } else { "second" };
    let wanted = || format!("one {name} message of each of the {n} parties of one agreement");
    let mut found: Vec<Option<&PartyMessage>> = vec![None; n];
    for message in messages {
        let party = message.party;
        let (got, remedy) = if message.agreement != *agreement {
            let remedy =
                "let all parties agree on one set, seed, number of parties, threshold and keys";
            (format!("one of another agreement, of party {party}"), remedy)
        } else if message.round() != round {
            let remedy = "give the messages of one round; first ones are answered by second ones";
            (format!("one of round {}, of party {party}", message.round()), remedy)
        } else if found[party - 1].replace(message).is_some() {
            (format!("two of party {party}"), "give each message once")
        } else {
            continue;
        };
        return Err(Error::bad_input(op, wanted(), got, remedy));
    }
    let missing: Vec<usize> = (1..=n).filter(|party| found[party - 1].is_none()).collect();
    if missing.is_empty() {
        return Ok(found.into_iter().flatten().collect());
    }
    let got = format!("none of {missing:?}");
    Err(Error::bad_input(op, wanted(), got, "ask those whose messages are missing"))
}

impl Party {
    /// All first messages, with the own one among them.
    ///
    /// # Errors
    /// `BadInput` where the own one is of other secrets, and as [`of_round`].
    fn firsts<'a>(
        &self,
        context: &Context,
        op: &'static str,
        messages: &'a [PartyMessage],
    ) -> Result<Vec<&'a PartyMessage>> {
        context.check_set(op, self.agreement.params)?;
        let firsts = of_round(op, &self.agreement, 1, messages)?;
        let row = &self.agreement.rows(context, 1)[0];
        let s = self.limbs(context);
        let own = or_refused(op, || self.first_row(context, row, &s, &s))?;
        if firsts[self.party - 1].residues.starts_with(&own) {
            return Ok(firsts);
        }
        let (wanted, got) = ("the first message of this party", "one of other secrets");
        let remedy =
            "load the party that made the message, or make a new first message and send it to all";
        Err(Error::bad_input(op, wanted, got, remedy))
    }

    /// A party's second message: the answer to the first messages of all parties. It adds these up itself, because an answer to a sum
    /// that somebody chose gives the secret away.
    ///
    /// # Errors
    /// `BadInput` for messages that are not one first message of each party of the agreement, or not the own one; `WrongParams` for a
    /// party of another set; `BadFile` for residues that cannot be; `Interrupted` when stopped.
    pub fn second_message(
        &self,
        context: &Context,
        firsts: &[PartyMessage],
        progress: Progress,
    ) -> Result<PartyMessage> {
        let op = "tell the second message";
        let firsts = self.firsts(context, op, firsts)?;
        let agreement = self.agreement.clone();
        let answers = digest(&agreement, &firsts);
        let (before, rows) = (agreement.rows(context, 1), agreement.rows(context, 2));
        or_refused(op, || {
            let s = self.limbs(context);
            let mut residues = vec![];
            for (done, row) in rows.iter().enumerate() {
                tell(op, progress, done, rows.len())?;
                let same = |other: &&Row| other.key == row.key && other.digit == row.digit;
                let both: Vec<&Row> = before.iter().filter(same).collect();
                residues.extend(self.second_row(context, row, &both, &firsts, &s, &answers)?);
            }
            let residues = Arc::new(residues);
            Ok(PartyMessage { agreement, party: self.party, answers: Some(answers), residues })
        })
    }

    /// e_2 + s_i·(h − a') − u_i·k, of the sums h and k of two rows of the first messages.
    fn second_row(
        &self,
        context: &Context,
        row: &Row,
        before: &[&Row],
        firsts: &[&PartyMessage],
        s: &[f64],
        answers: &[u8],
    ) -> Result<Vec<u8>> {
        let (ring, n) = (context.ring(), context.params().degree());
        let noise = self.noise(context, row, answers);
        let mask = self.agreement.mask(row.key, true);
        let u = self.ephemeral(context, row);
        row.packed(context, |i, word, x| {
            let [mut sum, mut a] = [0; 2].map(|_| vec![0.0; n]);
            let at = bytes_of_words(context, &row.words[..i]);
            x.copy_from_slice(noise.as_slice());
            ring.forward(word, x);
            summed(context, firsts, before[0].at + at, word, &mut sum)?;
            context.uniform(context.mask_stream(&mask, row.digit, word), word, &mut a);
            ring.sub(word, &mut sum, &a);
            ring.mul_add(word, x, &sum, &s[word * n..][..n]);
            summed(context, firsts, before[1].at + at, word, &mut sum)?;
            ring.mul_sub(word, x, &sum, &u[i * n..][..n]);
            Ok(())
        })
    }

    /// The parts of a party's secret for all parties, itself included, in their order: where fewer than all decrypt. Each goes to its party over
    /// a secret channel. Where all decrypt there are none.
    ///
    /// # Errors
    /// `WrongParams` for a party of another set.
    pub fn deal(&self, context: &Context) -> Result<Vec<KeyShare>> {
        context.check_set("deal", self.agreement.params)?;
        let Agreement { parties, threshold, .. } = self.agreement;
        if parties == threshold {
            return Ok(vec![]);
        }
        let sets = parts(parties, threshold).unwrap_or_default();
        let mut seeds: Vec<SecretSeed> = Vec::with_capacity(sets.len());
        for set in sets.iter().take(sets.len() - 1) {
            seeds.push(self.derived("part", &[&set.to_le_bytes()]));
        }
        let s = self.limbs(context);
        let ids = (self.agreement.unmade(), self.agreement.split(self.party));
        Ok(dealt(context, &s, &seeds, ids, (parties, threshold)))
    }

    /// A party's share of the key that the first messages make, for [`KeyShare::decrypt_partially`]: of what all others dealt to it, where
    /// fewer than all decrypt.
    ///
    /// # Errors
    /// As [`Party::second_message`] for the messages. `BadInput` where a part is missing, twice there, for another party, or of
    /// another agreement.
    pub fn share(
        &self,
        context: &Context,
        firsts: &[PartyMessage],
        dealt: &[&KeyShare],
    ) -> Result<KeyShare> {
        let op = "make a share";
        let firsts = self.firsts(context, op, firsts)?;
        let Agreement { params, parties, threshold, .. } = self.agreement;
        let key = key_of(digest(&self.agreement, &firsts));
        let (split, number) = (self.agreement.split(0), self.party);
        let own = self.deal(context)?;
        let held = self.held_parts(op, own.get(number - 1), dealt)?;
        let (words, n) = (all_words_of_shares(context), context.params().degree());
        let mut last = match parties == threshold {
            true => Some(Zeroizing::new(self.limbs(context)[..words.len() * n].to_vec())),
            false => None,
        };
        // A vector that grows would leave copies of seeds behind.
        let mut seeds = Vec::with_capacity(held.iter().map(|part| part.seeds.len()).sum());
        for part in held {
            seeds.extend(part.seeds.iter().map(|(set, seed)| (*set, seed.again())));
            let Some(values) = &part.last else { continue };
            let sum = last.get_or_insert_with(|| Zeroizing::new(vec![0.0; words.len() * n]));
            for ((x, y), word) in sum.chunks_mut(n).zip(values.chunks(n)).zip(&words) {
                context.ring().add(*word, x, y);
            }
        }
        let (together, budget) = (true, Budget::default());
        Ok(KeyShare {
            params,
            key,
            split,
            parties,
            threshold,
            party: number,
            seeds,
            last,
            together,
            budget,
        })
    }

    /// The shares that each party dealt to this one, in their order.
    fn held_parts<'a>(
        &self,
        op: &'static str,
        own: Option<&'a KeyShare>,
        dealt: &[&'a KeyShare],
    ) -> Result<Vec<&'a KeyShare>> {
        let (agreement, number) = (&self.agreement, self.party);
        let Some(own) = own else {
            if dealt.is_empty() {
                return Ok(vec![]);
            }
            let remedy = "leave the parts out: each party decrypts with its own secret";
            let got = format!("{} of them", dealt.len());
            return Err(Error::bad_input(op, "no parts where all parties decrypt", got, remedy));
        };
        let mut held: Vec<Option<&KeyShare>> = vec![None; agreement.parties];
        let wanted = format!("one part for party {number} from each of the others");
        for part in dealt.iter().copied() {
            let among = (part.params, part.parties, part.threshold);
            let same = among == (agreement.params, agreement.parties, agreement.threshold);
            let from = (1..=agreement.parties).find(|d| same && agreement.split(*d) == part.split);
            let (got, remedy) = match from {
                Some(from) if part.party != number => {
                    let got = format!("one for party {} from party {from}", part.party);
                    (got, "give each party what was dealt to it")
                }
                Some(from) if held[from - 1].replace(part).is_some() => {
                    (format!("two from party {from}"), "give each part once")
                }
                Some(_) => continue,
                None => {
                    ("one of another agreement".into(), "ask all parties for parts of this one")
                }
            };
            return Err(Error::bad_input(op, wanted, got, remedy));
        }
        held[number - 1] = Some(own);
        let missing: Vec<usize> =
            (1..=agreement.parties).filter(|from| held[from - 1].is_none()).collect();
        if missing.is_empty() {
            return Ok(held.into_iter().flatten().collect());
        }
        let (got, remedy) = (format!("none from {missing:?}"), "ask them for their parts");
        Err(Error::bad_input(op, wanted, got, remedy))
    }
}

impl PartyMessage {
    /// The keys that the messages of all parties add up to, both rounds in any order: that of encryption, and those of a server. Equal
    /// messages make equal keys.
    ///
    /// # Errors
    /// `BadInput` where a message is missing, twice there or of another agreement, and where second messages answer other first
    /// ones; `WrongParams` for another set; `BadFile` for residues that cannot be; `Memory` where the keys do not fit; `Interrupted` when
    /// stopped.
    pub fn aggregate(
        context: &Context,
        messages: &[PartyMessage],
        form: KeyForm,
        progress: Progress,
    ) -> Result<(CkksPublicKey, CkksKeys)> {
        let op = "add up messages";
        let Some(agreement) = messages.first().map(|message| message.agreement.clone()) else {
            let remedy = "give the messages of both rounds, of all parties";
            return Err(Error::bad_input(op, "the messages of all parties", "none", remedy));
        };
        context.check_set(op, agreement.params)?;
        let (firsts, seconds): (Vec<_>, Vec<_>) =
            messages.iter().cloned().partition(|message| message.round() == 1);
        let firsts = of_round(op, &agreement, 1, &firsts)?;
        let seconds = of_round(op, &agreement, 2, &seconds)?;
        let answers = digest(&agreement, &firsts);
        if let Some(other) = seconds.iter().find(|message| message.answers != Some(answers)) {
            let got = format!("one to others, of party {}", other.party);
            let remedy = "make the second messages again, of these first ones";
            return Err(Error::bad_input(op, "answers to these first messages", got, remedy));
        }
        let id = key_of(answers);
        let planned = agreement.keys.iter().map(|(purpose, level)| ((*purpose, 0), *level));
        let bytes = context.bytes_of_keys(&planned.collect(), form);
        require_memory_or(op, bytes, "agree on fewer keys, or take seeded ones")?;
        let public = or_refused(op, || public_of(context, &agreement, &firsts, id))?;
        let mut switches = BTreeMap::new();
        for (done, (purpose, level)) in agreement.keys.iter().enumerate() {
            tell(op, progress, done, agreement.keys.len())?;
            let key = or_refused(op, || {
                switch_of(context, &agreement, (*purpose, *level), &firsts, &seconds)
            })?;
            switches.insert((*purpose, 0), context.held(key, form.of((*purpose, 0))));
        }
        Ok((public, CkksKeys { params: context.params().name, id, switches, foreign: false }))
    }
}

/// The sum of a limb of several messages.
fn summed(
    context: &Context,
    messages: &[&PartyMessage],
    at: usize,
    word: usize,
    sum: &mut [f64],
) -> Result<()> {
    let mut own = vec![0.0; sum.len()];
    let bytes = context.limb_bytes(word);
    sum.fill(0.0);
    for message in messages {
        context.unpack(word, &message.residues[at..at + bytes], &mut own)?;
        context.ring().add(word, sum, &own);
    }
    Ok(())
}

/// The sum of a row of several messages.
fn summed_row(
    context: &Context,
    messages: &[&PartyMessage],
    row: &Row,
    out: &mut [f64],
) -> Result<()> {
    let limbs = out.par_chunks_mut(context.params().degree()).zip(&row.words).enumerate();
    limbs.try_for_each(|(i, (x, word))| {
        let at = row.at + bytes_of_words(context, &row.words[..i]);
        summed(context, messages, at, *word, x)
    })
}

fn public_of(
    context: &Context,
    agreement: &Agreement,
    firsts: &[&PartyMessage],
    id: KeyId,
) -> Result<CkksPublicKey> {
    let (n, row) = (context.params().degree(), &agreement.rows(context, 1)[0]);
    let [mut b, mut a] = [0; 2].map(|_| context.ring().scratch(row.words.len() * n));
    summed_row(context, firsts, row, &mut b)?;
    let mask = agreement.mask(None, true);
    a.par_chunks_mut(n).zip(&row.words).for_each(|(a, word)| {
        context.uniform(context.mask_stream(&mask, 0, *word), *word, a);
    });
    let (params, parties) = (context.params().name, agreement.parties);
    Ok(CkksPublicKey { params, id, parties, foreign: false, parts: [b, a] })
}

fn switch_of(
    context: &Context,
    agreement: &Agreement,
    key: (Purpose, usize),
    firsts: &[&PartyMessage],
    seconds: &[&PartyMessage],
) -> Result<SwitchKey> {
    let (purpose, level) = key;
    let (round, messages) = match purpose {
        Purpose::Multiply => (2, seconds),
        _ => (1, firsts),
    };
    let ((count, special), n) = (context.key_shape(purpose, level), context.params().degree());
    let mut rows = agreement.rows(context, round);
    rows.retain(|row| row.key == Some(key));
    let len = rows.len() * (count + special) * n;
    let seed = agreement.mask(Some(key), true);
    let (bodies, masks) = (Scratch::apart(len)?, Scratch::apart(len)?);
    let mut made = SwitchKey { level, count, special, seed, bodies, masks };
    for (row, bodies) in rows.iter().zip(made.bodies.chunks_mut((count + special) * n)) {
        summed_row(context, messages, row, bodies)?;
    }
    context.draw_masks(&mut made);
    Ok(made)
}
