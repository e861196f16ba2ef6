//! Recording a program: each call appends an instruction and returns the register of its result.

use super::{Graph, Need, Op, Program, Reg, RegInfo, RegType, TableRef};
use crate::cipher::{Encoding, KeyRole, Lwe};
use crate::params::{Order, TfheParams};
use crate::tfhe::{Output, Table, require_plain};
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

impl Program {
    /// An empty program for a parameter set.
    pub fn new(params: Arc<TfheParams>) -> Self {
        Program { params, graph: Graph::default(), tables: vec![] }
    }

    /// The key that ciphertexts rest under between bootstraps.
    pub fn resting_role(&self) -> KeyRole {
        match self.params.order {
            Order::KsPbs => KeyRole::Big,
            Order::PbsKs => KeyRole::Small,
        }
    }

    /// A new argument: values 0..p of `encoding` under the resting key.
    pub fn input(&mut self, encoding: Encoding) -> Reg {
        let range = (0, encoding.values as i64 - 1);
        self.input_as(RegInfo { ty: RegType::Lwe(self.resting_role()), encoding, range })
    }

    /// A new argument of any type and range.
    pub fn input_as(&mut self, info: RegInfo) -> Reg {
        self.graph.input(info)
    }

    /// A new argument for batches like this one: its key, encoding and range.
    pub fn input_like(&mut self, x: &Lwe) -> Reg {
        let ty = RegType::Lwe(x.role());
        self.input_as(RegInfo { ty, encoding: x.encoding(), range: x.range() })
    }

    /// A new argument that holds an encrypted lookup table for the values 0 ..= `limit` of `input`. Common-mask sets have none:
    /// no bootstrap will take it.
    pub fn input_table(&mut self, input: Encoding, limit: i64) -> Reg {
        self.input_as(RegInfo { ty: RegType::Glwe, encoding: input, range: (0, limit) })
    }

    /// Marks a register as a result of the program.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the program has no such register.
    pub fn output(&mut self, reg: Reg) -> Result<()> {
        self.graph.output(reg)
    }

    /// `Σ coefficient·register + constant`, values in one encoding; `constant` is a value.
    ///
    /// # Errors
    /// [`Error::BadInput`] for no term, unknown registers or mixed encodings or keys.
    pub fn linear(&mut self, terms: &[(i64, Reg)], constant: i64) -> Result<Reg> {
        let Some(&(_, first)) = terms.first() else {
            return Err(Error::bad_input("linear", "at least one term", "none", "pass a register"));
        };
        let encoding = self.known(first)?.encoding;
        let mut range = (constant, constant);
        for &(c, r) in terms {
            let info = self.known(r)?;
            if info.encoding != encoding {
                return Err(Error::bad_input(
                    "linear",
                    encoding.to_string(),
                    info.encoding.to_string(),
                    "bring all terms to one encoding by a table",
                ));
            }
            let (a, b) = (c.saturating_mul(info.range.0), c.saturating_mul(info.range.1));
            range = (range.0.saturating_add(a.min(b)), range.1.saturating_add(a.max(b)));
        }
        let torus = encoding.encode(self.params.modulus, constant);
        self.linear_as(terms, torus, encoding, range)
    }

    /// `Σ coefficient·register + constant` where the constant is a torus element and the caller says what the result
    /// means.
    ///
    /// # Errors
    /// [`Error::BadInput`] for no term, unknown registers or mixed keys.
    pub fn linear_as(
        &mut self,
        terms: &[(i64, Reg)],
        constant: u64,
        encoding: Encoding,
        range: (i64, i64),
    ) -> Result<Reg> {
        let mut merged: Vec<(i64, Reg)> = Vec::with_capacity(terms.len());
        let mut place = HashMap::with_capacity(terms.len());
        for &(c, r) in terms {
            let at = *place.entry(r).or_insert(merged.len());
            match merged.get_mut(at) {
                Some(t) => {
                    t.0 = t.0.checked_add(c).ok_or_else(|| {
                        let wanted = "coefficients within 64 bits";
                        Error::bad_input(
                            "linear",
                            wanted,
                            format!("{} + {c}", t.0),
                            "use smaller ones",
                        )
                    })?
                }
                None => merged.push((c, r)),
            }
        }
        let ty = self.known(merged.first().map_or(Reg(u32::MAX), |t| t.1))?.ty;
        for &(_, r) in &merged {
            let other = self.known(r)?.ty;
            if other != ty || ty == RegType::Glwe {
                return Err(Error::bad_input(
                    "linear",
                    "LWE ciphertexts under one key",
                    format!("{ty} and {other}"),
                    "key switch first",
                ));
            }
        }
        let dst = self.graph.fresh(RegInfo { ty, encoding, range });
        self.graph.ops.push(Op::MulAdd { dst, terms: merged, constant });
        Ok(dst)
    }

    /// From the big key to the small one.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the register is not under the big key.
    pub fn key_switch(&mut self, src: Reg) -> Result<Reg> {
        let info = self.known(src)?;
        require(info.ty, RegType::Lwe(KeyRole::Big), "key_switch")?;
        let dst = self.graph.fresh(RegInfo { ty: RegType::Lwe(KeyRole::Small), ..info });
        self.graph.ops.push(Op::KeySwitch { dst, src });
        Ok(dst)
    }

    /// A bootstrap alone, from the small key to the big one: one register for each output of the table.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the register is not under the small key, its encoding is not the table's, or its values
    /// may lie outside the table.
    pub fn bootstrap(&mut self, src: Reg, table: &Table) -> Result<Vec<Reg>> {
        self.check_lookup(src, table)?;
        let index = self.table(table);
        self.push_bootstrap(src, TableRef::Clear(index))
    }

    /// The place of a table among the program's own; a new one if it has none.
    pub(super) fn table(&mut self, table: &Table) -> u32 {
        let known = self.tables.iter().position(|t| t == table);
        known.unwrap_or_else(|| {
            self.tables.push(table.clone());
            self.tables.len() - 1
        }) as u32
    }

    /// As [`Program::bootstrap`].
    pub(super) fn check_lookup(&self, src: Reg, table: &Table) -> Result<()> {
        let info = self.known(src)?;
        if table.polynomial.len() != self.params.table_size() {
            return Err(Error::wrong_params(
                "bootstrap",
                format!("a table of {} coefficients", self.params.table_size()),
                table.polynomial.len().to_string(),
                "build the table for this parameter set",
            ));
        }
        self.require_extractable(&table.outputs)?;
        if table.input.padding {
            require_range(info, table.input, table.limit)?;
        }
        Ok(())
    }

    /// A bootstrap whose table is encrypted: `outputs` gives the coefficients to extract and their encodings. The argument must have
    /// such outputs, of these ranges or narrower ones.
    ///
    /// # Errors
    /// [`Error::BadInput`] if a register has another type, the source's encoding is not the one that the table is
    /// declared for or has no padding bit, its values may lie outside the table, or an extraction index is no
    /// coefficient.
    pub fn bootstrap_encrypted(
        &mut self,
        src: Reg,
        table: Reg,
        outputs: &[Output],
    ) -> Result<Vec<Reg>> {
        require_plain(&self.params, "bootstrap")?;
        let declared = self.known(table)?;
        require(declared.ty, RegType::Glwe, "bootstrap")?;
        if !declared.encoding.padding {
            return Err(Error::bad_input(
                "bootstrap",
                "an encrypted table for values below a padding bit",
                declared.encoding.to_string(),
                "declare its input with Encoding::padded",
            ));
        }
        require_range(self.known(src)?, declared.encoding, declared.range.1)?;
        self.require_extractable(outputs)?;
        self.push_bootstrap(src, TableRef::Encrypted(table, outputs.to_vec()))
    }

    /// Of an extended rotation only accumulator 0 is finished: it holds the coefficients that are multiples of 2^η.
    fn require_extractable(&self, outputs: &[Output]) -> Result<()> {
        let (size, step) = (self.params.table_size(), self.params.accumulators());
        let Some(o) = outputs.iter().find(|o| o.index >= size || o.index % step != 0) else {
            return Ok(());
        };
        let multiple = if step > 1 { format!(", a multiple of {step}") } else { String::new() };
        Err(Error::bad_input(
            "bootstrap",
            format!("an extraction index below {size}{multiple}"),
            o.index.to_string(),
            "extract a coefficient that the rotation leaves in its first accumulator",
        ))
    }

    pub(super) fn push_bootstrap(&mut self, src: Reg, table: TableRef) -> Result<Vec<Reg>> {
        require(self.known(src)?.ty, RegType::Lwe(KeyRole::Small), "bootstrap")?;
        let outputs = self.outputs_of(&table).to_vec();
        let ty = RegType::Lwe(KeyRole::Big);
        let dst: Vec<Reg> = outputs
            .iter()
            .map(|o| self.graph.fresh(RegInfo { ty, encoding: o.encoding, range: o.range }))
            .collect();
        self.graph.ops.push(Op::Bootstrap { dst: dst.clone(), src, table });
        Ok(dst)
    }

    /// The set's whole bootstrap, key switch included, from resting key to resting key.
    ///
    /// # Errors
    /// As [`Program::bootstrap`].
    pub fn lookup_many(&mut self, src: Reg, table: &Table) -> Result<Vec<Reg>> {
        match self.params.order {
            Order::KsPbs => {
                let small = self.key_switch(src)?;
                self.bootstrap(small, table)
            }
            Order::PbsKs => {
                let big = self.bootstrap(src, table)?;
                big.into_iter().map(|r| self.key_switch(r)).collect()
            }
        }
    }

    /// [`Program::lookup_many`] for a table with one output.
    ///
    /// # Errors
    /// As [`Program::bootstrap`]; [`Error::BadInput`] if the table has several outputs.
    pub fn lookup(&mut self, src: Reg, table: &Table) -> Result<Reg> {
        match self.lookup_many(src, table)?[..] {
            [only] => Ok(only),
            ref many => Err(Error::bad_input(
                "lookup",
                "a table with one output",
                many.len().to_string(),
                "use lookup_many",
            )),
        }
    }

    /// f(a, b) by one lookup at `a·base + b`, for values `b < base`.
    ///
    /// # Errors
    /// As [`Program::linear`] and [`Program::bootstrap`].
    pub fn lookup2(
        &mut self,
        a: Reg,
        b: Reg,
        base: u64,
        f: impl Fn(u64, u64) -> u64,
    ) -> Result<Reg> {
        let range = self.known(b)?.range;
        if range.0 < 0 || range.1 >= base as i64 {
            return Err(Error::bad_input(
                "lookup2",
                format!("a second value in 0..{base}"),
                format!("values from {} to {}", range.0, range.1),
                "encrypt it below the base, or bring it there by a table",
            ));
        }
        let table = Table::from_fn2(&self.params, base, f)?;
        let packed = self.linear(&[(base as i64, a), (1, b)], 0)?;
        self.lookup(packed, &table)
    }

    /// True if the program reads this part of the key.
    pub fn uses(&self, need: Need) -> bool {
        self.ops.iter().any(|op| op.need() == Some(need))
    }
}

pub(super) fn require(got: RegType, wanted: RegType, op: &'static str) -> Result<()> {
    if got == wanted {
        return Ok(());
    }
    Err(Error::bad_input(
        op,
        format!("a register that holds {wanted}"),
        got.to_string(),
        "use `lookup`, which orders key switch and bootstrap as the set asks",
    ))
}

fn counted_entries(count: i64) -> String {
    format!("a table of {count} entr{}", if count == 1 { "y" } else { "ies" })
}

fn require_range(info: RegInfo, input: Encoding, limit: i64) -> Result<()> {
    if info.encoding != input {
        return Err(Error::bad_input(
            "bootstrap",
            format!("values in {input:?}"),
            info.encoding.to_string(),
            "build the table for the encoding of its argument",
        ));
    }
    let within = |most: i64| info.range.0 >= 0 && info.range.1 <= most;
    // The values fit the encoding: the table is too short.
    if !within(limit) && i64::try_from(input.values).is_ok_and(|values| within(values - 1)) {
        let entries = counted_entries(limit + 1);
        return Err(Error::bad_input(
            "bootstrap",
            format!("{} for values from 0 to {}", counted_entries(info.range.1 + 1), info.range.1),
            entries,
            "give an entry for each value, or declare a smaller range at encryption",
        ));
    }
    if !within(limit) {
        return Err(Error::bad_input(
            "bootstrap",
            format!("values from 0 to {limit}"),
            format!("values from {} to {}", info.range.0, info.range.1),
            "declare a smaller range at encryption, add a constant, or bootstrap before the sum outgrows its encoding",
        ));
    }
    Ok(())
}
