//! The programs that `becalm bench` times, with the results that they must give.

use anyhow::Result;
use becalm::backend::Evaluator;
use becalm::cipher::{Encoding, EvaluationKey, Lwe, SecretKey};
use becalm::program::{Program, RegInfo, RegType};
use becalm::tfhe::Table;
use std::sync::Arc;

/// A program under test, its arguments, and its expected results.
pub struct Case {
    pub name: &'static str,
    pub program: Arc<Program>,
    pub input: Lwe,
    pub wanted: Vec<u64>,
}

/// The bootstrap alone, the key switch alone, and both.
pub fn cases(
    secret: &SecretKey,
    keys: &EvaluationKey,
    evaluator: &Evaluator,
    batch: usize,
) -> Result<Vec<Case>> {
    let params = keys.params();
    let encoding = Encoding::of(params);
    let p = encoding.values;
    let values: Vec<u64> = (0..batch as u64).map(|i| i % p).collect();
    let square = Table::from_fn(params, |m| m * m % p)?;
    let squares: Vec<u64> = values.iter().map(|m| m * m % p).collect();
    let fresh = secret.encrypt(&values)?;
    let mut both = Program::new(params.clone());
    let x = both.input_like(&fresh);
    let y = both.lookup(x, &square)?;
    both.output(y)?;
    let mut cases = vec![];
    if fresh.role() == becalm::cipher::KeyRole::Big {
        let mut switch = Program::new(params.clone());
        let x = switch.input_like(&fresh);
        let y = switch.key_switch(x)?;
        switch.output(y)?;
        let switch = Arc::new(switch);
        let small = evaluator.run(&switch, &[fresh.clone().into()])?.remove(0);
        let mut alone = Program::new(params.clone());
        let info = RegInfo { ty: RegType::Lwe(small.role()), encoding, range: small.range() };
        let x = alone.input_as(info);
        let y = alone.bootstrap(x, &square)?[0];
        alone.output(y)?;
        cases.push(Case {
            name: "pbs",
            program: Arc::new(alone),
            input: small,
            wanted: squares.clone(),
        });
        cases.push(Case { name: "ks", program: switch, input: fresh.clone(), wanted: values });
    }
    cases.push(Case { name: "ks_pbs", program: Arc::new(both), input: fresh, wanted: squares });
    Ok(cases)
}
