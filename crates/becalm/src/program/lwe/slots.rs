//! Instructions of common-mask sets: a table or a constant for each slot, packing, extraction, maps between slots.

use super::build::require;
use super::{Need, Op, Program, Reg, RegInfo, RegType, TableRef};
use crate::cipher::{EvaluationKey, KeyRole, RowSums, SlotKey};
use crate::error::RUN;
use crate::tfhe::{Output, Table};
use crate::{Error, Result};
use std::collections::BTreeSet;

impl Program {
    /// `src + values[slot]` in each slot.
    ///
    /// # Errors
    /// [`Error::BadInput`] for an unknown register, another number of constants than slots, or sums beyond 64 bits.
    pub fn add_slots(&mut self, src: Reg, values: &[i64]) -> Result<Reg> {
        let info = self.known(src)?;
        let (least, most) =
            (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
        let ends = (info.range.0.checked_add(least), info.range.1.checked_add(most));
        let (Some(a), Some(b)) = ends else {
            return Err(Error::bad_input(
                "add_slots",
                "sums within 64 bits",
                format!("constants from {least} to {most}"),
                "use smaller constants",
            ));
        };
        let q = self.params.modulus;
        let constants: Vec<u64> = values.iter().map(|v| info.encoding.encode(q, *v)).collect();
        self.add_slots_as(src, &constants, (a, b))
    }

    /// [`Program::add_slots`] of torus elements, where the caller gives the range of the result.
    pub(super) fn add_slots_as(
        &mut self,
        src: Reg,
        constants: &[u64],
        range: (i64, i64),
    ) -> Result<Reg> {
        let info = self.known(src)?;
        let RegType::Lwe(role) = info.ty else {
            return require(info.ty, RegType::Lwe(KeyRole::Big), "add_slots").map(|()| src);
        };
        let reduced = constants.iter().all(|c| self.params.modulus.is_reduced(*c));
        if constants.len() != role.bodies(&self.params) || !reduced {
            return Err(Error::bad_input(
                "add_slots",
                format!("{} constants below the modulus", role.bodies(&self.params)),
                constants.len().to_string(),
                "give one constant for each slot",
            ));
        }
        let dst = self.graph.fresh(RegInfo { range, ..info });
        self.graph.ops.push(Op::AddSlots { dst, src, constants: constants.to_vec() });
        Ok(dst)
    }

    /// One slot as a plain ciphertext under the slot's own key. Needs no key and adds no noise.
    ///
    /// # Errors
    /// [`Error::BadInput`] for an unknown register, one that is not under the big keys, or a slot that the set has not.
    pub fn extract(&mut self, src: Reg, slot: u32) -> Result<Reg> {
        let info = self.known(src)?;
        let role = KeyRole::Slot(slot).checked(&self.params)?;
        require(info.ty, RegType::Lwe(KeyRole::Big), "extract")?;
        let dst = self.graph.fresh(RegInfo { ty: RegType::Lwe(role), ..info });
        self.graph.ops.push(Op::Extract { dst, src, slot });
        Ok(dst)
    }

    /// Plain ciphertexts under the key of slot 0, one for each slot, as one ciphertext under the big keys.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of registers than slots, other types, or mixed encodings.
    pub fn pack(&mut self, srcs: &[Reg]) -> Result<Reg> {
        if srcs.len() != self.params.slots || srcs.len() == 1 {
            let got = format!("{} for {} slots", srcs.len(), self.params.slots);
            let remedy = "give one plain ciphertext for each slot of a common-mask set";
            return Err(Error::bad_input("pack", "a register for each slot", got, remedy));
        }
        let first = self.known(srcs[0])?;
        let mut range = first.range;
        for r in srcs {
            let info = self.known(*r)?;
            require(info.ty, RegType::Lwe(KeyRole::Slot(0)), "pack")?;
            if info.encoding != first.encoding {
                let (wanted, got) = (first.encoding.to_string(), info.encoding.to_string());
                return Err(Error::bad_input("pack", wanted, got, "encode all slots alike"));
            }
            range = (range.0.min(info.range.0), range.1.max(info.range.1));
        }
        let ty = RegType::Lwe(KeyRole::Big);
        let dst = self.graph.fresh(RegInfo { ty, range, ..first });
        self.graph.ops.push(Op::Pack { dst, srcs: srcs.to_vec() });
        Ok(dst)
    }

    /// A private linear map between slots, number `map` of the evaluation key, whose rows have at most these sums.
    ///
    /// # Errors
    /// [`Error::BadInput`] for an unknown register, one that is not under the big keys, or sums beyond 2^20.
    pub fn slot_map(&mut self, src: Reg, map: u32, sums: RowSums) -> Result<Reg> {
        let info = self.known(src)?;
        KeyRole::Slot(0).checked(&self.params)?;
        require(info.ty, RegType::Lwe(KeyRole::Big), "slot_map")?;
        let range = sums.checked()?.range(info.range);
        let dst = self.graph.fresh(RegInfo { range, ..info });
        self.graph.ops.push(Op::SlotMap { dst, src, map, sums });
        Ok(dst)
    }

    /// A bootstrap alone with a table for each slot: one register for each output of the tables.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of tables than slots, tables of different outputs, and as
    /// [`Program::bootstrap`].
    pub fn bootstrap_slots(&mut self, src: Reg, tables: &[Table]) -> Result<Vec<Reg>> {
        self.check_slots(src, &tables.iter().collect::<Vec<_>>())?;
        if tables.iter().all(|t| *t == tables[0]) {
            return self.bootstrap(src, &tables[0]);
        }
        let tables = tables.iter().map(|t| self.table(t)).collect();
        self.push_bootstrap(src, TableRef::Slots(tables))
    }

    /// The set's whole bootstrap with a table for each slot.
    ///
    /// # Errors
    /// As [`Program::bootstrap_slots`].
    pub fn lookup_slots(&mut self, src: Reg, tables: &[Table]) -> Result<Vec<Reg>> {
        self.check_slots(src, &tables.iter().collect::<Vec<_>>())?;
        if self.params.slots == 1 {
            return self.lookup_many(src, &tables[0]);
        }
        // Sets with slots switch keys first.
        let small = self.key_switch(src)?;
        self.bootstrap_slots(small, tables)
    }

    /// Refuses to pack without a packing key among the `parts` that were opened, and maps whose rows have larger sums than
    /// the program was recorded for; `maps` are those of the evaluation key.
    pub(crate) fn check_slot_keys(&self, parts: &BTreeSet<Need>, maps: &[RowSums]) -> Result<()> {
        if self.uses(Need::Pack) && !parts.contains(&Need::Pack) {
            let remedy = "make it with the secret key (`pack_key`), and give it to the evaluation key or server";
            let parts: Vec<String> = parts.iter().map(Need::to_string).collect();
            let got = parts.join(", ");
            return Err(Error::wrong_key(RUN, "a key that packs", got, remedy));
        }
        for op in &self.ops {
            let Op::SlotMap { map, sums, .. } = op else { continue };
            let got = maps.get(*map as usize);
            if got.is_none_or(|got| !got.within(*sums)) {
                return Err(Error::wrong_key(
                    RUN,
                    format!("a map {map} between slots, {sums}"),
                    got.map_or(format!("{} maps", maps.len()), |got| format!("one, {got}")),
                    "give the evaluation key the map that the program was recorded for",
                ));
            }
        }
        Ok(())
    }

    /// As [`Program::bootstrap_slots`].
    pub(super) fn check_slots(&self, src: Reg, tables: &[&Table]) -> Result<()> {
        let slots = self.params.slots;
        let Some(first) = tables.first().filter(|_| tables.len() == slots) else {
            let remedy = "give a table for each slot, or one table for all";
            let got = tables.len().to_string();
            return Err(Error::bad_input("bootstrap", format!("{slots} tables"), got, remedy));
        };
        let place = |t: &Table| -> Vec<_> {
            t.outputs.iter().map(|o: &Output| (o.index, o.encoding)).collect()
        };
        for table in tables {
            self.check_lookup(src, table)?;
            if place(table) != place(first) {
                return Err(Error::bad_input(
                    "bootstrap",
                    "tables that put out the same coefficients in the same encodings",
                    "tables that differ there",
                    "build all with the same output encoding and as many tables in one",
                ));
            }
        }
        Ok(())
    }
}

/// The joint outputs of the tables of several slots: ranges that cover all.
pub(super) fn outputs<'a>(mut tables: impl Iterator<Item = &'a [Output]>) -> Vec<Output> {
    let mut all = tables.next().map_or(vec![], <[Output]>::to_vec);
    for table in tables {
        for (o, other) in all.iter_mut().zip(table) {
            o.range = (o.range.0.min(other.range.0), o.range.1.max(other.range.1));
        }
    }
    all
}

impl Need {
    /// Every part that an evaluation key has.
    pub fn all_of(keys: &EvaluationKey) -> BTreeSet<Need> {
        let maps = (0..keys.slot_maps().count() as u32).map(Need::SlotMap);
        let pack = keys.pack_key().map(|_| Need::Pack);
        [Need::KeySwitch, Need::Bootstrap].into_iter().chain(pack).chain(maps).collect()
    }

    /// The key between slots that this need is; `None` for the other parts.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if the evaluation key lacks it.
    pub(crate) fn slot_key(self, keys: &EvaluationKey) -> Result<Option<&SlotKey>> {
        let found = match self {
            Need::KeySwitch | Need::Bootstrap => return Ok(None),
            Need::Pack => keys.pack_key(),
            Need::SlotMap(map) => keys.slot_maps().nth(map as usize),
        };
        let remedy = "make it with the secret key (`pack_key`, `slot_map_key`), and give it to the evaluation key or server";
        found.map(Some).ok_or_else(|| {
            let got: Vec<String> = Need::all_of(keys).iter().map(Need::to_string).collect();
            let got = format!("one with {}", got.join(", "));
            Error::wrong_key(RUN, format!("a key with {self}"), got, remedy)
        })
    }
}
