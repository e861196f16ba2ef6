//! Machines that run programs, and the one contract that they share.
//!
//! The boundary is a program, not a polynomial: a GPU wants a wave as one launch, a processor wants it as a batch, a CPU
//! spreads it over threads. Inside a backend anything may be fused; outside nothing is generic over it.

#[cfg(feature = "cuda")]
mod auto;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod encoded;
mod evaluate;
mod family;
pub mod processor;
mod reference;
mod registers;
mod several;

#[cfg(feature = "cuda")]
pub use auto::Auto;
pub use cpu::{Cpu, MemoryBudget};
#[cfg(feature = "cuda")]
pub use cuda::{Cuda, Figure, KeyMemory, Micro, gpus, images, look_for_nvrtc, nvrtc};
pub use encoded::Plain;
pub(crate) use evaluate::require_fit;
pub use evaluate::{Evaluate, Evaluator, Keyring, Prepared, batch_of};
pub use family::{Ckks, CkksSetup, Family, Keys, Tfhe, TfheSetup};
pub use processor::Processor;
pub use reference::Reference;
pub use several::Several;

use crate::program::{Constants, Pace, Reg, Walk};
use crate::{Error, Progress, Result};
use std::ops::Range;
use std::sync::Arc;

/// The description of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// `"cpu"`, `"reference"`, …
    pub name: &'static str,
    /// One line for people: processor, instruction set, threads.
    pub description: String,
    /// Bytes of memory that keys and registers may take, when the machine was opened; 0 if unknown.
    pub memory: u64,
    /// Number of equal instructions at which the machine is busy.
    pub best_batch: usize,
    /// The time of its waves of TFHE, by which programs are chosen and arranged.
    pub pace: Pace,
}

/// Why the CPU computes where [`by_name`] was asked for `"auto"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The reason why no GPU is used.
    pub why: String,
    /// Whether there is one, or a driver that does not work: people will want to know.
    pub gpu: bool,
}

/// A kind of machine. It says which families of instructions it runs, and [`Runs`] each of them.
pub trait Backend: Send + Sync {
    /// The description of the machine.
    fn info(&self) -> Info;
    /// The machine as one that runs TFHE, if it does.
    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        None
    }
    /// The machine as one that runs CKKS, if it does.
    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        None
    }
    /// Whether its work takes memory of its own, so that this computer has room for keys and matrices alone.
    fn is_far(&self) -> bool {
        false
    }
    /// Keeps the device open after a question about a set, so that the next call does not open it again.
    fn keep_open(&self) {}
}

impl dyn Backend + '_ {
    /// The machine as one that runs a family.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it does not.
    pub fn runs<F: Family>(&self) -> Result<&dyn Runs<F>> {
        F::on(self).ok_or_else(|| {
            let wanted = format!("a machine that runs {}", F::NAME);
            Error::unsupported("open", wanted, self.info().name, "use the CPU")
        })
    }
}

/// A machine that runs a family of instructions.
pub trait Runs<F: Family>: Send + Sync {
    /// Whether the machine runs a parameter set; asked before keys are made. A machine that runs every set leaves it out.
    ///
    /// # Errors
    /// [`Error::WrongParams`] that says which it runs; of a GPU also what it lacks for this one.
    fn accepts(&self, _params: &F::Params) -> Result<()> {
        Ok(())
    }
    /// Whether the machine runs an instruction for a parameter set. A machine that lacks none runs all of a set that it accepts.
    fn supports(&self, _op: &F::Op, params: &F::Params) -> bool {
        self.accepts(params).is_ok()
    }
    /// Puts the constants of a program into the form of the machine, encoded matrices of at most `bytes`; none where the machine has no
    /// form of its own. It takes no key: all keys of the set share them. `progress` is told of the diagonals of a matrix alone, and of the
    /// matrices where there are several.
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a program of another set, [`Error::Memory`] where the matrices do not fit, [`Error::Interrupted`] when
    /// stopped.
    fn prepare(
        &self,
        _base: &F::Base,
        _program: &F::Program,
        _bytes: usize,
        _progress: Progress,
    ) -> Result<Option<Constants>> {
        Ok(None)
    }
    /// Brings keys onto the machine.
    ///
    /// # Errors
    /// As [`Runs::accepts`]; [`Error::Memory`] if they do not fit.
    fn open(&self, setup: F::Setup) -> Result<Box<dyn Session<F>>>;
}

/// A program laid out on a machine, as [`Session::load`] returns it.
#[derive(Debug)]
pub struct Loaded<F: Family = Tfhe> {
    /// The program.
    pub program: Arc<F::Program>,
    /// Its waves.
    pub walk: Arc<Walk>,
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
    /// Otherwise only lanes are divided among several machines.
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
        walk: Arc<Walk>,
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

/// A name of a machine, and how it is opened beside a CPU of some threads.
type Machine = (&'static str, fn(&Cpu) -> Result<Arc<dyn Backend>>);

/// Every machine of this build: a new one is a line here.
const MACHINES: &[Machine] = &[
    ("cpu", |cpu| Ok(Arc::new(cpu.clone()))),
    #[cfg(feature = "cuda")]
    ("cuda", |_| Ok(Arc::new(Cuda::new()?))),
    ("processor", |_| Ok(Arc::new(Processor::default()))),
    ("reference", |_| Ok(Arc::new(Reference))),
    ("auto", auto),
];

/// A GPU if there is one; the CPU if that has a number of threads.
fn auto(cpu: &Cpu) -> Result<Arc<dyn Backend>> {
    #[cfg(feature = "cuda")]
    if cpu.has_all() {
        return Ok(Arc::new(Auto::on(cpu.clone())?));
    }
    Ok(Arc::new(cpu.clone()))
}

/// The names that [`by_name`] takes: what a user may choose as `device`.
pub fn names() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|(name, _)| *name)
}

/// The line of a name in the list of machines.
///
/// # Errors
/// [`Error::BadInput`] with all names, for one that this build does not have.
fn named(name: &str) -> Result<&'static Machine> {
    let refused = || {
        let known: Vec<&str> = names().collect();
        let wanted = format!("the device {}", known.join(", ").replace(", auto", " or auto"));
        let remedy = match name.starts_with("cuda") || name.starts_with("gpu") {
            true => "name all GPUs as cuda; CUDA_VISIBLE_DEVICES=1 makes that the second only",
            false => "choose one of these",
        };
        Error::bad_input("device", wanted, name, remedy)
    };
    MACHINES.iter().find(|machine| machine.0 == name).ok_or_else(refused)
}

/// Refuses a name that [`by_name`] would refuse, and opens nothing.
///
/// # Errors
/// [`Error::BadInput`] with all names.
pub fn require_name(name: &str) -> Result<()> {
    named(name).map(drop)
}

/// The machine of a name: `"cpu"`, which is the given one, `"cuda"`, `"processor"`, `"reference"`, or `"auto"`: a GPU if one is there and
/// can run the key's parameter set, else the CPU. A CPU of a number of threads computes for `"auto"` alone.
///
/// # Errors
/// As [`require_name`]; [`Error::Device`] for `"cuda"` without a GPU.
pub fn by_name(name: &str, cpu: &Cpu) -> Result<Arc<dyn Backend>> {
    named(name)?.1(cpu)
}

/// [`by_name`] for a parameter set: a machine that does not run it, or has no room for its keys, raises an error before keys are
/// made, which takes long.
///
/// # Errors
/// As [`by_name`] and [`Runs::accepts`].
pub fn for_params<F: Family>(
    name: &str,
    cpu: &Cpu,
    params: &F::Params,
) -> Result<Arc<dyn Backend>> {
    let machine = by_name(name, cpu)?;
    machine.runs::<F>()?.accepts(params)?;
    Ok(machine)
}
