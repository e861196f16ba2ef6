//! CKKS: programs that are recorded one instruction at a time.
//!
//! A register has the calls of a ciphertext and a program those of a server's keys, under the same names.

use crate::call::{guarded, raise};
use crate::ciphertext::trust;
use crate::ckks::CkksCiphertext;
use crate::ckks_function::CkksFunction;
use crate::ckks_machine::{Vector, no_result, run_lanes, values};
use crate::ckks_plain::{CkksMatrix, Given};
use crate::keys::CkksNeeds;
use becalm::apps::real::Recording;
use becalm::bootstrap::ckks::KeyPlan;
use becalm::ckks::{Chain, Chebyshev};
use becalm::params::CkksParams;
use becalm::program::Reg;
use becalm::program::rlwe::{CkksProgram as Program, Operator, RlweInfo};
use becalm::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Recorder = Arc<Mutex<Recording>>;
/// Level, scale and slots of an argument or a result, and the bits of packed integers.
type Facts = (usize, f64, usize, Option<u32>);

fn locked(recorder: &Recorder) -> MutexGuard<'_, Recording> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program as it stands.
fn now(recorder: &Recorder) -> Arc<Program> {
    locked(recorder).program().clone()
}

/// Records on registers of this program.
fn record<T>(
    recorder: &Recorder,
    args: &[&CkksRegister],
    work: impl FnOnce(&mut Recording, &[Reg]) -> Result<T>,
) -> PyResult<T> {
    guarded(|| {
        if args.iter().any(|x| !Arc::ptr_eq(&x.recorder, recorder)) {
            let (wanted, got) = ("a register of this program", "a register of another program");
            let remedy = "use the results of its methods";
            return Err(raise(Error::bad_input("program", wanted, got, remedy)));
        }
        let regs: Vec<Reg> = args.iter().map(|x| x.reg).collect();
        work(&mut locked(recorder), &regs).map_err(raise)
    })
}

/// A program of CKKS. Whoever runs it takes it as it stands.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksProgram(Recorder);

impl CkksProgram {
    /// A program that was recorded elsewhere.
    pub(crate) fn of(program: Program) -> Self {
        CkksProgram(Arc::new(Mutex::new(Recording::of(program))))
    }

    /// The program as it stands.
    pub(crate) fn now(&self) -> Arc<Program> {
        now(&self.0)
    }

    /// Gives it the bootstraps of a plan.
    pub(crate) fn bootstrap_by(&self, plan: &KeyPlan, auto: bool) -> Result<()> {
        locked(&self.0).bootstrap_by(plan, auto)
    }

    fn registers(&self, regs: Vec<Reg>) -> Vec<CkksRegister> {
        let of = |reg| CkksRegister { recorder: self.0.clone(), reg };
        regs.into_iter().map(of).collect()
    }

    fn all(&self, args: &[&CkksRegister], operator: &Operator) -> PyResult<Vec<CkksRegister>> {
        let made = record(&self.0, args, |recording, regs| recording.apply(operator, regs))?;
        Ok(self.registers(made))
    }

    fn one(&self, args: &[&CkksRegister], operator: &Operator) -> PyResult<CkksRegister> {
        Ok(self.all(args, operator)?.remove(0))
    }

    fn facts(&self, regs: &[Reg]) -> Vec<Facts> {
        let program = self.now();
        let info = regs.iter().filter_map(|r| program.info(*r));
        info.map(|i| (i.level, i.scale, i.slots, i.integers)).collect()
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
        let reg = record(&self.0, &[], |recording, _| recording.input(level, slots, real))?;
        Ok(CkksRegister { recorder: self.0.clone(), reg })
    }

    /// A new argument of integers of so many bits.
    fn input_integers(&self, bits: u32) -> PyResult<CkksRegister> {
        let reg = record(&self.0, &[], |recording, _| recording.input_integers(bits))?;
        Ok(CkksRegister { recorder: self.0.clone(), reg })
    }

    /// An empty program for the set of a ciphertext.
    #[staticmethod]
    fn beside(x: &CkksCiphertext) -> PyResult<Self> {
        guarded(|| Ok(CkksProgram::of(Program::new(&x.0.on.context))))
    }

    /// A new argument like these ciphertexts, one for each lane: at the lowest of their levels.
    fn input_like(&self, lanes: Vec<Bound<'_, CkksCiphertext>>) -> PyResult<CkksRegister> {
        let real = lanes.iter().all(|x| x.get().0.real);
        let lanes: Vec<RlweInfo> = lanes.iter().map(|x| x.get().0.info()).collect();
        let reg = record(&self.0, &[], |recording, _| recording.input_like(&lanes, real))?;
        Ok(CkksRegister { recorder: self.0.clone(), reg })
    }

    /// Runs it as it stands, without keys, on lanes, each of a ciphertext for each argument.
    fn run(
        &self,
        py: Python<'_>,
        lanes: Vec<Vec<Bound<'_, CkksCiphertext>>>,
    ) -> PyResult<Vec<Vec<CkksCiphertext>>> {
        let lanes: Vec<Vec<&Vector>> =
            lanes.iter().map(|lane| lane.iter().map(|x| &x.get().0).collect()).collect();
        let first =
            lanes.first().and_then(|lane| lane.first()).ok_or_else(|| raise(no_result()))?;
        let made = run_lanes(py, &first.on, &first.no_keys(), &(&self.now()).into(), &lanes, None)?;
        Ok(made.into_iter().map(|lane| lane.into_iter().map(CkksCiphertext).collect()).collect())
    }

    /// A function of these registers: its results. `auto` lets it bootstrap where levels run out.
    fn evaluate(
        &self,
        function: &CkksFunction,
        args: Vec<Bound<'_, CkksRegister>>,
        auto: bool,
    ) -> PyResult<Vec<CkksRegister>> {
        let args: Vec<&CkksRegister> = args.iter().map(Bound::get).collect();
        let made =
            record(&self.0, &args, |recording, regs| recording.evaluate(&function.0, regs, auto))?;
        Ok(self.registers(made))
    }

    /// Marks a result.
    fn output(&self, reg: &CkksRegister) -> PyResult<()> {
        record(&self.0, &[reg], |recording, regs| recording.output(regs[0]))
    }

    /// `a · b`.
    fn multiply(&self, a: &CkksRegister, b: &CkksRegister) -> PyResult<CkksRegister> {
        self.one(&[a, b], &Operator::Multiply)
    }

    /// Σ a·b, relinearized and rescaled once.
    fn dot(
        &self,
        a: Vec<Bound<'_, CkksRegister>>,
        b: Vec<Bound<'_, CkksRegister>>,
    ) -> PyResult<CkksRegister> {
        let all: Vec<&CkksRegister> = a.iter().chain(&b).map(Bound::get).collect();
        self.one(&all, &Operator::Dot)
    }

    /// x^exponent.
    fn power(&self, x: &CkksRegister, exponent: u64) -> PyResult<CkksRegister> {
        self.one(&[x], &Operator::Power(exponent))
    }

    /// Slots rotated to the left.
    fn rotate(&self, x: &CkksRegister, by: i64) -> PyResult<CkksRegister> {
        self.one(&[x], &Operator::Rotate(vec![by]))
    }

    /// Slots rotated to the left by each of these.
    fn rotate_many(&self, x: &CkksRegister, by: Vec<i64>) -> PyResult<Vec<CkksRegister>> {
        self.all(&[x], &Operator::Rotate(by))
    }

    /// The same by keys for powers of two alone.
    fn rotate_by_powers(&self, x: &CkksRegister, by: Vec<u32>) -> PyResult<Vec<CkksRegister>> {
        self.all(&[x], &Operator::RotateByPowers(by))
    }

    /// In each slot the sum of `size` slots from it on.
    fn sum(&self, x: &CkksRegister, size: usize) -> PyResult<CkksRegister> {
        self.one(&[x], &Operator::Sum(size))
    }

    /// The sum of a·b over all slots, in every slot.
    fn inner(&self, a: &CkksRegister, b: &CkksRegister) -> PyResult<CkksRegister> {
        self.one(&[a, b], &Operator::Inner)
    }

    /// The same of a vector and values.
    fn inner_plain(&self, x: &CkksRegister, values: Given<'_>) -> PyResult<CkksRegister> {
        self.one(&[x], &Operator::InnerPlain(values.beside()))
    }

    /// A matrix times the slots, one level lower.
    fn matmul(&self, x: &CkksRegister, matrix: &CkksMatrix) -> PyResult<CkksRegister> {
        self.one(&[x], &matrix.operator())
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
        let p = Chebyshev(coefficients);
        self.one(&[x], &Operator::Polynomial { p, factor, offset })
    }

    /// The complex conjugate of every slot.
    fn conjugate(&self, x: &CkksRegister) -> PyResult<CkksRegister> {
        self.one(&[x], &Operator::Conjugate)
    }

    /// Another program on registers of this one, such as a bootstrap: its results.
    fn append(
        &self,
        other: &CkksProgram,
        args: Vec<Bound<'_, CkksRegister>>,
    ) -> PyResult<Vec<CkksRegister>> {
        let (args, other): (Vec<&CkksRegister>, _) =
            (args.iter().map(Bound::get).collect(), other.now());
        let made = record(&self.0, &args, |recording, regs| recording.append(&other, regs))?;
        Ok(self.registers(made))
    }

    /// The keys that it needs.
    fn needs(&self) -> CkksNeeds {
        CkksNeeds(self.now().needs())
    }

    /// Level, scale and slots of each argument, and the bits of packed integers.
    #[getter]
    fn inputs(&self) -> Vec<Facts> {
        self.facts(self.now().inputs())
    }

    /// The same of each result.
    #[getter]
    fn outputs(&self) -> Vec<Facts> {
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

    fn one(&self, args: &[&CkksRegister], operator: &Operator) -> PyResult<Self> {
        CkksProgram(self.recorder.clone()).one(args, operator)
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

    /// The bits of the integers that its coefficients are; none of values in slots.
    #[getter]
    fn bits(&self) -> Option<u32> {
        self.info().integers
    }

    /// Whether all values are known to be real.
    #[getter]
    fn real(&self) -> bool {
        locked(&self.recorder).is_real(self.reg)
    }

    /// `self + other`.
    fn add(&self, other: &CkksRegister) -> PyResult<Self> {
        self.one(&[self, other], &Operator::Add)
    }

    /// `self − other`.
    fn subtract(&self, other: &CkksRegister) -> PyResult<Self> {
        self.one(&[self, other], &Operator::Subtract)
    }

    /// `−self`.
    fn negate(&self) -> PyResult<Self> {
        self.one(&[self], &Operator::Negate)
    }

    /// `self + values`; of encoded values at the lower of the two levels.
    fn add_plain(&self, values: Given<'_>) -> PyResult<Self> {
        self.one(&[self], &Operator::AddPlain(values.beside()))
    }

    /// `self − values`.
    fn subtract_plain(&self, values: Given<'_>) -> PyResult<Self> {
        self.one(&[self], &Operator::SubtractPlain(values.beside()))
    }

    /// `values − self`.
    fn subtract_from_plain(&self, values: Given<'_>) -> PyResult<Self> {
        self.one(&[self], &Operator::SubtractFromPlain(values.beside()))
    }

    /// `self · values`, one level lower.
    fn multiply_plain(&self, values: Given<'_>) -> PyResult<Self> {
        self.one(&[self], &Operator::MultiplyPlain(values.beside()))
    }

    /// `self · factor` for an integer, by sums.
    fn multiple(&self, factor: i64) -> PyResult<Self> {
        self.one(&[self], &Operator::Multiple(factor))
    }

    /// `i · self`, exact.
    fn multiply_i(&self) -> PyResult<Self> {
        self.one(&[self], &Operator::MultiplyI)
    }

    /// The same values at a lower level.
    fn level_down(&self, level: usize) -> PyResult<Self> {
        self.one(&[self], &Operator::LevelDown(level))
    }
}
