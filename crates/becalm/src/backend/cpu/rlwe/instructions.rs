//! The operations that need evaluation keys: products, rotations, sums of products and of slots.

use super::arithmetic::{self, aligned, check_same_scale, check_scale, down, level_below};
use super::key_switch::{Decomposed, KeyInUse};
use super::residues::{divide, lift, permute};
use super::sum::{Sum, ciphertext};
use crate::cipher::{CkksKeys, Held, Purpose, Rlwe, StoredKey, SwitchKey};
use crate::ckks::{Context, power_of_rotation, sum_rotations};
use crate::error::RUN;
use crate::math::buffer::or_refused;
use crate::progress::tell;
use crate::{Error, Progress, Result, UNWATCHED};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys that were read from their file and expanded, for which purpose and tier.
pub(super) type Expanded = Arc<Mutex<BTreeMap<(Purpose, usize), Arc<SwitchKey>>>>;

/// A context with the keys of a server. Keys that are packed are expanded block by block; those in their file are read
/// when they are first used, no more of them than the level takes, and kept until the session lets go of them.
pub struct Instructions<'a> {
    context: &'a Context,
    keys: &'a CkksKeys,
    read: Expanded,
    /// Asked between the parts of long work.
    progress: Progress<'a>,
}

/// Up to which level a key for work at `level` is to reach. To an ephemeral secret there is one level.
fn reach(purpose: Purpose, level: usize) -> usize {
    if purpose == Purpose::ToEphemeral { 0 } else { level }
}

impl<'a> Instructions<'a> {
    /// Puts a context and keys of its set together.
    ///
    /// # Errors
    /// `WrongParams` for keys of another set.
    pub fn new(context: &'a Context, keys: &'a CkksKeys) -> Result<Self> {
        context.check_set(RUN, keys.params)?;
        Ok(Instructions { context, keys, read: Expanded::default(), progress: UNWATCHED })
    }

    /// The same, with the expanded keys of an evaluator of the same keys.
    pub(super) fn sharing(self, read: &Expanded) -> Self {
        Instructions { read: read.clone(), ..self }
    }

    /// The same, which may be stopped between the parts of long work: rotations, steps of a linear map, products of a polynomial.
    pub fn watched(self, progress: Progress<'a>) -> Self {
        Instructions { progress, ..self }
    }

    /// Who is told of long work.
    pub(crate) fn progress(&self) -> Progress<'a> {
        self.progress
    }

    /// Whether work is to go on.
    pub(crate) fn proceed(&self, op: &'static str) -> Result<()> {
        tell(op, self.progress, 0, 1)
    }

    /// The context.
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// The keys.
    pub fn keys(&self) -> &'a CkksKeys {
        self.keys
    }

    pub(crate) fn check(&self, op: &'static str, x: &Rlwe) -> Result<()> {
        self.context.check_set(op, x.params)?;
        if x.key == self.keys.id {
            return Ok(());
        }
        let (wanted, got) = (format!("key {}", self.keys.id), x.key.to_string());
        Err(Error::wrong_key(op, wanted, got, "use the evaluation keys of the ciphertext's key"))
    }

    /// `a·b`, relinearized and rescaled: one level below the lower of the two. The products must stay below
    /// [`Chain::largest`](crate::ckks::Chain::largest) of the result.
    ///
    /// # Errors
    /// `BadInput` at level 0 and for scales whose product the level below has no room for, `WrongKey` and `WrongParams` for what does
    /// not go together, `Memory` where it ends.
    pub fn multiply(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        let op = "multiply";
        self.check(op, a)?;
        or_refused(op, || {
            let [a, b] = aligned(self.context, op, a, b)?;
            let below = level_below(self.context, op, &a)?;
            check_scale(self.context, op, below, a.scale * b.scale / self.context.step(a.level))?;
            let mut sum = Sum::new(self.context, &a, a.level, a.scale * b.scale);
            sum.add_product(self.context, &a, &b, false);
            let key = self.key(op, Purpose::Multiply, a.level)?;
            Ok(sum.finish(self.context, &key, &a))
        })
    }

    /// The key for a purpose, which is to reach up to `level`.
    pub(crate) fn key(&self, op: &'static str, purpose: Purpose, level: usize) -> Result<KeyInUse> {
        let (which, held) = self.held(op, purpose, level)?;
        match held {
            Held::Ready(key) => Ok(KeyInUse::Ready(key.clone())),
            Held::Stored(key) if key.in_memory() => Ok(KeyInUse::Packed(key.clone())),
            Held::Stored(key) => self.read(which, key, reach(purpose, level)).map(KeyInUse::Ready),
        }
    }

    /// Refuses keys without these rotations up to `level`: before work that others of its keys would begin.
    ///
    /// # Errors
    /// `WrongKey` naming the first that is missing.
    pub fn require_rotations(&self, by: impl IntoIterator<Item = i64>, level: usize) -> Result<()> {
        let degree = self.context.params().degree();
        by.into_iter().try_for_each(|by| {
            let power = power_of_rotation(by, degree) as u32;
            if power == 1 {
                return Ok(());
            }
            self.held("rotate", Purpose::Galois(power), level).map(|_| ())
        })
    }

    /// The key for a purpose as it is held, and its form.
    fn held(
        &self,
        op: &'static str,
        purpose: Purpose,
        level: usize,
    ) -> Result<((Purpose, usize), &'a Held)> {
        let which = (purpose, self.context.tier_at(level));
        let (held, level) = (self.keys.switches.get(&which), reach(purpose, level));
        if let Some(key) = held.filter(|k| k.level() >= level) {
            return Ok((which, key));
        }
        let degree = self.context.params().degree();
        let what = purpose.words(degree);
        let got = match held {
            Some(key) => format!("one up to level {}", key.level()),
            None => self.keys.purposes(degree),
        };
        let remedy = "declare it when keys are made: `rotations` and `conjugate` of `keygen` in Python, `Needs` in Rust";
        let wanted = format!("a key for {what} up to level {level}");
        let missing = purpose.missing(level, degree);
        Err(Error::wrong_key(op, wanted, got, remedy).lacking(missing))
    }

    /// A key that is in a file, up to `level`.
    fn read(
        &self,
        which: (Purpose, usize),
        key: &StoredKey,
        level: usize,
    ) -> Result<Arc<SwitchKey>> {
        let read = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = read().get(&which).filter(|k| k.level >= level) {
            return Ok(key.clone());
        }
        // Not both at once. Nothing is locked meanwhile: a thread that waits for a part of this may begin other work.
        read().remove(&which);
        let key = Arc::new(self.context.expand(which.0, key, level, false)?);
        read().insert(which, key.clone());
        Ok(key)
    }

    /// Lets go of the keys that were expanded, but for these.
    pub(crate) fn keep(&self, needed: impl Fn(&(Purpose, usize)) -> bool) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|which, _| needed(which));
    }

    /// The images of `x` under X → X^g for each g of `powers`, from one decomposition.
    fn automorphisms(&self, op: &'static str, x: &Rlwe, powers: &[usize]) -> Result<Vec<Rlwe>> {
        self.check(op, x)?;
        or_refused(op, || self.images(op, x, powers, |_| Ok(())))
    }

    /// The images, with a call before each, of its place.
    fn images(
        &self,
        op: &'static str,
        x: &Rlwe,
        powers: &[usize],
        mut before: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Rlwe>> {
        let (context, level) = (self.context, x.level);
        let digits = Decomposed::new(context, &x.parts[1], level, context.special());
        let image = |(i, power): (usize, &usize)| {
            before(i)?;
            if *power == 1 {
                return Ok(x.clone());
            }
            self.proceed(op)?;
            let key = self.key(op, Purpose::Galois(*power as u32), x.level)?;
            let raised = digits.product(&key, [&x.parts[0], &[]]);
            let permutation = context.permutation(*power);
            let parts = [0, 1].map(|k| {
                let part = divide(context, &raised.parts[k], level, level, key.special());
                permute(context, &part, &permutation)
            });
            Ok(ciphertext(x, x.level, x.scale, parts))
        };
        powers.iter().enumerate().map(image).collect()
    }

    /// The slots rotated to the left by `by`: slot j gets the value of slot j + `by`.
    ///
    /// # Errors
    /// `WrongKey` naming the missing key.
    pub fn rotate(&self, x: &Rlwe, by: i64) -> Result<Rlwe> {
        Ok(self.rotate_many(x, &[by])?.remove(0))
    }

    /// [`Instructions::rotate`] by each number of slots; the costly half of the work is done once for all (hoisting).
    ///
    /// # Errors
    /// `WrongKey` naming the missing key.
    pub fn rotate_many(&self, x: &Rlwe, by: &[i64]) -> Result<Vec<Rlwe>> {
        self.automorphisms("rotate", x, &self.powers(x, by))
    }

    /// [`Instructions::rotate_many`] within a run, with a call before each rotation, of its place.
    pub(crate) fn rotate_with(
        &self,
        x: &Rlwe,
        by: &[i64],
        before: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Rlwe>> {
        self.images("rotate", x, &self.powers(x, by), before)
    }

    fn powers(&self, x: &Rlwe, by: &[i64]) -> Vec<usize> {
        let (degree, slots) = (self.context.params().degree(), x.slots as i64);
        by.iter().map(|by| power_of_rotation(by.rem_euclid(slots), degree)).collect()
    }

    /// The complex conjugate of every slot.
    ///
    /// # Errors
    /// `WrongKey` when the key is missing.
    pub fn conjugate(&self, x: &Rlwe) -> Result<Rlwe> {
        let power = 2 * self.context.params().degree() - 1;
        Ok(self.automorphisms("conjugate", x, &[power])?.remove(0))
    }

    /// From level 0 to `level`: to the ephemeral secret, the residues modulo q_0 nearest zero as residues of all words, times the
    /// integer `factor`, and back to the main secret.
    pub(crate) fn raise_modulus(&self, x: &Rlwe, level: usize, factor: f64) -> Result<Rlwe> {
        let (op, context) = ("bootstrap", self.context);
        let key = self.key(op, Purpose::ToEphemeral, level)?;
        let digits = Decomposed::new(context, &x.parts[1], 0, key.special());
        let sparse = digits.product(&key, [&x.parts[0], &[]]);
        let sparse = sparse.divided(context, 0, key.special());
        let key = self.key(op, Purpose::FromEphemeral, level)?;
        let constant = lift(context, &sparse[0], level, 0, factor);
        let linear = lift(context, &sparse[1], level, key.special(), factor);
        let raised = match context.is_every_digit(level, factor) {
            true => key.small_product(context, &linear, level, [&constant, &[]]),
            false => {
                let digits = Decomposed::new(context, &linear, level, key.special());
                digits.product(&key, [&constant, &[]])
            }
        };
        let parts = raised.divided(context, level, key.special());
        Ok(ciphertext(x, level, context.step(0) * factor, parts))
    }
}

impl Instructions<'_> {
    /// In slot i the sum of slots i, i + 1, …, i + `size` − 1, counted around. Over all slots that is their sum in every slot; over
    /// fewer, slot 0, `size`, 2·`size`, … have the sums of consecutive blocks. It takes log2(`size`) rotations
    /// ([`sum_rotations`]) and no level.
    ///
    /// # Errors
    /// `BadInput` for a size that is not a power of two or exceeds the slots, `WrongKey` naming a missing rotation, `Memory` where it ends.
    pub fn sum(&self, x: &Rlwe, size: usize) -> Result<Rlwe> {
        self.check("sum", x)?;
        if !size.is_power_of_two() || size > x.slots {
            let wanted = format!("a power of two of at most {} slots to sum", x.slots);
            let remedy = "fill the vector with zeros to a power of two";
            return Err(Error::bad_input("sum", wanted, size.to_string(), remedy));
        }
        self.require_rotations(sum_rotations(size), x.level)?;
        sum_rotations(size).into_iter().try_fold(x.clone(), |sum, by| {
            let moved = self.rotate(&sum, by)?;
            arithmetic::add(self.context, &sum, &moved)
        })
    }

    /// Σ a·b over pairs, relinearized and rescaled once: one level below the lowest of all. The sum must stay below
    /// [`Chain::largest`](crate::ckks::Chain::largest) of the result.
    ///
    /// # Errors
    /// `BadInput` for no pairs, at level 0, and for vectors or scales that differ; `WrongKey` and `WrongParams` for what does not go
    /// together, `Memory` where it ends.
    pub fn dot(&self, pairs: &[(&Rlwe, &Rlwe)]) -> Result<Rlwe> {
        let op = "dot product";
        let Some((first, _)) = pairs.first() else {
            let remedy = "pass two lists of as many ciphertexts";
            return Err(Error::bad_input(op, "one pair of ciphertexts or more", "none", remedy));
        };
        let mut level = first.level;
        for x in pairs.iter().flat_map(|(a, b)| [a, b]) {
            self.check(op, x)?;
            if x.slots != first.slots {
                let (wanted, got) = (format!("{} slots", first.slots), x.slots.to_string());
                return Err(Error::bad_input(op, wanted, got, "encrypt vectors of one length"));
            }
            level = level.min(x.level);
        }
        or_refused(op, || self.sum_of_products(op, pairs, level))
    }

    fn sum_of_products(
        &self,
        op: &'static str,
        pairs: &[(&Rlwe, &Rlwe)],
        level: usize,
    ) -> Result<Rlwe> {
        let context = self.context();
        let down = |x| down(context, x, level);
        let (a, b) = pairs[0];
        let (a, b) = (down(a)?, down(b)?);
        let (scale, below) = (a.scale * b.scale, level_below(context, op, &a)?);
        check_scale(context, op, below, scale / context.step(level))?;
        let key = self.key(op, Purpose::Multiply, level)?;
        let mut sum = Sum::new(context, &a, level, scale);
        for (a, b) in pairs {
            self.proceed(op)?;
            let (a, b) = (down(a)?, down(b)?);
            check_same_scale(op, scale, a.scale * b.scale)?;
            sum.add_product(context, &a, &b, false);
        }
        Ok(sum.finish(context, &key, &a))
    }
}
