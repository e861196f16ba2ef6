//! The CPU backend: a wave over all threads, the key streamed once for each tile of ciphertexts.
//!
//! A wave is a list of items, one for each instruction and lane. Bootstraps are cut into tiles (as many ciphertexts as hide
//! the reading of the key, fewer when there are threads to fill), key switches into tiles for the matrix product.

use super::linear;
use crate::backend::registers::{Registers, not_loaded};
use crate::backend::{Loaded, Session};
use crate::bootstrap::tfhe::Shape;
use crate::bootstrap::tfhe::classic::{BootstrapKey, sample_extract};
use crate::bootstrap::tfhe::extended::load_table;
use crate::cipher::{EvaluationKey, KeyRole};
use crate::math::parallel::*;
use crate::math::simd::Level;
use crate::math::threads::{self, Threads};
use crate::params::TfheParams;
use crate::program::{Need, Op, Operation, Program, Reg, TableRef, Walk, WaveKind};
use crate::tfhe::key_switch::{KeySwitchKey, KeySwitchScratch, KeySwitchShape};
use crate::{Error, Progress, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Ciphertexts that share one pass over the key-switching key.
const KEY_SWITCH_TILE: usize = 36;

/// Ciphertexts that share one pass over the bootstrapping key, at most; for sizing batches.
pub(super) const ROTATION_TILE: usize = 8;

/// The needed parts of a key, expanded on the threads of `pool`.
pub(super) fn open(
    pool: &Arc<Threads>,
    level: Level,
    keys: &EvaluationKey,
    needs: &BTreeSet<Need>,
) -> Result<Box<dyn Session>> {
    let params = keys.params().clone();
    pool.install(|| {
        let bootstrap =
            needs.contains(&Need::Bootstrap).then(|| BootstrapKey::new(keys, level)).transpose()?;
        let shape = KeySwitchShape::of(&params);
        let fill = |i: usize, out: &mut [u64]| keys.expand_key_switch(i, out);
        let key_switch = needs
            .contains(&Need::KeySwitch)
            .then(|| KeySwitchKey::new(shape, level, fill))
            .transpose()?;
        let mut slot_keys = BTreeMap::new();
        for need in needs {
            if let Some(key) = need.slot_key(keys)? {
                let fill = |i: usize, out: &mut [u64]| key.expand(i, out);
                let shape = key.shape();
                slot_keys.insert(*need, KeySwitchKey::new(shape, level, fill)?);
            }
        }
        let session = CpuSession {
            pool: pool.clone(),
            params,
            bootstrap,
            key_switch,
            slot_keys,
            registers: None,
        };
        Ok(Box::new(session) as Box<dyn Session>)
    })
}

struct CpuSession {
    pool: Arc<Threads>,
    params: Arc<TfheParams>,
    bootstrap: Option<BootstrapKey>,
    key_switch: Option<KeySwitchKey>,
    slot_keys: BTreeMap<Need, KeySwitchKey>,
    registers: Option<Registers>,
}

/// One bootstrap of one lane.
struct Item<'a> {
    op: &'a Op,
    lane: usize,
}

impl Session for CpuSession {
    fn splits_waves(&self) -> bool {
        true
    }

    fn load(
        &mut self,
        program: Arc<Program>,
        walk: Arc<Walk>,
        lanes: usize,
        _progress: Progress,
    ) -> Result<Loaded> {
        for need in program.needs() {
            let there = match need {
                Need::Bootstrap => self.bootstrap.is_some(),
                Need::KeySwitch => self.key_switch.is_some(),
                other => self.slot_keys.contains_key(&other),
            };
            if !there {
                return Err(Error::unsupported(
                    "load",
                    format!("{need} opened"),
                    "a session without it",
                    "open the session with Program::needs",
                ));
            }
        }
        let loaded = Loaded { program, walk, lanes };
        self.registers = Some(Registers::new(loaded.clone()));
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[u64]) -> Result<()> {
        registers(&mut self.registers)?.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        self.registers.as_ref().ok_or_else(not_loaded)?.read(at, lanes).map(<[u64]>::to_vec)
    }

    fn run(&mut self, waves: Range<usize>, _progress: Progress) -> Result<()> {
        let pool = self.pool.clone();
        let loaded = registers(&mut self.registers)?.loaded().clone();
        loaded.check_waves(&waves)?;
        for w in waves {
            let ops: Vec<&Op> =
                loaded.walk.waves[w].ops.iter().map(|&i| &loaded.program.ops()[i]).collect();
            for op in &ops {
                // Linear instructions of a wave may read each other, so only what enters the wave is checked there.
                if loaded.walk.waves[w].kind != WaveKind::Linear {
                    registers(&mut self.registers)?.require_alive(&op.sources())?;
                }
            }
            match loaded.walk.waves[w].kind {
                WaveKind::Linear => {
                    linear::run(registers(&mut self.registers)?, self.params.modulus, &ops)?
                }
                WaveKind::KeySwitch => pool.install(|| self.key_switches(&ops))?,
                // Each by its own key.
                WaveKind::Slots => {
                    pool.install(|| ops.chunks(1).try_for_each(|op| self.key_switches(op)))?
                }
                WaveKind::Bootstrap => pool.install(|| self.bootstraps(&loaded.program, &ops))?,
                // No instruction of TFHE is in such a wave.
                WaveKind::Rlwe => {}
            }
            registers(&mut self.registers)?.retire(w);
        }
        Ok(())
    }
}

impl CpuSession {
    fn key_switches(&mut self, ops: &[&Op]) -> Result<()> {
        let Some(first) = ops.first() else { return Ok(()) };
        let key = match first.need() {
            Some(Need::KeySwitch) => self.key_switch.as_ref(),
            Some(need) => self.slot_keys.get(&need),
            None => None,
        };
        let key = key.ok_or_else(not_loaded)?;
        let regs = registers(&mut self.registers)?;
        let items = items(ops, regs.lanes());
        let width = regs.width(first.results()[0]);
        let tile = tile_size(items.len(), KEY_SWITCH_TILE);
        let results: Vec<Vec<u64>> = items
            .par_chunks(tile)
            .map_init(KeySwitchScratch::new, |scratch, tile| {
                let inputs = tile.iter().flat_map(|i| regs.key_switch_input(i.op, i.lane));
                let inputs: Vec<u64> = inputs.collect();
                let mut out = vec![0u64; tile.len() * width];
                key.apply(&inputs, &mut out, scratch)?;
                Ok(out)
            })
            .collect::<Result<_>>()?;
        for (items, words) in items.chunks(tile).zip(results) {
            for (item, words) in items.iter().zip(words.chunks_exact(width)) {
                regs.lane_mut(item.op.results()[0], item.lane).copy_from_slice(words);
            }
        }
        Ok(())
    }

    fn bootstraps(&mut self, program: &Program, ops: &[&Op]) -> Result<()> {
        let key = self.bootstrap.as_ref().ok_or_else(not_loaded)?;
        let regs = registers(&mut self.registers)?;
        let items = items(ops, regs.lanes());
        let tile = tile_size(items.len(), key.best_tile());
        let results: Vec<Vec<Vec<u64>>> = items
            .par_chunks(tile)
            .map_init(
                || key.scratch(tile),
                |scratch, tile| {
                    let scratch = scratch.as_mut().map_err(|e| e.clone())?;
                    bootstrap_tile(&self.params, key, program, regs, tile, scratch)
                },
            )
            .collect::<Result<_>>()?;
        for (item, words) in items.iter().zip(results.into_iter().flatten()) {
            let width = KeyRole::Big.width(&self.params);
            for (dst, words) in item.op.results().iter().zip(words.chunks_exact(width)) {
                regs.lane_mut(*dst, item.lane).copy_from_slice(words);
            }
        }
        Ok(())
    }
}

/// For each item of a tile the extracted ciphertexts, one after another.
fn bootstrap_tile(
    params: &TfheParams,
    key: &BootstrapKey,
    program: &Program,
    regs: &Registers,
    tile: &[Item],
    scratch: &mut crate::bootstrap::tfhe::classic::Scratch,
) -> Result<Vec<Vec<u64>>> {
    let n = params.polynomial_size;
    let glwe = Shape::of(params).glwe_len() * params.accumulators();
    let mut accs = vec![0u64; tile.len() * glwe];
    let mut inputs = Vec::with_capacity(tile.len());
    let mut extract = Vec::with_capacity(tile.len());
    for (item, acc) in tile.iter().zip(accs.chunks_exact_mut(glwe)) {
        let Op::Bootstrap { src, table, .. } = item.op else {
            return Err(not_loaded());
        };
        inputs.push(regs.lane(*src, item.lane));
        if let TableRef::Encrypted(reg, _) = table {
            acc.copy_from_slice(regs.lane(*reg, item.lane));
        }
        for slot in 0..params.slots {
            if let Some(polynomial) = program.polynomial(table, slot) {
                load_table(params, slot, polynomial, acc);
            }
        }
        extract.push(program.outputs_of(table));
    }
    key.rotate(&mut accs, &inputs, scratch)?;
    let width = KeyRole::Big.width(params);
    Ok(accs
        .chunks_exact(glwe)
        .zip(extract)
        .map(|(acc, outputs)| {
            let mut words = vec![0u64; outputs.len() * width];
            // All extracted coefficients lie in accumulator 0, which is first.
            let (parts, acc) = (params.accumulators(), &acc[..glwe / params.accumulators()]);
            for (out, o) in words.chunks_exact_mut(width).zip(&*outputs) {
                sample_extract(params.modulus, n, acc, o.index / parts, out);
            }
            words
        })
        .collect())
}

fn items<'a>(ops: &[&'a Op], lanes: usize) -> Vec<Item<'a>> {
    ops.iter().flat_map(|op| (0..lanes).map(|lane| Item { op, lane })).collect()
}

/// Tiles of at most `best` that give every thread work.
fn tile_size(items: usize, best: usize) -> usize {
    items.div_ceil(threads::current()).clamp(1, best.max(1))
}

fn registers(registers: &mut Option<Registers>) -> Result<&mut Registers> {
    registers.as_mut().ok_or_else(not_loaded)
}
