//! Whole bootstraps on the kernels: key switch, modulus switch, rotation on every path, extraction, under real keys.
//!
//! Phases must decrypt to what the table says, lie within the noise formula, and differ from the CPU's by no more than the
//! FFT's term of it and what that sets off; sets modulo p give the CPU's words. BECALM_FULL=1 runs full sizes.

#[path = "../../becalm/tests/full/mod.rs"]
mod full;
mod harness;

use becalm::bootstrap::tfhe::classic::{BootstrapKey, sample_extract};
use becalm::bootstrap::tfhe::extended::load_table;
use becalm::cipher::{Encoding, KeyRole, SecretKey};
use becalm::math::Modulus;
use becalm::math::simd::Level;
use becalm::params::{ModulusSwitch, Order, Rotation, TfheParams};
use becalm::tfhe::Table;
use becalm::tfhe::noise::NoiseReport;
use becalm_cuda::key_switch::KeySwitch;
use becalm_cuda::launch::{Launch, Path};
use becalm_cuda::{Arithmetic, RINGS, Ring, TEST_RINGS};
use full::full;
use harness::Device;
use std::ops::RangeInclusive;

/// Keys of a set, and what the device has of them.
struct Keys {
    params: TfheParams,
    secret: SecretKey,
    cpu: BootstrapKey,
    device: Device,
    fourier: Vec<u64>,
    switching: Vec<u64>,
}

impl Keys {
    fn new(params: TfheParams) -> Self {
        let ring = harness::ring(&params);
        Self::on(params, ring)
    }

    /// The same for words modulo 2^64 with transforms of residues.
    fn exact(params: TfheParams) -> Self {
        let ring = Ring { arithmetic: Arithmetic::Exact, ..harness::ring(&params) };
        Self::on(params, ring)
    }

    fn on(params: TfheParams, ring: Ring) -> Self {
        let secret = SecretKey::generate(&params, true).unwrap();
        let evaluation = secret.evaluation_key().unwrap();
        let cpu = BootstrapKey::new(&evaluation, Level::best()).unwrap();
        let device = Device::new(ring);
        let fourier = device.to_fourier(&evaluation.bootstrap_words());
        let switching = evaluation.key_switch_words();
        Keys { params, secret, cpu, device, fourier, switching }
    }

    fn key_switch(&self, input: &[u64]) -> Vec<u64> {
        let p = &self.params;
        let shape = KeySwitch {
            input_dimension: p.big_dimension() as u32,
            output_dimension: p.lwe_dimension as u32,
            bodies: p.slots as u32,
            shared: p.shared_dimension() as u32,
            base_log: p.ks.base_log,
            level: p.ks.level,
            parts: KeySwitch::parts(p.ks.base_log),
            word: p.ks_modulus_log2,
        };
        self.device.key_switch(shape, p.modulus, &self.switching, input, 5)
    }

    /// Phases of ciphertexts under the big key, `[ciphertext][slot]`.
    fn phases(&self, cts: &[u64]) -> Vec<u64> {
        let p = &self.params;
        let (mask, slots) = (p.big_dimension(), p.slots);
        let q = p.modulus;
        let phase = |ct: &[u64], slot: usize| {
            let role = if slots == 1 { KeyRole::Big } else { KeyRole::Slot(slot as u32) };
            let key = self.secret.expose(role);
            q.to_torus(
                ct.iter().zip(key).fold(ct[mask + slot], |b, (a, s)| q.sub(b, q.mul(*a, *s))),
            )
        };
        cts.chunks(mask + slots).flat_map(|ct| (0..slots).map(move |s| phase(ct, s))).collect()
    }

    /// Accumulators of the CPU for the same small ciphertexts, as big ciphertexts.
    fn on_cpu(&self, table: &[u64], small: &[u64]) -> Vec<u64> {
        let p = &self.params;
        let inputs: Vec<&[u64]> = small.chunks(p.lwe_dimension + p.slots).collect();
        let mut accs = table.repeat(inputs.len());
        let mut scratch = self.cpu.scratch(inputs.len()).unwrap();
        self.cpu.rotate(&mut accs, &inputs, &mut scratch).unwrap();
        let width = p.big_dimension() + p.slots;
        let mut out = vec![0; inputs.len() * width];
        for (acc, out) in accs.chunks(table.len()).zip(out.chunks_mut(width)) {
            sample_extract(p.modulus, p.polynomial_size, acc, 0, out);
        }
        out
    }

    /// Bootstraps of `jobs` ciphertexts by x → 3x + 1 on some paths, in chunks of steps.
    fn check(&self, jobs: usize, paths: &[Path], chunk: usize) {
        let p = &self.params;
        let encoding = Encoding::of(p);
        let f = |x: u64| (3 * x + 1) % encoding.values;
        let values: Vec<u64> =
            (0..(jobs * p.slots) as u64).map(|i| i * 5 % encoding.values).collect();
        let ct = self.secret.encrypt(&values).unwrap();
        let small = match p.order {
            Order::KsPbs => self.key_switch(ct.words()),
            Order::PbsKs => ct.words().to_vec(),
        };
        let polynomial = Table::from_fn(p, f).unwrap();
        let mut table = vec![0; (p.glwe_dimension + p.slots) * p.polynomial_size];
        (0..p.slots).for_each(|slot| load_table(p, slot, polynomial.polynomial(), &mut table));
        let exponents =
            self.device.modulus_switch(&small, p.lwe_dimension as u32, p.modulus_switch);
        let start = self.device.load_table(&table, &exponents, jobs);
        let on_cpu = self.on_cpu(&table, &small);
        let cpu = self.phases(&on_cpu);
        let mut first: Option<Vec<u64>> = None;
        let there = |path: &&Path| Launch::rotate(&self.device.ring, **path, 1).is_some();
        for path in paths.iter().filter(there) {
            let mut acc = start.clone();
            self.device.rotate_all(*path, &mut acc, &self.fourier, &exponents, chunk);
            let half = 2f64.powi((p.pbs.base_log * p.pbs.level) as i32 - 1);
            match self.device.ring.arithmetic {
                Arithmetic::Double => assert!(acc.iter().all(|x| f64::from_bits(*x).abs() <= half)),
                _ => assert!(acc.iter().all(|x| Modulus::Goldilocks.is_reduced(*x))),
            }
            let out = self.device.sample_extract(&acc, &[0]);
            let got = self.phases(&out);
            let encode = |v| p.modulus.to_torus(encoding.encode(p.modulus, f(v) as i64));
            let wanted: Vec<u64> = values.iter().map(|v| encode(*v)).collect();
            let what = format!("{} {} {path:?}", p.name, self.device.ring.name());
            self.close(&got, &wanted, &cpu, &what);
            if p.modulus == Modulus::Goldilocks {
                assert!(out == on_cpu, "{what}: other words than on the CPU");
            }
            let same = first.get_or_insert_with(|| out.clone());
            assert!(*same == out, "{} {path:?}: other words than on {:?}", p.name, paths[0]);
        }
    }

    fn close(&self, got: &[u64], wanted: &[u64], cpu: &[u64], what: &str) {
        let p = &self.params;
        let noise = NoiseReport::of(p).blind_rotation;
        let units = 2f64.powi(64);
        // As `tests/conformance.rs` of the library allows between backends: a digit that rounding flips early takes other
        // noise of the key in all that follows.
        let grouped = p.rotation.group_bits() > 1;
        let deviations = if grouped { 9.0 } else { 7.0 };
        let between = deviations * (2.0 * noise.total() - noise.fft).sqrt() * units + 4.0;
        let allowed = 6.0 * noise.total().sqrt() * units;
        let distance = |a: u64, b: u64| (a.wrapping_sub(b) as i64).unsigned_abs() as f64;
        for i in 0..got.len() {
            let error = distance(got[i], wanted[i]);
            assert!(
                error <= allowed,
                "{what} {i}: noise 2^{}, allowed 2^{}",
                error.log2(),
                allowed.log2()
            );
            let apart = distance(got[i], cpu[i]);
            assert!(
                apart <= between,
                "{what} {i}: 2^{} from the CPU, allowed 2^{}",
                apart.log2(),
                between.log2()
            );
        }
    }
}

const ALL: [Path; 3] = [Path::Cluster, Path::Block, Path::Pair];

/// The sets that the backend runs in doubles: one accumulator, polynomials of 256 to 16384 coefficients.
fn runs(p: &TfheParams) -> bool {
    let sizes: RangeInclusive<usize> = 256..=16384;
    p.modulus == Modulus::Native && p.accumulators() == 1 && sizes.contains(&p.polynomial_size)
}

fn named(name: &str, dimension: usize) -> TfheParams {
    TfheParams { lwe_dimension: dimension, ..TfheParams::named(name).unwrap().clone() }
}

#[test]
fn small_sets_bootstrap_as_on_the_cpu() {
    let more = TfheParams {
        rotation: Rotation::Block { size: 3 },
        lwe_dimension: 63,
        pbs: becalm::params::Gadget { base_log: 15, level: 2 },
        ..named("toy_2_2", 63)
    };
    let three = TfheParams {
        rotation: Rotation::MultiBit { grouping: 3 },
        polynomial_size: 1024,
        pbs: becalm::params::Gadget { base_log: 11, level: 3 },
        modulus_switch: ModulusSwitch::Plain,
        ..named("toy_2_2", 63)
    };
    for p in ["toy_2_2", "toy_1_1", "toy_boolean", "toy_1_1_multi_bit_2", "toy_cm_1_1_w2"]
        .map(|name| TfheParams::named(name).unwrap().clone())
        .into_iter()
        .chain([more, three])
    {
        Keys::new(p).check(3, &ALL, 25);
    }
}

/// The rings of the standard sets, with keys of few bits.
#[test]
fn rings_of_standard_sets_bootstrap_as_on_the_cpu() {
    for (name, dimension) in [
        ("tfhe_2_2", 9),
        ("tfhe_2_2_multi_bit_4", 24),
        ("tfhe_1_1", 11),
        ("tfhe_boolean_ks_pbs", 11),
        ("paper_n500", 11),
    ] {
        Keys::new(named(name, dimension)).check(3, &ALL, 4);
    }
    Keys::new(named("cm_1_1_w4", 6)).check(1, &[Path::Cluster, Path::Block], 4);
    Keys::new(named("cm_2_2_w2", 5)).check(1, &[Path::Cluster, Path::Block], 4);
    Keys::new(named("cm_2_2_w4", 5)).check(1, &[Path::Cluster], 4);
}

/// Rings of which a column does not fit into shared memory: mailboxes in global memory, and one path.
#[test]
fn large_rings_bootstrap_as_on_the_cpu() {
    Keys::new(named("paper_n800", 4)).check(2, &ALL, 3);
    Keys::new(named("tfhe_3_3", 5)).check(2, &ALL, 3);
    Keys::new(named("tfhe_3_3_p", 5)).check(2, &ALL, 3);
    let groups =
        TfheParams { rotation: Rotation::MultiBit { grouping: 2 }, ..named("tfhe_3_3", 6) };
    Keys::new(groups).check(2, &ALL, 2);
    let small = |name, dimension| TfheParams {
        polynomial_size: 4096,
        pbs: becalm::params::Gadget { base_log: 10, level: 3 },
        ..named(name, dimension)
    };
    let mut keys = Keys::new(small("toy_2_2", 12));
    assert!(keys.device.ring.is_far() && !Keys::new(named("toy_2_2", 4)).device.ring.is_far());
    for seed in [0, 1, 2] {
        keys.device.seed = seed;
        keys.check(2, &ALL, 5);
    }
    Keys::new(small("toy_2_2_p", 20)).check(3, &ALL, 7);
}

/// Transforms of residues: as the CPU, and for sets modulo p its words.
#[test]
fn exact_rings_bootstrap_as_on_the_cpu() {
    for name in ["toy_2_2", "tfhe_2_2", "tfhe_1_1", "tfhe_2_2_multi_bit_4"] {
        let dimension = if name.starts_with("toy") { 64 } else { 8 };
        Keys::exact(named(name, dimension)).check(3, &ALL, 5);
    }
    let three = TfheParams {
        rotation: Rotation::MultiBit { grouping: 3 },
        polynomial_size: 1024,
        pbs: becalm::params::Gadget { base_log: 11, level: 3 },
        modulus_switch: ModulusSwitch::Plain,
        ..named("toy_2_2", 24)
    };
    Keys::exact(three).check(2, &ALL, 5);
    for name in
        ["toy_2_2_p", "toy_boolean_p", "toy_cm_1_1_w3_p", "toy_1_1_fast_p", "toy_1_1_multi_bit_3_p"]
    {
        Keys::new(TfheParams::named(name).unwrap().clone()).check(3, &ALL, 20);
    }
    Keys::new(named("tfhe_2_2_p", 8)).check(2, &ALL, 5);
}

/// Threads in any order between barriers, the same words.
#[test]
fn the_order_of_threads_does_not_matter() {
    for name in ["toy_2_2", "toy_1_1_multi_bit_2", "toy_cm_1_1_w2"] {
        let mut keys = Keys::new(named(name, 10));
        for seed in [1, 2] {
            keys.device.seed = seed;
            keys.check(2, &ALL, 3);
        }
    }
}

/// The headline: 4 bits, 230 steps of 4 key bits, 2048 coefficients; standard key, 0 wrong.
#[test]
fn a_full_multi_bit_bootstrap() {
    let full = full();
    let sets: &[&str] = match full {
        true => &["tfhe_2_2_multi_bit_4", "tfhe_2_2_multi_bit_4_gaussian", "tfhe_2_2", "tfhe_1_1"],
        false => &["tfhe_2_2_multi_bit_4"],
    };
    for name in sets {
        let p = TfheParams::named(name).unwrap().clone();
        let paths = if full { &ALL[..] } else { &ALL[..1] };
        Keys::new(p).check(if full { 4 } else { 1 }, paths, 64);
    }
}

/// Every ring that ships is that of a set, and every set that a GPU can run natively has its ring.
#[test]
fn rings_are_those_of_the_sets() {
    let of_sets: Vec<_> = TfheParams::all().iter().filter(|p| runs(p)).map(harness::ring).collect();
    for ring in RINGS.iter().filter(|r| r.arithmetic != Arithmetic::Prime) {
        let ring = Ring { arithmetic: Arithmetic::Double, ..*ring };
        assert!(of_sets.contains(&ring), "{}: no set has this ring", ring.name());
    }
    for p in TfheParams::all().iter().filter(|p| runs(p)) {
        let ring = harness::ring(p);
        let known = RINGS.iter().chain(TEST_RINGS).any(|r| *r == ring);
        println!("{}: {} {}", p.name, ring.name(), if known { "ahead" } else { "at first use" });
    }
}
