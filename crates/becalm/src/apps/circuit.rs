//! Circuits over sums: a linear value stays a formula until a table needs it, and a constant is never computed.
//!
//! A [`Sum`] is Σ c·register + constant with a known range. A table of at most 16 values costs one bootstrap, t tables of
//! at most 16/t values together too ([`Circuit::lookup`]); on the whole torus there is room for 32 positions if the
//! function is odd under half a turn ([`Circuit::circle`]). The unit is 1/32 of the torus; a sum that enters a table may
//! have a 2-norm of 5 over fresh bootstraps, so tables put out values that are scaled already, and where a sum is noisier
//! (equal steps are recorded once, so the terms of a sum may be the same register) terms are replaced by tables of them.

use crate::cipher::Encoding;
use crate::params::TfheParams;
use crate::program::{Op, Program, Reg, TableRef};
use crate::progress::tell;
use crate::tfhe::Table;
use crate::{Error, Progress, Result, UNWATCHED};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::{Add, Neg, Sub};
use std::sync::Arc;

/// Values of a table: message · carry of the sets with two bits of each.
pub(super) const ROOM: i64 = 16;

/// 2-norm squared that a table may see, in variances of a bootstrap.
pub(super) const NORM2: i64 = 25;

/// The figure that a circuit is recorded to minimise. [`Forms`](super::integer::Forms) choose by the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Aim {
    /// Fewest bootstraps: carries ripple. For few threads, or batches that fill the machine.
    #[default]
    Work,
    /// Shortest path: carries by parallel prefix. For machines with many lanes.
    Depth,
}

/// The noise of a circuit's arguments, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arguments {
    /// Nothing is known: one may be another again, as in `x·x`, so that deviations add.
    #[default]
    Any,
    /// Each has noise of its own, straight from encryption or a bootstrap, so that variances add: three times as many bits enter
    /// a table. An evaluator refuses related arguments where their sum would be too noisy.
    Independent,
}

/// `Σ coefficient·register + half/2`, a value from `low` to `high` in units of 1/32 of the torus. Registers in order, each
/// once: equal sums are recognised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sum {
    pub terms: Vec<(i64, Reg)>,
    /// The constant in half units.
    pub half: i64,
    pub low: i64,
    pub high: i64,
}

impl Sum {
    /// A constant.
    pub fn clear(value: i64) -> Sum {
        Sum { terms: vec![], half: 2 * value, low: value, high: value }
    }

    /// The sum of a list; 0 if it is empty.
    pub fn of<'a>(sums: impl IntoIterator<Item = &'a Sum>) -> Sum {
        sums.into_iter().fold(Sum::clear(0), |a, b| &a + b)
    }

    /// `factor` times the sum.
    pub fn times(&self, factor: i64) -> Sum {
        if factor == 0 {
            return Sum::clear(0);
        }
        let (a, b) = (self.low * factor, self.high * factor);
        Sum {
            terms: self.terms.iter().map(|(c, r)| (c * factor, *r)).collect(),
            half: self.half * factor,
            low: a.min(b),
            high: a.max(b),
        }
    }

    /// The sum plus a constant.
    pub fn plus(&self, value: i64) -> Sum {
        self + &Sum::clear(value)
    }

    /// The same with a range that the caller knows better.
    pub fn within(mut self, low: i64, high: i64) -> Sum {
        (self.low, self.high) = (low, high);
        self
    }

    /// The value, if it is a constant.
    pub fn constant(&self) -> Option<i64> {
        (self.low == self.high).then_some(self.low)
    }

    /// True for one register and nothing else, with any constant.
    pub fn plain(&self) -> bool {
        matches!(self.terms[..], [] | [(1 | -1, _)])
    }
}

impl Add for &Sum {
    type Output = Sum;
    fn add(self, other: &Sum) -> Sum {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (a, b) = (&self.terms, &other.terms);
        let (mut i, mut j) = (0, 0);
        while i < a.len() && j < b.len() {
            let (x, y) = (a[i], b[j]);
            terms.push(match x.1.cmp(&y.1) {
                Ordering::Less => x,
                Ordering::Equal => (x.0 + y.0, x.1),
                Ordering::Greater => y,
            });
            i += usize::from(x.1 <= y.1);
            j += usize::from(x.1 >= y.1);
        }
        terms.extend(a[i..].iter().chain(&b[j..]));
        terms.retain(|t| t.0 != 0);
        let half = self.half + other.half;
        // Terms that cancel, x − x, leave a constant.
        let (low, high) = match terms.is_empty() && half % 2 == 0 {
            true => (half / 2, half / 2),
            false => (self.low + other.low, self.high + other.high),
        };
        Sum { terms, half, low, high }
    }
}

impl Neg for &Sum {
    type Output = Sum;
    fn neg(self) -> Sum {
        self.times(-1)
    }
}

impl Sub for &Sum {
    type Output = Sum;
    fn sub(self, other: &Sum) -> Sum {
        self + &-other
    }
}

/// The XOR of bits at 0 or 16 units, half a torus: their sum, as each counts modulo 2.
pub(super) fn xor<'a>(bits: impl IntoIterator<Item = &'a Sum>) -> Sum {
    let mut sum = Sum::of(bits);
    sum.terms.retain_mut(|t| {
        t.0 = t.0.rem_euclid(2);
        t.0 != 0
    });
    sum.half = sum.half.rem_euclid(4 * ROOM);
    match (sum.terms.is_empty(), sum.half / 2) {
        (true, value) => sum.within(value, value),
        _ => sum.within(0, ROOM),
    }
}

/// A function that a table holds.
pub(super) type Entry<'a> = &'a dyn Fn(i64) -> i64;

/// The identity of a step: sources, half constant, entries, offsets of the outputs if it is on the circle.
type Step = (Vec<(i64, Reg)>, i64, Vec<Vec<i64>>, Vec<usize>);

/// Noise as a linear form: (source, coefficient), in order.
type Form = Vec<(usize, i64)>;

/// A register that is known.
#[derive(Clone)]
struct Origin {
    /// The source of its noise.
    source: usize,
    /// Its value alone.
    value: Sum,
}

/// A program that is being recorded.
#[derive(Clone)]
pub struct Circuit<'a> {
    program: Program,
    progress: Progress<'a>,
    aim: Aim,
    arguments: Arguments,
    origins: HashMap<Reg, Origin>,
    /// For each source of noise, whether it is an argument that may be related to others.
    sources: Vec<bool>,
    /// Sources by what they come from: the same table of the same form adds the same noise, as the walk follows it.
    tables: HashMap<(Form, u32), Vec<usize>>,
    steps: HashMap<Step, Vec<Sum>>,
}

impl<'a> Circuit<'a> {
    /// An empty circuit.
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a set whose tables have not at least 16 values.
    pub fn new(params: Arc<TfheParams>, aim: Aim) -> Result<Self> {
        Circuit::watched(params, aim, UNWATCHED)
    }

    /// An empty circuit; `progress` can stop every later call.
    ///
    /// # Errors
    /// As [`Circuit::new`]. Calls that record a bootstrap raise [`Error::Interrupted`].
    pub fn watched(params: Arc<TfheParams>, aim: Aim, progress: Progress<'a>) -> Result<Self> {
        require_tables("circuit", &params)?;
        let program = Program::new(params);
        let (origins, sources) = (HashMap::new(), vec![]);
        Ok(Circuit {
            program,
            progress,
            aim,
            arguments: Arguments::Any,
            origins,
            sources,
            tables: HashMap::new(),
            steps: HashMap::new(),
        })
    }

    /// An empty circuit of the same set, aim and arguments, which stops when this one does.
    pub(super) fn beside(&self) -> Result<Circuit<'a>> {
        let beside = Circuit::watched(self.program.params().clone(), self.aim, self.progress)?;
        Ok(beside.with(self.arguments))
    }

    /// The circuit, whose arguments from here on are of this kind.
    #[must_use]
    pub fn with(self, arguments: Arguments) -> Self {
        Circuit { arguments, ..self }
    }

    /// The figure that it is recorded to minimise.
    pub fn aim(&self) -> Aim {
        self.aim
    }

    /// The program so far.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program, finished.
    pub(super) fn into_program(self) -> Program {
        self.program
    }

    /// The encoding of all values: 16 below a padding bit.
    pub(super) fn encoding() -> Encoding {
        Encoding { values: ROOM as u64, padding: true }
    }

    /// A new argument with values from 0 to `high`.
    pub(super) fn argument(&mut self, encoding: Encoding, high: i64) -> Sum {
        let ty = crate::program::RegType::Lwe(self.program.resting_role());
        let range = (0, high);
        let reg = self.program.input_as(crate::program::RegInfo { ty, encoding, range });
        let value = Sum { terms: vec![(1, reg)], half: 0, low: 0, high };
        self.sources.push(self.arguments == Arguments::Any);
        // No table takes a bit at half a torus as one of 16 values.
        let seen = if encoding == Circuit::encoding() { high } else { ROOM };
        let known = Origin { source: self.sources.len() - 1, value: value.clone().within(0, seen) };
        self.origins.insert(reg, known);
        value
    }

    /// The noise of a sum.
    fn form(&self, terms: &[(i64, Reg)]) -> Form {
        // An unknown source (a sum that settled) counts as one of its own.
        let unknown = usize::MAX / 2;
        let source = |r: &Reg| self.origins.get(r).map_or(unknown + r.0 as usize, |o| o.source);
        let mut form: Form = terms.iter().map(|(c, r)| (source(r), *c)).collect();
        form.sort_unstable();
        form.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        form
    }

    /// The noise of a sum in variances of a bootstrap: sources add as squares, arguments that may be related to each other
    /// (`x·x`, or what comes from a file) as deviations.
    pub(super) fn norm2(&self, sum: &Sum) -> i64 {
        self.norm2_of(&sum.terms)
    }

    fn norm2_of(&self, terms: &[(i64, Reg)]) -> i64 {
        let (mut own, mut given) = (0, 0);
        for (source, c) in self.form(terms) {
            match self.sources.get(source) {
                Some(true) => given += c.abs(),
                _ => own += c * c,
            }
        }
        own + given * given
    }

    /// The same value with a noise that a table takes: terms that add most of it are replaced by what tables of them put
    /// out, with their coefficient already in it.
    fn tamed(&mut self, v: &Sum) -> Result<Sum> {
        let mut now = v.clone();
        loop {
            let norm = self.norm2(&now);
            if norm <= NORM2 {
                return Ok(now);
            }
            let small = |i: &usize| {
                let known = self.origins.get(&now.terms[*i].1);
                known.is_some_and(|o| o.value.high - o.value.low < ROOM)
            };
            let without = |i: usize| {
                let mut fewer = now.terms.clone();
                fewer.remove(i);
                (self.norm2_of(&fewer), i)
            };
            let best = (0..now.terms.len()).filter(small).map(without).min();
            let Some((left, i)) = best.filter(|(left, _)| left + 1 < norm) else {
                return Err(too_noisy(norm));
            };
            let (c, reg) = now.terms[i];
            let value = self.origins[&reg].value.clone();
            let entries = (value.low..=value.high).map(|x| c * x).collect();
            let weighed = self.step(&value, vec![entries])?.remove(0);
            let (low, high) = (now.low, now.high);
            now = (&(&now - &value.times(c)) + &weighed).within(low, high);
            // Registers of one source give tables of one source.
            if self.norm2(&now) > left + 1 {
                return Err(too_noisy(norm));
            }
        }
    }

    /// Names the registers that a bootstrap of a sum put out, and the sources of their noise.
    fn put_out(&mut self, v: &Sum, sums: &[Sum]) {
        let last = self.program.ops().iter().rev().find_map(|op| match op {
            Op::Bootstrap { table: TableRef::Clear(at), .. } => Some(*at),
            _ => None,
        });
        let key = (self.form(&v.terms), last.unwrap_or(u32::MAX));
        let first = self.sources.len();
        let sources =
            self.tables.entry(key).or_insert_with(|| (first..first + sums.len()).collect());
        for (source, sum) in sources.iter().zip(sums) {
            if let [(_, reg)] = sum.terms[..] {
                self.origins.insert(reg, Origin { source: *source, value: sum.clone() });
            }
        }
        if sources.first() == Some(&first) {
            self.sources.resize(first + sums.len(), false);
        }
    }

    /// Marks a sum as a result, in an encoding whose unit is `units` of this circuit's.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a constant in a program without arguments.
    pub(super) fn result(&mut self, sum: &Sum, encoding: Encoding, units: i64) -> Result<()> {
        let range = (sum.low.div_euclid(units), sum.high.div_euclid(units));
        let reg = self.realize(sum, 0, encoding, range)?;
        self.program.output(reg)
    }

    /// The same sum in its own register, so that sums of it stay short; see [`Circuit::result`].
    ///
    /// # Errors
    /// Errors of the recorder.
    pub(super) fn settle(&mut self, sum: &Sum, encoding: Encoding, units: i64) -> Result<Sum> {
        if sum.terms.len() < 2 {
            return Ok(sum.clone());
        }
        let range = (sum.low.div_euclid(units), sum.high.div_euclid(units));
        let reg = self.realize(sum, 0, encoding, range)?;
        Ok(Sum { terms: vec![(1, reg)], half: 0, low: sum.low, high: sum.high })
    }

    /// A register with the value `sum + shift`.
    fn realize(
        &mut self,
        sum: &Sum,
        shift: i64,
        encoding: Encoding,
        range: (i64, i64),
    ) -> Result<Reg> {
        let half = sum.half + 2 * shift;
        if let ([(1, reg)], 0) = (&sum.terms[..], half) {
            let info = self.program.info(*reg);
            if info.is_some_and(|i| i.encoding == encoding && i.range == range) {
                return Ok(*reg);
            }
        }
        let parts = 4 * ROOM;
        let constant = self.program.params().modulus;
        let constant = constant.fraction(half.rem_euclid(parts) as u64, parts as u64);
        match (&sum.terms[..], self.program.inputs().first()) {
            ([], Some(any)) => self.program.linear_as(&[(0, *any)], constant, encoding, range),
            (terms, _) => self.program.linear_as(terms, constant, encoding, range),
        }
    }

    /// Functions of one value. Those that are constant, or the value itself, cost nothing; the others share bootstraps as far as 16 entries go.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the value may take more than 16 values.
    pub(super) fn lookup(&mut self, v: &Sum, functions: &[Entry]) -> Result<Vec<Sum>> {
        let count = v.high - v.low + 1;
        let list = |f: &Entry| (v.low..=v.high).map(f).collect::<Vec<i64>>();
        let entries: Vec<Vec<i64>> = functions.iter().map(list).collect();
        let fixed = |e: &Vec<i64>| e.iter().all(|x| *x == e[0]);
        let same = |e: &Vec<i64>| v.half == 0 && v.plain() && e.iter().copied().eq(v.low..=v.high);
        let free = |e: &Vec<i64>| match (fixed(e), same(e)) {
            (true, _) => Some(Sum::clear(e[0])),
            (_, true) => Some(v.clone()),
            _ => None,
        };
        let mut results: Vec<Option<Sum>> = entries.iter().map(free).collect();
        let open: Vec<usize> = (0..entries.len()).filter(|i| results[*i].is_none()).collect();
        // Tables of one rotation: as many as fit, a power of two.
        let most = (0..3).rev().map(|k| 1usize << k).find(|t| count * *t as i64 <= ROOM);
        for group in open.chunks(most.unwrap_or(1)) {
            let tables: Vec<Vec<i64>> = group.iter().map(|i| entries[*i].clone()).collect();
            for (i, sum) in group.iter().zip(self.step(v, tables)?) {
                results[*i] = Some(sum);
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// [`Circuit::lookup`] of one function.
    ///
    /// # Errors
    /// As there.
    pub(super) fn map(&mut self, v: &Sum, f: impl Fn(i64) -> i64) -> Result<Sum> {
        Ok(self.lookup(v, &[&f])?.remove(0))
    }

    /// The value itself through a table: its noise is that of a bootstrap, and of nothing else.
    ///
    /// # Errors
    /// As [`Circuit::lookup`].
    pub(super) fn refreshed(&mut self, v: &Sum) -> Result<Sum> {
        match v.constant() {
            Some(_) => Ok(v.clone()),
            None => Ok(self.step(v, vec![(v.low..=v.high).collect()])?.remove(0)),
        }
    }

    fn step(&mut self, v: &Sum, tables: Vec<Vec<i64>>) -> Result<Vec<Sum>> {
        tell("circuit", self.progress, 0, 1)?;
        let key = (v.terms.clone(), v.half - 2 * v.low, tables, vec![]);
        if let Some(known) = self.steps.get(&key) {
            return Ok(known.clone());
        }
        let tables = &key.2;
        let (t, encoding) = (tables.len().next_power_of_two(), Circuit::encoding());
        let part = ROOM as usize / t;
        let mut entries = vec![0; ROOM as usize];
        let mut outputs = vec![];
        for (i, table) in tables.iter().enumerate() {
            if table.len() > part {
                return Err(Error::bad_input(
                    "lookup",
                    format!("at most {part} values"),
                    table.len().to_string(),
                    "look up before the sum outgrows its table",
                ));
            }
            entries[i * part..i * part + table.len()].copy_from_slice(table);
            let range = |least: Option<&i64>| least.copied().unwrap_or(0);
            outputs.push((i * part, (range(table.iter().min()), range(table.iter().max()))));
        }
        let v = &self.tamed(v)?;
        let input = self.realize(v, -v.low, encoding, (0, v.high - v.low))?;
        let table = Table::circle(self.program.params(), encoding, encoding, &entries, &outputs);
        let regs = self.program.lookup_many(input, &table)?;
        let sums: Vec<Sum> = regs
            .into_iter()
            .zip(outputs)
            .map(|(r, (_, (low, high)))| Sum { terms: vec![(1, r)], half: 0, low, high })
            .collect();
        self.put_out(v, &sums);
        self.steps.insert(key, sums.clone());
        Ok(sums)
    }

    /// A lookup on the whole torus: `entries` at the first half of the positions of `input`, their negatives at the second
    /// half. Entries are in half units; an output is (offset, constant in half units, least, greatest value of the sum).
    ///
    /// # Errors
    /// Errors of the recorder.
    pub(super) fn circle(
        &mut self,
        v: &Sum,
        entries: &[i64],
        outputs: &[(usize, i64, i64, i64)],
    ) -> Result<Vec<Sum>> {
        let key = (
            v.terms.clone(),
            v.half,
            vec![entries.to_vec(), outputs.iter().map(|o| o.1).collect()],
            outputs.iter().map(|o| o.0).collect(),
        );
        if let Some(known) = self.steps.get(&key) {
            return Ok(known.clone());
        }
        let input = Encoding { values: 2 * entries.len() as u64, padding: false };
        if v.terms.is_empty() {
            let fixed = |o: &(usize, i64, i64, i64)| fixed(v.half, entries, o.0, o.1);
            return Ok(outputs.iter().map(fixed).collect());
        }
        let halves = Encoding { values: 2 * ROOM as u64, padding: true };
        // A bit at half a torus, or a value on the grid: in units of this input.
        let unit = 2 * ROOM / input.values as i64;
        let range = (v.low.div_euclid(unit), v.high.div_euclid(unit));
        // Fewer positions are farther apart: there only sums of thousands are too noisy.
        let v = &if unit == 1 { self.tamed(v)? } else { v.clone() };
        let src = self.realize(v, 0, input, range)?;
        let most = entries.iter().map(|e| e.abs()).max().unwrap_or(0);
        let wanted: Vec<_> = outputs.iter().map(|o| (o.0, (-most, most))).collect();
        let table = Table::circle(self.program.params(), input, halves, entries, &wanted);
        let regs = self.program.lookup_many(src, &table)?;
        let sums: Vec<Sum> = regs
            .into_iter()
            .zip(outputs)
            .map(|(r, (_, half, low, high))| Sum {
                terms: vec![(1, r)],
                half: *half,
                low: *low,
                high: *high,
            })
            .collect();
        self.put_out(v, &sums);
        self.steps.insert(key, sums.clone());
        Ok(sums)
    }
}

/// Refuses a set that no circuit is recorded for.
pub(super) fn require_tables(op: &'static str, params: &TfheParams) -> Result<()> {
    params.require_one_slot(op)?;
    if params.plaintext_modulus() >= ROOM as u64 {
        return Ok(());
    }
    Err(Error::wrong_params(
        op,
        format!("a set with tables of {ROOM} values"),
        format!("`{}` with {}", params.name, params.plaintext_modulus()),
        "use `tfhe_2_2` or a larger set",
    ))
}

fn too_noisy(norm: i64) -> Error {
    Error::too_noisy(
        "circuit",
        format!("a sum as noisy as {NORM2} bootstraps"),
        format!("one as noisy as {norm}"),
        "refresh the terms, or add them in parts",
    )
}

/// The entry for a constant, which stands at `half` half units, and what is added to it, as a constant.
fn fixed(half: i64, entries: &[i64], offset: usize, add: i64) -> Sum {
    let p = entries.len() as i64;
    let at = (half * p / (2 * ROOM) + offset as i64).rem_euclid(2 * p);
    let entry = entries[(at % p) as usize] * if at < p { 1 } else { -1 };
    Sum::clear((entry + add) / 2)
}
