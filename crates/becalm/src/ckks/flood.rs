//! Noise flooding for `decrypt_to_share`: noise that hides what an exact decryption tells of the secret key.
//!
//! A decryption of CKKS is m + e, and e depends on the secret: c_0 + c_1·s = m + e can be solved for s (Li–Micciancio 2021,
//! ia.cr/2020/1533). Gaussian noise of standard deviation σ on each of the D real numbers that are published makes q decryptions
//! as good as independent of e with s bits of statistical security where
//!
//!   σ = √(24·D·q)·2^(s/2)·E,
//!
//! E the bound on the error of a number (Li–Micciancio–Schultz–Sorrell 2022, ia.cr/2022/816). A slot is two numbers: its noise is
//! √2·σ = 2^-bits. All of a slot's error may be in one of them, so E is that of the slot. D counts both parts of real vectors too.
//! The noise is integer, on a grid of σ/2^20, and values are rounded to that grid first, so that no low bits of a double tell anything.
//!
//! Nothing observable depends on m + e itself: a refusal is decided on the published values, noise included, or on public facts. A
//! function of the noisy values tells no more than these. E comes from the [`Account`], never from a file.

use super::Context;
use crate::cipher::{Account, Budget, Rlwe, Standing};
use crate::math::complex::Complex;
use crate::math::random::{Domain, NoiseStream, SecretSeed};
use crate::math::sampling;
use crate::{Error, Result};
use zeroize::Zeroizing;

/// s: an attacker's advantage over guessing stays below 2^-s, whatever it computes.
pub const STATISTICAL_BITS: f64 = 30.0;
/// Steps of the grid in a standard deviation of the noise.
const GRID: f64 = (1 << 20) as f64;
/// Standard deviations of a slot that its noise stays within, but for 2^-70 of all slots.
pub(super) const REACH: f64 = 7.0;
/// Relative error of the doubles that decryption computes with.
const DOUBLES: f64 = 1.0 / (1u64 << 47) as f64;

impl Context {
    /// Bits that [`Context::decrypt_to_share`] can give of a ciphertext when `queries` decryptions under its key are published in all.
    /// They depend on the [`Account`] of the ciphertext alone.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set; `BadInput` for no queries and for a ciphertext whose account is unknown
    /// ([`Rlwe::vouched`] gives it one).
    pub fn bits_to_share(&self, ciphertext: &Rlwe, queries: u64) -> Result<f64> {
        self.bits_shown("bits_to_share", ciphertext, 2 * ciphertext.slots, queries)
    }

    /// Bits of a slot with noise that hides the error of a ciphertext where `numbers` real numbers are shown, `queries` times.
    pub(super) fn bits_shown(
        &self,
        op: &'static str,
        ciphertext: &Rlwe,
        numbers: usize,
        queries: u64,
    ) -> Result<f64> {
        self.check_set(op, ciphertext.params)?;
        if queries == 0 {
            let remedy = "pass how many decryptions you will publish in all";
            return Err(Error::bad_input(op, "one query or more", "0 queries", remedy));
        }
        let Account { values, worst, standing, .. } = ciphertext.account;
        // A comparison that is false for what is not a number.
        let fits = values + worst <= self.largest(ciphertext);
        if standing != Standing::BOUNDED || !fits {
            let wanted = "a ciphertext with known bounds on its values and their error";
            let (got, remedy) = unbounded(standing, values + worst, self.largest(ciphertext));
            return Err(Error::bad_input(op, wanted, got, remedy));
        }
        let flood =
            (24.0 * numbers as f64 * queries as f64).sqrt() * (STATISTICAL_BITS / 2.0).exp2();
        // Of a slot: two numbers have √2 of the standard deviation of each.
        Ok(-(flood * (worst + values * DOUBLES) * std::f64::consts::SQRT_2).log2())
    }
}

/// The reasons why an account does not say how much noise hides the error, and the remedy.
fn unbounded(standing: Standing, reach: f64, room: f64) -> (String, &'static str) {
    let got = match standing {
        Standing::BOUNDED => {
            format!("values of up to {reach:.3e} where its level has room for {room:.3e}")
        }
        _ => format!("one {}", standing.reasons()),
    };
    let remedy = match standing.without(Standing::INHERITED) {
        Standing::BOUNDED => {
            "vouch for smaller values with `vouched`, or decrypt at a higher level"
        }
        Standing::FOREIGN => {
            "if the owner of the secret key made these keys, let the owner vouch with `vouched`: keys of others can give it away"
        }
        Standing::EXCEEDED => {
            "encrypt with a `bound` that no value exceeds, or vouch for the bounds with `vouched`"
        }
        Standing::WRAPPED => {
            "keep values smaller, compute at a higher level, or vouch for the bounds with `vouched`"
        }
        _ if standing.has(Standing::FOREIGN) => {
            "let the owner of the key compute both bounds, and vouch for them with `vouched`; and for the keys, by `vouched` without bounds"
        }
        _ => "let the owner of the key compute both bounds, and vouch for them with `vouched`",
    };
    (got, remedy)
}

/// Refuses a precision that nobody can ask for, or more bits than `most` says can be shown.
pub(super) fn check_precision(
    op: &'static str,
    bits: f64,
    most: impl FnOnce() -> Result<f64>,
) -> Result<()> {
    if !(-60.0..=60.0).contains(&bits) {
        let (wanted, got) = ("a precision of -60 to 60 bits", shown(bits));
        return Err(Error::bad_input(op, wanted, got, "ask which precision is possible"));
    }
    let most = most()?;
    // A comparison that also refuses an error that is not a number.
    if matches!(bits.partial_cmp(&most), Some(o) if o.is_le()) {
        return Ok(());
    }
    let (wanted, got) = (format!("at most {most:.1} bits"), shown(bits));
    let remedy =
        "ask for fewer bits, publish fewer values or results, or decrypt before many products";
    Err(Error::too_noisy(op, wanted, got, remedy))
}

/// Spends one of `queries` decryptions, or refuses.
pub(super) fn spend(op: &'static str, budget: &Budget, queries: u64) -> Result<()> {
    if budget.spend(queries) {
        return Ok(());
    }
    let wanted = "a secret key, or a share of one, with decryptions left";
    let got = format!("one that has spent {:.0} % of its budget", 100.0 * budget.spent());
    let remedy = "state more `queries` from the first one on, or make a new key";
    Err(Error::bad_input(op, wanted, got, remedy))
}

/// Bits for a message: a huge number in few digits.
fn shown(bits: f64) -> String {
    if bits.abs() < 1e6 { format!("{bits} bits") } else { format!("{bits:e} bits") }
}

/// The values, rounded to the grid, with noise of standard deviation 2^-`bits` for each pair.
pub(super) fn with_noise(values: &[f64], seed: &SecretSeed, bits: f64) -> Vec<Complex> {
    let step = (-bits - 0.5).exp2() / GRID;
    let mut noise = Zeroizing::new(vec![0i64; values.len()]);
    sampling::gaussian(&mut NoiseStream::new(seed, Domain::Flood, 0), GRID, &mut noise);
    let number = |(x, e): (&f64, &i64)| ((x / step).round() + *e as f64) * step;
    let pair =
        |(x, e): (&[f64], &[i64])| Complex::new(number((&x[0], &e[0])), number((&x[1], &e[1])));
    values.chunks_exact(2).zip(noise.chunks_exact(2)).map(pair).collect()
}
