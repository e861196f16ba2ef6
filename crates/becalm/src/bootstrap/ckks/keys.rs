//! The parameter set and the keys for a need, their memory, and smaller keys where that is too much.
//!
//! All of it follows from the [`Chain`], before anything is made: milliseconds and no tables. Front ends record what a user
//! asked for as a [`Wish`], hand over the figures of its [`KeyPlan`], and put an [`Offer`] in their own words.

use super::offer::{Fit, Offer, said};
use super::pipeline::own_stages;
use super::wish::{Kind, SPARSE_SLOTS, USUAL_SIZE, Wish, toy_for, usual_form};
use super::{KEY_SIZES, MOST_STAGES, Settings, Values, regular, sign, slots_first, sparse, tables};
use crate::cipher::file::inspect;
use crate::cipher::{CkksKeys, KeyForm};
use crate::ckks::{Chain, Needs};
use crate::params::{self, CkksParams, USUAL_CKKS};
use crate::program::rlwe::CkksProgram;
use crate::words::megabytes;
use crate::{Error, Result};
use std::path::Path;

/// The cost of keys and their bootstraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Bytes of the keys in a file, but for its header.
    pub stored: usize,
    /// Bytes of the keys in memory.
    pub memory: usize,
    /// Bytes that the largest bootstrap takes beside its keys, about: matrices, ciphertexts and work space.
    pub beside: usize,
    /// Bytes of the tables of a context, about.
    pub tables: usize,
}

impl Price {
    /// Bytes of the keys and of a bootstrap's work beside them.
    pub fn peak(&self) -> usize {
        self.memory + self.beside
    }
}

/// The memory that a bootstrap takes beside its keys where they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// Matrices, and room to work.
    Bootstrap,
    /// Matrices: the work takes the memory of a GPU.
    Matrices,
    /// None: another process computes.
    Nothing,
}

/// A parameter set, the bootstraps that keys are made for, and the cost of the keys.
#[derive(Debug, Clone)]
pub struct KeyPlan {
    chain: Chain,
    wish: Wish,
    slots: usize,
    /// Whether the wish named no kind, so that the plan has the usual one of the set.
    usual: bool,
    beside: Beside,
    /// Whether a secret key is there, so that no other set serves.
    settled: bool,
    programs: Vec<(Kind, CkksProgram)>,
}

impl KeyPlan {
    /// The plan of the keys in a file, by the note of their maker.
    ///
    /// # Errors
    /// `Io`; `BadFile` for a file of another kind; as [`Wish::noted`] and [`KeyPlan::new`].
    pub fn noted(path: impl AsRef<Path>) -> Result<KeyPlan> {
        let found = inspect(path)?.of_ckks_keys()?;
        KeyPlan::new(CkksParams::named(&found.params)?, &Wish::noted(&found.note)?)
    }

    /// The form in memory that the maker of a file of keys meant; ready ones where the file does not say.
    pub fn form_noted(path: impl AsRef<Path>) -> KeyForm {
        KeyPlan::noted(path).map_or(KeyForm::Ready, |plan| plan.form())
    }

    /// The plan of a wish.
    ///
    /// # Errors
    /// `WrongParams` for bootstraps of a set that has none or not of this kind; `BadInput` for slots, stages or sizes that cannot be.
    ///
    /// ```
    /// use becalm::bootstrap::ckks::{KeyPlan, Wish, set_for};
    ///
    /// let plan = KeyPlan::new(set_for(&[], None, 1)?, &Wish::default())?;
    /// println!("{:.2} GB of keys in memory", plan.price()?.memory as f64 / 1e9);
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn new(params: &'static CkksParams, wish: &Wish) -> Result<KeyPlan> {
        let (op, mut wish) = ("keygen", wish.clone());
        wish.form = wish.form.or(Some(usual_form(params)));
        let usual = Wish { size: wish.size.filter(|s| *s != USUAL_SIZE), ..Wish::default() };
        let plain = usual.size.is_none() && wish.kinds.is_empty() && wish.stage_count.is_none();
        let plain = plain && wish.iterations == 1;
        if params.bootstrap.is_none() {
            if !plain {
                let remedy = format!(
                    "leave kinds, size, stages and iterations of a bootstrap out, or use `{USUAL_CKKS}`"
                );
                let got = format!("`{}`", params.name);
                return Err(Error::wrong_params(op, "a set with a bootstrap", got, remedy));
            }
            // The usual size is the default.
            wish.size = None;
        }
        // As many as fit are for another kind.
        let few = wish.kinds.contains(&Kind::Sparse);
        let most = if few { params.slots() / 2 } else { params.slots() };
        let (least, needed) = (1 + usize::from(wish.size.is_some()), wish.needs.slots);
        let needed = match (needed, few) {
            (0, true) => SPARSE_SLOTS.min(most),
            (0, false) => params.slots(),
            (needed, _) => needed,
        };
        let slots = wish.slots.unwrap_or(needed);
        if !slots.is_power_of_two() || !(least..=most).contains(&slots) {
            let wanted = format!("a power of two from {least} to {most} as slots");
            let remedy = "choose one of these: vectors that are shorter are filled with zeros";
            return Err(Error::bad_input(op, wanted, slots.to_string(), remedy));
        }
        let usual = wish.kinds.is_empty();
        if wish.size.is_none() {
            if let Some(kind) = wish.kinds.first() {
                let wanted = "kinds for keys with a bootstrap";
                let got = format!("the kind {} for keys without one", kind.name());
                let remedy = "leave the kinds out, or choose a size of the keys of a bootstrap";
                return Err(Error::bad_input(op, wanted, got, remedy));
            }
        } else if wish.kinds.is_empty() {
            let first = params.bootstrap.is_some_and(|b| b.slots_first);
            let last = if slots < most { Kind::Sparse } else { Kind::Regular };
            let integers = params.bootstrap.is_some_and(|b| b.table_bits > 0);
            wish.kinds = vec![match (integers, first) {
                (true, _) => Kind::Table,
                (false, true) => Kind::SlotsFirst,
                (false, false) => last,
            }];
        }
        let chain = Chain::new(params)?;
        let (beside, settled, programs) = (Beside::Bootstrap, false, vec![]);
        let mut plan = KeyPlan { chain, wish, slots, usual, beside, settled, programs };
        plan.programs = plan.recorded(plan.wish.size)?;
        Ok(plan)
    }

    /// The same keys for a machine with memory of its own, such as a GPU: here a bootstrap takes keys and matrices, and no room to work.
    pub fn far(self) -> KeyPlan {
        KeyPlan { beside: Beside::Matrices, ..self }
    }

    /// The same keys for another process, which computes with them: here they are made, and take their own memory alone.
    pub fn alone(self) -> KeyPlan {
        KeyPlan { beside: Beside::Nothing, ..self }
    }

    /// The same keys for a secret key that is there: none of another set are offered.
    pub fn of_its_set(self) -> KeyPlan {
        KeyPlan { settled: true, ..self }
    }

    /// The plan of another wish for the same machine.
    fn like(&self, set: &'static CkksParams, wish: &Wish) -> Result<KeyPlan> {
        Ok(KeyPlan { beside: self.beside, ..KeyPlan::new(set, wish)? })
    }

    /// Bytes that a bootstrap takes beside keys and matrices.
    fn work(&self) -> usize {
        match self.beside {
            Beside::Bootstrap => CkksProgram::work_bytes(self.chain.params()),
            Beside::Matrices | Beside::Nothing => 0,
        }
    }

    /// The chain of its set.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Values in a ciphertext.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The request, with the usual kind where none was named and without a size where there is no bootstrap.
    pub fn wish(&self) -> &Wish {
        &self.wish
    }

    /// How the keys are held in memory.
    pub fn form(&self) -> KeyForm {
        self.wish.form.unwrap_or_else(|| usual_form(self.chain.params()))
    }

    /// Matrices of each transform of the usual bootstrap; none for keys without one.
    pub fn stage_count(&self) -> Option<usize> {
        let (_, program) = self.programs().next()?;
        let slots = program.inputs().first().and_then(|reg| program.info(*reg))?.slots;
        let own = || self.chain.params().bootstrap.map(|b| own_stages(&b, slots));
        self.wish.stage_count.or_else(own)
    }

    /// The bootstraps, in the order of their kinds.
    pub fn programs(&self) -> impl Iterator<Item = (Kind, &CkksProgram)> {
        self.programs.iter().map(|(kind, program)| (*kind, program))
    }

    fn recorded(&self, size: Option<&'static str>) -> Result<Vec<(Kind, CkksProgram)>> {
        let values = self.wish.values.unwrap_or_default();
        let record = |kind: &Kind| Ok((*kind, self.record_of(*kind, size, None, values, None)?));
        self.wish.kinds.iter().map(record).collect()
    }

    /// A bootstrap for these keys; of as many stages and iterations as were asked for, unless a number is given.
    ///
    /// # Errors
    /// As the bootstraps; `WrongParams` for a precise one of a set without the arcsine.
    pub fn record(
        &self,
        kind: Kind,
        stage_count: Option<usize>,
        values: Values,
        iterations: Option<usize>,
    ) -> Result<CkksProgram> {
        self.record_of(kind, self.wish.size, stage_count, values, iterations)
    }

    /// Tables of integers for these keys, as [`tables`] has them.
    ///
    /// # Errors
    /// As there; `WrongParams` for a set without tables.
    pub fn tables(&self, bits: u32, all: &[Vec<u64>]) -> Result<CkksProgram> {
        Kind::Table.require_in(self.chain.params())?;
        tables(&self.chain, bits, all, &self.settings())
    }

    /// The settings of programs for these keys.
    pub fn settings(&self) -> Settings {
        Settings { stage_count: self.wish.stage_count, ..self.settings_of(self.wish.size) }
    }

    /// The settings of keys of a size.
    fn settings_of(&self, size: Option<&'static str>) -> Settings {
        let baby = KEY_SIZES.iter().find(|(name, _)| Some(*name) == size.or(Some(USUAL_SIZE)));
        baby.map_or_else(Settings::default, |(_, baby)| Settings {
            baby: *baby,
            ..Settings::default()
        })
    }

    fn record_of(
        &self,
        kind: Kind,
        size: Option<&'static str>,
        stage_count: Option<usize>,
        values: Values,
        iterations: Option<usize>,
    ) -> Result<CkksProgram> {
        let settings = Settings {
            stage_count: stage_count.or(self.wish.stage_count),
            values,
            iterations: iterations.unwrap_or(self.wish.iterations),
            ..self.settings_of(size)
        };
        let params = self.chain.params();
        kind.require_in(params)?;
        match kind {
            Kind::Sparse => sparse(&self.chain, self.slots, &settings),
            Kind::SlotsFirst => slots_first(&self.chain, self.slots, &settings),
            Kind::Sign => sign(&self.chain, &settings),
            Kind::Precise if params.bootstrap.is_some_and(|b| !b.arcsine) => {
                let (wanted, got) = ("a set with the arcsine", format!("`{}`", params.name));
                let remedy = match params.kind {
                    params::Kind::Toy => "use `ckks_toy_precise` for the precise kind",
                    _ => "use `ckks_precise` for the precise kind",
                };
                Err(Error::wrong_params("bootstrap", wanted, got, remedy))
            }
            Kind::Regular | Kind::Precise => regular(&self.chain, &settings),
            Kind::Table => {
                // Every table takes these keys.
                let bits = params.bootstrap.map_or(0, |b| b.table_bits);
                tables(&self.chain, bits, &[(0..1 << bits).collect()], &settings)
            }
        }
    }

    /// The keys of the bootstraps, and those for operations at the user's levels.
    pub fn needs(&self) -> Needs {
        self.needs_of(&self.programs)
    }

    fn needs_of(&self, programs: &[(Kind, CkksProgram)]) -> Needs {
        let (level, slots) = (self.chain.params().levels, self.slots as i64);
        let turns = self.wish.rotations.iter().map(|by| by.rem_euclid(slots)).filter(|by| *by != 0);
        let conjugate = self.wish.conjugate.then_some(level);
        let own = Needs { conjugate, ..Needs::default() }.rotate(turns, level);
        let own = own.union(&self.wish.needs);
        programs.iter().fold(own, |needs, (_, program)| needs.union(&program.needs()))
    }

    /// The cost of keys and bootstraps.
    ///
    /// # Errors
    /// As [`KeyPlan::record`].
    pub fn price(&self) -> Result<Price> {
        let (needs, form) = (self.needs(), self.form());
        Ok(Price {
            stored: self.chain.stored_key_bytes(&needs),
            memory: self.chain.key_bytes_as(&needs, form),
            beside: self.beside()?,
            tables: self.chain.table_bytes(),
        })
    }

    /// Bytes beside the keys: of a bootstrap, else of the tables. Matrices do not depend on the size of the keys; those of real values may
    /// be larger, as they do not repeat along the slots.
    fn beside(&self) -> Result<usize> {
        if self.beside == Beside::Nothing {
            return Ok(0);
        }
        let mut most = self.programs.iter().map(|(_, p)| p.matrix_bytes(&self.chain)).max();
        for kind in &self.wish.kinds {
            let full = matches!(kind, Kind::Regular | Kind::Precise);
            if full && self.wish.values.is_none() {
                let real = self.record(*kind, None, Values::Real, None)?;
                most = most.max(Some(real.matrix_bytes(&self.chain)));
            }
        }
        Ok(most.map_or_else(|| self.chain.table_bytes(), |bytes| bytes + self.work()))
    }

    /// The sizes below this one, the largest first.
    fn smaller(&self) -> Vec<&'static str> {
        let names = KEY_SIZES.iter().rev().map(|(name, _)| *name);
        let below = names.skip_while(|name| Some(*name) != self.wish.size).skip(1);
        if self.programs.is_empty() { vec![] } else { below.collect() }
    }

    /// Other keys of this set, the fastest first: packed ones, smaller ones, and seeded ones, which are slower than smaller ones.
    ///
    /// # Errors
    /// As [`KeyPlan::record`].
    pub fn others(&self) -> Result<Vec<Offer>> {
        let beside = self.beside()?;
        self.other_keys(true, |needs, form| self.chain.key_bytes_as(needs, form) + beside)
    }

    /// Other keys of this set that take less, the fastest first: packed ones, smaller ones, and smaller ones that are packed. Each counts
    /// what is made: the keys that are not `known`, and no bootstrap beside them.
    ///
    /// # Errors
    /// As [`KeyPlan::record`].
    pub fn less_to_make(&self, known: Option<&CkksKeys>) -> Result<Vec<Offer>> {
        let bytes = |needs: &Needs, form| self.chain.bytes_to_make(needs, form, known);
        let own = bytes(&self.needs(), self.form());
        let all = self.other_keys(false, bytes)?.into_iter();
        Ok(all.filter(|offer| offer.bytes < own).collect())
    }

    /// Other keys of this set and their `bytes`. Where `seeded` ones are out of the question, smaller ones that are packed.
    fn other_keys(
        &self,
        seeded: bool,
        bytes: impl Fn(&Needs, KeyForm) -> usize,
    ) -> Result<Vec<Offer>> {
        let smaller = self.smaller();
        let unlike = |form: KeyForm| (self.form() != form).then_some(form);
        let ready = self.form() == KeyForm::Ready;
        let packed = if ready { Some(KeyForm::Packed) } else { None };
        let mut ways = vec![];
        ways.extend(packed.map(|form| (None, Some(form))));
        ways.extend(smaller.iter().map(|size| (Some(*size), None)));
        let last = if seeded { unlike(KeyForm::Seeded) } else { packed };
        ways.extend(last.filter(|_| seeded).map(|form| (None, Some(form))));
        ways.extend(
            last.into_iter()
                .flat_map(|form| smaller.iter().map(move |size| (Some(*size), Some(form)))),
        );
        let mut needs = vec![(None, self.needs())];
        for size in &smaller {
            needs.push((Some(*size), self.needs_of(&self.recorded(Some(*size))?)));
        }
        let offer = |(size, form): (Option<&'static str>, Option<KeyForm>)| {
            let needs = needs.iter().find(|(own, _)| *own == size).map(|(_, needs)| needs)?;
            let bytes = bytes(needs, form.unwrap_or(self.form()));
            Some(Offer { size, form, bytes, ..self.offer() })
        };
        Ok(ways.into_iter().filter_map(offer).collect())
    }

    /// An offer equal to the request.
    fn offer(&self) -> Offer {
        let (set, stages, size, form) = (None, None, None, None);
        Offer { set, slots: self.slots, stages, size, form, stored: false, bytes: 0 }
    }

    /// The same keys for other numbers of stages that take less; none where no number was asked for.
    fn of_other_stages(&self) -> Result<Vec<Offer>> {
        let Some(own) = self.wish.stage_count else { return Ok(vec![]) };
        let (peak, set) = (self.price()?.peak(), self.chain.params());
        let offer = |stages: usize| {
            let wish = Wish { stage_count: Some(stages), ..self.wish.clone() };
            let bytes = self.like(set, &wish).and_then(|plan| plan.price()).ok()?.peak();
            (bytes < peak).then(|| Offer { stages: Some(stages), bytes, ..self.offer() })
        };
        Ok((1..=MOST_STAGES).filter(|stages| *stages != own).filter_map(offer).collect())
    }

    /// The keys of the next smaller ring that fit, as they were asked for or otherwise.
    pub fn of_smaller_ring(&self, free: usize) -> Option<Offer> {
        self.in_smaller_ring(&|offer| offer.bytes <= free)
    }

    /// The first offer that `will_do` of the usual sets of smaller rings, the largest ring first.
    fn in_smaller_ring(&self, will_do: &dyn Fn(&Offer) -> bool) -> Option<Offer> {
        if self.settled {
            return None;
        }
        let own = self.chain.params();
        let fits = |p: &&CkksParams| {
            let bootstraps = self.programs.is_empty() || p.bootstrap.is_some();
            p.kind == params::Kind::Standard && p.log2_degree < own.log2_degree && bootstraps
        };
        let mut sets: Vec<&CkksParams> = CkksParams::all().iter().filter(fits).collect();
        sets.sort_by_key(|p| std::cmp::Reverse(p.log2_degree));
        let mut seen = vec![];
        for set in sets {
            if seen.contains(&set.log2_degree) {
                continue;
            }
            let slots = Some(self.slots.min(set.slots()));
            // Each set has a usual kind and form of its own.
            let kinds = if self.usual { vec![] } else { self.wish.kinds.clone() };
            let form = self.wish.form.filter(|form| *form != usual_form(self.chain.params()));
            let wish = Wish { slots, kinds, stage_count: None, form, ..self.wish.clone() };
            let found = || {
                let plan = self.like(set, &wish)?;
                let asked = Offer { bytes: plan.price()?.peak(), ..plan.offer() };
                let all = std::iter::once(asked).chain(plan.others()?);
                Ok::<_, Error>(all.map(|offer| Offer { set: Some(set), ..offer }).find(will_do))
            };
            // A kind of bootstrap that the set does not have.
            let Ok(found) = found() else { continue };
            // The usual set of a ring says it for all of them.
            seen.push(set.log2_degree);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Bytes that a bootstrap by keys of a size takes while keys and matrices stay in their file.
    ///
    /// # Errors
    /// As [`KeyPlan::record`].
    pub fn stored_bytes(&self, size: Option<&'static str>) -> Result<usize> {
        let programs = self.recorded(size)?;
        let least = programs.iter().map(|(_, p)| p.least_bytes(&self.chain)).max();
        // The key of multiplication, which every set has.
        let none = || self.chain.key_bytes(&Needs::default());
        Ok(least.map_or_else(none, |bytes| bytes + self.work()))
    }

    /// Keys that another machine makes, and that this one can leave in their file: the largest that fit.
    fn made_elsewhere(&self, free: usize) -> Result<Option<Offer>> {
        let own = std::iter::once(self.wish.size);
        for size in own.chain(self.smaller().into_iter().map(Some)) {
            let bytes = self.stored_bytes(size)?;
            if bytes <= free {
                return Ok(Some(Offer { size, stored: true, bytes, ..self.offer() }));
            }
        }
        Ok(None)
    }

    /// Offers that fit `free` bytes instead: the fastest other keys of this set, and those of another number of stages where one was asked
    /// for; else those of a smaller ring, and keys that another machine makes.
    ///
    /// # Errors
    /// As [`KeyPlan::record`].
    pub fn offers(&self, free: usize) -> Result<Vec<Offer>> {
        self.offers_in(free, |_| Some(String::new()))
    }

    /// [`KeyPlan::offers`] of those that there are `words` for.
    fn offers_in(
        &self,
        free: usize,
        words: impl Fn(&Offer) -> Option<String>,
    ) -> Result<Vec<Offer>> {
        let will_do = |offer: &Offer| offer.bytes <= free && words(offer).is_some();
        let own = [self.others()?, self.of_other_stages()?];
        let found: Vec<Offer> =
            own.into_iter().filter_map(|offers| offers.into_iter().find(will_do)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let stored = self.made_elsewhere(free)?.filter(will_do);
        Ok(self.in_smaller_ring(&will_do).into_iter().chain(stored).collect())
    }

    /// The ways of reading keys from their file with which they and a bootstrap fit `free` bytes.
    ///
    /// # Errors
    /// As [`KeyPlan::record`].
    pub fn readings(&self, keys: &CkksKeys, free: usize) -> Result<Vec<Offer>> {
        let forms: &[KeyForm] = match self.form() {
            KeyForm::Ready => &[KeyForm::Packed, KeyForm::Seeded],
            KeyForm::Packed => &[KeyForm::Seeded],
            KeyForm::Seeded => &[],
        };
        let beside = self.beside()?;
        let read = |form: &KeyForm| {
            let bytes = self.chain.bytes_as(keys, *form) + beside;
            Offer { form: Some(*form), bytes, ..self.offer() }
        };
        let stored =
            Offer { stored: true, bytes: self.stored_bytes(self.wish.size)?, ..self.offer() };
        let all = forms.iter().map(read).chain([stored]);
        Ok(all.filter(|offer| offer.bytes <= free).collect())
    }

    /// Refuses keys that do not fit `free` bytes with their bootstraps. The remedy has every offer that there are `words` for, with the
    /// bytes that it takes, then `otherwise`.
    ///
    /// # Errors
    /// `Memory`; as [`KeyPlan::record`].
    pub fn require(
        &self,
        op: &'static str,
        free: Option<usize>,
        words: impl Fn(&Offer) -> Option<String>,
        otherwise: &str,
    ) -> Result<()> {
        let wanted = self.price()?.peak();
        let Some(free) = free.filter(|free| wanted > *free) else { return Ok(()) };
        let offers = self.offers_in(free, &words)?;
        // If keys of the set itself fit, no smaller ones are offered.
        let own = offers.iter().any(|o| o.set.is_none() && !o.stored);
        let otherwise = if own { "" } else { otherwise };
        let what = match self.beside {
            Beside::Nothing => "for keys",
            _ if self.programs.is_empty() => "for keys and tables",
            _ => "for keys, matrices and the work of a bootstrap",
        };
        let (wanted, got) = (format!("{} {what}", megabytes(wanted)), megabytes(free));
        Err(Error::memory(op, wanted, format!("{got} free"), said(&offers, words, otherwise)))
    }

    /// The keys that fit `free` bytes with their bootstraps: as they were asked for, else the fastest others of this set, else those of
    /// the next smaller ring, else a toy. Keys of another size count only where `any_size` does.
    ///
    /// # Errors
    /// As [`KeyPlan::record`].
    pub fn fit(&self, free: Option<usize>, any_size: bool) -> Result<Fit> {
        let wanted = self.price()?.peak();
        let Some(free) = free.filter(|free| wanted > *free) else { return Ok(Fit::AsAsked) };
        let meant = |offer: &Offer| offer.bytes <= free && (any_size || offer.size.is_none());
        let mut offers = self.others()?.into_iter().chain(self.of_smaller_ring(free));
        match offers.find(meant) {
            Some(offer) => Ok(Fit::Instead(offer)),
            None => Ok(Fit::Toy(toy_for(&self.wish.kinds, self.wish.iterations)?)),
        }
    }

    /// An error of memory with the offers that fit `free` bytes as its remedy, in `words`; other errors as they are.
    pub fn remedied(
        &self,
        error: Error,
        free: Option<usize>,
        words: impl Fn(&Offer) -> Option<String>,
        otherwise: &str,
    ) -> Error {
        let Error::Memory(d) = error else { return error };
        let offers = self.offers_in(free.unwrap_or(usize::MAX), &words).unwrap_or_default();
        Error::memory(d.op, d.wanted, d.got, said(&offers, words, otherwise))
    }

    /// The same bootstraps of as many stages as take less beside their keys.
    ///
    /// # Errors
    /// As [`KeyPlan::record`].
    pub fn less_beside(&self) -> Result<Vec<Offer>> {
        let (own, set) = (self.beside()?, self.chain.params());
        let offer = |stages: usize| {
            let wish = Wish { stage_count: Some(stages), ..self.wish.clone() };
            let bytes = self.like(set, &wish).and_then(|plan| plan.beside()).ok()?;
            (bytes < own).then(|| Offer { stages: Some(stages), bytes, ..self.offer() })
        };
        Ok((1..=MOST_STAGES).filter_map(offer).collect())
    }

    /// The purpose of the keys, to be written into their file; [`Wish::noted`] reads it.
    pub fn note(&self) -> String {
        self.wish.note(self.slots)
    }
}
