//! Parameter sets to measure on, and what the secret key shows of a rotation.

use crate::full::full;
use becalm::cipher::{KeyRole, Lwe, SecretKey};
use becalm::math::Modulus;
use becalm::math::simd::Level;
use becalm::params::{Kind, TfheParams};
use becalm::tfhe::modulus_switch::modulus_switch;
use std::borrow::Cow;

/// A set of the table as a toy that claims nothing; its small key has at most `n` bits unless the run is a full one.
pub fn set(name: &str, n: usize) -> TfheParams {
    let whole = TfheParams::named(name).unwrap();
    let bits = whole.rotation.group_bits();
    let short = n.min(whole.lwe_dimension) / bits * bits;
    let lwe_dimension = if full() { whole.lwe_dimension } else { short };
    TfheParams { kind: Kind::Toy, lwe_dimension, log2_pfail: 0.0, ..whole.clone() }
}

/// The set by another name, changed.
pub fn changed(
    mut p: TfheParams,
    suffix: &str,
    change: impl FnOnce(&mut TfheParams),
) -> TfheParams {
    p.name = Cow::Owned(format!("{}_{suffix}", p.name));
    change(&mut p);
    p
}

/// The levels whose arithmetic differs: modulo p none does. Whole sets are rotated at the best one; what a level adds, it
/// adds in each step alike, and short keys show it.
pub fn levels(q: Modulus) -> Vec<Level> {
    match q {
        Modulus::Native if !full() => Level::available().to_vec(),
        _ => vec![Level::best()],
    }
}

/// `b̃` less the exponent of the value of every group, of the exponents that the blind rotation makes of each slot of each
/// ciphertext, in 0..2N.
pub fn exponents(secret: &SecretKey, small: &Lwe) -> Vec<usize> {
    let p = secret.params();
    let (n, w, cells) = (p.lwe_dimension, p.slots, 2 * p.table_size() as i64);
    let (bits, values) = (p.rotation.group_bits(), p.rotation.group_ggsws());
    let count = p.ggsw_count();
    let mut all = vec![0; small.words().len() / (n + w) * (count + w)];
    let (kind, degree) = ((p.rotation, p.modulus_switch), p.table_size());
    modulus_switch(kind, p.modulus, degree, (n, w), small.words(), &mut all).unwrap();
    // The value of a group: the number that its bits are, or the place of the one in a block.
    let value = |group: &[u64]| -> usize {
        let weight = |t: usize| if values == bits { t + 1 } else { 1 << t };
        group.iter().enumerate().map(|(t, s)| *s as usize * weight(t)).sum()
    };
    let secrets = secret.expose(KeyRole::Small);
    let exponents = |ct: &[u32]| -> Vec<usize> {
        let of = |(key, body): (&[u64], &u32)| {
            let groups = ct[..count].chunks(values).zip(key.chunks(bits).map(value));
            let sum: i64 =
                groups.filter(|(_, v)| *v > 0).map(|(group, v)| i64::from(group[v - 1])).sum();
            (i64::from(*body) - sum).rem_euclid(cells) as usize
        };
        secrets.chunks_exact(n).zip(&ct[count..]).map(of).collect()
    };
    all.chunks_exact(count + w).flat_map(exponents).collect()
}

/// `a − b` in torus units, −1/2 ..= 1/2.
pub fn difference(q: Modulus, a: u64, b: u64) -> f64 {
    q.to_signed(q.sub(a, b)) as f64 * 2f64.powi(-64)
}
