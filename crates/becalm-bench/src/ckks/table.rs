//! Rows of the bench of CKKS as a table to read.

use super::peers::ACKNOWLEDGEMENT;
use super::{Row, Side, time};
use std::fmt::Write as _;

/// The rows as a table to read.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<28} {:>9} {:>9} {:>6}  {:>11} {:>11} {:>5} {:>7} {:>7} {:>11}\n",
        "case",
        "ours s",
        "peer s",
        "ratio",
        "bits mean",
        "worst",
        "level",
        "keys GB",
        "peak GB",
        "secure"
    );
    for r in rows {
        let _ = match (&r.ours, &r.left_out) {
            (Some(ours), why) => {
                let why = why.as_ref().map_or(String::new(), |why| format!("  no peer: {why}"));
                writeln!(text, "{}{why}", line(r, ours))
            }
            (None, Some(why)) => writeln!(text, "{:<28} left out: {why}", r.case),
            _ => Ok(()),
        };
    }
    if rows.iter().any(|r| r.acknowledgement.is_some()) {
        let _ = writeln!(text, "\n{ACKNOWLEDGEMENT}");
    }
    text
}

fn line(r: &Row, ours: &Side) -> String {
    let both = |f: &dyn Fn(&Side) -> String| match &r.peer {
        Some(peer) => format!("{} {}", f(ours), f(peer)),
        None => f(ours),
    };
    let gigabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e9);
    format!(
        "{:<28} {:>9.4} {:>9} {:>6}  {:>11} {:>11} {:>5} {:>7} {:>7} {:>11}",
        r.case,
        time(ours, r.threads),
        r.peer.as_ref().map_or("-".into(), |p| format!("{:.4}", time(p, r.threads))),
        r.ratio.map_or("-".into(), |x| format!("{x:.2}")),
        both(&|s| format!("{:.1}", s.bits_mean)),
        both(&|s| format!("{:.1}", s.bits_worst)),
        both(&|s| s.level.to_string()),
        both(&|s| gigabytes(s.key_bytes)),
        both(&|s| gigabytes(s.peak_bytes.unwrap_or(0))),
        both(&|s| format!("{:.1}", s.security_bits)),
    )
}
