//! Programs that end in instructions which no caller records alone: what a bootstrap or a table gives.

use super::planted::Plant;
use super::{World, both, message, sets};
use becalm::backend::Backend;
use becalm::bootstrap::ckks::{Settings, regular, tables};
use becalm::cipher::Rlwe;
use becalm::ckks::Chain;
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use becalm::program::{Operation, Reg};
use std::sync::Arc;

/// The integers that are looked up, and the tables.
const BITS: u32 = 2;
const TABLES: [[u64; 4]; 2] = [[1, 3, 0, 1], [2, 2, 1, 0]];

/// A program whose results are those of instructions of this kind, then the registers that these have read. Such an instruction
/// takes over the polynomials of its source, so both must have the same words, on every machine.
pub struct Whole {
    pub params: &'static CkksParams,
    program: Arc<CkksProgram>,
    results: usize,
    check: fn(&Whole, &World, usize, &Rlwe) -> bool,
}

/// A bootstrap within a program, and tables of integers, in a ring of 2^`log2_degree` coefficients.
pub fn wholes(log2_degree: u32) -> Vec<Whole> {
    let (regular_set, table_set) = (sets(log2_degree)[0], table_set(log2_degree));
    let settings = Settings { stage_count: Some(2), ..Settings::default() };
    let chain = |params| Chain::new(params).unwrap();
    let mut bootstrap = CkksProgram::new(&chain(regular_set));
    let x = bootstrap.input(1, regular_set.slots()).unwrap();
    let half = bootstrap.multiply_constant(x, 0.5).unwrap();
    let part = regular(&chain(regular_set), &settings).unwrap();
    let y = bootstrap.append(&part, &[half]).unwrap()[0];
    bootstrap.output(y).unwrap();
    let lists = TABLES.map(Vec::from);
    let table = tables(&chain(table_set), BITS, &lists, &Settings::default()).unwrap();
    vec![
        Whole::of(regular_set, bootstrap, Whole::keeps_values),
        Whole::of(table_set, table, Whole::looks_up),
    ]
}

fn table_set(log2_degree: u32) -> &'static CkksParams {
    let set = CkksParams::named("ckks_toy_table_4").unwrap().clone();
    Box::leak(Box::new(CkksParams { name: "small_table", log2_degree, ..set }))
}

/// Sums of encrypted integers and those that everybody knows, in a ring of 2^`log2_degree` coefficients: the same words on all machines.
pub fn public_integers_are_added(log2_degree: u32, machines: &[&dyn Backend]) {
    let params = table_set(log2_degree);
    let mut program = CkksProgram::new(&Chain::new(params).unwrap());
    let x = program.input_integers(4).unwrap();
    for added in [vec![5.0], vec![-15.0, 0.0, 3.0]] {
        let added: Vec<Complex> = added.into_iter().map(Complex::from).collect();
        let sum = program.add_plain(x, &added).unwrap();
        program.output(sum).unwrap();
    }
    let (world, program) = (World::new(params, &program), Arc::new(program));
    let x = world.context.encrypt_integers(&[1, 2, 15, 7], 4, &world.secret).unwrap();
    let run = |machine: &&dyn Backend| {
        world.run(*machine, &world.context, &program, &[vec![x.clone()]]).remove(0)
    };
    let made: Vec<Vec<Rlwe>> = machines.iter().map(run).collect();
    for (sum, wanted) in made[0].iter().zip([[6, 7, 4, 12], [2, 2, 2, 7]]) {
        assert_eq!(world.context.decrypt_integers(sum, &world.secret).unwrap(), wanted);
    }
    let words = |made: &Vec<Rlwe>| made.iter().map(|x| world.words(x)).collect::<Vec<_>>();
    assert!(made.iter().all(|other| words(other) == words(&made[0])), "other words");
}

impl Whole {
    fn of(
        params: &'static CkksParams,
        mut program: CkksProgram,
        check: fn(&Whole, &World, usize, &Rlwe) -> bool,
    ) -> Whole {
        let ends = program.outputs().to_vec();
        let writes = |reg: &Reg| program.ops().iter().find(|op| op.results() == [*reg]).unwrap();
        let sources: Vec<Reg> = ends.iter().map(|reg| writes(reg).sources()[0]).collect();
        sources.iter().for_each(|reg| program.output(*reg).unwrap());
        Whole { params, program: Arc::new(program), results: ends.len(), check }
    }

    pub fn program(&self) -> &Arc<CkksProgram> {
        &self.program
    }

    /// The names of the instructions that give the results.
    pub fn names(&self) -> Vec<String> {
        let ends = &self.program.outputs()[..self.results];
        let made = self.program.ops().iter().filter(|op| ends.contains(&op.result()));
        made.map(|op| op.name().to_string()).collect()
    }

    pub fn world(&self) -> World {
        World::new(self.params, &self.program)
    }

    /// Where errors can be planted: twice the first result. Integers take no constant.
    pub fn plants(&self) -> Vec<Plant> {
        vec![Plant::Double(self.program.outputs()[0])]
    }

    fn integers(&self) -> Vec<u64> {
        (0..self.params.degree() as u64).map(|i| i * 7 % 11 % 4).collect()
    }

    fn keeps_values(&self, world: &World, _: usize, x: &Rlwe) -> bool {
        let got = world.context.decrypt(x, &world.secret).unwrap();
        let wanted = message(self.params.slots(), 0.3);
        let off = both(&got, &wanted, |a, b| a - b * 0.5);
        let worst = off.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let (claim, level) = (x.account().worst, x.level());
        println!("worst slot 2^{:.1}, claimed 2^{:.1}", worst.log2(), claim.log2());
        worst < claim && level > 1
    }

    fn looks_up(&self, world: &World, at: usize, x: &Rlwe) -> bool {
        let wanted: Vec<u64> = self.integers().iter().map(|v| TABLES[at][*v as usize]).collect();
        world.context.decrypt_integers(x, &world.secret).unwrap() == wanted
    }

    /// Runs the program on a machine and checks its results.
    pub fn check_on(&self, machine: &dyn Backend, world: &World) -> Result<(), String> {
        let input = self.program.info(self.program.inputs()[0]).unwrap();
        let x = match input.integers {
            Some(bits) => world.context.encrypt_integers(&self.integers(), bits, &world.secret),
            None => {
                let values = message(self.params.slots(), 0.3);
                world.context.encrypt(&values, input.level, &world.secret)
            }
        };
        let made = world.run(machine, &world.context, &self.program, &[vec![x.unwrap()]]).remove(0);
        let (ends, sources) = made.split_at(self.results);
        for (at, ((end, source), name)) in ends.iter().zip(sources).zip(self.names()).enumerate() {
            if world.words(end) != world.words(source) {
                return Err(format!("{name}: other words than its source"));
            }
            if !(self.check)(self, world, at, end) {
                return Err(format!("{name}: other values"));
            }
        }
        Ok(())
    }
}
