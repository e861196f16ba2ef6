//! Machines that run programs, and the one contract that they share.
//!
//! The boundary is a program, not a polynomial: a GPU wants a wave as one launch, a processor wants it as a batch, a CPU
//! spreads it over threads. Inside a backend anything may be fused; outside nothing is generic over it.

#[cfg(feature = "cuda")]
mod auto;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod evaluate;
mod evaluate_ckks;
mod opened;
pub mod processor;
mod reference;
mod registers;
mod several;

#[cfg(feature = "cuda")]
pub use auto::Auto;
pub use cpu::{Cpu, MemoryBudget, Plain};
#[cfg(feature = "cuda")]
pub use cuda::{Cuda, Figure, KeyMemory, Micro, gpus, images, look_for_nvrtc, nvrtc};
pub(crate) use evaluate::require_fit;
pub use evaluate::{Evaluator, batch_of};
pub use evaluate_ckks::{CkksEvaluator, Prepared};
pub use processor::Processor;
pub use reference::Reference;
pub use several::Several;

use crate::cipher::{CkksKeys, EvaluationKey};
use crate::ckks::Chain;
use crate::params::{CkksParams, TfheParams};
use crate::program::rlwe::{CkksProgram, Constants};
use crate::program::{Ckks, Family, Need, Op, Reg, Tfhe};
use crate::{Error, Progress, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The description of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// `"cpu"`, `"reference"`, …
    pub name: &'static str,
    /// One line for people: processor, instruction set, threads.
    pub description: String,
    /// Bytes of memory that keys and registers may take; 0 if unknown.
    pub memory: u64,
    /// Number of equal instructions at which the machine is busy.
    pub best_batch: usize,
}

/// Why the CPU computes where [`by_name`] was asked for `"auto"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The reason why no GPU is used.
    pub why: String,
    /// Whether there is one, or a driver that does not work: people will want to know.
    pub gpu: bool,
}

/// A kind of machine.
pub trait Backend: Send + Sync {
    /// The description of the machine.
    fn info(&self) -> Info;
    /// Whether the machine runs this instruction natively for this parameter set.
    fn supports(&self, op: &Op, params: &TfheParams) -> bool;
    /// Whether the machine runs a parameter set at all; asked before keys are made.
    ///
    /// # Errors
    /// [`Error::WrongParams`] that says which it runs; of a GPU also what it lacks for this one.
    fn accepts(&self, _params: &TfheParams) -> Result<()> {
        Ok(())
    }
    /// Leaves what is open for the next that opens this machine, as [`require`] does between its question and the keys.
    fn keep_open(&self) {}
    /// Brings the needed parts of a key onto the machine.
    ///
    /// # Errors
    /// [`Error::Memory`] if they do not fit; [`Error::WrongParams`] for a set the machine cannot run.
    fn open(&self, keys: &EvaluationKey, needs: &BTreeSet<Need>) -> Result<Box<dyn Session>>;
    /// Whether the machine runs a parameter set of CKKS at all.
    ///
    /// # Errors
    /// [`Error::Unsupported`] from a machine that runs TFHE alone; [`Error::WrongParams`] for a set that it cannot run.
    fn accepts_ckks(&self, params: &CkksParams) -> Result<()> {
        let (wanted, name) = ("a machine that runs CKKS", self.info().name);
        let got = format!("{name}, for `{}`", params.name);
        Err(Error::unsupported("open", wanted, got, "use the CPU"))
    }
    /// Puts the constants of a program of CKKS into the form of the machine, encoded matrices of at most `bytes`; none where the machine
    /// has no such form. It takes no key: all keys of the set share them. `progress` is told of
    /// the diagonals of a matrix alone, and of the matrices where there are several.
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a program of another set, [`Error::Memory`] where the matrices do not fit, [`Error::Interrupted`] when
    /// stopped.
    fn prepare_ckks(
        &self,
        _chain: &Arc<Chain>,
        _program: &CkksProgram,
        _bytes: usize,
        _progress: Progress,
    ) -> Result<Option<Constants>> {
        Ok(None)
    }
    /// Brings keys of CKKS onto the machine.
    ///
    /// # Errors
    /// As [`Backend::accepts_ckks`]; [`Error::Memory`] if they do not fit.
    fn open_ckks(&self, keys: CkksSetup) -> Result<Box<dyn Session<Ckks>>> {
        Err(match self.accepts_ckks(keys.chain.params()) {
            Err(e) => e,
            Ok(()) => Error::unsupported("open", "keys of CKKS", self.info().name, "use the CPU"),
        })
    }
}

/// Keys of CKKS for [`Backend::open_ckks`], and how a session is to use them.
#[derive(Clone)]
pub struct CkksSetup {
    /// The chain of the set. A machine makes its tables of it.
    pub chain: Arc<Chain>,
    /// The keys.
    pub keys: Arc<CkksKeys>,
    /// Most bytes of encoded matrices that a session keeps; it encodes the others whenever their turn comes.
    pub matrices: usize,
}

impl CkksSetup {
    /// Keys of a set. All matrices of a program stay encoded.
    pub fn new(chain: &Arc<Chain>, keys: &Arc<CkksKeys>) -> CkksSetup {
        let (chain, keys) = (chain.clone(), keys.clone());
        CkksSetup { chain, keys, matrices: usize::MAX }
    }

    /// The same, keeping encoded matrices of at most `bytes`: less memory, and more time.
    pub fn within(self, bytes: usize) -> CkksSetup {
        CkksSetup { matrices: bytes, ..self }
    }
}

/// A program laid out on a machine, as [`Session::load`] returns it.
#[derive(Debug)]
pub struct Loaded<F: Family = Tfhe> {
    /// The program.
    pub program: Arc<F::Program>,
    /// Its waves.
    pub walk: Arc<F::Walk>,
    /// Ciphertexts in each register.
    pub lanes: usize,
}

impl<F: Family> Clone for Loaded<F> {
    fn clone(&self) -> Self {
        let Loaded { program, walk, lanes } = self;
        Loaded { program: program.clone(), walk: walk.clone(), lanes: *lanes }
    }
}

/// Makes sessions: see [`Session::others`].
pub type Others<F> = Box<dyn Fn() -> Box<dyn Session<F>> + Send + Sync>;

/// Keys on a machine, and memory to run in. One program is loaded at a time, of the family of the keys.
pub trait Session<F: Family = Tfhe>: Send + Sync {
    /// The description of the machine, if it knows more than [`Backend::info`].
    fn info(&self) -> Option<Info> {
        None
    }
    /// Why it is not a GPU, if it might have been.
    fn fallback(&self) -> Option<Fallback> {
        None
    }
    /// An optimisation that the machine could not use, and why: it changes times, but no result.
    fn remark(&self) -> Option<String> {
        None
    }
    /// Whether a forked child of the process that opened it can compute with it; with a GPU it cannot.
    fn survives_fork(&self) -> bool {
        true
    }
    /// Makes further sessions of the same keys, on a machine where they take no further memory until they run: threads then run
    /// programs at once. None where threads take turns.
    fn others(&self) -> Option<Others<F>> {
        None
    }
    /// Whether the machine runs exactly the instructions that a wave names, so that others may run the rest of the wave: see [`Several`].
    /// Otherwise several machines share lanes alone.
    fn splits_waves(&self) -> bool {
        false
    }
    /// Forgets the ciphertexts in the registers, after results have been read. A machine may keep what the next run of the same program
    /// needs.
    fn clear(&mut self) {}
    /// Reserves registers for `lanes` ciphertexts each; the program loaded before is gone. `progress` may stop a machine that takes long to
    /// encode the constants of the program.
    ///
    /// # Errors
    /// [`Error::Memory`] if the registers do not fit; [`Error::Unsupported`] for an instruction that the machine lacks or
    /// a part of the key that was not opened.
    fn load(
        &mut self,
        program: Arc<F::Program>,
        walk: Arc<F::Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<F>>;
    /// Puts words into the lanes of a register from `lane` on: an input, or between waves the result of an instruction that another
    /// machine runs ([`Wave::elsewhere`](crate::program::Wave)).
    ///
    /// # Errors
    /// [`Error::BadInput`] if the register does not exist or the words do not fill lanes of it.
    fn write(&mut self, at: Reg, lane: usize, words: &[F::Word]) -> Result<()>;
    /// Copies some lanes out of a register, the words of a lane one after another.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the register does not exist, is no longer alive or has fewer lanes.
    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<F::Word>>;
    /// [`Session::read`] of several registers: a machine that computes far away answers once.
    ///
    /// # Errors
    /// As there.
    fn read_many(&self, at: &[Reg], lanes: Range<usize>) -> Result<Vec<Vec<F::Word>>> {
        at.iter().map(|reg| self.read(*reg, lanes.clone())).collect()
    }
    /// Runs some waves of the program that is loaded. A machine of long instructions tells `progress` between their parts how many of these
    /// waves are done. Callers who want to be told between waves ask for one at a time.
    ///
    /// # Errors
    /// Errors of the machine; [`Error::Interrupted`] if `progress` stops it.
    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()>;
    /// Waits for earlier writes and runs: a machine may put them off until a result is read. Only measurements need this.
    ///
    /// # Errors
    /// Errors of the machine.
    fn wait(&self) -> Result<()> {
        Ok(())
    }
}

/// A name of a machine, whether it is a device and no simulation, and how it is opened for a number of threads: 0 for all.
type Machine = (&'static str, bool, fn(usize) -> Result<Box<dyn Backend>>);

/// Every machine of this build: a new one is a line here.
const MACHINES: &[Machine] = &[
    ("cpu", true, |threads| Ok(Box::new(Cpu::new(threads)?))),
    #[cfg(feature = "cuda")]
    ("cuda", true, |_| Ok(Box::new(Cuda::new()?))),
    ("processor", false, |_| Ok(Box::new(Processor::default()))),
    ("reference", false, |_| Ok(Box::new(Reference))),
    ("auto", true, auto),
];

/// A GPU if there is one; with a number of threads, the CPU.
fn auto(threads: usize) -> Result<Box<dyn Backend>> {
    #[cfg(feature = "cuda")]
    if threads == 0 {
        return Ok(Box::new(Auto::new()?));
    }
    Ok(Box::new(Cpu::new(threads)?))
}

/// The names that [`by_name`] takes.
pub fn names() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|(name, ..)| *name)
}

/// Those of [`names`] that are devices, and no simulations.
pub fn devices() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().filter(|(_, device, _)| *device).map(|(name, ..)| *name)
}

/// The backend of a name: `"cpu"`, `"cuda"`, `"processor"`, `"reference"`, or `"auto"`: a GPU if one is there and can run the
/// key's parameter set, else the CPU.
///
/// # Errors
/// [`Error::BadInput`] for a name that this build does not have; [`Error::Device`] for `"cuda"` without a GPU.
pub fn by_name(name: &str) -> Result<Box<dyn Backend>> {
    with_threads(name, 0)
}

/// [`by_name`] with a number of threads, 0 for all, which applies to the CPU: `"auto"` is the CPU if there is one.
///
/// # Errors
/// As there, and [`Error::BadInput`] for too many threads.
pub fn with_threads(name: &str, threads: usize) -> Result<Box<dyn Backend>> {
    if let Some((.., open)) = MACHINES.iter().find(|machine| machine.0 == name) {
        return open(threads);
    }
    let known: Vec<&str> = names().collect();
    let wanted = known.join(", ").replace(", auto", " or auto");
    let remedy = match name.starts_with("cuda") || name.starts_with("gpu") {
        true => "name all GPUs as cuda; CUDA_VISIBLE_DEVICES=1 makes that the second only",
        false => "choose one of these",
    };
    Err(Error::bad_input("backend", wanted, name, remedy))
}

/// The machine of a name for a parameter set of CKKS, as [`with_threads`]. `cpu` computes where the name is its own, or `"auto"`: no GPU
/// runs CKKS, so none is looked for.
///
/// # Errors
/// As [`by_name`] and [`Backend::accepts_ckks`].
pub fn for_ckks(name: &str, cpu: &Cpu, params: &CkksParams) -> Result<Arc<dyn Backend>> {
    if matches!(name, "cpu" | "auto") {
        return Ok(Arc::new(cpu.clone()));
    }
    let machine = with_threads(name, cpu.threads())?;
    machine.accepts_ckks(params)?;
    Ok(Arc::from(machine))
}

/// Refuses a machine that is not there, does not run a parameter set, or has no room for its key: before keys are made, which
/// takes long. `"auto"` is never refused.
///
/// # Errors
/// As [`by_name`] and [`Backend::accepts`].
pub fn require(name: &str, params: &TfheParams) -> Result<()> {
    if name == "auto" {
        return Ok(());
    }
    let machine = by_name(name)?;
    machine.accepts(params)?;
    machine.keep_open();
    Ok(())
}
