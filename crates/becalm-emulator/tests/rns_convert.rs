//! Conversions between words by `kernels/rns/convert.cuh`, against integers.

mod residues;

use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Conversion, Target};
use residues::bench::{Bench, Random, check, primes, word};
use residues::{centred, mul, residue};

/// A conversion between words by their numbers.
struct Case {
    from: Vec<usize>,
    to: Vec<usize>,
}

impl Case {
    /// 1/d_i, then of each target the c_i and c: those of the formula, or the largest that there are.
    fn constants(&self, primes: &[u64], extreme: bool) -> Vec<f64> {
        let mut all: Vec<f64> = self.from.iter().map(|i| 1.0 / primes[*i] as f64).collect();
        for p in self.to.iter().map(|t| primes[*t]) {
            let product = |but: Option<usize>| {
                let others = self.from.iter().enumerate().filter(|(i, _)| Some(*i) != but);
                others.fold(1, |product, (_, i)| mul(product, primes[*i] % p, p))
            };
            match extreme {
                true => all.extend(vec![(p / 2) as f64; self.from.len() + 1]),
                false => {
                    all.extend((0..self.from.len()).map(|i| centred(product(Some(i)), p)));
                    all.push(-centred(product(None), p));
                }
            }
        }
        all
    }

    /// Products between two settlings, as the CPU has them.
    fn terms(&self, primes: &[u64]) -> u32 {
        let halves = || self.from.iter().map(|i| primes[*i] as f64 / 2.0);
        let (all, room) = (halves().sum::<f64>(), 52f64.exp2());
        match all < room {
            true => 14,
            false => ((room / halves().fold(1.0, f64::max)) as u32).clamp(1, 14),
        }
    }
}

/// The lists of a launch.
struct Lists {
    conversions: Vec<Conversion>,
    targets: Vec<Target>,
    constants: Vec<f64>,
    /// Limbs of a polynomial that are read, each by its word, and how many are written.
    sources: Vec<usize>,
    made: usize,
}

impl Lists {
    fn new(primes: &[u64], cases: &[Case], extreme: bool) -> Lists {
        let sources = cases.iter().flat_map(|case| case.from.clone()).collect();
        let made = cases.iter().map(|case| case.to.len()).sum();
        let (mut conversions, mut targets, mut constants) = (vec![], vec![], vec![0.25; 3]);
        let mut from = 0;
        for case in cases {
            conversions.push(Conversion {
                sources: case.from.len() as u32,
                from,
                targets: case.to.len() as u32,
                target: targets.len() as u32,
                terms: case.terms(primes),
                constant: constants.len() as u32,
                unused: 0,
            });
            for word in &case.to {
                // The last limb first.
                let to = (made - 1 - targets.len()) as u32;
                targets.push(Target { word: *word as u32, to });
            }
            constants.extend(case.constants(primes, extreme));
            from += case.from.len() as u32;
        }
        Lists { conversions, targets, constants, sources, made }
    }

    fn words(&self, primes: &[u64]) -> [Vec<u64>; 4] {
        [
            self.conversions.iter().flat_map(Conversion::words).collect(),
            self.constants.iter().map(|x| x.to_bits()).collect(),
            self.targets.iter().flat_map(Target::words).collect(),
            primes.iter().flat_map(|p| word(*p).words()).collect(),
        ]
    }
}

/// Polynomials of a launch.
const POLYNOMIALS: usize = 2;

/// All conversions in one launch, of polynomials that lie apart.
fn convert(log2_n: u32, primes: &[u64], cases: &[Case], extreme: bool, seed: u64) {
    let (bench, mut random, n) = (Bench::new(log2_n, seed), Random(seed), 1usize << log2_n);
    let (lists, gap) = (Lists::new(primes, cases, extreme), 3 * n);
    let stride = [lists.made * n + gap, lists.sources.len() * n + gap];
    let mut src = vec![];
    for _ in 0..POLYNOMIALS {
        for p in lists.sources.iter().map(|i| primes[*i]) {
            src.extend(match extreme {
                true => vec![(p / 2) as f64; n],
                false => random.centred(p, n),
            });
        }
        src.extend(vec![0.5; gap]);
    }
    let out = bench.clear(POLYNOMIALS * stride[0]);
    let mut arguments = vec![Argument::Address(out), Argument::Address(bench.doubles(&src))];
    arguments.extend(lists.words(primes).iter().map(|words| Argument::Address(bench.put(words))));
    arguments.extend(stride.map(|x| Argument::U64(x as u64)));
    arguments.push(Argument::U32(cases.len() as u32));
    let launch = Launch::convert_words(log2_n, &lists.conversions, POLYNOMIALS as u32);
    bench.launch(&launch, &arguments);
    let got = bench.values(out, POLYNOMIALS * stride[0]);
    for z in 0..POLYNOMIALS {
        let (src, got) = (&src[z * stride[1]..], &got[z * stride[0]..]);
        for (case, conversion) in cases.iter().zip(&lists.conversions) {
            let rows = &src[conversion.from as usize * n..];
            let targets = &lists.targets[conversion.target as usize..][..case.to.len()];
            let constants = &lists.constants[conversion.constant as usize..];
            compare(case, primes, rows, constants, targets, got, n);
        }
        assert!(got[lists.made * n..][..gap].iter().all(|x| *x == 0.5), "what lies between");
    }
}

/// Σ y_i·c_i + v·c of each target with v as doubles give it.
fn compare(
    case: &Case,
    primes: &[u64],
    rows: &[f64],
    constants: &[f64],
    targets: &[Target],
    got: &[f64],
    n: usize,
) {
    let sources = case.from.len();
    let (inverses, factors) = constants.split_at(sources);
    for j in 0..n {
        let mut y: Vec<f64> = (0..sources).map(|i| rows[i * n + j]).collect();
        let v = y.iter().zip(inverses).fold(0.0, |v, (y, inverse)| v + y * inverse);
        y.push(f64::round_ties_even(v));
        for (target, factors) in targets.iter().zip(factors.chunks(sources + 1)) {
            let p = primes[target.word as usize];
            let terms = y.iter().zip(factors);
            let sum = terms.map(|(y, c)| mul(residue(*y, p), residue(*c, p), p)).sum();
            check(got[target.to as usize * n + j], p, sum, || {
                format!("{sources}, {target:?}, {j}")
            });
        }
    }
}

#[test]
fn conversions_are_those_of_the_formula() {
    let mixed = [49.9, 43.0, 32.0, 20.0];
    let bits: Vec<f64> = (0..30).map(|i| if i < 12 { mixed[i % 4] } else { 49.9 }).collect();
    let primes = primes(12, &bits);
    let range = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
    let large = |count| (0..30).filter(|i| bits[*i] > 49.0).take(count).collect::<Vec<_>>();
    let small = |count| (0..12).filter(|i| bits[*i] < 40.0).take(count).collect::<Vec<_>>();
    for (seed, extreme) in [(0, false), (1, false), (2, true)] {
        let case = |from: Vec<usize>, to| Case { from, to };
        convert(12, &primes, &[case(range(0, 1), range(1, 8))], extreme, seed);
        // One launch: sources and targets of many numbers, parts of targets, sums settled after 8 and 14 products.
        let cases = [
            case(large(9), range(0, 4)),
            case(range(4, 24), range(1, 30)),
            case(large(16), range(20, 26)),
            case(range(0, 16), range(16, 19)),
            case(small(2), large(1)),
        ];
        let terms: Vec<u32> = cases.iter().map(|case| case.terms(&primes)).collect();
        assert_eq!(terms, [8, 8, 8, 14, 14]);
        convert(12, &primes, &cases, extreme, seed);
    }
}

/// More than 14 sources are settled in between even where all terms are small.
#[test]
fn long_sums_are_settled() {
    let mut bits = vec![32.0; 32];
    bits.extend([49.9, 20.0]);
    let primes = primes(12, &bits);
    for (count, extreme) in [(14, true), (15, true), (28, false), (29, true), (32, false)] {
        let case = Case { from: (0..count).collect(), to: vec![32, 33] };
        assert_eq!(case.terms(&primes), 14);
        convert(12, &primes, &[case], extreme, 3);
    }
}

#[test]
fn larger_polynomials_are_converted() {
    let primes = primes(16, &[49.9, 43.0, 49.9, 20.0, 32.0]);
    convert(16, &primes, &[Case { from: vec![0, 1, 2], to: vec![3, 4, 1] }], false, 5);
}
