//! The kernels without keys against the library: transforms, key switch, modulus switch, linear instructions.

mod harness;

use becalm::math::Modulus;
use becalm::math::gadget::Gadget;
use becalm::math::simd::Level;
use becalm::params::{ModulusSwitch, Rotation};
use becalm::tfhe::key_switch::{KeySwitchKey, KeySwitchScratch, KeySwitchShape};
use becalm::tfhe::modulus_switch::modulus_switch;
use becalm_cuda::key_switch::KeySwitch;
use becalm_cuda::launch::{Launch, LinearOp, LinearTerm};
use becalm_cuda::{Arithmetic, RINGS, Ring, TEST_RINGS};
use harness::Device;
use proptest::prelude::*;

/// A generator of words (splitmix64).
fn words(seed: u64, count: usize) -> Vec<u64> {
    let word = |i: u64| {
        let mut z = (seed << 32).wrapping_add(i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    (0..count as u64).map(word).collect()
}

/// One ring of each size and number of threads.
fn sizes() -> Vec<Ring> {
    let doubles = |r: &Ring| r.arithmetic == Arithmetic::Double;
    let mut rings: Vec<Ring> = RINGS.iter().chain(TEST_RINGS).copied().filter(doubles).collect();
    rings.sort_by_key(|r| r.log2_n);
    rings.dedup_by_key(|r| r.log2_n);
    rings
}

#[test]
fn transforms_are_evaluations_and_come_back() {
    for ring in sizes() {
        let (n, m) = (ring.n() as usize, ring.m() as usize);
        let unit = 2f64.powi((ring.base_log * ring.level) as i32);
        let mut device = Device::new(ring);
        let polynomials = words(1, 3 * n);
        let values = device.to_fourier(&polynomials);
        let numbers: Vec<f64> = values.iter().map(|x| f64::from_bits(*x)).collect();
        assert_eq!(numbers.len(), 2 * 3 * m);
        let fractions: Vec<f64> = polynomials
            .iter()
            .map(|x| *x as i64 as f64 / 2f64.powi(64 - (ring.base_log * ring.level) as i32))
            .collect();
        // Leaf POINTS·t + r lies at r·THREADS + t and is the value at e^(iπ(4·rev + 1)/N).
        for at in (0..m).step_by(m / 8 - 1) {
            let leaf = at % ring.threads() as usize * ring.points() as usize
                + at / ring.threads() as usize;
            let turn = 4 * (leaf.reverse_bits() >> (usize::BITS - m.ilog2())) + 1;
            for p in 0..3 {
                let mut sum = [0.0, 0.0];
                for (j, a) in fractions[p * n..(p + 1) * n].iter().enumerate() {
                    let angle = std::f64::consts::PI * (turn * j % (2 * n)) as f64 / n as f64;
                    sum = [sum[0] + a * angle.cos(), sum[1] + a * angle.sin()];
                }
                let got = &numbers[2 * (p * m + at)..][..2];
                let error = (got[0] - sum[0]).hypot(got[1] - sum[1]);
                assert!(
                    error < 1e-12 * unit,
                    "{}: polynomial {p}, value {at}: {error}",
                    ring.name()
                );
            }
        }
        let back = device.in_coefficients(&values);
        let back_again = back.iter().map(|x| f64::from_bits(*x));
        let worst = back_again.zip(&fractions).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 2e-15 * unit, "{}: {worst}", ring.name());
        // The bits are the same for every order of the threads between barriers.
        for seed in 1..4 {
            device.seed = seed;
            assert!(device.to_fourier(&polynomials) == values, "{} order {seed}", ring.name());
            assert!(device.in_coefficients(&values) == back, "{} order {seed}", ring.name());
        }
    }
}

/// A ring whose words are modulo this.
fn any_ring(modulus: Modulus) -> Ring {
    let prime = modulus == Modulus::Goldilocks;
    *TEST_RINGS.iter().find(|r| (r.arithmetic == Arithmetic::Prime) == prime).unwrap()
}

/// The modulus of the words of a ring.
fn modulus(ring: &Ring) -> Modulus {
    if ring.arithmetic == Arithmetic::Prime { Modulus::Goldilocks } else { Modulus::Native }
}

/// Residues: values at the powers of ψ, and back, exactly.
#[test]
fn exact_transforms_are_evaluations_and_come_back() {
    let p = Modulus::Goldilocks;
    let exact = |r: &&Ring| r.is_exact();
    for ring in RINGS.iter().chain(TEST_RINGS).filter(exact) {
        let n = ring.n() as usize;
        let mut device = Device::new(*ring);
        let psi = device.table[1];
        let polynomials: Vec<u64> = words(2, 2 * n).into_iter().map(|x| p.reduce(x)).collect();
        let values = device.to_fourier(&polynomials);
        let residue = |x: u64| if ring.arithmetic == Arithmetic::Prime { x } else { x - (x >> 32) };
        let residues: Vec<u64> = polynomials.iter().map(|x| residue(*x)).collect();
        for at in (0..n).step_by(n / 8 - 1) {
            let threads = ring.threads() as usize;
            let leaf = at % threads * ring.points() as usize + at / threads;
            let turn = 2 * (leaf.reverse_bits() >> (usize::BITS - n.ilog2())) + 1;
            let x = (0..turn).fold(1, |x, _| p.mul(x, psi));
            for (q, polynomial) in residues.chunks(n).enumerate() {
                let wanted = polynomial.iter().rev().fold(0, |sum, a| p.add(p.mul(sum, x), *a));
                assert_eq!(p.reduce(values[q * n + at]), wanted, "{}: value {at}", ring.name());
            }
        }
        assert!(device.in_coefficients(&values) == residues, "{}", ring.name());
        device.seed = 3;
        assert!(device.to_fourier(&polynomials) == values, "{}", ring.name());
    }
}

fn check_key_switch(shape: KeySwitchShape, batch: usize, slices: u32, seed: u64) {
    let columns = shape.output_dimension + shape.bodies;
    let rows = (shape.input_dimension - shape.shared) * shape.gadget.level as usize;
    let mut key = words(seed, rows * columns);
    let mut input = words(seed + 1000, batch * (shape.input_dimension + shape.bodies));
    // Ends of the range, and ties.
    for (i, x) in input.iter_mut().enumerate().filter(|(i, _)| i % 5 == 0) {
        *x = [1 << 63, (1 << 63) - 1, u64::MAX, 1 << 62, 0][i / 5 % 5];
    }
    key.iter_mut().chain(&mut input).for_each(|x| *x = shape.modulus.reduce(*x));
    if shape.modulus_log2 == 32 {
        key.iter_mut().for_each(|x| *x &= u64::MAX << 32);
    }
    let per_element = shape.gadget.level as usize * columns;
    let fill = |i: usize, out: &mut [u64]| {
        out.copy_from_slice(&key[i * per_element..(i + 1) * per_element])
    };
    let cpu = KeySwitchKey::new(shape, Level::best(), fill).unwrap();
    let mut wanted = vec![0; batch * columns];
    cpu.apply(&input, &mut wanted, &mut KeySwitchScratch::new()).unwrap();
    let device_shape = KeySwitch {
        input_dimension: shape.input_dimension as u32,
        output_dimension: shape.output_dimension as u32,
        bodies: shape.bodies as u32,
        shared: shape.shared as u32,
        base_log: shape.gadget.base_log,
        level: shape.gadget.level,
        parts: KeySwitch::parts(shape.gadget.base_log),
        word: shape.modulus_log2,
    };
    let device = Device { seed, ..Device::new(any_ring(shape.modulus)) };
    let got = device.key_switch(device_shape, shape.modulus, &key, &input, slices);
    assert!(got == wanted, "{shape:?} batch {batch} slices {slices}");
}

/// The modulus of a key switch, and the bits of a word of its key.
const MODULI: &[(Modulus, u32)] =
    &[(Modulus::Native, 32), (Modulus::Native, 64), (Modulus::Goldilocks, 64)];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn key_switches_are_those_of_the_cpu(
        input_dimension in 1usize..120,
        output_dimension in 1usize..200,
        bodies in 1usize..=5,
        is_shared in any::<bool>(),
        base_log in 1u32..=9,
        level in 1u32..=9,
        (modulus, modulus_log2) in prop::sample::select(MODULI),
        batch in 1usize..=70,
        slices in 1u32..=7,
        seed in 0u64..1000,
    ) {
        let gadget = Gadget { base_log, level: level.min(modulus_log2 / base_log) };
        let shared = if is_shared { output_dimension.min(input_dimension - 1) } else { 0 };
        check_key_switch(
            KeySwitchShape { input_dimension, output_dimension, bodies, shared, gadget, modulus, modulus_log2 },
            batch, slices, seed,
        );
    }
}

/// More slices than rows, digits that fill the word, and digits of one and two parts.
#[test]
fn key_switches_at_the_edges() {
    for (base_log, level, modulus_log2) in [
        (8, 8, 64),
        (8, 4, 32),
        (1, 32, 32),
        (4, 4, 32),
        (7, 4, 32),
        (7, 9, 64),
        (9, 7, 64),
        (9, 3, 32),
    ] {
        let shape = KeySwitchShape {
            input_dimension: 20,
            output_dimension: 130,
            bodies: 1,
            shared: 0,
            gadget: Gadget { base_log, level },
            modulus: Modulus::Native,
            modulus_log2,
        };
        for slices in [1, 3, 20, 33] {
            check_key_switch(shape, 9, slices, 5);
            if modulus_log2 == 64 {
                let modulus = Modulus::Goldilocks;
                check_key_switch(KeySwitchShape { modulus, ..shape }, 9, slices, 5);
            }
        }
    }
}

#[test]
fn modulus_switches_are_those_of_the_cpu() {
    for ring in RINGS.iter().chain(TEST_RINGS) {
        let rotation = match (ring.group_bits, ring.group_ggsws) {
            (_, 0) => Rotation::Classic,
            (size, ggsws) if size == ggsws => Rotation::Block { size },
            (grouping, _) => Rotation::MultiBit { grouping },
        };
        let bodies = ring.bodies as usize;
        for (groups, kind) in
            [(1, ModulusSwitch::Plain), (263, ModulusSwitch::Plain), (263, ModulusSwitch::Centered)]
        {
            let dimension = groups * ring.group_bits as usize;
            let mut input = words(ring.log2_n.into(), 3 * (dimension + bodies));
            // Halves of cells, and the ends of the range.
            let half = 1u64 << (62 - ring.log2_n);
            for (i, x) in input.iter_mut().take(dimension + bodies).enumerate() {
                *x = [half.wrapping_mul(*x | 1), u64::MAX, 0, half - 1][i % 4];
            }
            let modulus = modulus(ring);
            input.iter_mut().for_each(|x| *x = modulus.reduce(*x));
            let mut wanted = vec![0; 3 * (groups * rotation.group_ggsws() + bodies)];
            let all = (rotation, kind);
            modulus_switch(
                all,
                modulus,
                ring.n() as usize,
                (dimension, bodies),
                &input,
                &mut wanted,
            )
            .unwrap();
            let device = Device { seed: 3, ..Device::new(*ring) };
            let got = device.modulus_switch(&input, dimension as u32, kind);
            assert!(got == wanted, "{} {kind:?} {groups} groups", ring.name());
        }
    }
}

/// Every error of a rounding half a cell, so that sums are as large as they get.
#[test]
fn sums_of_rounding_errors_do_not_overflow() {
    for ring in TEST_RINGS {
        if ring.group_ggsws > 0 || ring.arithmetic == Arithmetic::Prime {
            continue;
        }
        let dimension = 1100;
        let half = 1u64 << (62 - ring.log2_n);
        for word in [half, half - 1] {
            let input = vec![word; dimension + ring.bodies as usize];
            let mut wanted = vec![0; input.len()];
            let all = (Rotation::Classic, ModulusSwitch::Centered);
            let shape = (dimension, ring.bodies as usize);
            modulus_switch(all, Modulus::Native, ring.n() as usize, shape, &input, &mut wanted)
                .unwrap();
            let got = Device::new(*ring).modulus_switch(
                &input,
                dimension as u32,
                ModulusSwitch::Centered,
            );
            assert_eq!(got, wanted, "{}", ring.name());
        }
    }
}

/// Sums of many terms, constants in bodies, one body out of several, copies and zeros: all in one launch.
#[test]
fn linear_instructions_are_sums() {
    linear(Modulus::Native);
    linear(Modulus::Goldilocks);
}

fn linear(q: Modulus) {
    let device = Device::new(any_ring(q));
    let (width, bodies, lanes) = (23usize, 3usize, 29);
    let mask = width - bodies;
    let reduced = |i| words(i, width * lanes).iter().map(|x| q.reduce(*x)).collect();
    let batches: Vec<Vec<u64>> = (0..37).map(reduced).collect();
    let constants = [1u64 << 63, 7, 1 << 20];
    let factor = |i: usize| q.from_signed(i as i64 * 77 - 1000);
    let terms: Vec<LinearTerm> = (0..37)
        .map(|i| LinearTerm { src: batches[i].as_ptr() as u64, factor: factor(i) })
        .chain([LinearTerm { src: batches[0].as_ptr() as u64, factor: 1 }])
        .collect();
    let shape = LinearOp {
        rows: lanes as u32,
        width: width as u32,
        bodies: bodies as u32,
        dst_stride: width as u32,
        src_stride: width as u32,
        ..LinearOp::default()
    };
    let counts = [0usize, 1, 2, 16, 37];
    let mut sums = vec![vec![3u64; width * lanes]; counts.len()];
    let mut slots = vec![vec![3u64; (mask + 1) * lanes]; bodies];
    let sum = sums.iter_mut().zip(counts).enumerate().map(|(i, (dst, count))| LinearOp {
        dst: dst.as_mut_ptr() as u64,
        constants: if i % 2 == 0 { constants.as_ptr() as u64 } else { 0 },
        terms: count as u32,
        ..shape
    });
    let slot = slots.iter_mut().enumerate().map(|(slot, dst)| LinearOp {
        dst: dst.as_mut_ptr() as u64,
        first_term: 37,
        terms: 1,
        width: mask as u32 + 1,
        bodies: 1,
        dst_stride: mask as u32 + 1,
        body_shift: slot as u32,
        ..shape
    });
    let ops: Vec<LinearOp> = sum.chain(slot).collect();
    device.linear(&ops, &terms, (width * lanes) as u64);
    for (i, (sum, count)) in sums.iter().zip(counts).enumerate() {
        for (at, got) in sum.iter().enumerate() {
            let body = (at % width).checked_sub(mask).filter(|_| i % 2 == 0);
            let terms = (0..count).map(|t| q.mul(batches[t][at], factor(t)));
            let wanted = terms.fold(body.map_or(0, |b| constants[b]), |s, x| q.add(s, x));
            assert_eq!(*got, wanted, "{count} terms, word {at}");
        }
    }
    for (slot, got) in slots.iter().enumerate() {
        let wanted =
            batches[0].chunks(width).flat_map(|ct| [&ct[..mask], &ct[mask + slot..][..1]].concat());
        assert!(got.iter().copied().eq(wanted), "slot {slot}");
    }
}

/// Bundles by the tensor cores: the words of the kernel for vector units, for few and for many ciphertexts, groups and leaves.
#[test]
fn bundles_by_tensor_cores_have_the_same_words() {
    let all = RINGS.iter().chain(TEST_RINGS);
    let rings: Vec<_> = all.filter(|r| Launch::bundle_tensor(r, 1, 1).is_some()).collect();
    assert!(rings.len() >= 5);
    for ring in rings {
        let small = ring.log2_n < 10;
        for (jobs, seed) in [(1usize, 0), (if small { 139 } else { 11 }, 7)] {
            let device = Device { seed, ..Device::new(*ring) };
            let (groups, ggsws) = (3usize, ring.group_ggsws as usize);
            // Any values of a transform of a key.
            let value = |x: &u64| ((*x as i64) as f64 * 2f64.powi(-60)).to_bits();
            let key: Vec<u64> =
                words(1, groups * ggsws * device.ggsw_len()).iter().map(value).collect();
            let width = groups * ggsws + ring.bodies as usize;
            let turns = words(2, jobs * width);
            let exponents: Vec<u32> = turns.iter().map(|x| *x as u32 % (2 * ring.n())).collect();
            let wanted = device.bundle(&key, &exponents, jobs, 1..3);
            let launch = Launch::bundle_tensor(ring, 2, jobs as u32).unwrap();
            let got = device.bundle_by(&launch, &key, &exponents, jobs, 1..3);
            assert!(got == wanted, "{} {jobs} jobs", ring.name());
        }
    }
}
