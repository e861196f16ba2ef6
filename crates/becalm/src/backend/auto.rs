//! A GPU if there is one that can, else the CPU, and why.
//!
//! Work goes to the CPU if there is no GPU or driver, no kernels for the set, or too little memory. Any other failure is an error.

use super::{
    Backend, Ckks, Cpu, Cuda, Fallback, Family, Info, Loaded, Others, Runs, Session, Tfhe,
};
use crate::program::{Constants, Reg, Walk};
use crate::{Error, Progress, Result};
use std::ops::Range;
use std::sync::Arc;

/// A GPU, with the CPU in its place where it cannot compute.
pub struct Auto {
    /// Or why there is none.
    gpu: std::result::Result<Box<dyn Backend>, Fallback>,
    cpu: Cpu,
}

impl Auto {
    /// With all GPUs of this machine, if it has any.
    ///
    /// # Errors
    /// As [`Cuda::new`], but for machines without a GPU that can be used.
    pub fn new() -> Result<Self> {
        Auto::on(Cpu::new(0)?)
    }

    /// [`Auto::new`] with a CPU of its own for what no GPU computes.
    ///
    /// # Errors
    /// As there.
    pub fn on(cpu: Cpu) -> Result<Self> {
        let found = Cuda::new().map(|gpu| Box::new(gpu) as Box<dyn Backend>);
        let whole = found.as_ref().err().map(why);
        let mut auto = Auto::beside(found, cpu)?;
        if let (Err(fallback), Some(why)) = (&mut auto.gpu, whole)
            // A driver or a GPU that does not work is not the same as none: there is something to do about it.
            && !Cuda::absent()
        {
            *fallback = Fallback { why, gpu: true };
        }
        Ok(auto)
    }

    /// With this machine of GPUs, or without one for the reason that an error gives.
    ///
    /// # Errors
    /// That error, if it does not say that there is no GPU.
    pub fn with(gpu: Result<Box<dyn Backend>>) -> Result<Self> {
        Auto::beside(gpu, Cpu::new(0)?)
    }

    fn beside(gpu: Result<Box<dyn Backend>>, cpu: Cpu) -> Result<Self> {
        let gpu = match gpu {
            Ok(gpu) => Ok(gpu),
            Err(Error::Device(e)) => Err(Fallback { why: e.got, gpu: false }),
            Err(e @ Error::Unsupported(_)) => Err(Fallback { why: why(&e), gpu: true }),
            Err(e) => return Err(e),
        };
        Ok(Auto { gpu, cpu })
    }
}

/// The reason why the GPU cannot be used, and the remedy.
fn why(e: &Error) -> String {
    let detail = e.detail();
    format!("wanted {}, got {} ({})", detail.wanted, detail.got, detail.remedy)
}

impl Backend for Auto {
    /// The machine that it takes first.
    fn info(&self) -> Info {
        self.gpu.as_ref().map_or_else(|_| self.cpu.info(), |gpu| gpu.info())
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        Some(self)
    }
}

impl<F: Family> Runs<F> for Auto
where
    Cpu: Runs<F>,
{
    fn accepts(&self, params: &F::Params) -> Result<()> {
        Runs::<F>::accepts(&self.cpu, params)
    }

    /// Both machines take constants in the form of the CPU.
    fn prepare(
        &self,
        base: &F::Base,
        program: &F::Program,
        bytes: usize,
        progress: Progress,
    ) -> Result<Option<Constants>> {
        Runs::<F>::prepare(&self.cpu, base, program, bytes, progress)
    }

    fn open(&self, setup: F::Setup) -> Result<Box<dyn Session<F>>> {
        let instead = |fallback: Fallback, setup: F::Setup| -> Result<Box<dyn Session<F>>> {
            let (session, info) = (self.cpu.open(setup)?, self.cpu.info());
            let fallback = Some(fallback);
            Ok(Box::new(AutoSession { info, session, fallback, spare: None }))
        };
        let gpu = match &self.gpu {
            Ok(gpu) => gpu,
            Err(none) => return instead(none.clone(), setup),
        };
        let machine = match gpu.runs::<F>() {
            Ok(machine) => machine,
            Err(e) => return instead(Fallback { why: why(&e), gpu: true }, setup),
        };
        let session = match machine.open(setup.clone()) {
            Ok(session) => session,
            Err(e) => {
                // The set is the GPU's limit and no mistake of the caller's.
                let limit =
                    || matches!(machine.accepts(F::params(&setup)), Err(Error::WrongParams(_)));
                return match e {
                    Error::Memory(_) | Error::Unsupported(_) => {
                        instead(Fallback { why: why(&e), gpu: true }, setup)
                    }
                    Error::WrongParams(_) if limit() => {
                        instead(Fallback { why: why(&e), gpu: true }, setup)
                    }
                    e => Err(e),
                };
            }
        };
        let spare = Spare { cpu: self.cpu.clone(), setup };
        let info = gpu.info();
        Ok(Box::new(AutoSession { info, session, fallback: None, spare: Some(spare) }))
    }
}

/// Everything needed to go on with the CPU. Keys share their words with those of the caller.
struct Spare<F: Family> {
    cpu: Cpu,
    setup: F::Setup,
}

/// A session of the one or the other.
struct AutoSession<F: Family> {
    info: Info,
    session: Box<dyn Session<F>>,
    fallback: Option<Fallback>,
    /// Beside a GPU.
    spare: Option<Spare<F>>,
}

impl<F: Family> Session<F> for AutoSession<F>
where
    Cpu: Runs<F>,
{
    fn info(&self) -> Option<Info> {
        Some(self.session.info().unwrap_or_else(|| self.info.clone()))
    }

    fn fallback(&self) -> Option<Fallback> {
        self.fallback.clone()
    }

    fn remark(&self) -> Option<String> {
        self.session.remark()
    }

    fn others(&self) -> Option<Others<F>> {
        self.session.others()
    }

    fn survives_fork(&self) -> bool {
        self.session.survives_fork()
    }

    fn splits_waves(&self) -> bool {
        self.session.splits_waves()
    }

    fn clear(&mut self) {
        self.session.clear();
    }

    fn load(
        &mut self,
        program: Arc<F::Program>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<F>> {
        let refused = match self.session.load(program.clone(), walk.clone(), lanes, progress) {
            Err(e @ Error::Memory(_)) => e,
            other => return other,
        };
        let Some(Spare { cpu, setup }) = self.spare.take() else { return Err(refused) };
        self.session = cpu.open(setup)?;
        self.info = cpu.info();
        self.fallback = Some(Fallback { why: why(&refused), gpu: true });
        self.session.load(program, walk, lanes, progress)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[F::Word]) -> Result<()> {
        self.session.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<F::Word>> {
        self.session.read(at, lanes)
    }

    fn read_many(&self, at: &[Reg], lanes: Range<usize>) -> Result<Vec<Vec<F::Word>>> {
        self.session.read_many(at, lanes)
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        self.session.run(waves, progress)
    }

    fn wait(&self) -> Result<()> {
        self.session.wait()
    }
}
