//! Large tables: extended bootstrapping beside the classic sets of the same number of values.

use super::{Case, Contender};
use crate::cases::Work;

/// The cases.
pub fn cases() -> Vec<Case> {
    let pbs = Work::Pbs { batch: 1 };
    vec![Case {
        name: "extended/4_bits/pbs".into(),
        large: false,
        ours: Contender::ours("tfhe_2_2", pbs),
        other: Contender::peer("tfhe_2_2", pbs),
    }]
}
