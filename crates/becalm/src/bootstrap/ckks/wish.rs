//! A request for CKKS keys: the parameter set of a need, kinds of bootstrap, sizes, and the note of it in a file of keys.

use super::{KEY_SIZES, Values};
use crate::cipher::KeyForm;
use crate::ckks::Needs;
use crate::params::{self, CkksParams, USUAL_CKKS};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A kind of bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`regular`](super::regular()).
    Regular,
    /// [`sparse`](super::sparse()).
    Sparse,
    /// [`slots_first`](super::slots_first()).
    SlotsFirst,
    /// [`sign`](super::sign()).
    Sign,
    /// The regular one of a set with the arcsine.
    Precise,
    /// [`tables`](super::tables()) of integers.
    Table,
}

/// The kinds by name.
const KINDS: [(&str, Kind); 6] = [
    ("regular", Kind::Regular),
    ("sparse", Kind::Sparse),
    ("slots_first", Kind::SlotsFirst),
    ("sign", Kind::Sign),
    ("precise", Kind::Precise),
    ("table", Kind::Table),
];
/// The set for two iterations of its bootstrap.
const ITERATED_SET: &str = "ckks_iterated";
/// The set for so many levels, that of the regular kind first.
const SET_OF_LEVELS: [(usize, &str); 4] =
    [(10, "ckks_regular"), (4, "ckks_4_levels"), (14, "ckks_14_levels"), (17, "ckks_17_levels")];
/// Baby steps of the sizes before files of keys said how many they are.
const OLD_SIZES: [(&str, usize); 3] = [("small", 2), ("medium", 4), ("large", 8)];
/// Levels from which keys are packed unless another form is asked for.
const MANY_LEVELS: usize = 14;
/// Values in a ciphertext of the sparse bootstrap, unless others are asked for or fewer fit.
pub(super) const SPARSE_SLOTS: usize = 1024;
/// The default size of keys.
pub const USUAL_SIZE: &str = "medium";

/// `names` as a list: "a, b or c".
fn listed(names: impl Iterator<Item = impl ToString>) -> String {
    let all: Vec<String> = names.map(|name| name.to_string()).collect();
    all.split_last().map_or(String::new(), |(last, rest)| format!("{} or {last}", rest.join(", ")))
}

impl Kind {
    /// Refuses tables of a set that has none, and other bootstraps of a set for tables.
    pub(super) fn require_in(self, params: &CkksParams) -> Result<()> {
        let integers = params.bootstrap.is_some_and(|b| b.table_bits > 0);
        if integers == (self == Kind::Table) {
            return Ok(());
        }
        let toy = params.kind == params::Kind::Toy;
        let (wanted, remedy) = match (integers, toy) {
            (true, _) => {
                ("the kind table, of a set for integers", "leave the kinds out, or use another set")
            }
            (false, true) => ("a set with tables of integers", "use `ckks_toy_table_4`"),
            (false, false) => ("a set with tables of integers", "use `ckks_table_4`"),
        };
        let got = format!("the kind {} of `{}`", self.name(), params.name);
        Err(Error::wrong_params("bootstrap", wanted, got, remedy))
    }

    /// Every kind.
    pub fn all() -> impl Iterator<Item = Kind> {
        KINDS.into_iter().map(|(_, kind)| kind)
    }

    /// Its name: `"regular"`, `"sparse"`, `"slots_first"`, `"sign"`, `"precise"` or `"table"`.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The kind of this name.
    ///
    /// # Errors
    /// `BadInput` with the names there are.
    pub fn named(name: &str) -> Result<Kind> {
        if name == "lossy" {
            let (wanted, remedy) =
                ("the kind slots_first", "write slots_first: lossy is its old name");
            return Err(Error::bad_input("bootstrap", wanted, "'lossy'", remedy));
        }
        KINDS.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind).ok_or_else(|| {
            let wanted = format!("{} as kind", listed(KINDS.iter().map(|(name, _)| *name)));
            Error::bad_input("bootstrap", wanted, format!("'{name}'"), "choose one of these")
        })
    }

    /// The standard set for this kind that leaves `levels`.
    fn set(self, levels: &'static str) -> &'static str {
        match self {
            Kind::SlotsFirst | Kind::Sign => "ckks_slots_first",
            Kind::Precise => "ckks_precise",
            Kind::Table => "ckks_table_4",
            Kind::Regular | Kind::Sparse => levels,
        }
    }

    /// The toy for this kind.
    fn toy(self) -> &'static str {
        match self {
            Kind::SlotsFirst | Kind::Sign => "ckks_toy_slots_first",
            Kind::Precise => "ckks_toy_precise",
            Kind::Table => "ckks_toy_table_4",
            Kind::Regular | Kind::Sparse => "ckks_toy_13",
        }
    }
}

/// The standard set for these kinds of bootstrap, so many levels that they leave, and iterations of each of them.
///
/// # Errors
/// `BadInput` for levels that no set leaves, for levels that these kinds do not leave, for kinds that share no set, and for kinds or levels of
/// one iteration beside several.
///
/// ```
/// use becalm::bootstrap::ckks::{Kind, set_for};
///
/// assert_eq!(set_for(&[], None, 1)?.name, "ckks_slots_first");
/// assert_eq!(set_for(&[], Some(10), 1)?.name, "ckks_regular");
/// assert_eq!(set_for(&[Kind::SlotsFirst], None, 2)?.name, "ckks_iterated");
/// # Ok::<(), becalm::Error>(())
/// ```
pub fn set_for(
    kinds: &[Kind],
    levels: Option<usize>,
    iterations: usize,
) -> Result<&'static CkksParams> {
    let op = "keygen";
    if iterations != 1 {
        if levels.is_none() && kinds.iter().all(|kind| *kind == Kind::SlotsFirst) {
            return CkksParams::named(ITERATED_SET);
        }
        let wanted = format!("1 iteration, or the kind slots_first of `{ITERATED_SET}`");
        let remedy = "leave kinds and levels out, or the iterations";
        return Err(Error::bad_input(op, wanted, iterations.to_string(), remedy));
    }
    let known = levels.unwrap_or(SET_OF_LEVELS[0].0);
    let Some((_, usual)) = SET_OF_LEVELS.into_iter().find(|(count, _)| *count == known) else {
        let mut counts = SET_OF_LEVELS.map(|(count, _)| count);
        counts.sort_unstable();
        let wanted = format!("{} levels", listed(counts.iter()));
        return Err(Error::bad_input(op, wanted, known.to_string(), "choose one of these"));
    };
    let mut sets: Vec<&str> = kinds.iter().map(|kind| kind.set(usual)).collect();
    sets.sort_unstable();
    sets.dedup();
    if levels.is_some() && !sets.is_empty() && !sets.contains(&usual) {
        let wanted = format!("kinds of bootstrap that leave {known} levels");
        let got: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let remedy = "leave the number of levels out: these kinds have their own set";
        return Err(Error::bad_input(op, wanted, got.join(", "), remedy));
    }
    match sets[..] {
        [] if levels.is_none() => CkksParams::named(USUAL_CKKS),
        [] => CkksParams::named(usual),
        [one] => CkksParams::named(one),
        // It has the levels for both.
        ["ckks_regular", "ckks_slots_first"] => CkksParams::named("ckks_slots_first"),
        _ => {
            let (wanted, got) = ("kinds of bootstrap that share a set", sets.join(" and "));
            Err(Error::bad_input(op, wanted, got, "make keys for each of them"))
        }
    }
}

/// A toy for these kinds of bootstrap and iterations of each: it protects nothing, and runs where no standard set fits.
pub(super) fn toy_for(kinds: &[Kind], iterations: usize) -> Result<&'static CkksParams> {
    if iterations != 1 {
        return CkksParams::named("ckks_toy_iterated");
    }
    let toys: Vec<&str> = kinds.iter().map(|kind| kind.toy()).collect();
    let shared = toys.first().filter(|first| toys.iter().all(|toy| toy == *first));
    // Of kinds of several sets it has the levels for all.
    CkksParams::named(shared.unwrap_or(&Kind::SlotsFirst.toy()))
}

/// The size of keys of this name, as [`KEY_SIZES`] has it.
///
/// # Errors
/// `BadInput` with the names there are.
pub fn size_named(name: &str) -> Result<&'static str> {
    KEY_SIZES.iter().map(|(own, _)| *own).find(|own| *own == name).ok_or_else(|| {
        let wanted = format!("{} as bootstrap", listed(KEY_SIZES.iter().map(|(name, _)| *name)));
        Error::bad_input("bootstrap", wanted, format!("'{name}'"), "choose one of these")
    })
}

/// Keys that a user asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// Values in a ciphertext, a power of two; none for those of the needs, for 1024 beside the sparse kind, or for as many as fit.
    pub slots: Option<usize>,
    /// Kinds of bootstrap, the usual one first; empty for the usual one of the set alone.
    pub kinds: Vec<Kind>,
    /// Size of the keys of a bootstrap, a name of [`KEY_SIZES`]; none for arithmetic alone.
    pub size: Option<&'static str>,
    /// Matrices of each transform; none for as many as the set has.
    pub stage_count: Option<usize>,
    /// Iterations of a bootstrap, which change no key; 1 is usual.
    pub iterations: usize,
    /// The kind of values in the slots; none for any kind.
    pub values: Option<Values>,
    /// Rotations, in slots, that the server is to do at the levels of the user.
    pub rotations: Vec<i64>,
    /// Whether the server is to conjugate at the levels of the user.
    pub conjugate: bool,
    /// Keys for something else besides, such as a recorded program.
    pub needs: Needs,
    /// How the keys are held in memory; none for the usual form of the set.
    pub form: Option<KeyForm>,
}

/// The form in memory of the keys of a set, where none is asked for: those of many levels are packed, because they are the largest.
pub(super) fn usual_form(params: &CkksParams) -> KeyForm {
    if params.levels >= MANY_LEVELS { KeyForm::Packed } else { KeyForm::Ready }
}

impl Default for Wish {
    fn default() -> Wish {
        Wish {
            slots: None,
            kinds: vec![],
            size: Some(USUAL_SIZE),
            stage_count: None,
            iterations: 1,
            values: None,
            rotations: vec![],
            conjugate: false,
            needs: Needs::default(),
            form: None,
        }
    }
}

/// The note in a file of keys: the request they were made for. A missing field means its value from before files had it.
#[derive(Serialize, Deserialize)]
struct Note {
    #[serde(default)]
    slots: Option<usize>,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default = "usual_size")]
    bootstrap: Option<String>,
    #[serde(default)]
    baby: Option<usize>,
    #[serde(default)]
    stage_count: Option<usize>,
    #[serde(default = "once")]
    iterations: usize,
    #[serde(default)]
    compact: Compact,
}

fn once() -> usize {
    1
}

fn usual_size() -> Option<String> {
    Some(USUAL_SIZE.into())
}

/// The form of keys as a note has it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Compact {
    Packed(bool),
    Named(String),
}

impl Default for Compact {
    fn default() -> Self {
        Compact::Packed(false)
    }
}

/// The wish of a reader of keys in a file in place of their note's: to use them for another purpose that they suffice for.
#[derive(Debug, Clone, Default)]
pub struct Instead {
    /// Values in a ciphertext.
    pub slots: Option<usize>,
    /// Kinds of bootstrap; empty for those of the note.
    pub kinds: Vec<Kind>,
    /// Size of the keys of a bootstrap, or, within, none for arithmetic alone.
    pub size: Option<Option<&'static str>>,
    /// Matrices of each transform.
    pub stage_count: Option<usize>,
    /// How the keys are held in memory.
    pub form: Option<KeyForm>,
}

impl Wish {
    /// This wish of a note, but for what its reader asks for.
    ///
    /// ```
    /// use becalm::bootstrap::ckks::{Instead, Wish};
    ///
    /// let small = Instead { size: Some(Some("small")), ..Instead::default() };
    /// let wish = Wish::noted(r#"{"slots": 32, "bootstrap": "large"}"#)?.instead(small);
    /// assert_eq!((wish.slots, wish.size), (Some(32), Some("small")));
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn instead(self, other: Instead) -> Wish {
        let size = other.size.unwrap_or(self.size);
        // Keys for arithmetic alone are of no kind.
        let noted = if size.is_some() { self.kinds } else { vec![] };
        Wish {
            slots: other.slots.or(self.slots),
            kinds: if other.kinds.is_empty() { noted } else { other.kinds },
            size,
            stage_count: other.stage_count.or(self.stage_count),
            form: other.form.or(self.form).or(Some(KeyForm::Ready)),
            ..self
        }
    }

    /// The wish that a note of [`KeyPlan::note`](super::KeyPlan::note) records; the usual wish for any other note. A plan checks it.
    ///
    /// # Errors
    /// `BadInput` for an unknown kind or size; `BadFile` for keys of other baby steps than their size has now.
    pub fn noted(note: &str) -> Result<Wish> {
        let Ok(note) = serde_json::from_str::<Note>(note) else { return Ok(Wish::default()) };
        let form = match &note.compact {
            Compact::Packed(false) => Some(KeyForm::Ready),
            Compact::Packed(true) => Some(KeyForm::Packed),
            Compact::Named(name) if name == KeyForm::Seeded.name() => Some(KeyForm::Seeded),
            Compact::Named(_) => return Ok(Wish::default()),
        };
        if note.kinds.iter().any(|name| name == "lossy") {
            let (wanted, got) = ("keys of the kind slots_first", "keys of its older form, lossy");
            return Err(Error::bad_file("load", wanted, got, "make the keys again"));
        }
        let kinds = note.kinds.iter().map(|name| Kind::named(name)).collect::<Result<Vec<_>>>()?;
        let size = note.bootstrap.as_deref().map(size_named).transpose()?;
        let steps = |sizes: [(&str, usize); 3], name| {
            sizes.into_iter().find(|(own, _)| *own == name).map(|(_, baby)| baby)
        };
        if let (Some(size), false) = (size, kinds.is_empty()) {
            let (now, then) = (steps(KEY_SIZES, size), note.baby.or(steps(OLD_SIZES, size)));
            if now != then {
                let wanted = format!("{size} keys of {} baby steps", now.unwrap_or(0));
                let got = "keys of another number, from another version";
                return Err(Error::bad_file("load", wanted, got, "make the keys again"));
            }
        }
        let Note { slots, stage_count, iterations, .. } = note;
        Ok(Wish { slots, kinds, size, stage_count, iterations, form, ..Wish::default() })
    }

    /// The purpose of keys for so many slots, to be written into their file.
    pub(super) fn note(&self, slots: usize) -> String {
        let size = self.size.filter(|_| !self.kinds.is_empty());
        let baby = KEY_SIZES.iter().find(|(name, _)| Some(*name) == size).map(|(_, baby)| *baby);
        let note = Note {
            slots: Some(slots),
            kinds: self.kinds.iter().map(|kind| kind.name().to_string()).collect(),
            bootstrap: size.map(str::to_string),
            baby,
            stage_count: self.stage_count,
            iterations: self.iterations,
            compact: match self.form {
                None | Some(KeyForm::Ready) => Compact::Packed(false),
                Some(KeyForm::Packed) => Compact::Packed(true),
                Some(KeyForm::Seeded) => Compact::Named(KeyForm::Seeded.name().into()),
            },
        };
        // Numbers and names can always be written.
        serde_json::to_string(&note).unwrap_or_default()
    }
}
