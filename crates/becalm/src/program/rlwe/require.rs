//! Checks of keys and ciphertexts, before anything is computed.

use super::{CkksOp, CkksProgram, RlweInfo};
use crate::cipher::{Account, CkksKeys, Integers, KeyId, Purpose, Rlwe};
use crate::ckks::{power_of_rotation, same_scale};
use crate::program::Reg;
use crate::{Error, Missing, MissingKey, MissingPurpose, Result};
use std::collections::BTreeSet;

impl CkksProgram {
    /// The name of a run in errors: a bootstrap, the program's only instruction, or a run.
    pub fn op(&self) -> &'static str {
        if self.limits.error.is_some() {
            return "bootstrap";
        }
        let mut own = self.ops.iter().filter(|op| !matches!(op, CkksOp::LevelDown { .. }));
        match (own.next(), own.next(), self.ops.first()) {
            (Some(one), None, _) | (None, None, Some(one)) => one.name(),
            (Some(CkksOp::Linear { .. }), Some(CkksOp::Rotate { .. }), _)
                if self.ops.len() == 2 =>
            {
                "matrix product"
            }
            _ => "run",
        }
    }

    /// An error about an instruction, in the name of the function that recorded it.
    pub(super) fn error_at(&self, at: usize, e: Error) -> Error {
        match self.functions.at(at) {
            Some(name) => e.of(name.to_string()),
            None => e,
        }
    }

    /// An error about a run, in the name of the function that is all of the program.
    pub(crate) fn error_of_run(&self, e: Error) -> Error {
        match self.functions.whole(self.ops.len()) {
            Some(name) if e.detail().op == self.op() => e.of(name.to_string()),
            _ => e,
        }
    }

    /// The remedy for a ciphertext at too low a level.
    pub(crate) fn remedy_of_level(&self) -> String {
        match self.limits.error {
            Some(_) => {
                "bootstrap earlier, encrypt at a higher level, or use the kind regular, which starts at level 0".into()
            }
            None => self.chain.upwards(),
        }
    }

    /// Refuses ciphertexts that the program does not take: another number of them, other keys or sets, too low a level, another
    /// scale or number of slots. A bootstrap takes vectors of fewer slots than it was recorded for.
    pub(crate) fn require_inputs(&self, key: KeyId, inputs: &[&Rlwe]) -> Result<()> {
        self.require_each(key, inputs).map_err(|e| self.error_of_run(e))
    }

    fn require_each(&self, key: KeyId, inputs: &[&Rlwe]) -> Result<()> {
        let op = self.op();
        if inputs.len() != self.inputs.len() {
            let (wanted, got) = (format!("{} ciphertexts", self.inputs.len()), inputs.len());
            let remedy = "pass one for each argument";
            return Err(Error::bad_input(op, wanted, got.to_string(), remedy));
        }
        self.chain.check_keys(op, key, inputs)?;
        for (x, reg) in inputs.iter().zip(&self.inputs) {
            self.require_input(op, x, inputs[0].slots(), self.reg(*reg))?;
        }
        self.require_exact(inputs)
    }

    /// Refuses arguments whose errors grow beyond what tables clean, or results can be told apart by.
    fn require_exact(&self, inputs: &[&Rlwe]) -> Result<()> {
        if self.regs.iter().all(|info| info.integers.is_none()) {
            return Ok(());
        }
        let arrived = |(x, reg): (&&Rlwe, &Reg)| self.arrived(x, *self.reg(*reg));
        let given: Vec<Account> = inputs.iter().zip(&self.inputs).map(arrived).collect();
        let known = self.known_accounts(&given);
        for op in &self.ops {
            if let CkksOp::Tabulate { from, contract, .. } = op {
                contract.require(known[from.0 as usize])?;
            }
        }
        let results = self.outputs.iter().map(|r| (self.reg(*r).integers, known[r.0 as usize]));
        for (bits, account) in results.filter_map(|(bits, account)| Some((bits?, account))) {
            Integers::require_exact(self.op(), bits, account)?;
        }
        Ok(())
    }

    fn require_input(
        &self,
        op: &'static str,
        x: &Rlwe,
        slots: usize,
        info: &RlweInfo,
    ) -> Result<()> {
        let bits = x.integers().map(|own| own.bits);
        if bits != info.integers {
            let [wanted, got] = [info.integers, bits].map(Integers::named);
            let remedy = match info.integers {
                Some(_) => "encrypt packed integers of as many bits",
                None => "encrypt values, or turn the integers into slots first",
            };
            return Err(Error::bad_input(op, wanted, got, remedy));
        }
        if x.level() < info.level {
            let remedy = self.remedy_of_level();
            return Err(Error::too_low(op, info.level, x.level(), "", remedy));
        }
        let scale = if x.level() > info.level { self.chain.scale(info.level)? } else { x.scale() };
        if !same_scale(scale, info.scale) {
            let [wanted, got] = [info.scale, scale].map(|s| format!("scale 2^{:.13}", s.log2()));
            let remedy = "bring it to the scale of its level: `level_down`";
            return Err(Error::bad_input(op, wanted, got, remedy));
        }
        let fine = match self.limits.error {
            Some(_) => x.slots() <= info.slots && x.slots() == slots,
            None => x.slots() == info.slots,
        };
        if fine {
            return Ok(());
        }
        let wanted = match self.limits.error {
            Some(_) => {
                format!("ciphertexts of at most {} slots, as many in each", info.slots.min(slots))
            }
            None => format!("a ciphertext of {} slots", info.slots),
        };
        let got = format!("{} slots", x.slots());
        let remedy = match x.slots() > info.slots {
            true => "make keys for the slots of the program, or record it for more",
            false => "record the program for as many slots",
        };
        Err(Error::bad_input(op, wanted, got, remedy))
    }

    /// Refuses keys that do not suffice, naming the missing ones.
    pub(crate) fn require(&self, keys: &CkksKeys) -> Result<()> {
        match self.limits.error {
            Some(_) => self.require_all(keys),
            None => self.ops.iter().enumerate().try_for_each(|(at, op)| {
                self.require_for(op, keys).map_err(|e| self.error_at(at, e))
            }),
        }
    }

    /// Whether the keys lack one for a purpose at a level.
    fn lacks(&self, keys: &CkksKeys, purpose: Purpose, level: usize) -> bool {
        keys.level((purpose, self.chain.tier_at(level))) < Some(level)
    }

    /// Refuses keys that do not suffice for an instruction.
    fn require_for(&self, op: &CkksOp, keys: &CkksKeys) -> Result<()> {
        let (needs, n) = (self.needs_of(op), self.params().degree());
        let turn = |by: i64| Purpose::Galois(power_of_rotation(by, n) as u32);
        let each = needs.rotations.iter();
        let turns = each.flat_map(|(by, levels)| levels.iter().map(|level| (turn(*by), *level)));
        let conjugate = needs.conjugate.map(|level| (Purpose::Galois(2 * n as u32 - 1), level));
        let product = (needs.multiply > 0).then_some((Purpose::Multiply, needs.multiply));
        let switch = needs.bootstrap.map(|level| (Purpose::FromEphemeral, level));
        let mut all = turns.chain(conjugate).chain(product).chain(switch);
        let Some((purpose, level)) = all.find(|(p, level)| self.lacks(keys, *p, *level)) else {
            return Ok(());
        };
        let wanted = format!("a key for {} up to level {level}", purpose.words(n));
        let got = match keys.level((purpose, self.chain.tier_at(level))) {
            Some(level) => format!("one up to level {level}"),
            None => keys.purposes(n),
        };
        let remedy = "make keys for the `needs` of the program";
        Err(Error::wrong_key(op.name(), wanted, got, remedy).lacking(purpose.missing(level, n)))
    }

    /// Refuses keys that do not suffice for a bootstrap, naming all rotations that are missing.
    fn require_all(&self, keys: &CkksKeys) -> Result<()> {
        let (needs, op, n) = (self.needs(), "bootstrap", self.params().degree());
        let remedy = "make keys for `needs()` of this program";
        let power = |by: i64| Purpose::Galois(power_of_rotation(by, n) as u32);
        let lacks = |purpose, level: usize| self.lacks(keys, purpose, level);
        let each = needs.rotations.iter();
        let each = each.flat_map(|(by, levels)| levels.iter().map(|level| (*by, *level)));
        let missing: Vec<(i64, usize)> =
            each.filter(|(by, level)| lacks(power(*by), *level)).collect();
        let refuse = |wanted: String, got: String, purpose, level| {
            let missing = Missing::Key(MissingKey { purpose, level });
            Err(Error::wrong_key(op, wanted, got, remedy).lacking(missing))
        };
        if let Some((turn, level)) = missing.iter().copied().max_by_key(|(_, level)| *level) {
            let wanted = format!("keys of {} rotations", needs.rotations.len());
            let by: BTreeSet<i64> = missing.iter().map(|(by, _)| *by).collect();
            let by = Vec::from_iter(by);
            let got = format!("keys without the rotations by {by:?} up to level {level}");
            let turn = turn.rem_euclid(n as i64 / 2) as usize;
            return refuse(wanted, got, MissingPurpose::Rotate(turn), level);
        }
        let conjugation = Purpose::Galois(2 * n as u32 - 1);
        let (turn, product, switch) =
            (MissingPurpose::Conjugate, MissingPurpose::Multiply, MissingPurpose::Bootstrap);
        let others = [
            (needs.conjugate, conjugation, turn, "the key of conjugation"),
            (Some(needs.multiply), Purpose::Multiply, product, "the key of multiplication"),
            (needs.bootstrap, Purpose::FromEphemeral, switch, "the keys to the ephemeral secret"),
        ];
        for (level, purpose, missing, what) in others {
            if let Some(level) = level.filter(|level| lacks(purpose, *level)) {
                let held = keys.switches.keys().any(|(p, _)| *p == purpose);
                let got = if held { "one for lower levels" } else { "keys without" };
                let wanted = format!("{what} up to level {level}");
                return refuse(wanted, got.into(), missing, level);
            }
        }
        Ok(())
    }
}
