//! Launches as they are recorded: a program is laid down on a device as a list of launches with addresses, and put there as often as it
//! runs.
//!
//! The same code records twice. The first time nothing has an address yet, and only sizes are counted; the second time the memory is
//! there. Launches run in the order in which they are recorded, so memory that a step gives back serves the steps after it.

use super::super::memory::Space;
use super::tables::Tables;
use crate::ckks::Context;
use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Conversion, Epilogue, Job, Target};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A launch and its arguments.
pub(super) struct Step {
    pub launch: Launch,
    pub arguments: Vec<Argument>,
}

/// The two kinds of memory of a program: for ciphertexts, which each lane has of its own, and for work, which groups of lanes use by turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ciphertext,
    Work,
}

/// Where the memory of a recording begins.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bases {
    pub ciphertexts: u64,
    pub work: u64,
    /// Of lists that all groups share.
    pub shared: u64,
    /// Of lists with addresses in them.
    pub own: u64,
}

/// Bytes that a recording takes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sizes {
    pub ciphertexts: u64,
    pub work: u64,
    pub shared: u64,
    pub own: u64,
}

/// A piece of memory, given back when its last owner is gone.
pub(super) struct Memory {
    space: Rc<RefCell<Space>>,
    offset: u64,
    bytes: u64,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.space.borrow_mut().give(self.offset, self.bytes);
    }
}

/// Some polynomials in memory, limb after limb.
#[derive(Clone)]
pub(super) struct Limbs {
    /// Its owner; none for constants, which stay.
    _memory: Option<Rc<Memory>>,
    /// Address of the first.
    pub at: u64,
    /// Doubles from one polynomial to the next; none where all lanes read the same.
    pub stride: u64,
}

impl Limbs {
    /// One of the polynomials.
    pub fn part(&self, k: u64) -> Limbs {
        Limbs { at: self.at + 8 * k * self.stride, ..self.clone() }
    }

    /// Part `k` of the ciphertexts of all lanes, whose two parts each lie one after another.
    pub fn of_lanes(&self, k: u64) -> Limbs {
        self.part(k).every(2 * self.stride)
    }

    /// The same place, with another way to the next polynomial.
    pub fn every(self, stride: u64) -> Limbs {
        Limbs { stride, ..self }
    }

    /// Constants at an address.
    pub fn constant(at: u64) -> Limbs {
        Limbs { _memory: None, at, stride: 0 }
    }
}

/// The step behind a forward transform.
pub(super) enum Then<'a> {
    Nothing,
    /// (x − y)·factor, y a limb of these.
    Subtract(&'a Limbs),
    /// x·factor.
    Scale,
}

/// Lists of constants that launches read.
#[derive(Default)]
pub(super) struct Lists {
    /// Of all groups of lanes, and where each begins.
    pub shared: Vec<u64>,
    known: HashMap<Vec<u64>, u64>,
    /// Of one group.
    pub own: Vec<u64>,
}

/// A recording.
pub(super) struct Tape<'a> {
    pub context: &'a Context,
    pub tables: &'a Tables,
    /// Lanes of the recording, which go together in each launch.
    pub lanes: usize,
    pub bases: Bases,
    ciphertexts: Rc<RefCell<Space>>,
    work: Rc<RefCell<Space>>,
    pub lists: Lists,
    pub steps: Vec<Step>,
}

impl<'a> Tape<'a> {
    /// A recording into memory at `bases`. Lists that groups of lanes share are those of the group before.
    pub fn new(
        context: &'a Context,
        tables: &'a Tables,
        lanes: usize,
        (bases, lists): (Bases, Lists),
    ) -> Tape<'a> {
        let lists = Lists { own: vec![], ..lists };
        let (ciphertexts, work) = Default::default();
        Tape { context, tables, lanes, bases, ciphertexts, work, lists, steps: vec![] }
    }

    /// N.
    pub fn degree(&self) -> u64 {
        self.context.params().degree() as u64
    }

    /// Bytes that all recorded launches need.
    pub fn sizes(&self) -> Sizes {
        // Beyond the last word, for a list without words may lie there, and its address is a place too.
        let bytes = |words: &[u64]| (8 * words.len() as u64 + 8).next_multiple_of(256);
        Sizes {
            ciphertexts: self.ciphertexts.borrow().peak().max(256),
            work: self.work.borrow().peak().max(256),
            shared: bytes(&self.lists.shared),
            own: bytes(&self.lists.own),
        }
    }

    /// Memory for `count` polynomials of `limbs` limbs each.
    pub fn take(&mut self, kind: Kind, count: usize, limbs: usize) -> Limbs {
        let (space, base) = match kind {
            Kind::Ciphertext => (&self.ciphertexts, self.bases.ciphertexts),
            Kind::Work => (&self.work, self.bases.work),
        };
        let stride = limbs as u64 * self.degree();
        let bytes = 8 * count as u64 * stride;
        let offset = space.borrow_mut().take(bytes);
        let memory = Memory { space: space.clone(), offset, bytes };
        Limbs { _memory: Some(Rc::new(memory)), at: base + offset, stride }
    }

    /// Words for launches to read, without addresses: lists that are the same are one.
    pub fn shared(&mut self, words: Vec<u64>) -> u64 {
        let next = self.lists.shared.len().next_multiple_of(4);
        let at = match self.lists.known.get(&words) {
            Some(at) => *at,
            None => {
                self.lists.shared.resize(next, 0);
                self.lists.shared.extend(&words);
                self.lists.known.insert(words, 8 * next as u64);
                8 * next as u64
            }
        };
        self.bases.shared + at
    }

    /// Words with addresses.
    pub fn own(&mut self, words: impl IntoIterator<Item = u64>) -> u64 {
        let at = self.lists.own.len().next_multiple_of(4);
        self.lists.own.resize(at, 0);
        self.lists.own.extend(words);
        self.bases.own + 8 * at as u64
    }

    /// Numbers for launches to read.
    pub fn numbers(&mut self, numbers: impl IntoIterator<Item = f64>) -> u64 {
        self.shared(numbers.into_iter().map(f64::to_bits).collect())
    }

    /// Records a launch.
    pub fn launch(&mut self, launch: Launch, arguments: impl Into<Vec<Argument>>) {
        self.steps.push(Step { launch, arguments: arguments.into() });
    }

    /// Values of limbs of `from` to those of other words in `to`, for each of `count` polynomials: transforms back along the rows into
    /// `between`, conversions with the columns of the transforms on both sides, and transforms forward along the rows.
    pub fn convert(
        &mut self,
        [from, between, to]: [&Limbs; 3],
        all: Conversions,
        count: usize,
        then: Then,
    ) {
        let Conversions { before, conversions, constants, after } = all;
        if after.is_empty() {
            return;
        }
        let of = |x: &Limbs| [Argument::Address(x.at), Argument::U64(x.stride)];
        let ([from, from_stride], [between, stride], [out, out_stride]) =
            (of(from), of(between), of(to));
        let (log2_n, polynomials, words) = (self.log2_n(), count as u32, self.tables.words());
        let [sources, limbs, number] =
            [before.len(), after.len(), conversions.len()].map(|x| x as u32);
        let before = self.list(before.iter().flat_map(Job::words));
        let rows = Launch::intt_rows(log2_n, sources, polynomials);
        self.launch(rows, [between, from, before, words, stride, from_stride]);
        let constants = Argument::Address(self.numbers(constants));
        let target = |job: &Job| Target { word: job.word, to: job.to };
        let targets = self.list(after.iter().flat_map(|job| target(job).words()));
        let list = self.list(conversions.iter().flat_map(Conversion::words));
        let launch = Launch::convert_words(log2_n, &conversions, polynomials);
        let lists = [before, list, constants, targets, words];
        let strides = [out_stride, stride, Argument::U32(number)];
        self.launch(launch, [&[out, between], &lists[..], &strides].concat());
        let (y, y_stride, kind) = match then {
            Then::Nothing => (0, 0, Epilogue::None),
            Then::Subtract(y) => (y.at, y.stride, Epilogue::Difference),
            Then::Scale => (0, 0, Epilogue::Product),
        };
        // The last limb first: the second-level cache still has those that the conversions made last.
        let after = self.list(after.iter().rev().flat_map(Job::words));
        let rows = Launch::ntt_rows(log2_n, limbs, polynomials);
        let [y, y_stride] = [Argument::Address(y), Argument::U64(y_stride)];
        self.launch(rows, [out, y, after, words, out_stride, y_stride, Argument::U32(kind as u32)]);
    }

    fn list(&mut self, words: impl Iterator<Item = u64>) -> Argument {
        Argument::Address(self.shared(words.collect()))
    }

    pub fn log2_n(&self) -> u32 {
        self.context.params().log2_degree
    }
}

/// Conversions of one launch.
#[derive(Default)]
pub(super) struct Conversions {
    /// The transforms back of all sources, by their limbs between.
    before: Vec<Job>,
    conversions: Vec<Conversion>,
    constants: Vec<f64>,
    /// The transforms forward of all targets.
    after: Vec<Job>,
}

impl Conversions {
    /// Adds one: the transform back of each source and 1/d of its word, the most products between two reductions, and for each target its
    /// transform forward, a factor for each source, and that of the quotient.
    pub fn push(
        &mut self,
        sources: impl IntoIterator<Item = Job>,
        inverses: &[f64],
        terms: usize,
        targets: impl IntoIterator<Item = (Job, Vec<f64>, f64)>,
    ) {
        let from = self.before.len() as u32;
        self.before.extend(sources);
        let (constant, target) = (self.constants.len() as u32, self.after.len() as u32);
        self.constants.extend(inverses);
        for (job, factors, quotient) in targets {
            self.constants.extend(factors);
            self.constants.push(quotient);
            self.after.push(job);
        }
        self.conversions.push(Conversion {
            sources: inverses.len() as u32,
            from,
            targets: self.after.len() as u32 - target,
            target,
            terms: terms as u32,
            constant,
            unused: 0,
        });
    }
}
