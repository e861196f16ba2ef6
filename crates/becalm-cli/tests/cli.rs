//! The `becalm` command as a user runs it: every verb, files between them, exit status and messages.

mod harness;

use becalm::bootstrap::ckks::{KeyPlan, Wish};
use harness::Folder;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A line with so many kilobytes of addresses.
#[cfg(target_os = "linux")]
fn refused_within(f: &Folder, kilobytes: usize, line: &str) -> String {
    let command = format!("ulimit -v {kilobytes}; exec \"$0\" {line}");
    let out = Command::new("sh")
        .current_dir(&f.0)
        .args(["-c", &command, env!("CARGO_BIN_EXE_becalm")])
        .output()
        .unwrap();
    let says = String::from_utf8(out.stderr).unwrap();
    assert!(matches!(out.status.code(), Some(2..=6)), "{line}: {:?} {says}", out.status);
    says
}

#[test]
fn keygen_encrypt_eval_decrypt() {
    let f = Folder::new("steps");
    let made: serde_json::Value =
        serde_json::from_str(&f.succeed("keygen --params toy_2_2 --allow-insecure --json"))
            .unwrap();
    assert!(made["stored_key_bytes"].as_u64().unwrap() > 0);
    f.succeed("encrypt --values 3,1,15 -o x.becalm --allow-insecure");
    let table = "1,2,5,10,1,10,5,2,1,2,5,10,1,10,5,2";
    f.succeed(&format!("eval x.becalm --table {table} -o y.becalm --allow-insecure"));
    assert_eq!(f.succeed("decrypt y.becalm --allow-insecure"), "10,2,2\n");
    let json = f.succeed("decrypt y.becalm --allow-insecure --json");
    assert_eq!(serde_json::from_str::<Vec<u64>>(&json).unwrap(), [10, 2, 2]);
    for file in ["secret.becalm", "evaluation.becalm", "x.becalm"] {
        assert!(f.succeed(&format!("inspect {file}")).contains("toy_2_2"));
    }
    let described: serde_json::Value =
        serde_json::from_str(&f.succeed("inspect x.becalm --json")).unwrap();
    assert_eq!(described["params"], "toy_2_2");
}

#[test]
fn run_reports_and_checks() {
    let f = Folder::new("run");
    let line = "run --params toy_1_1 --values 3,0,1,2 --allow-insecure --json";
    let report: serde_json::Value = serde_json::from_str(&f.succeed(line)).unwrap();
    assert_eq!(report["wrong"], 0);
    assert!(report["checked"].as_u64().unwrap() > 4);
    assert!(report["noise_log2_std_formula"].as_f64().unwrap() < 0.0);
    let text = f.succeed("run --params toy_1_1 --allow-insecure --table 3,2,1,0");
    assert!(text.contains("all right"), "{text}");
}

#[test]
fn params_are_listed_and_described() {
    let f = Folder::new("params");
    assert!(f.succeed("params").contains("tfhe_2_2"));
    let all: serde_json::Value = serde_json::from_str(&f.succeed("params --json")).unwrap();
    assert!(all.as_array().unwrap().iter().all(|p| p["security_bits"].is_number()));
    let one: serde_json::Value =
        serde_json::from_str(&f.succeed("params tfhe_2_2 --json")).unwrap();
    let pfail = one["noise_variance"]["log2_pfail"].as_f64().unwrap();
    assert!((pfail - one["log2_pfail"].as_f64().unwrap()).abs() < 0.01);
}

#[test]
fn params_of_ckks_are_listed_described_estimated_and_suggested() {
    let f = Folder::new("params_ckks");
    let text = f.succeed("params");
    for name in ["ckks_regular", "ckks_17_levels", "ckks_toy_12", "129.6"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let all: serde_json::Value = serde_json::from_str(&f.succeed("params --json")).unwrap();
    let all = all.as_array().unwrap().clone();
    let of = |scheme: &str| all.iter().filter(|p| p["scheme"] == scheme).count();
    assert_eq!(of("tfhe") + of("ckks"), all.len());
    assert!(of("ckks") == 22 && of("tfhe") > 40);
    let one: serde_json::Value =
        serde_json::from_str(&f.succeed("params ckks_toy_12 --json")).unwrap();
    let bytes = |size: &str| one["keys"][size]["stored_bytes"].as_u64().unwrap();
    assert!(
        one["slots"] == 2048
            && bytes("small") < bytes("medium")
            && bytes("medium") < bytes("large")
    );
    let set = becalm::params::CkksParams::named("ckks_toy_12").unwrap();
    let context = becalm::ckks::Context::new(set, true).unwrap();
    let usual = becalm::bootstrap::ckks::regular(&context, &Default::default()).unwrap();
    assert_eq!(bytes("medium"), context.stored_key_bytes(&usual.needs()) as u64);
    let text = f.succeed("params ckks_toy_12");
    assert!(text.contains("10 at the scale 2^43") && text.contains("medium: "), "{text}");
    let text = f.succeed("estimate --params ckks_toy_slots_first");
    assert!(text.contains("n = 4096") && text.contains("ternary"), "{text}");
    // A family of sets is listed, and is not a set.
    let text = f.succeed("params ckks");
    assert!(text.contains("ckks_n17") && text.contains("ckks_toy_12"), "{text}");
    assert!(!text.contains("tfhe_2_2") && f.succeed("params tfhe").contains("tfhe_2_2"), "{text}");
    let toys: serde_json::Value =
        serde_json::from_str(&f.succeed("params ckks_toy --json")).unwrap();
    assert!(toys.as_array().unwrap().iter().all(|p| p["kind"] == "Toy"), "{toys}");
    let says = f.refuse("estimate --params ckks");
    assert!(says.contains("a family of them") && says.contains("`ckks_n15`"), "{says}");
    assert!(f.refuse("params ckks_n1").contains("did you mean"));
    // Whichever scheme is asked, both suggest.
    for line in
        ["params ckks_regula", "estimate --params ckks_regula", "keygen --params ckks_regula"]
    {
        assert!(f.refuse(line).contains("did you mean `ckks_regular`"), "{line}");
    }
    let says = f.refuse("run --scheme ckks --params tfhe_2_3");
    assert!(says.contains("`ckks_regular`") && !says.contains("`tfhe_2_2`"), "{says}");
}

/// Sets for arithmetic alone say so, and run as what they are.
#[test]
fn sets_of_ckks_without_a_bootstrap_multiply() {
    let f = Folder::new("levelled");
    let text = f.succeed("params ckks_n14");
    for wanted in ["none: arithmetic alone", "8 at the scale 2^41;", "products: ", "129.8"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let one: serde_json::Value =
        serde_json::from_str(&f.succeed("params ckks_n14 --json")).unwrap();
    assert!(one["bootstrap"].is_null() && one["keys"]["products"]["stored_bytes"].is_u64());
    assert!(f.succeed("params ckks_n15").contains("3 stages in each transform, 7 levels"));
    // Kinds and sizes are those of the plan that keys are made by: of tables alone, and packed for many levels.
    assert!(f.succeed("params ckks_table_4").contains("table; raises to level"));
    let set = becalm::params::CkksParams::named("ckks_17_levels").unwrap();
    let wish = Wish { size: Some("medium"), ..Wish::default() };
    let memory = KeyPlan::new(set, &wish).unwrap().price().unwrap().memory;
    let one: serde_json::Value =
        serde_json::from_str(&f.succeed("params ckks_17_levels --json")).unwrap();
    assert_eq!(one["keys"]["medium"]["memory_bytes"].as_u64(), Some(memory as u64));
    let report = f.succeed("run --scheme ckks --params ckks_n13 --json");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let steps = report["steps"].as_array().unwrap();
    assert!(report["right"] == true && steps.len() == 6, "{report}");
    assert!(steps[5]["level"] == 0 && steps[5]["what"] == "power 5", "{report}");
    let text = f.succeed("run --scheme ckks --params ckks_n12");
    for wanted in ["keys to make", "rotated by 1", "power 2", "no bootstrap", "all right"] {
        assert!(text.contains(wanted), "{text}");
    }
    for option in ["--kind sparse", "--keys small", "--of real", "--compact", "--kind precise"] {
        let says = f.refuse(&format!("run --scheme ckks --params ckks_n12 {option}"));
        assert!(says.contains("`ckks_n12`") && says.contains("a set with a bootstrap"), "{says}");
    }
}

#[test]
fn run_bootstraps_ckks() {
    let f = Folder::new("run_ckks");
    let toy = "--params ckks_toy_12 --allow-insecure";
    // A set says which scheme.
    let report = f.succeed(&format!("run {toy} --json"));
    for wanted in ["\"level_after\": 10", "\"level_after_product\": 9", "\"right\": true"] {
        assert!(report.contains(wanted), "{report}");
    }
    let text = f.succeed(&format!(
        "run --scheme ckks {toy} --kind sparse --slots 32 --stage-count 2 --keys small"
    ));
    for wanted in ["keys to make", "after it", "all right"] {
        assert!(text.contains(wanted), "{text}");
    }
    // Without a kind it is the usual one of the set.
    for (set, kind, after) in
        [("ckks_toy_slots_first", "slots_first", 13), ("ckks_toy_12", "regular", 10)]
    {
        let report = f.succeed(&format!("run --params {set} --allow-insecure --json"));
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert!(report["kind"] == kind && report["level_after"] == after, "{report}");
        assert!(report["right"] == true, "{report}");
    }
    let precise = "run --scheme ckks --kind precise --allow-insecure --json --params";
    for (compact, most) in [("--compact", 0.8), ("--compact=seeded", 0.6)] {
        let report = f.succeed(&format!("{precise} ckks_toy_precise {compact}"));
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert!(report["bits_mean"].as_f64() > Some(25.0) && report["level_after"] == 8);
        let bytes = ["key_bytes", "expanded_key_bytes"].map(|name| report[name].as_f64().unwrap());
        assert!(bytes[0] < most * bytes[1], "{compact}: {bytes:?}");
    }
    assert!(f.refuse(&format!("{precise} ckks_toy_12")).contains("ckks_toy_precise"));
    assert!(f.refuse("run --scheme tfhe --kind precise").contains("--scheme ckks"));
    assert!(f.refuse("run --params toy_1_1 --kind precise").contains("--scheme ckks"));
    assert!(f.refuse(&format!("run {toy} --table 3,2,1,0")).contains("--scheme tfhe"));
    assert!(f.refuse("run --scheme both --app aes").contains("--scheme tfhe"));
    assert!(f.refuse("run --scheme tfhe --params ckks_n12").contains("--scheme ckks"));
    assert!(f.refuse("run --params ckks_n12 --full").contains("another N"));
    let says = f.refuse(&format!("run --scheme ckks {toy} --slots 33"));
    assert!(says.contains("power of two from 2 to 2048 as slots"), "{says}");
    for slots in [0, 1, 1000, 2048, 1 << 20] {
        let says = f.refuse(&format!("run --scheme ckks {toy} --kind sparse --slots {slots}"));
        assert!(says.contains("power of two from 2 to 1024 as slots"), "{says}");
    }
    f.refuse("run --scheme ckks --params ckks_toy_12");
    assert!(f.refuse(&format!("run --scheme ckks {toy} --stage-count 9")).contains("[2, 3, 4, 5]"));
    assert!(f.refuse("run --scheme ckks --params tfhe_2_2").contains("ckks_regular"));
    assert!(f.refuse(&format!("run --scheme ckks {toy} --values 1")).contains("--values"));
    assert!(f.refuse(&format!("run --scheme both {toy}")).contains("--scheme ckks"));
}

/// A bootstrap that does not fit is refused before its keys are made, with flags that take less.
#[test]
#[cfg(target_os = "linux")]
fn too_little_memory_is_refused_with_the_flags_that_help() {
    let f = Folder::new("memory");
    let says = refused_within(&f, 3_000_000, "run --scheme ckks --full --threads 1");
    for wanted in
        ["not enough memory", "GB free", "leave --full out", "--params ckks_n15", "takes "]
    {
        assert!(says.contains(wanted), "{wanted}: {says}");
    }
    // Only what fits is offered: of the set itself where there is such a size.
    let says = refused_within(&f, 5_000_000, "run --params ckks_regular --keys large --threads 1");
    assert!(says.contains("--keys small") || says.contains("--compact"), "{says}");
    assert!(!says.contains("--full") && !says.contains("ckks_n15"), "{says}");
    // Keys and matrices would fit, but the work of a bootstrap would not: the error comes before keys are made.
    for kilobytes in [1_700_000, 1_800_000] {
        let line = "run --scheme ckks --params ckks_n15 --keys small --threads 1";
        let says = refused_within(&f, kilobytes, line);
        assert!(says.contains("run: wanted") && !says.contains("bootstrap: wanted"), "{says}");
        assert!(says.contains("--compact") && says.contains("takes "), "{says}");
    }
    // Where not even the tables fit, nothing is made.
    let says = refused_within(&f, 400_000, "run --params ckks_n17 --threads 1");
    assert!(says.contains("not enough memory") && says.contains("free memory"), "{says}");
}

/// Slots go with every kind, as in Python; without a kind they choose it, and the sparse kind has a number of its own.
#[test]
fn run_takes_slots_with_every_kind() {
    let f = Folder::new("slots");
    let first = "--params ckks_toy_slots_first --kind slots_first --slots 64";
    for (line, kind, slots) in [
        (first, "slots_first", 64),
        ("--params ckks_toy_slots_first --slots 32", "slots_first", 32),
        ("--params ckks_toy_12 --kind regular --slots 16", "regular", 16),
        ("--params ckks_toy_12 --slots 16 --keys small", "sparse", 16),
        ("--params ckks_toy_12 --kind sparse --stage-count 3", "sparse", 1024),
    ] {
        let report = f.succeed(&format!("run --allow-insecure --json {line}"));
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert!(report["kind"] == kind && report["slots"] == slots, "{line}: {report}");
        assert!(report["right"] == true && report["checked"] == slots, "{line}: {report}");
    }
}

#[test]
fn run_tells_the_stages_of_few_slots() {
    let f = Folder::new("stages");
    let run = |more: &str| -> serde_json::Value {
        let line = "run --params ckks_toy_12 --allow-insecure --kind sparse --slots 4 --json";
        serde_json::from_str(&f.succeed(&format!("{line} {more}"))).unwrap()
    };
    let (own, two) = (run(""), run("--stage-count 2"));
    assert_eq!(own["stage_count"], 2, "{own}");
    assert_eq!(own["matrix_bytes"], two["matrix_bytes"]);
    assert_ne!(own["matrix_bytes"], run("--stage-count 1")["matrix_bytes"]);
}

#[test]
#[ignore = "7 GB of memory and a minute: make test-full; README's `make run` does the same"]
fn full_size_run_bootstraps_both_schemes() {
    let f = Folder::new("run_both");
    let report = f.succeed("run --full --values 3,1,2 --json");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["tfhe"]["results"], serde_json::json!([10, 2, 5]));
    assert!(report["ckks"]["log2_degree"] == 16 && report["ckks"]["right"] == true, "{report}");
}

#[test]
fn bench_and_doctor_report() {
    let f = Folder::new("bench");
    let line = "bench --quick --params toy_1_1 --allow-insecure --json -";
    let rows: serde_json::Value = serde_json::from_str(&f.succeed(line)).unwrap();
    assert!(rows.as_array().unwrap().iter().all(|r| r["ms"].as_f64().unwrap() > 0.0));
    let doctor: serde_json::Value = serde_json::from_str(&f.succeed("doctor --json")).unwrap();
    let checks = doctor["checks"].as_array().unwrap();
    assert!(checks.iter().all(|c| c["ok"] == true));
    let said = f.succeed("doctor");
    assert_eq!(said.matches(": right\n").count(), checks.len());
}

#[test]
fn bench_prints_the_tables_of_the_document() {
    let f = Folder::new("tables");
    let line = "bench ckks --quick --json - --tables";
    let rows = |title| -> Vec<serde_json::Value> {
        serde_json::from_str(&f.succeed(&format!("{line} {title}"))).unwrap()
    };
    // Signs: three ways to bootstrap them, of which the one made for them is the best by far.
    let bits = |r: &serde_json::Value| -r["mean_error"].as_f64().unwrap().log2();
    let errors = rows("signs");
    assert!(errors.iter().all(|r| r["seconds"][0].as_f64() > Some(0.0)), "{errors:?}");
    assert_eq!(errors.len(), 3);
    assert!(bits(&errors[2]) > 29.0 && bits(&errors[2]) > bits(&errors[0]) + 5.0, "{errors:?}");
    assert!(
        errors[2]["document_mean_error"].as_f64().unwrap()
            > errors[2]["mean_error"].as_f64().unwrap()
    );
    // Compact keys compute as well as others, and the document's figure stands beside.
    let text = f.succeed("bench ckks --quick --tables compact");
    assert!(text.contains("document (their machine)") && text.contains("28.524"), "{text}");
    assert_eq!(text.matches(" bits)").count(), 3, "{text}");
    assert!(f.refuse("bench ckks --quick --tables nothing").contains("to 14 levels"));
    f.refuse("bench --quick --tables regular");
}

#[test]
fn bench_of_ckks_refuses_what_it_would_ignore() {
    let f = Folder::new("bench_ckks");
    for more in ["", " --quick", " --tables error"] {
        let says =
            f.refuse(&format!("bench ckks --params ckks_toy_12,toy_1_1 --allow-insecure{more}"));
        assert!(
            says.contains("--params ckks_toy_12,toy_1_1") && says.contains("--quick"),
            "{says}"
        );
    }
    assert!(f.refuse("bench ckks --tables error --device cuda").contains("CPU"));
    // Before the first row, and with the path.
    let says = f.refuse("bench ckks --tables error --json nowhere/x.json");
    assert!(says.contains("no folder nowhere"), "{says}");
}

#[test]
fn refusals_name_the_remedy() {
    let f = Folder::new("refusals");
    assert!(f.refuse("run --params toy_2_2").contains("insecure"));
    assert!(f.refuse("run --params tfhe_2_3").contains("tfhe_2_2"));
    assert!(f.refuse("run --params toy_2_2 --allow-insecure --values 16").contains("below 16"));
    assert!(f.refuse("decrypt nothing.becalm").contains("nothing.becalm"));
    f.succeed("keygen --params toy_2_2 --allow-insecure");
    assert!(f.refuse("keygen --params toy_2_2 --allow-insecure").contains("--force"));
    f.succeed("encrypt --values 3 -o x.becalm --allow-insecure");
    f.succeed(
        "keygen --params toy_2_2 --allow-insecure --secret other.becalm --evaluation e2.becalm",
    );
    let wrong = f.refuse("decrypt x.becalm --secret other.becalm --allow-insecure");
    assert!(wrong.contains("wrong key"), "{wrong}");
    let swapped = f.refuse("decrypt x.becalm --secret evaluation.becalm --allow-insecure");
    assert!(swapped.contains("bad file"), "{swapped}");
    assert_eq!(f.run("run --no-such-flag").status.code(), Some(2));
}

#[test]
#[cfg(unix)]
fn an_interrupt_leaves_no_key_behind() {
    let folder = Folder::new("interrupt");
    let mut child = Command::new(env!("CARGO_BIN_EXE_becalm"))
        .current_dir(&folder.0)
        .args(["keygen", "--params", "tfhe_3_3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says how large the key will be just before it begins.
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("tfhe_3_3"), "{first}");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let out = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(130), "{message}");
    assert!(message.contains("nothing was kept"), "{message}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn files_of_ckks_are_described_and_not_mistaken() {
    let f = Folder::new("ckks-files");
    let set = becalm::params::CkksParams::named("ckks_toy_12").unwrap();
    let context = becalm::ckks::Context::new(set, true).unwrap();
    let secret = context.secret_key().unwrap();
    let x = context.encrypt(&[becalm::math::complex::Complex::from(0.5)], 2, &secret).unwrap();
    context.save_ciphertext(&x, f.0.join("x.becalm")).unwrap();
    context.save_secret_key(&secret, f.0.join("secret.becalm")).unwrap();
    let needs = becalm::ckks::Needs::default().rotate([3], 1);
    let keys = context.keys(&secret, &needs).unwrap();
    context.write_keys(&keys, std::fs::File::create(f.0.join("keys.becalm")).unwrap()).unwrap();
    let says = f.succeed("inspect x.becalm");
    assert!(says.contains("becalm.rlwe") && says.contains("ckks_toy_12"), "{says}");
    let json: serde_json::Value =
        serde_json::from_str(&f.succeed("inspect x.becalm --json")).unwrap();
    assert_eq!((json["level"].as_u64(), json["slots"].as_u64()), (Some(2), Some(1)));
    assert!(f.succeed("inspect secret.becalm").contains("becalm.ckks_secret_key"));
    let says = f.succeed("inspect keys.becalm");
    assert!(says.contains("products") && says.contains("rotation by 3, up to level 1"), "{says}");
    let json: serde_json::Value =
        serde_json::from_str(&f.succeed("decrypt x.becalm --allow-insecure --json")).unwrap();
    assert!((json[0][0].as_f64().unwrap() - 0.5).abs() < 1e-3, "{json}");
    // A modulus is for TFHE.
    let says = f.refuse_with(2, "encrypt --values 1 --modulus 4 -o y.becalm --allow-insecure");
    assert!(says.contains("secret.becalm is a key of CKKS"), "{says}");
}

#[test]
fn slots_from_keys_to_values() {
    let f = Folder::new("slots");
    std::fs::write(f.0.join("turn.json"), "[[0,1],[1,0]]").unwrap();
    let line = "keygen --params toy_cm_1_1_w2 --allow-insecure --pack pack.becalm";
    f.succeed(&format!("{line} --slot-map turn.json turn.becalm"));
    assert!(f.succeed("inspect turn.becalm").contains("maps slots"));
    assert!(f.succeed("inspect pack.becalm").contains("packs ciphertexts"));
    f.succeed("encrypt --values 3,1,2 -o x.becalm --allow-insecure");
    let out = f.run("encrypt --values -1 -o z.becalm --allow-insecure");
    let message = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && message.contains("from 0 up"), "{message}");
    // A table for each slot: m, then 3 − m.
    let line = "eval x.becalm --table 0,1,2,3,3,2,1,0 -o y.becalm --allow-insecure";
    f.succeed(line);
    assert_eq!(f.succeed("decrypt y.becalm --allow-insecure"), "3,2,2,3\n");
    // The slots change places first: (1, 3) and (0, 2) are looked up.
    f.succeed(&line.replace("y.", "t.").replace("--allow", "--slot-key turn.becalm --allow"));
    assert_eq!(f.succeed("decrypt t.becalm --allow-insecure"), "1,0,0,1\n");
    // Two plain ciphertexts of slot 0 become one.
    f.succeed("encrypt --values 1 --slot 0 -o a.becalm --allow-insecure");
    f.succeed("encrypt --values 2 --slot 0 -o b.becalm --allow-insecure");
    f.succeed("eval a.becalm b.becalm --slot-key pack.becalm -o p.becalm --allow-insecure");
    assert_eq!(f.succeed("decrypt p.becalm --allow-insecure"), "1,2\n");
    f.refuse("eval x.becalm -o z.becalm --allow-insecure");
    // One and a half tables are none for each slot.
    f.refuse("eval x.becalm --table 0,1,2,3,3,2 -o z.becalm --allow-insecure");
    let report = f.succeed("run --params toy_cm_1_1_w2 --allow-insecure --json");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((report["wrong"].as_u64(), report["slots"].as_u64()), (Some(0), Some(2)));
    let paper = f.succeed("params --paper --json");
    let paper: serde_json::Value = serde_json::from_str(&paper).unwrap();
    assert_eq!(paper.as_array().unwrap().len(), 52);
    assert!(f.succeed("params cm_1_1_w4").contains("for any of 4 slots"));
}

#[test]
fn applications_run_and_check_themselves() {
    let f = Folder::new("apps");
    for (app, rows) in [("uint64", 6), ("aes", 2)] {
        let line = format!("run --app {app} --params toy_2_2 --allow-insecure --json");
        let report: serde_json::Value = serde_json::from_str(&f.succeed(&line)).unwrap();
        let operations = report["operations"].as_array().unwrap();
        assert_eq!(operations.len(), rows, "{app}");
        assert!(
            operations.iter().all(|o| o["right"] == true && o["bootstraps"].as_u64() > Some(0))
        );
    }
    f.refuse("run --app uint64 --params tfhe_1_1");
}

/// A circuit that is compiled for the processor has the processor's set, and times of any size are readable.
#[test]
fn circuits_for_the_processor() {
    let folder = Folder::new("machine");
    let adder = include_bytes!("../../becalm/circuits/adder8.txt");
    std::fs::write(folder.0.join("adder8.txt"), adder).unwrap();
    let line = "circuit compile adder8.txt --device processor --json -o p.becalm";
    let said = folder.succeed(line);
    assert!(said.contains("tfhe_2_2_p"), "{said}");
    let text = folder.succeed("circuit cost adder8.txt --params toy_2_2_p --device processor");
    assert!(text.contains(" µs at 450 MHz") && text.contains("waits for results"), "{text}");
    // A set that the processor does not run is refused.
    for (set, instead) in
        [("tfhe_2_2", "tfhe_2_2_p, "), ("toy_2_2", "toy_2_2_p, "), ("fast_2_2", "_p")]
    {
        let line = format!("circuit compile adder8.txt --device processor --params {set} -o q");
        assert!(folder.refuse(&line).contains(instead) && !folder.0.join("q").exists(), "{set}");
    }
    folder.succeed("circuit compile adder8.txt --device cpu --params tfhe_2_2 -o q");
}

/// A circuit from its file to a timeline of the processor; a program's cost from its own file; and what is refused.
#[test]
fn circuits_run_are_priced_and_refused() {
    let folder = Folder::new("circuit");
    let write = |name: &str, text: &[u8]| std::fs::write(folder.0.join(name), text).unwrap();
    write("adder8.txt", include_bytes!("../../becalm/circuits/adder8.txt"));
    let toy = "--params toy_2_2_p --allow-insecure --device processor --trace time.json";
    let run = format!("circuit run adder8.txt --inputs 200,0x64 {toy} --json");
    let said: serde_json::Value = serde_json::from_str(&folder.succeed(&run)).unwrap();
    assert_eq!(
        (said["outputs"]["out0"].as_str(), said["wrong_bits"].as_u64()),
        (Some("0x12c"), Some(0))
    );
    let line = std::fs::read_to_string(folder.0.join("time.json")).unwrap();
    let line: Vec<serde_json::Value> = serde_json::from_str(&line).unwrap();
    let (names, line): (Vec<_>, Vec<_>) = line.into_iter().partition(|e| e["ph"] == "M");
    let named = |e: &serde_json::Value| e["name"] == "thread_name" && e["args"]["name"].is_string();
    for event in &line {
        assert!(names.iter().any(|n| named(n) && n["tid"] == event["tid"]), "{event} has no row");
    }
    let ends = line.iter().map(|e| e["ts"].as_u64().unwrap() + e["dur"].as_u64().unwrap());
    let clocks = said["processor"]["clocks"].as_u64().unwrap();
    assert!(ends.max().unwrap() <= clocks + 1 && line.iter().all(|e| e["ph"] == "X"));
    // The same from the program's file, which knows no gates.
    folder.succeed("circuit compile adder8.txt --params toy_2_2_p -o adder8.becalm");
    let cost = "--device processor --allow-insecure --json";
    let of = |file: &str| -> serde_json::Value {
        serde_json::from_str(&folder.succeed(&format!("circuit cost {file} {cost}"))).unwrap()
    };
    let cost_of = "adder8.txt --params toy_2_2_p";
    let (circuit, program) = (of(cost_of), of("adder8.becalm"));
    assert_eq!(circuit["processor"], program["processor"]);
    assert_eq!((circuit["xor"].as_u64(), program.get("xor")), (Some(29), None));
    // Its instructions, as text and binary; a binary that ends early is refused with the place.
    for name in ["adder8.s", "adder8.bin"] {
        folder.succeed(&format!("circuit cost {cost_of} {cost} --code {name}"));
    }
    let read = |name: &str| std::fs::read(folder.0.join(name)).unwrap();
    assert_eq!(folder.succeed("circuit disassemble adder8.bin").as_bytes(), read("adder8.s"));
    folder.succeed("circuit assemble adder8.s -o again.bin");
    assert_eq!(read("again.bin"), read("adder8.bin"));
    write("short.bin", &read("adder8.bin")[..16]);
    write("wrong.s", b"ld r1 0x10\nadd r1 r2\nhalt\n");
    // A limit on the longest path that is met anyway.
    let limited = of(&format!("{cost_of} --goal 9"));
    assert!(limited["depth"].as_u64() <= Some(9) && limited["bootstraps"].as_u64() <= Some(8));
    circuits_are_refused(&folder);
}

/// Refused commands on circuits, and their messages.
const REFUSED: &[(&str, &str)] = &[
    ("run adder8.txt --inputs 200", "each of 2 inputs, got 1 value"),
    ("run adder8.txt --inputs 200,300", "0 to 255 (0xff) for in1, which has 8 bits, got 300"),
    ("run adder8.txt --inputs 200,0x164", "got 0x164, read as a hexadecimal number"),
    ("run adder8.txt --inputs 200,0b100000000", "got 0b100000000, read as a binary number"),
    ("run adder8.txt --inputs c8,64", "a number for in0, which has 8 bits, got `c8`; give"),
    ("run adder8.txt --inputs none,1", "a hexadecimal one such as 0xc8"),
    ("run adder8.txt --inputs 200,", "in1, which has 8 bits, got nothing"),
    ("run adder8.txt --inputs ,64", "in0, which has 8 bits, got nothing"),
    ("run adder8.txt --inputs 0x,64", "got `0x`"),
    // Inputs are looked at before the circuit is compiled, which this set would refuse.
    ("run adder8.txt --inputs 200 --params tfhe_boolean", "each of 2 inputs, got 1 value"),
    ("run adder8.txt --inputs 0x0x8,64", "got `0x0x8`"),
    ("run adder8.txt --inputs 200,100 --device cpu --width 4", "--width applies to the simulated"),
    ("run adder8.txt --inputs 200,100 --device cup", "cpu, cuda"),
    ("cost adder8.txt --width 4", "--width applies to the simulated"),
    ("cost adder8.becalm --params tfhe_2_2", "leave --params out"),
    ("cost adder8.becalm --goal depth", "leave --goal out"),
    ("cost adder8.txt --goal 3", "4, the fewest"),
    ("cost adder8.txt --params tfhe_22", "did you mean `tfhe_2_2`"),
    ("cost elf", "wanted a text, got elf, which holds other bytes"),
    ("run elf --inputs 1", "wanted a text, got elf"),
    ("cost .", "., which is a folder"),
    ("assemble . -o x.bin", "., which is a folder"),
    ("assemble adder8.bin -o x.bin", "a binary already; `becalm circuit disassemble`"),
    ("assemble elf -o x.bin", "wanted a text, got elf"),
    ("disassemble adder8.s", "a binary of the processor, got"),
    ("disassemble .", "., which is a folder"),
    ("run adder8.becalm --inputs 200,100", "a file of becalm's"),
    ("cost broken.txt", "in line 4 of broken.txt"),
    ("cost bytes.txt", "wanted a text, got bytes.txt"),
    ("cost none.txt", "none.txt"),
    ("cost nothing.txt", "nothing.txt, empty"),
    ("cost nothing.v", "nothing.v, empty"),
    ("cost unknown.v", "bits that are 0 or 1 in line 2 of unknown.v, got `1'bz`"),
    ("cost large.txt", "at most 16384 wires in a file as short as this, in line 2 of large.txt"),
    (
        "cost adder8.txt --limit 6400",
        "at most 100 bytes, a 64th of the limit of 6400, in adder8.txt",
    ),
    ("cost adder8.txt --limit 6400", "(--limit, where the command has it)"),
    ("assemble nothing.txt -o x.bin", "nothing.txt, empty"),
    ("assemble none.s -o x.bin", "none.s"),
    ("disassemble none.bin", "none.bin"),
    ("cost /dev/zero", "/dev/zero, which is a pipe or a device"),
    ("disassemble nothing.txt", "got nothing.txt, which is another file"),
    ("cost adder8.txt --params tfhe_boolean", "tfhe_2_2"),
    ("cost adder8.txt --params tfhe_2_2 --device processor", "suffix _p"),
    ("cost adder8.txt --device processor --width 5", "2, 4, 8, 16 or 32"),
    ("cost adder8.txt --code nope.bin", "--device processor"),
    ("cost adder8.bin", "adder8.bin, which is a binary of the processor"),
    ("run adder8.bin --inputs 200,100", "adder8.bin, which is a binary of the processor"),
    ("assemble empty.s -o empty.bin", "`halt` at the end and nowhere else, got no instructions"),
    ("disassemble short.bin", "at byte 16"),
    ("assemble wrong.s -o wrong.bin", "line 2"),
];

/// The refusals, beside the files that `circuits_run_are_priced_and_refused` left.
fn circuits_are_refused(folder: &Folder) {
    let write = |name: &str, text: &[u8]| std::fs::write(folder.0.join(name), text).unwrap();
    write("empty.s", b"# nothing\n");
    write("broken.txt", b"1 3\n2 1 1\n1 1\n2 1 0 7 2 AND\n");
    write("bytes.txt", b"\xff\xfe");
    write("nothing.txt", b"");
    write("nothing.v", b"");
    write("unknown.v", b"module m(input a, output b);\nassign b = a ? 1'bz : a; endmodule\n");
    write("large.txt", b"0 4194304\n1 4194304\n1 4194304\n");
    write("elf", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0");
    write("module.v", b"module m(input a, output b); assign b = ~a; endmodule\n");
    for (line, says) in REFUSED {
        let said = folder.refuse(&format!("circuit {line}"));
        assert!(said.contains(says), "{line}: {said}");
    }
    // A value that its option cannot have ends as an unknown option does.
    let none = folder.run("circuit cost adder8.txt --goal 0");
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8(none.stderr).unwrap().contains("1 or more"));
}
