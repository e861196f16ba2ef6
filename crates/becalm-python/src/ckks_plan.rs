//! CKKS before anything is made: the cost of keys, which keys would fit, and the bootstraps that they are for.

use crate::call::{guarded, raise, supervised};
use crate::ckks_evaluate::CkksKeys;
use crate::ckks_function::CkksFunction;
use crate::ckks_machine::{CkksMachine, MemoryBudget};
use crate::ckks_program::CkksProgram;
use crate::keys::CkksNeeds;
use becalm::Result;
use becalm::backend::{Cpu, by_name};
use becalm::bootstrap::ckks::{
    Instead, KeyPlan, Kind, Offer, Settings, Values, Wish, pack, said, said_or_least, set_for,
    size_named, unpack,
};
use becalm::cipher::KeyForm;
use becalm::ckks::Chain;
use becalm::params::CkksParams;
use becalm::words::counted;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// The chain of moduli of a parameter set: kilobytes, and enough to plan.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksChain(Chain);

#[pymethods]
impl CkksChain {
    /// The chain of the set of a name, without a check of its security.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        planned(|| Ok(CkksChain(Chain::new(CkksParams::named(name)?)?)))
    }

    /// Bytes, about, of the tables of a context of this set.
    #[getter]
    fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }

    /// The level that a bootstrap raises to.
    #[getter]
    fn top_level(&self) -> usize {
        self.0.params().top_level()
    }

    /// The highest level of products and conjugates, with those of bootstraps.
    #[getter]
    fn product_level(&self) -> usize {
        self.0.params().product_level()
    }

    /// The highest level of each tier. Keys of a tier serve no other.
    #[getter]
    fn tier_tops(&self) -> Vec<usize> {
        self.0.params().tiers().into_iter().map(|levels| levels.end - 1).collect()
    }

    /// Refuses the tables of a context that do not fit `free` bytes.
    fn require_tables(&self, free: usize, otherwise: &str) -> PyResult<()> {
        planned(|| self.0.require_tables("engine", Some(free), otherwise))
    }

    /// The remedy where keys in a form that are not `known` do not fit `free` bytes: an `Engine` of packed ones, if these keys are not packed.
    fn packed(
        &self,
        needs: &CkksNeeds,
        form: &str,
        known: Option<&CkksKeys>,
        free: usize,
        otherwise: &str,
    ) -> PyResult<String> {
        planned(|| {
            let (form, known) = (KeyForm::named(form)?, known.map(|keys| &*keys.1));
            let packed = Offer::packed(&self.0, &needs.0, form, known);
            Ok(said_or_least(packed.as_slice(), free, |o| Some(of_engine(o)), otherwise))
        })
    }
}

/// Planning: milliseconds on the calling thread.
fn planned<T>(work: impl FnOnce() -> Result<T>) -> PyResult<T> {
    guarded(|| work().map_err(raise))
}

/// Keys that a user asks for, and their cost.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksPlan(KeyPlan);

#[pymethods]
impl CkksPlan {
    /// A plan for the set of a name. `size` is that of the keys of a bootstrap, none for arithmetic alone.
    #[new]
    #[pyo3(signature = (name, slots=None, kinds=vec![], size=None, stage_count=None, rotations=vec![], conjugate=false, form=None, needs=None, iterations=1))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        name: &str,
        slots: Option<usize>,
        kinds: Vec<String>,
        size: Option<&str>,
        stage_count: Option<usize>,
        rotations: Vec<i64>,
        conjugate: bool,
        form: Option<&str>,
        needs: Option<&CkksNeeds>,
        iterations: usize,
    ) -> PyResult<Self> {
        planned(|| {
            let kinds = kinds.iter().map(|name| Kind::named(name)).collect::<Result<_>>()?;
            let size = size.map(size_named).transpose()?;
            let form = form.map(KeyForm::named).transpose()?;
            let (values, needs) = (None, needs.map(|needs| needs.0.clone()).unwrap_or_default());
            let wish = Wish {
                slots,
                kinds,
                size,
                stage_count,
                iterations,
                values,
                rotations,
                conjugate,
                needs,
                form,
            };
            Ok(CkksPlan(KeyPlan::new(CkksParams::named(name)?, &wish)?))
        })
    }

    /// The name of the standard set for kinds of bootstrap, for the levels that they leave, and for iterations of them.
    #[staticmethod]
    #[pyo3(signature = (kinds, levels, iterations=1))]
    fn set_for(
        kinds: Vec<String>,
        levels: Option<usize>,
        iterations: usize,
    ) -> PyResult<&'static str> {
        planned(|| {
            let kinds = kinds.iter().map(|name| Kind::named(name)).collect::<Result<Vec<_>>>()?;
            Ok(set_for(&kinds, levels, iterations)?.name)
        })
    }

    /// The plan of the keys of a file by its note, but for what is given: a set, slots, kinds, stages, a form; and a size unless it is to be
    /// `as_made`.
    #[staticmethod]
    #[pyo3(signature = (name, note, slots=None, kinds=vec![], size=None, stage_count=None, form=None, as_made=true))]
    #[allow(clippy::too_many_arguments)]
    fn noted(
        name: &str,
        note: &str,
        slots: Option<usize>,
        kinds: Vec<String>,
        size: Option<&str>,
        stage_count: Option<usize>,
        form: Option<&str>,
        as_made: bool,
    ) -> PyResult<Self> {
        planned(|| {
            let kinds = kinds.iter().map(|name| Kind::named(name)).collect::<Result<_>>()?;
            let size = (!as_made).then(|| size.map(size_named).transpose()).transpose()?;
            let form = form.map(KeyForm::named).transpose()?;
            let instead = Instead { slots, kinds, size, stage_count, form };
            let wish = Wish::noted(note)?.instead(instead);
            let params = match name {
                "ckks" => set_for(&wish.kinds, None, wish.iterations)?,
                name => CkksParams::named(name)?,
            };
            Ok(CkksPlan(KeyPlan::new(params, &wish)?))
        })
    }

    /// Name of the set.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.chain().params().name
    }

    /// Values in a ciphertext.
    #[getter]
    fn slots(&self) -> usize {
        self.0.slots()
    }

    /// Kinds of bootstrap, the usual one first.
    #[getter]
    fn kinds(&self) -> Vec<&'static str> {
        self.0.wish().kinds.iter().map(|kind| kind.name()).collect()
    }

    /// Size of the keys, if they are for bootstraps.
    #[getter]
    fn size(&self) -> Option<&'static str> {
        self.0.wish().size
    }

    /// Matrices of each transform, if a number was asked for.
    #[getter]
    fn stage_count(&self) -> Option<usize> {
        self.0.wish().stage_count
    }

    /// Matrices of each transform of the usual bootstrap, asked for or not.
    #[getter]
    fn stages(&self) -> Option<usize> {
        self.0.stage_count()
    }

    /// How the keys are held in memory: ready, packed or seeded.
    #[getter]
    fn form(&self) -> &'static str {
        self.0.form().name()
    }

    /// The bootstraps, in the order of their kinds.
    #[getter]
    fn programs(&self) -> Vec<CkksProgram> {
        self.0.programs().map(|(_, program)| CkksProgram::of(program.clone())).collect()
    }

    /// Records a bootstrap for these keys: `values` are complex, real or merged.
    #[pyo3(signature = (kind, stage_count, values, iterations=None))]
    fn record(
        &self,
        kind: &str,
        stage_count: Option<usize>,
        values: &str,
        iterations: Option<usize>,
    ) -> PyResult<CkksProgram> {
        planned(|| {
            let (kind, values) = (Kind::named(kind)?, Values::named(values)?);
            Ok(CkksProgram::of(self.0.record(kind, stage_count, values, iterations)?))
        })
    }

    /// Records tables of integers of so many bits for these keys.
    fn tables(&self, bits: u32, tables: Vec<Vec<u64>>) -> PyResult<CkksProgram> {
        planned(|| Ok(CkksProgram::of(self.0.tables(bits, &tables)?)))
    }

    /// Records numbers in slots as integers: `values` are real, complex or merged, and within `near` of integers.
    fn pack(&self, bits: u32, slots: usize, near: f64, values: &str) -> PyResult<CkksProgram> {
        planned(|| {
            let settings = Settings { values: Values::named(values)?, ..self.0.settings() };
            Ok(CkksProgram::of(pack(self.0.chain(), bits, slots, near, &settings)?))
        })
    }

    /// Records integers as the numbers of tables in slots, in one result of each or two.
    fn unpack(
        &self,
        bits: u32,
        tables: Vec<Vec<f64>>,
        clean: bool,
        halves: usize,
    ) -> PyResult<CkksProgram> {
        planned(|| {
            let (chain, settings) = (self.0.chain(), self.0.settings());
            Ok(CkksProgram::of(unpack(chain, bits, &tables, clean, halves, &settings)?))
        })
    }

    /// Gives a program the usual kind of bootstrap for functions that ask for it, or, `auto`, for every instruction.
    fn bootstraps_for(&self, program: &CkksProgram, auto: bool) -> PyResult<()> {
        planned(|| program.bootstrap_by(&self.0, auto))
    }

    /// Bootstraps that a function takes on real vectors at these levels.
    fn bootstraps_of(
        &self,
        function: &CkksFunction,
        levels: Vec<usize>,
        slots: usize,
    ) -> PyResult<usize> {
        planned(|| function.0.bootstraps(&self.0, &levels, slots))
    }

    /// The keys of the bootstraps, and those for the user's operations.
    fn needs(&self) -> CkksNeeds {
        CkksNeeds(self.0.needs())
    }

    /// Bytes of the keys in a file and in memory, and of keys and a bootstrap at the most.
    fn price(&self) -> PyResult<(usize, usize, usize)> {
        planned(|| self.0.price().map(|p| (p.stored, p.memory, p.peak())))
    }

    /// The purpose of the keys, to be written into their file.
    fn note(&self) -> String {
        self.0.note()
    }

    /// Refuses keys that do not fit `free` bytes with their bootstraps on a machine, with arguments of `keygen` that do; for a secret key that
    /// is `made` already, with those of its `server`.
    #[pyo3(signature = (free, device="cpu", made=false))]
    fn require(&self, free: Option<usize>, device: &str, made: bool) -> PyResult<()> {
        let otherwise = "free memory, or ask for fewer slots or rotations";
        planned(|| {
            let far = by_name(device, &Cpu::new(1)?)?.is_far();
            let plan = if far { self.0.clone().far() } else { self.0.clone() };
            let (op, plan) = if made { ("server", plan.of_its_set()) } else { ("keygen", plan) };
            plan.require(op, free, |o| Some(arguments(o)), otherwise)
        })
    }

    /// Opens the keys of a file within `budget` bytes for them and the matrices of these bootstraps: the keys, and the bytes for matrices.
    fn opened(
        &self,
        py: Python<'_>,
        on: &CkksMachine,
        path: PathBuf,
        budget: usize,
    ) -> PyResult<(CkksKeys, usize)> {
        let programs = || self.0.programs().map(|(_, program)| program);
        let open = || MemoryBudget::opened(&on.0.context, &path, programs(), budget);
        let (keys, matrices) = supervised(py, None, |_| on.0.cpu.install(open))?;
        Ok((CkksKeys(on.0.clone(), Arc::new(keys)), matrices))
    }

    /// The refusal of keys of a file that do not fit `free` bytes: arguments of `load_server` with which they do.
    fn reading(&self, keys: &CkksKeys, free: usize) -> PyResult<String> {
        planned(|| {
            let offers = self.0.readings(&keys.1, free)?;
            let otherwise = match (offers.is_empty(), self.size()) {
                (false, _) => "",
                (true, None | Some("small")) => "free memory, or make keys of a smaller set",
                _ => "free memory, or make keys of bootstrap=\"small\" or of a smaller set",
            };
            let words = |offer: &Offer| match offer.stored {
                true => Some("memory=\"low\"".into()),
                false => Some(arguments(offer)),
            };
            Ok(said(&offers, words, otherwise))
        })
    }

    /// The remedy where the keys of an `Engine` of `becalm.desilo` that are not `known` do not fit `free` bytes: those that do, or else the
    /// smallest. An engine has no seeded keys.
    fn of_engine(&self, known: &CkksKeys, free: usize, otherwise: &str) -> PyResult<String> {
        planned(|| {
            let less = self.0.less_to_make(Some(&known.1))?;
            Ok(said_or_least(&less, free, |o| Some(of_engine(o)), otherwise))
        })
    }

    /// The counts of stages whose bootstraps take less beside the keys of an `Engine`: those that fit, or else the one that takes the least.
    fn of_stages(&self, free: usize, otherwise: &str) -> PyResult<String> {
        let key = if self.size() == Some("small") { "" } else { "a key for " };
        let words = |o: &Offer| o.stages.map(|stages| format!("{key}stage_count={stages}"));
        planned(|| Ok(said_or_least(&self.0.less_beside()?, free, words, otherwise)))
    }
}

/// An offer as arguments of `becalm.keygen`.
fn arguments(offer: &Offer) -> String {
    let size = offer.size.map(|size| format!("bootstrap=\"{size}\""));
    if offer.stored {
        let keys = size.map_or("keys".into(), |size| format!("keys of {size}"));
        let how = "ckks.load_server(path, memory=\"low\")";
        return format!("make {keys} on a larger machine: {how}");
    }
    let form = offer.form.map(|form| match form {
        KeyForm::Ready => "compact=False",
        KeyForm::Packed => "compact=True",
        KeyForm::Seeded => "compact=\"seeded\"",
    });
    let stages = offer.stages.map(|stages| format!("stage_count={stages}"));
    let all: Vec<String> = stages.into_iter().chain(size).chain(form.map(String::from)).collect();
    let options = all.join(", ");
    match offer.set {
        None => options,
        Some(set) => {
            let with = if options.is_empty() { options } else { format!(" with {options}") };
            let (slots, levels) = (offer.slots, counted(set.levels, "level"));
            format!("\"{}\"{with} has {slots} slots and {levels} and", set.name)
        }
    }
}

/// An offer as arguments of `becalm.desilo`.
fn of_engine(offer: &Offer) -> String {
    let form = offer.form.map(|_| "Engine(compact=True)".to_string());
    let size = offer.size.map(|size| format!("size=\"{size}\""));
    form.into_iter().chain(size).collect::<Vec<_>>().join(" and ")
}
