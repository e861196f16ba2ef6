//! `tables`: look-ups of packed integers, and whole integers on them, beside the batch of TFHE. Every output is checked.
//!
//! Both sides use one thread, by turns, timed by the processor time of the process. A row is milliseconds of one value, of a whole
//! ciphertext of CKKS and of a batch of TFHE. OpenFHE, where it is available, is a process of its own, which begins when ours has no keys any more.

use crate::cases::matches;
use crate::ckks::peers::{openfhe_table, quietly};
use crate::rows::{Clock, Times};
use anyhow::{Context as _, Result, ensure};
use becalm::apps::integer::Type;
use becalm::apps::packed::{DIGIT_BITS, Operation, PACKED_BITS, digits_of, record};
use becalm::backend::{CkksEvaluator, Cpu, Evaluator, Prepared};
use becalm::bootstrap::ckks::{KeyPlan, Wish};
use becalm::cipher::{CkksSecretKey, Lwe, Rlwe, SecretKey};
use becalm::ckks::Context;
use becalm::params::{CkksParams, TfheParams};
use becalm::program::rlwe::CkksProgram;
use becalm::security::{Instance, Secret, claimed, least_bits};
use becalm::tfhe::Table;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::Arc;

/// Ciphertexts in a batch of TFHE.
const BATCH: usize = 256;
/// log2 of the bound on the probability that a value of a whole ciphertext of CKKS is wrong.
const LOG2_PFAIL: f64 = -128.0;

/// How to measure.
pub struct Plan {
    /// Only the cases whose name matches.
    pub pattern: String,
    /// Toys.
    pub toy: bool,
    /// Measured runs of each side.
    pub rounds: usize,
}

/// The work of a case.
#[derive(Clone, Copy)]
enum Work {
    /// So many tables of so many bits.
    Tables(u32, usize),
    /// An operation on whole integers.
    Integers(Operation, u32),
}

/// Names, and the bits of the set.
const CASES: [(&str, u32, Work); 6] = [
    ("tables/4bit", 4, Work::Tables(4, 1)),
    ("tables/second", 4, Work::Tables(4, 2)),
    ("tables/5bit", 5, Work::Tables(5, 1)),
    ("tables/add64", 5, Work::Integers(Operation::Add, 64)),
    ("tables/lt64", 5, Work::Integers(Operation::Lt, 64)),
    ("tables/mul16", 5, Work::Integers(Operation::Mul, 16)),
];

/// OpenFHE's look-ups in one table of 4 bits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenFhe {
    /// Its version.
    pub version: String,
    /// Its setting.
    pub params: String,
    /// log2 of the largest modulus.
    pub log2_modulus: f64,
    /// Security of its secret by the strict estimate, bits; that of the ephemeral one is not stated.
    #[serde(default)]
    pub security_bits: f64,
    /// Seconds of the processor for each look-up of a whole ciphertext.
    pub seconds: Vec<f64>,
    /// Wrong integers.
    pub wrong: usize,
    /// Integers that were checked.
    pub checked: usize,
    /// Bytes of memory of its process at the end.
    pub memory: u64,
}

/// A case measured.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// `"tables/4bit"`.
    pub case: String,
    /// becalm's set of CKKS.
    pub params: String,
    /// Security that it claims, bits.
    pub security_bits: f64,
    /// Bound on the failure probability of a whole ciphertext, log2.
    pub log2_pfail: f64,
    /// Values in a ciphertext.
    pub values: usize,
    /// Look-ups of a ciphertext: each may be in several tables.
    pub lookups: usize,
    /// Milliseconds of a value.
    pub ours: Times,
    /// Bound on the error of a result, log2, in units of the modulus.
    pub log2_error: f64,
    /// Seconds to encode the matrices, once for all tables.
    pub prepare_seconds: f64,
    /// Values that were checked; all are right.
    pub checked: usize,
    /// The peer: a batch of TFHE, one table of 4 bits.
    pub peer: String,
    /// The peer's security, bits.
    pub peer_security_bits: f64,
    /// The peer's failure probability of a value, log2.
    pub peer_log2_pfail: f64,
    /// Milliseconds of one bootstrap of the peer in its batch.
    pub peer_times: Times,
    /// peer/ours of the medians, where both do one table of 4 bits.
    pub ratio: Option<f64>,
    /// OpenFHE, where both do one table of 4 bits.
    pub openfhe: Option<OpenFhe>,
    /// Why there is no OpenFHE.
    pub openfhe_left_out: Option<String>,
    /// OpenFHE/ours of the medians.
    pub openfhe_ratio: Option<f64>,
    /// Threads of each side.
    pub threads: usize,
    /// Where times come from.
    pub clock: Clock,
}

/// Keys of CKKS on one thread.
struct Ours {
    plan: KeyPlan,
    context: Arc<Context>,
    secret: CkksSecretKey,
    server: CkksEvaluator,
    cpu: Cpu,
}

impl Ours {
    fn new(bits: u32, toy: bool) -> Result<Ours> {
        let name =
            if toy { format!("ckks_toy_table_{bits}") } else { format!("ckks_table_{bits}") };
        let plan = KeyPlan::new(CkksParams::named(&name)?, &Wish::default())?;
        let (cpu, context) = (Cpu::new(1)?, Arc::new(Context::new(plan.chain().params(), true)?));
        let secret = context.secret_key()?;
        let keys = Arc::new(Cpu::new(0)?.install(|| context.keys(&secret, &plan.needs()))?);
        let server = CkksEvaluator::new(&cpu, &context, &keys)?;
        Ok(Ours { plan, context, secret, server, cpu })
    }

    fn encrypt(&self, values: &[u64], bits: u32) -> Result<Rlwe> {
        Ok(self.context.encrypt_integers(values, bits, &self.secret)?)
    }

    /// The digits of whole integers.
    fn digits(&self, values: &[u64], bits: u32) -> Result<Vec<Rlwe>> {
        let digit = |i: usize| -> Vec<u64> {
            values.iter().map(|v| v >> (DIGIT_BITS as usize * i) & 15).collect()
        };
        let count = digits_of(Type::Uint(bits))?;
        (0..count).map(|i| self.encrypt(&digit(i), PACKED_BITS)).collect()
    }

    /// The program of a case, its arguments and what each result must decrypt to.
    fn job(&self, work: Work) -> Result<(CkksProgram, Vec<Rlwe>, Vec<Vec<u64>>)> {
        let n = self.context.params().degree();
        match work {
            Work::Tables(bits, count) => {
                let values = values(bits, n, 3);
                let entries = |t: usize| -> Vec<u64> {
                    let p = 1u64 << bits;
                    (0..p).map(|m| (m * m + 5 * m * (t as u64 + 1) + 1) % p).collect()
                };
                let all: Vec<Vec<u64>> = (0..count).map(entries).collect();
                let wanted = all.iter().map(|t| values.iter().map(|v| t[*v as usize]).collect());
                let program = self.plan.tables(bits, &all)?;
                Ok((program, vec![self.encrypt(&values, bits)?], wanted.collect()))
            }
            Work::Integers(operation, bits) => {
                let (a, b) = (values(bits, n, 3), values(bits, n, 4));
                let mask = u64::MAX >> (64 - bits);
                let result = |(a, b): (&u64, &u64)| match operation {
                    Operation::Add => a.wrapping_add(*b) & mask,
                    Operation::Lt => u64::from(a < b),
                    _ => a.wrapping_mul(*b) & mask,
                };
                let results: Vec<u64> = a.iter().zip(&b).map(result).collect();
                let program = record(&self.plan, operation, Type::Uint(bits))?;
                let digit = |i: usize| {
                    results.iter().map(|v| v >> (DIGIT_BITS as usize * i) & 15).collect()
                };
                let wanted = (0..program.outputs().len()).map(digit).collect();
                let inputs = [self.digits(&a, bits)?, self.digits(&b, bits)?].concat();
                Ok((program, inputs, wanted))
            }
        }
    }
}

/// Numbers without structure.
fn values(bits: u32, count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29) & (u64::MAX >> (64 - bits))
    };
    (0..count).map(|_| next()).collect()
}

/// A batch of TFHE on one thread.
struct Tfhe {
    params: &'static TfheParams,
    secret: SecretKey,
    evaluator: Evaluator,
    table: Table,
    x: Lwe,
    values: Vec<u64>,
}

impl Tfhe {
    fn new() -> Result<Tfhe> {
        let params = TfheParams::named("tfhe_2_2")?;
        let secret = SecretKey::generate(params, false)?;
        let keys = Cpu::new(0)?.install(|| secret.evaluation_key())?;
        let evaluator = Evaluator::new(&Cpu::new(1)?, &keys)?;
        let p = params.plaintext_modulus();
        let table = Table::from_fn(params, |m| (m * m + 1) % p)?;
        let values: Vec<u64> = (0..BATCH as u64).map(|i| i * 7 % p).collect();
        let x = secret.encrypt(&values)?;
        Ok(Tfhe { params, secret, evaluator, table, x, values })
    }

    fn run(&self) -> Result<f64> {
        let start = Clock::Cpu.seconds();
        let y = self.evaluator.bootstrap(&self.x, &self.table)?;
        let ms = (Clock::Cpu.seconds() - start) * 1e3 / BATCH as f64;
        let p = self.params.plaintext_modulus();
        let right =
            self.secret.decrypt(&y)?.iter().zip(&self.values).all(|(y, m)| *y == (m * m + 1) % p);
        ensure!(right, "a result of {} is wrong", self.params.name);
        Ok(ms)
    }
}

impl OpenFhe {
    fn run(plan: &Plan) -> Result<OpenFhe> {
        let said = quietly(&mut openfhe_table(plan.toy, plan.rounds)?)?;
        let line = said.lines().last().context("OpenFHE says nothing")?;
        let found: OpenFhe = serde_json::from_str(line)?;
        let n = if plan.toy { 1 << 12 } else { 1 << 16 };
        let secret = Instance {
            n,
            log2_q: found.log2_modulus,
            secret: Secret::Ternary,
            noise_std: 3.2,
            targets: n,
        };
        let security_bits = claimed(least_bits(&[secret])?);
        Ok(OpenFhe { security_bits, ..found })
    }

    /// Milliseconds of an integer.
    fn ms(&self, values: usize) -> f64 {
        Times::of(self.seconds.iter().map(|s| s * 1e3 / values as f64).collect()).median_ms
    }
}

/// Measures every case that matches; `done` is told after each.
///
/// # Errors
/// A result that is wrong.
pub fn run(plan: &Plan, mut done: impl FnMut(&[Row]) -> Result<()>) -> Result<Vec<Row>> {
    let (tfhe, mut rows) = (Tfhe::new()?, vec![]);
    for bits in [4, 5] {
        let mut cases =
            CASES.iter().filter(|c| c.1 == bits && matches(&plan.pattern, c.0)).peekable();
        if cases.peek().is_none() {
            continue;
        }
        // Keys of one set at a time.
        let ours = Ours::new(bits, plan.toy)?;
        for (case, _, work) in cases {
            eprintln!("  {case}");
            rows.push(measured(case, *work, &ours, &tfhe, plan).with_context(|| case.to_string())?);
            done(&rows)?;
        }
    }
    for row in rows.iter_mut().filter(|row| row.case == CASES[0].0) {
        eprintln!("  {} by OpenFHE", row.case);
        match OpenFhe::run(plan) {
            Ok(openfhe) => {
                row.openfhe_ratio = Some(openfhe.ms(row.values) / row.ours.median_ms);
                row.openfhe = Some(openfhe);
            }
            Err(e) => row.openfhe_left_out = Some(format!("{e:#}")),
        }
    }
    done(&rows)?;
    Ok(rows)
}

fn measured(case: &str, work: Work, ours: &Ours, tfhe: &Tfhe, plan: &Plan) -> Result<Row> {
    let (program, inputs, wanted) = ours.job(work)?;
    let (program, inputs) = (Arc::new(program), inputs.iter().collect::<Vec<_>>());
    let start = Clock::Cpu.seconds();
    let ready = ours.cpu.install(|| {
        Prepared::new(&ours.cpu, ours.server.chain(), &program, usize::MAX, &|_, _| true)
    })?;
    let prepare_seconds = Clock::Cpu.seconds() - start;
    let n = ours.context.params().degree();
    let (mut own, mut peer, mut error) = (vec![], vec![], 0f64);
    // Bootstraps of seconds fill the caches by themselves: the first run is measured too.
    for _ in 0..plan.rounds {
        let start = Clock::Cpu.seconds();
        let made = ours.server.run(&ready, &inputs)?;
        own.push((Clock::Cpu.seconds() - start) * 1e3 / n as f64);
        for (y, wanted) in made.iter().zip(&wanted) {
            ensure!(ours.context.decrypt_integers(y, &ours.secret)? == *wanted, "a wrong integer");
            error = error.max(y.account().worst);
        }
        peer.push(tfhe.run()?);
    }
    let (own, peer) = (Times::of(own), Times::of(peer));
    let params = ours.context.params();
    let alike = matches!(work, Work::Tables(4, 1));
    Ok(Row {
        case: case.into(),
        params: params.name.into(),
        security_bits: params.security_bits,
        log2_pfail: LOG2_PFAIL,
        values: n,
        lookups: program.bootstraps(),
        ours: own,
        log2_error: error.log2(),
        prepare_seconds,
        checked: plan.rounds * n * wanted.len(),
        peer: tfhe.params.name.into(),
        peer_security_bits: tfhe.params.security_bits,
        peer_log2_pfail: tfhe.params.log2_pfail,
        peer_times: peer,
        ratio: alike.then(|| peer.median_ms / own.median_ms),
        openfhe: None,
        openfhe_left_out: None,
        openfhe_ratio: None,
        threads: 1,
        clock: Clock::Cpu,
    })
}

/// The rows as a table for people.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:14} {:16} {:>8} {:>10} {:>10} {:>9} {:>12} {:>7}\n",
        "case", "set", "values", "look-ups", "ms each", "security", "tfhe_2_2, ms", "ratio"
    );
    for r in rows {
        let ratio = r.ratio.map_or(String::new(), |ratio| format!("{ratio:.1}"));
        let _ = writeln!(
            text,
            "{:14} {:16} {:>8} {:>10} {:>10.4} {:>9.1} {:>12.3} {ratio:>7}",
            r.case,
            r.params,
            r.values,
            r.lookups,
            r.ours.median_ms,
            r.security_bits,
            r.peer_times.median_ms
        );
        if let (Some(openfhe), Some(ratio)) = (&r.openfhe, r.openfhe_ratio) {
            let OpenFhe { version, params, security_bits, wrong, checked, .. } = openfhe;
            let _ = writeln!(
                text,
                "  OpenFHE {version}, {params}: {:.4} ms each, ratio {ratio:.1}, {security_bits:.1} bits, {wrong} of {checked} wrong",
                openfhe.ms(r.values)
            );
        }
        if let Some(why) = &r.openfhe_left_out {
            let _ = writeln!(text, "  OpenFHE left out: {why}");
        }
    }
    text
}
