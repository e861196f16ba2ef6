//! The whole path of `becalm-bench -- ckks` in small rings: processes, protocol, rows. The test beside the peers is ignored, because it
//! needs them installed; `BECALM_PEERS=1 make test-full` runs it.

use serde_json::Value;
use std::process::Command;

/// The rows of the cases that match, and what was printed.
fn rows(case: &str, more: &[&str]) -> (Vec<Value>, String) {
    rows_in(case, more, &[])
}

/// The same, with other variables of the environment.
fn rows_in(case: &str, more: &[&str], variables: &[(&str, &str)]) -> (Vec<Value>, String) {
    let name = format!("becalm-ckks-{}-{}.json", std::process::id(), case.replace(['*', '/'], "_"));
    let path = std::env::temp_dir().join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_becalm-bench"));
    command.args(["ckks", "--quick", "--rounds", "1", "--case", case]).args(more);
    command.envs(variables.iter().copied());
    let made = command.arg("--json").arg(&path).output().expect("it runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    let text = std::fs::read_to_string(&path).expect("rows were written");
    let _ = std::fs::remove_file(&path);
    (serde_json::from_str(&text).expect("JSON"), String::from_utf8_lossy(&made.stdout).into_owned())
}

fn number(row: &Value, side: &str, field: &str) -> f64 {
    row[side][field].as_f64().unwrap_or_else(|| panic!("no {side}.{field} in {row}"))
}

/// A side measured as it should be: what was decrypted was compared, `bits` of it are right.
fn sound(row: &Value, side: &str, bits: f64) {
    assert!(row[side]["seconds"]["median"].as_f64().is_some_and(|s| s > 0.0), "{row}");
    assert!(number(row, side, "bits_mean") > bits, "{row}");
    assert!(number(row, side, "bits_worst") <= number(row, side, "bits_mean"), "{row}");
}

#[test]
fn becalm_alone_gives_every_kind() {
    for (kind, levels, bits) in
        [("regular", 10.0, 24.0), ("sign", 13.0, 29.0), ("precise", 8.0, 24.0)]
    {
        let (rows, table) = rows(&format!("ckks/becalm/{kind}/1"), &[]);
        assert_eq!(rows.len(), 1, "{table}");
        let row = &rows[0];
        sound(row, "ours", bits);
        assert_eq!(number(row, "ours", "level"), levels);
        assert!(number(row, "ours", "stored_key_bytes") < number(row, "ours", "key_bytes") / 2.0);
        assert!(row["ratio"].is_null() && row["left_out"].is_null() && table.contains(kind));
    }
}

#[test]
fn the_usual_bootstrap_keeps_every_message() {
    let (rows, _) = rows("ckks/any_message_bits/1", &[]);
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    sound(row, "ours", 25.0);
    // Of the worst value of the worst message.
    assert!(number(row, "ours", "bits_worst") > 24.0, "{row}");
    assert_eq!(row["ours"]["params"], "ckks_toy_slots_first");
    assert_eq!(number(row, "ours", "level"), 13.0);
}

#[test]
fn two_iterations_keep_every_message() {
    let (rows, _) = rows("ckks/iterations*/1", &[]);
    assert_eq!(rows.len(), 2);
    for (row, bits) in rows.iter().zip([25.0, 45.0]) {
        sound(row, "ours", bits);
        assert_eq!(row["ours"]["params"], "ckks_toy_iterated");
        assert_eq!(number(row, "ours", "level"), 8.0);
    }
}

#[test]
#[ignore = "needs Go, a Python with OpenFHE's wheel, and one with desilofhe 1.17 (BECALM_DESILOFHE_PYTHON)"]
fn peers_run_by_turns_with_us() {
    for (case, bits) in [
        ("ckks/lattigo/*/1", 20.0),
        ("ckks/openfhe/regular/1", 10.0),
        ("ckks/desilo/multiply/1", 20.0),
    ] {
        let (rows, table) = rows(case, &[]);
        assert!(!rows.is_empty());
        for row in &rows {
            assert!(row["left_out"].is_null(), "{row}");
            sound(row, "ours", 20.0);
            sound(row, "peer", bits);
            let medians = [&row["ours"], &row["peer"]].map(|s| s["processor"].as_f64());
            let ratio = medians[1].zip(medians[0]).map(|(peer, ours)| peer / ours);
            let same = row["ours"]["log2_degree"] == row["peer"]["log2_degree"];
            assert_eq!(row["ratio"].as_f64(), ratio.filter(|_| same));
            let named = row["acknowledgement"].as_str().is_some_and(|a| table.contains(a));
            assert_eq!(case.contains("desilo"), named, "{row}");
        }
    }
}

#[test]
fn peers_that_are_not_here_are_rows_that_say_why() {
    for (case, variable, wanted) in [
        ("ckks/lattigo/*/1", "PATH", "Lattigo needs Go"),
        ("ckks/desilo/multiply/1", "BECALM_DESILOFHE_PYTHON", "where it is installed"),
    ] {
        let (rows, table) = rows_in(case, &[], &[(variable, "/nowhere")]);
        assert!(!rows.is_empty());
        for row in &rows {
            let why = row["left_out"].as_str().expect("a reason");
            assert!(why.contains(wanted) && table.contains("left out"), "{why}");
            assert!(row["ours"].is_null() && row["peer"].is_null(), "{row}");
        }
    }
}

/// The cases of Poulpy are known where nothing of it is built.
#[test]
fn poulpy_says_that_it_has_no_small_ring() {
    let (rows, table) = rows("ckks/poulpy/*", &[]);
    let cases: Vec<_> = rows.iter().map(|row| row["case"].as_str().expect("a name")).collect();
    let known = ["lossy", "regular", "17"].map(|kind| format!("ckks/poulpy/{kind}/1"));
    assert_eq!(cases, known, "{table}");
    for row in &rows {
        let why = row["left_out"].as_str().expect("a reason");
        assert!(why.contains("Poulpy has no preset in a small ring"), "{why}");
        assert!(table.contains(why) && row["peer"].is_null(), "{row}");
    }
}

#[test]
fn what_does_not_fit_is_left_out_with_the_reason() {
    let (rows, table) = rows("ckks/becalm/r*/1", &["--memory", "0.1"]);
    assert_eq!(rows.len(), 2, "{table}");
    for row in &rows {
        let why = row["left_out"].as_str().expect("a reason");
        assert!(why.contains("--memory") && row["ours"].is_null(), "{why}");
    }
}
