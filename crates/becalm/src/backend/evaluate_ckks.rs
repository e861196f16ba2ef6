//! From ciphertexts of CKKS to ciphertexts: checks, lanes, waves, and what is said of the results.
//!
//! Everything that can be refused is refused before the first instruction runs. Level, scale and slots of the results are those that the
//! program recorded.

use super::opened::{Opened, Progress, Steps, run_waves};
use super::{Backend, CkksOn, Fallback, Info, Loaded};
use crate::cipher::{CkksKeys, Rlwe};
use crate::ckks::Context;
use crate::program::rlwe::CkksProgram;
use crate::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

const OP: &str = "evaluate";

/// Evaluation keys of CKKS on a machine: what runs programs of CKKS.
///
/// ```
/// use becalm::backend::{CkksServer, Cpu};
/// use becalm::ckks::Context;
/// use becalm::math::complex::Complex;
/// use becalm::params::CkksParams;
/// use becalm::program::rlwe::CkksProgram;
/// use std::sync::Arc;
///
/// # fn main() -> becalm::Result<()> {
/// // A toy, which needs leave to be insecure.
/// let context = Arc::new(Context::new(CkksParams::named("ckks_toy_12")?, true)?);
/// let mut program = CkksProgram::new(&context);
/// let x = program.input(2, 4)?;
/// let square = program.multiply(x, x)?;
/// program.output(square)?;
/// let secret = context.secret_key()?;
/// let keys = Arc::new(context.keys(&secret, &program.needs())?);
/// let server = CkksServer::new(&Cpu::new(0)?, &context, &keys)?;
/// let x = context.encrypt(&[0.5, -0.5, 0.25, 1.0].map(Complex::from), 2, &secret)?;
/// let y = server.run(&Arc::new(program), &[&x])?;
/// assert!((context.decrypt(&y[0], &secret)?[2].re - 0.0625).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
pub struct CkksServer {
    on: CkksOn,
    opened: Opened<crate::program::Ckks>,
}

impl CkksServer {
    /// Opens keys on a machine, which keeps all matrices of a program encoded.
    ///
    /// # Errors
    /// What [`Backend::open_ckks`] refuses; `WrongParams` for keys of another set.
    pub fn new(
        backend: &dyn Backend,
        context: &Arc<Context>,
        keys: &Arc<CkksKeys>,
    ) -> Result<CkksServer> {
        CkksServer::within(backend, context, keys, usize::MAX)
    }

    /// [`CkksServer::new`] for a machine that keeps encoded matrices of at most `bytes`, and encodes the others whenever their turn
    /// comes.
    ///
    /// # Errors
    /// As [`CkksServer::new`].
    pub fn within(
        backend: &dyn Backend,
        context: &Arc<Context>,
        keys: &Arc<CkksKeys>,
        bytes: usize,
    ) -> Result<CkksServer> {
        context.check_set(OP, keys.params)?;
        let on = CkksOn { context: context.clone(), keys: keys.clone(), matrices: bytes };
        let session = backend.open_ckks(on.clone())?;
        Ok(CkksServer { on, opened: Opened::new(session, backend.info()) })
    }

    /// The context.
    pub fn context(&self) -> &Arc<Context> {
        &self.on.context
    }

    /// The keys.
    pub fn keys(&self) -> &Arc<CkksKeys> {
        &self.on.keys
    }

    /// The machine.
    pub fn info(&self) -> Info {
        self.opened.machine().0.clone()
    }

    /// Why the machine is not a GPU, where [`by_name`](super::by_name) was asked for `"auto"`.
    pub fn fallback(&self) -> Option<Fallback> {
        self.opened.machine().1.clone()
    }

    /// Runs a program on one ciphertext for each argument, at the levels of its inputs or above. A program that runs again keeps its
    /// matrices.
    ///
    /// # Errors
    /// `WrongParams`, `WrongKey` and `BadInput` for what does not go together; `WrongKey` naming a key that is missing; `Memory`
    /// where there is too little; what the machine reports.
    pub fn run(&self, program: &Arc<CkksProgram>, inputs: &[&Rlwe]) -> Result<Vec<Rlwe>> {
        let go_on = &mut |_, _| ControlFlow::Continue(());
        Ok(self.run_lanes(program, &[inputs], go_on)?.remove(0))
    }

    /// [`CkksServer::run`] on several lanes: `lanes` has the arguments of each, and so has the result. It reports progress and can be
    /// stopped.
    ///
    /// # Errors
    /// As [`CkksServer::run`]; [`Error::Interrupted`] when stopped.
    pub fn run_lanes(
        &self,
        program: &Arc<CkksProgram>,
        lanes: &[&[&Rlwe]],
        progress: Progress,
    ) -> Result<Vec<Vec<Rlwe>>> {
        self.on.context.check_set(OP, program.params().name)?;
        program.require(&self.on.keys)?;
        lanes.iter().try_for_each(|inputs| program.require_inputs(self.on.keys.id, inputs))?;
        let walk = Arc::new(program.walk());
        let whole = Loaded { program: program.clone(), walk, lanes: lanes.len() };
        let mut at_once = lanes.len().max(1);
        let mut session = self.opened.session()?;
        // As many lanes at once as fit the memory.
        let mut loaded = loop {
            match self.opened.load(session.as_mut(), &whole, at_once) {
                Err(Error::Memory(_)) if at_once > 1 => at_once = at_once.div_ceil(2),
                other => break other?,
            }
        };
        let waves = whole.walk.waves.len();
        let mut steps = Steps::new(lanes.len().div_ceil(at_once) * waves, progress);
        let mut results = Vec::with_capacity(lanes.len());
        for (part, lanes) in lanes.chunks(at_once).enumerate() {
            if part > 0 {
                loaded = self.opened.load(session.as_mut(), &whole, lanes.len())?;
            }
            for (lane, inputs) in lanes.iter().enumerate() {
                for (reg, x) in program.inputs().iter().zip(*inputs) {
                    session.write(*reg, lane, x)?;
                }
            }
            run_waves(session.as_mut(), &loaded, waves, &mut steps)?;
            for (lane, inputs) in lanes.iter().enumerate() {
                let read = |reg: &_| {
                    let mut made = session.read(*reg, lane..lane + 1)?;
                    let none = || {
                        Error::bad_input(OP, "a result", "none", "record an output that is written")
                    };
                    let made = made.pop().ok_or_else(none)?;
                    Ok(program.result(inputs, made))
                };
                results.push(program.outputs().iter().map(read).collect::<Result<Vec<_>>>()?);
            }
        }
        Ok(results)
    }
}
