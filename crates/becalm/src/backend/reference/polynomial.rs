//! Polynomials modulo X^N + 1 and a product of primes, by the definition: coefficients, schoolbook products, big integers.
//!
//! For each prime there are the N coefficients, 0 ≤ c < p. A ciphertext or a key has values instead, in the order of
//! [`cipher::Rlwe`](crate::cipher::Rlwe): value i is the one at ψ^(e_i), which [`Limb::of_values`] undoes by a sum over all.

use num_bigint::{BigInt, ToBigInt};

/// A polynomial modulo one prime.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Limb {
    pub(super) p: u64,
    pub(super) coefficients: Vec<u64>,
}

/// A polynomial modulo the product of the primes of its limbs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Polynomial(pub(super) Vec<Limb>);

fn multiplied(a: u64, b: u64, p: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(p)) as u64
}

fn power(a: u64, e: u64, p: u64) -> u64 {
    match e {
        0 => 1,
        _ => {
            let half = power(a, e / 2, p);
            let square = multiplied(half, half, p);
            if e % 2 == 1 { multiplied(square, a, p) } else { square }
        }
    }
}

fn inverse(a: u64, p: u64) -> u64 {
    power(a % p, p - 2, p)
}

/// ψ: g^((p − 1)/2N) for the least g ≥ 2 that makes ψ^N = −1.
fn root(n: usize, p: u64) -> u64 {
    let candidates = (2..p).map(|g| power(g, (p - 1) / (2 * n as u64), p));
    candidates.into_iter().find(|x| power(*x, n as u64, p) == p - 1).unwrap_or(1)
}

/// e_i = 2·r + 1, r the log2 N bits of i' in reverse, i' the index i with bits 0 to 2 and 3 to 5 exchanged.
fn exponent(i: usize, n: usize) -> usize {
    let leaf = (i & !63) | (i & 7) << 3 | (i >> 3 & 7);
    2 * (leaf.reverse_bits() >> (usize::BITS - n.ilog2())) + 1
}

impl Limb {
    /// ψ^0, ψ^1, …, ψ^(2N − 1).
    fn roots(n: usize, p: u64) -> Vec<u64> {
        let psi = root(n, p);
        std::iter::successors(Some(1), |x| Some(multiplied(*x, psi, p))).take(2 * n).collect()
    }

    /// c_j = N^−1·Σ_i v_i·ψ^(−e_i·j).
    pub(super) fn of_values(p: u64, values: &[f64]) -> Limb {
        let n = values.len();
        let (roots, unit) = (Limb::roots(n, p), inverse(n as u64, p));
        let residue = |x: &f64| (*x as i64).rem_euclid(p as i64) as u64;
        let values: Vec<(u64, usize)> =
            values.iter().enumerate().map(|(i, x)| (residue(x), exponent(i, n))).collect();
        // Products are below 2^100, and there are at most 2^17.
        let sum = |j: usize| -> u128 {
            // N is a power of two: a mask is the remainder modulo 2N.
            let at = |e: usize| roots[(2 * n - ((e * j) & (2 * n - 1))) & (2 * n - 1)];
            values.iter().map(|(v, e)| u128::from(*v) * u128::from(at(*e))).sum()
        };
        let reduced = |x: u128| (x % u128::from(p)) as u64;
        let coefficients = (0..n).map(|j| multiplied(reduced(sum(j)), unit, p)).collect();
        Limb { p, coefficients }
    }

    /// v_i = Σ_j c_j·ψ^(e_i·j).
    pub(super) fn values(&self) -> Vec<f64> {
        let n = self.coefficients.len();
        let roots = Limb::roots(n, self.p);
        let value = |i: usize| -> f64 {
            let e = exponent(i, n);
            let terms = self.coefficients.iter().enumerate();
            let sum: u128 =
                terms.map(|(j, c)| u128::from(*c) * u128::from(roots[(e * j) & (2 * n - 1)])).sum();
            (sum % u128::from(self.p)) as f64
        };
        (0..n).map(value).collect()
    }

    /// The schoolbook product: X^N is −1.
    fn times(&self, other: &Limb) -> Limb {
        let (n, p, a, b) =
            (self.coefficients.len(), self.p, &self.coefficients, &other.coefficients);
        let reduced = |x: u128| (x % u128::from(p)) as u64;
        let coefficient = |k: usize| {
            let kept: u128 = (0..=k).map(|i| u128::from(a[i]) * u128::from(b[k - i])).sum();
            let turned: u128 =
                (k + 1..n).map(|i| u128::from(a[i]) * u128::from(b[n + k - i])).sum();
            (reduced(kept) + p - reduced(turned)) % p
        };
        Limb { p, coefficients: (0..n).map(coefficient).collect() }
    }
}

/// The product of primes.
pub(super) fn product(primes: &[u64]) -> BigInt {
    primes.iter().map(|p| BigInt::from(*p)).product()
}

/// The integer `x`, which a double is.
pub(super) fn integer(x: f64) -> BigInt {
    x.to_bigint().unwrap_or_default()
}

/// `x` modulo `m`, in 0 .. m.
fn modulo(x: &BigInt, m: &BigInt) -> BigInt {
    ((x % m) + m) % m
}

/// The integer nearest a/b, for an odd b > 0.
fn nearest(a: &BigInt, b: &BigInt) -> BigInt {
    // ⌊(2a + b)/2b⌋
    let (above, whole): (BigInt, BigInt) = (2 * a + b, 2 * b);
    (&above - modulo(&above, &whole)) / whole
}

impl Polynomial {
    pub(super) fn zero(primes: &[u64], n: usize) -> Polynomial {
        Polynomial(primes.iter().map(|p| Limb { p: *p, coefficients: vec![0; n] }).collect())
    }

    pub(super) fn primes(&self) -> Vec<u64> {
        self.0.iter().map(|limb| limb.p).collect()
    }

    /// Modulo other primes the polynomial of these integers.
    pub(super) fn of_integers(integers: &[BigInt], primes: &[u64]) -> Polynomial {
        let limb = |p: &u64| {
            let residue = |x: &BigInt| modulo(x, &BigInt::from(*p)).try_into().unwrap_or(0);
            Limb { p: *p, coefficients: integers.iter().map(residue).collect() }
        };
        Polynomial(primes.iter().map(limb).collect())
    }

    /// The coefficients nearest zero, by the Chinese remainder theorem.
    pub(super) fn integers(&self) -> Vec<BigInt> {
        let primes = self.primes();
        let all = product(&primes);
        let unit = |p: &u64| {
            let others = &all / p;
            let residue: u64 = (&others % p).try_into().unwrap_or(0);
            others * inverse(residue, *p)
        };
        let units: Vec<BigInt> = primes.iter().map(unit).collect();
        let n = self.0.first().map_or(0, |limb| limb.coefficients.len());
        let coefficient = |j: usize| {
            let terms = self.0.iter().zip(&units).map(|(limb, unit)| unit * limb.coefficients[j]);
            let x = terms.sum::<BigInt>() % &all;
            if 2 * &x > all { x - &all } else { x }
        };
        (0..n).map(coefficient).collect()
    }

    /// The limbs of some of the primes.
    pub(super) fn of(&self, limbs: std::ops::Range<usize>) -> Polynomial {
        Polynomial(self.0[limbs].to_vec())
    }

    fn each(&self, other: &Polynomial, f: impl Fn(&Limb, &Limb) -> Limb) -> Polynomial {
        Polynomial(self.0.iter().zip(&other.0).map(|(a, b)| f(a, b)).collect())
    }

    pub(super) fn plus(&self, other: &Polynomial) -> Polynomial {
        self.each(other, |a, b| {
            let terms = a.coefficients.iter().zip(&b.coefficients);
            Limb { p: a.p, coefficients: terms.map(|(x, y)| (x + y) % a.p).collect() }
        })
    }

    pub(super) fn minus(&self, other: &Polynomial) -> Polynomial {
        self.plus(&other.scaled(&BigInt::from(-1)))
    }

    pub(super) fn times(&self, other: &Polynomial) -> Polynomial {
        self.each(other, Limb::times)
    }

    /// Times an integer.
    pub(super) fn scaled(&self, by: &BigInt) -> Polynomial {
        let limb = |limb: &Limb| {
            let c = modulo(by, &BigInt::from(limb.p)).try_into().unwrap_or(0);
            let coefficients = limb.coefficients.iter().map(|x| multiplied(*x, c, limb.p));
            Limb { p: limb.p, coefficients: coefficients.collect() }
        };
        Polynomial(self.0.iter().map(limb).collect())
    }

    /// Plus an integer, the constant polynomial.
    pub(super) fn plus_constant(&self, c: &BigInt) -> Polynomial {
        let n = self.0.first().map_or(1, |limb| limb.coefficients.len());
        let mut constant = vec![BigInt::ZERO; n];
        constant[0] = c.clone();
        self.plus(&Polynomial::of_integers(&constant, &self.primes()))
    }

    /// X → X^`g`.
    pub(super) fn image(&self, g: usize) -> Polynomial {
        let limb = |limb: &Limb| {
            let n = limb.coefficients.len();
            let mut coefficients = vec![0; n];
            for (j, c) in limb.coefficients.iter().enumerate() {
                let to = j * g % (2 * n);
                coefficients[to % n] = if to < n { *c } else { (limb.p - c) % limb.p };
            }
            Limb { p: limb.p, coefficients }
        };
        Polynomial(self.0.iter().map(limb).collect())
    }

    /// X^`k` times this, k < N.
    pub(super) fn shifted(&self, k: usize) -> Polynomial {
        let n = self.0.first().map_or(1, |limb| limb.coefficients.len());
        let mut monomial = vec![BigInt::ZERO; n];
        monomial[k] = BigInt::from(1);
        self.times(&Polynomial::of_integers(&monomial, &self.primes()))
    }

    /// Modulo the primes `to` the polynomial of the integers nearest x·Q'/Q, x the integers of this one, Q and Q' the products of its
    /// primes and of those. The result does not depend on which integers stand for the residues.
    pub(super) fn rescaled(&self, to: &[u64]) -> Polynomial {
        let (from, into) = (product(&self.primes()), product(to));
        let rounded = |x: &BigInt| nearest(&(x * &into), &from);
        let integers: Vec<BigInt> = self.integers().iter().map(rounded).collect();
        Polynomial::of_integers(&integers, to)
    }
}
