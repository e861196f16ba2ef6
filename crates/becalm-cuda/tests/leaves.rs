//! The kernels of `kernels/leaves.cuh`: bundles word for word, the same rotation by 16 blocks and by 4, a step by its definition,
//! and both kernels beside each other.

mod harness;

use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Device as _, RINGS, Ring};
use becalm_emulator::Emulated;
use harness::Device;
use std::f64::consts::PI;

/// Coefficients and points of a polynomial, GGSW of a step, the torus.
const N: usize = 2048;
const M: usize = N / 2;
const GGSWS: usize = 15;
const UNIT: f64 = 4_194_304.0;

/// The ring that has these kernels.
fn ring() -> &'static Ring {
    let streamed = |r: &&Ring| r.log2_n == 11 && r.level == 1 && r.group_ggsws == 15;
    RINGS.iter().find(|r| streamed(r) && !r.is_exact()).expect("the ring")
}

/// splitmix64
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From −most to most.
    fn real(&mut self, most: f64) -> f64 {
        self.word() as i64 as f64 * 2f64.powi(-63) * most
    }
}

type Complex = [f64; 2];

fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn plus(a: Complex, b: Complex) -> Complex {
    [a[0] + b[0], a[1] + b[1]]
}

/// Leaf p is the value at ζ^this.
fn turn(p: usize) -> usize {
    1 + 4 * (p as u32).reverse_bits() as usize / (1 << 22)
}

/// Keys, exponents and accumulators at random, of the magnitudes that they have.
struct Case {
    jobs: usize,
    steps: usize,
    key: Vec<u64>,
    exponents: Vec<u32>,
    acc: Vec<u64>,
}

impl Case {
    fn new(jobs: usize, steps: usize) -> Self {
        let mut random = Random(steps as u64);
        let mut case = Case {
            jobs,
            steps,
            key: vec![0; steps * 16 * 4 * N],
            exponents: (0..jobs * steps * GGSWS).map(|_| random.word() as u32 % 4096).collect(),
            acc: (0..jobs * 2 * N).map(|_| random.real(UNIT / 2.0).to_bits()).collect(),
        };
        for step in 0..steps {
            for polynomial in 0..4 {
                for p in 0..M {
                    let mut sum = [0.0; 2];
                    for v in 0..GGSWS {
                        let value = [random.real(6.7e7), random.real(6.7e7)];
                        sum = plus(sum, value);
                        case.set(step, v, polynomial, p, value);
                    }
                    case.set(step, GGSWS, polynomial, p, [-sum[0], -sum[1]]);
                }
            }
        }
        case
    }

    /// Where a value of the key lies: leaf p = 64·part + 4i + q.
    fn place(step: usize, v: usize, polynomial: usize, p: usize) -> usize {
        let (part, i, q) = (p / 64, p % 64 / 4, p % 4);
        let (tile, leaf) = (8 * part + i % 8, 4 * (i / 8) + q);
        let code = v % 4 * 2 + polynomial / 2;
        2 * (((step * 128 + tile) * 16 + v) * 32 + polynomial * 8 + (leaf ^ code))
    }

    fn set(&mut self, step: usize, v: usize, polynomial: usize, p: usize, value: Complex) {
        let at = Self::place(step, v, polynomial, p);
        self.key[at..at + 2].copy_from_slice(&value.map(f64::to_bits));
    }

    fn value(&self, step: usize, v: usize, polynomial: usize, p: usize) -> Complex {
        let at = Self::place(step, v, polynomial, p);
        [f64::from_bits(self.key[at]), f64::from_bits(self.key[at + 1])]
    }

    /// The exponents of a job.
    fn exponents(&self, job: usize) -> &[u32] {
        &self.exponents[job * self.steps * GGSWS..][..self.steps * GGSWS]
    }

    /// The bundles of all jobs, each by some number of blocks; every flag must be up.
    fn bundles(&self, device: &Device, blocks: u32) -> (Vec<u64>, Vec<u32>) {
        let mut all = vec![];
        let mut up = vec![];
        for job in 0..self.jobs {
            let (bundles, flags) = device.bundle_stream(&self.key, self.exponents(job), blocks);
            assert!(flags.iter().all(|flag| *flag == 32), "{flags:?}");
            all.extend(bundles);
            up = flags;
        }
        (all, up)
    }
}

/// A place of the bundle of a step, its polynomial and leaf.
fn polynomial_and_leaf(at: usize) -> (usize, usize) {
    let (part, q, i) = (at / 256, at / 64 % 4, at / 4 % 16);
    let n = (at % 4) ^ (i / 2 % 4);
    let (column, row) = (n / 2, (n / 2) ^ (n & 1));
    (2 * row + column, 64 * part + 4 * i + q)
}

/// Bundles have the sums of the tensor cores: of four monomials the real parts, then the imaginary ones.
#[test]
fn bundles_have_their_layout_and_order_of_sums() {
    let case = Case::new(2, 2);
    for (seed, blocks) in [(0, 128), (1, 5), (2, 2)] {
        let device = Device { seed, ..Device::new(*ring()) };
        let (bundles, _) = case.bundles(&device, blocks);
        let root = |x: usize| {
            let at = 2 * (x % (2 * N));
            [f64::from_bits(device.table[at]), f64::from_bits(device.table[at + 1])]
        };
        for (at, got) in bundles.chunks(2).enumerate() {
            let (job, step) = (at / 4096 / case.steps, at / 4096 % case.steps);
            let (polynomial, p) = polynomial_and_leaf(at % 4096);
            let e = &case.exponents(job)[step * GGSWS..][..GGSWS];
            let e = |v: usize| if v < GGSWS { e[v] as usize } else { 0 };
            let terms: Vec<(Complex, Complex)> = (0..=GGSWS)
                .map(|v| (root(e(v) * turn(p)), case.value(step, v, polynomial, p)))
                .collect();
            let (mut re, mut im) = (0.0, 0.0);
            for four in terms.chunks(4) {
                for (f, k) in four {
                    re = f[0].mul_add(k[0], re);
                    im = f[0].mul_add(k[1], im);
                }
                for (f, k) in four {
                    re = (-f[1]).mul_add(k[1], re);
                    im = f[1].mul_add(k[0], im);
                }
            }
            assert_eq!([got[0], got[1]], [re, im].map(f64::to_bits), "{blocks} blocks, {at}");
        }
    }
}

/// Rings in shared memory of more and of fewer stages than steps; threads in any order.
#[test]
fn sixteen_blocks_and_four_give_the_same_words() {
    for (jobs, steps) in [(1, 11), (2, 3)] {
        let case = Case::new(jobs, steps);
        let (bundles, flags) = case.bundles(&Device::new(*ring()), 128);
        let mut first = None;
        for seed in [0, 1, 2] {
            let device = Device { seed, ..Device::new(*ring()) };
            for blocks in [16, 4] {
                let mut acc = case.acc.clone();
                device.rotate_leaves(blocks, &mut acc, &bundles, &flags);
                assert!(acc.iter().all(|x| f64::from_bits(*x).abs() <= UNIT / 2.0));
                let same = first.get_or_insert_with(|| acc.clone());
                assert!(*same == acc, "{blocks} blocks, seed {seed}");
            }
        }
    }
}

/// The values of a polynomial at the leaves, by its coefficients.
fn values(polynomial: &[f64], roots: &[Complex]) -> Vec<Complex> {
    let at = |p| {
        let term =
            |j: usize| times([polynomial[j], polynomial[j + M]], roots[j * turn(p) % (2 * N)]);
        (0..M).map(term).fold([0.0; 2], plus)
    };
    (0..M).map(at).collect()
}

/// And back.
fn coefficients(values: &[Complex], roots: &[Complex]) -> Vec<f64> {
    let at = |j: usize| {
        let term = |p: usize| times(values[p], roots[(2 * N - j * turn(p) % (2 * N)) % (2 * N)]);
        (0..M).map(term).fold([0.0; 2], plus).map(|x| x / M as f64)
    };
    let points: Vec<Complex> = (0..M).map(at).collect();
    (0..2).flat_map(|part| points.iter().map(move |z| z[part])).collect()
}

#[test]
fn a_step_is_what_its_definition_says() {
    let case = Case::new(1, 1);
    let roots: Vec<Complex> = (0..2 * N)
        .map(|x| (PI * x as f64 / N as f64).sin_cos())
        .map(|(sin, cos)| [cos, sin])
        .collect();
    let digits: Vec<f64> = case.acc.iter().map(|x| f64::from_bits(*x).round_ties_even()).collect();
    let rows: Vec<Vec<Complex>> = digits.chunks(N).map(|row| values(row, &roots)).collect();
    let mut wanted = vec![];
    for column in 0..2 {
        let sum = |p: usize| {
            let product = |row: usize| {
                let term = |v: usize| {
                    let [re, im] = roots[case.exponents[v] as usize * turn(p) % (2 * N)];
                    times([re - 1.0, im], case.value(0, v, 2 * row + column, p))
                };
                times(rows[row][p], (0..GGSWS).map(term).fold([0.0; 2], plus))
            };
            plus(product(0), product(1))
        };
        let sums: Vec<Complex> = (0..M).map(sum).collect();
        wanted.extend(coefficients(&sums, &roots));
    }
    let device = Device::new(*ring());
    let (bundles, flags) = case.bundles(&device, 7);
    let mut acc = case.acc.clone();
    device.rotate_leaves(16, &mut acc, &bundles, &flags);
    for ((got, digit), sum) in acc.iter().zip(digits).zip(wanted) {
        let apart = f64::from_bits(*got) - (digit + sum);
        let apart = apart - (apart / UNIT).round() * UNIT;
        assert!(apart.abs() < 4.0, "{apart} units");
    }
}

/// Memory of a device with these bytes.
fn upload(device: &Emulated, bytes: &[u8]) -> Argument {
    let at = device.allocate(bytes.len() as u64).unwrap();
    // SAFETY: just allocated.
    unsafe { device.upload(at, bytes) }.unwrap();
    Argument::Address(at)
}

fn upload_words(device: &Emulated, words: &[u64]) -> Argument {
    upload(device, &words.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
}

/// Both kernels on two streams: the rotation waits for each bundle, and begins first or second.
#[test]
fn bundles_come_while_the_rotation_runs() {
    let case = Case::new(1, 10);
    let (bundles, flags) = case.bundles(&Device::new(*ring()), 128);
    let mut wanted = case.acc.clone();
    let host = Device::new(*ring());
    host.rotate_leaves(16, &mut wanted, &bundles, &flags);
    for (seed, blocks) in [(0, 16), (1, 16), (2, 4), (3, 4)] {
        let device = Emulated::new(seed);
        let acc = upload_words(&device, &case.acc);
        let bundles = upload_words(&device, &vec![u64::MAX; bundles.len()]);
        let flags = upload(&device, &vec![0; 4 * flags.len()]);
        let key = upload_words(&device, &case.key);
        let exponents: Vec<u8> = case.exponents.iter().flat_map(|e| e.to_le_bytes()).collect();
        let (exponents, table) = (upload(&device, &exponents), upload_words(&device, &host.table));
        let steps = Argument::U32(case.steps as u32);
        let stride = Argument::U64(case.steps as u64 * 4096);
        device.follow(1, 0).unwrap();
        // SAFETY: what the kernels take, in memory of their sizes.
        unsafe {
            let rotation = Launch::rotate_leaves(1, blocks);
            let (no_tables, width) = (Argument::Address(0), Argument::U32(0));
            let lists = [acc, no_tables, no_tables, width];
            let arguments = [&lists[..], &[bundles, stride, flags, steps, table]].concat();
            device.launch(0, &ring().into(), &rotation, &arguments).unwrap();
            let arguments = [bundles, flags, key, exponents, steps, table];
            device.launch(1, &ring().into(), &Launch::bundle_stream(3), &arguments).unwrap();
        }
        let Argument::Address(at) = acc else { panic!("{acc:?}") };
        let mut bytes = vec![0; 8 * wanted.len()];
        // SAFETY: so many bytes are there.
        unsafe { device.download(&mut [(at, &mut bytes)]) }.unwrap();
        let same = bytes.chunks(8).zip(&wanted).all(|(got, wanted)| got == wanted.to_le_bytes());
        assert!(same, "{blocks} blocks, seed {seed}");
    }
}
