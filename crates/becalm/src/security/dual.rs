//! Dual attacks: short vectors of the dual lattice turn m samples into one with noise
//! σ' = ρ·σ_s·δ^d / c^(m/d) (relative to q; c = σ_s·q/σ_e, d = m + n), distinguishable from uniform with advantage
//! e^(−2π²σ'²) (Micciancio–Regev 2009; secret scaling of Espitau–Joux–Kharchenko 2020). The vectors come from one
//! sieve (Guo–Johansson 2021), ρ longer than the shortest. The [hybrids](super::dual_hybrid) reduce a part of the
//! secret so.
use super::instance::Lwe;
use super::prob::majority_samples;
use super::reduction::{
    MIN_BLOCK, bkz, log2_delta, log2_sieve_stretch, log2_sum, short_vectors, sieve_dimension,
};
use super::search::local_minimum;
use super::{CEILING_BITS, Candidate, Search};
use std::f64::consts::{LOG2_E, PI};

pub fn cost(lwe: &Lwe, search: Search) -> Candidate {
    let reduced = Reduced::new(lwe, lwe.n, lwe.secret_std);
    let walk = || {
        let stop = 2 * lwe.n.clamp(MIN_BLOCK, 1024);
        local_minimum((MIN_BLOCK, stop), 8, |beta, _| {
            cost_at(&reduced, beta, reduced.best_samples(beta))
        })
        .unwrap_or_default()
    };
    match search {
        Search::Reference => walk(),
        Search::Strict => strict(&reduced),
    }
}

/// Every β at its best number of samples; around the best β also every smaller number of samples, which shortens
/// the reduction.
fn strict(reduced: &Reduced) -> Candidate {
    let mut best = Candidate { bits: CEILING_BITS, ..Candidate::default() };
    let mut close = Vec::new();
    for beta in MIN_BLOCK.. {
        if bkz(beta, (reduced.n + 1).max(beta)) >= best.bits {
            break;
        }
        let samples = reduced.best_samples(beta);
        let found = cost_at(reduced, beta, samples);
        close.push((beta, samples, found.bits));
        best = best.or(found);
    }
    let near = best.bits + 1.0;
    for (beta, samples, _) in close.into_iter().filter(|&(_, _, bits)| bits < near) {
        let step = (samples / 1024) as usize + 1;
        for fewer in (1..samples).step_by(step).filter(|m| reduced.n + m >= beta) {
            best = best.or(cost_at(reduced, beta, fewer));
        }
    }
    best
}

/// The coordinates of a secret that dual vectors take out.
pub struct Reduced {
    /// Their number.
    pub n: u32,
    log2_std: f64,
    /// Secret and modulus relative to the noise, log2(σ_s·q/σ_e).
    log2_contrast: f64,
}

impl Reduced {
    /// `n` coordinates of `lwe` of standard deviation `std`.
    pub fn new(lwe: &Lwe, n: u32, std: f64) -> Self {
        let log2_std = std.log2();
        Self { n, log2_std, log2_contrast: log2_std + lwe.log2_q - lwe.log2_noise }
    }

    /// The number of samples with the shortest dual vectors: d = √(n·log c/log δ).
    pub fn best_samples(&self, beta: u32) -> u32 {
        let square = f64::from(self.n) * self.log2_contrast.max(0.0) / log2_delta(beta);
        (square.sqrt().ceil() - f64::from(self.n)).max(1.0) as u32
    }

    /// σ' with vectors from `samples` samples.
    pub fn noise(&self, beta: u32, samples: u32) -> f64 {
        let (m, dim) = (f64::from(samples), f64::from(self.n + samples));
        // The sieve dimension hardly depends on d: 2β stands for it.
        let stretch = log2_sieve_stretch(beta, sieve_dimension(beta, 2 * beta));
        (stretch + self.log2_std + dim * log2_delta(beta) - m / dim * self.log2_contrast).exp2()
    }
}

fn cost_at(reduced: &Reduced, beta: u32, samples: u32) -> Candidate {
    let d = reduced.n + samples;
    let width = reduced.noise(beta, samples);
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
