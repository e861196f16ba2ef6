//! CKKS: programs that are recorded one instruction at a time.
//!
//! A register has the calls of a ciphertext and a program those of a server's keys, under the same names.

use crate::call::{guarded, raise};
use crate::ciphertext::trust;
use crate::ckks_function::CkksFunction;
use crate::ckks_machine::values;
use crate::ckks_plain::{CkksMatrix, CkksPlaintext};
use crate::ckks_record::{dot, on_both, rotations};
use crate::keys::CkksNeeds;
use becalm::apps::real::Bootstraps;
use becalm::ckks::{Chain, Chebyshev};
use becalm::params::CkksParams;
use becalm::program::Reg;
use becalm::program::rlwe::{CkksProgram as Program, RlweInfo};
use becalm::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A program that is being recorded. Whoever runs it takes it as it stands.
struct Recording {
    program: Arc<Program>,
    /// Whether each argument is real.
    real: Vec<bool>,
    bootstraps: Option<Bootstraps>,
    /// Whether every instruction bootstraps what lacks its levels.
    auto: bool,
}

type Recorder = Arc<Mutex<Recording>>;

fn now(recorder: &Recorder) -> Arc<Program> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner).program.clone()
}

/// Records on these registers, all of it or nothing; with `levels` above 0 the program may bootstrap them first.
fn record<T>(
    recorder: &Recorder,
    args: &[&CkksRegister],
    levels: usize,
    work: impl FnOnce(&mut Program, &[Reg]) -> Result<T>,
) -> PyResult<T> {
    recorded(recorder, args, |p, regs, bootstraps, auto| match bootstraps.filter(|_| auto) {
        None => work(p, regs),
        Some(bootstraps) => {
            let lifted = regs.iter().map(|reg| bootstraps.lifted(p, *reg, levels));
            let lifted = lifted.collect::<Result<Vec<_>>>()?;
            work(p, &lifted)
        }
    })
}

/// Records on these registers, all of it or nothing, with the bootstraps of the program, if it has them.
fn recorded<T>(
    recorder: &Recorder,
    args: &[&CkksRegister],
    work: impl FnOnce(&mut Program, &[Reg], Option<&mut Bootstraps>, bool) -> Result<T>,
) -> PyResult<T> {
    guarded(|| {
        if args.iter().any(|x| !Arc::ptr_eq(&x.recorder, recorder)) {
            let (wanted, got) = ("a register of this program", "a register of another program");
            let remedy = "use the results of its methods";
            return Err(raise(Error::bad_input("program", wanted, got, remedy)));
        }
        let regs: Vec<Reg> = args.iter().map(|x| x.reg).collect();
        let mut own = recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let Recording { program, bootstraps, auto, .. } = &mut *own;
        let before = bootstraps.clone();
        let made = Arc::make_mut(program).wholly(|p| work(p, &regs, bootstraps.as_mut(), *auto));
        if made.is_err() {
            // It forgets the bootstraps that are gone with the rest.
            *bootstraps = before;
        }
        made.map_err(raise)
    })
}

/// A program of CKKS.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksProgram(Recorder);

impl CkksProgram {
    /// A program that was recorded elsewhere.
    pub(crate) fn of(program: Program) -> Self {
        // A file says nothing of the values of its arguments.
        let real = vec![false; program.inputs().len()];
        let program = Arc::new(program);
        let recording = Recording { program, real, bootstraps: None, auto: false };
        CkksProgram(Arc::new(Mutex::new(recording)))
    }

    /// The program as it stands.
    pub(crate) fn now(&self) -> Arc<Program> {
        now(&self.0)
    }

    /// Gives it bootstraps, if it has none, for functions that ask for them, or, `auto`, for every instruction.
    pub(crate) fn bootstrap_by(
        &self,
        make: impl FnOnce() -> Result<Bootstraps>,
        auto: bool,
    ) -> Result<()> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if own.bootstraps.is_none() {
            let mut made = make()?;
            own.real.iter().for_each(|real| made.argument(*real));
            own.bootstraps = Some(made);
        }
        own.auto |= auto;
        Ok(())
    }

    fn register(&self, reg: Reg) -> CkksRegister {
        CkksRegister { recorder: self.0.clone(), reg }
    }

    fn one(
        &self,
        args: &[&CkksRegister],
        levels: usize,
        work: impl FnOnce(&mut Program, &[Reg]) -> Result<Reg>,
    ) -> PyResult<CkksRegister> {
        record(&self.0, args, levels, work).map(|reg| self.register(reg))
    }

    fn facts(&self, regs: &[Reg]) -> Vec<(usize, f64, usize)> {
        let program = self.now();
        let info = regs.iter().filter_map(|r| program.info(*r));
        info.map(|i| (i.level, i.scale, i.slots)).collect()
    }
}

#[pymethods]
impl CkksProgram {
    /// An empty program for the set of a name.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        guarded(|| {
            let chain = CkksParams::named(name).and_then(Chain::new).map_err(raise)?;
            Ok(CkksProgram::of(Program::new(&chain)))
        })
    }

    /// Name of the set.
    #[getter]
    fn params(&self) -> &'static str {
        self.now().params().name
    }

    /// A new argument; `real` says of its values that they are.
    #[pyo3(signature = (level, slots, real=false))]
    fn input(&self, level: usize, slots: usize, real: bool) -> PyResult<CkksRegister> {
        let made = self.one(&[], 0, |p, _| p.input(level, slots))?;
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        own.real.push(real);
        if let Some(bootstraps) = &mut own.bootstraps {
            bootstraps.argument(real);
        }
        Ok(made)
    }

    /// A function of these registers: its results. `auto` lets it bootstrap where levels run out.
    fn evaluate(
        &self,
        function: &CkksFunction,
        args: Vec<Bound<'_, CkksRegister>>,
        auto: bool,
    ) -> PyResult<Vec<CkksRegister>> {
        let args: Vec<&CkksRegister> = args.iter().map(Bound::get).collect();
        let made = recorded(&self.0, &args, |p, regs, bootstraps, always| {
            function.0.record(p, bootstraps.filter(|_| auto || always), regs)
        })?;
        Ok(made.into_iter().map(|reg| self.register(reg)).collect())
    }

    /// Marks a result.
    fn output(&self, reg: &CkksRegister) -> PyResult<()> {
        record(&self.0, &[reg], 0, |p, r| p.output(r[0]))
    }

    /// `a · b`.
    fn multiply(&self, a: &CkksRegister, b: &CkksRegister) -> PyResult<CkksRegister> {
        self.one(&[a, b], 1, |p, r| on_both(p, r, |p, a, b| p.multiply(a, b)))
    }

    /// Σ a·b, relinearized and rescaled once.
    fn dot(
        &self,
        a: Vec<Bound<'_, CkksRegister>>,
        b: Vec<Bound<'_, CkksRegister>>,
    ) -> PyResult<CkksRegister> {
        let all: Vec<&CkksRegister> = a.iter().chain(&b).map(Bound::get).collect();
        self.one(&all, 1, dot)
    }

    /// x^exponent.
    fn power(&self, x: &CkksRegister, exponent: u64) -> PyResult<CkksRegister> {
        let made =
            recorded(&self.0, &[x], |p, r, bootstraps, auto| match bootstraps.filter(|_| auto) {
                Some(bootstraps) => bootstraps.power(p, r[0], exponent),
                None => p.power(r[0], exponent),
            });
        made.map(|reg| self.register(reg))
    }

    /// Slots rotated to the left.
    fn rotate(&self, x: &CkksRegister, by: i64) -> PyResult<CkksRegister> {
        self.one(&[x], 0, |p, r| p.rotate(r[0], by))
    }

    /// Slots rotated to the left by each of these.
    fn rotate_many(&self, x: &CkksRegister, by: Vec<i64>) -> PyResult<Vec<CkksRegister>> {
        let made = record(&self.0, &[x], 0, |p, r| rotations(p, r[0], &by))?;
        Ok(made.into_iter().map(|reg| self.register(reg)).collect())
    }

    /// In each slot the sum of `size` slots from it on.
    fn sum(&self, x: &CkksRegister, size: usize) -> PyResult<CkksRegister> {
        self.one(&[x], 0, |p, r| p.sum(r[0], size))
    }

    /// A matrix times the slots, one level lower.
    fn linear(&self, x: &CkksRegister, matrix: &CkksMatrix) -> PyResult<CkksRegister> {
        self.one(&[x], 1, |p, r| matrix.record(p, r[0]))
    }

    /// Σ c_i·T_i(factor·x + offset) of the slots.
    #[pyo3(signature = (x, coefficients, factor=1.0, offset=0.0))]
    fn polynomial(
        &self,
        x: &CkksRegister,
        coefficients: Vec<f64>,
        factor: f64,
        offset: f64,
    ) -> PyResult<CkksRegister> {
        let depth = Chebyshev(coefficients.clone()).depth() + usize::from(factor != 1.0);
        self.one(&[x], depth, |p, r| p.polynomial_of(r[0], Chebyshev(coefficients), factor, offset))
    }

    /// The complex conjugate of every slot.
    fn conjugate(&self, x: &CkksRegister) -> PyResult<CkksRegister> {
        self.one(&[x], 0, |p, r| p.conjugate(r[0]))
    }

    /// Another program on registers of this one, such as a bootstrap: its results.
    fn append(
        &self,
        other: &CkksProgram,
        args: Vec<Bound<'_, CkksRegister>>,
    ) -> PyResult<Vec<CkksRegister>> {
        let (args, other): (Vec<&CkksRegister>, _) =
            (args.iter().map(Bound::get).collect(), other.now());
        let made = record(&self.0, &args, 0, |p, r| p.append(&other, r))?;
        Ok(made.into_iter().map(|reg| self.register(reg)).collect())
    }

    /// The keys that it needs.
    fn needs(&self) -> CkksNeeds {
        CkksNeeds(self.now().needs())
    }

    /// Level, scale and slots of each argument.
    #[getter]
    fn inputs(&self) -> Vec<(usize, f64, usize)> {
        self.facts(self.now().inputs())
    }

    /// Level, scale and slots of each result.
    #[getter]
    fn outputs(&self) -> Vec<(usize, f64, usize)> {
        self.facts(self.now().outputs())
    }

    /// Whether each result is known to be real, where this is known of the arguments.
    fn real(&self, inputs: Vec<bool>) -> PyResult<Vec<bool>> {
        guarded(|| self.now().real(&inputs).map_err(raise))
    }

    /// Standard deviation of the error that a bootstrap adds to a slot, by the formulas.
    #[getter]
    fn error(&self) -> Option<f64> {
        self.now().error()
    }

    /// Number of instructions.
    fn __len__(&self) -> usize {
        self.now().ops().len()
    }

    /// The cost of one run.
    fn cost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let program = self.now();
        let (cost, d) = (program.cost(), PyDict::new(py));
        d.set_item("bootstraps", program.bootstraps())?;
        d.set_item("key_switches", cost.key_switches)?;
        d.set_item("products", cost.products)?;
        d.set_item("transforms", cost.transforms)?;
        d.set_item("diagonals", cost.diagonals)?;
        d.set_item("instructions", program.ops().len())?;
        d.set_item("depth", program.depth())?;
        d.set_item("bytes_per_lane", cost.bytes)?;
        Ok(d)
    }

    /// Refuses values that the approximations are not made for.
    fn check_values(&self, data: &[u8]) -> PyResult<()> {
        let data = values(data);
        guarded(|| self.now().check_values(&data).map_err(raise))
    }

    /// Writes a file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        guarded(|| self.now().save(&path).map_err(raise))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(path: PathBuf, allow_insecure: bool, limit: Option<u64>) -> PyResult<Self> {
        let trust = trust(allow_insecure, limit);
        guarded(|| Program::load(&path, trust).map(CkksProgram::of).map_err(raise))
    }

    /// The file in memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| Ok(PyBytes::new(py, &self.now().to_bytes().map_err(raise)?)))
    }

    /// A program from a file in memory.
    #[staticmethod]
    fn from_bytes(file: &[u8], allow_insecure: bool, limit: Option<u64>) -> PyResult<Self> {
        let trust = trust(allow_insecure, limit);
        guarded(|| Program::from_bytes(file, trust).map(CkksProgram::of).map_err(raise))
    }
}

/// A vector of a program, not yet computed.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksRegister {
    recorder: Recorder,
    reg: Reg,
}

impl CkksRegister {
    fn info(&self) -> RlweInfo {
        let none = RlweInfo { level: 0, scale: 1.0, slots: 1, integers: None };
        now(&self.recorder).info(self.reg).copied().unwrap_or(none)
    }

    fn one(
        &self,
        args: &[&CkksRegister],
        levels: usize,
        work: impl FnOnce(&mut Program, &[Reg]) -> Result<Reg>,
    ) -> PyResult<Self> {
        let reg = record(&self.recorder, args, levels, work)?;
        Ok(CkksRegister { recorder: self.recorder.clone(), reg })
    }
}

#[pymethods]
impl CkksRegister {
    /// Its number in the program.
    #[getter]
    fn index(&self) -> u32 {
        self.reg.0
    }

    /// Name of the parameter set.
    #[getter]
    fn params(&self) -> &'static str {
        now(&self.recorder).params().name
    }

    /// Multiplications that will be left.
    #[getter]
    fn level(&self) -> usize {
        self.info().level
    }

    /// The scale: the factor of the values.
    #[getter]
    fn scale(&self) -> f64 {
        self.info().scale
    }

    /// Number of values.
    #[getter]
    fn slots(&self) -> usize {
        self.info().slots
    }

    /// Whether all values are known to be real.
    #[getter]
    fn real(&self) -> bool {
        let own = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let known = own.program.known_real(&own.real);
        known.is_ok_and(|known| known.get(self.reg.0 as usize).is_some_and(|real| *real))
    }

    /// `self + other`.
    fn add(&self, other: &CkksRegister) -> PyResult<Self> {
        self.one(&[self, other], 0, |p, r| on_both(p, r, |p, a, b| p.add(a, b)))
    }

    /// `self − other`.
    fn subtract(&self, other: &CkksRegister) -> PyResult<Self> {
        self.one(&[self, other], 0, |p, r| on_both(p, r, |p, a, b| p.subtract(a, b)))
    }

    /// `−self`.
    fn negate(&self) -> PyResult<Self> {
        self.one(&[self], 0, |p, r| p.negate(r[0]))
    }

    /// `self + values`.
    fn add_plain(&self, data: &[u8]) -> PyResult<Self> {
        let data = values(data);
        self.one(&[self], 0, |p, r| p.add_plain(r[0], &data))
    }

    /// `self · values`, one level lower.
    fn multiply_plain(&self, data: &[u8]) -> PyResult<Self> {
        let data = values(data);
        self.one(&[self], 1, |p, r| p.multiply_plain(r[0], &data))
    }

    /// `self + plain`, at the lower of the two levels.
    fn add_encoded(&self, plain: &CkksPlaintext) -> PyResult<Self> {
        self.one(&[self], 0, |p, r| {
            plain.lowered(p, r[0]).and_then(|x| p.add_plain(x, plain.values()))
        })
    }

    /// `self · plain`, one level below the lower of the two.
    fn multiply_encoded(&self, plain: &CkksPlaintext) -> PyResult<Self> {
        self.one(&[self], 1, |p, r| {
            plain.lowered(p, r[0]).and_then(|x| p.multiply_plain(x, plain.values()))
        })
    }

    /// `self · factor`, one level lower.
    fn multiply_constant(&self, factor: f64) -> PyResult<Self> {
        self.one(&[self], 1, |p, r| p.multiply_constant(r[0], factor))
    }

    /// `i · self`, exact.
    fn multiply_i(&self) -> PyResult<Self> {
        self.one(&[self], 0, |p, r| p.multiply_i(r[0]))
    }

    /// The same values at a lower level.
    fn level_down(&self, level: usize) -> PyResult<Self> {
        self.one(&[self], 0, |p, r| p.level_down(r[0], level))
    }
}
