//! Parameter sets of CKKS: a chain of moduli written as bits to rescale by, and what is claimed of it.
//!
//! Level 0 has the modulus q_0; level i the modulus q_0·…·q_i, and a rescale from it divides by q_i = 2^`bits[i]`. Which
//! machine words stand for a q_i does not belong to the set: here primes below 2^50, two of half the bits where one does
//! not suffice. From the bottom: levels of the user, then what a bootstrap consumes: SlotsToCoeffs, EvalMod,
//! CoeffsToSlots. Fresh noise is Gaussian of σ = 3.19, the secret is uniform ternary, the ephemeral secret of a bootstrap
//! ternary of weight h under its own modulus (Bossuat–Troncoso-Pastoriza–Hubaux 2022, sparse-secret encapsulation).

use super::Kind;
use crate::security::{self, Instance, Secret};
use crate::{Error, Result};
use serde::Serialize;
use serde_json::Value;

/// The set for those who ask for none: its bootstrap keeps 25 bits of every message.
pub const USUAL_CKKS: &str = "ckks_slots_first";

/// Standard deviation of fresh noise, units of 1.
pub const NOISE_STD: f64 = 3.19;

/// The levels that the bootstrap of a set consumes, and its approximation of the reduction modulo 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CkksBootstrap {
    /// Factors of each of the two homomorphic Fourier transforms: levels that each consumes.
    pub stage_count: usize,
    /// Bits of a level of CoeffsToSlots in the mean: those above the lowest have no more than 50, the lowest has the rest.
    pub coeffs_to_slots_bits: f64,
    /// Bits of a level of EvalMod, and of the scale there.
    pub eval_mod_bits: f64,
    /// Bits of a level of SlotsToCoeffs.
    pub slots_to_coeffs_bits: f64,
    /// Bits of the lowest level of EvalMod: more where nothing follows that brings the scale down to the user's.
    pub last_bits: f64,
    /// Whether the chain has no levels for SlotsToCoeffs above those of the user, because it comes first.
    pub slots_first: bool,
    /// Degree of the approximation of the cosine, even.
    pub degree: usize,
    /// r: the cosine of a 2^r-th of the angle is approximated, then doubled r times.
    pub doublings: usize,
    /// Whether y + y³/6 ≈ arcsin y follows the sine, for messages with large coefficients.
    pub arcsine: bool,
    /// K: multiples of q_0 up to which the approximation holds. The lift adds at most (h + 1)/2 of them, for it is
    /// c_0 + c_1·s with coefficients of at most q_0/2: K = h/2 suffices for every ciphertext, with no probability of failure.
    pub range: usize,
    /// h: weight of the ephemeral secret.
    pub ephemeral_weight: usize,
    /// Special words of the key to the ephemeral secret.
    pub ephemeral_words: usize,
    /// Standard deviation of the noise of that key, units of 1.
    pub ephemeral_noise_std: f64,
    /// Most bits of the integers that the bootstrap looks up in tables; 0 where it is for values in slots.
    pub table_bits: u32,
}

impl CkksBootstrap {
    /// Levels of EvalMod: the depth of the polynomial, the doublings, and two for the arcsine.
    pub fn eval_mod_levels(&self) -> usize {
        let depth = (self.degree + 1).next_power_of_two().ilog2() as usize;
        depth + self.doublings + self.arcsine_levels()
    }

    /// Levels of the arcsine.
    pub fn arcsine_levels(&self) -> usize {
        if self.arcsine { 2 } else { 0 }
    }
}

/// A CKKS parameter set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CkksParams {
    /// Name, unique: `"ckks_regular"`.
    pub name: &'static str,
    /// The use that it is meant for.
    pub kind: Kind,
    /// log2 of N, the degree of the ring: N/2 slots.
    pub log2_degree: u32,
    /// log2 of q_0.
    pub base_bits: f64,
    /// log2 of the scale of a message at level 0: `base_bits` less the room that EvalMod needs between message and modulus.
    pub base_scale_bits: f64,
    /// Levels of the user: those that a bootstrap leaves, or all in a set without one.
    pub levels: usize,
    /// log2 of the scale at the levels of the user above 0.
    pub scale_bits: f64,
    /// log2 of the special modulus of key switching, at least that of any digit.
    pub special_bits: f64,
    /// The bootstrap; `None` for a set without one.
    pub bootstrap: Option<CkksBootstrap>,
    /// Claim: bits of security, the least over the attacks considered and all keys.
    pub security_bits: f64,
    /// Where `security_bits` comes from.
    pub security_source: &'static str,
}

const BOOTSTRAP: CkksBootstrap = CkksBootstrap {
    stage_count: 3,
    coeffs_to_slots_bits: 56.0,
    eval_mod_bits: 64.0,
    slots_to_coeffs_bits: 42.0,
    last_bits: 64.0,
    slots_first: false,
    degree: 30,
    doublings: 3,
    arcsine: false,
    range: 16,
    ephemeral_weight: 32,
    ephemeral_words: 2,
    ephemeral_noise_std: NOISE_STD,
    table_bits: 0,
};

const REGULAR: CkksParams = CkksParams {
    name: "ckks_regular",
    kind: Kind::Standard,
    log2_degree: 16,
    base_bits: 50.0,
    base_scale_bits: 42.0,
    levels: 10,
    scale_bits: 43.0,
    special_bits: 440.0,
    bootstrap: Some(BOOTSTRAP),
    security_bits: 129.6,
    security_source: "becalm estimate --strict",
};

/// Few levels: all moduli above them are shorter, so that a longer P makes two digits.
const LEVELS_4: CkksParams = CkksParams {
    name: "ckks_4_levels",
    levels: 4,
    special_bits: 540.0,
    security_bits: 143.2,
    ..REGULAR
};

const LEVELS_14: CkksParams = CkksParams {
    name: "ckks_14_levels",
    levels: 14,
    scale_bits: 40.0,
    special_bits: 330.0,
    security_bits: 128.2,
    ..REGULAR
};

const PRECISE: CkksParams = CkksParams {
    name: "ckks_precise",
    levels: 8,
    special_bits: 400.0,
    bootstrap: Some(CkksBootstrap { arcsine: true, ..BOOTSTRAP }),
    security_bits: 129.3,
    ..REGULAR
};

const LEVELS_17: CkksParams = CkksParams {
    name: "ckks_17_levels",
    levels: 17,
    scale_bits: 40.0,
    special_bits: 241.0,
    bootstrap: Some(CkksBootstrap {
        eval_mod_bits: 61.0,
        last_bits: 61.0,
        slots_to_coeffs_bits: 40.0,
        ..BOOTSTRAP
    }),
    security_bits: 128.2,
    ..REGULAR
};

/// SlotsToCoeffs comes first. Degree 48 and two doublings take as many levels as degree 30 and three, and reach the precision that
/// messages of q_0/2^14 need.
const SLOTS_FIRST: CkksParams = CkksParams {
    name: "ckks_slots_first",
    levels: 13,
    special_bits: 440.0,
    bootstrap: Some(CkksBootstrap {
        slots_first: true,
        last_bits: 76.0,
        degree: 48,
        doublings: 2,
        ..BOOTSTRAP
    }),
    security_bits: 128.4,
    ..REGULAR
};

/// As [`SLOTS_FIRST`], with scales that hold what two iterations of its bootstrap leave: fewer levels, of two words each. Nothing is
/// computed at level 0, which keeps its scale.
const ITERATED: CkksParams = CkksParams {
    name: "ckks_iterated",
    levels: 8,
    scale_bits: 64.0,
    special_bits: 478.0,
    bootstrap: Some(CkksBootstrap { slots_first: true, degree: 48, doublings: 2, ..BOOTSTRAP }),
    security_bits: 128.4,
    ..REGULAR
};

/// Tables of integers of 4 bits: of nine levels three are for the waves of the table, one for its entries, two for the cleaning and three for
/// SlotsToCoeffs. No step needs more than one word.
const TABLE_4: CkksParams = CkksParams {
    name: "ckks_table_4",
    base_bits: 40.0,
    base_scale_bits: 32.0,
    levels: 9,
    scale_bits: 40.0,
    special_bits: 470.0,
    bootstrap: Some(CkksBootstrap {
        coeffs_to_slots_bits: 49.0,
        eval_mod_bits: 49.0,
        last_bits: 49.0,
        slots_first: true,
        table_bits: 4,
        ..BOOTSTRAP
    }),
    security_bits: 148.4,
    ..REGULAR
};

/// A smaller bootstrap, which fits N = 2^15: steps of EvalMod and CoeffsToSlots are one word each. With an ephemeral secret of weight
/// 28, degree 62 and one doubling suffice, one level less than degree 30 and three doublings. The key to that secret has 90 bits and
/// large noise, which keeps it secure.
const N15: CkksParams = CkksParams {
    name: "ckks_n15",
    log2_degree: 15,
    base_bits: 40.0,
    base_scale_bits: 32.0,
    levels: 5,
    scale_bits: 32.0,
    special_bits: 100.0,
    bootstrap: Some(CkksBootstrap {
        coeffs_to_slots_bits: 45.0,
        eval_mod_bits: 50.0,
        slots_to_coeffs_bits: 27.0,
        last_bits: 50.0,
        degree: 62,
        doublings: 1,
        range: 14,
        ephemeral_weight: 28,
        ephemeral_words: 1,
        ephemeral_noise_std: 1024.0,
        ..BOOTSTRAP
    }),
    security_bits: 128.3,
    ..REGULAR
};

/// The regular bootstrap in the largest ring: two digits, and four stages, whose matrices are half as large as those of three.
const N17: CkksParams = CkksParams {
    name: "ckks_n17",
    log2_degree: 17,
    levels: 32,
    special_bits: 1180.0,
    bootstrap: Some(CkksBootstrap { stage_count: 4, slots_to_coeffs_bits: 40.0, ..BOOTSTRAP }),
    security_bits: 128.6,
    ..REGULAR
};

/// A set for arithmetic alone. P is some bits more than any digit, so that a key switch adds less than the rounding after it.
const LEVELLED: CkksParams = CkksParams { bootstrap: None, ..REGULAR };

const N12: CkksParams = CkksParams {
    name: "ckks_n12",
    log2_degree: 12,
    base_bits: 35.0,
    base_scale_bits: 30.0,
    levels: 1,
    scale_bits: 31.0,
    special_bits: 39.0,
    security_bits: 128.9,
    ..LEVELLED
};

const N13: CkksParams = CkksParams {
    name: "ckks_n13",
    log2_degree: 13,
    base_bits: 40.0,
    base_scale_bits: 33.0,
    levels: 4,
    scale_bits: 33.0,
    special_bits: 42.0,
    security_bits: 128.2,
    ..LEVELLED
};

const N14: CkksParams = CkksParams {
    name: "ckks_n14",
    log2_degree: 14,
    base_bits: 47.0,
    base_scale_bits: 41.0,
    levels: 8,
    scale_bits: 41.0,
    special_bits: 50.0,
    security_bits: 129.8,
    ..LEVELLED
};

/// `like` in a ring too small to be secure.
const fn toy(name: &'static str, log2_degree: u32, like: CkksParams) -> CkksParams {
    let source = "none: N is too small for the modulus";
    CkksParams {
        name,
        kind: Kind::Toy,
        log2_degree,
        security_bits: 0.0,
        security_source: source,
        ..like
    }
}

static TABLE: [CkksParams; 22] = [
    REGULAR,
    LEVELS_4,
    LEVELS_14,
    LEVELS_17,
    PRECISE,
    SLOTS_FIRST,
    ITERATED,
    TABLE_4,
    N12,
    N13,
    N14,
    N15,
    N17,
    toy("ckks_toy_12", 12, REGULAR),
    toy("ckks_toy_13", 13, REGULAR),
    toy("ckks_toy_4_levels", 12, LEVELS_4),
    toy("ckks_toy_14_levels", 12, LEVELS_14),
    toy("ckks_toy_17_levels", 12, LEVELS_17),
    toy("ckks_toy_precise", 12, PRECISE),
    toy("ckks_toy_slots_first", 12, SLOTS_FIRST),
    toy("ckks_toy_iterated", 12, ITERATED),
    toy("ckks_toy_table_4", 12, TABLE_4),
];

impl CkksParams {
    /// Every set of the table, the default first.
    pub fn all() -> &'static [CkksParams] {
        &TABLE
    }

    /// The fields of the row of a set in a file that differ from this one: its name and its numbers. Claims and their
    /// source may differ. A row without the noise of the ephemeral key is of a time when all keys had [`NOISE_STD`].
    pub(crate) fn unlike(&self, row: &Value) -> Vec<String> {
        let numbers = |mut row: Value| {
            let fields = row.as_object_mut();
            fields
                .map(|f| ["kind", "security_bits", "security_source"].map(|claim| f.remove(claim)));
            if let Some(bootstrap) = row.get_mut("bootstrap").and_then(Value::as_object_mut) {
                bootstrap.entry("ephemeral_noise_std").or_insert_with(|| NOISE_STD.into());
                bootstrap.entry("table_bits").or_insert_with(|| 0.into());
            }
            row
        };
        let [own, row] = [serde_json::to_value(self).unwrap_or_default(), row.clone()].map(numbers);
        let fields = |row: &Value| row.as_object().cloned().unwrap_or_default();
        let [own, row] = [own, row].map(|row| fields(&row));
        let differs = |name: &&String| own.get(*name) != row.get(*name);
        let unknown = row.keys().any(|name| !own.contains_key(name)).then(|| "others".into());
        own.keys().filter(differs).cloned().chain(unknown).collect()
    }

    /// N.
    pub fn degree(&self) -> usize {
        1 << self.log2_degree
    }

    /// N/2, the number of complex values that a ciphertext holds.
    pub fn slots(&self) -> usize {
        self.degree() / 2
    }

    /// log2 of the q_i, from level 0 up.
    pub fn chain(&self) -> Vec<f64> {
        let mut bits = vec![self.base_bits];
        // The step to level 0 also changes the scale: s²/q_1 is the scale there.
        bits.push(2.0 * self.scale_bits - self.base_scale_bits);
        bits.resize(self.levels + 1, self.scale_bits);
        if let Some(b) = &self.bootstrap {
            if !b.slots_first {
                bits.extend(vec![b.slots_to_coeffs_bits; b.stage_count]);
            }
            bits.push(b.last_bits);
            bits.extend(vec![b.eval_mod_bits; b.eval_mod_levels() - 1]);
            // One word each: what a step lacks the scale gains.
            let (above, mean) = (b.stage_count - 1, b.coeffs_to_slots_bits);
            let step = mean.min(50.0);
            bits.push(mean * b.stage_count as f64 - step * above as f64);
            bits.extend(vec![step; above]);
        }
        bits
    }

    /// Levels that have words in common: those of the user and of SlotsToCoeffs, of EvalMod, of CoeffsToSlots.
    pub fn tiers(&self) -> Vec<std::ops::Range<usize>> {
        let levels = self.chain().len();
        let mut ends = vec![levels];
        if let Some(b) = &self.bootstrap {
            let top = levels - b.stage_count;
            ends = vec![top - b.eval_mod_levels(), top, levels];
        }
        let starts = [0].into_iter().chain(ends.clone());
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }

    /// The highest level there is: where a raised ciphertext starts.
    pub fn top_level(&self) -> usize {
        self.chain().len() - 1
    }

    /// The highest level at which products and conjugates are made: that of the user or, in a bootstrap, the one behind the first transform.
    pub fn product_level(&self) -> usize {
        self.bootstrap.map_or(self.levels, |b| self.top_level() - b.stage_count)
    }

    /// Most slots that a set has.
    pub fn most_slots() -> usize {
        CkksParams::all().iter().map(CkksParams::slots).max().unwrap_or(1)
    }

    /// log2 of the largest modulus under which anything is encrypted: Q·P.
    pub fn log2_modulus(&self) -> f64 {
        self.chain().iter().sum::<f64>() + self.special_bits
    }

    /// The problems of an attacker on the set's public material: the secret, and the ephemeral secret if there is one.
    pub fn instances(&self) -> Vec<Instance> {
        let n = self.degree() as u32;
        // Samples of s times X^i are samples of X^i·s: one basis serves all N rotations of a secret.
        let instance =
            |log2_q, secret, noise_std| Instance { n, log2_q, secret, noise_std, targets: n };
        let mut all = vec![instance(self.log2_modulus(), Secret::Ternary, NOISE_STD)];
        // The key back hides the ephemeral secret under the main one. Only the key to it is under it.
        all.extend(self.bootstrap.map(|b| {
            let weight = b.ephemeral_weight as u32;
            let log2_q = self.base_bits + 50.0 * b.ephemeral_words as f64;
            instance(log2_q, Secret::Sparse { weight }, b.ephemeral_noise_std)
        }));
        all
    }

    /// Bits of security by the strict search, the least over [`CkksParams::instances`].
    ///
    /// # Errors
    /// `bad_input` if an instance is none.
    pub fn estimated_bits(&self) -> Result<f64> {
        security::least_bits(&self.instances())
    }

    /// Refuses a set that is not [`Kind::Standard`] unless `allow_insecure`.
    ///
    /// # Errors
    /// `insecure`, naming a standard set to use instead.
    pub fn require_secure(&self, allow_insecure: bool) -> Result<()> {
        if allow_insecure || self.kind == Kind::Standard {
            return Ok(());
        }
        Err(Error::insecure(
            "use parameters",
            "a set of at least 128 bits",
            format!("`{}`, a toy for tests", self.name),
            format!(
                "use `{}`, or allow insecure parameters if nothing secret is encrypted",
                self.standard().name
            ),
        ))
    }

    /// The standard set with the levels and the bootstrap of this one, or the default.
    fn standard(&self) -> &'static CkksParams {
        let like = |p: &&CkksParams| {
            p.kind == Kind::Standard && p.bootstrap == self.bootstrap && p.levels == self.levels
        };
        TABLE.iter().find(like).unwrap_or(&TABLE[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims are rounded down to a tenth of a bit, and standard sets have 128 bits for every secret.
    #[test]
    fn every_claim_holds_and_is_not_modest() {
        let mut wrong = vec![];
        // Most sets share one ephemeral secret, which is estimated once.
        let mut known: Vec<(Instance, f64)> = vec![];
        let mut bits = |i: Instance| {
            if let Some((_, bits)) = known.iter().find(|(k, _)| *k == i) {
                return *bits;
            }
            let bits = security::least_bits(&[i]).unwrap();
            known.push((i, bits));
            bits
        };
        for p in CkksParams::all().iter().filter(|p| p.kind == Kind::Standard) {
            let found = p.instances().into_iter().map(&mut bits).fold(f64::INFINITY, f64::min);
            let claim = p.security_bits;
            println!("{} claims {claim}, found {found:.2}, log QP {}", p.name, p.log2_modulus());
            let exact = claim == security::claimed(found);
            if !(128.0..=found).contains(&claim) || !exact {
                wrong.push(format!("{} claims {claim}, found {found:.2}", p.name));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("; "));
    }

    /// A toy is one of a standard set: that one is offered instead.
    #[test]
    fn each_toy_offers_the_standard_set_of_its_kind() {
        for (toy, standard) in [
            ("ckks_toy_12", "ckks_regular"),
            ("ckks_toy_13", "ckks_regular"),
            ("ckks_toy_4_levels", "ckks_4_levels"),
            ("ckks_toy_14_levels", "ckks_14_levels"),
            ("ckks_toy_17_levels", "ckks_17_levels"),
            ("ckks_toy_precise", "ckks_precise"),
            ("ckks_toy_slots_first", "ckks_slots_first"),
            ("ckks_toy_iterated", "ckks_iterated"),
            ("ckks_toy_table_4", "ckks_table_4"),
        ] {
            let refused = CkksParams::named(toy).unwrap().require_secure(false).unwrap_err();
            let remedy = &refused.detail().remedy;
            assert!(remedy.contains(&format!("use `{standard}`,")), "{toy}: {remedy}");
        }
        let toys = CkksParams::all().iter().filter(|p| p.kind == Kind::Toy).count();
        assert_eq!(toys, 9, "each toy is in the list");
    }

    #[test]
    fn rows_of_files_are_compared_by_their_numbers() {
        let regular = CkksParams::named("ckks_regular").unwrap();
        let n15 = CkksParams::named("ckks_n15").unwrap();
        let row = |set: &CkksParams| serde_json::to_value(set).unwrap();
        assert!(regular.unlike(&row(regular)).is_empty() && !regular.unlike(&row(n15)).is_empty());
        let older = |set: &CkksParams| {
            let mut row = row(set);
            let bootstrap = row["bootstrap"].as_object_mut().unwrap();
            bootstrap.remove("ephemeral_noise_std").unwrap();
            bootstrap.remove("table_bits").unwrap();
            row
        };
        assert!(regular.unlike(&older(regular)).is_empty(), "all keys had one noise");
        assert_eq!(n15.unlike(&older(n15)), ["bootstrap"], "its noise has changed since");
        let with = |field: &str, value: Value| {
            let mut row = row(regular);
            assert_ne!(std::mem::replace(&mut row[field], value.clone()), value);
            row
        };
        assert!(regular.unlike(&with("security_bits", 128.0.into())).is_empty());
        for (field, value) in
            [("log2_degree", 15.into()), ("levels", 9.into()), ("name", "x".into())]
        {
            assert_eq!(regular.unlike(&with(field, value)), [field]);
        }
        for nonsense in [Value::Null, 3.into(), serde_json::json!([1]), serde_json::json!({})] {
            assert!(!regular.unlike(&nonsense).is_empty(), "{nonsense}");
        }
    }

    #[test]
    fn claims_are_never_rounded_up() {
        let cases = [
            (129.3658, 129.3),
            (128.4886, 128.4),
            (128.0, 128.0),
            (127.999, 127.9),
            (128.4, 128.4),
        ];
        for (bits, shown) in cases {
            assert_eq!(security::claimed(bits), shown);
        }
        for p in CkksParams::all() {
            let text = format!("{:.1}", p.security_bits);
            assert_eq!(text.parse::<f64>().unwrap(), p.security_bits, "{}", p.name);
        }
    }

    #[test]
    fn chains_have_a_level_for_every_step() {
        let p = CkksParams::named("ckks_regular").unwrap();
        let b = p.bootstrap.unwrap();
        assert_eq!(b.eval_mod_levels(), 8);
        let sets = CkksParams::all().iter().filter_map(|p| p.bootstrap);
        assert!(sets.into_iter().all(|b| b.ephemeral_weight <= 2 * b.range));
        assert_eq!(p.top_level(), 10 + 3 + 8 + 3);
        assert_eq!(p.chain().iter().sum::<f64>(), 50.0 + 44.0 + 9.0 * 43.0 + 126.0 + 512.0 + 168.0);
        assert_eq!(CkksParams::named("ckks").err().map(|e| e.kind()), Some("wrong_params"));
    }
}
