//! Keys and program of a job on a machine: from the files of a chunk's inputs to those of its results.

use super::folder::{Job, PROGRAM, keys_name};
use super::manifest::Scheme;
use crate::backend::{Backend, Ckks, CkksSetup, Evaluator, Info, Prepared, Tfhe, TfheSetup};
use crate::bootstrap::ckks::KeyPlan;
use crate::cipher::file::Trust;
use crate::cipher::{Ciphertext, EvaluationKey, Lwe, Rlwe, SlotKey};
use crate::ckks::Context;
use crate::program::Program;
use crate::program::rlwe::CkksProgram;
use crate::{Error, Progress, Result};
use std::cell::RefCell;
use std::sync::Arc;

/// The class of results that are equal on every machine.
const EXACT: &str = "exact";

/// The program and the keys of a job on a machine.
pub struct Runner {
    exact: bool,
    of: Of,
}

enum Of {
    Tfhe { program: Arc<Program>, evaluator: Evaluator, trust: Trust },
    Ckks { program: Prepared, context: Arc<Context>, evaluator: Evaluator<Ckks>, trust: Trust },
}

impl Runner {
    /// Brings the keys of a job onto a machine, after a look at the digests of keys and program.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a job of another version of becalm; [`Error::BadFile`] naming a file that is damaged; errors of the
    /// machine and of the operating system.
    pub fn open(
        job: &Job,
        machine: &dyn Backend,
        trust: Trust,
        progress: Progress,
    ) -> Result<Runner> {
        let manifest = &job.manifest;
        if manifest.becalm != env!("CARGO_PKG_VERSION") {
            return Err(Error::unsupported(
                "work",
                format!("becalm {}, which made the job", manifest.becalm),
                format!("becalm {}", env!("CARGO_PKG_VERSION")),
                "work with that version, or make the job again with this one",
            ));
        }
        let program = job.checked(PROGRAM, manifest.program)?;
        let keys = job.checked(&keys_name(manifest.keys), manifest.keys)?;
        let of = match manifest.scheme {
            Scheme::Tfhe => {
                let program = Program::load(&program, trust).map_err(|e| e.at(&program))?;
                let mut key = EvaluationKey::load(&keys, trust).map_err(|e| e.at(&keys))?;
                machine.runs::<Tfhe>()?.accepts(key.params())?;
                for digest in &manifest.slot_keys {
                    let path = job.checked(&keys_name(*digest), *digest)?;
                    key =
                        key.with_slot_key(SlotKey::load(&path, trust).map_err(|e| e.at(&path))?)?;
                }
                let evaluator = Evaluator::new(machine, TfheSetup::new(&key, &program.needs()))?;
                Of::Tfhe { program: Arc::new(program), evaluator, trust }
            }
            Scheme::Ckks => {
                let program = CkksProgram::load(&program, trust).map_err(|e| e.at(&program))?;
                machine.runs::<Ckks>()?.accepts(program.params())?;
                let context = Arc::new(Context::new(program.params(), trust.allow_insecure)?);
                let form = KeyPlan::form_noted(&keys);
                let read = context.load_keys_with(&keys, form, progress);
                let setup = CkksSetup::new(&context, &Arc::new(read.map_err(|e| e.at(&keys))?));
                let evaluator = Evaluator::new(machine, setup)?;
                evaluator.require(&program)?;
                let program = Arc::new(program);
                let program = Prepared::new(machine, &context, &program, usize::MAX, progress)?;
                Of::Ckks { program, context, evaluator, trust }
            }
        };
        Ok(Runner { exact: manifest.exact, of })
    }

    fn info(&self) -> Info {
        match &self.of {
            Of::Tfhe { evaluator, .. } => evaluator.info(),
            Of::Ckks { evaluator, .. } => evaluator.info(),
        }
    }

    /// The class of arithmetic. A machine may know it only after the first run.
    pub fn class(&self) -> String {
        if self.exact {
            return EXACT.into();
        }
        let Info { name, description, .. } = self.info();
        // The level of vector instructions of a CPU, or the name of a GPU; what follows does not change results.
        let kind: String = description.split(',').next().unwrap_or("").chars().take(48).collect();
        format!("{name} {}", kind.trim())
    }

    /// The results of a chunk, from its inputs. `progress` is told how many waves are done.
    ///
    /// # Errors
    /// [`Error::BadFile`] for inputs that are no ciphertexts; [`Error::Interrupted`] when stopped; errors of the machine.
    pub fn run(&self, inputs: &[Vec<u8>], progress: Progress) -> Result<Vec<Vec<u8>>> {
        match &self.of {
            Of::Tfhe { program, evaluator, trust } => {
                let read = inputs.iter().map(|bytes| Ok(Lwe::from_bytes(bytes, *trust)?.into()));
                let given = read.collect::<Result<Vec<Ciphertext>>>()?;
                let made = evaluator.run_with(program, &given, progress)?;
                made.iter().map(Lwe::to_bytes).collect()
            }
            Of::Ckks { program, context, evaluator, trust } => {
                let takes = program.program().inputs().len().max(1);
                let lanes: Vec<&[Vec<u8>]> = inputs.chunks(takes).collect();
                // `take` notes what the files say, and `give` asks for it.
                let said = RefCell::new(vec![vec![]; lanes.len()]);
                let mut made = vec![];
                let take = |lane: usize| {
                    let (given, says) = noted(context, lanes[lane], *trust)?;
                    said.borrow_mut()[lane] = says;
                    Ok(given)
                };
                let give = |lane: usize, results: Vec<Rlwe>| {
                    let real = program.program().said_real(&said.borrow()[lane])?;
                    for (x, real) in results.iter().zip(real) {
                        made.push(context.noted_ciphertext_to_bytes(x, real)?);
                    }
                    Ok(())
                };
                evaluator.run_each(program, lanes.len(), take, give, progress)?;
                Ok(made)
            }
        }
    }
}

/// The ciphertexts of a lane, and what their files say about real values.
fn noted(
    context: &Context,
    files: &[Vec<u8>],
    trust: Trust,
) -> Result<(Vec<Rlwe>, Vec<Option<bool>>)> {
    let read = files.iter().map(|bytes| context.noted_ciphertext_from_bytes(bytes, trust));
    Ok(read.collect::<Result<Vec<_>>>()?.into_iter().unzip())
}
