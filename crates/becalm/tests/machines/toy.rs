//! A machine in one file, for both schemes: the CPU, but everything is put off until the caller reads or waits.
//!
//! It has only the parts that CONTRIBUTING asks of a new machine: this file, and its line in [`backends`](super::backends).

use becalm::backend::{Backend, Ckks, Cpu, Family, Info, Loaded, Runs, Session, Tfhe};
use becalm::program::{Reg, Walk};
use becalm::{Error, Progress, Result, UNWATCHED};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// The machine.
pub struct Toy(Cpu);

impl Toy {
    pub fn new() -> Toy {
        Toy(Cpu::new(1).unwrap())
    }
}

impl Backend for Toy {
    fn info(&self) -> Info {
        Info { name: "toy", best_batch: 3, ..self.0.info() }
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        Some(self)
    }
}

impl<F: Family> Runs<F> for Toy
where
    Cpu: Runs<F>,
{
    fn accepts(&self, params: &F::Params) -> Result<()> {
        self.0.accepts(params)
    }

    fn open(&self, setup: F::Setup) -> Result<Box<dyn Session<F>>> {
        Ok(Box::new(Late(Mutex::new(Queue { inner: self.0.open(setup)?, due: None }))))
    }
}

/// Lanes that it has memory for.
const MOST: usize = 2;

struct Queue<F: Family> {
    inner: Box<dyn Session<F>>,
    /// Waves that were asked for and not yet run.
    due: Option<Range<usize>>,
}

struct Late<F: Family>(Mutex<Queue<F>>);

impl<F: Family> Late<F> {
    /// The queue, with nothing left in it.
    fn settled(&self) -> Result<MutexGuard<'_, Queue<F>>> {
        let mut queue = self.0.lock().unwrap();
        if let Some(waves) = queue.due.take() {
            queue.inner.run(waves, UNWATCHED)?;
        }
        Ok(queue)
    }
}

impl<F: Family> Session<F> for Late<F> {
    fn load(
        &mut self,
        program: Arc<F::Program>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<F>> {
        let mut queue = self.0.lock().unwrap();
        queue.due = None;
        if lanes > MOST {
            let (wanted, got) = (format!("{lanes} lanes"), format!("room for {MOST}"));
            return Err(Error::memory("load", wanted, got, "run fewer lanes at once"));
        }
        queue.inner.load(program, walk, lanes, progress)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[F::Word]) -> Result<()> {
        self.settled()?.inner.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<F::Word>> {
        self.settled()?.inner.read(at, lanes)
    }

    fn clear(&mut self) {
        let queue = self.0.get_mut().unwrap();
        queue.due = None;
        queue.inner.clear();
    }

    fn run(&mut self, waves: Range<usize>, _progress: Progress) -> Result<()> {
        let mut queue = self.0.lock().unwrap();
        let from = queue.due.take().map_or(waves.start, |before| before.start);
        queue.due = Some(from..waves.end);
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        self.settled().map(drop)
    }
}
