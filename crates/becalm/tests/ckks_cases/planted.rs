//! A machine with errors planted in the results of some instructions: what the comparison of two machines must see.

use super::{Case, World};
use becalm::backend::{Backend, Ckks, CkksSetup, Info, Loaded, Runs, Session};
use becalm::cipher::Rlwe;
use becalm::program::rlwe::CkksProgram;
use becalm::program::{Reg, Walk};
use becalm::{Progress, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// An error of a register.
#[derive(Clone, Copy)]
pub enum Plant {
    /// A number in every slot.
    Plus(Reg, f64),
    /// Twice its values.
    Double(Reg),
}

impl Plant {
    fn at(self) -> Reg {
        match self {
            Plant::Plus(reg, _) | Plant::Double(reg) => reg,
        }
    }

    fn record(self, p: &mut CkksProgram) -> Reg {
        match self {
            Plant::Plus(reg, by) => p.add_constant(reg, by).unwrap(),
            Plant::Double(reg) => p.add(reg, reg).unwrap(),
        }
    }
}

/// The least error that there is, one in one coefficient; in a linear map, twice what the comparison allows.
pub fn plant_in(world: &World, program: &CkksProgram, case: &Case, wanted: &Rlwe) -> Plant {
    let by = match case.name.as_str() {
        "linear" => 2.0 * world.allowed(program, case, wanted),
        _ => 1.0 / program.info(case.reg).unwrap().scale,
    };
    Plant::Plus(case.reg, by)
}

/// A machine with errors planted in the results of some instructions.
pub struct Planted<'a> {
    pub inner: &'a dyn Backend,
    pub at: Vec<Plant>,
}

struct PlantedSession {
    inner: Box<dyn Session<Ckks>>,
    at: Vec<Plant>,
    wrong: BTreeMap<Reg, Reg>,
    /// Waves of the program as it was given, and of the one that runs.
    waves: [usize; 2],
}

impl Backend for Planted<'_> {
    fn info(&self) -> Info {
        self.inner.info()
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        Some(self)
    }
}

impl Runs<Ckks> for Planted<'_> {
    fn open(&self, setup: CkksSetup) -> Result<Box<dyn Session<Ckks>>> {
        let (inner, at) = (self.inner.runs::<Ckks>()?.open(setup)?, self.at.clone());
        Ok(Box::new(PlantedSession { inner, at, wrong: BTreeMap::new(), waves: [0; 2] }))
    }
}

impl Session<Ckks> for PlantedSession {
    fn load(
        &mut self,
        program: Arc<CkksProgram>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<Ckks>> {
        let mut planted = (*program).clone();
        self.wrong = self.at.iter().map(|plant| (plant.at(), plant.record(&mut planted))).collect();
        self.wrong.values().try_for_each(|wrong| planted.output(*wrong))?;
        let own = Arc::new(planted.walk());
        self.waves = [walk.waves.len(), own.waves.len()];
        self.inner.load(Arc::new(planted), own, lanes, progress)?;
        Ok(Loaded { program, walk, lanes })
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[Rlwe]) -> Result<()> {
        self.inner.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<Rlwe>> {
        self.inner.read(*self.wrong.get(&at).unwrap_or(&at), lanes)
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        let [given, own] = self.waves;
        let end = if waves.end == given { own } else { waves.end };
        self.inner.run(waves.start..end, progress)
    }
}
