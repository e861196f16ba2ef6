//! tfhe-rs on a GPU: its kernels, called as its own integer layer calls them, on keys that its own CPU code makes.
//!
//!     peer [LARGEST_BATCH] [SET]      JSON on standard output; every result is decrypted, in full: a batch of which one is
//!                                     wrong has no times, and the program fails
//!
//! Inputs and outputs stay on the GPU, scratch memory is allocated once, and a time is from the launch to the stream's end:
//! the median over the runs, which are as many as `becalm bench --device cuda` makes.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Instant;
use tfhe::core_crypto::prelude::*;
use tfhe::shortint::parameters::v1_8::*;
use tfhe::shortint::parameters::ModulusSwitchType;
use tfhe::shortint::{ClassicPBSParameters, MultiBitPBSParameters};

type Stream = *mut c_void;
type Memory = *mut c_void;
type Const = *const c_void;

extern "C" {
    fn cuda_create_stream_ffi(gpu: u32) -> Stream;
    fn cuda_synchronize_stream(stream: Stream, gpu: u32);
    fn cuda_malloc(bytes: u64, gpu: u32) -> Memory;
    fn cuda_drop(at: Memory, gpu: u32);
    fn cuda_memcpy_async_to_gpu(to: Memory, from: Const, bytes: u64, stream: Stream, gpu: u32);
    fn cuda_memcpy_async_to_cpu(to: Memory, from: Const, bytes: u64, stream: Stream, gpu: u32);
    fn cuda_get_number_of_gpus() -> i32;
    #[rustfmt::skip]
    fn cuda_convert_lwe_multi_bit_programmable_bootstrap_key_64_async(
        stream: Stream, gpu: u32, to: Memory, from: Const, n: u32, k: u32, level: u32, size: u32, group: u32);
    #[rustfmt::skip]
    fn cuda_convert_lwe_programmable_bootstrap_key_64_async(
        stream: Stream, gpu: u32, to: Memory, from: Const, n: u32, k: u32, level: u32, size: u32);
    #[rustfmt::skip]
    fn scratch_cuda_multi_bit_programmable_bootstrap_64_async(
        stream: Stream, gpu: u32, buffer: *mut *mut i8, k: u32, size: u32, level: u32, count: u32, allocate: bool) -> u64;
    #[rustfmt::skip]
    fn cuda_multi_bit_programmable_bootstrap_64_async(
        stream: Stream, gpu: u32, out: Memory, out_at: Const, table: Const, table_at: Const, input: Const,
        input_at: Const, key: Const, buffer: *mut i8, n: u32, k: u32, size: u32, group: u32, base_log: u32,
        level: u32, count: u32, outputs: u32, stride: u32);
    fn cleanup_cuda_multi_bit_programmable_bootstrap_64(stream: Stream, gpu: u32, buffer: *mut *mut i8);
    #[rustfmt::skip]
    fn scratch_cuda_programmable_bootstrap_64_async(
        stream: Stream, gpu: u32, buffer: *mut *mut i8, n: u32, k: u32, size: u32, level: u32, count: u32,
        allocate: bool, reduction: u32) -> u64;
    #[rustfmt::skip]
    fn cuda_programmable_bootstrap_64_async(
        stream: Stream, gpu: u32, out: Memory, out_at: Const, table: Const, table_at: Const, input: Const,
        input_at: Const, key: Const, buffer: *mut i8, n: u32, k: u32, size: u32, base_log: u32, level: u32,
        count: u32, outputs: u32, stride: u32);
    fn cleanup_cuda_programmable_bootstrap_64(stream: Stream, gpu: u32, buffer: *mut *mut i8);
    #[rustfmt::skip]
    fn cuda_keyswitch_gemm_64_64_async(
        stream: Stream, gpu: u32, out: Memory, out_at: Const, input: Const, input_at: Const, key: Const, from: u32,
        to: u32, base_log: u32, level: u32, count: u32, trivial: bool);
}

const GPU: u32 = 0;

/// A parameter set by what the calls take.
struct Set {
    name: &'static str,
    n: usize,
    k: usize,
    size: usize,
    base_log: usize,
    level: usize,
    ks: (usize, usize),
    noise: (DynamicDistribution<u64>, DynamicDistribution<u64>),
    values: u64,
    /// Key bits of a step; 0 for a classic rotation.
    group: usize,
    centered: bool,
}

/// A set of the crate, by the name of the same set in becalm. Its two types of parameters have the same fields but for these.
macro_rules! set {
    ($name:expr, $p:expr, $group:expr, $centered:expr) => {{
        let p = $p;
        Set {
            name: $name,
            n: p.lwe_dimension.0,
            k: p.glwe_dimension.0,
            size: p.polynomial_size.0,
            base_log: p.pbs_base_log.0,
            level: p.pbs_level.0,
            ks: (p.ks_base_log.0, p.ks_level.0),
            noise: (p.lwe_noise_distribution, p.glwe_noise_distribution),
            values: p.message_modulus.0 * p.carry_modulus.0,
            group: $group(&p),
            centered: $centered(&p),
        }
    }};
}

fn sets() -> [Set; 8] {
    let multi_bit = |name, p: MultiBitPBSParameters| {
        set!(name, p, |p: &MultiBitPBSParameters| p.grouping_factor.0, |_: &MultiBitPBSParameters| false)
    };
    let classic = |name, p: ClassicPBSParameters| {
        set!(name, p, |_: &ClassicPBSParameters| 0, |p: &ClassicPBSParameters| {
            p.modulus_switch_noise_reduction_params == ModulusSwitchType::CenteredMeanNoiseReduction
        })
    };
    [
        multi_bit("tfhe_2_2_multi_bit_4", V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128),
        multi_bit(
            "tfhe_2_2_multi_bit_4_gaussian",
            V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128,
        ),
        multi_bit("tfhe_1_1_multi_bit_4", V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128),
        multi_bit(
            "tfhe_1_1_multi_bit_4_gaussian",
            V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128,
        ),
        classic("tfhe_2_2", V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128),
        classic("tfhe_2_2_gaussian", V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128),
        classic("tfhe_1_1", V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128),
        classic("tfhe_1_1_gaussian", V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128),
    ]
}

/// Words on the GPU.
struct OnGpu(Memory);

impl OnGpu {
    fn room(words: usize) -> Self {
        OnGpu(unsafe { cuda_malloc(words as u64 * 8, GPU) })
    }

    fn of(stream: Stream, words: &[u64]) -> Self {
        let made = OnGpu::room(words.len());
        let bytes = size_of_val(words) as u64;
        unsafe {
            cuda_memcpy_async_to_gpu(made.0, words.as_ptr().cast(), bytes, stream, GPU);
            cuda_synchronize_stream(stream, GPU);
        }
        made
    }

    fn read(&self, stream: Stream, words: usize) -> Vec<u64> {
        let mut out = vec![0u64; words];
        unsafe {
            cuda_memcpy_async_to_cpu(out.as_mut_ptr().cast(), self.0, words as u64 * 8, stream, GPU);
            cuda_synchronize_stream(stream, GPU);
        }
        out
    }
}

impl Drop for OnGpu {
    fn drop(&mut self) {
        unsafe { cuda_drop(self.0, GPU) };
    }
}

/// Keys of a set, of which two are on the GPU.
struct Keys {
    set: Set,
    stream: Stream,
    big: LweSecretKeyOwned<u64>,
    bootstrap: OnGpu,
    switch: OnGpu,
    table: OnGpu,
    delta: u64,
    upload: f64,
}

/// f of the table.
fn f(m: u64, values: u64) -> u64 {
    m * m % values
}

fn keys(set: Set, noise: &mut EncryptionRandomGenerator<DefaultRandomGenerator>) -> Keys {
    let stream = unsafe { cuda_create_stream_ffi(GPU) };
    let modulus = CiphertextModulus::<u64>::new_native();
    let (n, k, size) = (LweDimension(set.n), GlweDimension(set.k), PolynomialSize(set.size));
    let (base_log, level) = (DecompositionBaseLog(set.base_log), DecompositionLevelCount(set.level));
    let mut seeder = new_seeder();
    let mut random = SecretRandomGenerator::<DefaultRandomGenerator>::new(seeder.as_mut().seed());
    let small = allocate_and_generate_new_binary_lwe_secret_key::<u64, _>(n, &mut random);
    let glwe = allocate_and_generate_new_binary_glwe_secret_key::<u64, _>(k, size, &mut random);
    let big = glwe.clone().into_lwe_secret_key();
    let (lwe_noise, glwe_noise) = set.noise;
    let words: Vec<u64> = if set.group > 0 {
        let group = LweBskGroupingFactor(set.group);
        let mut key =
            LweMultiBitBootstrapKey::new(0u64, k.to_glwe_size(), size, base_log, level, n, group, modulus);
        par_generate_lwe_multi_bit_bootstrap_key(&small, &glwe, &mut key, glwe_noise, noise);
        key.into_container()
    } else {
        let mut key = LweBootstrapKey::new(0u64, k.to_glwe_size(), size, base_log, level, n, modulus);
        par_generate_lwe_bootstrap_key(&small, &glwe, &mut key, glwe_noise, noise);
        key.into_container()
    };
    let (ks_base_log, ks_level) = (DecompositionBaseLog(set.ks.0), DecompositionLevelCount(set.ks.1));
    let switch = allocate_and_generate_new_lwe_keyswitch_key(
        &big, &small, ks_base_log, ks_level, lwe_noise, modulus, noise,
    );
    let delta = (1u64 << 63) / set.values;
    let values = set.values;
    let table = generate_programmable_bootstrap_glwe_lut(
        size, k.to_glwe_size(), set.values as usize, modulus, delta, |m| f(m, values),
    );
    let began = Instant::now();
    let bootstrap = OnGpu::room(words.len());
    let (to, from) = (bootstrap.0, words.as_ptr().cast());
    let [n, k, level, size, group] = [set.n, set.k, set.level, set.size, set.group].map(|x| x as u32);
    unsafe {
        if set.group > 0 {
            cuda_convert_lwe_multi_bit_programmable_bootstrap_key_64_async(
                stream, GPU, to, from, n, k, level, size, group,
            );
        } else {
            cuda_convert_lwe_programmable_bootstrap_key_64_async(stream, GPU, to, from, n, k, level, size);
        }
        cuda_synchronize_stream(stream, GPU);
    }
    let switch = OnGpu::of(stream, switch.as_ref());
    let upload = began.elapsed().as_secs_f64();
    let table = OnGpu::of(stream, table.as_ref());
    Keys { set, stream, big, bootstrap, switch, table, delta, upload }
}

/// Ciphertexts on the GPU, and where all goes.
struct Batch {
    count: usize,
    input: OnGpu,
    small: OnGpu,
    out: OnGpu,
    /// 0, 1, 2, …; and one table for all.
    places: OnGpu,
    first: OnGpu,
    scratch: *mut i8,
}

impl Keys {
    fn batch(&self, count: usize, noise: &mut EncryptionRandomGenerator<DefaultRandomGenerator>) -> Batch {
        let modulus = CiphertextModulus::<u64>::new_native();
        let size = self.big.lwe_dimension().to_lwe_size();
        let mut inputs = LweCiphertextList::new(0u64, size, LweCiphertextCount(count), modulus);
        let messages: Vec<u64> = (0..count as u64).map(|i| i % self.set.values * self.delta).collect();
        let messages = PlaintextList::from_container(messages);
        encrypt_lwe_ciphertext_list(&self.big, &mut inputs, &messages, self.set.noise.1, noise);
        let mut scratch = null_mut();
        let [n, k, size, level] =
            [self.set.n, self.set.k, self.set.size, self.set.level].map(|x| x as u32);
        let reduction = u32::from(self.set.centered);
        unsafe {
            if self.set.group > 0 {
                scratch_cuda_multi_bit_programmable_bootstrap_64_async(
                    self.stream, GPU, &mut scratch, k, size, level, count as u32, true,
                );
            } else {
                scratch_cuda_programmable_bootstrap_64_async(
                    self.stream, GPU, &mut scratch, n, k, size, level, count as u32, true, reduction,
                );
            }
        }
        let width = self.big.lwe_dimension().0 + 1;
        Batch {
            count,
            input: OnGpu::of(self.stream, inputs.as_ref()),
            small: OnGpu::room(count * (self.set.n + 1)),
            out: OnGpu::room(count * width),
            places: OnGpu::of(self.stream, &(0..count as u64).collect::<Vec<_>>()),
            first: OnGpu::of(self.stream, &vec![0; count]),
            scratch,
        }
    }

    fn key_switch(&self, b: &Batch) {
        let [from, to, base_log, level] =
            [self.big.lwe_dimension().0, self.set.n, self.set.ks.0, self.set.ks.1].map(|x| x as u32);
        let places = b.places.0.cast_const();
        unsafe {
            cuda_keyswitch_gemm_64_64_async(
                self.stream, GPU, b.small.0, places, b.input.0, places, self.switch.0, from, to, base_log,
                level, b.count as u32, true,
            );
        }
    }

    fn bootstrap(&self, b: &Batch) {
        let set = &self.set;
        let [n, k, size, base_log, level, group] =
            [set.n, set.k, set.size, set.base_log, set.level, set.group].map(|x| x as u32);
        let places = b.places.0.cast_const();
        let (count, key) = (b.count as u32, self.bootstrap.0.cast_const());
        unsafe {
            if set.group > 0 {
                cuda_multi_bit_programmable_bootstrap_64_async(
                    self.stream, GPU, b.out.0, places, self.table.0, b.first.0, b.small.0, places, key,
                    b.scratch, n, k, size, group, base_log, level, count, 1, 0,
                );
            } else {
                cuda_programmable_bootstrap_64_async(
                    self.stream, GPU, b.out.0, places, self.table.0, b.first.0, b.small.0, places, key,
                    b.scratch, n, k, size, base_log, level, count, 1, 0,
                );
            }
        }
    }

    fn release(&self, b: &mut Batch) {
        unsafe {
            match self.set.group {
                0 => cleanup_cuda_programmable_bootstrap_64(self.stream, GPU, &mut b.scratch),
                _ => cleanup_cuda_multi_bit_programmable_bootstrap_64(self.stream, GPU, &mut b.scratch),
            }
            cuda_synchronize_stream(self.stream, GPU);
        }
    }

    /// How many results are not f of their message.
    fn wrong(&self, b: &Batch) -> usize {
        let width = self.big.lwe_dimension().0 + 1;
        let words = b.out.read(self.stream, b.count * width);
        let modulus = CiphertextModulus::<u64>::new_native();
        let decrypt = |ct: &[u64]| {
            let phase = decrypt_lwe_ciphertext(&self.big, &LweCiphertext::from_container(ct, modulus)).0;
            (phase.wrapping_add(self.delta / 2) / self.delta) % self.set.values
        };
        let results = words.chunks(width).enumerate();
        let values = self.set.values;
        results.filter(|(i, ct)| decrypt(ct) != f(*i as u64 % values, values)).count()
    }

    /// Median and 99th percentile of some runs, in microseconds.
    fn time(&self, runs: usize, work: impl Fn()) -> (f64, f64) {
        let mut micros = vec![];
        for run in 0..=runs {
            let began = Instant::now();
            work();
            unsafe { cuda_synchronize_stream(self.stream, GPU) };
            // The first run warms up.
            if run > 0 {
                micros.push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
        micros.sort_by(f64::total_cmp);
        (micros[runs / 2], micros[runs * 99 / 100])
    }
}

fn usage() -> ! {
    let names = sets().map(|s| s.name).join(", ");
    eprintln!("peer [LARGEST_BATCH] [SET]: a batch from 1 on, and one of {names}");
    std::process::exit(2)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let largest = arguments.next().map_or(Ok(8192), |s| s.parse::<usize>());
    let Ok(largest @ 1..) = largest else { usage() };
    let only = arguments.next();
    if only.as_ref().is_some_and(|name| sets().iter().all(|s| s.name != name)) {
        usage();
    }
    let gpus = unsafe { cuda_get_number_of_gpus() };
    if gpus < 1 {
        eprintln!("no GPU, or no driver for it");
        std::process::exit(1);
    }
    let mut seeder = new_seeder();
    let seed = seeder.seed();
    let mut noise = EncryptionRandomGenerator::<DefaultRandomGenerator>::new(seed, seeder.as_mut());
    let (mut rows, mut failed) = (vec![], 0);
    for set in sets().into_iter().filter(|s| only.as_ref().is_none_or(|name| name == s.name)) {
        let keys = keys(set, &mut noise);
        let (name, upload) = (keys.set.name, keys.upload);
        for batch in (0..).map(|log| 1usize << log).take_while(|b| *b <= largest) {
            let mut b = keys.batch(batch, &mut noise);
            let runs = (1000 / batch).clamp(5, 1000);
            let ks = keys.time(runs, || keys.key_switch(&b));
            let pbs = keys.time(runs, || keys.bootstrap(&b));
            let both = keys.time(runs, || {
                keys.key_switch(&b);
                keys.bootstrap(&b);
            });
            let wrong = keys.wrong(&b);
            keys.release(&mut b);
            if wrong > 0 {
                eprintln!("{name} {batch}: {wrong} WRONG, no times");
                failed += 1;
                rows.push(format!("{{\"params\": \"{name}\", \"batch\": {batch}, \"wrong\": {wrong}}}"));
                continue;
            }
            for (case, (median, p99)) in [("ks", ks), ("pbs", pbs), ("ks_pbs", both)] {
                eprintln!("{name} {case} {batch}: {median:.1} us");
                rows.push(format!(
                    "{{\"params\": \"{name}\", \"case\": \"{case}\", \"batch\": {batch}, \"runs\": {runs}, \
                     \"wrong\": {wrong}, \"median_us\": {median:.1}, \"p99_us\": {p99:.1}, \
                     \"per_second\": {:.0}, \"upload_seconds\": {upload:.3}}}",
                    batch as f64 / median * 1e6
                ));
            }
        }
    }
    println!("{{\"peer\": \"tfhe 1.8.2, tfhe-cuda-backend 0.16.0\", \"rows\": [\n{}\n]}}", rows.join(",\n"));
    if failed > 0 {
        eprintln!("{failed} batches with wrong results");
        std::process::exit(1);
    }
}
