//! `variants`: each bootstrap beyond the classic one beside what it is to beat, one file of cases for each family.
//!
//! A row says what the time is worth: security and failure probability of both sides are computed here and now from the
//! parameters (strict search; noise formulas), never copied from their claims.

mod common_mask;
mod extended;
mod fast;
mod multi_bit;

use crate::cases::Work;
use crate::peer_tfhe::VERSION;
use crate::rows::{Clock, Effort, Side, Times, interleave};
use crate::{ours, peer_tfhe};
use anyhow::{Context, Result};
use becalm::math::buffer::Buffer;
use becalm::math::simd::Level;
use becalm::params::TfheParams;
use becalm::tfhe::noise::NoiseReport;
use serde::Serialize;
use std::fmt::Write as _;

/// One comparison.
pub struct Case {
    /// Its name; begins with the family: `"extended/6_bits/pbs"`.
    pub name: String,
    /// Whether it takes gigabytes, and so runs only with `--all`.
    pub large: bool,
    /// The variant.
    pub ours: Contender,
    /// The variant that it is compared with.
    pub other: Contender,
}

/// One side of a comparison before its keys are made.
pub struct Contender {
    /// The library that runs: `"becalm"`, `"tfhe 1.8.2"`.
    pub who: String,
    /// The whole set.
    pub params: TfheParams,
    /// Milliseconds of the set for each one measured: 1, or n/n' where the measured key is a shortened one of n' bits.
    pub scale: f64,
    /// Makes keys and inputs.
    pub prepare: Box<dyn Fn() -> Result<Side>>,
}

impl Contender {
    /// becalm at a set of the table.
    ///
    /// # Panics
    /// If the table has no such set; a test names every case.
    pub fn ours(params: &str, work: Work) -> Contender {
        Contender::becalm(named(params), work)
    }

    /// becalm at any set.
    fn becalm(params: TfheParams, work: Work) -> Contender {
        let prepare = |work, p: &TfheParams| ours::prepare(work, p, &mut None);
        Contender::of("becalm".into(), params, work, 1.0, prepare)
    }

    /// The crate `tfhe` at the same numbers.
    ///
    /// # Panics
    /// If the table has no such set.
    pub fn peer(params: &str, work: Work) -> Contender {
        let who = format!("tfhe {}", VERSION);
        Contender::of(who, named(params), work, 1.0, peer)
    }

    /// The crate `tfhe` with a key of `n` bits of the set's, for sets whose keys are too large to make: a blind rotation's
    /// time is proportional to the bits, so a bootstrap's (without key switch) is n times that of one bit.
    ///
    /// # Panics
    /// If the table has no such set.
    pub fn peer_shortened(params: &str, n: usize, work: Work) -> Contender {
        let whole = named(params);
        let short = TfheParams { lwe_dimension: n, ..whole.clone() };
        let scale = whole.lwe_dimension as f64 / n as f64;
        let who = format!("tfhe {}, {n} of {} key bits", VERSION, whole.lwe_dimension);
        Contender { params: whole, ..Contender::of(who, short, work, scale, peer) }
    }

    fn of(
        who: String,
        params: TfheParams,
        work: Work,
        scale: f64,
        prepare: fn(Work, &TfheParams) -> Result<Side>,
    ) -> Contender {
        let set = params.clone();
        Contender { who, params, scale, prepare: Box::new(move || prepare(work, &set)) }
    }
}

fn peer(work: Work, params: &TfheParams) -> Result<Side> {
    peer_tfhe::prepare(work, params, &mut None)
}

fn named(params: &str) -> TfheParams {
    TfheParams::named(params).expect("a set of the table").clone()
}

/// Bytes of both keys of a set, as they are read.
fn key_bytes(params: &TfheParams) -> u64 {
    params.bootstrap_key_bytes() + params.key_switch_key_bytes()
}

/// Every family's cases.
pub fn cases() -> Vec<Case> {
    [multi_bit::cases(), fast::cases(), common_mask::cases(), extended::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// One side of a row.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The library.
    pub who: String,
    /// Name of the set.
    pub params: String,
    /// Median, milliseconds per ciphertext (or message), scaled if the key was shortened.
    pub ms: f64,
    /// As measured.
    pub times: Times,
    /// The scale.
    pub scale: f64,
    /// Bits by the strict search, computed for this row.
    pub security_bits: f64,
    /// log2 of the failure probability of one slot by the formulas, computed for this row.
    pub log2_pfail: f64,
    /// Bytes of both keys in memory, those of the whole set.
    pub key_bytes: u64,
    /// Milliseconds of reading as many bytes as the bootstrapping key has once, in plain order, after the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ms: Option<f64>,
    /// Outputs decrypted and compared.
    pub checked: usize,
}

/// The result of one case.
#[derive(Debug, Clone, Serialize)]
pub struct VariantRow {
    /// The case.
    pub case: String,
    /// other/ours of the medians.
    pub ratio: f64,
    /// The variant.
    pub ours: Entry,
    /// The variant that it is compared with.
    pub other: Entry,
    /// becalm's vector instructions.
    pub simd: String,
}

/// Most bytes that are read beside a bootstrap.
const MOST_READ: u64 = 2 << 30;

/// The median time of reading `bytes` bytes in plain order, if there is memory for that.
fn sequential_read_ms(bytes: u64) -> Option<f64> {
    let len = usize::try_from(bytes.min(MOST_READ) / 8).ok().filter(|_| bytes <= MOST_READ)?;
    let mut memory = Buffer::<u64>::new(len).ok()?;
    memory.as_mut_slice().fill(1);
    let once = || {
        let start = Clock::Cpu.seconds();
        std::hint::black_box(memory.as_slice().iter().fold(0u64, |sum, x| sum.wrapping_add(*x)));
        (Clock::Cpu.seconds() - start) * 1e3
    };
    Some(Times::of((0..5).map(|_| once()).collect()).median_ms)
}

impl Case {
    /// Bytes that both sides take while their keys are made, about: each key in two forms.
    pub fn memory(&self) -> u64 {
        let bytes = |c: &Contender| 2.0 * key_bytes(&c.params) as f64 / c.scale;
        (bytes(&self.ours) + bytes(&self.other)) as u64
    }

    /// Measures both sides by turns, every output checked.
    ///
    /// # Errors
    /// If keys cannot be made or an output is wrong.
    pub fn measure(&self, effort: Effort) -> Result<VariantRow> {
        let prepare = |c: &Contender| (c.prepare)().with_context(|| c.who.clone());
        let mut sides = [prepare(&self.ours)?, prepare(&self.other)?];
        let times = interleave(&mut sides, Clock::Cpu, effort)?;
        let ours = self.ours.entry(times[0], sides[0].timed.units())?;
        let other = self.other.entry(times[1], sides[1].timed.units())?;
        Ok(VariantRow {
            case: self.name.clone(),
            ratio: other.ms / ours.ms,
            ours,
            other,
            simd: Level::best().name().into(),
        })
    }
}

impl Contender {
    fn entry(&self, times: Times, units: usize) -> Result<Entry> {
        let p = &self.params;
        Ok(Entry {
            who: self.who.clone(),
            params: p.name.to_string(),
            ms: times.median_ms * self.scale,
            times,
            scale: self.scale,
            security_bits: becalm::security::claimed(p.estimated_bits()?),
            log2_pfail: NoiseReport::of(p).log2_pfail,
            key_bytes: key_bytes(p),
            read_ms: sequential_read_ms(p.bootstrap_key_bytes()),
            // One run before the rounds, and one in each.
            checked: units * (times.rounds + 1),
        })
    }
}

/// The rows as a table to read: two lines each.
pub fn table(rows: &[VariantRow]) -> String {
    let mut text = format!(
        "{:<36} {:<28} {:>10} {:>7} {:>6} {:>8} {:>9} {:>8} {:>7}  {}\n",
        "case", "set", "ms", "ratio", "bits", "log2 p", "keys MB", "read ms", "checked", "code"
    );
    for row in rows {
        for (i, e) in [&row.ours, &row.other].into_iter().enumerate() {
            let (case, ratio) = match i {
                0 => (row.case.as_str(), format!("{:.2}", row.ratio)),
                _ => ("", String::new()),
            };
            let _ = writeln!(
                text,
                "{case:<36} {:<28} {:>10.3} {ratio:>7} {:>6.1} {:>8.1} {:>9.1} {:>8} {:>7}  {}",
                e.params,
                e.ms,
                e.security_bits,
                e.log2_pfail,
                e.key_bytes as f64 / 1e6,
                e.read_ms.map_or("-".into(), |ms| format!("{ms:.2}")),
                e.checked,
                e.who
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_sets_and_its_own_name() {
        let cases = cases();
        for (i, case) in cases.iter().enumerate() {
            assert!(case.name.contains('/'), "{}", case.name);
            assert!(cases[..i].iter().all(|other| other.name != case.name), "{} twice", case.name);
        }
    }
}
