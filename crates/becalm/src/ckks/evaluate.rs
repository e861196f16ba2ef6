//! Arithmetic on ciphertexts: sums, products, levels, rotations.
//!
//! A ciphertext decrypts to m while |s·m| stays below half of the modulus that is decrypted; beyond, it wraps, and nobody but
//! the owner of the key could tell. So [`Context::largest`] says what a level holds, and public numbers, a scale or values in the
//! clear, are refused where they alone exceed it.

use super::encode::residue;
use super::inspect::{self, named};
use super::key_switch::KeyInUse;
use super::sum::Sum;
use super::{Context, SAME_SCALE, power_of_rotation, share};
use crate::cipher::{Account, CkksKeys, Held, Purpose, Rlwe, StoredKey, SwitchKey};
use crate::math::buffer::or_refused;
use crate::math::complex::Complex;
use crate::math::parallel::*;
use crate::math::rns::Scratch;
use crate::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Whether long work is to go on.
type GoOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// A context with keys: what a server computes with. Keys that are packed are expanded block by block; those in their file are read
/// when they are first used, no more of them than the level takes, and kept until the evaluator goes or a session lets go of them.
pub struct Evaluator<'a> {
    context: &'a Context,
    keys: &'a CkksKeys,
    /// What was expanded, for which purpose and tier.
    read: Mutex<BTreeMap<(Purpose, usize), Arc<SwitchKey>>>,
    /// Asked between the parts of long work.
    go_on: Option<GoOn<'a>>,
}

impl Context {
    pub(crate) fn ciphertext(
        &self,
        like: &Rlwe,
        level: usize,
        scale: f64,
        parts: [Scratch; 2],
    ) -> Rlwe {
        Rlwe { level, scale, parts, ..like.empty() }
    }

    /// The same values at `level`, which is not above that of `x`, at the same scale. In the tier of `x` these are its first
    /// words; into the tier below a step is undone by an integer factor before.
    pub(crate) fn truncate(&self, x: &Rlwe, level: usize) -> Rlwe {
        let lowest = self.tier_of(x.level).start.max(level);
        let len = self.words(lowest) * self.params().degree();
        let parts = [0, 1].map(|k| {
            let mut part = self.ring().scratch(len);
            part.copy_from_slice(&x.parts[k][..len]);
            part
        });
        let x = Rlwe { level: lowest, parts, ..x.empty() };
        if lowest == level {
            return x;
        }
        let mut sum = Sum::new(self, &x, lowest, x.scale * self.step(lowest).round());
        sum.add_multiple(self, &x, 1.0);
        let scale = x.scale;
        let x = Rlwe { scale, ..sum.rescale(self, &x) };
        self.truncate(&x, level)
    }

    /// [`Context::truncate`] where the level or the words are others.
    pub(crate) fn lowered<'a>(&self, x: &'a Rlwe, level: usize) -> Cow<'a, Rlwe> {
        match self.tier_of(level).contains(&x.level) {
            true => Cow::Borrowed(x),
            false => Cow::Owned(self.truncate(x, level)),
        }
    }

    /// The same values at a lower level, at the scale of that level.
    ///
    /// # Errors
    /// `BadInput` for a level above that of the ciphertext.
    pub fn level_down(&self, x: &Rlwe, level: usize) -> Result<Rlwe> {
        self.check_set("level down", x.params)?;
        if level > x.level {
            let (wanted, got) = (format!("a level of at most {}", x.level), level.to_string());
            let remedy = "bootstrap to get levels back";
            return Err(Error::bad_input("level down", wanted, got, remedy));
        }
        let scale = self.scale(level)?;
        if level == x.level || (x.scale / scale - 1.0).abs() < SAME_SCALE {
            return Ok(self.truncate(x, level));
        }
        let x = self.truncate(x, level + 1);
        let mut sum = Sum::new(self, &x, level + 1, scale * self.step(level + 1));
        sum.add_multiple(self, &x, 1.0);
        Ok(sum.rescale(self, &x))
    }

    /// The same values one level lower, the scale divided by q of the level. Products rescale by themselves; this is for what
    /// has a scale far above that of its level, s²: at s the scale left is about 1, and the error says that nothing is.
    ///
    /// # Errors
    /// `BadInput` at level 0, `WrongParams` for a ciphertext of another set.
    pub fn rescale(&self, x: &Rlwe) -> Result<Rlwe> {
        self.check_set("rescale", x.params)?;
        self.level_below("rescale", x)?;
        let mut sum = Sum::new(self, x, x.level, x.scale);
        sum.add_multiple(self, x, 1.0);
        Ok(sum.rescale(self, x))
    }

    /// Two ciphertexts at the lower of their levels.
    fn aligned<'a>(
        &self,
        op: &'static str,
        a: &'a Rlwe,
        b: &'a Rlwe,
    ) -> Result<[Cow<'a, Rlwe>; 2]> {
        self.check_set(op, a.params)?;
        self.check_set(op, b.params)?;
        if a.key != b.key {
            let remedy = "encrypt both with one key";
            return Err(Error::wrong_key(op, format!("key {}", a.key), b.key.to_string(), remedy));
        }
        if a.slots != b.slots {
            let wanted = format!("{} slots", a.slots);
            return Err(Error::bad_input(
                op,
                wanted,
                b.slots.to_string(),
                "encrypt vectors of one length",
            ));
        }
        let level = a.level.min(b.level);
        Ok([self.down(a, level)?, self.down(b, level)?])
    }

    /// [`Context::level_down`] where the level is another.
    pub(super) fn down<'a>(&self, x: &'a Rlwe, level: usize) -> Result<Cow<'a, Rlwe>> {
        match x.level == level {
            true => Ok(Cow::Borrowed(x)),
            false => self.level_down(x, level).map(Cow::Owned),
        }
    }

    /// Refuses terms whose scales differ.
    pub(super) fn check_same_scale(&self, op: &'static str, a: f64, b: f64) -> Result<()> {
        if (a / b - 1.0).abs() <= SAME_SCALE {
            return Ok(());
        }
        let (wanted, got) = (format!("scale 2^{:.6}", a.log2()), format!("2^{:.6}", b.log2()));
        Err(Error::bad_input(op, wanted, got, "bring both to the scale of their level"))
    }

    fn combine(&self, op: &'static str, a: &Rlwe, b: &Rlwe, subtract: bool) -> Result<Rlwe> {
        let [a, b] = self.aligned(op, a, b)?;
        self.check_same_scale(op, a.scale, b.scale)?;
        let mut out = a.into_owned();
        let (n, words) = (self.params().degree(), self.words_of(out.level, 0));
        for (x, y) in out.parts.iter_mut().zip(&b.parts) {
            x.par_chunks_mut(n).zip(y.par_chunks(n)).enumerate().for_each(|(i, (x, y))| {
                let i = words[i];
                if subtract { self.ring().sub(i, x, y) } else { self.ring().add(i, x, y) }
            });
        }
        // Right for any correlation: b may be a itself.
        out.error += b.error;
        out.account = out.account.plus(b.account);
        Ok(out)
    }

    /// `a + b`, at the lower of the two levels.
    ///
    /// # Errors
    /// `WrongKey`, `WrongParams`, `BadInput` for ciphertexts that do not go together.
    pub fn add(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.combine("add", a, b, false)
    }

    /// `a − b`, at the lower of the two levels.
    ///
    /// # Errors
    /// As [`Context::add`].
    pub fn subtract(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.combine("subtract", a, b, true)
    }

    /// `−a`.
    pub fn negate(&self, a: &Rlwe) -> Rlwe {
        let mut out = a.clone();
        out.parts.iter_mut().for_each(|p| p.par_iter_mut().for_each(|x| *x = -*x));
        out
    }

    /// `a·c` for a real number, rescaled: one level lower.
    ///
    /// # Errors
    /// `BadInput` at level 0 or for a number that is not finite, `TooNoisy` where the error alone would fill the level.
    pub fn multiply_constant(&self, a: &Rlwe, c: f64) -> Result<Rlwe> {
        let level = self.level_below("multiply", a)?;
        self.check_plain("multiply", a, &[Complex::from(c)], level)?;
        let mut sum = Sum::new(self, a, a.level, self.scale(level)? * self.step(a.level));
        sum.add_multiple(self, a, c);
        self.with_some_left("multiply", sum.rescale(self, a))
    }

    /// `a + c` in every slot.
    pub(crate) fn add_constant(&self, a: &mut Rlwe, c: f64) {
        self.add_to_values(&mut a.parts[0], a.level, c * a.scale);
        a.account = a.account.plus(Account { values: c.abs(), error: 0.5 / a.scale });
    }

    /// Adds the integer nearest to c to all values of a polynomial at `level`.
    pub(super) fn add_to_values(&self, limbs: &mut [f64], level: usize, c: f64) {
        let (n, c, words) = (self.params().degree(), c.round(), self.words_of(level, 0));
        limbs.par_chunks_mut(n).enumerate().for_each(|(i, x)| {
            let i = words[i];
            let c = residue(c, self.ring().word(i).p);
            x.iter_mut().for_each(|x| *x += c);
            self.ring().reduce(i, x);
        });
    }

    /// `i·a`: a product with X^(N/2), exact and without a level.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set.
    pub fn multiply_i(&self, a: &Rlwe) -> Result<Rlwe> {
        self.check_set("multiply by i", a.params)?;
        let (n, mut out) = (self.params().degree(), a.empty());
        out.parts = [0, 1].map(|k| {
            let mut part = self.ring().scratch(a.parts[k].len());
            part.par_chunks_mut(n).zip(a.parts[k].par_chunks(n)).enumerate().for_each(
                |(i, (x, y))| {
                    let i = self.word_of(a.level, i);
                    self.ring().mul(i, x, y, &self.ring().imaginary(i));
                },
            );
            part
        });
        Ok(out)
    }

    /// From level 0 to `level`: the residues modulo q_0 nearest zero as residues of all words, times the integer `factor`.
    /// What is encrypted gains a multiple of q_0; the scale becomes q_0·`factor`.
    pub(crate) fn lift(&self, x: &Rlwe, level: usize, factor: f64) -> Rlwe {
        let (ring, n) = (self.ring(), self.params().degree());
        let parts = [0, 1].map(|k| {
            let mut base = ring.scratch(n);
            base.copy_from_slice(&x.parts[k][..n]);
            ring.backward(0, &mut base);
            ring.reduce(0, &mut base);
            let mut part = ring.scratch(self.words(level) * n);
            part.par_chunks_mut(n).enumerate().for_each(|(i, limb)| {
                let i = self.word_of(level, i);
                limb.copy_from_slice(&base);
                ring.reduce(i, limb);
                ring.forward(i, limb);
                ring.scale(i, limb, residue(factor, ring.word(i).p));
            });
            part
        });
        let (scale, account) = (self.step(0) * factor, Account::UNKNOWN);
        Rlwe { level, scale, account, parts, ..x.empty() }
    }

    /// The largest absolute value that a slot of a ciphertext may have: v < q/4s, q the product of the first three words of its
    /// level, of which it is decrypted, or of as many as it has. A mean of that size in absolute value is what is really bounded, and
    /// half of q; the rest is room for the error. Larger values wrap modulo q, and nothing tells: level and scale are public,
    /// values are not. At level 0 of the standard sets it is 2^6, above 2^40 and more.
    pub fn largest(&self, x: &Rlwe) -> f64 {
        self.room(x.level.min(self.params().top_level())) / x.scale
    }

    /// Refuses a scale at which not even 1 has room: it is public, and says nothing of the values.
    pub(super) fn check_scale(&self, op: &'static str, level: usize, scale: f64) -> Result<()> {
        let most = self.room(level);
        if (1.0..most).contains(&scale) {
            return Ok(());
        }
        let wanted = format!("a scale below 2^{:.0} at level {level}", most.log2());
        let remedy = "use ciphertexts at the scale of their level: `level_down` brings them there";
        Err(Error::bad_input(op, wanted, format!("2^{:.1}", scale.log2()), remedy))
    }

    /// Refuses a result whose error alone, by what is public, fills the level.
    pub(super) fn with_some_left(&self, op: &'static str, x: Rlwe) -> Result<Rlwe> {
        let most = self.largest(&x);
        if x.error < most {
            return Ok(x);
        }
        let wanted = format!("an error below 2^{:.0}, what level {} holds", most.log2(), x.level);
        let remedy = "multiply by smaller numbers: the error grows with each, and so do the values";
        Err(Error::too_noisy(op, wanted, format!("2^{:.1}", x.error.log2()), remedy))
    }

    /// How to come to more levels.
    pub(super) fn upwards(&self) -> &'static str {
        match self.params().bootstrap {
            Some(_) => "bootstrap it first",
            None => {
                "encrypt at a higher level, or use a set with more levels: `ckks_regular` has a bootstrap"
            }
        }
    }

    pub(crate) fn level_below(&self, op: &'static str, a: &Rlwe) -> Result<usize> {
        a.level.checked_sub(1).ok_or_else(|| {
            Error::bad_input(op, "a ciphertext at level 1 or above", "level 0", self.upwards())
        })
    }
}

impl Rlwe {
    /// All but the polynomials.
    fn empty(&self) -> Rlwe {
        let parts = [0, 1].map(|k| self.parts[k].nothing());
        let Rlwe { params, key, level, scale, slots, error, account, .. } = *self;
        Rlwe { params, key, level, scale, slots, error, account, parts }
    }
}

/// Up to which level a key for work at `level` is to reach. To an ephemeral secret there is one level.
fn reach(purpose: Purpose, level: usize) -> usize {
    if purpose == Purpose::ToEphemeral { 0 } else { level }
}

impl<'a> Evaluator<'a> {
    /// Puts a context and keys of its set together.
    ///
    /// # Errors
    /// `WrongParams` for keys of another set.
    pub fn new(context: &'a Context, keys: &'a CkksKeys) -> Result<Self> {
        context.check_set("evaluate", keys.params)?;
        Ok(Evaluator { context, keys, read: Mutex::default(), go_on: None })
    }

    /// The same, asking between the parts of long work: rotations, steps of a linear map, products of a polynomial. A `false`
    /// ends it as `Interrupted`.
    pub fn asking(self, go_on: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Evaluator { go_on: Some(go_on), ..self }
    }

    /// Whether work is to go on.
    pub(super) fn proceed(&self, op: &'static str) -> Result<()> {
        match self.go_on.is_none_or(|go_on| go_on()) {
            true => Ok(()),
            false => Err(Error::interrupted(op, "to go on", "a request to stop", "call it again")),
        }
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
    /// [`Context::largest`] of the result.
    ///
    /// # Errors
    /// `BadInput` at level 0 and for scales whose product the level below has no room for, `WrongKey` and `WrongParams` for what does
    /// not go together, `Memory` where it ends.
    pub fn multiply(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        let op = "multiply";
        self.check(op, a)?;
        or_refused(op, || {
            let [a, b] = self.context.aligned(op, a, b)?;
            let below = self.context.level_below(op, &a)?;
            self.context.check_scale(op, below, a.scale * b.scale / self.context.step(a.level))?;
            let mut sum = Sum::new(self.context, &a, a.level, a.scale * b.scale);
            sum.add_product(self.context, &a, &b, false);
            let key = self.key(op, Purpose::Multiply, a.level)?;
            Ok(sum.finish(self.context, &key, &a))
        })
    }

    /// `a·a`.
    ///
    /// # Errors
    /// As [`Evaluator::multiply`].
    pub fn square(&self, a: &Rlwe) -> Result<Rlwe> {
        self.multiply(a, a)
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

    /// The key for a purpose as it is held, and what it is held as.
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
        let what = named(purpose, degree);
        let got = match held {
            Some(key) => format!("one up to level {}", key.level()),
            None => inspect::held(self.keys, degree),
        };
        let remedy = "declare it when keys are made: `rotations` and `conjugate` of `keygen` in Python, `Needs` in Rust";
        Err(Error::wrong_key(op, format!("a key for {what} up to level {level}"), got, remedy))
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
        or_refused(op, || self.images(op, x, powers))
    }

    fn images(&self, op: &'static str, x: &Rlwe, powers: &[usize]) -> Result<Vec<Rlwe>> {
        let (context, level) = (self.context, x.level);
        let digits = context.decompose(&x.parts[1], level, context.special());
        let image = |power: &usize| {
            if *power == 1 {
                return Ok(x.clone());
            }
            self.proceed(op)?;
            let key = self.key(op, Purpose::Galois(*power as u32), x.level)?;
            let raised = context.inner_product(&digits, &key, [&x.parts[0], &[]]);
            let permutation = context.permutation(*power);
            let parts = [0, 1].map(|k| {
                let part = context.divide(&raised.parts[k], level, level, key.special());
                context.permute(&part, &permutation)
            });
            let mut out = context.ciphertext(x, x.level, x.scale, parts);
            let switched = context.switching(level, x.scale).hypot(context.rounding(x.scale));
            out.error = x.error.hypot(switched);
            out.account = x.account.blurred(share::product_bound(switched));
            Ok(out)
        };
        powers.iter().map(image).collect()
    }

    /// The slots rotated to the left by `by`: slot j gets what was in slot j + `by`.
    ///
    /// # Errors
    /// `WrongKey` naming the missing key.
    pub fn rotate(&self, x: &Rlwe, by: i64) -> Result<Rlwe> {
        Ok(self.rotate_many(x, &[by])?.remove(0))
    }

    /// [`Evaluator::rotate`] by each number of slots; the costly half of the work is done once for all (hoisting).
    ///
    /// # Errors
    /// `WrongKey` naming the missing key.
    pub fn rotate_many(&self, x: &Rlwe, by: &[i64]) -> Result<Vec<Rlwe>> {
        let (degree, slots) = (self.context.params().degree(), x.slots as i64);
        let power = |by: &i64| power_of_rotation(by.rem_euclid(slots), degree);
        self.automorphisms("rotate", x, &by.iter().map(power).collect::<Vec<_>>())
    }

    /// The complex conjugate of every slot.
    ///
    /// # Errors
    /// `WrongKey` when the key is missing.
    pub fn conjugate(&self, x: &Rlwe) -> Result<Rlwe> {
        let power = 2 * self.context.params().degree() - 1;
        Ok(self.automorphisms("conjugate", x, &[power])?.remove(0))
    }

    /// From the main secret at level 0 to the ephemeral one that is left at level `raised`, or there back.
    pub(crate) fn encapsulate(&self, x: &Rlwe, raised: usize) -> Result<Rlwe> {
        let key = match x.level == raised {
            true => self.key("bootstrap", Purpose::FromEphemeral, raised)?,
            false => self.key("bootstrap", Purpose::ToEphemeral, raised)?,
        };
        let (context, level) = (self.context, x.level);
        let digits = context.decompose(&x.parts[1], level, key.special());
        let raised = context.inner_product(&digits, &key, [&x.parts[0], &[]]);
        let parts = [0, 1].map(|k| context.divide(&raised.parts[k], level, level, key.special()));
        Ok(context.ciphertext(x, x.level, x.scale, parts))
    }
}
