//! Arithmetic on ciphertexts that needs no key: sums, levels, rescaling.
//!
//! A ciphertext decrypts to m while |s·m| stays below half of the modulus that is decrypted; beyond, it wraps, and only
//! the owner of the key could tell. So [`Context::largest`] is the bound of a level, and public numbers, a scale or
//! plaintext values, are refused where they alone exceed it.

use super::sum::Sum;
use crate::cipher::Rlwe;
use crate::ckks::encode::residue;
use crate::ckks::{Context, same_scale};
use crate::math::complex::Complex;
use crate::math::parallel::*;
use crate::math::rns::Scratch;
use crate::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;

impl Context {
    pub(crate) fn ciphertext(
        &self,
        like: &Rlwe,
        level: usize,
        scale: f64,
        parts: [Scratch; 2],
    ) -> Rlwe {
        Rlwe { level, scale, parts: parts.map(Arc::new), ..like.empty() }
    }

    /// The same values at `level`, which is not above that of `x`, at the same scale. In the tier of `x` these are its first
    /// words; into the tier below a step is undone by an integer factor before.
    pub(crate) fn truncate(&self, x: &Rlwe, level: usize) -> Rlwe {
        if level == x.level {
            return x.clone();
        }
        let lowest = self.tier_of(x.level).start.max(level);
        let len = self.words(lowest) * self.params().degree();
        let parts = [0, 1].map(|k| {
            let mut part = self.ring().scratch(len);
            part.copy_from_slice(&x.parts[k][..len]);
            Arc::new(part)
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
    pub(crate) fn level_down(&self, x: &Rlwe, level: usize) -> Result<Rlwe> {
        self.check_set("level down", x.params)?;
        if level > x.level {
            let (wanted, got) = (format!("a level of at most {}", x.level), level.to_string());
            let remedy = "bootstrap to get levels back";
            return Err(Error::bad_input("level down", wanted, got, remedy));
        }
        let scale = self.scale(level)?;
        if level == x.level || same_scale(x.scale, scale) {
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
    pub(crate) fn rescale(&self, x: &Rlwe) -> Result<Rlwe> {
        self.check_set("rescale", x.params)?;
        self.level_below("rescale", x)?;
        let mut sum = Sum::new(self, x, x.level, x.scale);
        sum.add_multiple(self, x, 1.0);
        Ok(sum.rescale(self, x))
    }

    /// Refuses two ciphertexts of different sets, keys or slots.
    fn check_together(&self, op: &'static str, a: &Rlwe, b: &Rlwe) -> Result<()> {
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
        Ok(())
    }

    /// Two ciphertexts at the lower of their levels.
    pub(super) fn aligned<'a>(
        &self,
        op: &'static str,
        a: &'a Rlwe,
        b: &'a Rlwe,
    ) -> Result<[Cow<'a, Rlwe>; 2]> {
        self.check_together(op, a, b)?;
        let level = a.level.min(b.level);
        Ok([self.down(a, level)?, self.down(b, level)?])
    }

    /// [`Context::level_down`] where the level is another.
    pub(crate) fn down<'a>(&self, x: &'a Rlwe, level: usize) -> Result<Cow<'a, Rlwe>> {
        match x.level == level {
            true => Ok(Cow::Borrowed(x)),
            false => self.level_down(x, level).map(Cow::Owned),
        }
    }

    /// Refuses terms whose scales differ.
    pub(crate) fn check_same_scale(&self, op: &'static str, a: f64, b: f64) -> Result<()> {
        if same_scale(a, b) {
            return Ok(());
        }
        let (wanted, got) = (format!("scale 2^{:.6}", a.log2()), format!("2^{:.6}", b.log2()));
        Err(Error::bad_input(op, wanted, got, "bring both to the scale of their level"))
    }

    fn sum_of(&self, op: &'static str, a: &Rlwe, b: &Rlwe, subtract: bool) -> Result<Rlwe> {
        let [a, b] = self.aligned(op, a, b)?;
        self.check_same_scale(op, a.scale, b.scale)?;
        let mut out = a.into_owned();
        let (n, words) = (self.params().degree(), self.words_of(out.level, 0));
        for (x, y) in out.parts.iter_mut().zip(&b.parts) {
            let x = Arc::make_mut(x);
            x.par_chunks_mut(n).zip(y.par_chunks(n)).enumerate().for_each(|(i, (x, y))| {
                let i = words[i];
                if subtract { self.ring().sub(i, x, y) } else { self.ring().add(i, x, y) }
            });
        }
        Ok(out)
    }

    /// `a + b`, at the lower of the two levels.
    ///
    /// # Errors
    /// `WrongKey`, `WrongParams`, `BadInput` for ciphertexts that do not go together.
    pub(crate) fn add(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.sum_of("add", a, b, false)
    }

    /// `a − b`, at the lower of the two levels.
    ///
    /// # Errors
    /// As [`Context::add`].
    pub(crate) fn subtract(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.sum_of("subtract", a, b, true)
    }

    /// `−a`.
    pub(crate) fn negate(&self, a: &Rlwe) -> Rlwe {
        let mut out = a.clone();
        let parts = out.parts.iter_mut().map(Arc::make_mut);
        parts.for_each(|p| p.par_iter_mut().for_each(|x| *x = -*x));
        out
    }

    /// `a·c` for a real number, rescaled: one level lower.
    ///
    /// # Errors
    /// `BadInput` at level 0 or for a number that is not finite.
    pub(crate) fn multiply_constant(&self, a: &Rlwe, c: f64) -> Result<Rlwe> {
        let level = self.level_below("multiply", a)?;
        let scale = self.scale(level)?;
        self.check_plain("multiply", a, &[Complex::from(c)], (level, scale))?;
        let mut sum = Sum::new(self, a, a.level, scale * self.step(a.level));
        sum.add_multiple(self, a, c);
        Ok(sum.rescale(self, a))
    }

    /// Σ c·x of ciphertexts above `level`, at its scale.
    ///
    /// # Errors
    /// As [`Context::multiply_constant`]; `BadInput` for no terms.
    pub(crate) fn weighted_sum(&self, terms: &[(&Rlwe, f64)], level: usize) -> Result<Rlwe> {
        let op = "weighted sum";
        let Some((first, _)) = terms.first() else {
            return Err(Error::bad_input(op, "one term or more", "none", "pass some terms"));
        };
        let scale = self.scale(level)?;
        let mut sum = Sum::new(self, first, level + 1, scale * self.step(level + 1));
        for (x, c) in terms {
            self.check_together(op, first, x)?;
            self.check_plain(op, x, &[Complex::from(*c)], (level, scale))?;
            sum.add_multiple(self, x, *c);
        }
        Ok(sum.rescale(self, first))
    }

    /// `a + c` in every slot.
    pub(crate) fn add_constant(&self, a: &mut Rlwe, c: f64) {
        let (level, first) = (a.level, Arc::make_mut(&mut a.parts[0]));
        self.add_to_values(&mut first[..], level, c * a.scale);
    }

    /// Adds the integer nearest to c to all values of a polynomial at `level`.
    pub(crate) fn add_to_values(&self, limbs: &mut [f64], level: usize, c: f64) {
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
    pub(crate) fn multiply_i(&self, a: &Rlwe) -> Result<Rlwe> {
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
            Arc::new(part)
        });
        Ok(out)
    }

    /// A polynomial from level 0 to `level`: its residues modulo q_0 nearest zero as residues of all words and of so many
    /// special ones, times the integer `factor`. The message gains a multiple of q_0; the scale becomes q_0·`factor`.
    pub(crate) fn lift(&self, part: &[f64], level: usize, special: usize, factor: f64) -> Scratch {
        let (ring, n) = (self.ring(), self.params().degree());
        let mut base = ring.scratch(n);
        base.copy_from_slice(&part[..n]);
        ring.backward(0, &mut base);
        ring.reduce(0, &mut base);
        let words = self.words_of(level, special);
        let mut out = ring.scratch(words.len() * n);
        out.par_chunks_mut(n).zip(&words).for_each(|(limb, i)| {
            limb.copy_from_slice(&base);
            ring.reduce(*i, limb);
            ring.forward(*i, limb);
            ring.scale(*i, limb, residue(factor, ring.word(*i).p));
        });
        out
    }

    /// The largest absolute value that a slot of a ciphertext may have: v < q/4s, q the product of the first three words of its
    /// level, of which it is decrypted, or of as many as it has. A mean of that size in absolute value is what is really bounded, and
    /// half of q; the rest is room for the error. Larger values wrap modulo q, and nothing tells: level and scale are public,
    /// values are not. At level 0 of the standard sets it is 2^6, above 2^40 and more.
    pub fn largest(&self, x: &Rlwe) -> f64 {
        self.room(x.level.min(self.params().top_level())) / x.scale
    }

    /// Refuses a scale at which not even 1 has room: it is public, and says nothing of the values.
    pub(crate) fn check_scale(&self, op: &'static str, level: usize, scale: f64) -> Result<()> {
        let most = self.room(level);
        if (1.0..most).contains(&scale) {
            return Ok(());
        }
        let wanted = format!("a scale below 2^{:.0} at level {level}", most.log2());
        let remedy = "use ciphertexts at the scale of their level: `level_down` brings them there";
        Err(Error::bad_input(op, wanted, format!("2^{:.1}", scale.log2()), remedy))
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
        let parts = [0, 1].map(|k| Arc::new(self.parts[k].nothing()));
        let Rlwe { params, key, level, scale, slots, account, integers, .. } = *self;
        Rlwe { params, key, level, scale, slots, account, integers, parts }
    }
}
