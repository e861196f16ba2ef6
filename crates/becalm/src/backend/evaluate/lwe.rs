//! Batches of TFHE: their checks, chunks of lanes, and noise, encoding and range of the results, from following the program.

use super::{Evaluate, Evaluator, Prepared};
use crate::backend::{Keys, Loaded, Session, Tfhe, TfheSetup};
use crate::cipher::{
    Ciphertext, EvaluationKey, Glwe, KeyId, Lwe, Output, RowSums, SlotKey, SlotKeyKind,
};
use crate::error::RUN;
use crate::math::memory::require_memory;
use crate::params::TfheParams;
use crate::program::{
    Followed, Gate, Need, Op, Pace, Program, Reg, RegInfo, RegType, TableRef, Walk,
};
use crate::tfhe::Table;
use crate::{Error, Progress, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Multiply-adds that a chunk may take for each ciphertext of the best batch: about a second on a core.
const CHUNK_COST: f64 = 5e8;

/// The key of an evaluator, without its words: sessions have these.
pub struct TfheFacts {
    params: Arc<TfheParams>,
    key: KeyId,
    /// The parts of the key that were opened.
    needs: BTreeSet<Need>,
    /// The public part of the private maps between slots.
    maps: Vec<RowSums>,
    /// Of the last programs, the latest last.
    known: Mutex<Vec<Known>>,
}

/// Arrangements that an evaluator keeps: a program that runs again, as those of integers do, is not arranged again.
const KEPT: usize = 16;

/// An arrangement, and all that it depends on.
struct Known {
    program: Weak<Program>,
    noise: Vec<f64>,
    related: Vec<bool>,
    lanes: usize,
    pace: Pace,
    arrangement: Arc<Arrangement>,
}

/// How a program runs on its arguments.
struct Arrangement {
    /// Its waves, arranged for the machine.
    walk: Arc<Walk>,
    /// The noise of its results.
    followed: Followed,
    /// Lanes that run at once.
    chunk: usize,
    /// Most bytes of registers alive, for one lane.
    bytes: usize,
}

impl Evaluate for Tfhe {
    type Facts = TfheFacts;
    type Argument<'a> = Ciphertext;
    type Output = Lwe;

    fn facts(setup: &TfheSetup) -> Result<TfheFacts> {
        let TfheSetup { keys, needs } = setup;
        let (params, maps) = (keys.params.clone(), maps_of(keys));
        let (key, needs, known) = (keys.id, needs.clone(), Mutex::default());
        Ok(TfheFacts { params, key, needs, maps, known })
    }

    fn require(facts: &TfheFacts, program: &Program) -> Result<()> {
        check_params(&facts.params, program)?;
        program.check_slot_keys(&facts.needs, &facts.maps)
    }

    fn check(facts: &TfheFacts, program: &Program, inputs: &[Ciphertext]) -> Result<()> {
        Tfhe::require(facts, program)?;
        check(&facts.params, facts.key, program, inputs).map(drop)
    }

    fn run(
        on: &Evaluator,
        program: Prepared<Tfhe>,
        inputs: &[Ciphertext],
        progress: Progress,
    ) -> Result<Vec<Lwe>> {
        let TfheFacts { params, key, .. } = &on.facts;
        let program = program.program;
        Tfhe::require(&on.facts, &program)?;
        let lanes = check(params, *key, &program, inputs)?;
        let arrangement = on.arranged(&program, inputs, lanes)?;
        let words = |r: &Reg| program.width(*r) * lanes;
        let bytes: usize = program.outputs().iter().map(|r| 8 * words(r)).sum();
        require_memory(RUN, (arrangement.bytes * arrangement.chunk).saturating_add(bytes))?;
        // At their final length: growing ones would take twice that.
        let mut results: Vec<Vec<u64>> =
            program.outputs().iter().map(|r| Vec::with_capacity(words(r))).collect();
        let whole = Loaded { program: program.clone(), walk: arrangement.walk.clone(), lanes };
        let put = |session: &mut dyn Session, part: Range<usize>| {
            let arguments = program.inputs().iter().zip(inputs);
            arguments.into_iter().try_for_each(|(reg, ct)| write(session, *reg, ct, part.clone()))
        };
        let take = |_, (), made: Vec<Vec<u64>>| {
            results.iter_mut().zip(made).for_each(|(words, made)| words.extend(made));
            Ok(())
        };
        on.opened.run(RUN, &whole, arrangement.chunk, put, take, progress)?;
        let outputs = program.outputs().iter().zip(&arrangement.followed.independent).zip(results);
        let stamped = outputs.map(|((reg, alone), data)| {
            Ok(Lwe {
                independent: *alone,
                ..batch_of(&program, &arrangement.followed, *key, *reg, data)?
            })
        });
        stamped.collect()
    }

    fn recorded(
        facts: &TfheFacts,
        inputs: &[&Lwe],
        record: impl FnOnce(&mut Program, &[Reg]) -> Result<Vec<Reg>>,
    ) -> Result<Arc<Program>> {
        let mut program = Program::new(facts.params.clone());
        let regs: Vec<Reg> = inputs.iter().map(|x| program.input_like(x)).collect();
        for r in record(&mut program, &regs)? {
            program.output(r)?;
        }
        Ok(Arc::new(program))
    }

    fn argument(x: &Lwe) -> Ciphertext {
        x.clone().into()
    }
}

impl Evaluator {
    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.facts.params
    }

    /// Refuses arguments that a program does not take, those too that are too noisy for it, because they are related perhaps.
    ///
    /// # Errors
    /// As [`Evaluator::run`] before it computes.
    pub fn takes(&self, program: &Arc<Program>, inputs: &[Ciphertext]) -> Result<()> {
        Tfhe::require(&self.facts, program)?;
        let lanes = check(&self.facts.params, self.facts.key, program, inputs)?;
        self.arranged(program, inputs, lanes).map(drop)
    }

    /// The arrangement of a program on these arguments.
    fn arranged(
        &self,
        program: &Arc<Program>,
        inputs: &[Ciphertext],
        lanes: usize,
    ) -> Result<Arc<Arrangement>> {
        let noise: Vec<f64> = inputs.iter().map(noise_of).collect();
        let (related, pace) = (related(inputs), self.info().pace);
        let same = |k: &Known| {
            let program = std::ptr::eq(k.program.as_ptr(), Arc::as_ptr(program));
            program
                && k.lanes == lanes
                && k.noise == noise
                && k.related == related
                && k.pace == pace
        };
        let known = || self.facts.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().iter().find(|k| same(k)) {
            return Ok(found.arrangement.clone());
        }
        let followed = program.follow_related(&noise, &related)?;
        let walk = program.walk();
        let chunk = self.chunk(walk.width(), lanes);
        let walk = Arc::new(program.arranged(walk, &pace, chunk));
        let bytes = program.count(&walk.waves).bytes_per_lane;
        let arrangement = Arc::new(Arrangement { walk, followed, chunk, bytes });
        let program = Arc::downgrade(program);
        let mut all = known();
        // The place of a program that is gone is not given to another while this holds on to it.
        all.retain(|k| k.program.strong_count() > 0);
        if all.len() >= KEPT {
            all.remove(0);
        }
        all.push(Known { program, noise, related, lanes, pace, arrangement: arrangement.clone() });
        Ok(arrangement)
    }

    /// Lanes run at once: enough to fill the machine a few times, few enough for progress and memory.
    fn chunk(&self, widest: usize, lanes: usize) -> usize {
        // Small sets fill the machine four times over; with large ones a chunk would take minutes and could not be stopped.
        let best = self.opened.machine().0.best_batch;
        let affordable = (CHUNK_COST * best as f64 / self.facts.params.cost()) as usize;
        let items = affordable.clamp(best.div_ceil(8), 4 * best);
        items.div_ceil(widest).clamp(1, lanes.max(1))
    }
}

/// Refuses what an evaluator would refuse of these arguments, without a machine. The number of lanes.
///
/// # Errors
/// As [`Evaluator::run`] before it computes, but for errors of the machine.
pub(crate) fn require_fit(
    keys: &EvaluationKey,
    program: &Program,
    inputs: &[Ciphertext],
) -> Result<usize> {
    let facts = Tfhe::facts(&keys.setup())?;
    Tfhe::require(&facts, program)?;
    let lanes = check(&keys.params, keys.id, program, inputs)?;
    let noise: Vec<f64> = inputs.iter().map(noise_of).collect();
    program.follow_related(&noise, &related(inputs))?;
    Ok(lanes)
}

fn maps_of(keys: &EvaluationKey) -> Vec<RowSums> {
    let sums = |key: &SlotKey| match key.kind() {
        SlotKeyKind::Map(sums) => Some(sums),
        SlotKeyKind::Pack => None,
    };
    keys.slot_maps().filter_map(sums).collect()
}

/// Refuses a program of another set.
fn check_params(params: &Arc<TfheParams>, program: &Program) -> Result<()> {
    if program.params() != params {
        return Err(Error::wrong_params(
            RUN,
            format!("a program for {}", params.name),
            program.params().name.to_string(),
            "record the program for the key's parameter set",
        ));
    }
    Ok(())
}

/// Refuses another number of arguments.
fn check_count(program: &Program, inputs: &[Ciphertext]) -> Result<()> {
    if inputs.len() != program.inputs().len() {
        let wanted = program.inputs().len();
        return Err(Error::bad_input(
            RUN,
            format!("{wanted} argument{}", if wanted == 1 { "" } else { "s" }),
            inputs.len().to_string(),
            "pass one batch for each input of the program",
        ));
    }
    Ok(())
}

/// The number of lanes, once every argument is one that the program takes.
fn check(
    params: &Arc<TfheParams>,
    key: KeyId,
    program: &Program,
    inputs: &[Ciphertext],
) -> Result<usize> {
    check_count(program, inputs)?;
    let mut lanes = None;
    for (i, (reg, ct)) in program.inputs().iter().zip(inputs).enumerate() {
        check_key(params, key, ct)?;
        let info = program.info(*reg).copied().ok_or_else(|| {
            Error::bad_input(
                RUN,
                "a valid program",
                "an unknown input register",
                "record the program again",
            )
        })?;
        let fits = match (ct, info.ty) {
            (Ciphertext::Glwe(c), RegType::Glwe) => {
                check_table(program, *reg, c)?;
                true
            }
            (Ciphertext::Lwe(c), RegType::Lwe(role)) => {
                if *lanes.get_or_insert(c.len()) != c.len() {
                    return Err(Error::bad_input(
                        RUN,
                        format!("batches of {} ciphertexts", lanes.unwrap_or(0)),
                        format!("{} in argument {i}", c.len()),
                        "pass batches of one length",
                    ));
                }
                c.role == role
                    && c.encoding == info.encoding
                    && c.range.0 >= info.range.0
                    && c.range.1 <= info.range.1
            }
            _ => false,
        };
        if !fits {
            return Err(Error::bad_input(
                RUN,
                format!("{info} as argument {i}"),
                described(ct),
                "encrypt in the encoding that the program declares for its input",
            ));
        }
    }
    Ok(lanes.unwrap_or(1))
}

fn check_key(params: &Arc<TfheParams>, key: KeyId, ct: &Ciphertext) -> Result<()> {
    if ct.params() != params {
        return Err(Error::wrong_params(
            RUN,
            format!("ciphertexts of {}", params.name),
            ct.params().name.to_string(),
            "use ciphertexts and keys of one parameter set",
        ));
    }
    if ct.key_id() != key {
        return Err(Error::wrong_key(
            RUN,
            format!("ciphertexts under key {}", key),
            ct.key_id().to_string(),
            "use the evaluation key that was made with their secret key",
        ));
    }
    Ok(())
}

/// Words that a session has read of an output of a loaded program, as the batch that they are: its encoding, range and noise are
/// those of the walk.
///
/// # Errors
/// [`Error::BadInput`] for a register that does not exist or words that do not fill it; [`Error::Unsupported`] for a table.
pub fn batch_of(
    program: &Program,
    followed: &Followed,
    key: KeyId,
    reg: Reg,
    data: Vec<u64>,
) -> Result<Lwe> {
    let bad = |wanted: String, got: String| {
        Error::bad_input(RUN, wanted, got, "record the program again")
    };
    let unknown = || bad("a valid program".into(), "an unknown output register".into());
    let info = program.info(reg).ok_or_else(unknown)?;
    let RegType::Lwe(role) = info.ty else {
        let remedy = "return what is looked up instead";
        return Err(Error::unsupported(RUN, "LWE results", "a table as a result", remedy));
    };
    if !data.len().is_multiple_of(program.width(reg)) {
        let wanted = format!("ciphertexts of {} words", program.width(reg));
        return Err(bad(wanted, format!("{} words", data.len())));
    }
    Ok(Lwe {
        params: program.params().clone(),
        key,
        role,
        encoding: info.encoding,
        range: info.range,
        noise: *followed.noise.get(reg.0 as usize).ok_or_else(unknown)?,
        independent: false,
        seed: None,
        data,
    })
}

/// The result of a call, whose errors have its name.
fn named<T>(op: &'static str, made: Result<T>) -> Result<T> {
    made.map_err(|e| e.ran_by(op))
}

/// One bootstrap or gate on a batch: programs of one instruction, recorded on the spot.
impl Evaluator {
    /// Looks every ciphertext of the batch up in a table; one batch for each output of the table.
    ///
    /// # Errors
    /// As [`Evaluator::run`].
    pub fn bootstrap_many(&self, x: &Lwe, table: &Table) -> Result<Vec<Lwe>> {
        named("bootstrap", self.call_many(&[x], |p, r| p.lookup_many(r[0], table)))
    }

    /// [`Evaluator::bootstrap_many`] for a table with one output.
    ///
    /// # Errors
    /// As [`Evaluator::run`]; [`Error::BadInput`] if the table has several outputs.
    pub fn bootstrap(&self, x: &Lwe, table: &Table) -> Result<Lwe> {
        named("bootstrap", self.call(&[x], |p, r| p.lookup(r[0], table)))
    }

    /// [`Evaluator::bootstrap`] that reports progress and can be stopped.
    ///
    /// # Errors
    /// As there, and [`Error::Interrupted`].
    pub fn bootstrap_with(&self, x: &Lwe, table: &Table, progress: Progress) -> Result<Lwe> {
        let program = Tfhe::recorded(&self.facts, &[x], |p, r| Ok(vec![p.lookup(r[0], table)?]))?;
        let made = self.run_with(&program, &[x.clone().into()], progress);
        Ok(named("bootstrap", made)?.remove(0))
    }

    /// Looks every ciphertext of a common-mask set up in a table for each slot.
    ///
    /// # Errors
    /// As [`Evaluator::run`] and [`Program::bootstrap_slots`]; [`Error::BadInput`] for tables of several outputs.
    pub fn bootstrap_slots(&self, x: &Lwe, tables: &[Table]) -> Result<Lwe> {
        named("bootstrap", self.call(&[x], |p, r| Ok(p.lookup_slots(r[0], tables)?[0])))
    }

    /// One slot of every ciphertext, as plain ciphertexts under the slot's key.
    ///
    /// # Errors
    /// As [`Evaluator::run`] and [`Program::extract`].
    pub fn extract(&self, x: &Lwe, slot: u32) -> Result<Lwe> {
        named("extract", self.call(&[x], |p, r| p.extract(r[0], slot)))
    }

    /// Packs plain ciphertexts under the key of slot 0, a batch for each slot.
    ///
    /// # Errors
    /// As [`Evaluator::run`] and [`Program::pack`]; [`Error::WrongKey`] without a packing key.
    pub fn pack(&self, slots: &[&Lwe]) -> Result<Lwe> {
        named("pack", self.call(slots, |p, r| p.pack(r)))
    }

    /// Applies a private map between slots, number `map` of the key.
    ///
    /// # Errors
    /// As [`Evaluator::run`] and [`Program::slot_map`]; [`Error::WrongKey`] without such a map.
    pub fn slot_map(&self, x: &Lwe, map: u32) -> Result<Lwe> {
        let Some(sums) = self.facts.maps.get(map as usize) else {
            return Err(Error::wrong_key(
                "slot_map",
                format!("an evaluation key with the map {map}"),
                format!("one with {} maps", self.facts.maps.len()),
                "make it with the secret key (`slot_map_key`), and give it to the evaluation key or server",
            ));
        };
        named("slot_map", self.call(&[x], |p, r| p.slot_map(r[0], map, *sums)))
    }

    /// Looks every ciphertext up in an encrypted table; one batch for each output of the table.
    ///
    /// # Errors
    /// As [`Evaluator::run`]; [`Error::BadInput`] if the table is for another encoding than that of `x`, or for
    /// fewer values.
    pub fn bootstrap_encrypted(&self, x: &Lwe, table: &Glwe) -> Result<Vec<Lwe>> {
        let inputs = [x.clone().into(), table.clone().into()];
        let known =
            inputs.iter().try_for_each(|ct| check_key(&self.facts.params, self.facts.key, ct));
        named("bootstrap", known)?;
        let mut program = Program::new(self.facts.params.clone());
        let src = program.input_like(x);
        let glwe = program.input_table(table.input, table.limit);
        let switch = self.facts.params.order == crate::params::Order::KsPbs;
        let small = if switch { program.key_switch(src)? } else { src };
        for r in program.bootstrap_encrypted(small, glwe, &table.outputs)? {
            let rested = if switch { r } else { program.key_switch(r)? };
            program.output(rested)?;
        }
        named("bootstrap", self.run(&Arc::new(program), &inputs))
    }

    /// f(a, b) lane by lane by one lookup at `a·base + b`, for values `b < base`.
    ///
    /// # Errors
    /// As [`Evaluator::run`].
    pub fn bootstrap2(
        &self,
        a: &Lwe,
        b: &Lwe,
        base: u64,
        f: impl Fn(u64, u64) -> u64,
    ) -> Result<Lwe> {
        named("bootstrap2", self.call(&[a, b], |p, r| p.lookup2(r[0], r[1], base, f)))
    }

    /// A boolean gate lane by lane.
    ///
    /// # Errors
    /// As [`Evaluator::run`].
    pub fn gate(&self, gate: Gate, a: &Lwe, b: &Lwe) -> Result<Lwe> {
        named("gate", self.call(&[a, b], |p, r| p.gate(gate, r[0], r[1])))
    }

    /// `if s { x } else { y }` lane by lane, for booleans.
    ///
    /// # Errors
    /// As [`Evaluator::run`].
    pub fn mux(&self, s: &Lwe, x: &Lwe, y: &Lwe) -> Result<Lwe> {
        named("mux", self.call(&[s, x, y], |p, r| p.mux(r[0], r[1], r[2])))
    }
}

/// Refuses an encrypted table that differs from the program's declaration for its register: it may have more, never less.
fn check_table(program: &Program, reg: Reg, table: &Glwe) -> Result<()> {
    let refuse =
        |wanted: String, got: String, remedy: &str| Err(Error::bad_input(RUN, wanted, got, remedy));
    let Some(declared) = program.info(reg) else { return Ok(()) };
    if table.input != declared.encoding || table.limit < declared.range.1 {
        return refuse(
            format!("a table for values 0 to {} of {}", declared.range.1, declared.encoding),
            format!("one for values 0 to {} of {}", table.limit, table.input),
            "encrypt the table that the program declares, or declare this one's input and limit",
        );
    }
    let wanted = program.ops().iter().filter_map(|op| match op {
        Op::Bootstrap { table: TableRef::Encrypted(r, outputs), .. } if *r == reg => Some(outputs),
        _ => None,
    });
    for w in wanted.flatten() {
        let serves = |o: &Output| {
            (o.index, o.encoding) == (w.index, w.encoding)
                && o.range.0 >= w.range.0
                && o.range.1 <= w.range.1
        };
        if !table.outputs.iter().any(serves) {
            return refuse(
                format!("a table with the output {w:?}"),
                format!("the outputs {:?}", &table.outputs[..table.outputs.len().min(4)]),
                "record the bootstrap with the outputs of the table",
            );
        }
    }
    Ok(())
}

/// Which arguments may be related to others: results of linear operations, and copies (also in other places of the batch's
/// order, lane by lane).
fn related(inputs: &[Ciphertext]) -> Vec<bool> {
    let copies = |a: &Ciphertext, b: &Ciphertext| match (a, b) {
        // Trivial ones have no noise to share.
        (Ciphertext::Lwe(a), Ciphertext::Lwe(b)) if a.role == b.role && a.noise > 0.0 => {
            let (x, y) = (a.data.chunks_exact(a.width()), b.data.chunks_exact(b.width()));
            let mask = a.width() - a.slots();
            // Equal masks are the same ciphertext, up to a constant.
            x.zip(y).any(|(x, y)| x[..mask] == y[..mask])
        }
        (Ciphertext::Glwe(a), Ciphertext::Glwe(b)) => a.data == b.data,
        _ => false,
    };
    let alone = |i: usize| match &inputs[i] {
        Ciphertext::Lwe(c) => c.independent,
        Ciphertext::Glwe(_) => true,
    };
    let copied = |i: usize| (0..inputs.len()).any(|j| i != j && copies(&inputs[i], &inputs[j]));
    (0..inputs.len()).map(|i| !alone(i) || copied(i)).collect()
}

fn noise_of(ct: &Ciphertext) -> f64 {
    match ct {
        Ciphertext::Lwe(c) => c.noise,
        Ciphertext::Glwe(c) => c.noise,
    }
}

/// A ciphertext in the words of [`RegInfo`](crate::program::RegInfo).
fn described(ct: &Ciphertext) -> String {
    match ct {
        Ciphertext::Lwe(c) => {
            let info = RegInfo { ty: RegType::Lwe(c.role), encoding: c.encoding, range: c.range };
            info.to_string()
        }
        Ciphertext::Glwe(_) => RegType::Glwe.to_string(),
    }
}

fn write(session: &mut dyn Session, reg: Reg, ct: &Ciphertext, lanes: Range<usize>) -> Result<()> {
    match ct {
        Ciphertext::Lwe(c) => {
            let width = c.words().len() / c.len().max(1);
            session.write(reg, 0, &c.words()[lanes.start * width..lanes.end * width])
        }
        Ciphertext::Glwe(c) => {
            (0..lanes.len()).try_for_each(|lane| session.write(reg, lane, c.words()))
        }
    }
}
