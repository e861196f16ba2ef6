//! Primal attack by unique shortest vector: embed LWE in the lattice of dimension d with volume
//! σ·ξ^n·q^(d−n−1) (ξ scales the secret to the noise, Bai–Galbraith 2014) and reduce with BKZ-β until
//! σ√β ≤ δ^(2β−d−1)·vol^(1/d) (Alkim et al. 2016, Albrecht–Göpfert–Virdia–Wunderer 2017).
//! The condition is quadratic in d, so for each β the least d has a closed form.
use super::instance::Lwe;
use super::reduction::{MAX_BLOCK, MIN_BLOCK, bkz, log2_delta};
use super::search::local_minimum;
use super::{CEILING_BITS, Candidate, Search};

pub fn cost(lwe: &Lwe, search: Search) -> Candidate {
    match search {
        Search::Reference => reference(lwe),
        Search::Strict => strict(lwe),
    }
}

/// Grid of 5 over β, then the neighbourhood; the walk can stop in a side valley.
pub fn reference(lwe: &Lwe) -> Candidate {
    local_minimum((MIN_BLOCK, MAX_BLOCK), 5, |beta, _| {
        let Some(d) = least_dimension(lwe, beta, lwe.n) else {
            return Candidate::default();
        };
        let d = if d <= beta { beta + 1 } else { d };
        cost_at(lwe, beta, d)
    })
    .unwrap_or_default()
}

/// Every β, each with the least dimension that works.
pub fn strict(lwe: &Lwe) -> Candidate {
    let mut best = Candidate { bits: CEILING_BITS, ..Candidate::default() };
    for beta in MIN_BLOCK.. {
        let floor = (lwe.n + 1).max(beta + 1);
        if bkz(beta, floor) >= best.bits {
            break;
        }
        if let Some(d) = least_dimension(lwe, beta, floor) {
            best = best.or(cost_at(lwe, beta, d));
        }
    }
    best
}

/// Cost of BKZ-β in dimension d, infinite where the embedded vector is not revealed.
fn cost_at(lwe: &Lwe, beta: u32, d: u32) -> Candidate {
    let condition = Condition::new(lwe, beta);
    let bits = if condition.excess(f64::from(d)) >= 0.0 { bkz(beta, d) } else { f64::INFINITY };
    Candidate { bits, beta, d, ..Candidate::default() }
}

/// Least d ≥ `floor` that satisfies the condition.
fn least_dimension(lwe: &Lwe, beta: u32, floor: u32) -> Option<u32> {
    let Condition { square, linear, constant } = Condition::new(lwe, beta);
    let from = f64::from(floor);
    if square * from * from + linear * from + constant >= 0.0 {
        return Some(floor);
    }
    let discriminant = linear * linear - 4.0 * square * constant;
    let root = (-linear + discriminant.sqrt()) / (2.0 * square);
    (discriminant >= 0.0 && from <= root).then(|| root.ceil() as u32)
}

/// d·(log2 of the right side − log2 of the left side) of the condition, as a quadratic polynomial in d.
struct Condition {
    square: f64,
    linear: f64,
    constant: f64,
}

impl Condition {
    fn new(lwe: &Lwe, beta: u32) -> Self {
        let (n, b, delta) = (f64::from(lwe.n), f64::from(beta), log2_delta(beta));
        Self {
            square: -delta,
            linear: delta * (2.0 * b - 1.0) + lwe.log2_q - lwe.log2_noise - 0.5 * b.log2(),
            constant: lwe.log2_noise + n * lwe.log2_scale - (n + 1.0) * lwe.log2_q,
        }
    }

    /// log2 of the right side over the left side.
    fn excess(&self, d: f64) -> f64 {
        self.square * d + self.linear + self.constant / d
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Instance, Secret};
    use super::*;

    /// Trying every (β, d) finds nothing better than the closed form for d.
    #[test]
    fn strict_is_the_minimum_over_all_blocks_and_dimensions() {
        for (n, log2_q, noise_std) in [(200, 20.0, 50.0), (256, 12.0, 3.2), (837, 64.0, 6.225e13)] {
            let lwe =
                Lwe::new(&Instance { n, log2_q, secret: Secret::Binary, noise_std, targets: 1 })
                    .unwrap();
            let all =
                (MIN_BLOCK..500).flat_map(|b| ((n + 1).max(b + 1)..4 * n).map(move |d| (b, d)));
            let least =
                all.fold(Candidate::default(), |best, (beta, d)| best.or(cost_at(&lwe, beta, d)));
            assert_eq!(strict(&lwe).bits, least.bits);
        }
    }
}
