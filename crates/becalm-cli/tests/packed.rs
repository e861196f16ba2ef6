//! Packed integers as users run them: keys, a table and its results, with files between the commands or in one run.

mod harness;

use harness::Folder;
use serde_json::json;

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
