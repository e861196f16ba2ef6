//! Conformance of a program that came from outside: it is recorded again, and the recorder refuses all that it always refuses.

use super::{Op, Operation, Program, Reg, RegType, TableRef};
use crate::cipher::Encoding;
use crate::program::graph::{MAX_ITEMS, Recorded, unlike_recorded};
use crate::tfhe::{Output, Table};
use crate::{Error, Result};

impl Program {
    /// Checks a program that was not recorded here: register order and types, table shapes, ranges.
    ///
    /// # Errors
    /// The errors of the recorder; [`Error::BadInput`] if recording it again gives another program.
    pub fn validate(&self) -> Result<()> {
        if self.tables.len() > MAX_ITEMS {
            return Err(unlike_recorded("more than 2^24 tables"));
        }
        self.params.validate()?;
        self.tables.iter().try_for_each(|t| self.check_table(t))?;
        // The copy has the tables from the start: to look each one up again would take quadratic time.
        let mut copy = Program::new(self.params.clone());
        copy.tables = self.tables.clone();
        self.replay(|step| match step {
            Recorded::Input(reg) => self.copy_input(&mut copy, reg),
            Recorded::Op(op) => self.copy_op(&mut copy, op),
        })?;
        self.outputs.iter().try_for_each(|r| copy.output(*r))?;
        match copy.graph == self.graph {
            true => Ok(()),
            false => Err(unlike_recorded("other registers or instructions")),
        }
    }

    fn copy_input(&self, copy: &mut Program, reg: Reg) -> Result<()> {
        let info = self.known(reg)?;
        info.encoding.checked()?;
        if let RegType::Lwe(role) = info.ty {
            role.checked(&self.params)?;
        }
        copy.input_as(info);
        Ok(())
    }

    fn copy_op(&self, copy: &mut Program, op: &Op) -> Result<()> {
        if let Op::Bootstrap { dst, table, .. } = op {
            // First of all: a large table that many instructions share must not make more registers than there are.
            let outputs = self.outputs_of(table).len();
            if dst.len() != outputs {
                return Err(Error::bad_input(
                    "program",
                    format!("{outputs} results of a bootstrap"),
                    dst.len().to_string(),
                    "record the program again",
                ));
            }
        }
        match op {
            Op::MulAdd { dst, terms, constant } => {
                let info = self.known(*dst)?;
                info.encoding.checked()?;
                if !self.params.modulus.is_reduced(*constant) {
                    return Err(Error::bad_input(
                        "program",
                        "constants below the modulus",
                        constant.to_string(),
                        "reduce the constant",
                    ));
                }
                copy.linear_as(terms, *constant, info.encoding, info.range).map(|_| ())
            }
            Op::KeySwitch { src, .. } => copy.key_switch(*src).map(|_| ()),
            Op::AddSlots { src, constants, .. } => {
                let info = self.known(op.results()[0])?;
                copy.add_slots_as(*src, constants, info.range).map(|_| ())
            }
            Op::Extract { src, slot, .. } => copy.extract(*src, *slot).map(|_| ()),
            Op::Pack { srcs, .. } => copy.pack(srcs).map(|_| ()),
            Op::SlotMap { src, map, sums, .. } => copy.slot_map(*src, *map, *sums).map(|_| ()),
            Op::Bootstrap { src, table: TableRef::Clear(t), .. } => {
                copy.check_lookup(*src, self.known_table(*t)?)?;
                copy.push_bootstrap(*src, TableRef::Clear(*t)).map(|_| ())
            }
            Op::Bootstrap { src, table: TableRef::Slots(tables), .. } => {
                let of = |t: &u32| self.known_table(*t);
                let known: Vec<&Table> = tables.iter().map(of).collect::<Result<_>>()?;
                copy.check_slots(*src, &known)?;
                copy.push_bootstrap(*src, TableRef::Slots(tables.clone())).map(|_| ())
            }
            Op::Bootstrap { src, table: TableRef::Encrypted(glwe, outputs), .. } => {
                outputs.iter().try_for_each(|o| o.encoding.checked().map(|_| ()))?;
                copy.bootstrap_encrypted(*src, *glwe, outputs).map(|_| ())
            }
        }
    }

    fn known_table(&self, index: u32) -> Result<&Table> {
        self.tables.get(index as usize).ok_or_else(|| {
            Error::bad_input(
                "program",
                format!("a table below {}", self.tables.len()),
                index.to_string(),
                "record the program again",
            )
        })
    }

    fn check_table(&self, table: &Table) -> Result<()> {
        let n = self.params.table_size();
        table.input.checked()?;
        let values = |e: Encoding| e.values as i64;
        // Values below 0 lie on the other half of the torus, which tables reach too.
        let inside = |o: &Output| {
            -values(o.encoding) <= o.range.0
                && o.range.0 <= o.range.1
                && o.range.1 < o.encoding.parts() as i64
        };
        let limited = table.limit < values(table.input) && table.outputs.iter().all(inside);
        let reduced = table.polynomial.iter().all(|c| self.params.modulus.is_reduced(*c));
        let outputs = table.outputs.iter().all(|o| o.index < n && o.encoding.checked().is_ok());
        if table.polynomial.len() == n && reduced && outputs && limited {
            return Ok(());
        }
        Err(Error::bad_input(
            "program",
            format!("tables of {n} reduced coefficients, extracted inside"),
            "another table",
            "build the table for this parameter set",
        ))
    }
}
