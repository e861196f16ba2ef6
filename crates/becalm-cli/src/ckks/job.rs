//! The options of `becalm run` for CKKS: the bootstrap to run, and its keys.

use becalm::Error;
use becalm::bootstrap::ckks::{
    KEY_SIZES, KeyPlan, Kind as Bootstrap, Offer, Values, Wish, size_named,
};
use becalm::cipher::KeyForm;

/// Values of the sparse bootstrap, unless others are asked for.
const SPARSE: usize = 1024;

/// The bootstrap to run, and its options.
#[derive(clap::Args, Clone)]
pub struct Job {
    /// CKKS: which bootstrap; by default the usual one of the set.
    #[arg(long, value_parser = ["regular", "sparse", "slots_first", "sign", "precise"])]
    pub(super) kind: Option<String>,
    /// CKKS: size of the keys; small ones are slower, large ones faster where memory is; by default medium, or the largest that fit.
    #[arg(long, value_parser = KEY_SIZES.map(|s| s.0))]
    pub(super) keys: Option<String>,
    /// CKKS: values in a ciphertext of the sparse bootstrap, a power of two; 1024 if not given.
    #[arg(long)]
    slots: Option<usize>,
    /// CKKS: matrices of each transform, by default as many as the set has.
    #[arg(long)]
    pub(super) stage_count: Option<usize>,
    /// CKKS: 2 bootstrap the error of the first result too: 45 bits or more for twice the time, on a set of its own.
    #[arg(long)]
    iterations: Option<usize>,
    /// CKKS: the kind of values in the slots.
    #[arg(long, default_value = "complex", value_parser = ["complex", "real", "merged"])]
    pub(super) of: String,
    /// CKKS: keys packed in memory, a quarter smaller, as those of 14 levels or more always are. `--compact=seeded` draws half of each key from a seed again: three fifths smaller, and slower.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "FORM", default_missing_value = "packed", value_parser = ["packed", "seeded"])]
    pub(super) compact: Option<String>,
}

impl Job {
    /// The same by name, as the command line has it.
    pub fn of(kind: &str, keys: &str, slots: usize, stage_count: Option<usize>, of: &str) -> Job {
        let slots = (kind == "sparse").then_some(slots);
        let (kind, keys, of) = (Some(kind.into()), Some(keys.into()), of.into());
        Job { kind, keys, slots, stage_count, iterations: None, of, compact: None }
    }

    /// Whether any option differs from its default.
    pub fn is_given(&self) -> bool {
        self.kind.is_some()
            || self.of != "complex"
            || self.keys.is_some()
            || self.slots.is_some()
            || self.stage_count.is_some()
            || self.iterations.is_some()
            || self.compact.is_some()
    }

    /// Refuses options that do not apply to the kind.
    pub(super) fn check(&self) -> becalm::Result<()> {
        let Some(slots) = self.slots.filter(|_| !self.is_sparse()) else { return Ok(()) };
        let got = match &self.kind {
            Some(kind) => format!("--slots {slots} beside --kind {kind}"),
            None => format!("--slots {slots} without --kind"),
        };
        let remedy = "leave --slots out, because this command runs every other kind on all slots; --kind sparse takes a power of two from 2 to N/4";
        Err(Error::bad_input("run", "--slots beside --kind sparse", got, remedy))
    }

    fn is_sparse(&self) -> bool {
        self.kind.as_deref() == Some("sparse")
    }

    /// The same for the bootstrap of a plan, where no kind was asked for.
    pub(super) fn of_plan(self, plan: &KeyPlan) -> Job {
        let usual = plan.programs().next().map(|(kind, _)| kind.name().to_string());
        Job { kind: self.kind.or(usual), ..self }
    }

    /// The keys to make.
    pub(super) fn wish(&self) -> becalm::Result<Wish> {
        let slots = self.is_sparse().then(|| self.slots.unwrap_or(SPARSE));
        let kinds = self.kind.iter().map(|kind| Bootstrap::named(kind));
        let values = match self.of.as_str() {
            "real" => Values::Real,
            "merged" => Values::Merged,
            _ => Values::Complex,
        };
        Ok(Wish {
            slots,
            kinds: kinds.collect::<becalm::Result<_>>()?,
            size: Some(size_named(self.size())?),
            stage_count: self.stage_count,
            iterations: self.iterations.unwrap_or(1),
            values: Some(values),
            form: self.form(),
            ..Wish::default()
        })
    }

    /// The same with keys as they are offered.
    pub(super) fn with(&self, offer: &Offer) -> Job {
        let keys = offer.size.map(str::to_string).or_else(|| self.keys.clone());
        let compact = match offer.form {
            None => self.compact.clone(),
            Some(KeyForm::Ready) => None,
            Some(KeyForm::Packed) => Some("packed".into()),
            Some(KeyForm::Seeded) => Some("seeded".into()),
        };
        let stages = offer.stages.or(self.stage_count);
        let stage_count = if offer.set.is_some() { None } else { stages };
        Job { keys, compact, stage_count, ..self.clone() }
    }

    /// The size of the keys.
    pub(super) fn size(&self) -> &str {
        self.keys.as_deref().unwrap_or("medium")
    }

    /// How the keys are held, if the flags say it.
    fn form(&self) -> Option<KeyForm> {
        self.compact.as_deref().map(|form| match form {
            "seeded" => KeyForm::Seeded,
            _ => KeyForm::Packed,
        })
    }
}
