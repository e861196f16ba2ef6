//! Noise through a program: every register is a linear form over sources of noise, so that sums of relatives are right.
//!
//! Sources are the arguments, and what each key switch and bootstrap adds. These are deterministic: the same step on the
//! same form adds the same noise, so it is the same source. Independent sources add as variances, Σ c²·V; arguments
//! that may be related to each other add as standard deviations, (Σ |c|·σ)², which is right for any correlation.

use super::{Op, Operation, Program, Reg, TableRef};
use crate::tfhe::noise::{self, NoiseReport};
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};

/// Most coefficients of noise that are kept at once, all registers that are still read together: 1 GB.
const MAX_FOLLOWED: usize = 1 << 25;

/// Coefficients of sources, in the order of the sources.
type Form = Vec<(u32, f64)>;

/// The origin of a source: a step and the form that it is applied to.
#[derive(PartialEq, Eq, Hash)]
enum Step {
    KeySwitch(Digest),
    Bootstrap(Digest, Vec<u32>, Reg, usize),
}

/// A form by its hash, so that long ones are not kept twice.
type Digest = [u8; 32];

/// The noise of a program, which is known before it runs.
#[derive(Debug, Clone)]
pub struct Followed {
    /// Noise variance of each register, torus units.
    pub noise: Vec<f64>,
    /// log2 of the probability that any bootstrap of one lane fails (union bound); −∞ without bootstraps.
    pub log2_pfail: f64,
    /// For each output, whether its noise is independent of the arguments and of the other outputs.
    pub independent: Vec<bool>,
}

impl Program {
    /// Follows the noise of independent arguments of the given variances (torus units, one for each input).
    ///
    /// # Errors
    /// [`Error::BadInput`] for the wrong number of variances; [`Error::TooNoisy`] if a bootstrap would fail more often
    /// than the parameter set claims.
    pub fn follow(&self, input_noise: &[f64]) -> Result<Followed> {
        self.follow_related(input_noise, &vec![false; input_noise.len()])
    }

    /// [`Program::follow`] where some arguments may be related to each other: the same ciphertexts twice, or sums that
    /// share a term.
    ///
    /// # Errors
    /// As [`Program::follow`].
    pub fn follow_related(&self, input_noise: &[f64], related: &[bool]) -> Result<Followed> {
        if input_noise.len() != self.inputs.len() || related.len() != self.inputs.len() {
            return Err(Error::bad_input(
                "follow",
                format!("{} noise variances", self.inputs.len()),
                input_noise.len().to_string(),
                "give one for each input",
            ));
        }
        follow(self, input_noise, related)
    }
}

struct Follower<'a> {
    program: &'a Program,
    /// Variances of the sources; the arguments come first.
    sources: Vec<f64>,
    /// Which sources may be related to others: arguments, and what mixes slots, where one form cannot tell which noise of
    /// which slot it took.
    related: Vec<bool>,
    steps: HashMap<Step, u32>,
    /// Forms of the registers that are still read.
    forms: Vec<Form>,
    /// Variances of all registers.
    noise: Vec<f64>,
    kept: usize,
    sum: Adder,
}

/// A form that is added up, by source.
#[derive(Default)]
struct Adder {
    /// The coefficient of each source that is in it, else nothing.
    coefficients: Vec<Option<f64>>,
    touched: Vec<u32>,
}

impl Adder {
    fn add(&mut self, form: &Form, factor: f64) {
        let last = form.last().map_or(0, |c| c.0 as usize + 1);
        if self.coefficients.len() < last {
            self.coefficients.resize(last, None);
        }
        for (source, c) in form {
            let place = &mut self.coefficients[*source as usize];
            if place.is_none() {
                self.touched.push(*source);
            }
            *place = Some(place.unwrap_or(0.0) + c * factor);
        }
    }

    /// The sum; nothing is left of it.
    fn taken(&mut self) -> Form {
        // Runs of ascending sources, one for each term: a stable sort merges them.
        self.touched.sort();
        let take = |s: u32| (s, self.coefficients[s as usize].take().unwrap_or(0.0));
        self.touched.drain(..).map(take).collect()
    }
}

/// Follows noise from the arguments' variances; `related` says which arguments may be related to others.
fn follow(program: &Program, variances: &[f64], related: &[bool]) -> Result<Followed> {
    let mut f = Follower {
        program,
        sources: variances.to_vec(),
        related: related.to_vec(),
        steps: HashMap::new(),
        forms: vec![Form::new(); program.regs.len()],
        noise: vec![0.0; program.regs.len()],
        kept: 0,
        sum: Adder::default(),
    };
    for (i, r) in program.inputs.iter().enumerate() {
        f.keep(*r, vec![(i as u32, 1.0)])?;
    }
    let last = program.last_reads();
    let set = NoiseReport::of(&program.params);
    let (mut worst, mut bootstraps) = (f64::NEG_INFINITY, 0.0f64);
    for (i, op) in program.ops.iter().enumerate() {
        match op {
            Op::MulAdd { dst, terms, .. } => f.linear(*dst, terms)?,
            Op::KeySwitch { dst, src } => f.key_switch(*dst, *src, set.key_switch)?,
            Op::AddSlots { dst, src, .. } | Op::Extract { dst, src, .. } => {
                f.linear(*dst, &[(1, *src)])?
            }
            Op::Pack { dst, srcs } => f.mix(*dst, srcs, 1.0, noise::pack(&program.params))?,
            Op::SlotMap { dst, src, sums, .. } => {
                let added = noise::slot_map(&program.params, sums.norm());
                f.mix(*dst, &[*src], sums.norm(), added)?
            }
            Op::Bootstrap { dst, src, table } => {
                let fail = f.check(*src, set.modulus_switch)?;
                (worst, bootstraps) = (worst.max(fail), bootstraps + 1.0);
                f.bootstrap(dst, *src, table, set.blind_rotation.total())?;
            }
        }
        for r in op.sources().iter().chain(op.results()).filter(|r| last[r.0 as usize] <= i) {
            let form = std::mem::take(&mut f.forms[r.0 as usize]);
            f.kept -= form.len();
        }
    }
    let independent = f.independent();
    let tables = bootstraps * program.params.slots as f64;
    Ok(Followed { noise: f.noise, log2_pfail: worst + tables.log2(), independent })
}

impl Follower<'_> {
    fn keep(&mut self, at: Reg, form: Form) -> Result<()> {
        self.kept += form.len();
        if self.kept > MAX_FOLLOWED {
            return Err(Error::memory(
                "follow",
                format!("at most {MAX_FOLLOWED} coefficients of noise"),
                "more: long sums of sums without a bootstrap",
                "bootstrap in between, or split the program",
            ));
        }
        self.noise[at.0 as usize] = self.variance(&form);
        self.forms[at.0 as usize] = form;
        Ok(())
    }

    /// The source of a step: the one that it had before, or a new one.
    fn source(&mut self, step: Step, variance: f64) -> u32 {
        let next = self.sources.len() as u32;
        let at = *self.steps.entry(step).or_insert(next);
        if at == next {
            self.sources.push(variance);
        }
        at
    }

    fn linear(&mut self, dst: Reg, terms: &[(i64, Reg)]) -> Result<()> {
        for (c, r) in terms {
            self.sum.add(&self.forms[r.0 as usize], *c as f64);
        }
        let form = self.sum.taken();
        self.keep(dst, form)
    }

    fn key_switch(&mut self, dst: Reg, src: Reg, variance: f64) -> Result<()> {
        let step = Step::KeySwitch(digest(&self.forms[src.0 as usize]));
        let added = self.source(step, variance);
        self.sum.add(&self.forms[src.0 as usize], 1.0);
        self.sum.add(&vec![(added, 1.0)], 1.0);
        let form = self.sum.taken();
        self.keep(dst, form)
    }

    /// Noise that goes from slot to slot: a new source of `factor`² times the worst source's variance, plus the added variance. It
    /// may be related to any other, so it adds as a standard deviation.
    fn mix(&mut self, dst: Reg, srcs: &[Reg], factor: f64, added: f64) -> Result<()> {
        let of = |r: &Reg| self.variance(&self.forms[r.0 as usize]);
        let worst = srcs.iter().map(of).fold(0.0, f64::max);
        let at = self.sources.len();
        self.sources.push(factor * factor * worst + added);
        self.related.resize(at, false);
        self.related.push(true);
        self.keep(dst, vec![(at as u32, 1.0)])
    }

    fn bootstrap(&mut self, dst: &[Reg], src: Reg, table: &TableRef, variance: f64) -> Result<()> {
        let input = digest(&self.forms[src.0 as usize]);
        // The noise of an encrypted table stays with all that is looked up in it.
        let (clear, from, own) = match table {
            TableRef::Clear(t) => (vec![*t], Reg(0), Form::new()),
            TableRef::Slots(tables) => (tables.clone(), Reg(0), Form::new()),
            TableRef::Encrypted(glwe, _) => (vec![], *glwe, self.forms[glwe.0 as usize].clone()),
        };
        let outputs = self.program.outputs_of(table);
        for (d, o) in dst.iter().zip(&*outputs) {
            let step = Step::Bootstrap(input, clear.clone(), from, o.index);
            let added = self.source(step, variance);
            self.sum.add(&own, 1.0);
            self.sum.add(&vec![(added, 1.0)], 1.0);
            let form = self.sum.taken();
            self.keep(*d, form)?;
        }
        Ok(())
    }

    fn variance(&self, form: &Form) -> f64 {
        let (mut alone, mut together) = (0.0, 0.0);
        for (s, c) in form {
            let s = *s as usize;
            if self.related.get(s).copied().unwrap_or(false) {
                together += c.abs() * self.sources[s].sqrt();
            } else {
                alone += c * c * self.sources[s];
            }
        }
        alone + together * together
    }

    /// log2 of the failure probability of a bootstrap of a register, or an error if it is above the set's claim.
    fn check(&self, src: Reg, modulus_switch: f64) -> Result<f64> {
        let variance = self.noise[src.0 as usize];
        let margin = self.program.regs[src.0 as usize].encoding.margin();
        let fail = noise::log2_erfc(margin / (2.0 * (variance + modulus_switch)).sqrt());
        let claim = self.program.params.log2_pfail;
        if fail <= claim + noise::CLAIM_TOLERANCE {
            return Ok(fail);
        }
        Err(Error::too_noisy(
            "bootstrap",
            format!("a failure probability of at most 2^{claim:.1}"),
            format!("2^{fail:.1} at noise 2^{:.2} (register {})", variance.sqrt().log2(), src.0),
            "bootstrap earlier, sum fewer ciphertexts, or use smaller coefficients",
        ))
    }

    fn independent(&self) -> Vec<bool> {
        let outputs = &self.program.outputs;
        let mut seen: HashMap<u32, usize> = HashMap::new();
        let distinct: HashSet<Reg> = outputs.iter().copied().collect();
        for (s, _) in distinct.iter().flat_map(|r| &self.forms[r.0 as usize]) {
            *seen.entry(*s).or_insert(0) += 1;
        }
        let arguments = self.program.inputs.len() as u32;
        let mixed = |s: u32| self.related.get(s as usize).copied().unwrap_or(false);
        let alone = |r: &Reg| {
            let mut sources = self.forms[r.0 as usize].iter().map(|c| c.0);
            sources.all(|s| s >= arguments && seen[&s] == 1 && !mixed(s))
        };
        outputs.iter().map(alone).collect()
    }
}

/// A digest of a form: two different forms have the same digest with probability 2^-128.
fn digest(form: &Form) -> Digest {
    let words = |(source, c): &(u32, f64)| [u64::from(*source), c.to_bits()];
    let words: Vec<u64> = form.iter().flat_map(words).collect();
    blake3::hash(bytemuck::cast_slice(&words)).into()
}
