//! The cases of `tfhe` and the parameter sets they run at.

use becalm::params::TfheParams;

/// The operation that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Modulus switch, blind rotation and sample extraction of `batch` ciphertexts.
    Pbs {
        /// Ciphertexts per run.
        batch: usize,
    },
    /// Key switch, then the same.
    KsPbs {
        /// Ciphertexts per run.
        batch: usize,
    },
    /// One gate on two encrypted bits, through the public interface.
    Nand,
    /// One lookup, key switch included, through the public interface.
    Lookup,
    /// Key-switching and bootstrapping key from given secret keys, ready to run.
    KeyGeneration,
}

impl Work {
    /// Whether the key-switching key is needed.
    pub fn key_switches(self) -> bool {
        matches!(self, Work::KsPbs { .. })
    }

    /// The same work with `size` ciphertexts per run, if it is a batch.
    pub fn with_batch(self, size: usize) -> Work {
        match self {
            Work::Pbs { batch } if batch > 1 => Work::Pbs { batch: size },
            Work::KsPbs { batch } if batch > 1 => Work::KsPbs { batch: size },
            other => other,
        }
    }

    /// Ciphertexts per run.
    pub fn batch(self) -> usize {
        match self {
            Work::Pbs { batch } | Work::KsPbs { batch } => batch,
            _ => 1,
        }
    }
}

/// A named comparison.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name: `"pbs/2_2/latency"`.
    pub name: &'static str,
    /// becalm's parameter set.
    pub params: &'static str,
    /// The operation that is timed.
    pub work: Work,
}

/// Ciphertexts in a batch: enough to amortise the streaming of the keys; the peer gains 1 % more from 32.
pub const BATCH: usize = 16;

/// The cases of `tfhe`, those of one parameter set together, because keys are kept for the next case.
pub const TFHE: &[Case] = {
    use Work::{KeyGeneration, KsPbs, Lookup, Nand, Pbs};
    const fn case(name: &'static str, params: &'static str, work: Work) -> Case {
        Case { name, params, work }
    }
    &[
        case("ks_pbs/2_2/latency", "tfhe_2_2", KsPbs { batch: 1 }),
        case("ks_pbs/2_2/batch", "tfhe_2_2", KsPbs { batch: BATCH }),
        case("pbs/2_2/latency", "tfhe_2_2", Pbs { batch: 1 }),
        case("pbs/2_2/batch", "tfhe_2_2", Pbs { batch: BATCH }),
        case("lookup/2_2", "tfhe_2_2", Lookup),
        case("keygen/2_2", "tfhe_2_2", KeyGeneration),
        case("pbs/1_1/latency", "tfhe_1_1", Pbs { batch: 1 }),
        case("pbs/1_1/batch", "tfhe_1_1", Pbs { batch: BATCH }),
        case("pbs/2_2_gaussian", "tfhe_2_2_gaussian", Pbs { batch: 1 }),
        case("pbs/1_1_gaussian", "tfhe_1_1_gaussian", Pbs { batch: 1 }),
        case("boolean/nand", "tfhe_boolean_ks_pbs", Nand),
        case("boolean/nand_2m64", "tfhe_boolean_ks_pbs_2m64", Nand),
        case("pbs/paper_n500/latency", "paper_n500", Pbs { batch: 1 }),
        case("pbs/paper_n500/batch", "paper_n500", Pbs { batch: BATCH }),
        case("pbs/paper_n800/latency", "paper_n800", Pbs { batch: 1 }),
        case("pbs/paper_n800/batch", "paper_n800", Pbs { batch: BATCH }),
    ]
};

/// The table that both sides use: value `x` of `p` becomes `3x + 1`, a permutation where p is a power of two.
pub fn lookup(x: u64, p: u64) -> u64 {
    (3 * x + 1) % p
}

/// The table of a slot of a common-mask ciphertext: [`lookup`] of x + slot, so that every slot has another.
pub fn slot_lookup(slot: usize, x: u64, p: u64) -> u64 {
    lookup((x + slot as u64) % p, p)
}

/// The values that are encrypted: `count` of them, different ones as long as the set has them.
pub fn messages(count: usize, params: &TfheParams) -> Vec<u64> {
    (0..count as u64).map(|i| (5 * i + 2) % params.plaintext_modulus()).collect()
}

/// Whether `name` matches `pattern`, in which `*` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|tail| {
            (0..=tail.len())
                .filter(|&i| tail.is_char_boundary(i))
                .any(|i| matches(rest, &tail[i..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(
            matches("*", "pbs/2_2/batch")
                && matches("pbs/*", "pbs/2_2/batch")
                && matches("*batch", "pbs/2_2/batch")
        );
        assert!(matches("p*2_2*", "pbs/2_2/batch") && matches("pbs/2_2", "pbs/2_2"));
        assert!(!matches("pbs/2_2", "pbs/2_2/batch") && !matches("*latency", "pbs/2_2/batch"));
    }

    #[test]
    fn every_case_has_its_set_and_its_own_name() {
        for (i, case) in TFHE.iter().enumerate() {
            assert!(TfheParams::named(case.params).is_ok(), "{}", case.params);
            assert!(TFHE[..i].iter().all(|other| other.name != case.name), "{} twice", case.name);
        }
    }
}
