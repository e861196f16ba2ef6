//! The security that every parameter set claims, estimated again: strict search, both keys.

use becalm::params::{Kind, TfheParams};
use becalm::security::{Attack, Instance, Search, estimate};

/// Claims are rounded down to a tenth of a bit.
const ROUNDING: f64 = 0.1;

fn bits(p: &TfheParams) -> f64 {
    let of =
        |i: Instance| estimate(&i, Attack::for_secret(i.secret), Search::Strict).unwrap().bits();
    p.instances().map(of).into_iter().fold(f64::INFINITY, f64::min)
}

#[test]
fn every_claim_holds_and_is_not_modest() {
    let mut wrong = vec![];
    for p in TfheParams::all().iter().filter(|p| p.kind != Kind::Toy) {
        let found = bits(p);
        println!("{:28} claims {:6.1}, strict {found:.2}", p.name, p.security_bits);
        let holds = p.security_bits <= found && found < p.security_bits + ROUNDING + 1e-9;
        if !holds || (p.kind == Kind::Standard && found < 128.0) {
            wrong.push(format!("{} claims {}, found {found:.2}", p.name, p.security_bits));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}

/// Halving the noise of either key of the default set must cost its claim.
#[test]
fn a_weaker_set_is_caught() {
    let p = TfheParams::named("tfhe_2_2").unwrap();
    for (lwe, glwe) in [(1, 0), (0, 1)] {
        let lower = |noise, by| match noise {
            becalm::params::Noise::TUniform { bound_log2 } => {
                becalm::params::Noise::TUniform { bound_log2: bound_log2 - by }
            }
            other => other,
        };
        let weak = TfheParams {
            lwe_noise: lower(p.lwe_noise, lwe),
            glwe_noise: lower(p.glwe_noise, glwe),
            ..p.clone()
        };
        assert!(bits(&weak) < p.security_bits, "noise lowered by {lwe} and {glwe}");
    }
}
