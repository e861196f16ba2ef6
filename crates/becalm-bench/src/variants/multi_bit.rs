//! Several key bits a step beside the crate's classic sets, of the same values.

use super::{Case, Contender};
use crate::cases::{BATCH, Work};

/// (values, bits a step), the 1_1 sets where the table has them.
const SETS: [(&str, u32); 6] =
    [("2_2", 2), ("2_2", 3), ("2_2", 4), ("2_2", 5), ("1_1", 3), ("1_1", 4)];

/// The cases.
pub fn cases() -> Vec<Case> {
    let each = SETS.iter().flat_map(|&(values, g)| {
        [("pbs", 1), ("pbs_batch", BATCH)].map(|(name, batch)| {
            let work = Work::Pbs { batch };
            Case {
                name: format!("multibit/{values}/g={g}/{name}"),
                large: false,
                ours: Contender::ours(&format!("tfhe_{values}_multi_bit_{g}"), work),
                other: Contender::ours(&format!("tfhe_{values}"), work),
            }
        })
    });
    each.collect()
}
