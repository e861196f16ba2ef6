//! Dual attack: short vectors of the dual lattice turn m samples into one with noise
//! σ' = ρ·σ_s·δ^d / c^(m/d) (relative to q; c = σ_s·q/σ_e, d = m + n), distinguishable from uniform with advantage
//! e^(−2π²σ'²) (Micciancio–Regev 2009; secret scaling of Espitau–Joux–Kharchenko 2020). The vectors come from one
//! sieve (Guo–Johansson 2021), ρ longer than the shortest.
use super::instance::Lwe;
use super::prob::majority_samples;
use super::reduction::{
    MIN_BLOCK, bkz, log2_delta, log2_sieve_stretch, log2_sum, short_vectors, sieve_dimension,
};
use super::search::local_minimum;
use super::{CEILING_BITS, Candidate, Search};
use std::f64::consts::{LOG2_E, PI};

pub fn cost(lwe: &Lwe, search: Search) -> Candidate {
    let walk = || {
        let stop = 2 * lwe.n.clamp(MIN_BLOCK, 1024);
        local_minimum((MIN_BLOCK, stop), 8, |beta, _| price(lwe, beta, best_samples(lwe, beta)))
            .unwrap_or_default()
    };
    match search {
        Search::Reference => walk(),
        Search::Strict => strict(lwe),
    }
}

/// Every β at its best number of samples; around the best β also every smaller number of samples, which shortens
/// the reduction.
fn strict(lwe: &Lwe) -> Candidate {
    let mut best = Candidate { bits: CEILING_BITS, ..Candidate::default() };
    let mut close = Vec::new();
    for beta in MIN_BLOCK.. {
        if bkz(beta, (lwe.n + 1).max(beta)) >= best.bits {
            break;
        }
        let samples = best_samples(lwe, beta);
        let found = price(lwe, beta, samples);
        close.push((beta, samples, found.bits));
        best = best.or(found);
    }
    let near = best.bits + 1.0;
    for (beta, samples, _) in close.into_iter().filter(|&(_, _, bits)| bits < near) {
        let step = (samples / 1024) as usize + 1;
        for fewer in (1..samples).step_by(step).filter(|m| lwe.n + m >= beta) {
            best = best.or(price(lwe, beta, fewer));
        }
    }
    best
}

/// Secret and modulus relative to the noise, log2(σ_s·q/σ_e).
fn log2_contrast(lwe: &Lwe) -> f64 {
    lwe.secret_std.log2() + lwe.log2_q - lwe.log2_noise
}

/// The number of samples with the shortest dual vectors: d = √(n·log c/log δ).
fn best_samples(lwe: &Lwe, beta: u32) -> u32 {
    let square = f64::from(lwe.n) * log2_contrast(lwe).max(0.0) / log2_delta(beta);
    (square.sqrt().ceil() - f64::from(lwe.n)).max(1.0) as u32
}

fn price(lwe: &Lwe, beta: u32, samples: u32) -> Candidate {
    let d = lwe.n + samples;
    let (m, dim) = (f64::from(samples), f64::from(d));
    // The sieve dimension hardly depends on d: 2β stands for it.
    let stretch = log2_sieve_stretch(beta, sieve_dimension(beta, 2 * beta));
    let log2_noise =
        stretch + lwe.secret_std.log2() + dim * log2_delta(beta) - m / dim * log2_contrast(lwe);
    let width = log2_noise.exp2();
    // Beyond 16 moduli of Gaussian width there is nothing to see.
    let bits = if width * (2.0 * PI).sqrt() > 16.0 {
        f64::INFINITY
    } else {
        let count = majority_samples(-2.0 * PI * PI * width * width * LOG2_E);
        let vectors = if count == 0.0 { bkz(beta, d) } else { short_vectors(beta, d, count) };
        log2_sum(count, vectors)
    };
    Candidate { bits, beta, d, ..Candidate::default() }
}
