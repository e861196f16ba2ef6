//! The part of `becalm params` that is of CKKS.

use crate::report::{self, facts, table};
use anyhow::Result;
use becalm::bootstrap::ckks::{KEY_SIZES, KeyPlan, Kind as BootstrapKind, Wish};
use becalm::params::{CkksParams, Kind};
use becalm::words::megabytes;
use serde_json::{Value, json};

/// A set with the figures that follow from it at once.
pub fn as_json(p: &CkksParams) -> Result<Value> {
    let mut value = serde_json::to_value(p)?;
    value["scheme"] = json!("ckks");
    value["slots"] = json!(p.slots());
    value["log2_modulus"] = json!(p.log2_modulus());
    Ok(value)
}

/// A line for each of these sets.
pub fn list(sets: &[&CkksParams]) -> Result<()> {
    let head = ["set", "kind", "N", "slots", "levels", "scale", "modulus", "stages", "security"];
    let row = |p: &CkksParams| {
        vec![
            p.name.to_string(),
            format!("{:?}", p.kind).to_lowercase(),
            format!("2^{}", p.log2_degree),
            p.slots().to_string(),
            p.levels.to_string(),
            format!("2^{}", p.scale_bits),
            format!("2^{}", p.log2_modulus()),
            p.bootstrap.map_or("-".into(), |b| b.stage_count.to_string()),
            format!("{:.1}", p.security_bits),
        ]
    };
    let rows: Vec<Vec<String>> = sets.iter().map(|p| row(p)).collect();
    let levels = "levels are those that a bootstrap leaves, or all of a set without one; `becalm params NAME` shows the size of the keys";
    report::print(&format!("\nCKKS: vectors of numbers; {levels}\n"))?;
    report::print(&table(&head, &rows))
}

/// Bytes stored and in memory of the keys of the set's usual bootstrap, of each size; of those for products in a set without.
fn keys(p: &'static CkksParams) -> Result<Vec<(&'static str, usize, usize)>> {
    let priced = |name: &'static str, size: Option<&'static str>| {
        let price = KeyPlan::new(p, &Wish { size, ..Wish::default() })?.price()?;
        Ok((name, price.stored, price.memory))
    };
    if p.bootstrap.is_none() {
        return Ok(vec![priced("products", None)?]);
    }
    KEY_SIZES.into_iter().map(|(name, _)| priced(name, Some(name))).collect()
}

/// The kinds of bootstrap that the set has, by name.
fn kinds(p: &'static CkksParams) -> String {
    // The sparse kind leaves half of the slots at the least.
    let has = |kind: &BootstrapKind| {
        [p.slots(), p.slots() / 2].into_iter().any(|slots| {
            let (slots, size, kinds) = (Some(slots), Some(KEY_SIZES[0].0), vec![*kind]);
            KeyPlan::new(p, &Wish { slots, size, kinds, ..Wish::default() }).is_ok()
        })
    };
    BootstrapKind::all().filter(has).map(BootstrapKind::name).collect::<Vec<_>>().join(", ")
}

/// One set.
pub fn describe(p: &'static CkksParams, as_text_json: bool) -> Result<()> {
    let keys = keys(p)?;
    if as_text_json {
        let mut value = as_json(p)?;
        let size = |(name, stored, memory): &(&str, usize, usize)| {
            (name.to_string(), json!({ "stored_bytes": stored, "memory_bytes": memory }))
        };
        value["keys"] = Value::Object(keys.iter().map(size).collect());
        return report::json(&value);
    }
    let kind = if p.kind == Kind::Standard { "standard" } else { "a toy, which protects nothing" };
    let left = if p.bootstrap.is_some() { ", which a bootstrap leaves" } else { "" };
    let mut rows = vec![
        ("set", format!("{} of CKKS ({kind})", p.name)),
        ("security", format!("{:.1} bits ({})", p.security_bits, p.security_source)),
        ("ring", format!("N = 2^{}, {} values in a ciphertext", p.log2_degree, p.slots())),
        ("modulus", format!("Q·P of {} bits, P of {}", p.log2_modulus(), p.special_bits)),
        (
            "levels",
            format!(
                "{} at the scale 2^{}{}; 2^{} at level 0, modulo 2^{}",
                p.levels, p.scale_bits, left, p.base_scale_bits, p.base_bits
            ),
        ),
    ];
    if let Some(b) = p.bootstrap {
        let (up, mods) = (p.top_level(), b.eval_mod_levels());
        let text = format!(
            "{}; raises to level {up}, {} stages in each transform, {mods} levels of EvalMod",
            kinds(p),
            b.stage_count
        );
        rows.push(("bootstrap", text));
    } else {
        rows.push(("bootstrap", "none: arithmetic alone, down to level 0".into()));
    }
    let size = |(name, stored, memory): &(&str, usize, usize)| {
        format!("{name}: {} stored, {} in memory", megabytes(*stored), megabytes(*memory))
    };
    rows.extend(keys.iter().map(|k| ("keys", size(k))));
    report::print(&facts(&rows))
}
