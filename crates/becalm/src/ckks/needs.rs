//! The keys that a server needs, and their sizes: planned from the chain, before any is made.

use super::Chain;
use crate::cipher::file::key_header::DIGEST;
use crate::cipher::file::{Description, Kind};
use crate::cipher::{CkksKeys, Held, KeyForm, Purpose};
use crate::math::rns::width;
use crate::params::CkksParams;
use std::collections::{BTreeMap, BTreeSet};

/// The operations of a server, and up to which level: hence its keys, and for how many words. It always gets the key of
/// multiplication at the levels of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Rotations by these numbers of slots, and at which levels. A key serves lower levels too, but those of its tier alone
    /// ([`CkksParams::tiers`](crate::params::CkksParams::tiers)).
    pub rotations: BTreeMap<i64, BTreeSet<usize>>,
    /// Complex conjugation up to a level.
    pub conjugate: Option<usize>,
    /// Products up to this level, where it is above those of the user.
    pub multiply: usize,
    /// For a bootstrap: the switch to the ephemeral secret, and back at the level that ciphertexts are raised to.
    pub bootstrap: Option<usize>,
    /// Slots of the longest vector that is taken; 0 where any number will do.
    pub slots: usize,
}

impl Needs {
    /// Rotations by these numbers of slots at `level` and below in its tier, besides.
    pub fn rotate(mut self, by: impl IntoIterator<Item = i64>, level: usize) -> Needs {
        for by in by {
            self.rotations.entry(by).or_default().insert(level);
        }
        self
    }

    /// The needs of two programs together.
    pub fn union(mut self, other: &Needs) -> Needs {
        for (by, levels) in &other.rotations {
            self.rotations.entry(*by).or_default().extend(levels);
        }
        self.conjugate = self.conjugate.max(other.conjugate);
        self.multiply = self.multiply.max(other.multiply);
        self.bootstrap = self.bootstrap.max(other.bootstrap);
        self.slots = self.slots.max(other.slots);
        self
    }
}

/// g such that X → X^g rotates the slots to the left by `by`: 5^`by` modulo 2N.
pub fn power_of_rotation(by: i64, degree: usize) -> usize {
    let (mut exponent, mut square, mut g) = (by.rem_euclid(degree as i64 / 2), 5, 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            g = g * square % (2 * degree);
        }
        square = square * square % (2 * degree);
        exponent >>= 1;
    }
    g
}

/// The rotations of [`CkksProgram::sum`](crate::program::rlwe::CkksProgram::sum) over `size` slots: the powers of two below it.
pub fn sum_rotations(size: usize) -> Vec<i64> {
    (0..62).map(|k| 1 << k).take_while(|by| (*by as usize) < size).collect()
}

impl Chain {
    /// The keys for `needs`: the purpose, tier and level of each.
    pub(crate) fn keys_for(&self, needs: &Needs) -> BTreeMap<(Purpose, usize), usize> {
        let (n, mut keys) = (self.params().degree(), BTreeMap::new());
        let mut add = |purpose, level: usize| {
            let most = keys.entry((purpose, self.tier_at(level))).or_default();
            *most = level.max(*most);
        };
        // Up to a level: at the top of every tier below as well.
        let up_to = |level: usize| {
            let tops = self.params().tiers().into_iter().map(|t| t.end - 1);
            tops.filter(move |top| *top < level).chain([level])
        };
        add(Purpose::Multiply, self.params().levels);
        for level in up_to(needs.multiply) {
            add(Purpose::Multiply, level);
        }
        let conjugate = needs.conjugate.into_iter().flat_map(|l| up_to(l).map(|l| (2 * n - 1, l)));
        let rotations = needs.rotations.iter().flat_map(|(by, levels)| {
            let g = power_of_rotation(*by, n);
            levels.iter().map(move |level| (g, *level))
        });
        for (g, level) in rotations.chain(conjugate).filter(|(g, _)| *g != 1) {
            add(Purpose::Galois(g as u32), level);
        }
        if let (Some(level), Some(_)) = (needs.bootstrap, self.params().bootstrap) {
            add(Purpose::FromEphemeral, level);
            keys.insert((Purpose::ToEphemeral, self.tier_at(level)), 0);
        }
        keys
    }

    /// Words and special words of the key for a purpose at `level`.
    pub(crate) fn key_shape(&self, purpose: Purpose, level: usize) -> (usize, usize) {
        match (purpose, self.params().bootstrap) {
            (Purpose::ToEphemeral, Some(b)) => (self.words(0), b.ephemeral_words),
            _ => (self.words(level), self.special()),
        }
    }

    /// Bytes in memory of the keys for `needs`, exactly: N doubles for two polynomials of every digit and word of Q·P.
    pub fn key_bytes(&self, needs: &Needs) -> usize {
        self.key_bytes_as(needs, KeyForm::Ready)
    }

    /// [`Chain::key_bytes`] of keys in a form, exactly.
    pub fn key_bytes_as(&self, needs: &Needs, form: KeyForm) -> usize {
        self.bytes_of_keys(&self.keys_for(needs), form)
    }

    /// The keys for `needs` that are not `known` for a level as high: those that are to be made.
    pub(crate) fn keys_to_make(
        &self,
        needs: &Needs,
        known: Option<&CkksKeys>,
    ) -> BTreeMap<(Purpose, usize), usize> {
        let mut missing = self.keys_for(needs);
        missing.retain(|p, level| known.is_none_or(|k| k.level(*p) < Some(*level)));
        // The keys to and from the ephemeral secret are made together.
        let back = missing.keys().find(|(purpose, _)| *purpose == Purpose::FromEphemeral);
        if let Some(tier) = back.map(|(_, tier)| *tier) {
            missing.insert((Purpose::ToEphemeral, tier), 0);
        }
        missing
    }

    /// Bytes in memory of the keys in a form that [`Context::keys_with`](super::Context::keys_with) makes, exactly.
    pub fn bytes_to_make(&self, needs: &Needs, form: KeyForm, known: Option<&CkksKeys>) -> usize {
        self.bytes_of_keys(&self.keys_to_make(needs, known), form)
    }

    pub(crate) fn bytes_of_keys(
        &self,
        keys: &BTreeMap<(Purpose, usize), usize>,
        form: KeyForm,
    ) -> usize {
        keys.iter().map(|(which, level)| self.held_size(*which, *level, form)).sum()
    }

    /// Bytes in memory of the key for a purpose in a tier at `level`, as it is held where keys have a form.
    pub(crate) fn held_size(&self, which: (Purpose, usize), level: usize, form: KeyForm) -> usize {
        match form.of(which) {
            KeyForm::Ready => self.ready_size(which.0, level),
            KeyForm::Packed => 2 * self.body_bytes(which.0, level),
            KeyForm::Seeded => self.body_bytes(which.0, level),
        }
    }

    /// Bytes in memory of the key for a purpose at `level`, expanded.
    pub(crate) fn ready_size(&self, purpose: Purpose, level: usize) -> usize {
        let (count, special) = self.key_shape(purpose, level);
        self.digits(level).len() * (count + special) * self.params().degree() * 16
    }

    /// Bytes of these keys in memory if they were held in a form, exactly.
    pub fn bytes_as(&self, keys: &CkksKeys, form: KeyForm) -> usize {
        let size =
            |(which, key): (&(Purpose, usize), &Held)| self.held_size(*which, key.level(), form);
        keys.switches.iter().map(size).sum()
    }

    /// Bytes of keys in memory when all of them are ready ([`Context::ready_keys`](super::Context::ready_keys)).
    pub fn ready_bytes(&self, keys: &CkksKeys) -> usize {
        let size = |((purpose, _), key): (&(Purpose, usize), &Held)| {
            self.ready_size(*purpose, key.level())
        };
        keys.switches.iter().map(size).sum()
    }

    /// Bytes of the keys for `needs` as [`Context::write_keys`](super::Context::write_keys) writes them, but for the header.
    pub fn stored_key_bytes(&self, needs: &Needs) -> usize {
        self.packed_bytes(&self.keys_for(needs))
    }

    /// Bytes of these keys in a file, but for the header.
    pub fn stored_bytes(&self, keys: &CkksKeys) -> usize {
        self.packed_bytes(&keys.switches.iter().map(|(which, key)| (*which, key.level())).collect())
    }

    /// Bytes of the packed bodies of planned keys.
    pub(crate) fn packed_bytes(&self, keys: &BTreeMap<(Purpose, usize), usize>) -> usize {
        keys.iter().map(|((purpose, _), level)| self.body_bytes(*purpose, *level)).sum()
    }

    /// Bytes of the bodies of a key, packed.
    pub(crate) fn body_bytes(&self, purpose: Purpose, level: usize) -> usize {
        let (_, special) = self.key_shape(purpose, level);
        self.digits(level).len() * self.row_bytes(level, special).0
    }

    /// Bytes of a limb, packed.
    pub(crate) fn limb_bytes(&self, word: usize) -> usize {
        self.params().degree() * width(self.primes()[word]) as usize / 8
    }

    /// Bytes of the limbs of a digit, and of those of them that are words of the chain.
    pub(crate) fn row_bytes(&self, level: usize, special: usize) -> (usize, usize) {
        let all = self.words_of(level, special);
        let bytes = |words: &[usize]| words.iter().map(|i| self.limb_bytes(*i)).sum();
        (bytes(&all), bytes(&all[..self.words(level)]))
    }
}

/// Length that a file should have. One of evaluation keys of another length was cut, or continued; of a set that is not known here the
/// length is not known either. Of any other file it is part of its form.
pub fn whole_bytes(found: &Description) -> Option<u64> {
    if found.kind != Kind::CkksEvaluationKeys {
        return Some(found.bytes);
    }
    let chain = CkksParams::named(&found.params).and_then(Chain::new).ok()?;
    let body = |(purpose, level): &(Purpose, usize)| {
        let there = *level <= chain.params().top_level();
        there.then(|| chain.body_bytes(*purpose, *level) as u64)
    };
    Some(found.header_bytes + found.keys.iter().map(body).sum::<Option<u64>>()? + DIGEST)
}
