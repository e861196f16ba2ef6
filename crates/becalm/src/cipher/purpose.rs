//! The purposes of evaluation keys of CKKS, in words and as errors have them.

use super::{CkksKeys, Purpose};
use crate::{Missing, MissingKey, MissingPurpose};
use std::collections::BTreeSet;

impl CkksKeys {
    /// The purposes, each once for all tiers: a few of them, and how many there are.
    pub(crate) fn purposes(&self, degree: usize) -> String {
        const FEW: usize = 8;
        let all: BTreeSet<Purpose> = self.switches.keys().map(|(purpose, _)| *purpose).collect();
        let few: Vec<String> = all.iter().take(FEW).map(|p| p.words(degree)).collect();
        let more = match all.len().checked_sub(FEW) {
            Some(more @ 1..) => format!(" and {more} more"),
            _ => String::new(),
        };
        format!("keys for {}{more}", few.join(", "))
    }
}

impl Purpose {
    /// The purpose in words, in a ring of this degree.
    pub(crate) fn words(self, degree: usize) -> String {
        match self {
            Purpose::Multiply => "products".into(),
            Purpose::Galois(g) if g as usize + 1 == 2 * degree => "conjugation".into(),
            Purpose::Galois(g) => match rotation(g, degree) {
                Some(by) => format!("rotation by {by}"),
                None => format!("X -> X^{g}"),
            },
            Purpose::ToEphemeral => "the switch to the ephemeral secret".into(),
            Purpose::FromEphemeral => "the switch from the ephemeral secret".into(),
        }
    }

    /// A key of this purpose that is missing up to a level.
    pub(crate) fn missing(self, level: usize, degree: usize) -> Missing {
        let purpose = match self {
            Purpose::Multiply => MissingPurpose::Multiply,
            Purpose::Galois(g) => {
                rotation(g, degree).map_or(MissingPurpose::Conjugate, MissingPurpose::Rotate)
            }
            Purpose::ToEphemeral | Purpose::FromEphemeral => MissingPurpose::Bootstrap,
        };
        Missing::Key(MissingKey { purpose, level })
    }
}

/// The number of slots that X → X^`g` rotates by to the left: `g` is that power of 5.
fn rotation(g: u32, degree: usize) -> Option<usize> {
    let powers = std::iter::successors(Some(1), |power| Some(power * 5 % (2 * degree)));
    powers.take(degree / 2).position(|power| power == g as usize)
}
