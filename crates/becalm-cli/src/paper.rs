//! `becalm params --paper --security`: estimates of every set of the artifact of "Sharing the Mask".

use crate::report::{self, table};
use anyhow::Result;
use becalm::params::ArtifactSet;
use becalm::security::{Attack, Report, Search, estimate};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The answers of both searches for one key. Many sets share its dimension and deviation.
type Known = BTreeMap<(u32, u64), [Report; 2]>;

/// Lists the sets; with `security`, estimates both keys of each by the reference and the strict search.
pub fn run(security: bool, as_json: bool) -> Result<()> {
    let mut known = Known::new();
    let mut rows = vec![];
    for set in ArtifactSet::all() {
        let reports = if security { estimates(&set, &mut known)? } else { vec![] };
        rows.push((set, reports));
    }
    if as_json {
        return report::json(&rows.iter().map(|(s, r)| as_value(s, r)).collect::<Vec<Value>>());
    }
    let mut head = vec!["family", "bits", "w", "log2 p_fail", "any slot", "n", "kN"];
    if security {
        head.extend(["reference", "by", "strict", "by", "usvp", "bdd", "dual", "dual hybrid"]);
    }
    let cells: Vec<Vec<String>> = rows.iter().map(|(s, r)| line(s, r)).collect();
    report::print(&table(&head, &cells))?;
    if security {
        report::print(
            "\nreference, strict: bits of the weaker key by the least attack; then the small key, strict, attack by attack",
        )?;
    }
    Ok(())
}

/// [reference, strict] of the small key, then of the big one.
fn estimates(set: &ArtifactSet, known: &mut Known) -> Result<Vec<[Report; 2]>> {
    let mut found = vec![];
    for i in set.instances() {
        let by = |search| estimate(&i, &Attack::DENSE, search);
        found.push(match known.entry((i.n, i.noise_std.to_bits())) {
            Entry::Occupied(e) => e.get().clone(),
            Entry::Vacant(e) => e.insert([by(Search::Reference)?, by(Search::Strict)?]).clone(),
        });
    }
    Ok(found)
}

/// The least over the keys, and the attack.
fn least(reports: &[[Report; 2]], search: usize) -> (f64, &'static str) {
    let all = reports.iter().flat_map(|r| &r[search].estimates);
    let least = all.min_by(|a, b| a.bits.total_cmp(&b.bits));
    least.map_or((0.0, "none"), |e| (e.bits, e.attack.name()))
}

fn line(set: &ArtifactSet, reports: &[[Report; 2]]) -> Vec<String> {
    let mut cells = vec![
        set.family.to_string(),
        set.bits.to_string(),
        set.slots.to_string(),
        set.log2_pfail.to_string(),
        format!("{:.1}", set.log2_pfail_of_any_slot()),
        set.lwe_dimension.to_string(),
        set.big_dimension.to_string(),
    ];
    if let Some([_, strict]) = reports.first() {
        for search in [0, 1] {
            let (bits, attack) = least(reports, search);
            cells.extend([format!("{bits:.2}"), attack.to_string()]);
        }
        cells.extend(strict.estimates.iter().map(|e| format!("{:.2}", e.bits)));
    }
    cells
}

fn as_value(set: &ArtifactSet, reports: &[[Report; 2]]) -> Value {
    let keys: Vec<Value> =
        reports.iter().map(|[r, s]| json!({ "reference": r, "strict": s })).collect();
    json!({
        "family": set.family, "bits": set.bits, "slots": set.slots, "log2_pfail": set.log2_pfail,
        "log2_pfail_any_slot": set.log2_pfail_of_any_slot(), "n": set.lwe_dimension,
        "big_dimension": set.big_dimension, "keys": keys,
    })
}
