//! The transforms of CKKS on the emulator against the tree of remainders in whole numbers: f modulo X^N − ψ^N, then modulo the
//! two halves X^(N/2) ∓ ψ^(N/2), and so on to the values.

mod residues;

use becalm_cuda::Kernels;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Epilogue, Job};
use becalm_emulator as emulator;
use residues::{Doubles, Prime, Table, centred, mul, random, residue, split};
use std::ffi::c_void;

/// Polynomials of a batch.
const BATCH: usize = 2;
/// Doubles between the limbs of one polynomial and those of the next.
const GAP: usize = 64;

/// Pointers to the arguments of a launch.
macro_rules! arguments {
    ($($argument:expr),* $(,)?) => { &mut [$(&raw const $argument as *mut c_void),*] };
}

/// A size, its words, and room for polynomials of a limb each.
struct Bench {
    log2_n: u32,
    primes: Vec<Prime>,
    table: Table,
    seed: u64,
}

impl Bench {
    fn new(log2_n: u32) -> Self {
        let primes: Vec<Prime> =
            [20.0, 32.0, 43.0, 50.0].iter().map(|bits| Prime::below(*bits, log2_n)).collect();
        let table = Table::new(&primes);
        Bench { log2_n, primes, table, seed: 0 }
    }

    fn n(&self) -> usize {
        1 << self.log2_n
    }

    /// Doubles of a polynomial with a limb of each word.
    fn stride(&self) -> usize {
        self.primes.len() * self.n() + GAP
    }

    fn run(&self, launch: Launch, arguments: &mut [*mut c_void]) {
        let kernels = Kernels::Rns { log2_n: self.log2_n };
        // SAFETY: the callers pass what each kernel takes, in vectors of a batch.
        unsafe { emulator::run(&kernels, &launch, self.seed, arguments) }.unwrap();
    }

    /// A job for each word: of the limb of its number, or from the reversed order of limbs.
    fn jobs(&self, reversed: bool) -> Vec<Job> {
        let count = self.primes.len() as u32;
        let job = |word: u32| {
            let from = if reversed { count - 1 - word } else { word };
            Job { word, from, to: word, other: from, ..Job::default() }
        };
        (0..count).map(job).collect()
    }

    /// A batch from the limbs of both polynomials, in the order of jobs.
    fn batch(&self, jobs: &[Job], limb: impl Fn(usize, &Prime) -> Vec<f64>) -> Doubles {
        let mut out = vec![f64::NAN; BATCH * self.stride()];
        for poly in 0..BATCH {
            for job in jobs {
                let at = poly * self.stride() + job.from as usize * self.n();
                out[at..at + self.n()]
                    .copy_from_slice(&limb(poly, &self.primes[job.word as usize]));
            }
        }
        Doubles::new(&out)
    }

    /// The limb of a job in a batch.
    fn limb(&self, batch: &Doubles, poly: usize, limb: u32) -> Vec<f64> {
        let at = poly * self.stride() + limb as usize * self.n();
        batch.values()[at..at + self.n()].to_vec()
    }

    fn empty(&self) -> Doubles {
        Doubles::new(&vec![f64::NAN; BATCH * self.stride()])
    }

    fn rows(&self, dst: &mut Doubles, y: &Doubles, jobs: &[Job], kind: Epilogue) {
        let launch = Launch::ntt_rows(self.log2_n, jobs.len() as u32, BATCH as u32);
        let (dst, y, kind) = (dst.as_mut_ptr(), y.as_ptr(), kind as u32);
        let (jobs, words, stride) =
            (jobs.as_ptr(), self.table.words.as_ptr(), self.stride() as u64);
        self.run(launch, arguments![dst, y, jobs, words, stride, stride, kind]);
    }

    fn rows_back(&self, dst: &mut Doubles, src: Option<&Doubles>, jobs: &[Job]) {
        let launch = Launch::intt_rows(self.log2_n, jobs.len() as u32, BATCH as u32);
        let dst = dst.as_mut_ptr();
        let src = src.map_or(dst.cast_const(), Doubles::as_ptr);
        let (jobs, words, stride) =
            (jobs.as_ptr(), self.table.words.as_ptr(), self.stride() as u64);
        self.run(launch, arguments![dst, src, jobs, words, stride, stride]);
    }

    /// The remainders of `residues` after so many layers of the tree, in its order.
    fn remainders(&self, prime: &Prime, residues: &[u64], layers: u32) -> Vec<u64> {
        let mut out = residues.to_vec();
        let n = self.n() as u64;
        split(prime, &mut out, n, layers);
        out
    }

    /// Layers of a column.
    fn layers(&self) -> u32 {
        self.log2_n - 12
    }

    /// The values of the last twelve layers of rows that are remainders: each row has its own power of ψ.
    fn leaves(&self, prime: &Prime, rows: &[u64]) -> Vec<u64> {
        let mut out = rows.to_vec();
        for (i, row) in out.chunks_mut(4096).enumerate() {
            split(prime, row, self.power_of(i, self.layers()), 12);
        }
        out
    }

    /// e where the node of this number, in the layer of 2^`layer`, is modulo X^(N/2^layer) − ψ^e.
    fn power_of(&self, node: usize, layer: u32) -> u64 {
        let n = self.n() as u64;
        // From the top: the first bit of the number is the first choice.
        (0..layer).rev().fold(n, |e, bit| e / 2 + n * (node as u64 >> bit & 1))
    }

    /// Values in the order of files from those of the tree.
    fn files(&self, leaves: &[u64]) -> Vec<u64> {
        let leaf = |i: usize| (i & !63) | (i & 7) << 3 | (i >> 3 & 7);
        (0..self.n()).map(|i| leaves[leaf(i)]).collect()
    }
}

/// Residues of some kind, up to `most` times p.
fn pattern(kind: usize, most: f64, prime: &Prime, count: usize, seed: u64) -> Vec<f64> {
    let top = most * prime.p as f64;
    let draws = random(seed + 1000 * kind as u64, count);
    let of = |(i, draw): (usize, &u64)| match kind {
        0 => residues::signed(*draw, top),
        1 => top,
        2 => -top,
        3 => [top, -top][i % 2],
        4 => [top, -top][(draw >> 40 & 1) as usize],
        _ => [1.0, -1.0][(draw >> 40 & 1) as usize] * (most * prime.p as f64 / 2.0).floor(),
    };
    draws.iter().enumerate().map(of).collect()
}
const PATTERNS: usize = 6;

fn whole(values: &[f64], p: u64) -> Vec<u64> {
    values.iter().map(|x| residue(*x, p)).collect()
}

/// Values are at most `most`, and of these residues.
fn check(found: &[f64], wanted: &[u64], prime: &Prime, most: f64, what: &str) {
    for (i, (x, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!(x.abs() <= most, "{what}: {x} at {i} modulo {} is large", prime.p);
        assert_eq!(residue(*x, prime.p), *wanted, "{what}: number {i} modulo {}", prime.p);
    }
}

/// What a kernel is tried with.
fn sizes() -> Vec<(u32, usize)> {
    vec![(12, PATTERNS), (13, PATTERNS), (14, 1), (15, 1), (16, PATTERNS), (17, 2)]
}

#[test]
fn rows_are_the_last_layers_and_the_epilogue() {
    for (log2_n, patterns) in sizes() {
        let mut bench = Bench::new(log2_n);
        for kind in 0..patterns {
            bench.seed = kind as u64;
            let epilogues = [Epilogue::None, Epilogue::Difference, Epilogue::Product];
            epilogues.iter().for_each(|epilogue| rows_with(&bench, kind, *epilogue));
        }
    }
}

fn rows_with(bench: &Bench, kind: usize, epilogue: Epilogue) {
    // Rows are in place; what is subtracted lies in another order.
    let count = bench.primes.len() as u32;
    let half = |job: &Job| bench.primes[job.word as usize].p / 2;
    let mut jobs = bench.jobs(false);
    jobs.iter_mut().for_each(|job| job.other = count - 1 - job.to);
    jobs.iter_mut().for_each(|job| job.factor = [1.0, -1.0][kind % 2] * half(job) as f64);
    let limb = |most: f64| {
        move |poly, prime: &Prime| pattern(kind, most, prime, bench.n(), poly as u64 + 7)
    };
    let src = bench.batch(&jobs, limb(4.0));
    let others: Vec<Job> = jobs.iter().map(|job| Job { from: job.other, ..*job }).collect();
    let y = bench.batch(&others, limb(1.0));
    let mut dst = src.clone();
    bench.rows(&mut dst, &y, &jobs, epilogue);
    for (poly, job) in (0..BATCH).flat_map(|poly| jobs.iter().map(move |job| (poly, job))) {
        let prime = &bench.primes[job.word as usize];
        let p = prime.p;
        let leaves = bench.leaves(prime, &whole(&bench.limb(&src, poly, job.to), p));
        let mut wanted = bench.files(&leaves);
        if epilogue == Epilogue::Difference {
            let y = whole(&bench.limb(&y, poly, job.other), p);
            wanted.iter_mut().zip(&y).for_each(|(x, y)| *x = (*x + p - y) % p);
        }
        if epilogue != Epilogue::None {
            let factor = residue(job.factor, p);
            wanted.iter_mut().for_each(|x| *x = mul(*x, factor, p));
        }
        let found = bench.limb(&dst, poly, job.to);
        check(&found, &wanted, prime, p as f64 / 2.0 + 1.0, "rows");
    }
}

/// The reference on what a kernel gives must be what it was given, but for the scale of as many halvings.
#[test]
fn rows_back_undo_the_last_layers() {
    for (log2_n, patterns) in sizes() {
        let mut bench = Bench::new(log2_n);
        for (kind, in_place) in (0..patterns).flat_map(|kind| [(kind, false), (kind, true)]) {
            bench.seed = kind as u64;
            let jobs = bench.jobs(!in_place);
            let limb = |poly, prime: &Prime| pattern(kind, 1.0, prime, 1 << log2_n, poly as u64);
            let src = bench.batch(&jobs, limb);
            let mut dst = if in_place { src.clone() } else { bench.empty() };
            bench.rows_back(&mut dst, (!in_place).then_some(&src), &jobs);
            for (poly, job) in (0..BATCH).flat_map(|poly| jobs.iter().map(move |job| (poly, job))) {
                let prime = &bench.primes[job.word as usize];
                let found = bench.limb(&dst, poly, job.to);
                assert!(found.iter().all(|x| x.abs() <= prime.p as f64), "N = 2^{log2_n}");
                let leaves = bench.leaves(prime, &whole(&found, prime.p));
                let given = whole(&bench.limb(&src, poly, job.from), prime.p);
                let given: Vec<u64> = given.iter().map(|x| mul(*x, 4096, prime.p)).collect();
                assert!(bench.files(&leaves) == given, "N = 2^{log2_n}, pattern {kind}");
            }
        }
    }
}

/// Values are those of the polynomial at odd powers of ψ, in the order of files; back are as many times the rows.
#[test]
fn transforms_are_evaluations_and_come_back() {
    for log2_n in [12, 13, 14, 15, 16, 17] {
        let bench = Bench::new(log2_n);
        let n = bench.n();
        let jobs = bench.jobs(false);
        let limb = |poly, prime: &Prime| pattern(4 * poly, 1.0, prime, n, 5);
        let polynomials = bench.batch(&jobs, limb);
        let rows = |poly, prime: &Prime| -> Vec<f64> {
            let f = whole(&limb(poly, prime), prime.p);
            let rows = bench.remainders(prime, &f, bench.layers());
            rows.iter().map(|x| centred(*x, prime.p)).collect()
        };
        let src = bench.batch(&jobs, rows);
        let mut data = src.clone();
        bench.rows(&mut data, &src, &jobs, Epilogue::None);
        for (poly, job) in (0..BATCH).flat_map(|poly| jobs.iter().map(move |job| (poly, job))) {
            let prime = &bench.primes[job.word as usize];
            let f = whole(&bench.limb(&polynomials, poly, job.from), prime.p);
            for i in [0, 1, 8, 9, 63, 64, n / 2 + 5, n - 1] {
                let leaf = (i & !63) | (i & 7) << 3 | (i >> 3 & 7);
                let e = 2 * ((leaf as u64).reverse_bits() >> (64 - log2_n)) + 1;
                let at = prime.power(e);
                let horner = f.iter().rev().fold(0, |sum, c| (mul(sum, at, prime.p) + c) % prime.p);
                let value = bench.limb(&data, poly, job.to)[i];
                assert_eq!(residue(value, prime.p), horner, "value {i} of 2^{log2_n}");
            }
        }
        bench.rows_back(&mut data, None, &jobs);
        for (poly, job) in (0..BATCH).flat_map(|poly| jobs.iter().map(move |job| (poly, job))) {
            let prime = &bench.primes[job.word as usize];
            let rows = whole(&bench.limb(&src, poly, job.from), prime.p);
            let wanted: Vec<u64> = rows.iter().map(|c| mul(*c, 4096, prime.p)).collect();
            check(&bench.limb(&data, poly, job.to), &wanted, prime, prime.p as f64, "back");
        }
    }
}
