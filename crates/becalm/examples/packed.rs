//! Prototype.
use becalm::backend::{CkksEvaluator, CkksSetup, Cpu};
use becalm::bootstrap::ckks::{Settings, tables};
use becalm::ckks::Context;
use becalm::params::CkksParams;
use std::sync::Arc;
use std::time::Instant;
fn main() -> becalm::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let params = CkksParams::named(&args[1])?;
    let bits: u32 = args[2].parse().unwrap();
    let count: usize = args[3].parse().unwrap();
    let baby: usize = args[4].parse().unwrap();
    let context = Arc::new(Context::new(params, true)?);
    let p = 1u64 << bits;
    let mut seed = 12345u64;
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        seed >> 33
    };
    let list: Vec<Vec<u64>> = (0..count).map(|_| (0..p).map(|_| next() % p).collect()).collect();
    let settings = Settings { baby, ..Settings::default() };
    let start = Instant::now();
    let program = Arc::new(tables(&context, bits, &list, &settings)?);
    println!("recorded in {:?}: {:?}", start.elapsed(), program.cost());
    println!("{:?}", program.ops().last().unwrap());
    println!(
        "{} bytes of keys, security {:?}",
        context.key_bytes(&program.needs()),
        params.log2_modulus()
    );
    let secret = context.secret_key()?;
    let keys = Arc::new(context.keys(&secret, &program.needs())?);
    let evaluator = CkksEvaluator::open(&Cpu::new(1)?, CkksSetup::new(&context, &keys))?;
    let m: Vec<u64> = (0..params.degree()).map(|_| next() % p).collect();
    let mut x = context.encrypt_integers(&m, bits, &secret)?;
    let prepared =
        becalm::backend::Prepared::new(&Cpu::new(1)?, &context, &program, usize::MAX, &|_, _| {
            true
        })?;
    let mut m = m;
    for round in 0..3 {
        println!(
            "before: 2^{:.2}, worst 2^{:.2}",
            x.account().error.log2(),
            x.account().worst.log2()
        );
        let start = Instant::now();
        let y = evaluator.run(&prepared, &[&x])?;
        println!(
            "round {round}: {:?}, {:.4} ms each",
            start.elapsed(),
            start.elapsed().as_secs_f64() * 1e3 / m.len() as f64
        );
        for (y, table) in y.iter().zip(&list) {
            let out = context.decrypt_integers(y, &secret)?;
            let wrong = out.iter().zip(&m).filter(|(o, m)| **o != table[**m as usize]).count();
            let (rms, worst) = context.integer_errors(y, &secret);
            println!(
                "wrong {wrong} of {}, error rms 2^{:.2}, worst 2^{:.2}; claimed 2^{:.2}, worst 2^{:.2}",
                out.len(),
                rms.log2(),
                worst.log2(),
                y.account().error.log2(),
                y.account().worst.log2()
            );
        }
        x = y[0].clone();
        m = m.iter().map(|m| list[0][*m as usize]).collect();
    }
    Ok(())
}
