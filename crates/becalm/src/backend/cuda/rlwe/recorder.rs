//! The recorder of a program: the launches so far, the keys, and the registers and their places.

use super::arithmetic::Cipher;
use super::keys::{DeviceKey, DeviceMap, Keys, Plains};
use super::tape::{Kind, Limbs, Tape};
use crate::backend::Plain;
use crate::cipher::Purpose;
use crate::program::Reg;
use crate::program::rlwe::CkksProgram;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Records the instructions of a program for the lanes of a tape.
pub(super) struct Recorder<'a> {
    pub tape: Tape<'a>,
    pub keys: &'a Keys,
    pub maps: &'a [DeviceMap],
    pub plains: &'a mut Plains,
    /// The encoded plaintext of a program that has one plaintext and nothing else to prepare.
    pub plain: Option<Arc<Plain>>,
    pub program: &'a CkksProgram,
    pub registers: Vec<Option<Cipher>>,
    /// Instructions that were recorded with one before.
    pub early: BTreeSet<usize>,
    /// The place of each register that was ever filled.
    pub places: Vec<Option<Place>>,
}

/// Where a register lies: the address of its first part in the first lane, doubles from one part to the next, and its limbs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub at: u64,
    pub stride: u64,
    pub limbs: usize,
}

impl Place {
    /// The same of another lane.
    pub fn of(self, lane: usize) -> Place {
        Place { at: self.at + 16 * lane as u64 * self.stride, ..self }
    }
}

impl<'a> Recorder<'a> {
    /// With memory for the inputs of the program.
    pub fn new(
        tape: Tape<'a>,
        keys: &'a Keys,
        maps: &'a [DeviceMap],
        plains: &'a mut Plains,
        plain: Option<Arc<Plain>>,
        program: &'a CkksProgram,
    ) -> Recorder<'a> {
        let (registers, places) =
            (vec![None; program.registers()], vec![None; program.registers()]);
        let early = BTreeSet::new();
        let mut own =
            Recorder { tape, keys, maps, plains, plain, program, registers, early, places };
        for reg in program.inputs() {
            let level = program.reg(*reg).level;
            let limbs = own.tape.context.words(level);
            let parts = own.tape.take(Kind::Ciphertext, 2 * own.tape.lanes, limbs);
            own.put(*reg, Cipher { level, scale: 1.0, parts });
        }
        own
    }

    /// A result, at the level and the scale that the program recorded.
    pub fn put(&mut self, reg: Reg, made: Cipher) {
        let info = self.program.reg(reg);
        debug_assert!(made.level >= info.level, "level {} for {}", made.level, info.level);
        let limbs = self.tape.context.words(info.level);
        let Limbs { at, stride, .. } = made.parts;
        self.places[reg.0 as usize] = Some(Place { at, stride, limbs });
        let made = Cipher { level: info.level, scale: info.scale, ..made };
        self.registers[reg.0 as usize] = Some(made);
    }

    pub fn get(&self, reg: Reg) -> Result<Cipher> {
        self.registers[reg.0 as usize].clone().ok_or_else(|| {
            let (wanted, got) = ("waves run in order", format!("register {} empty", reg.0));
            Error::bad_input("run", wanted, got, "run the waves from the first")
        })
    }

    /// A key of the tier of a level.
    pub fn key(&self, purpose: Purpose, level: usize) -> Result<&'a DeviceKey> {
        self.keys.get((purpose, self.tape.context.tier_at(level)), level)
    }
}
