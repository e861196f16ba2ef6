//! From a program to the processor's instructions: arguments are loaded where they are first read, a slot is free again after
//! its last reader, each wave ends with a flush and a barrier, results are stored at the end.

use super::isa::{Instruction, Slot};
use super::{Op, Program, Reg, TableRef};
use crate::params::Rotation;
use crate::{Error, Result};
use std::collections::{BTreeSet, HashMap};

/// Byte addresses in the machine's memory. Ciphertexts and tables lie one after another, 8 bytes a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The arguments, in order.
    pub inputs: u64,
    /// The results, in order.
    pub outputs: u64,
    /// The program's tables, N words each.
    pub tables: u64,
    /// The key-switching key.
    pub key_switch: u64,
    /// The bootstrapping key.
    pub bootstrap: u64,
}

struct Slots {
    at: HashMap<Reg, Slot>,
    free: BTreeSet<u32>,
    /// Where each register is read last.
    last: HashMap<Reg, usize>,
}

impl Slots {
    /// The lowest run of `count` free slots.
    fn take(&mut self, regs: &[Reg]) -> Result<Slot> {
        let count = regs.len() as u32;
        let fits = |start: &u32| (*start..start + count).all(|s| self.free.contains(&s));
        let start = self.free.iter().copied().find(fits).ok_or_else(|| {
            Error::memory(
                "lower",
                format!("{count} of 65536 slots"),
                "all taken",
                "split the program",
            )
        })?;
        for (i, reg) in regs.iter().enumerate() {
            self.free.remove(&(start + i as u32));
            self.at.insert(*reg, Slot((start + i as u32) as u16));
        }
        Ok(Slot(start as u16))
    }

    fn retire(&mut self, regs: impl Iterator<Item = Reg>, now: usize) {
        for reg in regs {
            if self.last.get(&reg).is_none_or(|last| *last <= now) {
                self.free.extend(self.at.remove(&reg).map(|s| u32::from(s.0)));
            }
        }
    }
}

impl Program {
    /// The program as instructions for a machine whose memory is laid out like this.
    ///
    /// # Errors
    /// [`Error::Memory`] if more than 65536 ciphertexts are alive at once; [`Error::Unsupported`] for an encrypted table, which
    /// slots do not hold.
    pub fn lower(&self, layout: &Layout) -> Result<Vec<Instruction>> {
        let p = &self.params;
        if p.slots > 1 || p.shared_key || p.rotation != Rotation::Classic {
            return Err(Error::unsupported(
                "lower",
                "a set with classic rotation, one slot and keys of their own",
                format!("`{}`", p.name),
                "record the program for a classic set",
            ));
        }
        let (waves, _) = self.waves();
        let order: Vec<usize> = waves.iter().flat_map(|w| w.ops.iter().copied()).collect();
        let mut last = HashMap::new();
        for (now, op) in order.iter().map(|i| &self.ops[*i]).enumerate() {
            last.extend(op.sources().into_iter().map(|r| (r, now)));
        }
        last.extend(self.outputs.iter().map(|r| (*r, usize::MAX)));
        let mut slots = Slots { at: HashMap::new(), free: (0..1 << 16).collect(), last };
        let mut code = vec![];
        let mut address = layout.inputs;
        let mut arguments = HashMap::new();
        for reg in &self.inputs {
            arguments.insert(*reg, address);
            address += 8 * self.width(*reg) as u64;
        }
        let mut now = 0;
        for wave in &waves {
            for op in wave.ops.iter().map(|i| &self.ops[*i]) {
                for reg in op.sources() {
                    if let (Some(address), false) =
                        (arguments.get(&reg), slots.at.contains_key(&reg))
                    {
                        code.push(Instruction::Load {
                            dst: slots.take(&[reg])?,
                            address: *address,
                        });
                    }
                }
                code.push(self.lower_op(op, layout, &mut slots)?);
                slots.retire(op.sources().into_iter().chain(op.results().iter().copied()), now);
                now += 1;
            }
            code.extend([Instruction::Flush, Instruction::Sync]);
        }
        self.store(layout.outputs, &arguments, &mut slots, &mut code)?;
        code.push(Instruction::Halt);
        Ok(code)
    }

    fn store(
        &self,
        mut address: u64,
        arguments: &HashMap<Reg, u64>,
        slots: &mut Slots,
        code: &mut Vec<Instruction>,
    ) -> Result<()> {
        for reg in &self.outputs {
            if let (Some(address), false) = (arguments.get(reg), slots.at.contains_key(reg)) {
                code.push(Instruction::Load { dst: slots.take(&[*reg])?, address: *address });
            }
            code.push(Instruction::Store { src: slots.at[reg], address });
            address += 8 * self.width(*reg) as u64;
        }
        Ok(())
    }

    fn lower_op(&self, op: &Op, layout: &Layout, slots: &mut Slots) -> Result<Instruction> {
        Ok(match op {
            Op::MulAdd { dst, terms, constant } => {
                let terms = terms.iter().map(|(c, r)| (*c, slots.at[r])).collect();
                Instruction::MulAdd { dst: slots.take(&[*dst])?, terms, constant: *constant }
            }
            Op::KeySwitch { dst, src } => {
                let src = slots.at[src];
                Instruction::KeySwitch { dst: slots.take(&[*dst])?, src, key: layout.key_switch }
            }
            Op::Bootstrap { dst, src, table: TableRef::Clear(t) } => Instruction::Bootstrap {
                src: slots.at[src],
                dst: slots.take(dst)?,
                key: layout.bootstrap,
                table: layout.tables + 8 * u64::from(*t) * self.params.polynomial_size as u64,
                encrypted: false,
                indices: self.tables[*t as usize].outputs.iter().map(|o| o.index as u64).collect(),
            },
            Op::Bootstrap { table: TableRef::Encrypted(..), .. } => {
                return Err(Error::unsupported(
                    "lower",
                    "tables in the clear",
                    "an encrypted one",
                    "give its address in the text of the program",
                ));
            }
            _ => {
                return Err(Error::unsupported(
                    "lower",
                    "ciphertexts of one message",
                    "an instruction on the slots of a common mask",
                    "record the program for a set with one slot",
                ));
            }
        })
    }
}
