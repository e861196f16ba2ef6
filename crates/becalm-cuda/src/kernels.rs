//! The sizes that kernels are compiled for: a ring of TFHE, or a size of polynomials of CKKS.

use crate::rings::{RINGS, Ring, TEST_RINGS};

/// A specialisation of the kernels, which is an image of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernels {
    /// Of TFHE, for a ring.
    Lwe(Ring),
    /// Of CKKS, for polynomials of 2^`log2_n` coefficients modulo primes of 20 to 50 bits.
    Rns {
        /// log2 N, 12 to 17.
        log2_n: u32,
    },
}

/// log2 N of the kernels of CKKS that are compiled ahead.
const RNS: [u32; 3] = [15, 16, 17];
/// log2 N of those that the emulator has beside them.
const TEST_RNS: [u32; 3] = [12, 13, 14];

impl Kernels {
    /// Compiled ahead: all of [`RINGS`], and CKKS of 2^15 to 2^17 coefficients.
    pub fn ahead() -> impl Iterator<Item = Kernels> {
        let rns = RNS.into_iter().map(|log2_n| Kernels::Rns { log2_n });
        RINGS.iter().map(Kernels::from).chain(rns)
    }

    /// Compiled for the emulator beside those.
    pub fn of_tests() -> impl Iterator<Item = Kernels> {
        let rns = TEST_RNS.into_iter().map(|log2_n| Kernels::Rns { log2_n });
        TEST_RINGS.iter().map(Kernels::from).chain(rns)
    }

    /// The macros of `kernels/shape.cuh`, or of `kernels/rns/word.cuh`.
    pub fn macros(&self) -> Vec<(&'static str, u32)> {
        match self {
            Kernels::Lwe(ring) => ring.macros().to_vec(),
            Kernels::Rns { log2_n } => vec![("BECALM_RNS", 1), ("BECALM_LOG2_N", *log2_n)],
        }
    }

    /// A name for files: that of the ring, or `rns_n16`.
    pub fn name(&self) -> String {
        match self {
            Kernels::Lwe(ring) => ring.name(),
            Kernels::Rns { log2_n } => format!("rns_n{log2_n}"),
        }
    }

    /// Whether a name is that of some kernels, of some that there are or that there were.
    pub(crate) fn is_name(name: &str) -> bool {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if let Some(log2_n) = name.strip_prefix("rns_n") {
            return number(log2_n);
        }
        let ring = name.strip_suffix("_exact").or(name.strip_suffix("_p")).unwrap_or(name);
        // As `Ring::name` writes it: a letter and a number each, and the last without a letter.
        let fields: Vec<&str> = ring.split('_').collect();
        let letters = ["n", "k", "w", "b", "l", "g", ""];
        let fits = |(field, letter): (&&str, &&str)| field.strip_prefix(letter).is_some_and(number);
        fields.len() == letters.len() && fields.iter().zip(&letters).all(fits)
    }
}

impl From<Ring> for Kernels {
    fn from(ring: Ring) -> Self {
        Kernels::Lwe(ring)
    }
}

impl From<&Ring> for Kernels {
    fn from(ring: &Ring) -> Self {
        Kernels::Lwe(*ring)
    }
}
