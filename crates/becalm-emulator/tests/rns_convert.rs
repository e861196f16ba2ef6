//! Conversions between words with the columns of the transforms on both sides, by `kernels/rns/convert.cuh`, against integers.

mod residues;

use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Conversion, Job, Target, Word, convert_shared};
use residues::bench::{Bench, Random};
use residues::{Prime, Table, centred, inverse, join, mul, residue, split};

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
    /// The job of each limb of a polynomial that is read.
    jobs: Vec<Job>,
    /// Limbs that are written.
    made: usize,
}

impl Lists {
    fn new(primes: &[u64], cases: &[Case], extreme: bool, random: &mut Random) -> Lists {
        let made = cases.iter().map(|case| case.to.len()).sum();
        let (mut conversions, mut targets, mut constants) = (vec![], vec![], vec![0.25; 3]);
        let mut jobs: Vec<Job> = vec![];
        for case in cases {
            conversions.push(Conversion {
                sources: case.from.len() as u32,
                from: jobs.len() as u32,
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
            for word in &case.from {
                let p = primes[*word];
                let factor = [random.below(p - 1) + 1, p / 2, p / 2 + 1][jobs.len() % 3];
                let (word, to) = (*word as u32, jobs.len() as u32);
                jobs.push(Job { word, to, factor: centred(factor, p), ..Job::default() });
            }
        }
        Lists { conversions, targets, constants, jobs, made }
    }

    fn words(&self, words: &[Word]) -> [Vec<u64>; 5] {
        [
            self.jobs.iter().flat_map(Job::words).collect(),
            self.conversions.iter().flat_map(Conversion::words).collect(),
            self.constants.iter().map(|x| x.to_bits()).collect(),
            self.targets.iter().flat_map(Target::words).collect(),
            words.iter().flat_map(Word::words).collect(),
        ]
    }
}

/// Polynomials of a launch.
const POLYNOMIALS: usize = 2;

/// What sources are.
#[derive(Clone, Copy)]
enum Kind {
    Random,
    /// The largest coefficients, and the largest factors.
    Largest,
    /// The largest residues in columns.
    Columns,
}
const KINDS: [Kind; 3] = [Kind::Random, Kind::Largest, Kind::Columns];

/// A set of words for one size.
struct Words {
    log2_n: u32,
    primes: Vec<Prime>,
    p: Vec<u64>,
    table: Table,
}

impl Words {
    fn new(log2_n: u32, bits: &[f64]) -> Words {
        let mut primes: Vec<Prime> = vec![];
        for bits in bits {
            let below = primes.iter().filter(|p| (p.p as f64).log2() <= *bits).map(|p| p.p);
            // The next one below those of as many bits.
            let least = below.filter(|p| (*p as f64).log2() > bits - 0.5).min();
            let bits = least.map_or(*bits, |p| ((p - 1) as f64).log2());
            primes.push(Prime::below(bits, log2_n));
        }
        let p: Vec<u64> = primes.iter().map(|prime| prime.p).collect();
        let mut all = p.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), p.len(), "primes that differ");
        let table = Table::new(&primes);
        Words { log2_n, primes, p, table }
    }

    /// The polynomial of these remainders, times the factor and 2 for each layer: the kernel makes it of a source behind its rows.
    fn made(&self, job: &Job, remainders: &[f64]) -> Vec<f64> {
        let prime = &self.primes[job.word as usize];
        let p = prime.p;
        let mut f: Vec<u64> = remainders.iter().map(|x| residue(*x, p)).collect();
        join(prime, &mut f, remainders.len() as u64, self.log2_n - 12);
        f.into_iter().map(|x| centred(mul(x, residue(job.factor, p), p), p)).collect()
    }

    /// The remainders of the polynomial y/(factor·2^layers), which a source is behind its rows: the kernel makes y of it.
    fn source(&self, job: &Job, y: &[f64], random: &mut Random) -> Vec<f64> {
        let prime = &self.primes[job.word as usize];
        let p = prime.p;
        let whole = mul(residue(job.factor, p), 1 << (self.log2_n - 12), p);
        let by = inverse(whole, p);
        let mut f: Vec<u64> = y.iter().map(|y| mul(residue(*y, p), by, p)).collect();
        split(prime, &mut f, y.len() as u64, self.log2_n - 12);
        // Up to p: some are not the number nearest zero.
        let large = |x: u64| if random.below(2) == 0 { x as f64 } else { x as f64 - p as f64 };
        f.into_iter().map(large).collect()
    }
}

/// All conversions in one launch, of polynomials that lie apart.
fn convert(words: &Words, cases: &[Case], kind: Kind, seed: u64) {
    convert_by(words, cases, kind, seed, |launch| launch);
}

/// The same by another launch.
fn convert_by(
    words: &Words,
    cases: &[Case],
    kind: Kind,
    seed: u64,
    change: impl Fn(Launch) -> Launch,
) {
    let (log2_n, primes, n) = (words.log2_n, &words.p, 1usize << words.log2_n);
    let (bench, mut random) = (Bench::new(log2_n, seed), Random(seed));
    let largest = matches!(kind, Kind::Largest);
    let (lists, gap) = (Lists::new(primes, cases, largest, &mut random), 3 * n);
    let stride = [lists.made * n + gap, lists.jobs.len() * n + gap];
    let (mut src, mut all) = (vec![], vec![]);
    for z in 0..POLYNOMIALS {
        for job in &lists.jobs {
            let p = primes[job.word as usize];
            let (source, y) = match kind {
                Kind::Columns => {
                    // Up to p, in runs as long as rows and shorter, so that columns see all signs.
                    let top = p as f64;
                    let x =
                        (0..n).map(|i| [top, -top][(i / 4096 + i % 3 + z) % 2]).collect::<Vec<_>>();
                    let y = words.made(job, &x);
                    (x, y)
                }
                _ => {
                    let y = if largest { vec![(p / 2) as f64; n] } else { random.centred(p, n) };
                    (words.source(job, &y, &mut random), y)
                }
            };
            src.extend(source);
            all.push(y);
        }
        src.extend(vec![0.5; gap]);
    }
    let out = bench.clear(POLYNOMIALS * stride[0]);
    let mut arguments = vec![Argument::Address(out), Argument::Address(bench.doubles(&src))];
    let tables = lists.words(&words.table.words);
    arguments.extend(tables.iter().map(|words| Argument::Address(bench.put(words))));
    arguments.extend(stride.map(|x| Argument::U64(x as u64)));
    arguments.push(Argument::U32(cases.len() as u32));
    let launch = Launch::convert_words(log2_n, &lists.conversions, POLYNOMIALS as u32);
    assert!(launch.shared <= convert_shared(log2_n));
    bench.launch(&change(launch), &arguments);
    let got = bench.values(out, POLYNOMIALS * stride[0]);
    for z in 0..POLYNOMIALS {
        let (rows, got) = (&all[z * lists.jobs.len()..], &got[z * stride[0]..]);
        for (case, conversion) in cases.iter().zip(&lists.conversions) {
            let rows = &rows[conversion.from as usize..][..case.from.len()];
            let targets = &lists.targets[conversion.target as usize..][..case.to.len()];
            let constants = &lists.constants[conversion.constant as usize..];
            compare(words, rows, constants, targets, got);
        }
        assert!(got[lists.made * n..][..gap].iter().all(|x| *x == 0.5), "memory between");
    }
}

/// The first layers of Σ y_i·c_i + v·c modulo each target, with v as doubles give it.
fn compare(words: &Words, rows: &[Vec<f64>], constants: &[f64], targets: &[Target], got: &[f64]) {
    let (sources, n) = (rows.len(), 1usize << words.log2_n);
    let (inverses, factors) = constants.split_at(sources);
    let v = |j: usize| {
        let terms = rows.iter().zip(inverses);
        terms.fold(0.0, |v, (row, inverse)| v + row[j] * inverse).round_ties_even()
    };
    let v: Vec<f64> = (0..n).map(v).collect();
    for (target, factors) in targets.iter().zip(factors.chunks(sources + 1)) {
        let prime = &words.primes[target.word as usize];
        let p = prime.p;
        let sum = |j: usize| {
            let y = rows.iter().map(|row| row[j]).chain([v[j]]);
            let terms = y.zip(factors).map(|(y, c)| mul(residue(y, p), residue(*c, p), p));
            terms.fold(0, |sum, term| (sum + term) % p)
        };
        let mut wanted: Vec<u64> = (0..n).map(sum).collect();
        split(prime, &mut wanted, n as u64, words.log2_n - 12);
        for (j, wanted) in wanted.iter().enumerate() {
            let x = got[target.to as usize * n + j];
            assert!(x.abs() < 4.0 * p as f64, "{x} modulo {p}");
            assert_eq!(residue(x, p), *wanted, "{sources} sources, {target:?}, number {j}");
        }
    }
}

#[test]
fn conversions_are_those_of_the_formula() {
    let mixed = [49.9, 43.0, 32.0, 24.0];
    let bits: Vec<f64> = (0..30).map(|i| if i < 12 { mixed[i % 4] } else { 49.9 }).collect();
    let words = Words::new(12, &bits);
    let range = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
    let large = |count| (0..30).filter(|i| bits[*i] > 49.0).take(count).collect::<Vec<_>>();
    let small = |count| (0..12).filter(|i| bits[*i] < 40.0).take(count).collect::<Vec<_>>();
    for (seed, kind) in (0..).zip(KINDS) {
        let case = |from: Vec<usize>, to| Case { from, to };
        convert(&words, &[case(range(0, 1), range(1, 8))], kind, seed);
        // One launch: sources and targets of many numbers, parts of targets, sums settled after 8 and 14 products.
        let cases = [
            case(large(9), range(0, 4)),
            case(range(4, 24), range(1, 30)),
            case(large(16), range(20, 26)),
            case(range(0, 16), range(16, 19)),
            case(small(2), large(1)),
        ];
        let terms: Vec<u32> = cases.iter().map(|case| case.terms(&words.p)).collect();
        assert_eq!(terms, [8, 8, 8, 14, 14]);
        convert(&words, &cases, kind, seed);
    }
}

/// More than 14 sources are settled in between even where all terms are small.
#[test]
fn long_sums_are_settled() {
    let mut bits = vec![32.0; 32];
    bits.extend([49.9, 24.0]);
    let words = Words::new(12, &bits);
    use Kind::{Largest, Random};
    for (count, kind) in [(14, Largest), (15, Largest), (28, Random), (29, Largest), (32, Random)] {
        let case = Case { from: (0..count).collect(), to: vec![32, 33] };
        assert_eq!(case.terms(&words.p), 14);
        convert(&words, &[case], kind, 3);
    }
}

/// Columns of 1 to 32 residues, of which a thread has several or up to four share one.
#[test]
fn polynomials_of_every_size_are_converted() {
    for log2_n in 12..=17 {
        let words = Words::new(log2_n, &[50.0, 43.0, 49.8, 24.0, 32.0]);
        for kind in KINDS {
            let cases = [
                Case { from: vec![0, 1, 2], to: vec![3, 4, 1] },
                Case { from: vec![4], to: vec![0, 2] },
            ];
            convert(&words, &cases, kind, 5);
        }
    }
}

/// Warps that make targets a second time, odd numbers of these, and parts of them.
#[test]
fn columns_that_threads_share_have_many_targets() {
    for (log2_n, targets) in [(16, 17), (17, 9)] {
        let words = Words::new(log2_n, &[50.0, 43.0, 49.8, 24.0, 32.0]);
        let to = (0..targets).map(|i| i % 5).collect();
        let cases = [Case { from: vec![0, 1], to }];
        convert(&words, &cases, Kind::Random, 7);
        let in_parts = |launch: Launch| {
            let [tiles, _, count] = launch.grid;
            Launch { grid: [tiles, 2, count], ..launch }
        };
        convert_by(&words, &cases, Kind::Random, 8, in_parts);
    }
}

/// The launch has no byte of shared memory too few: the emulator sees what is written behind it.
#[test]
#[should_panic(expected = "writes behind its shared memory")]
fn a_launch_with_less_shared_memory_is_seen() {
    let words = Words::new(13, &[49.9, 43.0, 49.8]);
    let less = |launch: Launch| Launch { shared: launch.shared - 8, ..launch };
    convert_by(&words, &[Case { from: vec![0, 1], to: vec![2, 0] }], Kind::Random, 1, less);
}

/// Constants of many targets fit only in parts.
#[test]
fn many_targets_are_made_in_parts() {
    let of = |sources, targets| Conversion { sources, targets, ..Conversion::default() };
    let parts = |sources, targets| {
        let launch = Launch::convert_words(16, &[of(sources, targets)], 4);
        assert!(launch.shared <= convert_shared(16));
        launch.grid[1]
    };
    assert_eq!([parts(9, 26), parts(33, 25)], [1, 1]);
    assert!(parts(34, 60) > 1);
}
