//! Time per message of key switch and bootstrap, latency and batch, of the sets that are named: the first is what the
//! others are compared with. `cargo run --release --example common_mask_time -- tfhe_1_1 cm_1_1_w4`

use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::SecretKey;
use becalm::params::TfheParams;
use becalm::tfhe::Table;
use std::time::Instant;

const ROUNDS: usize = 7;
const BATCH: usize = 16;

fn main() -> becalm::Result<()> {
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
        for (p, evaluator, batch, table, times) in &mut sets {
            for (x, times) in [batch.slice(0..1)?, batch.clone()].iter().zip(times) {
                let start = Instant::now();
                evaluator.bootstrap(x, table)?;
                times.push(start.elapsed().as_secs_f64() * 1e3 / (x.len() * p.slots) as f64);
            }
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
            "{:24} ms per message: latency {one:.3} ({:.2}x), batch of {BATCH} {batch:.3} ({:.2}x)",
            p.name,
            a / one,
            b / batch
        );
    }
    Ok(())
}
