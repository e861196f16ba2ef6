//! Whether a set from outside can be computed with: every field in its range, before any memory is asked for.

use super::*;

/// Largest k·N of a set that is taken from outside.
const MAX_BIG_DIMENSION: usize = 1 << 17;
/// Most coefficients of a table of a set that is taken from outside.
const MAX_TABLE_SIZE: usize = 1 << 20;
/// Largest n of a set that is taken from outside.
const MAX_LWE_DIMENSION: usize = 1 << 14;

impl TfheParams {
    /// Refuses a common-mask set where a ciphertext is one message.
    pub(crate) fn require_one_slot(&self, op: &'static str) -> Result<()> {
        if self.slots == 1 {
            return Ok(());
        }
        Err(Error::unsupported(
            op,
            "a set of one slot",
            format!("`{}` with {} slots", self.name, self.slots),
            "use a set without a common mask",
        ))
    }

    /// Checks that the set can be computed with at all: every field in its range. For sets from outside, before any
    /// memory is asked for. Says nothing of security or failure probability.
    ///
    /// # Errors
    /// `wrong_params` naming the field.
    pub fn validate(&self) -> Result<()> {
        self.validate_text()?;
        self.validate_shape()?;
        self.validate_noise()?;
        self.validate_values()
    }

    fn validate_text(&self) -> Result<()> {
        let name_ok =
            (1..=64).contains(&self.name.len()) && self.name.bytes().all(|b| b.is_ascii_graphic());
        check(name_ok, "a name of 1 to 64 visible ASCII characters", || {
            format!("{} bytes", self.name.len())
        })?;
        let longest = self.source.len().max(self.security_source.len());
        check(longest <= 256, "sources of at most 256 bytes", || format!("{longest} bytes"))
    }

    fn validate_shape(&self) -> Result<()> {
        let (n, k, degree) = (self.lwe_dimension, self.glwe_dimension, self.polynomial_size);
        check((1..=MAX_LWE_DIMENSION).contains(&n), "n in 1..=16384", || format!("n = {n}"))?;
        check((1..=16).contains(&k), "k in 1..=16", || format!("k = {k}"))?;
        let degree_ok = degree.is_power_of_two() && (256..=1 << 16).contains(&degree);
        check(degree_ok, "N a power of two in 256..=65536", || format!("N = {degree}"))?;
        check(k * degree <= MAX_BIG_DIMENSION, "k·N at most 131072", || {
            format!("k·N = {}", k * degree)
        })?;
        let rotation_ok = match self.rotation {
            Rotation::Classic => true,
            Rotation::MultiBit { grouping: g } => (2..=5).contains(&g) && n % g as usize == 0,
            Rotation::Block { size: b } => (2..=32).contains(&b) && n % b as usize == 0,
            Rotation::Extended { factor_log2 } => (1..=6).contains(&factor_log2),
        };
        let wanted =
            "a grouping of 2 to 5 or blocks of 2 to 32 that divide n, or 2^1 to 2^6 accumulators";
        check(rotation_ok, wanted, || match self.rotation {
            Rotation::Classic => "neither".into(),
            Rotation::MultiBit { grouping: g } => format!("a grouping of {g} with n = {n}"),
            Rotation::Block { size: b } => format!("blocks of {b} with n = {n}"),
            Rotation::Extended { factor_log2: f } => format!("2^{f} accumulators"),
        })?;
        let table_ok = self.table_size() <= MAX_TABLE_SIZE;
        check(table_ok, "2^η·N at most 2^20", || format!("{}", self.table_size()))?;
        if let ModulusSwitch::Companion { coarsest_log2, weight } = self.modulus_switch {
            let own = self.rotation == Rotation::Extended { factor_log2: coarsest_log2 };
            check(
                own && (1..4096).contains(&weight),
                "companion rounding of the rotation's own 2^η accumulators, a weight in 1..=4095",
                || format!("{:?} with {:?}", self.modulus_switch, self.rotation),
            )?;
        }
        let slots_ok = (1..=16).contains(&self.slots);
        check(slots_ok, "1 to 16 slots", || format!("{} slots", self.slots))?;
        let alone =
            self.slots == 1 || (self.order == Order::KsPbs && self.rotation == Rotation::Classic);
        let wanted = "slots with the key switch first and the classic rotation";
        check(alone, wanted, || format!("{:?} and {:?}", self.order, self.rotation))?;
        let shared_ok = !self.shared_key || n <= k * degree;
        check(shared_ok, "a shared key no longer than k·N", || format!("n = {n}"))?;
        let switched = self.ks_modulus_log2;
        let word_ok = switched == 64
            || switched == 32 && self.modulus == Modulus::Native && self.order == Order::KsPbs;
        let wanted =
            "a key switch modulo q, or modulo 2^32 where q = 2^64 and the key switch comes first";
        check(word_ok, wanted, || format!("2^{switched}"))?;
        for (name, g, log2) in [("pbs", self.pbs, 64), ("ks", self.ks, switched)] {
            // Digits fit an i32, and the last multiple of q/B^l is at least one grid unit with room to round.
            let digits_ok = (1..=31).contains(&g.base_log) && (1..=63).contains(&g.level);
            let wanted = format!(
                "{name} gadget: base_log in 1..=31, level at least 1, base_log·level below {log2}"
            );
            check(digits_ok && g.base_log * g.level < log2, &wanted, || {
                format!("{} x {}", g.base_log, g.level)
            })?;
        }
        Ok(())
    }

    fn validate_noise(&self) -> Result<()> {
        for (key, noise, log2) in [
            ("small", self.lwe_noise, self.ks_modulus_log2),
            ("big", self.glwe_noise, Modulus::LOG2),
        ] {
            let noise_ok = match noise {
                Noise::Gaussian { std } => (0.0..=0.03125).contains(&std),
                Noise::TUniform { bound_log2 } => bound_log2 <= log2 - 5,
            };
            check(
                noise_ok,
                &format!("noise of the {key} key of at most 1/32 of the torus"),
                || format!("{noise:?}"),
            )?;
        }
        Ok(())
    }

    fn validate_values(&self) -> Result<()> {
        let (message, carry) = (self.message_modulus, self.carry_modulus);
        let powers = message.is_power_of_two() && carry.is_power_of_two();
        check(powers, "message and carry moduli that are powers of two", || {
            format!("{message} and {carry}")
        })?;
        // Both are at most 2^63, so the product fits 128 bits. Two coefficients a value at least: a box has two halves.
        let product = u128::from(message) * u128::from(carry);
        let fits = message >= 2 && product * 2 <= self.table_size() as u128;
        check(
            fits,
            "a message modulus of 2 or more and message·carry at most half the table",
            || format!("{message}·{carry}"),
        )?;
        let norm_ok = (1.0..=1048576.0).contains(&self.max_norm2);
        check(norm_ok, "max_norm2 in 1..=2^20", || format!("{}", self.max_norm2))?;
        let claims_ok =
            (0.0..=1e6).contains(&self.security_bits) && (-1e6..=0.0).contains(&self.log2_pfail);
        let got = || format!("{} bits, 2^{}", self.security_bits, self.log2_pfail);
        check(claims_ok, "finite claims: security_bits >= 0 and log2_pfail <= 0", got)
    }
}

/// `Ok` if `ok`, else a `wrong_params` error.
fn check(ok: bool, wanted: &str, got: impl FnOnce() -> String) -> Result<()> {
    if ok {
        return Ok(());
    }
    Err(Error::wrong_params(
        "validate parameters",
        wanted,
        got(),
        "use a set of the table, or correct the field",
    ))
}
