//! Products with keys by `kernels/rns/key.cuh` and `baby.cuh`, against integers.

mod residues;

use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Baby, Diagonal, KeyLimb, Turned};
use residues::bench::{Bench, Order, Random, check, primes, word};
use residues::{mul, pow, residue};

const BITS: [f64; 5] = [49.9, 20.0, 43.0, 32.0, 49.0];

/// Something that a kernel reads: here and in the device's memory, 0 if it is not there.
struct Held {
    values: Vec<f64>,
    at: u64,
}

impl Held {
    fn new(bench: &Bench, values: Vec<f64>) -> Held {
        Held { at: bench.doubles(&values), values }
    }

    fn none() -> Held {
        Held { at: 0, values: vec![] }
    }

    /// Modulo p; zero if it is not there.
    fn residue(&self, i: usize, p: u64) -> u64 {
        self.values.get(i).map_or(0, |x| residue(*x, p))
    }
}

/// The limbs of a result, and a polynomial with its digits.
struct Shape {
    log2_n: u32,
    primes: Vec<u64>,
    digits: usize,
    stored: usize,
    /// Limbs from one digit to the next: all, or none where a digit is as every other.
    step: usize,
    owned: usize,
    extreme: bool,
}

impl Shape {
    fn n(&self) -> usize {
        1 << self.log2_n
    }

    fn count(&self) -> usize {
        self.primes.len()
    }

    fn limbs(&self, random: &mut Random) -> Vec<KeyLimb> {
        let limb = |(i, p): (usize, &u64)| KeyLimb {
            word: (self.count() - 1 - i) as u32,
            // The last limb is a special one, and in no digit.
            special: u32::from(i + 1 == self.count()),
            digit: if i + 1 == self.count() { u32::MAX } else { (i % self.digits) as u32 },
            factor: if self.extreme { (p / 2) as f64 } else { random.centred(*p, 1)[0] },
            ..KeyLimb::default()
        };
        self.primes.iter().enumerate().map(limb).collect()
    }

    /// The words, in the opposite order.
    fn words(&self) -> Vec<u64> {
        self.primes.iter().rev().flat_map(|p| word(*p).words()).collect()
    }

    fn polynomial(&self, bench: &Bench, random: &mut Random, copies: usize) -> Held {
        let all = (0..copies).flat_map(|_| random.limbs(&self.primes, self.n(), self.extreme));
        Held::new(bench, all.collect())
    }

    /// The limb of a digit of a key for limb i: special ones stand at the end.
    fn place(&self, i: usize) -> usize {
        if i + 1 == self.count() { self.stored - 1 } else { i }
    }

    /// A key polynomial: of every digit more limbs than are used, each modulo the word at its place.
    fn key(&self, bench: &Bench, random: &mut Random) -> Held {
        let mut places = vec![3; self.stored];
        self.primes.iter().enumerate().for_each(|(i, p)| places[self.place(i)] = *p);
        let all = (0..self.digits).flat_map(|_| random.limbs(&places, self.n(), self.extreme));
        Held::new(bench, all.collect())
    }
}

/// A polynomial that is rotated.
struct Source {
    own: [Held; 2],
    lifted: Held,
    values: Held,
}

impl Source {
    fn new(shape: &Shape, bench: &Bench, random: &mut Random, has: [bool; 2]) -> Source {
        let own = has.map(|has| match has {
            true => shape.polynomial(bench, random, 1),
            false => Held::none(),
        });
        let lifted = shape.polynomial(bench, random, shape.digits);
        Source { own, lifted, values: shape.polynomial(bench, random, 1) }
    }

    /// f·own_k, if that counts, + Σ row·key_k at one value, from value `s`; `key`: bodies or masks, or none.
    fn rotated(
        &self,
        shape: &Shape,
        (i, limb): (usize, &KeyLimb),
        own: Option<usize>,
        key: Option<&Held>,
        [x, s]: [usize; 2],
    ) -> u64 {
        let (p, n) = (shape.primes[i], shape.n());
        let mut sum = 0;
        if let Some(k) = own.filter(|_| i < shape.owned) {
            sum = mul(self.own[k].residue(i * n + s, p), residue(limb.factor, p), p);
        }
        for (j, key) in (0..shape.digits).filter_map(|j| Some((j, key?))) {
            let row = match limb.digit as usize == j {
                true => self.values.residue(i * n + s, p),
                false => self.lifted.residue((j * shape.step + i) * n + s, p),
            };
            let place = (j * shape.stored + shape.place(i)) * n + x;
            sum = (sum + mul(row, key.residue(place, p), p)) % p;
        }
        sum
    }
}

fn powers(log2_n: u32) -> [u64; 4] {
    [1, 5, (2 << log2_n) - 1, pow(5, 77, 2 << log2_n)]
}

/// The values of some things one after another.
fn joined<'a>(bench: &Bench, all: impl Iterator<Item = &'a Held>) -> u64 {
    let values: Vec<f64> = all.flat_map(|held| &held.values).copied().collect();
    if values.is_empty() { 0 } else { bench.doubles(&values) }
}

/// A key product; `has`: the own parts and the base, of which the last may be where the result comes.
fn product(shape: &Shape, power: u64, has: [bool; 3], in_place: bool, seed: u64) {
    products(shape, power, has, in_place, seed, 1);
}

/// Key products of some polynomials.
fn products(
    shape: &Shape,
    power: u64,
    has: [bool; 3],
    in_place: bool,
    seed: u64,
    polynomials: usize,
) {
    let (bench, mut random) = (Bench::new(shape.log2_n, seed), Random(seed));
    let (n, count, order) = (shape.n(), shape.count(), Order::new(shape.log2_n));
    let limbs = shape.limbs(&mut random);
    let sources: Vec<Source> = (0..polynomials)
        .map(|_| Source::new(shape, &bench, &mut random, [has[0], has[1]]))
        .collect();
    let copies = 2 * polynomials;
    let base = if has[2] { shape.polynomial(&bench, &mut random, copies) } else { Held::none() };
    let keys = [shape.key(&bench, &mut random), shape.key(&bench, &mut random)];
    let out = if in_place { base.at } else { bench.clear(copies * count * n) };
    let tables =
        [limbs.iter().flat_map(KeyLimb::words).collect(), shape.words()].map(|w| bench.put(&w));
    let own = [0, 1].map(|k| joined(&bench, sources.iter().map(|source| &source.own[k])));
    let lifted = joined(&bench, sources.iter().map(|source| &source.lifted));
    let values = joined(&bench, sources.iter().map(|source| &source.values));
    let mut arguments = [out, base.at, own[0], own[1]].map(Argument::Address).to_vec();
    arguments.push(Argument::U32(shape.owned as u32));
    let pointers = [lifted, values, tables[0], tables[1], keys[0].at, keys[1].at];
    arguments.extend(pointers.map(Argument::Address));
    let numbers = [shape.stored, shape.digits, shape.step, count, power as usize, polynomials];
    arguments.extend(numbers.map(|x| Argument::U32(x as u32)));
    let strides = [count * n, count * n, shape.digits * count * n];
    arguments.extend(strides.map(|x| Argument::U64(x as u64)));
    let launch = Launch::key_product(shape.log2_n, count as u32, polynomials as u32);
    bench.launch(&launch, &arguments);
    let got = bench.values(out, copies * count * n);
    for (at, x) in got.iter().enumerate() {
        let (b, k, i, j) = (at / n / count / 2, at / n / count % 2, at / n % count, at % n);
        let from = [j, order.source(j, power)];
        let sum = sources[b].rotated(shape, (i, &limbs[i]), Some(k), Some(&keys[k]), from);
        let p = shape.primes[i];
        let what = || format!("{power}, {has:?}: {polynomials}, {b}, {k}, {i}, {j}");
        check(*x, p, sum + base.residue(at, p), what);
    }
}

/// Polynomials of one launch, with strides of their own.
#[test]
fn key_products_of_several_polynomials_are_exact() {
    let primes = primes(12, &[49.99, 20.0, 43.0]);
    for (at, polynomials) in [2, 3, 4, 5, 8].into_iter().enumerate() {
        let (extreme, digits) = (at % 2 == 0, [3, 6, 1, 2, 4][at]);
        let (stored, step, owned) = (4, primes.len(), primes.len() - at % 2);
        let primes = primes.clone();
        let shape = Shape { log2_n: 12, primes, digits, stored, step, owned, extreme };
        let has = [true, polynomials == 3, at % 2 == 1];
        products(&shape, powers(12)[at % 4], has, has[2], 5, polynomials);
    }
}

#[test]
fn key_products_are_exact() {
    let primes = primes(12, &BITS);
    for digits in 1..=6 {
        for (at, power) in powers(12).into_iter().enumerate() {
            let extreme = (digits + at) % 3 == 0;
            let shape = Shape {
                log2_n: 12,
                primes: primes.clone(),
                digits,
                stored: primes.len() + digits % 2,
                // Where a digit is as every other, all of them are lifted.
                step: if digits == 3 { 0 } else { primes.len() },
                owned: primes.len() - at % 2 * 2,
                extreme,
            };
            let has = [digits % 2 == 0, at % 2 == 0, (digits + at) % 2 == 0];
            product(&shape, power, has, has[2] && digits > 2, digits as u64);
        }
        let all = Shape {
            log2_n: 12,
            primes: primes.clone(),
            digits,
            stored: 5,
            step: primes.len(),
            owned: 5,
            extreme: true,
        };
        product(&all, 5, [true; 3], false, 1);
    }
}

#[test]
fn larger_key_products_are_exact() {
    let primes = primes(16, &[49.9, 32.0]);
    for power in [1, pow(5, 77, 1 << 17)] {
        let shape = Shape {
            log2_n: 16,
            primes: primes.clone(),
            digits: 2,
            stored: 3,
            step: 2,
            owned: 1,
            extreme: false,
        };
        product(&shape, power, [true, false, true], false, 4);
    }
}

/// Baby steps of a linear map.
struct Map {
    lanes: usize,
    /// Inputs of each.
    inputs: usize,
    babies: usize,
    giants: usize,
    first: usize,
    all: usize,
    kept: bool,
}

/// A diagonal: 0 none, 1 tiled, 2 whole.
fn diagonal(shape: &Shape, bench: &Bench, random: &mut Random, kind: u64) -> (Held, Diagonal) {
    let (n, kept) = (shape.n(), Diagonal::default());
    if kind == 0 {
        return (Held::none(), kept);
    }
    let len = if kind == 1 { n / 8 } else { n };
    let held = Held::new(bench, random.limbs(&shape.primes, len, shape.extreme));
    let record = Diagonal { at: held.at, tiled: u32::from(kind == 1), ..kept };
    (held, record)
}

/// What the baby steps read.
struct Steps<'a> {
    shape: &'a Shape,
    map: &'a Map,
    order: Order,
    limbs: Vec<KeyLimb>,
    /// The inputs of the first lane, then those of the next.
    sources: Vec<Source>,
    keys: Vec<Option<[Held; 2]>>,
    diagonals: Vec<(Held, Diagonal)>,
    /// What is in the place of the results.
    before: Held,
}

impl<'a> Steps<'a> {
    fn new(shape: &'a Shape, map: &'a Map, bench: &Bench, random: &mut Random) -> Self {
        let has = random.below(3) > 0;
        let limbs = shape.limbs(random);
        let source = |m| Source::new(shape, bench, random, [m == 0, has]);
        let sources = (0..map.lanes * map.inputs).map(source).collect();
        // The first step is the polynomial itself.
        let key = |b| (b > 0).then(|| [(); 2].map(|()| shape.key(bench, random)));
        let keys = (0..map.babies).map(key).collect();
        let diagonals = (0..map.babies * map.inputs * map.all)
            .map(|_| {
                let kind = if shape.extreme { 2 } else { random.below(3) };
                diagonal(shape, bench, random, kind)
            })
            .collect();
        let before = shape.polynomial(bench, random, 2 * map.lanes * map.all);
        Steps {
            shape,
            map,
            order: Order::new(shape.log2_n),
            limbs,
            sources,
            keys,
            diagonals,
            before,
        }
    }

    fn power(&self, b: usize) -> u64 {
        pow(powers(self.shape.log2_n)[1 + b % 3], b as u64, 2 << self.shape.log2_n)
    }

    fn tables(&self) -> [Vec<u64>; 5] {
        let turned = |source: &Source| Turned {
            own0: source.own[0].at,
            own1: source.own[1].at,
            lifted: source.lifted.at,
            values: source.values.at,
            owned: self.shape.owned as u32,
            ..Turned::default()
        };
        let baby = |(b, key): (usize, &Option<[Held; 2]>)| {
            let at = |k: usize| key.as_ref().map_or(0, |key| key[k].at);
            let (power, stored) = (self.power(b) as u32, self.shape.stored as u32);
            Baby { bodies: at(0), masks: at(1), power, stored, unused: 0 }
        };
        [
            self.sources.iter().flat_map(|source| turned(source).words()).collect(),
            self.keys.iter().enumerate().flat_map(|each| baby(each).words()).collect(),
            self.diagonals.iter().flat_map(|(_, diagonal)| diagonal.words()).collect(),
            self.limbs.iter().flat_map(KeyLimb::words).collect(),
            self.shape.words(),
        ]
    }

    fn launch(&self, bench: &Bench) -> Vec<f64> {
        let (shape, map) = (self.shape, self.map);
        let len = 2 * map.lanes * shape.count() * shape.n();
        let mut arguments = vec![Argument::Address(self.before.at + (map.first * len * 8) as u64)];
        arguments.extend(self.tables().iter().map(|words| Argument::Address(bench.put(words))));
        let numbers =
            [map.babies, map.inputs, map.giants, map.first, map.all, shape.digits, shape.count()];
        arguments.extend(numbers.map(|x| Argument::U32(x as u32)));
        arguments.extend([map.kept.into(), map.lanes as u32].map(Argument::U32));
        let [count, giants, lanes] = [shape.count(), map.giants, map.lanes].map(|x| x as u32);
        let launch = Launch::key_baby(shape.log2_n, count, giants, lanes);
        bench.launch(&launch, &arguments);
        bench.values(self.before.at, map.all * len)
    }

    /// Adds the products of input `m` of a lane in baby step `b`.
    fn add(&self, wanted: &mut [u64], b: usize, [lane, m]: [usize; 2]) {
        let (shape, map, key) = (self.shape, self.map, &self.keys[b]);
        let (n, count, power) = (shape.n(), shape.count(), self.power(b));
        let diagonals = &self.diagonals[(b * map.inputs + m) * map.all..];
        for at in 0..2 * count * n {
            let (k, i, x) = (at / n / count, at / n % count, at % n);
            let s = if key.is_some() { self.order.source(x, power) } else { x };
            let (key, limb) = (key.as_ref().map(|key| &key[k]), (i, &self.limbs[i]));
            // Of a mask that is rotated the digits alone count.
            let own = (key.is_none() || k == 0).then_some(k);
            let source = &self.sources[lane * map.inputs + m];
            let value = source.rotated(shape, limb, own, key, [x, s]);
            for g in map.first..map.first + map.giants {
                let (held, diagonal) = &diagonals[g];
                let place = match diagonal.tiled {
                    1 => i * n / 8 + x / 64 * 8 + x % 8,
                    _ => i * n + x,
                };
                let place = (place, (g * map.lanes + lane) * 2 * count * n + at);
                let (sum, p, place) = (&mut wanted[place.1], shape.primes[i], place.0);
                *sum = (*sum + mul(value, held.residue(place, p), p)) % p;
            }
        }
    }
}

fn map(shape: &Shape, map: &Map, seed: u64) {
    let bench = Bench::new(shape.log2_n, seed);
    let steps = Steps::new(shape, map, &bench, &mut Random(seed));
    let got = steps.launch(&bench);
    let mut wanted: Vec<u64> = vec![0; got.len()];
    for b in 0..map.babies {
        let each = (0..map.lanes).flat_map(|lane| (0..map.inputs).map(move |m| [lane, m]));
        each.for_each(|which| steps.add(&mut wanted, b, which));
    }
    let (n, count, before) = (shape.n(), shape.count(), &steps.before);
    for (at, (x, wanted)) in got.iter().zip(&wanted).enumerate() {
        let (g, i) = (at / (2 * map.lanes * count * n), at / n % count);
        if g < map.first || g >= map.first + map.giants {
            assert_eq!(*x, before.values[at], "another giant step");
            continue;
        }
        let p = shape.primes[i];
        let first = if map.kept { before.residue(at, p) } else { 0 };
        check(*x, p, wanted + first, || format!("{g}, {i}, {}", at % n));
    }
}

#[test]
fn baby_steps_are_exact() {
    let primes = primes(12, &BITS);
    for giants in 1..=8 {
        for inputs in 1..=2 {
            let shape = Shape {
                log2_n: 12,
                primes: primes[giants % 2..][..3 + giants % 2].to_vec(),
                digits: [3, 1, 4, 2, 6, 5][(giants + inputs) % 6],
                stored: 4 + inputs,
                step: 3 + giants % 2,
                owned: 3,
                extreme: false,
            };
            let first = giants % 3;
            let all = first + giants + inputs % 2;
            let kept = (giants + inputs) % 2 == 0;
            let babies = 1 + giants % 4;
            let one = Map { lanes: 1, inputs, babies, giants, first, all, kept };
            map(&shape, &one, (giants + 10 * inputs) as u64);
        }
    }
}

/// Lanes of one launch, whose neighbouring blocks have the same part of the keys and diagonals.
#[test]
fn baby_steps_of_several_lanes_are_exact() {
    let primes = primes(12, &[49.9, 20.0]);
    for (lanes, inputs, giants) in
        [(4, 1, 2), (2, 1, 3), (3, 1, 4), (2, 2, 2), (3, 2, 4), (2, 1, 8)]
    {
        let (stored, step, owned, extreme) = (3, 2, 2, lanes == 4);
        let primes = primes.clone();
        let shape = Shape { log2_n: 12, primes, digits: 3, stored, step, owned, extreme };
        let (babies, first, all, kept) = (3, giants % 2, giants + 1, inputs == 2 || giants == 3);
        map(&shape, &Map { lanes, inputs, babies, giants, first, all, kept }, 11);
    }
}

/// The largest residues everywhere, with more products than a lazy sum takes.
#[test]
fn long_baby_steps_are_settled() {
    let primes = primes(12, &[49.99, 20.0]);
    for (digits, inputs, babies, kept) in [(3, 2, 9, true), (6, 2, 5, true), (4, 1, 17, false)] {
        let shape = Shape {
            log2_n: 12,
            primes: primes.clone(),
            digits,
            stored: 2,
            step: 2,
            owned: 2,
            extreme: true,
        };
        map(&shape, &Map { lanes: 1, inputs, babies, giants: 2, first: 0, all: 2, kept }, 7);
    }
}
