//! `becalm run --app uint64 | aes`: an application from keys to checked results; the cost of each operation is printed before it
//! runs.

use crate::report::{self, facts, keygen, peak_memory, table};
use crate::signals::unless_stopped;
use anyhow::{Result, bail};
use becalm::apps::aes::{Aes, clear_bytes, ctr_blocks, decrypt_bytes, encrypt_bytes};
use becalm::apps::integer::{Clear, Forms, Integers, Operation, Recorded, Type};
use becalm::apps::{Aim, Arguments};
use becalm::backend::{Backend, Cpu, Evaluator};
use becalm::cipher::{Ciphertext, Lwe, SecretKey};
use becalm::params::TfheParams;
use becalm::program::{Cost, Pace, Program};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Two numbers, neither of which is short.
const NUMBERS: [u64; 2] = [0xd1b5_4a32_d192_ed03, 0x0000_0003_9e37_79b9];

/// FIPS 197, appendix C.1: key, block, encrypted block.
const AES: [u128; 3] = [
    0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f,
    0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
    0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a,
];

/// SP 800-38A, F.5.1: key, first counter, ciphertext, plaintext.
const CTR: [u128; 4] = [
    0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c,
    0xf0f1_f2f3_f4f5_f6f7_f8f9_fafb_fcfd_feff,
    0x874d_6191_b620_e326_1bef_6864_990d_b6ce,
    0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a,
];

/// One operation: its cost and whether it was right.
#[derive(Serialize)]
struct Operated {
    operation: String,
    bootstraps: usize,
    depth: usize,
    waves: usize,
    seconds: f64,
    right: bool,
}

/// The findings of a run.
#[derive(Serialize)]
struct Report {
    app: String,
    params: String,
    device: String,
    keygen_seconds: f64,
    operations: Vec<Operated>,
    peak_memory_bytes: Option<u64>,
}

/// Keys and where they work.
struct Bench {
    secret: SecretKey,
    evaluator: Evaluator,
}

/// Runs an application.
pub fn run(
    app: &str,
    params: &TfheParams,
    (cpu, machine): &(Cpu, Arc<dyn Backend>),
    allow_insecure: bool,
    json: bool,
) -> Result<()> {
    let started = Instant::now();
    let secret = SecretKey::generate(params, allow_insecure)?;
    // Refused before the keys are made.
    let jobs = if app == "aes" { aes(params)? } else { operations(params)? };
    if !json {
        announce(&jobs)?;
    }
    let keys = cpu.install(|| keygen(&secret))?;
    let bench = Bench { evaluator: Evaluator::new(machine.as_ref(), &keys)?, secret };
    let keygen_seconds = started.elapsed().as_secs_f64();
    let device = report::machine(&bench.evaluator.info());
    let operations = jobs.iter().map(|job| bench.run(job)).collect::<Result<_>>()?;
    let report = Report {
        app: app.into(),
        params: params.name.to_string(),
        device,
        keygen_seconds,
        operations,
        peak_memory_bytes: peak_memory(),
    };
    if json {
        report::json(&report)?
    } else {
        print(&report)?
    }
    match report.operations.iter().filter(|o| !o.right).count() {
        0 => Ok(()),
        wrong => bail!("{wrong} of {} results are wrong", report.operations.len()),
    }
}

/// An operation, recorded.
struct Job {
    name: &'static str,
    what: What,
}

/// A circuit, and its expected results.
enum What {
    Integers(Forms, u64),
    Ecb(Aes),
    /// Data that arrives encrypted by AES becomes integers.
    Ctr(Aes),
}

impl Job {
    /// The program for a machine of this pace.
    fn program(&self, pace: &Pace) -> Result<&Arc<Program>> {
        Ok(match &self.what {
            What::Integers(forms, _) => {
                forms.quickest(pace, 1, Arguments::Any, &unless_stopped)?.program()
            }
            What::Ecb(aes) | What::Ctr(aes) => aes.program(),
        })
    }
}

/// The operations on [`NUMBERS`], with their results.
fn operations(params: &TfheParams) -> Result<Vec<Job>> {
    let ([a, b], ty) = (NUMBERS, Type::Uint(64));
    let wanted = [
        ("add", a.wrapping_add(b)),
        ("gt", u64::from(a > b)),
        ("select", a),
        ("and", a & b),
        ("mul", a.wrapping_mul(b)),
        ("div", a / b),
    ];
    let params = Arc::new(params.clone());
    let record = |(name, wanted)| {
        let types = if name == "select" { vec![Type::Bool, ty, ty] } else { vec![ty; 2] };
        let (operation, params) = (Operation::named(name)?, params.clone());
        let forms = Forms::new(params, move |circuit| operation.on(circuit, &types));
        // Refused here if at all.
        forms.of(Aim::Work, Arguments::Any, &unless_stopped)?;
        Ok(Job { name, what: What::Integers(forms, wanted) })
    };
    wanted.into_iter().map(record).collect()
}

/// A block under an encrypted key, and a block that arrives encrypted.
fn aes(params: &TfheParams) -> Result<Vec<Job>> {
    let params = Arc::new(params.clone());
    let ctr = Aes::ctr(params.clone(), 1, Some(Type::Uint(64)))?;
    Ok(vec![
        Job { name: "aes128 block", what: What::Ecb(Aes::ecb(params, 1)?) },
        Job { name: "aes128 to uint64", what: What::Ctr(ctr) },
    ])
}

/// The cost of the operations with the fewest bootstraps, before keys are made. A GPU may run other forms.
fn announce(jobs: &[Job]) -> Result<()> {
    let row = |job: &Job| {
        let cost = job.program(&Pace::default())?.cost();
        let Cost { bootstraps, depth, waves, bytes_per_lane, .. } = cost;
        let cells = [bootstraps, depth, waves].map(|n| n.to_string());
        let size = vec![becalm::words::megabytes(bytes_per_lane)];
        Ok([vec![job.name.into()], cells.to_vec(), size].concat())
    };
    let rows = jobs.iter().map(row).collect::<Result<Vec<Vec<String>>>>()?;
    let head = ["to be run", "bootstraps", "depth", "waves", "registers"];
    report::print(&format!("{}\n", table(&head, &rows)))
}

impl Bench {
    fn evaluate(
        &self,
        name: &str,
        program: &Arc<Program>,
        given: &[Ciphertext],
    ) -> Result<(Vec<Lwe>, f64)> {
        let bar = report::bar(name, program.cost().waves);
        let started = Instant::now();
        let out = self.evaluator.run_with(program, given, &report::follow(&bar))?;
        bar.finish_and_clear();
        Ok((out, started.elapsed().as_secs_f64()))
    }

    fn run(&self, job: &Job) -> Result<Operated> {
        let pace = self.evaluator.info().pace;
        let (right, seconds) = match &job.what {
            What::Integers(forms, wanted) => self.integers(
                job.name,
                forms.quickest(&pace, 1, Arguments::Any, &unless_stopped)?,
                *wanted,
            )?,
            What::Ecb(aes) => self.ecb(job.name, aes)?,
            What::Ctr(aes) => self.ctr(job.name, aes)?,
        };
        let Cost { bootstraps, depth, waves, .. } = job.program(&pace)?.cost();
        Ok(Operated { operation: job.name.into(), bootstraps, depth, waves, seconds, right })
    }

    fn integers(&self, name: &str, recorded: &Recorded, wanted: u64) -> Result<(bool, f64)> {
        // The condition of a selection comes first.
        let values = [1, NUMBERS[0], NUMBERS[1]];
        let values = &values[3 - recorded.inputs().len()..];
        let given = recorded.inputs().iter().zip(values);
        let given = given
            .map(|(t, v)| Integers::encrypt(&self.secret, *t, &[Clear::from(*v)]))
            .collect::<becalm::Result<Vec<_>>>()?;
        let arguments = recorded.arguments(&given.iter().collect::<Vec<_>>())?;
        let (out, seconds) = self.evaluate(name, recorded.program(), &arguments)?;
        let got = recorded.results(out)?[0].decrypt(&self.secret)?;
        Ok((got[0].low() == u128::from(wanted), seconds))
    }

    fn ecb(&self, name: &str, aes: &Aes) -> Result<(bool, f64)> {
        let [key, block, wanted] = AES.map(u128::to_be_bytes);
        let (key, block) =
            (encrypt_bytes(&self.secret, &key)?, encrypt_bytes(&self.secret, &block)?);
        let (out, seconds) =
            self.evaluate(name, aes.program(), &aes.arguments(&key, &[&block])?)?;
        Ok((decrypt_bytes(&self.secret, &aes.bits(&out)?)? == wanted, seconds))
    }

    fn ctr(&self, name: &str, aes: &Aes) -> Result<(bool, f64)> {
        let [key, counter, arrived, wanted] = CTR.map(u128::to_be_bytes);
        let key = encrypt_bytes(&self.secret, &key)?;
        let blocks = clear_bytes(&key, &ctr_blocks(counter, &[arrived]).concat())?;
        let (out, seconds) =
            self.evaluate(name, aes.program(), &aes.arguments(&key, &[&blocks])?)?;
        let words = aes.integers(&out)?.decrypt(&self.secret)?;
        let got: Vec<u8> = words.iter().flat_map(|w| w.to_bytes()[..8].to_vec()).collect();
        Ok((got == wanted, seconds))
    }
}

fn print(r: &Report) -> Result<()> {
    let row = |o: &Operated| {
        let verdict = if o.right { "right" } else { "WRONG" };
        let cells = [o.bootstraps, o.depth, o.waves].map(|n| n.to_string());
        [
            vec![o.operation.clone()],
            cells.to_vec(),
            vec![format!("{:.3}", o.seconds), verdict.into()],
        ]
        .concat()
    };
    let rows: Vec<Vec<String>> = r.operations.iter().map(row).collect();
    let head = ["operation", "bootstraps", "depth", "waves", "seconds", "result"];
    let about = [
        ("parameter set", r.params.clone()),
        ("device", r.device.clone()),
        ("keys", format!("{:.2} s", r.keygen_seconds)),
    ];
    report::print(&format!("{}\n\n{}", facts(&about), table(&head, &rows)))
}
