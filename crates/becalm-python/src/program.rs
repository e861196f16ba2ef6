//! Lookup tables, and programs that are recorded one instruction at a time.

use crate::call::{guarded, raise};
use crate::ciphertext::{Lwe, Output, trust};
use crate::params::Params;
use becalm::cipher::{Encoding, KeyRole, RowSums};
use becalm::params::Order;
use becalm::program::{Gate, Reg, RegInfo, RegType};
use becalm::{program, tfhe};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A plaintext lookup table.
#[pyclass(frozen, module = "becalm._native")]
pub struct Table(pub tfhe::Table);

#[pymethods]
impl Table {
    /// Tables that are looked up by one rotation, from an encoding of `values` values to one of `out` values.
    #[new]
    fn new(
        params: &Params,
        values: u64,
        out: u64,
        out_padding: bool,
        tables: Vec<Vec<u64>>,
    ) -> PyResult<Self> {
        let input = Encoding { values, padding: true };
        let output = Encoding { values: out, padding: out_padding };
        let tables: Vec<&[u64]> = tables.iter().map(Vec::as_slice).collect();
        guarded(|| tfhe::Table::many(&params.0, input, output, &tables).map_err(raise)).map(Table)
    }

    /// How many tables there are.
    fn __len__(&self) -> usize {
        self.0.outputs().len()
    }

    /// How many values the input's encoding has.
    #[getter]
    fn values(&self) -> u64 {
        self.0.input().values
    }
}

/// Instructions for one parameter set.
#[pyclass(frozen, module = "becalm._native")]
pub struct Program(Mutex<Arc<program::Program>>);

impl Program {
    /// A program that was recorded elsewhere.
    pub fn of(program: Arc<program::Program>) -> Self {
        Program(Mutex::new(program))
    }

    /// The program as it stands.
    pub fn now(&self) -> Arc<program::Program> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records instructions that read `sources`, or none of them: a program of these sources alone refuses first what the recorder
    /// would, because a program keeps what came before a refusal.
    fn record<T>(
        &self,
        sources: &[u32],
        f: impl Fn(&mut program::Program, &[Reg]) -> becalm::Result<T>,
    ) -> PyResult<T> {
        guarded(|| {
            let mut program = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut trial = program::Program::new(program.params().clone());
            let stand_in = |r: &u32| Some(trial.input_as(*program.info(Reg(*r))?));
            // An unknown register is refused by the first instruction that reads it, with nothing before it.
            if let Some(regs) = sources.iter().map(stand_in).collect::<Option<Vec<Reg>>>() {
                f(&mut trial, &regs).map_err(raise)?;
            }
            let regs: Vec<Reg> = sources.iter().copied().map(Reg).collect();
            f(Arc::make_mut(&mut program), &regs).map_err(raise)
        })
    }
}

fn gate_of(name: &str) -> PyResult<Gate> {
    let gate = match name {
        "and" => Gate::And,
        "nand" => Gate::Nand,
        "or" => Gate::Or,
        "nor" => Gate::Nor,
        "xor" => Gate::Xor,
        "xnor" => Gate::Xnor,
        other => {
            let names = "and, nand, or, nor, xor or xnor";
            return Err(raise(becalm::Error::bad_input(
                "gate",
                names,
                other,
                "choose one of these",
            )));
        }
    };
    Ok(gate)
}

#[pymethods]
impl Program {
    /// An empty program.
    #[new]
    fn new(params: &Params) -> Self {
        Program(Mutex::new(Arc::new(program::Program::new(params.0.clone()))))
    }

    /// The parameter set.
    #[getter]
    fn params(&self) -> Params {
        Params(self.now().params().clone())
    }

    /// A new argument at rest: values `low` to `high` of an encoding.
    fn input(&self, values: u64, padding: bool, low: i64, high: i64) -> PyResult<u32> {
        self.record(&[], |p, _| {
            let encoding = Encoding { values, padding }.checked()?;
            let ty = RegType::Lwe(p.resting_role());
            Ok(p.input_as(RegInfo { ty, encoding, range: (low, high) }).0)
        })
    }

    /// A new argument of plain ciphertexts under the key of one slot.
    fn input_slot(&self, slot: u32, values: u64, low: i64, high: i64) -> PyResult<u32> {
        self.record(&[], |p, _| {
            let ty = RegType::Lwe(KeyRole::Slot(slot));
            let encoding = Encoding::padded(values)?;
            Ok(p.input_as(RegInfo { ty, encoding, range: (low, high) }).0)
        })
    }

    /// A new argument like a batch that is at hand.
    fn input_like(&self, x: &Lwe) -> PyResult<u32> {
        self.record(&[], |p, _| Ok(p.input_like(&x.0).0))
    }

    /// A new argument that holds an encrypted table for the values 0 to `limit` of an encoding of `values`.
    fn input_table(&self, values: u64, limit: i64) -> PyResult<u32> {
        self.record(&[], |p, _| Ok(p.input_table(Encoding::padded(values)?, limit).0))
    }

    /// `Σ coefficient·register + constant`.
    fn linear(&self, terms: Vec<(i64, u32)>, constant: i64) -> PyResult<u32> {
        let (factors, sources): (Vec<i64>, Vec<u32>) = terms.into_iter().unzip();
        self.record(&sources, |p, r| {
            let terms: Vec<(i64, Reg)> = factors.iter().copied().zip(r.iter().copied()).collect();
            Ok(p.linear(&terms, constant)?.0)
        })
    }

    /// The set's whole bootstrap: one register for each table.
    fn lookup(&self, src: u32, table: &Table) -> PyResult<Vec<u32>> {
        self.record(&[src], |p, r| Ok(p.lookup_many(r[0], &table.0)?.iter().map(|r| r.0).collect()))
    }

    /// The set's whole bootstrap with a table for each slot.
    fn lookup_slots(&self, src: u32, tables: Vec<Bound<'_, Table>>) -> PyResult<Vec<u32>> {
        let tables: Vec<tfhe::Table> = tables.iter().map(|t| t.get().0.clone()).collect();
        self.record(&[src], |p, r| Ok(p.lookup_slots(r[0], &tables)?.iter().map(|r| r.0).collect()))
    }

    /// A constant for each slot.
    fn add_slots(&self, src: u32, values: Vec<i64>) -> PyResult<u32> {
        self.record(&[src], |p, r| Ok(p.add_slots(r[0], &values)?.0))
    }

    /// One slot as a plain ciphertext.
    fn extract(&self, src: u32, slot: u32) -> PyResult<u32> {
        self.record(&[src], |p, r| Ok(p.extract(r[0], slot)?.0))
    }

    /// Plain ciphertexts under the key of slot 0, one for each slot, as one.
    fn pack(&self, srcs: Vec<u32>) -> PyResult<u32> {
        self.record(&srcs, |p, r| Ok(p.pack(r)?.0))
    }

    /// A private map between slots, of these sums.
    fn slot_map(&self, src: u32, map: u32, sums: (u64, u64)) -> PyResult<u32> {
        let sums = RowSums { positive: sums.0, negative: sums.1 };
        self.record(&[src], |p, r| Ok(p.slot_map(r[0], map, sums)?.0))
    }

    /// The set's whole bootstrap through an encrypted table: one register for each of its outputs.
    fn lookup_encrypted(&self, src: u32, table: u32, outputs: Vec<Output>) -> PyResult<Vec<u32>> {
        self.record(&[src, table], |p, r| {
            let output = |&(index, values, padding, low, high): &Output| {
                let encoding = Encoding { values, padding }.checked()?;
                Ok(tfhe::Output { index, encoding, range: (low, high) })
            };
            let outputs: Vec<_> = outputs.iter().map(output).collect::<becalm::Result<_>>()?;
            let rest = match p.params().order {
                Order::KsPbs => {
                    let small = p.key_switch(r[0])?;
                    p.bootstrap_encrypted(small, r[1], &outputs)?
                }
                Order::PbsKs => {
                    let big = p.bootstrap_encrypted(r[0], r[1], &outputs)?;
                    big.into_iter().map(|r| p.key_switch(r)).collect::<becalm::Result<_>>()?
                }
            };
            Ok(rest.iter().map(|r| r.0).collect())
        })
    }

    /// A boolean gate.
    fn gate(&self, name: &str, a: u32, b: u32) -> PyResult<u32> {
        let gate = gate_of(name)?;
        self.record(&[a, b], |p, r| Ok(p.gate(gate, r[0], r[1])?.0))
    }

    /// The negation of a boolean.
    fn not_(&self, a: u32) -> PyResult<u32> {
        self.record(&[a], |p, r| Ok(p.not(r[0])?.0))
    }

    /// `x` where `s`, else `y`, for booleans.
    fn mux(&self, s: u32, x: u32, y: u32) -> PyResult<u32> {
        self.record(&[s, x, y], |p, r| Ok(p.mux(r[0], r[1], r[2])?.0))
    }

    /// Marks a result.
    fn output(&self, reg: u32) -> PyResult<()> {
        self.record(&[reg], |p, r| p.output(r[0]))
    }

    /// `(values, padding, low, high)` of a register; `None` if there is none.
    fn info(&self, reg: u32) -> Option<(u64, bool, i64, i64)> {
        let program = self.now();
        let info = program.info(Reg(reg))?;
        Some((info.encoding.values, info.encoding.padding, info.range.0, info.range.1))
    }

    /// True if a register holds an encrypted table.
    fn is_table(&self, reg: u32) -> bool {
        self.now().info(Reg(reg)).is_some_and(|i| i.ty == RegType::Glwe)
    }

    /// Registers of the arguments.
    #[getter]
    fn inputs(&self) -> Vec<u32> {
        self.now().inputs().iter().map(|r| r.0).collect()
    }

    /// Registers of the results.
    #[getter]
    fn outputs(&self) -> Vec<u32> {
        self.now().outputs().iter().map(|r| r.0).collect()
    }

    /// Number of instructions.
    fn __len__(&self) -> usize {
        self.now().ops().len()
    }

    /// Bootstraps on one lane.
    #[getter]
    fn bootstraps(&self) -> usize {
        let program = self.now();
        program.ops().iter().filter(|op| op.need() == Some(program::Need::Bootstrap)).count()
    }

    /// Whether it needs the keys of bootstraps, of key switches and of packing, and which maps between slots.
    fn needs(&self) -> (bool, bool, bool, Vec<u32>) {
        use program::Need::{Bootstrap, KeySwitch, Pack, SlotMap};
        let needs = self.now().needs();
        let maps = needs.iter().filter_map(|need| match need {
            SlotMap(map) => Some(*map),
            _ => None,
        });
        let has = |need| needs.contains(&need);
        (has(Bootstrap), has(KeySwitch), has(Pack), maps.collect())
    }

    /// The cost of the program on one lane.
    fn cost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let cost = guarded(|| Ok(self.now().cost()))?;
        let d = PyDict::new(py);
        d.set_item("bootstraps", cost.bootstraps)?;
        d.set_item("key_switches", cost.key_switches)?;
        d.set_item("linear", cost.linear)?;
        d.set_item("waves", cost.waves)?;
        d.set_item("depth", cost.depth)?;
        d.set_item("bytes_per_lane", cost.bytes_per_lane)?;
        Ok(d)
    }

    /// Variances of the results and log2 of the failure probability of one lane, for arguments of these variances.
    fn noise(&self, inputs: Vec<f64>) -> PyResult<(Vec<f64>, f64)> {
        guarded(|| {
            let program = self.now();
            let found = program.follow(&inputs).map_err(raise)?;
            let results = program.outputs().iter().map(|r| found.noise[r.0 as usize]).collect();
            Ok((results, found.log2_pfail))
        })
    }

    /// Writes a file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        guarded(|| self.now().save(&path).map_err(raise))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(path: PathBuf, allow_insecure: bool, limit: Option<u64>) -> PyResult<Self> {
        guarded(|| {
            let program =
                program::Program::load(&path, trust(allow_insecure, limit)).map_err(raise)?;
            Ok(Program(Mutex::new(Arc::new(program))))
        })
    }

    /// The file in memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| Ok(PyBytes::new(py, &self.now().to_bytes().map_err(raise)?)))
    }

    /// A program from a file in memory.
    #[staticmethod]
    fn from_bytes(file: &[u8], allow_insecure: bool, limit: Option<u64>) -> PyResult<Self> {
        guarded(|| {
            let program =
                program::Program::from_bytes(file, trust(allow_insecure, limit)).map_err(raise)?;
            Ok(Program(Mutex::new(Arc::new(program))))
        })
    }
}
