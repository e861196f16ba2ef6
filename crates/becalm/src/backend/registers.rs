//! Registers in host memory, shared by the backends that compute there: allocated when first written, freed when dead.

use super::Loaded;
use crate::cipher::Ciphertext;
use crate::program::{Op, Operation, Reg, RegType};
use crate::{Error, Result};
use std::ops::Range;

fn known_width(loaded: &Loaded, reg: Reg, op: &'static str) -> Result<usize> {
    if loaded.program.info(reg).is_some() {
        return Ok(loaded.program.width(reg));
    }
    Err(Error::bad_input(
        op,
        format!("a register below {}", loaded.program.registers()),
        reg.0.to_string(),
        "use registers of the loaded program",
    ))
}

/// The words of ciphertexts that a register takes from `lane` on.
pub(super) fn check_write<'a>(
    loaded: &Loaded,
    at: Reg,
    lane: usize,
    ct: &'a Ciphertext,
) -> Result<&'a [u64]> {
    let width = known_width(loaded, at, "write")?;
    let (ty, words) = match ct {
        Ciphertext::Lwe(c) => (RegType::Lwe(c.role), &c.data),
        Ciphertext::Glwe(c) => (RegType::Glwe, &c.data),
    };
    let fits = words.len() % width == 0
        && lane.checked_add(words.len() / width).is_some_and(|end| end <= loaded.lanes);
    if loaded.program.info(at).map(|i| i.ty) == Some(ty) && fits {
        return Ok(words);
    }
    Err(Error::bad_input(
        "write",
        match loaded.program.info(at) {
            Some(info) => format!("{} in {} lanes", info.ty, loaded.lanes),
            None => "a register of the program".into(),
        },
        format!("{ct:?} from lane {lane}"),
        "write what the register holds",
    ))
}

/// Refuses lanes that a register does not have, and registers that are not alive.
pub(super) fn check_read(
    loaded: &Loaded,
    at: Reg,
    alive: bool,
    lanes: &Range<usize>,
) -> Result<()> {
    known_width(loaded, at, "read")?;
    let there = if alive { loaded.lanes } else { 0 };
    if lanes.start <= lanes.end && lanes.end <= there {
        return Ok(());
    }
    Err(Error::bad_input(
        "read",
        format!("lanes of a live register of {there}"),
        format!("{lanes:?} of register {}", at.0),
        "read outputs after the last wave",
    ))
}

/// The register file of one loaded program.
pub(super) struct Registers {
    loaded: Loaded,
    words: Vec<Vec<u64>>,
}

impl Registers {
    /// Empty registers for a program.
    pub fn new(loaded: Loaded) -> Self {
        let words = vec![Vec::new(); loaded.program.registers()];
        Registers { loaded, words }
    }

    pub fn lanes(&self) -> usize {
        self.loaded.lanes
    }

    /// Words of a ciphertext of a register that the program has.
    pub fn width(&self, reg: Reg) -> usize {
        self.loaded.program.width(reg)
    }

    /// Bodies of a ciphertext of a register that the program has.
    pub fn bodies(&self, reg: Reg) -> usize {
        self.loaded.program.bodies(reg)
    }

    /// Puts ciphertexts into a register from `lane` on.
    pub fn write(&mut self, at: Reg, lane: usize, ct: &Ciphertext) -> Result<()> {
        let words = check_write(&self.loaded, at, lane, ct)?;
        let start = lane * self.width(at);
        self.allocate(at)[start..start + words.len()].copy_from_slice(words);
        Ok(())
    }

    /// Copies lanes out.
    pub fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        let alive = self.words.get(at.0 as usize).is_some_and(|words| !words.is_empty());
        check_read(&self.loaded, at, alive, &lanes)?;
        let width = self.width(at);
        Ok(self.words[at.0 as usize][lanes.start * width..lanes.end * width].to_vec())
    }

    /// The register's memory, zeroed when first asked for.
    pub fn allocate(&mut self, at: Reg) -> &mut Vec<u64> {
        let size = self.loaded.program.width(at) * self.lanes();
        let words = &mut self.words[at.0 as usize];
        if words.is_empty() {
            words.resize(size, 0);
        }
        words
    }

    /// One lane of a register that is alive.
    pub fn lane(&self, at: Reg, lane: usize) -> &[u64] {
        let width = self.loaded.program.width(at);
        &self.words[at.0 as usize][lane * width..(lane + 1) * width]
    }

    /// One lane of a register, to be written.
    pub fn lane_mut(&mut self, at: Reg, lane: usize) -> &mut [u64] {
        let width = self.loaded.program.width(at);
        &mut self.allocate(at)[lane * width..(lane + 1) * width]
    }

    /// The input of a key switch of any kind: the masks, one after another where there are several, then the bodies. A map
    /// between slots reads bodies as coefficients of a mask, and adds to bodies of 0.
    pub fn key_switch_input(&self, op: &Op, lane: usize) -> Vec<u64> {
        let srcs = op.sources();
        let bodies = srcs.first().map_or(0, |r| self.bodies(*r));
        let parts =
            srcs.iter().map(|r| self.lane(*r, lane)).map(|ct| ct.split_at(ct.len() - bodies));
        let (masks, bodies): (Vec<&[u64]>, Vec<&[u64]>) = parts.unzip();
        let mut words = [masks.concat(), bodies.concat()].concat();
        if let Op::SlotMap { dst, .. } = op {
            words.resize(words.len() + self.bodies(*dst), 0);
        }
        words
    }

    /// All lanes of a register that is alive.
    pub fn all(&self, at: Reg) -> &[u64] {
        &self.words[at.0 as usize]
    }

    /// Refuses to read registers that were never written.
    pub fn require_alive(&self, regs: &[Reg]) -> Result<()> {
        match regs.iter().find(|r| self.words[r.0 as usize].is_empty()) {
            None => Ok(()),
            Some(r) => Err(Error::bad_input(
                "run",
                "every input written and waves run in order",
                format!("register {} empty", r.0),
                "write the inputs, then run the waves from the first",
            )),
        }
    }

    /// Frees registers that are not read after a wave.
    pub fn retire(&mut self, wave: usize) {
        let walk = self.loaded.walk.clone();
        for r in &walk.dead_after[wave] {
            self.words[r.0 as usize] = Vec::new();
        }
    }
}
