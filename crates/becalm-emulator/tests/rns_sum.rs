//! Sums of terms and of products by `kernels/rns/sum.cuh`, against integers.

mod residues;

use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Pair, Term};
use residues::bench::{Bench, Random, check, primes, word};
use residues::{mul, residue};

const LOG2_N: u32 = 12;
const N: usize = 1 << LOG2_N;

/// Limbs here and in the device's memory, if they are there.
struct Held(Vec<f64>, u64);

impl Held {
    fn residue(&self, at: usize, p: u64) -> Option<u64> {
        self.0.get(at).map(|x| residue(*x, p))
    }
}

/// What is summed.
struct Sum<'a> {
    bench: Bench,
    random: Random,
    primes: &'a [u64],
    extreme: bool,
}

impl Sum<'_> {
    /// Limbs of `len` values each, or none in one case of `rare`.
    fn limbs(&mut self, len: usize, rare: u64) -> Held {
        if rare > 0 && self.random.below(rare) == 0 {
            return Held(vec![], 0);
        }
        let values = self.random.limbs(self.primes, len, self.extreme);
        let at = self.bench.doubles(&values);
        Held(values, at)
    }

    /// A term: parts, constants, values.
    fn term(&mut self) -> ([Held; 4], Term) {
        let rare = if self.extreme { 0 } else { 4 };
        let parts = [self.limbs(N, rare), self.limbs(N, rare)];
        let kind = if self.extreme { 1 } else { self.random.below(3) };
        let none = || Held(vec![], 0);
        let constants = if kind == 1 { self.limbs(1, 0) } else { none() };
        let values = if kind == 2 { self.limbs(N, 0) } else { none() };
        let [part0, part1] = parts;
        let all = [part0, part1, constants, values];
        let term = Term {
            part0: all[0].1,
            part1: all[1].1,
            constants: all[2].1,
            values: all[3].1,
            flags: if self.extreme { 0 } else { self.random.below(2) as u32 },
            ..Term::default()
        };
        (all, term)
    }

    fn pair(&mut self) -> ([Held; 4], Pair) {
        let rare = if self.extreme { 0 } else { 7 };
        let all = [(); 4].map(|()| self.limbs(N, rare));
        let factor = if self.extreme { 2.0 } else { 1.0 + self.random.below(2) as f64 };
        let [a0, a1, b0, b1] = [0, 1, 2, 3].map(|i| all[i].1);
        (all, Pair { a0, a1, b0, b1, factor, unused: 0 })
    }
}

/// c·x_k, or values·x_k, with its sign; zero if there is no part.
fn value_of((all, term): &([Held; 4], Term), k: usize, i: usize, j: usize, p: u64) -> u64 {
    let x = all[k].residue(i * N + j, p).unwrap_or(0);
    let values = all[3].residue(i * N + j, p);
    let product = mul(x, values.or(all[2].residue(i, p)).unwrap_or(1), p);
    if term.flags == 1 && j >= N / 2 { (p - product) % p } else { product }
}

/// Part k of factor·(a0 + a1·s)·(b0 + b1·s).
fn product_of((all, pair): &([Held; 4], Pair), k: usize, at: usize, p: u64) -> u64 {
    let [a0, a1, b0, b1] = [0, 1, 2, 3].map(|i| all[i].residue(at, p).unwrap_or(0));
    let sum = match k {
        0 => mul(a0, b0, p),
        1 => (mul(a0, b1, p) + mul(a1, b0, p)) % p,
        _ => mul(a1, b1, p),
    };
    mul(sum, pair.factor as u64, p)
}

fn sum(primes: &[u64], [terms, pairs]: [usize; 2], constant: bool, extreme: bool, seed: u64) {
    let bench = Bench::new(LOG2_N, seed);
    let mut sum = Sum { bench, random: Random(seed), primes, extreme };
    let count = primes.len();
    let terms: Vec<_> = (0..terms).map(|_| sum.term()).collect();
    let pairs: Vec<_> = (0..pairs).map(|_| sum.pair()).collect();
    let constants = if constant { sum.limbs(1, 0) } else { Held(vec![], 0) };
    // The words of the limbs are not the first.
    let words = [vec![9; 12], primes.iter().flat_map(|p| word(*p).words()).collect()].concat();
    let parts = if pairs.is_empty() { 2 } else { 3 };
    let mut out = [0; 3];
    out[..parts].fill_with(|| sum.bench.clear(count * N));
    if !terms.is_empty() && !extreme && terms[0].1.part0 != 0 {
        // In place.
        out[0] = terms[0].1.part0;
    }
    let list = terms.iter().flat_map(|(_, term)| term.words()).collect::<Vec<_>>();
    let products = pairs.iter().flat_map(|(_, pair)| pair.words()).collect::<Vec<_>>();
    let mut arguments = out.map(Argument::Address).to_vec();
    arguments.extend([
        Argument::Address(sum.bench.put(&list)),
        Argument::U32(terms.len() as u32),
        Argument::Address(sum.bench.put(&products)),
        Argument::U32(pairs.len() as u32),
        Argument::Address(constants.1),
        Argument::Address(sum.bench.put(&words)),
        Argument::U32(2),
        Argument::U64(0),
    ]);
    sum.bench.launch(&Launch::sum_values(LOG2_N, count as u32, 1), &arguments);
    for (k, out) in out[..parts].iter().enumerate() {
        let got = sum.bench.values(*out, count * N);
        for (at, x) in got.iter().enumerate() {
            let (i, j, p) = (at / N, at % N, primes[at / N]);
            let first = if k == 0 { constants.residue(i, p).unwrap_or(0) } else { 0 };
            let linear = terms.iter().filter(|_| k < 2).map(|term| value_of(term, k, i, j, p));
            let wanted: u64 = first
                + linear.chain(pairs.iter().map(|pair| product_of(pair, k, at, p))).sum::<u64>();
            check(*x, p, wanted, || {
                format!("{} terms, {} pairs: {k}, {i}, {j}", terms.len(), pairs.len())
            });
        }
    }
}

#[test]
fn sums_are_exact() {
    let primes = primes(LOG2_N, &[49.9, 20.0, 43.0, 32.0, 48.9]);
    let counts = [[0, 0], [1, 0], [2, 0], [5, 0], [24, 0], [0, 1], [0, 2], [3, 5], [40, 9]];
    for (at, counts) in counts.into_iter().enumerate() {
        for seed in 0..2 {
            sum(&primes, counts, (at + seed) % 2 == 0, false, seed as u64);
        }
    }
}

/// The largest residues, signs and factors.
#[test]
fn sums_of_the_largest_residues_are_settled() {
    let primes = primes(LOG2_N, &[49.99, 20.0, 48.99, 48.0]);
    for counts in [[4, 0], [33, 0], [0, 1], [0, 3], [3, 1], [21, 9]] {
        sum(&primes, counts, true, true, 0);
    }
}

/// Sums of one shape by one launch are those of a launch each.
#[test]
fn sums_of_one_launch_are_those_of_several() {
    let primes = primes(LOG2_N, &[49.9, 20.0]);
    let (bench, random) = (Bench::new(LOG2_N, 3), Random(3));
    let mut sum = Sum { bench, random, primes: &primes, extreme: false };
    let (count, sums, [terms, pairs]) = (primes.len(), 3, [2, 1]);
    let terms: Vec<_> = (0..sums * terms).map(|_| sum.term().1.words()).collect();
    let pairs: Vec<_> = (0..sums * pairs).map(|_| sum.pair().1.words()).collect();
    let words: Vec<u64> = primes.iter().flat_map(|p| word(*p).words()).collect();
    let (words, constants) = (sum.bench.put(&words), sum.limbs(1, 0).1);
    // Three polynomials of each sum, and one more.
    let stride = 4 * count * N;
    let run = |terms: &[[u64; 6]], pairs: &[[u64; 6]]| {
        let here = terms.len() / 2;
        let out = sum.bench.clear(here * stride);
        let part = |k: usize| Argument::Address(out + (8 * k * count * N) as u64);
        let [terms, pairs] = [terms, pairs].map(|list| sum.bench.put(list.as_flattened()));
        let arguments = [
            part(0),
            part(1),
            part(2),
            Argument::Address(terms),
            Argument::U32(2),
            Argument::Address(pairs),
            Argument::U32(1),
            Argument::Address(constants),
            Argument::Address(words),
            Argument::U32(0),
            Argument::U64(stride as u64),
        ];
        let launch = Launch::sum_values(LOG2_N, count as u32, here as u32);
        sum.bench.launch(&launch, &arguments);
        let all = sum.bench.values(out, here * stride);
        all.chunks(stride).flat_map(|one| one[..3 * count * N].to_vec()).collect::<Vec<_>>()
    };
    let each = terms.chunks(2).zip(pairs.chunks(1)).flat_map(|(terms, pairs)| run(terms, pairs));
    assert_eq!(run(&terms, &pairs), each.collect::<Vec<_>>());
}
