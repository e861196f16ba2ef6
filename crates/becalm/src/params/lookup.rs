//! Finding a set: by need, or by name.

use super::table::TABLE;
use super::{CkksParams, Kind, Noise, Order, Rotation, TfheParams};
use crate::math::Modulus;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::{fmt, mem};

/// The scheme of a parameter set, a program or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// Exact values of a few bits: a job has a batch of LWE ciphertexts for each argument.
    Tfhe,
    /// Vectors of approximate values: a job has a ciphertext for each argument of each lane.
    Ckks,
}

impl Scheme {
    /// The scheme that the name of a set belongs to. An unknown name belongs to the family that it begins with, so that the error
    /// lists the sets of that scheme.
    pub fn of(name: &str) -> Scheme {
        let now = renamed(name).unwrap_or(name);
        match now.starts_with("ckks") || CkksParams::all().iter().any(|p| p.name == now) {
            true => Scheme::Ckks,
            false => Scheme::Tfhe,
        }
    }

    /// Its name: `"tfhe"` or `"ckks"`.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Tfhe => "tfhe",
            Scheme::Ckks => "ckks",
        }
    }
}

/// The needs that a set must meet. Start from the default and change the fields that matter:
///
/// ```
/// use becalm::params::{Need, find};
/// let set = find(&Need { bits: 1, ..Need::default() }).unwrap();
/// assert!(set.security_bits >= 128.0 && set.log2_pfail <= -128.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// log2 of the values that a table must tell apart, message and carry together: at least this.
    pub bits: u32,
    /// log2 of the failure probability of one bootstrap: at most this.
    pub log2_pfail: f64,
    /// The modulus of the ciphertexts.
    pub modulus: Modulus,
    /// Which linear step comes first, if it matters.
    pub order: Option<Order>,
    /// Smallest acceptable bound on the 2-norm of a linear combination before a bootstrap.
    pub norm2: f64,
    /// Messages in one ciphertext behind a common mask, exactly this; 1 for plain ciphertexts.
    pub slots: usize,
    /// Whether Gaussian noise will do. TUniform noise is exact, bounded and drawn in constant time, so it is preferred.
    pub gaussian: bool,
    /// Whether a set of the fast family will do, which rests on a separate assumption ([`TfheParams::is_fast`]).
    pub fast: bool,
}

impl Default for Need {
    /// Four bits, 2^-128, modulo 2^64, TUniform noise: the need that `tfhe_2_2` answers.
    fn default() -> Self {
        Need {
            bits: 4,
            log2_pfail: -128.0,
            modulus: Modulus::Native,
            order: None,
            norm2: 1.0,
            slots: 1,
            gaussian: false,
            fast: false,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a set for {} bits at 2^{}, modulo {}",
            self.bits, self.log2_pfail, self.modulus
        )?;
        if self.slots != 1 {
            write!(f, ", {} slots", self.slots)?;
        }
        if self.norm2 > 1.0 {
            write!(f, ", sums of norm {}", self.norm2)?;
        }
        match self.order {
            Some(order) => write!(f, ", {order:?} first"),
            None => Ok(()),
        }
    }
}

impl Need {
    fn is_met_by(&self, p: &TfheParams) -> bool {
        p.kind == Kind::Standard
            && p.plaintext_modulus().ilog2() >= self.bits
            && p.log2_pfail <= self.log2_pfail
            && p.modulus == self.modulus
            && self.order.is_none_or(|order| p.order == order)
            && p.max_norm2 >= self.norm2
            && p.slots == self.slots
            && (self.gaussian || !is_gaussian(p))
            && (if p.is_fast() {
                self.fast
            } else {
                !matches!(p.rotation, Rotation::MultiBit { .. })
            })
    }
}

/// The cheapest standard set (by [`TfheParams::cost`]) that meets a need. Multi-bit sets, whose keys are larger, are had by
/// name only.
///
/// # Errors
/// `wrong_params` when no set of the table does.
pub fn find(need: &Need) -> Result<&'static TfheParams> {
    let fitting = TABLE.iter().filter(|p| need.is_met_by(p));
    fitting.min_by(|a, b| a.cost().total_cmp(&b.cost())).ok_or_else(|| {
        let standard = |p: &&TfheParams| p.kind == Kind::Standard && p.slots > 1;
        let mut widths: Vec<usize> = TABLE.iter().filter(standard).map(|p| p.slots).collect();
        widths.sort();
        widths.dedup();
        let fewer = |bits| Need { bits, ..*need };
        let most =
            (1..need.bits.min(64)).rev().find(|b| TABLE.iter().any(|p| fewer(*b).is_met_by(p)));
        let remedy = match (need.slots > 1 && !widths.contains(&need.slots), most) {
            (true, _) => format!("ask for one of {widths:?} slots"),
            (false, Some(most)) => format!("ask for {most} bits at most"),
            (false, None) => {
                "ask for a larger failure probability, a smaller norm or any order".into()
            }
        };
        Error::wrong_params("find parameters", need.to_string(), "none in the table", remedy)
    })
}

/// A standard set to offer instead of an insecure one: that with most in common, the messages first, or the default.
pub(super) fn instead_of(p: &TfheParams) -> &'static str {
    let unlike = |s: &&TfheParams| {
        let rotations = mem::discriminant(&s.rotation) != mem::discriminant(&p.rotation);
        (
            [s.order != p.order, s.modulus != p.modulus, (s.slots > 1) != (p.slots > 1)],
            [rotations, is_gaussian(s) != is_gaussian(p), s.ks_modulus_log2 != p.ks_modulus_log2],
            [s.rotation.unlike(p.rotation), s.slots.abs_diff(p.slots)],
            // Probabilities of failure above 2^-128 are for those who ask for them.
            s.log2_pfail > -128.0,
        )
    };
    let messages = |s: &&TfheParams| {
        let own = (s.message_modulus, s.carry_modulus);
        s.kind == Kind::Standard && own == (p.message_modulus, p.carry_modulus)
    };
    let bits = p.plaintext_modulus().max(1).ilog2();
    let other = || find(&Need { bits, modulus: p.modulus, ..Need::default() }).ok();
    let like = TABLE.iter().filter(messages).min_by_key(unlike).or_else(other);
    like.map_or("tfhe_2_2", |set| &set.name)
}

pub(super) fn named(name: &str) -> Result<&'static TfheParams> {
    if let Some(set) = TABLE.iter().find(|p| p.name == name) {
        return Ok(set);
    }
    if CkksParams::all().iter().any(|p| p.name == name) {
        let remedy = "in Python `becalm.keygen` and `becalm.ckks.params` take it, on the command line `becalm run --scheme ckks --params`, \
                      `becalm params` and `becalm estimate --params`";
        let got = format!("`{name}`, a set of CKKS");
        return Err(Error::wrong_params("choose parameters", "a TFHE set", got, remedy));
    }
    Err(unknown(name))
}

impl CkksParams {
    /// The set of this name.
    ///
    /// # Errors
    /// `wrong_params` naming the nearest sets there are, of either scheme.
    pub fn named(name: &str) -> Result<&'static CkksParams> {
        if let Some(set) = CkksParams::all().iter().find(|p| p.name == name) {
            return Ok(set);
        }
        if named(name).is_ok() {
            let (wanted, got) = ("a CKKS set", format!("`{name}`, a set of TFHE"));
            let remedy = format!("use `{}`, or keys of TFHE", CkksParams::all()[0].name);
            return Err(Error::wrong_params("choose parameters", wanted, got, remedy));
        }
        Err(unknown_of_ckks(name))
    }
}

/// The beginning of a remedy that offers the nearest of some names; empty where none is near.
pub(crate) fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let name = name.to_lowercase();
    let near = names.min_by_key(|known| edits(&name, known));
    let near = near.filter(|known| 3 * edits(&name, known) <= name.chars().count());
    near.map_or(String::new(), |known| format!("did you mean `{known}`? Or "))
}

/// Refuses a name that no set of CKKS has, with those there are. Toys are offered to who asks for a toy.
fn unknown_of_ckks(name: &str) -> Error {
    let names = CkksParams::all().iter().map(|p| p.name);
    if let Some(refused) = family(name, names).or_else(|| older(name)) {
        return refused;
    }
    let kind = if name.contains("toy") { Kind::Toy } else { Kind::Standard };
    let sets = CkksParams::all().iter().filter(|p| p.kind == kind);
    let near = near(name, sets.clone().map(|p| p.name));
    let sets: Vec<String> = sets.map(|p| format!("`{}`", p.name)).collect();
    let remedy = format!("{near}choose one of {}", sets.join(", "));
    let wanted = "the name of a parameter set of CKKS";
    Error::wrong_params("choose parameters", wanted, repeated(name), remedy)
}

/// Refuses a common beginning of several of these names, such as `ckks`, and lists them; none for another beginning.
fn family<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<Error> {
    const FEW: usize = 24;
    let begins = |n: &&str| n.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    let of: Vec<&str> = all.filter(begins).collect();
    let few: Vec<String> = of.iter().take(FEW).map(|n| format!("`{n}`")).collect();
    let more =
        of.len().checked_sub(FEW + 1).map_or(String::new(), |k| format!(" and {} more", k + 1));
    let remedy =
        format!("choose one of {}{more}; `becalm params {name}` tells of them", few.join(", "));
    let (wanted, got) =
        ("the name of a parameter set", format!("`{name}`, which is a family of them"));
    (!of.is_empty()).then(|| Error::wrong_params("choose parameters", wanted, got, remedy))
}

/// The name that a set has now, of the older names.
fn renamed(name: &str) -> Option<&'static str> {
    match name {
        "ckks_lossy" | "lossy" => Some("ckks_slots_first"),
        "ckks_toy_lossy" => Some("ckks_toy_slots_first"),
        _ => None,
    }
}

/// Refuses an older name of a set; none for any other name.
fn older(name: &str) -> Option<Error> {
    renamed(name).map(|now| {
        let (wanted, got) = ("a name that sets have now", format!("`{name}`, an older name"));
        let remedy = format!("use `{now}`, which it is called now, and make its keys again");
        Error::wrong_params("choose parameters", wanted, got, remedy)
    })
}

/// A name may come from a file: no more of it is repeated than a person would read.
fn repeated(name: &str) -> String {
    format!("`{}`", name.chars().take(64).collect::<String>())
}

/// Refuses a name that neither scheme has, with the names that are near it.
pub(super) fn unknown(name: &str) -> Error {
    let tfhe = TABLE.iter().map(|p| &*p.name);
    let names = tfhe.chain(CkksParams::all().iter().map(|p| p.name));
    if let Some(refused) = family(name, names).or_else(|| older(name)) {
        return refused;
    }
    // Toys are offered to who asks for a toy.
    let toy = name.contains("toy");
    let tfhe = TABLE.iter().map(|p| (p.kind, &*p.name));
    let all = tfhe.chain(CkksParams::all().iter().map(|p| (p.kind, p.name)));
    let offered = all.filter(|(kind, _)| toy == (*kind == Kind::Toy));
    let mut near: Vec<(usize, &str)> = offered.map(|(_, n)| (edits(name, n), n)).collect();
    near.sort();
    let unlike = near.first().is_none_or(|(edits, _)| *edits >= name.chars().count());
    let near: Vec<String> = near.iter().take(3).map(|(_, n)| format!("`{n}`")).collect();
    let remedy = match unlike {
        true => "no name is similar, the default is `tfhe_2_2`;".into(),
        false => format!("did you mean {}?", near.join(", ")),
    };
    Error::wrong_params(
        "choose parameters",
        "the name of a parameter set of TFHE or CKKS",
        repeated(name),
        format!("{remedy} `becalm params` lists them all"),
    )
}

fn is_gaussian(p: &TfheParams) -> bool {
    [p.lwe_noise, p.glwe_noise].iter().any(|n| matches!(n, Noise::Gaussian { .. }))
}

/// Levenshtein distance, of at most 64 characters of `a`.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Whether the table has exactly this set.
pub(super) fn is_row(p: &TfheParams) -> bool {
    TfheParams::all().contains(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_refused_with_its_sets() {
        let remedy = |name: &str| named(name).map(|p| p.name.to_string()).unwrap_err();
        let ckks = remedy("ckks");
        assert!(ckks.detail().got.contains("a family"), "{ckks}");
        for set in CkksParams::all() {
            assert!(ckks.detail().remedy.contains(&format!("`{}`", set.name)), "{ckks}");
        }
        let tfhe = remedy("tfhe");
        assert!(
            tfhe.detail().remedy.contains("`tfhe_2_2`") && tfhe.detail().remedy.contains(" more")
        );
        for other in ["", "ckk", "ckks_", "ckks_regula", "_"] {
            assert!(!remedy(other).detail().got.contains("family"), "{other}");
        }
    }

    #[test]
    fn an_older_name_is_answered_with_the_one_of_now() {
        for (old, now) in
            [("ckks_lossy", "ckks_slots_first"), ("ckks_toy_lossy", "ckks_toy_slots_first")]
        {
            let refused = CkksParams::named(old).unwrap_err();
            let remedy = &refused.detail().remedy;
            assert!(remedy.contains(&format!("use `{now}`")), "{old}: {remedy}");
            assert!(CkksParams::named(now).is_ok(), "{now}");
        }
    }

    #[test]
    fn distance_is_levenshtein() {
        for (a, b, d) in
            [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("tfhe_2_2", "tfhe_22", 1)]
        {
            assert_eq!(edits(a, b), d, "{a} {b}");
            assert_eq!(edits(b, a), d, "{b} {a}");
        }
    }
}
