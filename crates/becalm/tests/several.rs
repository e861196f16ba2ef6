//! Several machines as one: they share lanes, or the instructions of wide waves, and results do not depend on it.

use becalm::backend::{
    Backend, Ckks, CkksSetup, Cpu, Evaluator, Family, Info, Keys, Loaded, Processor,
};
use becalm::backend::{Reference, Runs, Session, Several, Tfhe};
use becalm::cipher::{Ciphertext, Encoding, SecretKey};
use becalm::ckks::Context;
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, TfheParams};
use becalm::program::rlwe::CkksProgram;
use becalm::program::{Program, Reg, Walk};
use becalm::tfhe::Table;
use becalm::{Error, Progress, Result, UNWATCHED};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A machine that counts the instructions and lanes that it is given, and the words that it is sent and asked for.
struct Counted {
    inner: Box<dyn Backend>,
    counts: Arc<Counts>,
    /// Lanes that it has memory for.
    room: usize,
}

#[derive(Default)]
struct Counts {
    ops: AtomicUsize,
    lanes: AtomicUsize,
    written: AtomicUsize,
    read: AtomicUsize,
}

impl Counts {
    fn take(&self) -> [usize; 4] {
        let Counts { ops, lanes, written, read } = self;
        [ops, lanes, written, read].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

struct CountedSession<F: Family> {
    inner: Box<dyn Session<F>>,
    counts: Arc<Counts>,
    room: usize,
    walk: Option<Arc<Walk>>,
}

impl Backend for Counted {
    fn info(&self) -> Info {
        Info { best_batch: 4, ..self.inner.info() }
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        self.inner.tfhe().map(|_| self as _)
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        self.inner.ckks().map(|_| self as _)
    }
}

impl<F: Family> Runs<F> for Counted {
    fn accepts(&self, params: &F::Params) -> Result<()> {
        self.inner.runs::<F>()?.accepts(params)
    }

    fn open(&self, setup: F::Setup) -> Result<Box<dyn Session<F>>> {
        let inner = self.inner.runs::<F>()?.open(setup)?;
        let (counts, room) = (self.counts.clone(), self.room);
        Ok(Box::new(CountedSession { inner, counts, room, walk: None }))
    }
}

impl<F: Family> Session<F> for CountedSession<F> {
    fn splits_waves(&self) -> bool {
        self.inner.splits_waves()
    }

    fn load(
        &mut self,
        program: Arc<F::Program>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<F>> {
        if lanes > self.room {
            let (wanted, got) = (format!("{lanes} lanes"), format!("room for {}", self.room));
            return Err(Error::memory("load", wanted, got, "run fewer lanes at once"));
        }
        self.counts.lanes.fetch_add(lanes, Ordering::Relaxed);
        self.walk = Some(walk.clone());
        self.inner.load(program, walk, lanes, progress)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[F::Word]) -> Result<()> {
        self.counts.written.fetch_add(words.len(), Ordering::Relaxed);
        self.inner.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<F::Word>> {
        let words = self.inner.read(at, lanes)?;
        self.counts.read.fetch_add(words.len(), Ordering::Relaxed);
        Ok(words)
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        let walk = self.walk.as_ref().unwrap();
        let ops = walk.waves[waves.clone()].iter().map(|wave| wave.ops.len());
        self.counts.ops.fetch_add(ops.sum(), Ordering::Relaxed);
        self.inner.run(waves, progress)
    }
}

/// Some machines as one, and what each of them was given.
fn several(all: Vec<Box<dyn Backend>>, room: usize) -> (Several, Vec<Arc<Counts>>) {
    let counts: Vec<Arc<Counts>> = all.iter().map(|_| Arc::default()).collect();
    let counted = all.into_iter().zip(&counts).map(|(inner, counts)| {
        Box::new(Counted { inner, counts: counts.clone(), room }) as Box<dyn Backend>
    });
    (Several::new(counted.collect()).unwrap(), counts)
}

fn cpus(count: usize) -> Vec<Box<dyn Backend>> {
    (0..count).map(|_| Box::new(Cpu::new(1).unwrap()) as _).collect()
}

/// Wide waves of bootstraps and key switches with linear instructions between them; registers that die at once, an input that is an
/// output, and results that only a later wave reads.
fn wide(secret: &SecretKey) -> Program {
    let params = secret.params();
    let encoding = Encoding::of(params);
    let p = encoding.values;
    let next = Table::from_fn(params, |m| (m + 1) % p).unwrap();
    let mut program = Program::new(params.clone());
    let x: Vec<Reg> = (0..6).map(|_| program.input(encoding)).collect();
    let y: Vec<Reg> = x.iter().map(|x| program.lookup(*x, &next).unwrap()).collect();
    for i in 0..6 {
        // Nobody reads this one.
        program.lookup(x[i], &next).unwrap();
        let z = program.lookup(y[(i + 3) % 6], &next).unwrap();
        let sum = program.linear(&[(1, z)], 1).unwrap();
        program.output(sum).unwrap();
    }
    program.output(x[2]).unwrap();
    program.output(y[5]).unwrap();
    program
}

#[test]
fn machines_share_lanes_and_waves() {
    for name in ["toy_1_1_p", "toy_2_2_p"] {
        let params = TfheParams::named(name).unwrap();
        let secret = SecretKey::generate(params, true).unwrap();
        let keys = secret.evaluation_key().unwrap();
        let program = Arc::new(wide(&secret));
        let mixed: Vec<Box<dyn Backend>> =
            cpus(2).into_iter().chain([Box::new(Reference) as Box<dyn Backend>]).collect();
        let (machine, counts) = several(mixed, usize::MAX);
        let server = Evaluator::new(&machine, &keys).unwrap();
        assert_eq!((server.info().name, server.info().best_batch), ("several", 12));
        let all: usize = program.waves().iter().map(|wave| wave.ops.len()).sum();
        for lanes in [1, 2, 3, 7] {
            let p = Encoding::of(params).values;
            let values = |i: u64| (0..lanes).map(|l| (i + 3 * l) % p).collect::<Vec<u64>>();
            let inputs: Vec<Ciphertext> =
                (0..6).map(|i| secret.encrypt(&values(i)).unwrap().into()).collect();
            let wanted = Evaluator::new(&Reference, &keys).unwrap();
            let wanted = wanted.run(&program, &inputs).unwrap();
            counts.iter().for_each(|c| _ = c.take());
            for _ in 0..2 {
                let found = server.run(&program, &inputs).unwrap();
                for (found, wanted) in found.iter().zip(&wanted) {
                    assert!(found.words() == wanted.words(), "{name}, {lanes} lanes");
                }
            }
            let given: Vec<[usize; 4]> = counts.iter().map(|c| c.take()).collect();
            let lanes = lanes as usize;
            for [ops, had, written, read] in &given {
                if lanes < 3 {
                    // All lanes, and a part of the wide waves: a third, and all of what is linear.
                    assert!(
                        *had == 2 * lanes && *ops < 2 * all * 2 / 3,
                        "{name} {lanes}: {given:?}"
                    );
                    assert!(*written > 0 && *read > 0, "{name} {lanes}: {given:?}");
                } else {
                    // A third of the lanes of each chunk, and every instruction.
                    let third = (2 * (lanes / 3)..=2 * lanes.div_ceil(3)).contains(had);
                    assert!(third && ops % (2 * all) == 0, "{name} {lanes}: {given:?}");
                }
            }
            if lanes >= 3 {
                let had: usize = given.iter().map(|given| given[1]).sum();
                assert_eq!(had, 2 * lanes, "{name}: {given:?}");
            }
        }
    }
}

/// Narrow waves are not worth sharing: one lane stays on one machine, and nothing goes to the others.
#[test]
fn a_chain_stays_on_one_machine() {
    let secret = SecretKey::generate(TfheParams::named("toy_1_1").unwrap(), true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let (machine, counts) = several(cpus(3), usize::MAX);
    let server = Evaluator::new(&machine, &keys).unwrap();
    let next = Table::from_fn(secret.params(), |m| (m + 1) % 4).unwrap();
    let y = server.bootstrap(&secret.encrypt(&[2]).unwrap(), &next).unwrap();
    assert_eq!(secret.decrypt(&y).unwrap(), [3]);
    let given: Vec<[usize; 4]> = counts.iter().map(|c| c.take()).collect();
    assert!(given[0][0] > 0 && given[1..] == [[0; 4]; 2], "{given:?}");
}

/// A machine that runs a program as it was lowered takes no part of a wave; it has lanes.
#[test]
fn machines_that_do_not_share_waves_share_lanes() {
    let params = TfheParams::named("toy_2_2_p").unwrap();
    let secret = SecretKey::generate(params, true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let mixed: Vec<Box<dyn Backend>> =
        vec![Box::new(Processor::default()), Box::new(Cpu::new(1).unwrap())];
    let program = Arc::new(wide(&secret));
    if !program.ops().iter().all(|op| mixed[0].tfhe().unwrap().supports(op, params)) {
        panic!("the processor does not run {}", params.name);
    }
    let server = Evaluator::new(&Several::new(mixed).unwrap(), &keys).unwrap();
    for lanes in [1, 4] {
        let inputs: Vec<Ciphertext> =
            (0..6).map(|i| secret.encrypt(&vec![i; lanes]).unwrap().into()).collect();
        let wanted = Evaluator::new(&Reference, &keys).unwrap().run(&program, &inputs);
        let found = server.run(&program, &inputs).unwrap();
        for (found, wanted) in found.iter().zip(&wanted.unwrap()) {
            assert!(found.words() == wanted.words(), "{lanes} lanes");
        }
    }
}

/// Lanes of CKKS go to different machines. Where one has no room for its part, fewer run at once.
#[test]
fn machines_share_lanes_of_ckks() {
    let params = CkksParams::named("ckks_toy_12").unwrap();
    let context = Arc::new(Context::new(params, true).unwrap());
    let mut program = CkksProgram::new(&context);
    let x = program.input(3, 4).unwrap();
    let turned = program.rotate(x, 1).unwrap();
    let y = program.multiply(x, turned).unwrap();
    program.output(y).unwrap();
    program.output(turned).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = Arc::new(context.keys(&secret, &program.needs()).unwrap());
    let program = Arc::new(program);
    let inputs: Vec<_> = (0..5)
        .map(|i| {
            let values = [0.1, 0.2, 0.3, 0.4].map(|v| Complex::from(v + 0.05 * f64::from(i)));
            context.encrypt(&values, 3, &secret).unwrap()
        })
        .collect();
    let alone = Evaluator::new(&Cpu::new(1).unwrap(), CkksSetup::new(&context, &keys)).unwrap();
    for (lanes, room) in [(1, usize::MAX), (2, usize::MAX), (5, usize::MAX), (5, 1)] {
        let (machine, counts) = several(cpus(2), room);
        let server = Evaluator::new(&machine, CkksSetup::new(&context, &keys)).unwrap();
        let arguments: Vec<[&_; 1]> = inputs[..lanes].iter().map(|x| [x]).collect();
        let arguments: Vec<&[&_]> = arguments.iter().map(|x| x.as_slice()).collect();
        let found = server.run_lanes(&program, &arguments, UNWATCHED).unwrap();
        for (found, x) in found.iter().zip(&inputs) {
            let wanted = alone.run(&program, &[x]).unwrap();
            assert_eq!(found.len(), 2);
            for (found, wanted) in found.iter().zip(&wanted) {
                let both = [found, wanted].map(|x| context.decrypt(x, &secret).unwrap());
                assert_eq!(both[0], both[1], "{lanes} lanes");
            }
        }
        let given: Vec<usize> = counts.iter().map(|c| c.take()[1]).collect();
        match (lanes, room) {
            (1, _) => assert_eq!(given, [1, 0]),
            (2, _) => assert_eq!(given, [1, 1]),
            // 2 and 3 lanes each, refused by the second where there is room for one.
            (_, 1) => assert!(given.iter().sum::<usize>() >= 5, "{given:?}"),
            _ => assert_eq!(given, [2, 3]),
        }
    }
}

#[test]
fn words_that_fit_no_lanes_are_refused() {
    let secret = SecretKey::generate(TfheParams::named("toy_1_1").unwrap(), true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let program = Arc::new(wide(&secret));
    let walk = Arc::new(program.walk());
    let machines: Vec<(&str, Box<dyn Backend>)> = vec![
        ("several", Box::new(Several::new(cpus(2)).unwrap())),
        ("cpu", Box::new(Cpu::new(1).unwrap())),
        ("reference", Box::new(Reference)),
    ];
    for (name, machine) in machines {
        let mut session = machine.tfhe().unwrap().open((&keys).setup()).unwrap();
        let (x, words) = (program.inputs()[0], secret.encrypt(&[1, 2, 3]).unwrap());
        session.load(program.clone(), walk.clone(), 3, UNWATCHED).unwrap();
        let width = words.words().len() / 3;
        for (at, lane, words) in [
            (x, 1, words.words()),
            (x, usize::MAX, words.words()),
            (x, 0, &words.words()[..width + 1]),
            (Reg(u32::MAX), 0, words.words()),
        ] {
            let refused = session.write(at, lane, words).unwrap_err();
            assert_eq!(refused.kind(), "bad_input", "{name}: {refused}");
        }
        session.write(x, 0, words.words()).unwrap();
        // The other inputs are empty.
        let refused = session.run(0..walk.waves.len(), UNWATCHED).unwrap_err();
        assert_eq!(refused.kind(), "bad_input", "{name}: {refused}");
        for lanes in [2..4, 0..usize::MAX] {
            let refused = session.read(x, lanes).unwrap_err();
            assert_eq!(refused.kind(), "bad_input", "{name}: {refused}");
        }
    }
    let none = Several::new(vec![]).map(drop).unwrap_err();
    assert_eq!(none.kind(), "bad_input");
}
