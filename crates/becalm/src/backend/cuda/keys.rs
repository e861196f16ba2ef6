//! Keys on a device: the bootstrapping key transformed, key switches as matrices of bytes.
//!
//! A key is expanded on the host in pieces and sent to every device: while a piece is on its way the next is expanded, and no device
//! waits for another. In doubles the host transforms it too, in twice the precision, as it does for itself: the error that one double
//! a value leaves in a key is more than a third of all that a transform makes of a bootstrap's noise. Residues are transformed on the device.

use super::memory::Block;
use super::tiling::bundle_bytes;
use super::{KeyMemory, launch, refused};
use crate::cipher::EvaluationKey;
use crate::math::Modulus;
use crate::math::fft::FftPlan;
use crate::math::parallel::*;
use crate::math::simd::Level;
use crate::params::TfheParams;
use crate::program::Need;
use crate::tfhe::key_switch::KeySwitchShape;
use crate::{Error, Result};
use becalm_cuda::key_switch::KeySwitch;
use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Device, Ring};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a key that travel at once: half of what a device stages copies in.
const PIECE: u64 = 16 << 20;

/// A key switch's matrix, and its shape.
pub(super) struct Matrix {
    pub bytes: Block,
    pub shape: KeySwitch,
}

/// The opened parts of an evaluation key on one device.
pub(super) struct DeviceKeys {
    /// Roots of unity.
    pub roots: Block,
    /// `[group][GGSW][ℓ][row][column]`, a transform each; or `[group][tile]` where bundles are made ahead.
    pub bootstrap: Option<Block>,
    pub switches: BTreeMap<Need, Matrix>,
}

/// This shape in the kernels' terms.
fn shape(s: &KeySwitchShape) -> KeySwitch {
    KeySwitch {
        input_dimension: s.input_dimension as u32,
        output_dimension: s.output_dimension as u32,
        bodies: s.bodies as u32,
        shared: s.shared as u32,
        base_log: s.gadget.base_log,
        level: s.gadget.level,
        parts: KeySwitch::parts(s.gadget.base_log),
        word: s.modulus_log2,
    }
}

fn matrix_bytes(s: &KeySwitch) -> u64 {
    u64::from(s.steps()) * s.step_bytes() as u64
}

/// Shapes of the key switches among the needs.
fn switches(keys: &EvaluationKey, needs: &BTreeSet<Need>) -> Result<BTreeMap<Need, KeySwitch>> {
    let mut found = BTreeMap::new();
    for need in needs {
        match (need, need.slot_key(keys)?) {
            (Need::KeySwitch, _) => {
                found.insert(*need, shape(&KeySwitchShape::of(keys.params())));
            }
            (_, Some(key)) => {
                found.insert(*need, shape(&key.shape()));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The device memory to open parts of a key: the parts, and a piece of the bootstrapping key while it is converted.
///
/// # Errors
/// As [`Need::slot_key`].
pub(super) fn memory(
    keys: &EvaluationKey,
    needs: &BTreeSet<Need>,
    ring: &Ring,
) -> Result<KeyMemory> {
    let matrices = switches(keys, needs)?.values().map(matrix_bytes).sum();
    Ok(sizes(keys.params(), needs.contains(&Need::Bootstrap), matrices, ring))
}

/// The same for the parts that every key of a set has, before a key exists.
pub(super) fn memory_of(params: &TfheParams, ring: &Ring) -> KeyMemory {
    sizes(params, true, matrix_bytes(&shape(&KeySwitchShape::of(params))), ring)
}

/// At most: a key whose bundles are not made ahead has no sixteenth GGSW in a group.
fn sizes(params: &TfheParams, bootstrap: bool, matrices: u64, ring: &Ring) -> KeyMemory {
    let key = if bootstrap { bootstrap_bytes(params, ring, ring.is_streamed()) } else { 0 };
    let room = if ring.is_exact() { key.min(piece_bytes(params, ring)) } else { 0 };
    KeyMemory { key: key + matrices + 8 * becalm_cuda::table(ring).len() as u64, room }
}

/// Bytes of the GGSW that travel at once.
fn piece_bytes(params: &TfheParams, ring: &Ring) -> u64 {
    let size = bundle_bytes(ring);
    (PIECE / size).clamp(1, params.ggsw_count().max(1) as u64) * size
}

fn bootstrap_bytes(p: &TfheParams, ring: &Ring, streamed: bool) -> u64 {
    let count = p.ggsw_count() as u64;
    let sums = if streamed { count / u64::from(ring.group_ggsws) } else { 0 };
    (count + sums) * bundle_bytes(ring)
}

/// Brings the parts of a key onto every device.
///
/// # Errors
/// `Error::Memory` if they do not fit; errors of the device.
pub(super) fn open(
    devices: &[Arc<dyn Device>],
    keys: &EvaluationKey,
    needs: &BTreeSet<Need>,
    ring: &Ring,
    ahead: bool,
) -> Result<Vec<DeviceKeys>> {
    let roots = becalm_cuda::table(ring);
    let mut opened = Vec::new();
    for device in devices {
        let roots = Block::of(device, "open", bytemuck::cast_slice(&roots))?;
        opened.push(DeviceKeys { roots, bootstrap: None, switches: BTreeMap::new() });
    }
    if needs.contains(&Need::Bootstrap) {
        if ahead {
            streamed(devices, keys, ring, &mut opened)?;
        } else {
            bootstrap(devices, keys, ring, &mut opened)?;
        }
    }
    for (need, shape) in switches(keys, needs)? {
        let slot_key = need.slot_key(keys)?;
        let fill = |i: usize, out: &mut [u64]| match slot_key {
            Some(key) => key.expand(i, out),
            None => keys.expand_key_switch(i, out),
        };
        matrix(devices, need, shape, keys.params().modulus, &fill, &mut opened)?;
    }
    for device in devices {
        device.wait().map_err(|f| refused("open", device.as_ref(), f))?;
    }
    Ok(opened)
}

fn bootstrap(
    devices: &[Arc<dyn Device>],
    keys: &EvaluationKey,
    ring: &Ring,
    opened: &mut [DeviceKeys],
) -> Result<()> {
    let (count, size) = (keys.params().ggsw_count(), bundle_bytes(ring));
    let room = piece_bytes(keys.params(), ring);
    let piece = (room / size) as usize;
    let mut words = vec![0u64; room as usize / 8];
    let transform = (!ring.is_exact()).then(|| Transform::new(ring)).transpose()?;
    let converted = devices.iter().filter(|_| transform.is_none());
    let staging: Vec<Block> =
        converted.map(|d| Block::new(d, "open", room)).collect::<Result<_>>()?;
    for (device, keys) in devices.iter().zip(opened.iter_mut()) {
        keys.bootstrap = Some(Block::new(device, "open", count as u64 * size)?);
    }
    for first in (0..count).step_by(piece) {
        let here = piece.min(count - first);
        let words = &mut words[..here * size as usize / 8];
        let ggsws = words.par_chunks_exact_mut(size as usize / 8).enumerate();
        let work = || transform.as_ref().map_or(vec![], |t| vec![0.0; t.plan.twofold_len()]);
        ggsws.for_each_init(work, |work, (i, out)| {
            keys.expand_ggsw(first + i, out);
            if let Some(transform) = &transform {
                transform.apply(out, work);
            }
        });
        if transform.is_some() {
            for key in opened.iter().filter_map(|keys| keys.bootstrap.as_ref()) {
                key.upload("open", first as u64 * size, bytemuck::cast_slice(words))?;
            }
        }
        // None of these where the host has transformed the key.
        for ((device, staging), opened) in devices.iter().zip(&staging).zip(opened.iter()) {
            let Some(key) = &opened.bootstrap else { continue };
            staging.upload("open", 0, bytemuck::cast_slice(words))?;
            let polynomials = words.len() as u64 / u64::from(ring.n());
            let arguments = [
                Argument::Address(key.at() + first as u64 * size),
                Argument::Address(staging.at()),
                Argument::U64(polynomials),
                Argument::Address(opened.roots.at()),
            ];
            let shape = Launch::to_fourier(ring, polynomials as u32);
            // SAFETY: reads as many polynomials as were uploaded and writes as many transforms of the same size.
            unsafe { launch("open", device.as_ref(), 0, ring, &shape, &arguments)? };
        }
    }
    for device in devices {
        device.wait().map_err(|f| refused("open", device.as_ref(), f))?;
    }
    Ok(())
}

/// The key of a ring whose bundles are made ahead (`streams.cuh`): of each group the tiles, in each of them all GGSW and minus their sum.
fn streamed(
    devices: &[Arc<dyn Device>],
    keys: &EvaluationKey,
    ring: &Ring,
    opened: &mut [DeviceKeys],
) -> Result<()> {
    let (ggsws, size) = (ring.group_ggsws as usize, bundle_bytes(ring) as usize / 8);
    let (groups, group) = (keys.params().ggsw_count() / ggsws, (ggsws + 1) * size);
    for (device, keys) in devices.iter().zip(opened.iter_mut()) {
        keys.bootstrap = Some(Block::new(device, "open", (groups * group * 8) as u64)?);
    }
    let transform = Transform::new(ring)?;
    let piece = (PIECE as usize / (group * 8)).clamp(1, groups.max(1));
    let mut words = vec![0u64; piece * group];
    for first in (0..groups).step_by(piece) {
        let words = &mut words[..piece.min(groups - first) * group];
        let work = || (vec![0; ggsws * size], vec![0.0; transform.plan.twofold_len()]);
        let all = words.par_chunks_exact_mut(group).enumerate();
        all.for_each_init(work, |(values, work), (i, out)| {
            for (v, ggsw) in values.chunks_exact_mut(size).enumerate() {
                keys.expand_ggsw((first + i) * ggsws + v, ggsw);
                transform.apply(ggsw, work);
            }
            transform.tiles(values, out);
        });
        for key in opened.iter().filter_map(|keys| keys.bootstrap.as_ref()) {
            key.upload("open", (first * group * 8) as u64, bytemuck::cast_slice(words))?;
        }
    }
    for device in devices {
        device.wait().map_err(|f| refused("open", device.as_ref(), f))?;
    }
    Ok(())
}

/// Transforms of the host in the units and the order of the kernels (`transform.cuh`).
struct Transform {
    plan: Arc<FftPlan>,
    /// For u, at which of the kernels' points the value at e^(iπ(4u + 1)/N) lies.
    points: Vec<usize>,
    /// Of each of these points the leaf.
    leaves: Vec<usize>,
    /// The torus in units of the last digit, a power of two.
    unit: f64,
}

impl Transform {
    fn new(ring: &Ring) -> Result<Self> {
        let plan = FftPlan::get(ring.n() as usize, Level::best())?;
        let (m, each, threads) =
            (ring.m() as usize, ring.points() as usize, ring.threads() as usize);
        let (mut points, mut leaves) = (vec![0; m], vec![0; m]);
        for leaf in 0..m {
            let u = leaf.reverse_bits() >> (usize::BITS - m.ilog2());
            points[u] = leaf % each * threads + leaf / each;
            leaves[points[u]] = leaf;
        }
        Ok(Transform {
            plan,
            points,
            leaves,
            unit: f64::exp2(f64::from(ring.base_log * ring.level)),
        })
    }

    /// The transforms of a group's GGSW as tiles, and with them a GGSW that is minus their sum.
    fn tiles(&self, values: &[u64], out: &mut [u64]) {
        const POLYNOMIALS: usize = 4;
        let size = POLYNOMIALS * self.plan.size();
        for polynomial in 0..POLYNOMIALS {
            for (point, leaf) in self.leaves.iter().enumerate() {
                // Leaf 32t + r is number 4·(t mod 2) + r mod 4 of tile 8·⌊t/2⌋ + ⌊r/4⌋.
                let (t, r) = (leaf / 32, leaf % 32);
                let (tile, leaf) = (t / 2 * 8 + r / 4, t % 2 * 4 + r % 4);
                let mut place = |monomial: usize, part: usize, value: f64| {
                    let code = monomial % 4 * 2 + polynomial / 2;
                    let at =
                        ((tile * 16 + monomial) * POLYNOMIALS + polynomial) * 8 + (leaf ^ code);
                    out[2 * at + part] = value.to_bits();
                };
                for part in 0..2 {
                    let mut sum = Twofold::default();
                    for (v, ggsw) in values.chunks_exact(size).enumerate() {
                        let at = polynomial * self.plan.size() + 2 * point + part;
                        let value = f64::from_bits(ggsw[at]);
                        sum.add(value);
                        place(v, part, value);
                    }
                    place(15, part, -sum.value());
                }
            }
        }
    }

    /// Polynomials of words to their transforms, in place. `work` is for the plan's `twofold_len` doubles.
    fn apply(&self, polynomials: &mut [u64], work: &mut [f64]) {
        for polynomial in polynomials.chunks_exact_mut(self.plan.size()) {
            self.plan.forward_twofold(polynomial, work);
            for (i, u) in self.plan.exponents().iter().enumerate() {
                let ((re, im), at) = (self.plan.position(i), 2 * self.points[*u as usize]);
                polynomial[at] = (work[re] * self.unit).to_bits();
                polynomial[at + 1] = (work[im] * self.unit).to_bits();
            }
        }
    }
}

/// A sum whose rounding errors are summed beside it: rounded once at the end, as a value of the key is.
#[derive(Default)]
struct Twofold {
    sum: f64,
    error: f64,
}

impl Twofold {
    fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        let took = sum - self.sum;
        self.error += (self.sum - (sum - took)) + (x - took);
        self.sum = sum;
    }

    fn value(&self) -> f64 {
        self.sum + self.error
    }
}

/// The matrix of a key switch. `fill`: the rows of an element of the mask, one after the other.
fn matrix(
    devices: &[Arc<dyn Device>],
    need: Need,
    shape: KeySwitch,
    modulus: Modulus,
    fill: &(dyn Fn(usize, &mut [u64]) + Sync),
    opened: &mut [DeviceKeys],
) -> Result<()> {
    // The rows of as many elements are whole steps.
    const ELEMENTS: usize = 32;
    let blocks = devices.iter().map(|d| Block::new(d, "open", matrix_bytes(&shape)));
    let blocks: Vec<Block> = blocks.collect::<Result<_>>()?;
    let (columns, level) = (shape.columns() as usize, shape.level as usize);
    let elements = (shape.input_dimension - shape.shared) as usize;
    let rows_of_element = level * shape.parts as usize;
    let unit = rows_of_element * shape.step_bytes();
    let piece = (PIECE as usize / unit).clamp(1, elements.div_ceil(ELEMENTS).max(1));
    let whole = matrix_bytes(&shape) as usize;
    for first in (0..elements).step_by(piece * ELEMENTS) {
        let from = first / ELEMENTS * unit;
        // The last unit may end early.
        let mut bytes = vec![0u8; (piece * unit).min(whole - from)];
        bytes.par_chunks_mut(unit).enumerate().for_each(|(i, out)| {
            let first = first + i * ELEMENTS;
            let mut words = vec![0u64; level * columns];
            for element in first..elements.min(first + ELEMENTS) {
                fill(element, &mut words);
                let mut row = (element - first) * rows_of_element;
                for of_level in words.chunks_exact_mut(columns) {
                    for part in 0..shape.parts {
                        if part > 0 {
                            let power = 1 << KeySwitch::PART_BITS;
                            of_level.iter_mut().for_each(|x| *x = modulus.mul(*x, power));
                        }
                        shape.place(row, of_level, out);
                        row += 1;
                    }
                }
            }
        });
        for block in &blocks {
            block.upload("open", from as u64, &bytes)?;
        }
    }
    for (keys, bytes) in opened.iter_mut().zip(blocks) {
        keys.switches.insert(need, Matrix { bytes, shape });
    }
    Ok(())
}

/// Refuses keys that would not fit, with the sizes, before anything is allocated.
///
/// # Errors
/// `Error::Memory`.
pub(super) fn require(op: &'static str, device: &dyn Device, bytes: u64) -> Result<()> {
    let free = device.free_memory().map_err(|f| refused(op, device, f))?;
    if bytes <= free {
        return Ok(());
    }
    let gigabytes = |bytes: u64| format!("{:.3} GB", bytes as f64 / 1e9);
    Err(Error::memory(
        op,
        format!("{} on {}", gigabytes(bytes), device.info().name),
        format!("{} free", gigabytes(free)),
        "use a smaller batch or parameter set, free the GPU's memory, or compute on the CPU",
    )
    .or_cpu())
}
