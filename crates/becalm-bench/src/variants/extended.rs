//! Large tables: extended bootstrapping beside the crate's classic sets of the same number of values.

use super::{Case, Contender};
use crate::cases::Work;

/// Key bits of the peer's set of 8-bit tables that are measured: the whole key takes 9 GB, and as much again while it is made.
const SHORT: usize = 48;

/// The cases.
pub fn cases() -> Vec<Case> {
    let (pbs, ks_pbs) = (Work::Pbs { batch: 1 }, Work::KsPbs { batch: 1 });
    let case = |name: &str, large, ours: &str, other, work| Case {
        name: format!("extended/{name}"),
        large,
        ours: Contender::ours(ours, work),
        other,
    };
    vec![
        case("6_bits/pbs", false, "tfhe_3_3_extended", Contender::peer("tfhe_3_3", pbs), pbs),
        case(
            "6_bits/ks_pbs",
            false,
            "tfhe_3_3_extended",
            Contender::peer("tfhe_3_3", ks_pbs),
            ks_pbs,
        ),
        case(
            "6_bits/own_classic",
            false,
            "tfhe_3_3_extended",
            Contender::ours("tfhe_3_3", pbs),
            pbs,
        ),
        case(
            "8_bits/pbs",
            false,
            "tfhe_4_4_extended",
            Contender::peer_shortened("tfhe_4_4", SHORT, pbs),
            pbs,
        ),
        case(
            "8_bits/pbs_whole_key",
            true,
            "tfhe_4_4_extended",
            Contender::peer("tfhe_4_4", pbs),
            pbs,
        ),
    ]
}
