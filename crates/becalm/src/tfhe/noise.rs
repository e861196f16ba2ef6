//! How large the noise gets, and how often it wins.
//!
//! All variances are in torus units (q = 1). With B = 2^base_log, ℓ digits, binary secrets, u = 2^-64 the grid:
//!   key switch      V_ks = ℓ·kN·V_ksk·(B²+2)/12 + kN·(B^(−2ℓ)/24 + u²/48) + (u'² − u²)/12
//!   blind rotation  V_br = n·(F + ℓN(k+w)·V_bsk·(B²+2)/12 + (1 + kN/2)·B^(−2ℓ)/24 + (kN/4 − 1)·u²/24)
//!   modulus switch  V_ms = n·((2N)^-2/48 + u'²/24), centred
//! (for rotations that take the key in groups: [`BlindRotation::grouped`], [`modulus_switch`])
//! and the phase before a table is V = ν²·V_br + V_ks + V_ms (key switch first) or ν²·(V_br + V_ks) + V_ms (last), so
//! log2 p_fail = log2 erfc(1/(4p·√(2V))) for p plaintext values; behind a common mask that is for each of the w slots.
//! Each function derives its own terms.
//! Source: Chillotti, Gama, Georgieva, Izabachène, "TFHE" (J. Cryptology 2020); the FFT term is the fit of tfhe-rs.

use crate::cipher::{Encoding, slot_gadget};
use crate::math::Modulus;
pub use crate::math::statistics::log2_erfc;
use crate::params::{Gadget, ModulusSwitch, Noise, Order, Rotation, TfheParams, rounding_law};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// log2 of the grid on which masks and bodies lie, for both moduli (p is 2^64 to within 2^-32, and lifting a residue
/// to the 2^64 grid errs by less than 2^-62 of the torus).
const GRID_LOG2: u32 = Modulus::LOG2;

/// 2^(−2·log2): the square of a grid step.
fn step2(log2: u32) -> f64 {
    (-2.0 * f64::from(log2)).exp2()
}

/// E[d²] of a balanced digit in −B/2 .. B/2 of a uniform value: (B² − 1)/12 of spread and 1/4 of mean. The most
/// significant digit may be +B/2 where another would be −B/2; its square is the same.
fn digit_square(gadget: Gadget) -> f64 {
    ((2.0 * f64::from(gadget.base_log)).exp2() + 2.0) / 12.0
}

/// B^(−2ℓ): the square of the smallest gadget step.
fn gadget_step2(gadget: Gadget) -> f64 {
    (-2.0 * f64::from(gadget.base_log) * f64::from(gadget.level)).exp2()
}

/// Variance that rounding to the gadget adds to ⟨a, s⟩, for one key coefficient that is 1 with probability ρ. The error is
/// uniform on the grid points of one gadget step, ends −w/2 .. w/2 − 1: variance (B^(−2ℓ) − u²)/12, mean −u/2. Times s,
/// E[s²] = ρ and Var s = ρ − ρ²: ρ·(B^(−2ℓ) − u²)/12 + (ρ − ρ²)·u²/4, for ρ = 1/2 B^(−2ℓ)/24 + u²/48.
fn rounding_under_key(gadget: Gadget, density: f64) -> f64 {
    let grid2 = step2(GRID_LOG2);
    density * (gadget_step2(gadget) - grid2) / 12.0 + (density - density * density) * grid2 / 4.0
}

/// Variance of a fresh encryption: that of its noise, under a modulus of 2^`modulus_log2`.
pub fn fresh(noise: Noise, modulus_log2: u32) -> f64 {
    noise.variance(modulus_log2)
}

/// Variance that a key switch adds, from dimension `input_dimension` under q to any dimension under
/// 2^`output_modulus_log2`: the noise of ℓ key rows a coefficient times a digit, the rounding of the mask to the gadget,
/// and the rounding of the body to the new modulus.
pub fn key_switch(
    input_dimension: usize,
    key_variance: f64,
    gadget: Gadget,
    output_modulus_log2: u32,
) -> f64 {
    let rows = input_dimension as f64 * f64::from(gadget.level);
    let body = (step2(output_modulus_log2) - step2(GRID_LOG2)) / 12.0;
    rows * key_variance * digit_square(gadget)
        + input_dimension as f64 * rounding_under_key(gadget, 0.5)
        + body
}

/// Variance that packing adds to each slot: the key noise of w·kN rows, and the mask rounding of the slot's own input.
pub fn pack(p: &TfheParams) -> f64 {
    let (gadget, dimension) = (slot_gadget(p), p.big_dimension() as f64);
    let rows = p.slots as f64 * dimension * f64::from(gadget.level);
    rows * p.glwe_variance() * digit_square(gadget) + dimension * rounding_under_key(gadget, 0.5)
}

/// Variance that a private map between slots adds to each slot, for rows of the map of 1-norm at most `norm`: the key noise
/// of kN + w rows, and the rounding of mask and bodies to the gadget, met by coefficients of at most that norm.
pub fn slot_map(p: &TfheParams, norm: f64) -> f64 {
    let gadget = slot_gadget(p);
    let rows = (p.big_dimension() + p.slots) as f64 * f64::from(gadget.level);
    let mask = p.big_dimension() as f64 * rounding_under_key(gadget, 0.5);
    let body = gadget_step2(gadget) / 12.0;
    rows * p.glwe_variance() * digit_square(gadget) + norm * norm * (mask + body)
}

/// Variance of rounding the mask elements that a shared key leaves alone to the modulus after the key switch: as a body
/// is rounded, where the key is 1.
fn shared_rounding(p: &TfheParams) -> f64 {
    let step = (step2(p.ks_modulus_log2) - step2(GRID_LOG2)) / 12.0;
    p.shared_dimension() as f64 * p.rotation.key_density() * step
}

/// Variance that rounding to Z_2N adds to the phase, from a modulus of 2^`modulus_log2`, of a rotation that takes the key
/// in groups of M equally likely values.
///
/// The exponent of each value but 0 errs by e: uniform on the grid points of one cell, ends −w/2 + u .. w/2, so that
/// `E[e²]` = w²/12 + u²/6 and `E[e]` = u/2. Errors of two values are independent.
/// Plain: e counts when the group is not 0, probability 1 − 1/M; the body adds a cell of its own. Boxes being half-open,
/// rounding the body to nearest also moves one border half a cell nearer and the other farther; that is not a variance and
/// not counted here.
/// Centred: the body is moved by the mean of the M errors, so e less that mean counts: `E[e²]` times (1 − 1/M)², and
/// (M − 1)(M − 2)/M² of the square of `E[e]` less. The body is also moved by half a cell down before it is rounded to
/// nearest, that is, it is cut off. Whether a phase lies in a box whose ends are multiples of the cell is not changed by
/// cutting off, so the body adds nothing. Without that half cell the body would add (2N)^-2/12 and, the boxes being
/// half-open, a bias of half a cell.
/// Companion: centred with the mean square error of its rounding in place of 1/12, one bit a group. `polynomial_size` is
/// that of the table: 2^η·N for an extended rotation.
pub fn modulus_switch(
    n: usize,
    polynomial_size: usize,
    (rotation, kind): (Rotation, ModulusSwitch),
    modulus_log2: u32,
) -> f64 {
    let cell2 = (2.0 * polynomial_size as f64).powi(-2);
    let grid2 = step2(modulus_log2);
    let groups = n as f64 / rotation.group_bits() as f64;
    let zero = 1.0 / (rotation.group_ggsws() as f64 + 1.0);
    let (square, mean2) = (cell2 / 12.0 + grid2 / 6.0, grid2 / 4.0);
    let active = 1.0 - zero;
    match kind {
        ModulusSwitch::Plain => {
            groups * active * (square - active * mean2) + (cell2 - grid2) / 12.0
        }
        ModulusSwitch::Centered => groups * active * (active * square - (1.0 - 2.0 * zero) * mean2),
        ModulusSwitch::Companion { coarsest_log2, weight } => {
            let square = rounding_law(coarsest_log2, Some(weight)).square;
            n as f64 * (cell2 * square / 4.0 + grid2 / 24.0)
        }
    }
}

/// A blind rotation, as far as its noise depends on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlindRotation {
    /// n, the number of key bits.
    pub lwe_dimension: usize,
    /// k.
    pub glwe_dimension: usize,
    /// w: bodies behind the mask, each a slot.
    pub bodies: usize,
    /// N.
    pub polynomial_size: usize,
    /// Gadget of the bootstrapping key.
    pub gadget: Gadget,
    /// V_bsk, the variance of one coefficient of the bootstrapping key.
    pub key_variance: f64,
    /// Decides how polynomials are multiplied: f64 FFT modulo 2^64, exact modulo p.
    pub modulus: Modulus,
}

/// The variance of a blind rotation by cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RotationNoise {
    /// Rounding in the f64 FFT; 0 modulo p.
    pub fft: f64,
    /// Noise of the bootstrapping key times the digits of the accumulator.
    pub external_product: f64,
    /// Rounding of the accumulator to the gadget.
    pub decomposition: f64,
}

impl RotationNoise {
    /// V_br.
    pub fn total(&self) -> f64 {
        self.fft + self.external_product + self.decomposition
    }
}

/// c, a, x, y of the FFT term F = c·2^(2(64 − 53))·B²·u²·ℓ^a·k^x·N^y·(k+w)^a of one external product: f64 rounding is
/// 2^-53 of products of size B/√12 by 1/√12 summed over ℓ(k+w)N terms, and the mask's part of it meets kN/2 key
/// coefficients. Exponents and constant are tfhe-rs's fits of measurements, classic and by grouping factor.
/// Our classic rotation makes 0.6 to 0.95 of that error on a CPU, by level and set (`tests/fft_noise.rs`), and 0.64 to 0.89 on a GPU
/// (`fft_noise.rs` of `becalm-cuda`). The term stays an upper bound for every machine.
const FFT_FITS: [(u32, [f64; 4]); 4] = [
    (1, [0.00705, 1.01827, 1.22003, 2.22003]),
    (2, [0.0022, 1.04148, 1.94548, 2.94548]),
    (3, [0.00492, 1.0111, 1.90722, 2.90722]),
    (4, [0.00855, 1.00715, 1.90759, 2.90759]),
];

/// The first step of a rotation by groups, in steps of FFT error, over N. A table is smooth: its spectrum stands in few
/// points, there the error of the first products is, and there the spectrum of the key is too, whose coefficients have mean
/// 1/2. Measured at 0.013 to 0.036 (`tests/noise_measured.rs`, where the first step is one of twelve): an upper bound.
const SMOOTH_TABLE: f64 = 1.0 / 24.0;

impl BlindRotation {
    /// The blind rotation of a set.
    pub fn of(p: &TfheParams) -> Self {
        BlindRotation {
            lwe_dimension: p.lwe_dimension,
            glwe_dimension: p.glwe_dimension,
            bodies: p.slots,
            polynomial_size: p.polynomial_size,
            gadget: p.pbs,
            key_variance: p.glwe_variance(),
            modulus: p.modulus,
        }
    }

    /// Variance of one f64 FFT external product by a GGSW; 0 modulo p. A grouping factor without a fit has no FFT term
    /// that is known: NaN.
    fn fft_error(&self, grouping: u32) -> f64 {
        if self.modulus == Modulus::Goldilocks {
            return 0.0;
        }
        let Some((_, [c, a, x, y])) = FFT_FITS.iter().find(|(g, _)| *g == grouping) else {
            return f64::NAN;
        };
        let (k, degree, level) =
            (self.glwe_dimension as f64, self.polynomial_size as f64, f64::from(self.gadget.level));
        let rounding = (2.0 * (f64::from(GRID_LOG2) - 53.0)).exp2();
        let digits = (2.0 * f64::from(self.gadget.base_log)).exp2() * step2(GRID_LOG2);
        let columns = k + self.bodies as f64;
        c * rounding * digits * (level * columns).powf(*a) * k.powf(*x) * degree.powf(*y)
    }

    /// ℓN(k+w)·V_bsk·E[d²]: key noise in one external product, in the phase of one slot.
    fn key_error(&self) -> f64 {
        let rows = (self.glwe_dimension + self.bodies) as f64 * f64::from(self.gadget.level);
        rows * self.polynomial_size as f64 * self.key_variance * digit_square(self.gadget)
    }

    /// Rounding of a GLWE to the gadget, in its phase: the body's own (less the grid's, which it has lost) and kN mask
    /// coefficients under the key.
    fn rounding_error(&self) -> f64 {
        let mask = self.glwe_dimension as f64
            * self.polynomial_size as f64
            * rounding_under_key(self.gadget, 0.5);
        (gadget_step2(self.gadget) - step2(GRID_LOG2)) / 12.0 + mask
    }

    /// One step, ACC + GGSW(s_i)·((X^a − 1)·ACC), n times. Rounding errors survive where s_i = 1: half of them.
    pub fn classic(&self) -> RotationNoise {
        let n = self.lwe_dimension as f64;
        RotationNoise {
            fft: n * self.fft_error(1),
            external_product: n * self.key_error(),
            decomposition: n * self.rounding_error() / 2.0,
        }
    }

    /// One step for a group of g key bits by a bundle of m GGSW, n/g times: the rounded accumulator, and its digits times
    /// Σ_j (X^(a_j) − 1)·GGSW_j. (X^a − 1)·e has twice the variance of e for uniform a, so key noise counts 2m times; and so
    /// does the FFT error, which is in proportion to the bundle: of this `tests/fft_noise.rs` measures 0.73 to 1.03. Rounding
    /// takes its part off the accumulator before the step, and once, whatever the bits.
    pub fn grouped(&self, rotation: Rotation) -> RotationNoise {
        let steps = self.lwe_dimension as f64 / rotation.group_bits() as f64;
        let terms = 2.0 * rotation.group_ggsws() as f64;
        RotationNoise {
            fft: (steps + SMOOTH_TABLE * self.polynomial_size as f64) * terms * self.fft_error(1),
            external_product: steps * terms * self.key_error(),
            decomposition: steps * self.rounding_error(),
        }
    }

    /// The rotation of a set.
    pub fn noise(&self, rotation: Rotation) -> RotationNoise {
        match rotation {
            Rotation::Classic | Rotation::Extended { .. } => self.classic(),
            Rotation::MultiBit { .. } | Rotation::Block { .. } => self.grouped(rotation),
        }
    }

    /// The FFT error of TFHE-rs's kernels in one step for `grouping` key bits (2, 3 or 4), n/g times: a GGSW that is the sum
    /// of 2^g, times the whole accumulator. With it the published failure probabilities come out.
    pub fn multi_bit_of_tfhe_rs(&self, grouping: u32) -> RotationNoise {
        let steps = self.lwe_dimension as f64 / f64::from(grouping);
        RotationNoise {
            fft: steps * self.fft_error(grouping),
            external_product: steps * f64::from(grouping).exp2() * self.key_error(),
            decomposition: steps * self.rounding_error(),
        }
    }
}

/// The blind rotation of a set. Where the big key begins with a small one of fewer ones than half, rounding the mask there
/// counts less.
pub fn blind_rotation(p: &TfheParams) -> RotationNoise {
    let mut noise = BlindRotation::of(p).noise(p.rotation);
    let steps = (p.lwe_dimension / p.rotation.group_bits()) as f64;
    let sparse = rounding_under_key(p.pbs, p.rotation.key_density());
    let less = rounding_under_key(p.pbs, 0.5) - sparse;
    noise.decomposition -= steps * p.shared_dimension() as f64 * less;
    noise
}

/// Variance of the phase that the table sees, from that of one bootstrap output's blind rotation, the key switch and the
/// modulus switch, after a linear combination of 2-norm ν: the worst that a set allows.
pub fn decision(
    order: Order,
    norm2: f64,
    blind_rotation: f64,
    key_switch: f64,
    modulus_switch: f64,
) -> f64 {
    let norm = norm2 * norm2;
    match order {
        Order::KsPbs => norm * blind_rotation + key_switch + modulus_switch,
        Order::PbsKs => norm * (blind_rotation + key_switch) + modulus_switch,
    }
}

/// log2 of the probability that a centred Gaussian of this variance leaves ±1/(4p): half the distance between two of the
/// p plaintext values with a bit of padding above them.
pub fn log2_pfail(variance: f64, plaintext_modulus: u64) -> f64 {
    log2_erfc(1.0 / (4.0 * plaintext_modulus as f64) / (2.0 * variance).sqrt())
}

/// The parts of a set's noise at its bound ν, and their consequences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseReport {
    /// Variance of a fresh ciphertext at rest.
    pub fresh: f64,
    /// V_br, by cause.
    pub blind_rotation: RotationNoise,
    /// V_ks.
    pub key_switch: f64,
    /// V_ms.
    pub modulus_switch: f64,
    /// ν.
    pub norm2: f64,
    /// Variance of the phase that the table sees.
    pub total: f64,
    /// log2 of the probability that the table takes a wrong value, in one slot.
    pub log2_pfail: f64,
    /// w, the slots of a ciphertext.
    pub slots: usize,
}

impl NoiseReport {
    /// log2 of the probability that any slot of a ciphertext takes a wrong value, at most: the union bound.
    pub fn log2_pfail_of_any_slot(&self) -> f64 {
        self.log2_pfail + (self.slots as f64).log2()
    }

    /// The noise of a set.
    pub fn of(p: &TfheParams) -> Self {
        let blind_rotation = blind_rotation(p);
        let key_switch =
            key_switch(p.switched_dimension(), p.lwe_variance(), p.ks, p.ks_modulus_log2)
                + shared_rounding(p);
        let modulus_switch = modulus_switch(
            p.lwe_dimension,
            p.table_size(),
            (p.rotation, p.modulus_switch),
            p.ks_modulus_log2,
        );
        let total =
            decision(p.order, p.max_norm2, blind_rotation.total(), key_switch, modulus_switch);
        NoiseReport {
            fresh: match p.order {
                Order::KsPbs => fresh(p.glwe_noise, GRID_LOG2),
                Order::PbsKs => fresh(p.lwe_noise, p.ks_modulus_log2),
            },
            blind_rotation,
            key_switch,
            modulus_switch,
            norm2: p.max_norm2,
            total,
            log2_pfail: log2_pfail(total, p.plaintext_modulus()),
            slots: p.slots,
        }
    }
}

impl fmt::Display for NoiseReport {
    /// One line a cause: log2 of the standard deviation, and log2 of the probability.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let std = |variance: f64| {
            if variance > 0.0 { format!("2^{:.2}", variance.log2() / 2.0) } else { "0".into() }
        };
        writeln!(f, "standard deviations, in fractions of the torus")?;
        writeln!(f, "  fresh ciphertext   {}", std(self.fresh))?;
        let r = &self.blind_rotation;
        writeln!(f, "  blind rotation     {}", std(r.total()))?;
        writeln!(f, "    FFT              {}", std(r.fft))?;
        writeln!(f, "    key noise        {}", std(r.external_product))?;
        writeln!(f, "    gadget rounding  {}", std(r.decomposition))?;
        writeln!(f, "  key switch         {}", std(self.key_switch))?;
        writeln!(f, "  modulus switch     {}", std(self.modulus_switch))?;
        writeln!(
            f,
            "  at the table       {}   (linear combinations of 2-norm {})",
            std(self.total),
            self.norm2
        )?;
        write!(f, "failure probability  2^{:.3}", self.log2_pfail)?;
        if self.slots > 1 {
            let any = self.log2_pfail_of_any_slot();
            write!(f, " per slot, 2^{any:.3} for any of {} slots", self.slots)?;
        }
        Ok(())
    }
}

/// Variance of the ciphertext that a bootstrap returns at rest: V_br, plus V_ks if the key switch comes last.
pub fn bootstrap_output(p: &TfheParams) -> f64 {
    let report = NoiseReport::of(p);
    match p.order {
        Order::KsPbs => report.blind_rotation.total(),
        Order::PbsKs => report.blind_rotation.total() + report.key_switch,
    }
}

/// Largest variance of a ciphertext at rest that a bootstrap takes: ν² bootstrap outputs.
pub fn bound(p: &TfheParams) -> f64 {
    p.max_norm2 * p.max_norm2 * bootstrap_output(p)
}

/// log2 of the probability that the bootstrap of a ciphertext at rest of this variance fails.
pub fn pfail_at(p: &TfheParams, input_variance: f64) -> f64 {
    let report = NoiseReport::of(p);
    let before = match p.order {
        Order::KsPbs => report.key_switch + report.modulus_switch,
        Order::PbsKs => report.modulus_switch,
    };
    log2_pfail(input_variance + before, p.plaintext_modulus())
}

/// Refuses noise of a variance under which a value would be wrong more often than the set claims of a bootstrap.
pub(crate) fn require_decodable(
    op: &'static str,
    p: &TfheParams,
    encoding: Encoding,
    variance: f64,
) -> Result<()> {
    let fail = log2_erfc(encoding.margin() / (2.0 * variance).sqrt());
    if fail <= p.log2_pfail + CLAIM_TOLERANCE {
        return Ok(());
    }
    let wanted = format!("a wrong value with probability of at most 2^{:.1}", p.log2_pfail);
    let got = format!("2^{fail:.1} at noise 2^{:.2}", variance.sqrt().log2());
    let remedy = "bootstrap before the noise outgrows the encoding; `phases` shows what is there";
    Err(Error::too_noisy(op, wanted, got, remedy))
}

/// How far a claim of log2 p_fail may lie from the formulas: claims are written to three decimals.
pub const CLAIM_TOLERANCE: f64 = 0.005;

/// Checks the claimed failure probability of a set against the formulas.
///
/// # Errors
/// `wrong_params` if the claim is better than the noise allows.
pub fn check_claim(p: &TfheParams) -> Result<()> {
    let found = NoiseReport::of(p).log2_pfail;
    if found <= p.log2_pfail + CLAIM_TOLERANCE {
        return Ok(());
    }
    Err(Error::wrong_params(
        "check parameters",
        format!("a failure probability of 2^{:.3}, as `{}` claims", p.log2_pfail, p.name),
        format!("2^{found:.3}"),
        "correct the claim, or lower the noise, the plaintext modulus or max_norm2",
    ))
}
