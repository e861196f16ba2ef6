//! The options of `becalm run` for CKKS as a wish of the library, which says what they mean together.

use becalm::bootstrap::ckks::{KEY_SIZES, Kind as Bootstrap, Values, Wish, size_named};
use becalm::cipher::KeyForm;

/// The bootstrap to run, and its options.
#[derive(clap::Args, Clone)]
pub struct Job {
    /// CKKS: which bootstrap; by default the usual one of the set.
    #[arg(long, value_parser = ["regular", "sparse", "slots_first", "sign", "precise"])]
    kind: Option<String>,
    /// CKKS: size of the keys. Small keys are slower, and large ones faster if there is memory for them. Without it, medium, or the largest that fit.
    #[arg(long, value_parser = KEY_SIZES.map(|s| s.0))]
    pub(super) keys: Option<String>,
    /// CKKS: values in a ciphertext, a power of two; by default as many as fit, or 1024 with --kind sparse.
    #[arg(long)]
    slots: Option<usize>,
    /// CKKS: matrices of each transform, by default as many as the set has.
    #[arg(long)]
    stage_count: Option<usize>,
    /// CKKS: 2 bootstrap the error of the first result too: 45 bits or more for twice the time, on a set of its own.
    #[arg(long)]
    iterations: Option<usize>,
    /// CKKS: the kind of values in the slots.
    #[arg(long, default_value = Values::default().name(), value_parser = ["complex", "real", "merged"])]
    of: String,
    /// CKKS: keys packed in memory, a quarter smaller, as those of 14 levels or more always are. `--compact=seeded` draws half of each key from a seed again: three fifths smaller, and slower.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "FORM", default_missing_value = "packed", value_parser = ["packed", "seeded"])]
    compact: Option<String>,
}

impl Job {
    /// The same by name, as the command line has it.
    pub fn of(
        kind: &str,
        keys: &str,
        slots: Option<usize>,
        stage_count: Option<usize>,
        of: &str,
    ) -> Job {
        let (kind, keys, of) = (Some(kind.into()), Some(keys.into()), of.into());
        Job { kind, keys, slots, stage_count, iterations: None, of, compact: None }
    }

    /// Whether any option differs from its default.
    pub fn is_given(&self) -> bool {
        self.kind.is_some()
            || self.of != Values::default().name()
            || self.keys.is_some()
            || self.slots.is_some()
            || self.stage_count.is_some()
            || self.iterations.is_some()
            || self.compact.is_some()
    }

    /// The keys to make.
    pub(super) fn wish(&self) -> becalm::Result<Wish> {
        let usual = Wish::default();
        let kinds = self.kind.iter().map(|kind| Bootstrap::named(kind));
        let size = self.keys.as_deref().map(size_named).transpose()?;
        Ok(Wish {
            slots: self.slots,
            kinds: kinds.collect::<becalm::Result<_>>()?,
            size: size.or(usual.size),
            stage_count: self.stage_count,
            iterations: self.iterations.unwrap_or(usual.iterations),
            values: Some(Values::named(&self.of)?),
            form: self.compact.as_deref().map(KeyForm::named).transpose()?,
            ..usual
        })
    }
}
