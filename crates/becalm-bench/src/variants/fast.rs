//! The fast family beside the peer at the classic set (key switch to 32 bits on both sides) and beside that set here.

use super::{Case, Contender};
use crate::cases::{BATCH, Work};

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for values in ["2_2", "1_1"] {
        let (fast, classic) = (format!("fast_{values}"), format!("tfhe_{values}"));
        for (suffix, batch) in [("", 1), ("_batch", BATCH)] {
            let work = Work::KsPbs { batch };
            let mut add = |name: &str, other| {
                cases.push(Case {
                    name: format!("fast/{values}/{name}{suffix}"),
                    large: false,
                    ours: Contender::ours(&fast, work),
                    other,
                })
            };
            add("ks_pbs", Contender::peer(&classic, work));
            add("own_classic", Contender::ours(&classic, work));
        }
    }
    cases
}
