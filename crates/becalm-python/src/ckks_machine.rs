//! CKKS: the machine. Every call that computes on ciphertexts is a program, of one instruction or of many, and runs here.
//!
//! Vectors travel as little-endian doubles in pairs, real and imaginary part: numpy's `complex128`.

use crate::call::{detached, guarded, raise, supervised};
use crate::ciphertext::flat;
use becalm::backend::{Backend, Ckks, Cpu, Evaluator, Fallback, Keyring, Prepared, for_params};
use becalm::cipher::{CkksKeys, PackedRlwe, Rlwe};
use becalm::ckks::Context;
use becalm::math::buffer::or_refused;
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, Kind};
use becalm::program::rlwe::{CkksProgram as Program, Operator, RlweInfo};
use becalm::{Error, Progress, Result, UNWATCHED};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use becalm::backend::{MemoryBudget, Plain};

/// A context, the machine that runs programs, and the threads that encrypt, decrypt and make keys.
pub struct Machine {
    pub(crate) context: Arc<Context>,
    keyring: Keyring,
    pub(crate) cpu: Cpu,
    /// Whether ciphertexts are packed when nothing computes with them.
    pub(crate) compact: bool,
    /// Whether the caller was told that a GPU is not used.
    told: AtomicBool,
}

impl Machine {
    fn new(context: Arc<Context>, backend: Arc<dyn Backend>, cpu: Cpu, compact: bool) -> Shared {
        let keyring = Keyring::new(backend, &context);
        Arc::new(Machine { context, keyring, cpu, compact, told: AtomicBool::new(false) })
    }

    /// Warns, once, if the CPU computed though this computer has a GPU.
    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        match self.keyring.machine().1 {
            Some(Fallback { why, gpu: true }) if !self.told.swap(true, Ordering::Relaxed) => {
                py.import("becalm._machine")?.call_method1("no_gpu", (why,)).map(drop)
            }
            _ => Ok(()),
        }
    }
}

pub(crate) type Shared = Arc<Machine>;

/// The fields of [`CkksMachine::describe`].
type Claims = (bool, u32, usize, f64, usize, f64, f64, &'static str);

/// Work of milliseconds on the threads of the machine, with the interpreter free.
pub(crate) fn brief<T: Send>(
    py: Python<'_>,
    on: &Shared,
    work: impl FnOnce(&Context) -> Result<T> + Send,
) -> PyResult<T> {
    let made = detached(py, || on.cpu.install(|| or_refused("becalm", || work(&on.context))))?;
    on.tell(py)?;
    Ok(made)
}

pub(crate) fn values(bytes: &[u8]) -> Vec<Complex> {
    let (pairs, _) = bytes.as_chunks::<16>();
    let real = |b: &[u8]| b.try_into().map_or(f64::NAN, f64::from_le_bytes);
    pairs.iter().map(|p| Complex::new(real(&p[..8]), real(&p[8..]))).collect()
}

pub(crate) fn bytes_of<'py>(py: Python<'py>, values: &[Complex]) -> PyResult<Bound<'py, PyBytes>> {
    let field = |v: &Complex| {
        let mut both = [0; 16];
        both[..8].copy_from_slice(&v.re.to_le_bytes());
        both[8..].copy_from_slice(&v.im.to_le_bytes());
        both
    };
    flat(py, values.iter().map(field))
}

/// A machine with a CKKS parameter set made ready on it.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksMachine(pub(crate) Shared);

#[pymethods]
impl CkksMachine {
    /// Makes the set of a name ready on a machine; 0 threads means all. Ciphertexts of a `compact` one are packed when nothing computes
    /// with them.
    #[new]
    #[pyo3(signature = (name, allow_insecure, threads, compact=false, device="cpu"))]
    fn new(
        py: Python<'_>,
        name: &str,
        allow_insecure: bool,
        threads: usize,
        compact: bool,
        device: &str,
    ) -> PyResult<Self> {
        supervised(py, None, |_| {
            let (params, cpu) = (CkksParams::named(name)?, Cpu::new(threads)?);
            let backend = for_params::<Ckks>(device, &cpu, params)?;
            let context = Arc::new(cpu.install(|| Context::new(params, allow_insecure))?);
            Ok(CkksMachine(Machine::new(context, backend, cpu, compact)))
        })
    }

    /// The same set and threads, on a machine; ciphertexts are packed when nothing computes with them, or are not.
    fn again(&self, py: Python<'_>, compact: bool, device: &str) -> PyResult<Self> {
        supervised(py, None, |_| {
            let Machine { context, cpu, .. } = &*self.0;
            let backend = for_params::<Ckks>(device, cpu, context.params())?;
            Ok(CkksMachine(Machine::new(context.clone(), backend, cpu.clone(), compact)))
        })
    }

    /// Names of all sets, the default first.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        CkksParams::all().iter().map(|p| p.name).collect()
    }

    /// The facts of a set: whether it is a standard one, log2 of its degree, levels, log2 of its scale, stages of its bootstrap, log2
    /// of its modulus, bits of security and where they come from.
    #[staticmethod]
    fn describe(name: &str) -> PyResult<Claims> {
        guarded(|| {
            let p = CkksParams::named(name).map_err(raise)?;
            let stages = p.bootstrap.map_or(0, |b| b.stage_count);
            let (size, bits, standard) =
                (p.log2_degree, p.log2_modulus(), p.kind == Kind::Standard);
            let claim = (p.security_bits, p.security_source);
            Ok((standard, size, p.levels, p.scale_bits, stages, bits, claim.0, claim.1))
        })
    }

    /// `(name, description, batch)` of the machine of the last program; before the first, of the machine that will be tried first.
    #[getter]
    fn info(&self) -> (&'static str, String, usize) {
        let (info, _) = self.0.keyring.machine();
        (info.name, info.description, info.best_batch)
    }

    /// Why that machine is not a GPU, and whether there is one, where `"auto"` was asked for.
    #[getter]
    fn fallback(&self) -> Option<(String, bool)> {
        self.0.keyring.machine().1.map(|f| (f.why, f.gpu))
    }

    /// Name of the set.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.context.params().name
    }

    /// Programs that were run on it so far.
    #[getter]
    fn runs(&self) -> usize {
        self.0.keyring.runs()
    }
}

/// A ciphertext as it is kept.
#[derive(Clone)]
pub(crate) enum Kept {
    Ready(Arc<Rlwe>),
    Packed(Arc<PackedRlwe>),
}

/// A ciphertext on its machine.
#[derive(Clone)]
pub(crate) struct Vector {
    pub(crate) on: Shared,
    pub(crate) kept: Kept,
    /// Whether all values are known to be real.
    pub(crate) real: bool,
}

impl Vector {
    /// A result, packed where the machine is compact, and whether all its values are known to be real.
    pub(crate) fn new(on: &Shared, (x, real): (Rlwe, bool)) -> Result<Vector> {
        let kept = match on.compact {
            true => Kept::Packed(Arc::new(on.context.pack(&x)?)),
            false => Kept::Ready(Arc::new(x)),
        };
        Ok(Vector { on: on.clone(), kept, real })
    }

    /// The ciphertext that brief work makes.
    pub(crate) fn made(
        py: Python<'_>,
        on: &Shared,
        work: impl FnOnce(&Context) -> Result<(Rlwe, bool)> + Send,
    ) -> PyResult<Vector> {
        brief(py, on, |context| Vector::new(on, work(context)?))
    }

    /// Its level, scale, slots and integers.
    pub(crate) fn info(&self) -> RlweInfo {
        let (level, scale, slots, integers) = match &self.kept {
            Kept::Ready(x) => (x.level(), x.scale(), x.slots(), x.integers()),
            Kept::Packed(x) => (x.level(), x.scale(), x.slots(), x.integers()),
        };
        RlweInfo { level, scale, slots, integers: integers.map(|own| own.bits) }
    }

    /// Keys for programs that need none.
    pub(crate) fn no_keys(&self) -> Arc<CkksKeys> {
        let (params, key) = match &self.kept {
            Kept::Ready(x) => (x.params(), x.key_id()),
            Kept::Packed(x) => (x.params(), x.key_id()),
        };
        Arc::new(CkksKeys::none(params, key))
    }

    /// The ciphertext as it is computed with.
    pub(crate) fn open(&self) -> Result<Arc<Rlwe>> {
        match &self.kept {
            Kept::Ready(x) => Ok(x.clone()),
            Kept::Packed(x) => Ok(Arc::new(self.on.context.unpack_ciphertext(x)?)),
        }
    }
}

/// A program with encoded matrices of at most a number of bytes, for any keys.
pub(crate) fn prepared(
    on: &Shared,
    program: &Arc<Program>,
    bytes: usize,
    progress: Progress,
) -> Result<Prepared> {
    on.keyring.prepared(program, bytes, progress)
}

/// Refuses keys that do not suffice for a program.
pub(crate) fn require(on: &Shared, keys: &Arc<CkksKeys>, program: &Program) -> Result<()> {
    on.keyring.evaluator(keys)?.require(program)
}

/// Refuses keys without these rotations up to `level`.
pub(crate) fn require_rotations(
    on: &Shared,
    keys: &Arc<CkksKeys>,
    by: &[i64],
    level: usize,
) -> Result<()> {
    let mut program = Program::new(&on.context);
    let x = program.input(level, on.context.params().slots())?;
    by.iter().try_for_each(|by| program.rotate(x, *by).map(|_| ()))?;
    require(on, keys, &program)
}

/// The ciphertexts and keys of a call.
pub(crate) struct Call<'a> {
    pub(crate) on: &'a Shared,
    /// None for instructions that need no key.
    pub(crate) keys: Option<&'a Arc<CkksKeys>>,
    pub(crate) inputs: &'a [&'a Vector],
    /// The first plaintext of the program, encoded.
    pub(crate) plain: Option<Arc<Plain>>,
    /// Whether the work takes so long that Ctrl-C is to stop it.
    pub(crate) long: bool,
}

impl Call<'_> {
    /// Records an operator on arguments like the inputs, and runs it on them.
    pub(crate) fn all(self, py: Python<'_>, operator: &Operator) -> PyResult<Vec<Vector>> {
        let plain = self.plain.clone();
        let ready = |on: &Evaluator<Ckks>, given: &[&Rlwe]| {
            let program = on.record(operator, given)?;
            Ok(plain.map_or_else(|| (&program).into(), |x| Prepared::with_plain(&program, &x)))
        };
        match self.long {
            true => watched(py, self.on, None, |step| self.run(step, ready)),
            false => brief(py, self.on, |_| self.run(UNWATCHED, ready)),
        }
    }

    /// [`Call::all`] of an operator with one result.
    pub(crate) fn one(self, py: Python<'_>, operator: &Operator) -> PyResult<Vector> {
        let mut made = self.all(py, operator)?;
        made.pop().ok_or_else(|| crate::call::raise(no_result()))
    }

    fn run(
        &self,
        progress: Progress,
        ready: impl FnOnce(&Evaluator<Ckks>, &[&Rlwe]) -> Result<Prepared>,
    ) -> Result<Vec<Vector>> {
        let opened = self.inputs.iter().map(|x| x.open()).collect::<Result<Vec<_>>>()?;
        let given: Vec<&Rlwe> = opened.iter().map(Arc::as_ref).collect();
        let none = || self.inputs.first().map(|x| x.no_keys());
        let keys = self.keys.cloned().or_else(none).ok_or_else(no_result)?;
        let known: Vec<bool> = self.inputs.iter().map(|x| x.real).collect();
        let run = |on: &Evaluator<Ckks>| {
            let ready = ready(on, &given)?;
            let real = ready.program().real(&known)?;
            Ok(on.run_with(ready, &given, progress)?.into_iter().zip(real))
        };
        self.on.keyring.run(&keys, run)?.map(|made| Vector::new(self.on, made)).collect()
    }
}

/// Runs a program on every lane; each has a ciphertext for each argument.
pub(crate) fn run_lanes(
    py: Python<'_>,
    on: &Shared,
    keys: &Arc<CkksKeys>,
    ready: &Prepared,
    lanes: &[Vec<&Vector>],
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Vec<Vector>>> {
    watched(py, on, progress, |step| {
        // An argument is real where that of every lane is.
        let arguments = ready.program().inputs().len();
        let known = |i: usize| lanes.iter().all(|lane| lane.get(i).is_none_or(|x| x.real));
        let real = ready.program().real(&(0..arguments).map(known).collect::<Vec<bool>>())?;
        let mut results = Vec::with_capacity(lanes.len());
        let open = |x: &&Vector| x.open().map(Arc::unwrap_or_clone);
        let take = |lane: usize| lanes[lane].iter().map(open).collect();
        let give = |_, made: Vec<Rlwe>| {
            let kept = made.into_iter().zip(real.iter().copied()).map(|x| Vector::new(on, x));
            results.push(kept.collect::<Result<Vec<_>>>()?);
            Ok(())
        };
        on.keyring.run(keys, |on| on.run_each(ready, lanes.len(), take, give, step))?;
        Ok(results)
    })
}

/// Work on the threads of the machine that Ctrl-C stops, with progress.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    on: &Shared,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(Progress) -> Result<T> + Send,
) -> PyResult<T> {
    let made = supervised(py, progress, |watch| {
        on.cpu.install(|| or_refused("becalm", || work(&|done, all| watch.step(done, all))))
    })?;
    on.tell(py)?;
    Ok(made)
}

pub(crate) fn no_result() -> Error {
    let remedy = "pass one ciphertext or more";
    Error::bad_input("run", "a program with arguments and results", "none", remedy)
}
