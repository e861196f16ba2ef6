//! Checks of what is written to and read from registers; and registers in host memory, shared by the backends that compute there: allocated
//! when first written, freed when dead.

use super::{Ckks, Family, Loaded, Tfhe};
use crate::program::{Op, Operation, Reg};
use crate::{Error, Result};
use std::ops::Range;

/// The error of a session that has no program.
pub(super) fn not_loaded() -> Error {
    Error::bad_input("run", "a loaded program", "none", "call load first")
}

impl<F: Family> Loaded<F> {
    /// The words of a lane of a register, if the program has it.
    fn known_width(&self, reg: Reg, op: &'static str) -> Result<usize> {
        if self.program.info(reg).is_some() {
            return Ok(F::width(&self.program, reg));
        }
        Err(Error::bad_input(
            op,
            format!("a register below {}", self.program.registers()),
            reg.0.to_string(),
            "use registers of the loaded program",
        ))
    }

    /// The lanes that words fill from `lane` on, if the register has them.
    pub(super) fn check_write(&self, at: Reg, lane: usize, words: usize) -> Result<Range<usize>> {
        let width = self.known_width(at, "write")?;
        let end = lane.checked_add(words / width).filter(|end| *end <= self.lanes);
        match end {
            Some(end) if words.is_multiple_of(width) => Ok(lane..end),
            _ => Err(Error::bad_input(
                "write",
                format!("at most {} lanes of {width} words", self.lanes),
                format!("{words} words from lane {lane}"),
                "write words of the register's ciphertexts to lanes that were loaded",
            )),
        }
    }

    /// Refuses waves that the program does not have.
    pub(super) fn check_waves(&self, waves: &Range<usize>) -> Result<()> {
        let there = self.walk.waves.len();
        if waves.start <= waves.end && waves.end <= there {
            return Ok(());
        }
        Err(Error::bad_input(
            "run",
            format!("waves within 0..{there}"),
            format!("{waves:?}"),
            "run the waves of the program that was loaded",
        ))
    }

    /// Refuses lanes that a register does not have, and registers that are not alive.
    pub(super) fn check_read(&self, at: Reg, alive: bool, lanes: &Range<usize>) -> Result<()> {
        self.known_width(at, "read")?;
        let there = if alive { self.lanes } else { 0 };
        if lanes.start <= lanes.end && lanes.end <= there {
            return Ok(());
        }
        Err(Error::bad_input(
            "read",
            format!("lanes of a live register of {there}"),
            format!("{lanes:?} of register {}", at.0),
            "write inputs before the first wave, and read outputs after the last",
        ))
    }
}

/// The register file of one loaded program. A machine keeps a lane as words `T`: those that are written and read, or its own form of a
/// ciphertext of CKKS.
pub(super) struct Registers<F: Family = Tfhe, T = <F as Family>::Word> {
    loaded: Loaded<F>,
    /// The lanes of each register, one after another; empty before the first is written and after the last is read.
    words: Vec<Vec<T>>,
}

impl<F: Family, T: Clone + Default> Registers<F, T> {
    /// Empty registers for a program.
    pub fn new(loaded: Loaded<F>) -> Self {
        let words = vec![Vec::new(); loaded.program.registers()];
        Registers { loaded, words }
    }

    /// The program.
    pub fn loaded(&self) -> &Loaded<F> {
        &self.loaded
    }

    pub fn lanes(&self) -> usize {
        self.loaded.lanes
    }

    /// Words of a ciphertext of a register that the program has.
    pub fn width(&self, reg: Reg) -> usize {
        F::width(&self.loaded.program, reg)
    }

    /// Puts words into a register from `lane` on.
    pub fn write(&mut self, at: Reg, lane: usize, words: &[T]) -> Result<()> {
        self.loaded.check_write(at, lane, words.len())?;
        let start = lane * self.width(at);
        self.allocate(at)[start..start + words.len()].clone_from_slice(words);
        Ok(())
    }

    /// Some lanes of a register.
    pub fn read(&self, at: Reg, lanes: Range<usize>) -> Result<&[T]> {
        let alive = self.words.get(at.0 as usize).is_some_and(|words| !words.is_empty());
        self.loaded.check_read(at, alive, &lanes)?;
        let width = self.width(at);
        Ok(&self.words[at.0 as usize][lanes.start * width..lanes.end * width])
    }

    /// The register's memory, with zeros when first asked for.
    pub fn allocate(&mut self, at: Reg) -> &mut Vec<T> {
        let size = self.width(at) * self.lanes();
        let words = &mut self.words[at.0 as usize];
        if words.is_empty() {
            words.resize(size, T::default());
        }
        words
    }

    /// One lane of a register that is alive.
    pub fn lane(&self, at: Reg, lane: usize) -> &[T] {
        let width = self.width(at);
        &self.words[at.0 as usize][lane * width..(lane + 1) * width]
    }

    /// One lane of a register, to be written.
    pub fn lane_mut(&mut self, at: Reg, lane: usize) -> &mut [T] {
        let width = self.width(at);
        &mut self.allocate(at)[lane * width..(lane + 1) * width]
    }

    /// All lanes of a register that is alive.
    pub fn all(&self, at: Reg) -> &[T] {
        &self.words[at.0 as usize]
    }

    /// Refuses to read registers that were never written.
    pub fn require_alive(&self, regs: &[Reg]) -> Result<()> {
        match regs.iter().find(|r| self.words[r.0 as usize].is_empty()) {
            None => Ok(()),
            Some(r) => Err(never_written(*r)),
        }
    }

    /// Frees registers that are not read after a wave.
    pub fn retire(&mut self, wave: usize) {
        for r in &self.loaded.walk.dead_after[wave] {
            self.words[r.0 as usize] = Vec::new();
        }
    }
}

impl Registers {
    /// Bodies of a ciphertext of a register that the program has.
    pub fn bodies(&self, reg: Reg) -> usize {
        self.loaded.program.bodies(reg)
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
}

/// Registers of CKKS: a word is a ciphertext, none before it is written.
impl<T: Clone> Registers<Ckks, Option<T>> {
    /// A ciphertext that was written.
    pub fn get(&self, at: Reg, lane: usize) -> Result<&T> {
        let words = self.words.get(at.0 as usize).and_then(|words| words.get(lane));
        words.and_then(Option::as_ref).ok_or_else(|| never_written(at))
    }

    /// Writes a ciphertext to a register that the program has.
    pub fn put(&mut self, at: Reg, lane: usize, x: T) {
        self.lane_mut(at, lane)[0] = Some(x);
    }
}

fn never_written(reg: Reg) -> Error {
    Error::bad_input(
        "run",
        "every input written and waves run in order",
        format!("register {} empty", reg.0),
        "write the inputs, then run the waves from the first",
    )
}
