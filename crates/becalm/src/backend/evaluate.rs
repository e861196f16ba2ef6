//! From ciphertexts to ciphertexts: checks, chunks of lanes, waves, and the known facts of the results.
//!
//! Everything that can be refused is refused before the first instruction runs. Noise, encoding and range of the results
//! are stamped from the walk over the program, never asked from the machine.

use super::opened::Opened;
use super::{Backend, Fallback, Info, Loaded, Session};
use crate::cipher::{
    Ciphertext, EvaluationKey, Glwe, KeyId, Lwe, Output, RowSums, SlotKey, SlotKeyKind,
};
use crate::math::memory::require_memory;
use crate::params::TfheParams;
use crate::program::{Gate, Need, Op, Program, Reg, RegInfo, RegType, TableRef, Tfhe, Walk};
use crate::tfhe::Table;
use crate::{Error, Progress, Result, UNWATCHED};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Multiply-adds that a chunk may take for each ciphertext of the best batch: about a second on a core.
const CHUNK_COST: f64 = 5e8;

/// Evaluation keys on a machine: the server's side.
pub struct Evaluator {
    params: Arc<TfheParams>,
    key: KeyId,
    /// The parts of the key that were opened.
    needs: BTreeSet<Need>,
    /// The public part of the private maps between slots.
    maps: Vec<RowSums>,
    opened: Opened<Tfhe>,
}

impl Evaluator {
    /// Opens a key on a machine, all parts of it.
    ///
    /// # Errors
    /// As [`Backend::open`].
    pub fn new(backend: &dyn Backend, keys: &EvaluationKey) -> Result<Self> {
        Evaluator::for_needs(backend, keys, &Need::all_of(keys))
    }

    /// Opens the parts of a key that a program [needs](Program::needs).
    ///
    /// # Errors
    /// As [`Backend::open`].
    pub fn for_needs(
        backend: &dyn Backend,
        keys: &EvaluationKey,
        needs: &BTreeSet<Need>,
    ) -> Result<Self> {
        let session = backend.open(keys, needs)?;
        let maps = maps_of(keys);
        let (params, opened) = (keys.params.clone(), Opened::new(session, backend));
        Ok(Evaluator { params, key: keys.id, needs: needs.clone(), maps, opened })
    }

    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.params
    }

    /// The machine.
    pub fn info(&self) -> Info {
        self.opened.machine().0.clone()
    }

    /// Why the machine is not a GPU, where [`by_name`](super::by_name) was asked for `"auto"`.
    pub fn fallback(&self) -> Option<Fallback> {
        self.opened.machine().1.clone()
    }

    /// Runs a program on batches, one for each input, all of one length (an encrypted table serves every lane).
    ///
    /// # Errors
    /// [`Error::WrongParams`], [`Error::WrongKey`], [`Error::BadInput`] for arguments that do not fit the program;
    /// [`Error::TooNoisy`] if they are too noisy for it; errors of the machine.
    pub fn run(&self, program: &Arc<Program>, inputs: &[Ciphertext]) -> Result<Vec<Lwe>> {
        self.run_with(program, inputs, UNWATCHED)
    }

    /// [`Evaluator::run`] that reports progress and can be stopped.
    ///
    /// # Errors
    /// As there, and [`Error::Interrupted`].
    pub fn run_with(
        &self,
        program: &Arc<Program>,
        inputs: &[Ciphertext],
        progress: Progress,
    ) -> Result<Vec<Lwe>> {
        program.check_slot_keys(&self.needs, &self.maps)?;
        let lanes = check(&self.params, self.key, program, inputs)?;
        let noise: Vec<f64> = inputs.iter().map(noise_of).collect();
        let walk = Arc::new(program.walk_related(&noise, &related(inputs))?);
        let chunk = self.chunk(&walk, lanes);
        let results: usize = program.outputs().iter().map(|r| program.width(*r) * 8 * lanes).sum();
        require_memory("evaluate", (walk.cost.bytes_per_lane * chunk).saturating_add(results))?;
        let mut results = vec![Vec::new(); program.outputs().len()];
        let whole = Loaded { program: program.clone(), walk: walk.clone(), lanes };
        let put = |session: &mut dyn Session, part: Range<usize>| {
            let arguments = program.inputs().iter().zip(inputs);
            arguments.into_iter().try_for_each(|(reg, ct)| write(session, *reg, ct, part.clone()))
        };
        let take = |_, (), made: Vec<Vec<u64>>| {
            results.iter_mut().zip(made).for_each(|(words, made)| words.extend(made));
            Ok(())
        };
        self.opened.run("evaluate", &whole, chunk, put, take, progress)?;
        program
            .outputs()
            .iter()
            .zip(&walk.independent)
            .zip(results)
            .map(|((reg, alone), data)| {
                let batch = batch_of(&whole, self.key, *reg, data)?;
                Ok(Lwe { independent: *alone, ..batch })
            })
            .collect()
    }

    /// Lanes run at once: enough to fill the machine a few times, few enough for progress and memory.
    fn chunk(&self, walk: &Walk, lanes: usize) -> usize {
        let widest = walk.waves.iter().map(|w| w.ops.len()).max().unwrap_or(1).max(1);
        // Small sets fill the machine four times over; with large ones a chunk would take minutes and could not be stopped.
        let best = self.opened.machine().0.best_batch;
        let affordable = (CHUNK_COST * best as f64 / self.params.cost()) as usize;
        let items = affordable.clamp(best.div_ceil(8), 4 * best);
        items.div_ceil(widest).clamp(1, lanes.max(1))
    }
}

/// Refuses what an evaluator would refuse of these arguments, without a machine. The number of lanes, and the walk.
///
/// # Errors
/// As [`Evaluator::run`] before it computes, but for errors of the machine.
pub(crate) fn require_fit(
    keys: &EvaluationKey,
    program: &Program,
    inputs: &[Ciphertext],
) -> Result<(usize, Walk)> {
    program.check_slot_keys(&Need::all_of(keys), &maps_of(keys))?;
    let lanes = check(&keys.params, keys.id, program, inputs)?;
    let noise: Vec<f64> = inputs.iter().map(noise_of).collect();
    Ok((lanes, program.walk_related(&noise, &related(inputs))?))
}

fn maps_of(keys: &EvaluationKey) -> Vec<RowSums> {
    let sums = |key: &SlotKey| match key.kind() {
        SlotKeyKind::Map(sums) => Some(sums),
        SlotKeyKind::Pack => None,
    };
    keys.slot_maps().filter_map(sums).collect()
}

/// Refuses a program of another set, and another number of arguments.
fn check_call(params: &Arc<TfheParams>, program: &Program, inputs: &[Ciphertext]) -> Result<()> {
    if program.params() != params {
        return Err(Error::wrong_params(
            "evaluate",
            format!("a program for {}", params.name),
            program.params().name.to_string(),
            "record the program for the key's parameter set",
        ));
    }
    if inputs.len() != program.inputs().len() {
        return Err(Error::bad_input(
            "evaluate",
            format!("{} arguments", program.inputs().len()),
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
    check_call(params, program, inputs)?;
    let mut lanes = None;
    for (i, (reg, ct)) in program.inputs().iter().zip(inputs).enumerate() {
        check_key(params, key, ct)?;
        let info = program.info(*reg).copied().ok_or_else(|| {
            Error::bad_input(
                "evaluate",
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
                        "evaluate",
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
                "evaluate",
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
            "evaluate",
            format!("ciphertexts of {}", params.name),
            ct.params().name.to_string(),
            "use ciphertexts and keys of one parameter set",
        ));
    }
    if ct.key_id() != key {
        return Err(Error::wrong_key(
            "evaluate",
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
pub fn batch_of(loaded: &Loaded, key: KeyId, reg: Reg, data: Vec<u64>) -> Result<Lwe> {
    let (program, walk) = (&loaded.program, &loaded.walk);
    let bad = |wanted: String, got: String| {
        Error::bad_input("evaluate", wanted, got, "record the program again")
    };
    let unknown = || bad("a valid program".into(), "an unknown output register".into());
    let info = program.info(reg).ok_or_else(unknown)?;
    let RegType::Lwe(role) = info.ty else {
        let remedy = "return what is looked up instead";
        return Err(Error::unsupported("evaluate", "LWE results", "a table as a result", remedy));
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
        noise: *walk.noise.get(reg.0 as usize).ok_or_else(unknown)?,
        independent: false,
        seed: None,
        data,
    })
}

/// One bootstrap or gate on a batch: programs of one instruction, recorded on the spot.
impl Evaluator {
    /// Looks every ciphertext of the batch up in a table; one batch for each output of the table.
    ///
    /// # Errors
    /// As [`Evaluator::run`].
    pub fn bootstrap_many(&self, x: &Lwe, table: &Table) -> Result<Vec<Lwe>> {
        self.apply(&[x], |p, r| p.lookup_many(r[0], table))
    }

    /// [`Evaluator::bootstrap_many`] for a table with one output.
    ///
    /// # Errors
    /// As [`Evaluator::run`]; [`Error::BadInput`] if the table has several outputs.
    pub fn bootstrap(&self, x: &Lwe, table: &Table) -> Result<Lwe> {
        only(self.apply(&[x], |p, r| Ok(vec![p.lookup(r[0], table)?]))?)
    }

    /// [`Evaluator::bootstrap`] that reports progress and can be stopped.
    ///
    /// # Errors
    /// As there, and [`Error::Interrupted`].
    pub fn bootstrap_with(&self, x: &Lwe, table: &Table, progress: Progress) -> Result<Lwe> {
        let mut program = Program::new(self.params.clone());
        let src = program.input_like(x);
        let dst = program.lookup(src, table)?;
        program.output(dst)?;
        only(self.run_with(&Arc::new(program), &[x.clone().into()], progress)?)
    }

    /// Looks every ciphertext of a common-mask set up in a table for each slot.
    ///
    /// # Errors
    /// As [`Evaluator::run`] and [`Program::bootstrap_slots`]; [`Error::BadInput`] for tables of several outputs.
    pub fn bootstrap_slots(&self, x: &Lwe, tables: &[Table]) -> Result<Lwe> {
        only(self.apply(&[x], |p, r| p.lookup_slots(r[0], tables))?)
    }

    /// One slot of every ciphertext, as plain ciphertexts under the slot's key.
    ///
    /// # Errors
    /// As [`Evaluator::run`] and [`Program::extract`].
    pub fn extract(&self, x: &Lwe, slot: u32) -> Result<Lwe> {
        only(self.apply(&[x], |p, r| Ok(vec![p.extract(r[0], slot)?]))?)
    }

    /// Packs plain ciphertexts under the key of slot 0, a batch for each slot.
    ///
    /// # Errors
    /// As [`Evaluator::run`] and [`Program::pack`]; [`Error::WrongKey`] without a packing key.
    pub fn pack(&self, slots: &[&Lwe]) -> Result<Lwe> {
        only(self.apply(slots, |p, r| Ok(vec![p.pack(r)?]))?)
    }

    /// Applies a private map between slots, number `map` of the key.
    ///
    /// # Errors
    /// As [`Evaluator::run`] and [`Program::slot_map`]; [`Error::WrongKey`] without such a map.
    pub fn slot_map(&self, x: &Lwe, map: u32) -> Result<Lwe> {
        let Some(sums) = self.maps.get(map as usize) else {
            return Err(Error::wrong_key(
                "slot_map",
                format!("an evaluation key with the map {map}"),
                format!("one with {} maps", self.maps.len()),
                "make it with the secret key (`slot_map_key`), and give it to the evaluation key or server",
            ));
        };
        only(self.apply(&[x], |p, r| Ok(vec![p.slot_map(r[0], map, *sums)?]))?)
    }

    /// Looks every ciphertext up in an encrypted table; one batch for each output of the table.
    ///
    /// # Errors
    /// As [`Evaluator::run`]; [`Error::BadInput`] if the table is for another encoding than that of `x`, or for
    /// fewer values.
    pub fn bootstrap_encrypted(&self, x: &Lwe, table: &Glwe) -> Result<Vec<Lwe>> {
        let inputs = [x.clone().into(), table.clone().into()];
        inputs.iter().try_for_each(|ct| check_key(&self.params, self.key, ct))?;
        let mut program = Program::new(self.params.clone());
        let src = program.input_like(x);
        let glwe = program.input_table(table.input, table.limit);
        let switch = self.params.order == crate::params::Order::KsPbs;
        let small = if switch { program.key_switch(src)? } else { src };
        for r in program.bootstrap_encrypted(small, glwe, &table.outputs)? {
            let rested = if switch { r } else { program.key_switch(r)? };
            program.output(rested)?;
        }
        self.run(&Arc::new(program), &inputs)
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
        only(self.apply(&[a, b], |p, r| Ok(vec![p.lookup2(r[0], r[1], base, f)?]))?)
    }

    /// A boolean gate lane by lane.
    ///
    /// # Errors
    /// As [`Evaluator::run`].
    pub fn gate(&self, gate: Gate, a: &Lwe, b: &Lwe) -> Result<Lwe> {
        only(self.apply(&[a, b], |p, r| Ok(vec![p.gate(gate, r[0], r[1])?]))?)
    }

    /// `if s { x } else { y }` lane by lane, for booleans.
    ///
    /// # Errors
    /// As [`Evaluator::run`].
    pub fn mux(&self, s: &Lwe, x: &Lwe, y: &Lwe) -> Result<Lwe> {
        only(self.apply(&[s, x, y], |p, r| Ok(vec![p.mux(r[0], r[1], r[2])?]))?)
    }

    fn apply(
        &self,
        inputs: &[&Lwe],
        record: impl FnOnce(&mut Program, &[Reg]) -> Result<Vec<Reg>>,
    ) -> Result<Vec<Lwe>> {
        let mut program = Program::new(self.params.clone());
        let regs: Vec<Reg> = inputs.iter().map(|x| program.input_like(x)).collect();
        for r in record(&mut program, &regs)? {
            program.output(r)?;
        }
        let inputs: Vec<Ciphertext> = inputs.iter().map(|x| (*x).clone().into()).collect();
        self.run(&Arc::new(program), &inputs)
    }
}

/// Refuses an encrypted table that differs from the program's declaration for its register: it may have more, never less.
fn check_table(program: &Program, reg: Reg, table: &Glwe) -> Result<()> {
    let refuse = |wanted: String, got: String, remedy: &str| {
        Err(Error::bad_input("evaluate", wanted, got, remedy))
    };
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

fn only(mut results: Vec<Lwe>) -> Result<Lwe> {
    results
        .pop()
        .ok_or_else(|| Error::bad_input("evaluate", "one result", "none", "record an output"))
}

/// Which arguments may be related to others: results of linear operations, and copies (also in other places of the batch's
/// order, lane by lane).
fn related(inputs: &[Ciphertext]) -> Vec<bool> {
    let copies = |a: &Ciphertext, b: &Ciphertext| match (a, b) {
        (Ciphertext::Lwe(a), Ciphertext::Lwe(b)) if a.role == b.role => {
            let (x, y) = (a.data.chunks_exact(a.width()), b.data.chunks_exact(b.width()));
            let mask = a.width() - a.slots();
            // Equal masks are the same ciphertext, up to a constant; trivial ones have no noise to share.
            x.zip(y).any(|(x, y)| x[..mask] == y[..mask] && a.noise > 0.0)
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
