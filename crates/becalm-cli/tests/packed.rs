//! Packed integers as users run them: keys, a table and its results, with files between the commands or in one run.

mod harness;

use harness::Folder;
use serde_json::json;
use std::process::Command;

const KEYGEN: &str = "keygen --params ckks_toy_table_4 --allow-insecure";
const ENCRYPT: &str = "encrypt --packed --allow-insecure";

#[test]
fn integers_are_looked_up_through_files() {
    let f = Folder::new("packed");
    let made = f.json(&format!("{KEYGEN} --json"));
    assert_eq!(made["params"], "ckks_toy_table_4");
    assert!(f.refuse_with(4, KEYGEN).contains("--force"));
    let says = f.json(&format!("{ENCRYPT} --bits 2 --values 3,1,2,0 -o x --json"));
    assert_eq!((&says["integers"], &says["bits"]), (&json!(4), &json!(2)));
    let found = f.json("inspect x --json");
    assert_eq!(
        (&found["integers"], &found["bits"], &found["key"]),
        (&json!(4), &json!(2), &made["key"])
    );
    assert!(f.succeed("inspect x").contains("4 of 2 bits"));
    assert_eq!(f.succeed("decrypt x --allow-insecure"), "3,1,2,0\n");
    // Two tables, one after the other, on two files of integers.
    f.succeed(&format!("{ENCRYPT} --bits 2 --values 1,1 -o y"));
    let outs = "-o x1 -o x2 -o y1 -o y2";
    let rows = f.json(&format!("eval x y --table 0,1,0,1,3,2,1,0 {outs} --allow-insecure --json"));
    assert_eq!((&rows[3]["integers"], &rows[3]["bits"]), (&json!(2), &json!(2)));
    for (file, wanted) in [("x1", "1,1,0,0"), ("x2", "0,2,1,3"), ("y1", "1,1"), ("y2", "2,2")] {
        assert_eq!(f.succeed(&format!("decrypt {file} --allow-insecure")), format!("{wanted}\n"));
    }
    // All bits of the set, unless a number is given.
    assert!(f.succeed(&format!("{ENCRYPT} --values 15,7 -o z")).contains("2 integers of 4 bits"));
    assert_eq!(f.json("decrypt z --allow-insecure --json"), json!([15, 7]));
}

#[test]
fn a_run_checks_every_integer() {
    let f = Folder::new("packed-run");
    let run = "run --params ckks_toy_table_4 --allow-insecure";
    let table = (0..16).rev().map(|m: u64| m.to_string()).collect::<Vec<_>>().join(",");
    let says = f.json(&format!("{run} --values 3,1,2 --table {table} --json"));
    assert_eq!(
        (&says["checked"], &says["wrong"], &says["kind"]),
        (&json!(3), &json!(0), &json!("table"))
    );
    assert!(f.succeed(run).contains("4096 checked, all right"));
    f.refuse_with(3, &format!("{run} --values 16"));
    f.refuse_with(3, &format!("{run} --table 1,2,3"));
    f.refuse_with(2, &format!("{run} --kind regular"));
    f.refuse_with(3, "run --params ckks_toy_table_4");
}

#[test]
fn wrong_calls_say_why() {
    let f = Folder::new("packed-wrong");
    f.succeed(KEYGEN);
    f.refuse_with(2, &format!("{KEYGEN} --force --pack p"));
    f.refuse_with(3, "encrypt --packed --values 1 -o x");
    assert!(f.refuse_with(3, &format!("{ENCRYPT} --values 16 -o x")).contains("below 16"));
    assert!(
        f.refuse_with(3, &format!("{ENCRYPT} --bits 9 --values 1 -o x")).contains("1 to 4 bits")
    );
    f.refuse_with(2, "encrypt --bits 4 --values 1 -o x");
    f.refuse_with(2, "encrypt --packed --modulus 4 --values 1 -o x");
    f.succeed(&format!("{ENCRYPT} --values 1 -o x"));
    let eval = |rest: &str| format!("eval x --allow-insecure -o y {rest}");
    f.refuse_with(2, &eval(""));
    assert!(f.refuse_with(3, &eval("--table 1,2,3")).contains("16 entries"));
    assert!(
        f.refuse_with(3, "eval secret.becalm --table 1 -o y --allow-insecure").contains("--packed")
    );
    let says =
        f.refuse_with(4, "encrypt --packed --values 1 -o secret.becalm --force --allow-insecure");
    assert!(says.contains("holds a key"), "{says}");
    f.refuse_with(
        4,
        "encrypt --packed --secret evaluation.becalm --values 1 -o w --allow-insecure",
    );
}

/// Arguments stand in the list of processes, and a full vector is longer than an argument may be.
#[test]
fn values_come_from_a_file_or_from_standard_input() {
    let f = Folder::new("values-from");
    f.succeed("keygen --params ckks_toy_12 --allow-insecure");
    let values: Vec<f64> = (0..2048).map(|i| f64::from(i - 1024) / 1024.0).collect();
    let text: Vec<String> = values.iter().map(|v| format!("{v:.60}")).collect();
    std::fs::write(f.0.join("values.txt"), text.join("\n")).unwrap();
    f.succeed("encrypt --values-from values.txt -o x.becalm --allow-insecure");
    let shell = "\"$0\" encrypt --values-from - -o y.becalm --allow-insecure < values.txt";
    let piped = Command::new("sh")
        .current_dir(&f.0)
        .args(["-c", shell, env!("CARGO_BIN_EXE_becalm")])
        .status();
    assert!(piped.unwrap().success());
    for file in ["x.becalm", "y.becalm"] {
        let got = f.succeed(&format!("decrypt {file} --allow-insecure --json"));
        let got: Vec<f64> = serde_json::from_str(&got).unwrap();
        let off = got.iter().zip(&values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(got.len() == 2048 && off < 1e-6, "{off}");
    }
    // Claims of errors hold for values within the bound.
    let line = "encrypt --values 31.25 --slots 8 --allow-insecure -o";
    let said = |line: &str| String::from_utf8(f.run(line).stderr).unwrap();
    assert!(said(&format!("{line} a")).contains("a value exceeds 1"));
    assert_eq!(said(&format!("{line} b --bound 32")), "");
    assert!(said(&format!("{line} c --bound 31")).contains("absolute value 31 at most"));
    // The place of a value is told, and never the value.
    for (text, told) in
        [("1, 0.5 4z242", "value 3"), (" \n", "none"), ("1,,2", "value 2"), (",1", "value 1")]
    {
        std::fs::write(f.0.join("values.txt"), text).unwrap();
        let says = f.refuse_with(4, "encrypt --values-from values.txt -o z --allow-insecure");
        assert!(says.contains(told) && !says.contains("4z242"), "{says}");
    }
    f.refuse_with(2, "encrypt --values-from values.txt --values 1 -o z --allow-insecure");
    let says = f.refuse_with(2, "encrypt -o z --allow-insecure");
    assert!(says.contains("--values <VALUES>|--values-from <FILE>"), "{says}");
}
