//! Prototype.
use becalm::backend::{CkksEvaluator, Cpu, CkksSetup};
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
    let mut next = || { seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); seed >> 33 };
    let list: Vec<Vec<u64>> = (0..count).map(|_| (0..p).map(|_| next() % p).collect()).collect();
    let settings = Settings { baby, ..Settings::default() };
    let program = Arc::new(tables(&context, bits, &list, &settings)?);
    println!("{:?}", program.cost());
    println!("{} bytes of keys", context.key_bytes(&program.needs()));
    let secret = context.secret_key()?;
    let keys = Arc::new(context.keys(&secret, &program.needs())?);
    let evaluator = CkksEvaluator::open(&Cpu::new(1)?, CkksSetup::new(&context, &keys))?;
    let m: Vec<u64> = (0..params.degree()).map(|_| next() % p).collect();
    let x = context.encrypt_packed(&m, bits, &secret)?;
    let prepared = becalm::backend::Prepared::new(&Cpu::new(1)?, &context, &program, usize::MAX, &|_, _| true)?;
    let mut x = x;
    let mut m = m;
    for round in 0..3 {
        let start = Instant::now();
        let y = evaluator.run(&prepared, &[&x])?;
        println!("round {round}: {:?}, {:.4} ms each", start.elapsed(), start.elapsed().as_secs_f64() * 1e3 / m.len() as f64);
        for (y, table) in y.iter().zip(&list) {
            let (out, error) = context.decrypt_packed(y, bits, &secret)?;
            if round == 0 {
                println!("{table:?}");
                for k in 0..12 { println!("{} -> {} wanted {}", m[k], out[k], table[m[k] as usize]); }
            }
            let wrong = out.iter().zip(&m).filter(|(o, m)| **o != table[**m as usize]).count();
            println!("wrong {wrong} of {}, error rms 2^{:.2}, worst 2^{:.2} of the torus", out.len(), error.0.log2(), error.1.log2());
        }
        x = y[0].clone();
        m = m.iter().map(|m| list[0][*m as usize]).collect();
    }
    Ok(())
}
