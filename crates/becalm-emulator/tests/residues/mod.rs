//! Residues in whole numbers, and the tables of the kernels of CKKS.
#![allow(dead_code)]

pub mod bench;

use becalm_cuda::rns::Word;

pub fn mul(a: u64, b: u64, p: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(p)) as u64
}

pub fn pow(mut a: u64, mut e: u64, p: u64) -> u64 {
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

/// The inverse of `a` modulo a prime.
pub fn inverse(a: u64, p: u64) -> u64 {
    pow(a % p, p - 2, p)
}

/// The residue of a whole number.
pub fn residue(x: f64, p: u64) -> u64 {
    assert!(x.fract() == 0.0 && x.abs() < 9.1e15, "{x} is no whole number");
    (x as i128).rem_euclid(i128::from(p)) as u64
}

/// The number of a residue that is nearest to zero.
pub fn centred(x: u64, p: u64) -> f64 {
    if x > p / 2 { -((p - x) as f64) } else { x as f64 }
}

/// A generator of words (splitmix64).
pub fn random(seed: u64, count: usize) -> Vec<u64> {
    let word = |i: u64| {
        let mut z = (seed << 32).wrapping_add(i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    (0..count as u64).map(word).collect()
}

/// A whole number of at most `most` in absolute value.
pub fn signed(draw: u64, most: f64) -> f64 {
    let span = 2 * most as u64 + 1;
    (draw % span) as f64 - most
}

fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
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

/// A prime with a root ψ of ψ^N = −1.
pub struct Prime {
    pub p: u64,
    pub psi: u64,
    /// 2N.
    pub order: u64,
}

impl Prime {
    /// The largest below 2^`bits`.
    pub fn below(bits: f64, log2_n: u32) -> Prime {
        let order = 2u64 << log2_n;
        let top = bits.exp2() as u64 / order;
        let p = (1..top).rev().map(|k| k * order + 1).find(|p| is_prime(*p)).expect("a prime");
        let roots = (2..p).map(|g| pow(g, (p - 1) / order, p));
        let psi = roots.into_iter().find(|r| pow(*r, order / 2, p) == p - 1).expect("a root");
        Prime { p, psi, order }
    }

    /// ψ^e.
    pub fn power(&self, e: u64) -> u64 {
        pow(self.psi, e % self.order, self.p)
    }

    /// The constants of the kernels without tables.
    pub fn word(&self) -> Word {
        let p = self.p as f64;
        let bits = 64 - self.p.leading_zeros() as i32;
        let terms: u32 = 1 << (52 - bits).clamp(2, 4);
        let magic = 1.5 * f64::from(2 * bits + terms.ilog2() as i32 + 1).exp2();
        let imaginary = centred(self.power(self.order / 4), self.p);
        Word { p, inverse: 1.0 / p, magic, imaginary, forward: 0, backward: 0 }
    }

    /// w[0 … N/16), then w[N/2 + 8j] for j < N/16, where w[k] is the root to the power brv(k).
    fn twiddles(&self, root: u64) -> Vec<f64> {
        let n = self.order / 2;
        let mut powers = vec![0.0; n as usize];
        let mut power = 1;
        for i in 0..n {
            let place = i.reverse_bits() >> (64 - n.ilog2());
            powers[place as usize] = centred(power, self.p);
            power = mul(power, root, self.p);
        }
        let (head, tail) = (n as usize / 16, n as usize / 2);
        let last = (0..head).map(|j| powers[tail + 8 * j]);
        powers[..head].iter().copied().chain(last).collect()
    }
}

/// Two doubles, at an address that is a multiple of 16.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Two(pub [f64; 2]);

/// Doubles that begin at a multiple of 16.
#[derive(Clone)]
pub struct Doubles(Vec<Two>);

impl Doubles {
    pub fn new(values: &[f64]) -> Doubles {
        Doubles(values.chunks(2).map(|two| Two([two[0], two[1]])).collect())
    }

    pub fn as_ptr(&self) -> *const f64 {
        self.0.as_ptr().cast()
    }

    pub fn as_mut_ptr(&mut self) -> *mut f64 {
        self.0.as_mut_ptr().cast()
    }

    pub fn values(&self) -> Vec<f64> {
        self.0.iter().flat_map(|two| two.0).collect()
    }
}

/// The words of some primes, and their twiddles, which must stay.
pub struct Table {
    pub words: Vec<Word>,
    _twiddles: Vec<Doubles>,
}

impl Table {
    pub fn new(primes: &[Prime]) -> Table {
        let (mut words, mut all) = (vec![], vec![]);
        for prime in primes {
            let roots = [prime.psi, inverse(prime.psi, prime.p)];
            let both = roots.map(|root| Doubles::new(&prime.twiddles(root)));
            let [forward, backward] = both.each_ref().map(|table| table.as_ptr() as u64);
            words.push(Word { forward, backward, ..prime.word() });
            all.extend(both);
        }
        Table { words, _twiddles: all }
    }
}

/// f modulo X^n − ψ^e to f modulo X^(n/2) − ψ^(e/2) and X^(n/2) + ψ^(e/2), again and again.
pub fn split(prime: &Prime, f: &mut [u64], e: u64, layers: u32) {
    if layers == 0 {
        return;
    }
    let (p, c, half) = (prime.p, prime.power(e / 2), f.len() / 2);
    let (low, high) = f.split_at_mut(half);
    for (u, v) in low.iter_mut().zip(high.iter_mut()) {
        let product = mul(*v, c, p);
        (*u, *v) = ((*u + product) % p, (*u + p - product) % p);
    }
    let n = prime.order / 2;
    split(prime, low, e / 2, layers - 1);
    split(prime, high, e / 2 + n, layers - 1);
}

/// The polynomial of such remainders, times 2 for each layer.
pub fn join(prime: &Prime, f: &mut [u64], e: u64, layers: u32) {
    if layers == 0 {
        return;
    }
    let (p, half, n) = (prime.p, f.len() / 2, prime.order / 2);
    let inverse = prime.power(prime.order - e / 2);
    let (low, high) = f.split_at_mut(half);
    join(prime, low, e / 2, layers - 1);
    join(prime, high, e / 2 + n, layers - 1);
    for (u, v) in low.iter_mut().zip(high.iter_mut()) {
        (*u, *v) = ((*u + *v) % p, mul(*u + p - *v, inverse, p));
    }
}
