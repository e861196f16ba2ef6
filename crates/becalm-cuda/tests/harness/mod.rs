//! A device whose memory is this process's: the kernels of one ring, with slices for pointers.
#![allow(dead_code)]

use becalm::math::Modulus;
use becalm::params::{ModulusSwitch, Rotation, TfheParams};
use becalm_cuda::key_switch::KeySwitch;
use becalm_cuda::launch::{Extraction, Launch, LinearOp, LinearTerm, Path};
use becalm_cuda::{Arithmetic, Ring, table};
use becalm_emulator as emulator;
use std::ffi::c_void;

pub struct Device {
    pub ring: Ring,
    pub table: Vec<u64>,
    /// Order of the threads; 0: as they are numbered.
    pub seed: u64,
}

/// Pointers to the arguments of a launch.
macro_rules! arguments {
    ($($argument:expr),* $(,)?) => { &mut [$(&raw const $argument as *mut c_void),*] };
}

/// The ring of a parameter set, in doubles where words are modulo 2^64.
pub fn ring(p: &TfheParams) -> Ring {
    let arithmetic = match p.modulus {
        Modulus::Native => Arithmetic::Double,
        Modulus::Goldilocks => Arithmetic::Prime,
    };
    let grouped = matches!(p.rotation, Rotation::MultiBit { .. } | Rotation::Block { .. });
    Ring {
        log2_n: p.polynomial_size.ilog2(),
        k: p.glwe_dimension as u32,
        bodies: p.slots as u32,
        base_log: p.pbs.base_log,
        level: p.pbs.level,
        group_bits: p.rotation.group_bits() as u32,
        group_ggsws: if grouped { p.rotation.group_ggsws() as u32 } else { 0 },
        arithmetic,
    }
}

impl Device {
    pub fn new(ring: Ring) -> Self {
        Device { ring, table: table(&ring), seed: 0 }
    }

    fn run(&self, launch: &Launch, arguments: &mut [*mut c_void]) {
        // SAFETY: the methods below pass what each kernel takes, and check the lengths of the slices.
        unsafe { emulator::run(&self.ring.into(), launch, self.seed, arguments) }.unwrap();
    }

    fn accumulator_len(&self) -> usize {
        (self.ring.columns() * self.ring.n()) as usize
    }

    /// Words of one GGSW or bundle: a polynomial's transform takes N, whether of N/2 complex numbers or of N residues.
    pub fn ggsw_len(&self) -> usize {
        (self.ring.level * self.ring.columns().pow(2) * self.ring.n()) as usize
    }

    fn words_of_a_point(&self) -> usize {
        self.ring.point_bytes() as usize / 8
    }

    /// Polynomials of N words to transforms, as they lie in memory.
    pub fn to_fourier(&self, words: &[u64]) -> Vec<u64> {
        let count = words.len() as u64 / u64::from(self.ring.n());
        let mut out = vec![u64::MAX; words.len()];
        let launch = Launch::to_fourier(&self.ring, count as u32);
        let pointers = (out.as_mut_ptr(), words.as_ptr(), self.table.as_ptr());
        self.run(&launch, arguments![pointers.0, pointers.1, count, pointers.2]);
        out
    }

    pub fn in_coefficients(&self, values: &[u64]) -> Vec<u64> {
        let count = values.len() as u64 / u64::from(self.ring.n());
        let mut out = vec![u64::MAX; values.len()];
        let launch = Launch::from_fourier(&self.ring, count as u32);
        let pointers = (out.as_mut_ptr(), values.as_ptr(), self.table.as_ptr());
        self.run(&launch, arguments![pointers.0, pointers.1, count, pointers.2]);
        out
    }

    /// `key`: a word for each row and column, torus elements or residues.
    pub fn key_switch(
        &self,
        shape: KeySwitch,
        modulus: Modulus,
        key: &[u64],
        input: &[u64],
        slices: u32,
    ) -> Vec<u64> {
        let columns = shape.columns() as usize;
        let mut steps = vec![0; shape.steps() as usize * shape.step_bytes()];
        let all = 0..shape.parts;
        let rows = key.chunks_exact(columns).flat_map(|row| all.clone().map(move |i| (row, i)));
        for (row, (words, part)) in rows.enumerate() {
            let power = 1 << (KeySwitch::PART_BITS * part);
            let words: Vec<u64> = words.iter().map(|x| modulus.mul(*x, power)).collect();
            shape.place(row, &words, &mut steps);
        }
        let jobs = (input.len() as u32) / (shape.input_dimension + shape.bodies);
        let mut out = vec![7; (jobs * (shape.output_dimension + shape.bodies)) as usize];
        let outputs = parts(out.as_mut_ptr(), out.len(), jobs);
        let inputs = parts(input.as_ptr().cast_mut(), input.len(), jobs);
        // Vectors of 16 bytes.
        let mut digits = vec![u128::MAX; shape.digit_bytes(jobs) as usize / 16];
        let (sixteen, _) = steps.as_chunks::<16>();
        let key: Vec<u128> = sixteen.iter().map(|b| u128::from_le_bytes(*b)).collect();
        let pointers = (outputs.as_ptr(), inputs.as_ptr(), digits.as_mut_ptr(), key.as_ptr());
        let start = Launch::key_switch_start(&shape, jobs);
        self.run(&start, arguments![pointers.0, pointers.1, pointers.2, shape, jobs]);
        let launch = Launch::key_switch(&shape, jobs, slices);
        self.run(&launch, arguments![pointers.0, pointers.2, pointers.3, shape, jobs, slices]);
        out
    }

    /// Exponents of `jobs` ciphertexts of `dimension` mask elements.
    pub fn modulus_switch(&self, input: &[u64], dimension: u32, kind: ModulusSwitch) -> Vec<u32> {
        let jobs = input.len() as u32 / (dimension + self.ring.bodies);
        let ggsws = dimension / self.ring.group_bits * self.ring.group_ggsws.max(1);
        let mut out = vec![u32::MAX; (jobs * (ggsws + self.ring.bodies)) as usize];
        let centered = u32::from(kind == ModulusSwitch::Centered);
        let inputs = parts(input.as_ptr().cast_mut(), input.len(), jobs);
        let pointers = (out.as_mut_ptr(), inputs.as_ptr());
        let launch = Launch::modulus_switch(jobs);
        let (none, no) = (std::ptr::null_mut::<u64>(), 0u32);
        self.run(
            &launch,
            arguments![pointers.0, pointers.1, dimension, centered, none, no, none, no],
        );
        out
    }

    /// Accumulators X^(−b̃)·T. `tables`: one for all jobs, or one for each; a polynomial of zeros goes as no polynomial.
    pub fn load_table(&self, tables: &[u64], exponents: &[u32], jobs: usize) -> Vec<u64> {
        let len = self.accumulator_len();
        assert!(tables.len() == len || tables.len() == jobs * len);
        let n = self.ring.n() as usize;
        let columns = tables.chunks(n).cycle().take(jobs * len / n);
        let null = std::ptr::null();
        let columns: Vec<*const u64> =
            columns.map(|c| if c.iter().all(|x| *x == 0) { null } else { c.as_ptr() }).collect();
        let width = (exponents.len() / jobs) as u32;
        let mut acc = vec![u64::MAX; jobs * len];
        let pointers = (acc.as_mut_ptr(), columns.as_ptr(), exponents.as_ptr());
        let launch = Launch::load_table(jobs as u32);
        self.run(&launch, arguments![pointers.0, pointers.1, pointers.2, width]);
        acc
    }

    /// Bundles of the groups from `first` on, `[job][group]`.
    pub fn bundle(
        &self,
        key: &[u64],
        exponents: &[u32],
        jobs: usize,
        groups: std::ops::Range<usize>,
    ) -> Vec<u64> {
        let launch = Launch::bundle(&self.ring, groups.len() as u32, jobs as u32);
        self.bundle_by(&launch, key, exponents, jobs, groups)
    }

    /// The same by one of its kernels.
    pub fn bundle_by(
        &self,
        launch: &Launch,
        key: &[u64],
        exponents: &[u32],
        jobs: usize,
        groups: std::ops::Range<usize>,
    ) -> Vec<u64> {
        let (width, count) = ((exponents.len() / jobs) as u32, groups.len());
        let ggsws = self.ring.group_ggsws as usize;
        let mut out = vec![u64::MAX; jobs * count * self.ggsw_len()];
        let key =
            &key[groups.start * ggsws * self.ggsw_len()..groups.end * ggsws * self.ggsw_len()];
        let exponents = &exponents[groups.start * ggsws..];
        let pointers = (out.as_mut_ptr(), key.as_ptr(), exponents.as_ptr(), self.table.as_ptr());
        let jobs = jobs as u32;
        self.run(launch, arguments![pointers.0, pointers.1, pointers.2, width, jobs, pointers.3]);
        out
    }

    /// `steps` steps from `first` on. `key`: GGSW of these steps, or bundles `[job][step]`.
    pub fn rotate(
        &self,
        path: Path,
        acc: &mut [u64],
        key: &[u64],
        exponents: &[u32],
        steps: std::ops::Range<usize>,
    ) {
        let jobs = acc.len() / self.accumulator_len();
        let stride = if self.ring.group_ggsws == 0 {
            0
        } else {
            (steps.len() * self.ggsw_len() / self.words_of_a_point()) as u64
        };
        assert_eq!(key.len(), self.ggsw_len() * steps.len() * if stride == 0 { 1 } else { jobs });
        let width = (exponents.len() / jobs) as u32;
        let launch = Launch::rotate(&self.ring, path, jobs as u32).unwrap();
        let exponents = &exponents[steps.start * self.ring.group_ggsws.max(1) as usize..];
        // With mailboxes behind them where the ring has them there.
        let mut room = acc.to_vec();
        room.resize(self.ring.accumulator_bytes(jobs as u64) as usize / 8, u64::MAX);
        let pointers = (room.as_mut_ptr(), key.as_ptr(), exponents.as_ptr(), self.table.as_ptr());
        let (count, jobs) = (steps.len() as u32, jobs as u32);
        self.run(
            &launch,
            arguments![pointers.0, pointers.1, stride, pointers.2, width, count, jobs, pointers.3],
        );
        acc.copy_from_slice(&room[..acc.len()]);
    }

    /// Every step, by chunks: bundles first where the ring has them.
    pub fn rotate_all(
        &self,
        path: Path,
        acc: &mut [u64],
        key: &[u64],
        exponents: &[u32],
        chunk: usize,
    ) {
        let jobs = acc.len() / self.accumulator_len();
        let ggsws = self.ring.group_ggsws.max(1) as usize;
        let groups = key.len() / self.ggsw_len() / ggsws;
        for first in (0..groups).step_by(chunk) {
            let steps = first..groups.min(first + chunk);
            if self.ring.group_ggsws == 0 {
                let key = &key[steps.start * self.ggsw_len()..steps.end * self.ggsw_len()];
                self.rotate(path, acc, key, exponents, steps);
            } else {
                let bundles = self.bundle(key, exponents, jobs, steps.clone());
                self.rotate(path, acc, &bundles, exponents, steps);
            }
        }
    }

    /// Bundles of one ciphertext for all steps as `kernels/leaves.cuh` has them, by `blocks` blocks, and their flags. `key`: tiles.
    pub fn bundle_stream(
        &self,
        key: &[u64],
        exponents: &[u32],
        blocks: u32,
    ) -> (Vec<u64>, Vec<u32>) {
        let steps = exponents.len() / self.ring.group_ggsws as usize;
        let mut bundles = vec![u64::MAX; steps * self.ggsw_len()];
        let mut flags = vec![0u32; steps * 4];
        assert_eq!(key.len(), steps * (self.ring.group_ggsws as usize + 1) * self.ggsw_len());
        let (out, up) = (bundles.as_mut_ptr(), flags.as_mut_ptr());
        let (key, exponents, table) = (key.as_ptr(), exponents.as_ptr(), self.table.as_ptr());
        let (launch, steps) = (Launch::bundle_stream(blocks), steps as u32);
        self.run(&launch, arguments![out, up, key, exponents, steps, table]);
        (bundles, flags)
    }

    /// All steps of whose bundles the flags are up, by clusters of `blocks` blocks. `bundles`: `[job][step]`.
    pub fn rotate_leaves(&self, blocks: u32, acc: &mut [u64], bundles: &[u64], flags: &[u32]) {
        let jobs = acc.len() / self.accumulator_len();
        let stride = (bundles.len() / jobs / self.words_of_a_point()) as u64;
        let steps = (flags.len() / 4 / jobs.div_ceil(16)) as u32;
        assert_eq!(bundles.len(), jobs * steps as usize * self.ggsw_len());
        let launch = Launch::rotate_leaves(jobs as u32, blocks);
        let (acc, bundles, flags) = (acc.as_mut_ptr(), bundles.as_ptr(), flags.as_ptr());
        let table = self.table.as_ptr();
        let (tables, exponents, width) = (std::ptr::null::<u64>(), std::ptr::null::<u32>(), 0u32);
        self.run(
            &launch,
            arguments![acc, tables, exponents, width, bundles, stride, flags, steps, table],
        );
    }

    /// `[extraction][job]`.
    pub fn sample_extract(&self, acc: &[u64], indices: &[u32]) -> Vec<u64> {
        let jobs = (acc.len() / self.accumulator_len()) as u32;
        let width = self.ring.k * self.ring.n() + self.ring.bodies;
        let mut out = vec![7; indices.len() * (jobs * width) as usize];
        let outputs = parts(out.as_mut_ptr(), out.len(), jobs * indices.len() as u32);
        let list: Vec<Extraction> = outputs
            .iter()
            .enumerate()
            .map(|(i, out)| {
                let (job, index) = (i as u32 % jobs, indices[i / jobs as usize]);
                Extraction { out: *out as u64, job, index }
            })
            .collect();
        let pointers = (list.as_ptr(), acc.as_ptr());
        let launch = Launch::sample_extract(list.len() as u32);
        self.run(&launch, arguments![pointers.0, pointers.1]);
        out
    }

    /// Linear operations that do not wait for each other; `words`: those of the largest.
    pub fn linear(&self, ops: &[LinearOp], terms: &[LinearTerm], words: u64) {
        let pointers = (ops.as_ptr(), terms.as_ptr());
        let launch = Launch::linear(ops.len() as u32, words);
        self.run(&launch, arguments![pointers.0, pointers.1]);
    }
}

/// The beginnings of equal parts.
fn parts(all: *mut u64, len: usize, count: u32) -> Vec<*mut u64> {
    let width = len / count.max(1) as usize;
    (0..count as usize).map(|i| all.wrapping_add(i * width)).collect()
}
