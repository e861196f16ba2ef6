//! Processor time per message of key switch and bootstrap, one ciphertext and a batch, of the sets that are named, by turns;
//! the others are compared with the first.
//! `cargo run --release --example common_mask_time -- tfhe_1_1 cm_1_1_w4`

use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::SecretKey;
use becalm::params::TfheParams;
use becalm::tfhe::Table;
use std::time::Instant;

const ROUNDS: usize = 7;
const BATCH: usize = 16;

/// Milliseconds of processor time that this process took, where the system tells (in steps of 10), else of the clock.
fn now(began: Instant) -> f64 {
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some((fields.get(11)?.parse::<f64>().ok()?, fields.get(12)?.parse::<f64>().ok()?))
    };
    ticks().map_or_else(
        || began.elapsed().as_secs_f64() * 1e3,
        |(user, system)| 10.0 * (user + system),
    )
}

fn main() -> becalm::Result<()> {
    let began = Instant::now();
    let mut sets = vec![];
    for name in std::env::args().skip(1) {
        let p = TfheParams::named(&name)?;
        let secret = SecretKey::generate(p, true)?;
        let evaluator = Evaluator::new(&Cpu::new(1)?, &secret.evaluation_key()?)?;
        let values: Vec<u64> = (0..(BATCH * p.slots) as u64).map(|i| i % 4).collect();
        let batch = secret.encrypt(&values)?;
        sets.push((p, evaluator, batch, Table::from_fn(p, |m| m)?, [vec![], vec![]]));
    }
    for _ in 0..ROUNDS {
        for (p, evaluator, batch, table, [one_by_one, together]) in &mut sets {
            let each = 1.0 / (BATCH * p.slots) as f64;
            let start = now(began);
            for i in 0..BATCH {
                evaluator.bootstrap(&batch.slice(i..i + 1)?, table)?;
            }
            one_by_one.push((now(began) - start) * each);
            let start = now(began);
            evaluator.bootstrap(batch, table)?;
            together.push((now(began) - start) * each);
        }
    }
    let mut first = None;
    for (p, _, _, _, times) in &mut sets {
        let [one, batch] = times.each_mut().map(|t| {
            t.sort_by(f64::total_cmp);
            t[t.len() / 2]
        });
        let (a, b) = *first.get_or_insert((one, batch));
        println!(
            "{:24} ms per message: one by one {one:.2} ({:.2}x), batch of {BATCH} {batch:.2} ({:.2}x)",
            p.name,
            a / one,
            b / batch
        );
    }
    Ok(())
}
