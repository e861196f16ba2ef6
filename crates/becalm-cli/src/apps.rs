//! `becalm run --app uint64 | aes`: an application from keys to checked results, with what each operation takes.

use crate::report::{self, facts, table};
use crate::run::{keygen, peak_memory};
use anyhow::{Result, bail};
use becalm::apps::Aim;
use becalm::apps::aes::{Aes, decrypt_bytes, encrypt_bytes};
use becalm::apps::integer::{Clear, Integers, Operation, Type};
use becalm::backend::{Backend, Cpu, Evaluator};
use becalm::cipher::{Ciphertext, Lwe, SecretKey};
use becalm::params::TfheParams;
use becalm::program::{Cost, Program};
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

/// What an operation took.
#[derive(Serialize)]
struct Operated {
    operation: String,
    bootstraps: usize,
    depth: usize,
    waves: usize,
    seconds: f64,
    right: bool,
}

/// What a run found.
#[derive(Serialize)]
struct Report {
    app: String,
    params: String,
    backend: String,
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
    threads: usize,
    allow_insecure: bool,
    json: bool,
) -> Result<()> {
    let started = Instant::now();
    let secret = SecretKey::generate(params, allow_insecure)?;
    let cpu = Cpu::new(threads)?;
    // Refused before the keys are made.
    let recorded = if app == "aes" { vec![] } else { operations(params)? };
    let keys = cpu.install(|| keygen(&secret))?;
    let bench = Bench { evaluator: Evaluator::new(&cpu, &keys)?, secret };
    let keygen_seconds = started.elapsed().as_secs_f64();
    let operations = match app {
        "aes" => vec![bench.aes()?],
        _ => recorded.iter().map(|r| bench.integers(r)).collect::<Result<_>>()?,
    };
    let report = Report {
        app: app.into(),
        params: params.name.to_string(),
        backend: format!("cpu ({})", cpu.info().description),
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

type Recorded = (&'static str, becalm::apps::integer::Recorded, u64);

/// The operations on [`NUMBERS`], with what they give.
fn operations(params: &TfheParams) -> Result<Vec<Recorded>> {
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
        let recorded = Operation::named(name)?.circuit(params.clone(), Aim::Work, &types)?;
        Ok((name, recorded, wanted))
    };
    wanted.into_iter().map(record).collect()
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
        let out = self.evaluator.evaluate_with(program, given, &mut report::follow(&bar))?;
        bar.finish_and_clear();
        Ok((out, started.elapsed().as_secs_f64()))
    }

    fn integers(&self, (name, recorded, wanted): &Recorded) -> Result<Operated> {
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
        let right = got[0].low() == u128::from(*wanted);
        Ok(operated(name, recorded.program().cost(), seconds, right))
    }

    fn aes(&self) -> Result<Operated> {
        let [key, block, wanted] = AES.map(u128::to_be_bytes);
        let aes = Aes::ecb(self.secret.params().clone(), 1)?;
        let (key, block) =
            (encrypt_bytes(&self.secret, &key)?, encrypt_bytes(&self.secret, &block)?);
        let arguments = aes.arguments(&key, &[&block])?;
        let (out, seconds) = self.evaluate("aes", aes.program(), &arguments)?;
        let right = decrypt_bytes(&self.secret, &aes.bits(&out)?)? == wanted;
        Ok(operated("aes128 block", aes.program().cost(), seconds, right))
    }
}

fn operated(name: &str, cost: Cost, seconds: f64, right: bool) -> Operated {
    let Cost { bootstraps, depth, waves, .. } = cost;
    Operated { operation: name.into(), bootstraps, depth, waves, seconds, right }
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
        ("backend", r.backend.clone()),
        ("keys", format!("{:.2} s", r.keygen_seconds)),
    ];
    report::print(&format!("{}\n\n{}", facts(&about), table(&head, &rows)))
}
