//! Decryption to share: noise that hides what an exact decryption tells of the secret key.
//!
//! A decryption of CKKS is m + e, and e depends on the secret: c_0 + c_1·s = m + e can be solved for s (Li–Micciancio 2021,
//! ia.cr/2020/1533). Gaussian noise of standard deviation σ on each of the D real numbers that are shared makes q decryptions
//! as good as independent of e with s bits of statistical security where
//!
//!   σ = √(24·D·q)·2^(s/2)·E,
//!
//! E the bound on the error of a number (Li–Micciancio–Schultz–Sorrell 2022, ia.cr/2022/816). A slot is two of these numbers, its
//! real and its imaginary part, so that its noise is √2·σ = 2^-bits; whoever gets real parts alone has σ = 2^-(bits + 1/2) on each.
//! What a ciphertext claims is the error of a slot, all of which may be in one of the two (behind a bootstrap of real values it is):
//! E is not divided by √2. D counts both parts of real vectors too, half a bit more noise than their real parts need. The noise
//! is integer, on a grid of σ/2^20, and the values are rounded to that grid first, so that no low bits of a double tell anything.
//!
//! What a ciphertext claims of its error holds for values of at most 1 in every product, where the error of one factor is
//! multiplied by the other. The results are checked against that; for larger ones the caller names the bound, and E grows with it.

use super::Context;
use super::encrypt::wipe;
use crate::cipher::{CkksSecretKey, Rlwe};
use crate::math::complex::Complex;
use crate::math::random::{Domain, NoiseStream, SecretSeed};
use crate::math::sampling;
use crate::{Error, Result};
use zeroize::Zeroizing;

/// s: an attacker's advantage over guessing stays below 2^-s, whatever it computes.
pub const STATISTICAL_BITS: f64 = 30.0;
/// Standard deviations within which errors are taken to be: beyond lie 2^-34.6 of a Gaussian, less than 2^-s.
const BOUND: f64 = 6.8;
/// Steps of the grid in a standard deviation of the noise.
const GRID: f64 = (1 << 20) as f64;

impl Context {
    /// Bits that [`Context::decrypt_to_share`] can give of a ciphertext when `queries` decryptions under its key are
    /// shared in all, of values within `bound`.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set; `BadInput` for no queries and for a bound that is not in 1 ..= 2^60.
    pub fn bits_to_share(&self, ciphertext: &Rlwe, queries: u64, bound: f64) -> Result<f64> {
        let op = "bits to share";
        self.check_set(op, ciphertext.params)?;
        if queries == 0 {
            let remedy = "count the decryptions that are shared";
            return Err(Error::bad_input(op, "one query or more", "0 queries", remedy));
        }
        if !(1.0..=60f64.exp2()).contains(&bound) {
            let wanted = "a bound of 1 to 2^60 on the absolute values";
            let remedy = "leave it at 1 for values of at most 1";
            return Err(Error::bad_input(op, wanted, bound.to_string(), remedy));
        }
        let numbers = 2.0 * ciphertext.slots as f64;
        let flood = (24.0 * numbers * queries as f64).sqrt() * (STATISTICAL_BITS / 2.0).exp2();
        // Of a slot: two numbers have √2 of the standard deviation of each.
        Ok(-(flood * BOUND * bound * ciphertext.error * std::f64::consts::SQRT_2).log2())
    }

    /// Decrypts to values that others may see: with errors of standard deviation 2^-`precision_bits`, which hide the error of the
    /// ciphertext. `queries` is the number of decryptions under this key that will be shared in all, this one included:
    /// it is the caller who counts them.
    ///
    /// `bound` is how many times as large as 1 the results may be, and the error as what the ciphertext claims: 1 where every
    /// value that was multiplied was at most 1; B where the results or the factors of one product were up to B, B^k for k
    /// products in a row. The noise must grow with it. Results are held against it; what came before them only the caller knows.
    ///
    /// # Errors
    /// As [`Context::decrypt`]; `TooNoisy`, with the bits that can be had, where the noise asked for is too little to hide
    /// anything; `BadInput` for no queries, a precision that is not in −60 ..= 60, a bound that is not in 1 ..= 2^60, and for
    /// results beyond the bound, without them; `Io` when the system has no randomness.
    pub fn decrypt_to_share(
        &self,
        ciphertext: &Rlwe,
        secret: &CkksSecretKey,
        precision_bits: f64,
        queries: u64,
        bound: f64,
    ) -> Result<Vec<Complex>> {
        let op = "decrypt to share";
        if !(-60.0..=60.0).contains(&precision_bits) {
            let (wanted, got) = ("a precision of −60 to 60 bits", format!("{precision_bits} bits"));
            return Err(Error::bad_input(op, wanted, got, "ask what `bits_to_share` says"));
        }
        let most = self.bits_to_share(ciphertext, queries, bound)?;
        // A comparison that also refuses an error that is not a number.
        if !matches!(precision_bits.partial_cmp(&most), Some(o) if o.is_le()) {
            let (wanted, got) =
                (format!("at most {most:.1} bits"), format!("{precision_bits} bits"));
            let remedy = "ask for fewer bits, share fewer values or results, or share before many products and not behind a bootstrap";
            return Err(Error::too_noisy(op, wanted, got, remedy));
        }
        let mut raw = self.decrypt(ciphertext, secret)?;
        let values = Zeroizing::new(flat(&raw));
        wipe(&mut raw);
        within(&values, bound, ciphertext.error)?;
        let step = (-precision_bits - 0.5).exp2() / GRID;
        let mut noise = Zeroizing::new(vec![0i64; values.len()]);
        let mut stream = NoiseStream::new(&SecretSeed::from_system()?, Domain::Share, 0);
        sampling::gaussian(&mut stream, GRID, &mut noise);
        let shared = values.iter().zip(noise.iter()).map(|(x, e)| {
            let x = (x / step).round();
            (x + *e as f64) * step
        });
        let shared: Vec<f64> = shared.collect();
        Ok(shared.chunks(2).map(|c| Complex::new(c[0], c[1])).collect())
    }
}

/// Refuses results beyond `bound` and what the error may add to them; says nothing of their size.
fn within(values: &[f64], bound: f64, error: f64) -> Result<()> {
    let size = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
    let largest = values.chunks(2).map(size).fold(0.0, f64::max).sqrt();
    if largest <= bound * (1.0 + 2.0 * BOUND * error) + f64::EPSILON {
        return Ok(());
    }
    let wanted =
        format!("results of absolute value {bound} at most, as the claim of their error supposes");
    let remedy =
        "scale values down before they are multiplied, or give `bound`: the noise grows with it";
    Err(Error::bad_input("decrypt to share", wanted, "a larger one", remedy))
}

fn flat(values: &[Complex]) -> Vec<f64> {
    values.iter().flat_map(|v| [v.re, v.im]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rns::{centred, inverse, mul};
    use crate::params::CkksParams;

    /// The key-recovery attack of Li and Micciancio: (m + e − c_0)/c_1 modulo one prime, from a ciphertext and what its
    /// owner published of it; the coefficients that are right.
    fn recovered(
        context: &Context,
        x: &Rlwe,
        published: &[Complex],
        secret: &CkksSecretKey,
    ) -> usize {
        let n = context.params().degree();
        let phase = context.limbs(&context.coefficients(published, x.scale), &[0]);
        let p = context.ring().word(0).p;
        let word = |v: f64| (v as i64).rem_euclid(p as i64) as u64;
        let mut guess: Vec<f64> = (0..n)
            .map(|i| {
                let numerator = word(phase[i] - x.parts[0][i]);
                centred(mul(numerator, inverse(word(x.parts[1][i]), p), p), p)
            })
            .collect();
        context.ring().backward(0, &mut guess);
        context.ring().reduce(0, &mut guess);
        guess.iter().zip(&secret.coefficients).filter(|(a, b)| a == b).count()
    }

    /// The attack finds the key in raw decryptions and nothing in shared ones.
    #[test]
    fn the_key_is_found_in_raw_decryptions_and_not_in_shared_ones() {
        let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
        let (n, secret) = (context.params().degree(), context.secret_key().unwrap());
        let m: Vec<Complex> =
            (0..n / 2).map(|j| Complex::new((j as f64).sin(), (j as f64).cos())).collect();
        let x = context.encrypt(&m, 3, &secret).unwrap();
        let raw = context.decrypt(&x, &secret).unwrap();
        assert_eq!(recovered(&context, &x, &raw, &secret), n, "the attack works");
        let most = context.bits_to_share(&x, 16, 1.0).unwrap();
        println!("{most:.2} bits can be shared of 16 decryptions");
        let shared = context.decrypt_to_share(&x, &secret, most, 16, 1.0).unwrap();
        let right = recovered(&context, &x, &shared, &secret);
        println!("{right} of {n} coefficients from a shared decryption");
        assert!(right < n / 100, "{right} of {n} coefficients");
        // Nor in the mean of all that may be shared.
        let mut sum = flat(&shared);
        for _ in 1..16 {
            let next = context.decrypt_to_share(&x, &secret, most, 16, 1.0).unwrap();
            sum.iter_mut().zip(flat(&next)).for_each(|(a, b)| *a += b);
        }
        let mean: Vec<Complex> =
            sum.chunks(2).map(|c| Complex::new(c[0], c[1]) * (1.0 / 16.0)).collect();
        let right = recovered(&context, &x, &mean, &secret);
        assert!(right < n / 100, "{right} of {n} coefficients from the mean of 16");
        // The error is what was asked for, and its mean is nothing.
        let errors: Vec<f64> = flat(&shared).iter().zip(flat(&m)).map(|(a, b)| a - b).collect();
        let count = errors.len() as f64;
        let variance = errors.iter().map(|e| e * e).sum::<f64>() / count * 2.0;
        let ratio = variance.sqrt() / (-most).exp2();
        assert!((ratio - 1.0).abs() < 0.06, "{ratio}: 5 standard deviations are 0.055");
        let mean = errors.iter().sum::<f64>() / count / (-most).exp2();
        assert!(mean.abs() < 0.06, "{mean}");
    }

    #[test]
    fn too_many_bits_are_refused() {
        let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
        let secret = context.secret_key().unwrap();
        let x = context.encrypt(&[Complex::from(0.5); 8], 3, &secret).unwrap();
        let kind = |bits, queries| {
            let shared = context.decrypt_to_share(&x, &secret, bits, queries, 1.0);
            shared.err().map(|e| e.kind())
        };
        let most = context.bits_to_share(&x, 1, 1.0).unwrap();
        assert_eq!(kind(most, 1), None);
        assert_eq!(kind(most, 2), Some("too_noisy"), "half a bit fewer for twice the queries");
        assert_eq!(kind(most + 0.1, 1), Some("too_noisy"));
        for bits in [f64::NAN, f64::INFINITY, 61.0] {
            assert_eq!(kind(bits, 1), Some("bad_input"), "{bits}");
        }
        assert_eq!(kind(2.0, 0), Some("bad_input"));
        let other = context.secret_key().unwrap();
        let wrong = context.decrypt_to_share(&x, &other, 1.0, 1, 1.0);
        assert_eq!(wrong.err().map(|e| e.kind()), Some("wrong_key"));
    }
    /// The claim of error supposes values of at most 1: larger results are refused, or have as much more noise.
    #[test]
    fn results_beyond_the_bound_are_refused_without_being_told() {
        let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
        let secret = context.secret_key().unwrap();
        let of = |v: Complex| context.encrypt(&[v; 4], 3, &secret).unwrap();
        let share = |x: &Rlwe, bound| context.decrypt_to_share(x, &secret, 1.0, 1, bound);
        for ok in [Complex::from(1.0), Complex::from(-1.0), Complex::new(0.6, -0.8)] {
            share(&of(ok), 1.0).unwrap();
        }
        for (large, bound) in [
            (Complex::from(37.125), 1.0),
            (Complex::new(0.8, 0.8), 1.0),
            (Complex::from(37.125), 37.0),
        ] {
            let error = share(&of(large), bound).err().unwrap();
            let says = error.to_string();
            assert_eq!(error.kind(), "bad_input");
            assert!(
                says.contains(&format!("value {bound} at most")) && says.contains("`bound`"),
                "{says}"
            );
            assert!(!says.contains("37.1") && !says.contains("0.8"), "{says}");
        }
        let x = of(Complex::from(37.125));
        let bits = |bound| context.bits_to_share(&x, 1, bound);
        let (one, more) = (bits(1.0).unwrap(), bits(64.0).unwrap());
        assert!(
            (one - more - 6.0).abs() < 1e-9,
            "64 times the noise takes six bits: {one}, {more}"
        );
        assert!((share(&x, 64.0).unwrap()[0].re - 37.125).abs() < 4.0);
        let kind = |bits, bound| {
            context.decrypt_to_share(&x, &secret, bits, 1, bound).err().map(|e| e.kind())
        };
        assert_eq!(kind(one, 64.0), Some("too_noisy"));
        for bound in [0.5, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(kind(1.0, bound), Some("bad_input"), "{bound}");
            assert_eq!(bits(bound).err().map(|e| e.kind()), Some("bad_input"), "{bound}");
        }
        assert_eq!(context.bits_to_share(&x, 0, 1.0).err().map(|e| e.kind()), Some("bad_input"));
    }
}
