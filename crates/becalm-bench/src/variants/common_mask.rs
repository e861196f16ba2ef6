//! The common mask, key switch and bootstrap, **per message**: beside the crate's classic sets, and at the sets of the
//! artifact beside the peer's own common mask and what the artifact compares with (Tables 3 and 4 of the paper).

use super::{Case, Contender, VERSION};
use crate::cases::{BATCH, Work};
use crate::peer_tfhe::{artifact, common_mask};
use becalm::params::{ModulusSwitch, TfheParams};

/// The widths that there are sets for.
const WIDTHS: [usize; 5] = [2, 4, 6, 8, 10];
/// Most bytes of keys of a case that is not large.
const MOST: u64 = 1 << 30;

/// Latency, and a batch of ciphertexts, each of w messages.
const WORKS: [(&str, Work); 2] =
    [("", Work::KsPbs { batch: 1 }), ("_batch", Work::KsPbs { batch: BATCH })];

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for log2_pfail in [-128, -64] {
        for bits in [2, 4, 6, 8] {
            for slots in WIDTHS {
                of_set(log2_pfail, bits, slots, &mut cases);
            }
        }
    }
    cases
}

fn of_set(log2_pfail: i32, bits: u32, slots: usize, cases: &mut Vec<Case>) {
    let half = bits / 2;
    let (end, classic) = match log2_pfail {
        -64 => ("_2m64", artifact::classic_2m64(bits).expect("2, 4, 6 or 8 bits")),
        _ => ("", super::named(&format!("tfhe_{half}_{half}"))),
    };
    let own = super::named(&format!("cm_{half}_{half}_w{slots}{end}"));
    let same = artifact::common_mask(log2_pfail, bits, slots).expect("a set of the artifact");
    let small = log2_pfail == -128 && own.bootstrap_key_bytes() < MOST;
    let beside_peer = small && bits == 2 && [4, 8].contains(&slots);
    let mut add = |name: &str, large, ours, other| {
        let name = format!("cm/p={bits}/w={slots}/pfail=2^{log2_pfail}/{name}");
        cases.push(Case { name, large, ours, other });
    };
    for (suffix, work) in WORKS {
        add(
            &format!("own_classic{suffix}"),
            !small,
            Contender::becalm(own.clone(), work),
            Contender::becalm(classic.clone(), work),
        );
        add(
            &format!("peer{suffix}"),
            !beside_peer,
            Contender::becalm(same.clone(), work),
            peer(&same, work),
        );
    }
    // The artifact's own comparison: its classic sets are those of 2^-128 with a 64-bit key switch for both probabilities.
    let one = Work::KsPbs { batch: 1 };
    let reference = Contender::peer(&format!("tfhe_{half}_{half}_ks64"), one);
    add("reference", true, peer(&same, one), reference);
}

/// The peer's common mask, which switches the modulus plainly.
fn peer(set: &TfheParams, work: Work) -> Contender {
    let plain = TfheParams { modulus_switch: ModulusSwitch::Plain, ..set.clone() };
    let who = format!("tfhe {VERSION}, experimental");
    Contender::of(who, plain, work, 1.0, common_mask::prepare)
}
