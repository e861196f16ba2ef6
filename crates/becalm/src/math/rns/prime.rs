//! Primes p ≡ 1 (mod 2N), where X^N + 1 splits into linear factors, by size; and the arithmetic of set-up time.

/// `a·b mod p` for p < 2^63.
pub(crate) fn mul(a: u64, b: u64, p: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(p)) as u64
}

/// `a^e mod p`.
pub(crate) fn pow(mut a: u64, mut e: u64, p: u64) -> u64 {
    let mut out = 1;
    while e > 0 {
        if e & 1 == 1 {
            out = mul(out, a, p);
        }
        a = mul(a, a, p);
        e >>= 1;
    }
    out
}

/// The inverse of `a` modulo the prime `p`.
pub(crate) fn inverse(a: u64, p: u64) -> u64 {
    pow(a % p, p - 2, p)
}

/// Miller–Rabin with the first twelve primes as bases, which decides below 3.3·10^24 (Sorenson–Webster 2015).
pub(crate) fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 || BASES.iter().any(|b| n.is_multiple_of(*b)) {
        return BASES.contains(&n);
    }
    let twos = (n - 1).trailing_zeros();
    BASES.iter().all(|&b| {
        let mut x = pow(b, (n - 1) >> twos, n);
        let mut passes = x == 1 || x == n - 1;
        for _ in 1..twos {
            x = mul(x, x, n);
            passes |= x == n - 1;
        }
        passes
    })
}

/// The prime ≡ 1 (mod `step`) nearest to `target` that is not in `taken`, below 2^50; `None` if there is none within
/// a factor of two.
pub(crate) fn nearest(target: f64, step: u64, taken: &[u64]) -> Option<u64> {
    let middle = (target / step as f64).round() as u64;
    let fits = |p: u64| p < 1 << 50 && !taken.contains(&p) && is_prime(p);
    (0..middle / 2).find_map(|i| {
        let (below, above) = ((middle - i) * step + 1, (middle + i) * step + 1);
        let nearer = if (below as f64 - target).abs() <= (above as f64 - target).abs() {
            [below, above]
        } else {
            [above, below]
        };
        nearer.into_iter().find(|&p| fits(p))
    })
}

/// An element of order exactly `order` = 2^k modulo the prime p ≡ 1 (mod `order`).
pub(crate) fn root_of_unity(order: u64, p: u64) -> u64 {
    let candidates = (2..).map(|g| pow(g, (p - 1) / order, p));
    // Half of all g are non-residues, and each of them gives a root of full order.
    candidates.into_iter().find(|&r| pow(r, order / 2, p) == p - 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_the_sieve() {
        let sieve =
            |n: u64| n > 1 && (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        assert!((0..5000).all(|n| is_prime(n) == sieve(n)));
        // A Carmichael number, a strong pseudoprime to base 2, the largest prime below 2^50.
        assert!(!is_prime(561) && !is_prime(2047) && is_prime((1 << 50) - 27));
    }

    #[test]
    fn nearest_primes_split_the_ring() {
        let step = 1 << 13;
        let mut taken = vec![];
        for bits in [28.0f64, 30.0, 30.0, 45.0, 50.0, 50.0] {
            let p = nearest(bits.exp2(), step, &taken).unwrap();
            assert!(p % step == 1 && p < 1 << 50 && ((p as f64).log2() - bits).abs() < 1e-2);
            let root = root_of_unity(step, p);
            assert_eq!(pow(root, step / 2, p), p - 1);
            assert_eq!(mul(inverse(root, p), root, p), 1);
            taken.push(p);
        }
        assert_ne!(taken[1], taken[2]);
    }
}
