//! Functions of real numbers for CKKS, as users list, describe and run them.

mod harness;

use becalm::apps::real::Named;
use becalm::bootstrap::ckks::{KeyPlan, Kind, Wish};
use becalm::cipher::CkksSecretKey;
use becalm::cipher::file::Trust;
use becalm::ckks::Context;
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use harness::Folder;

const SLOTS: usize = 64;

/// The keys of a server in `server.becalm`, with a sparse bootstrap of few slots, and the secret.
fn keys(f: &Folder) -> (Context, CkksSecretKey) {
    let params = CkksParams::named("ckks_toy_12").unwrap();
    let wish = Wish { slots: Some(SLOTS), kinds: vec![Kind::Sparse], ..Wish::default() };
    let plan = KeyPlan::new(params, &wish).unwrap();
    let context = Context::new(params, true).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &plan.needs()).unwrap();
    let mut file = std::fs::File::create(f.0.join("server.becalm")).unwrap();
    context.write_noted_keys(&keys, &plan.note(), &mut file).unwrap();
    (context, secret)
}

#[test]
fn functions_run_on_files_as_on_plain_numbers() {
    let f = Folder::new("function");
    let (context, secret) = keys(&f);
    let x: Vec<f64> = (0..SLOTS).map(|j| j as f64 / SLOTS as f64).collect();
    let y: Vec<f64> = (0..SLOTS).map(|j| (j * 7 % SLOTS) as f64 / SLOTS as f64).collect();
    for (name, values) in [("x", &x), ("y", &y)] {
        let m: Vec<Complex> = values.iter().map(|v| Complex::from(*v)).collect();
        let ct = context.encrypt(&m, 3, &secret).unwrap();
        let bytes = context.noted_ciphertext_to_bytes(&ct, Some(true)).unwrap();
        std::fs::write(f.0.join(name), bytes).unwrap();
    }
    let of_keys = "--evaluation server.becalm --level 3 --allow-insecure --json";
    let cases = [
        ("tanh --domain=-1,1 --bits 8", 0, vec![&x]),
        ("maximum --bits 7 --auto", 1, vec![&x, &y]),
    ];
    for (asked, bootstraps, vectors) in cases {
        let says = f.json(&format!("function {asked} {of_keys} -o p --force"));
        assert_eq!(says["program"]["cost"]["bootstraps"], bootstraps, "{asked}");
        assert_eq!(says["program"]["inputs"][0]["slots"], SLOTS);
        let inputs = if vectors.len() == 2 { "x y" } else { "x" };
        let options = "--program p --evaluation server.becalm --allow-insecure --force";
        f.succeed(&format!("eval {inputs} {options} -o out"));
        let trust = Trust { allow_insecure: true, ..Trust::default() };
        let out = context.load_ciphertext(f.0.join("out"), trust).unwrap();
        let found = context.decrypt(&out, &secret).unwrap();
        let wanted = |j: usize| match vectors[..] {
            [a, b] => a[j].max(b[j]),
            _ => x[j].tanh(),
        };
        // The error that it says, and that of the ciphertexts.
        let most = says["error"].as_f64().unwrap() + 1e-3;
        for (j, found) in found.iter().enumerate() {
            assert!((found.re - wanted(j)).abs() < most, "{asked} slot {j}: {}", found.re);
        }
    }
}

/// The command alone makes the program, keys for it and vectors, runs it and decrypts.
#[test]
fn the_command_makes_all_that_a_program_takes() {
    let f = Folder::new("function-alone");
    let toy = "--params ckks_toy_12 --slots 8 --allow-insecure";
    f.succeed(&format!("function largest --size 2 --bits 6 {toy} -o largest"));
    f.succeed(&format!("function exp {toy} -o exp"));
    let line = "keygen --program exp --program largest --allow-insecure";
    let made = f.json(&format!("{line} --json"));
    assert_eq!(made["params"], "ckks_toy_12");
    assert!(f.succeed("inspect evaluation.becalm").contains("rotation by 1"));
    let x = f.json("encrypt --values 0.5,-0.25,1 --slots 8 -o x --allow-insecure --json");
    let known = ["values", "slots", "level"].map(|k| x[k].as_u64().unwrap());
    assert_eq!(known, [3, 8, 10]);
    f.succeed("eval x --program exp -o y --allow-insecure");
    let y = f.json("decrypt y --allow-insecure --json");
    let wanted = [0.5f64, -0.25, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0].map(f64::exp);
    for (at, wanted) in wanted.iter().enumerate() {
        assert!((y[at].as_f64().unwrap() - wanted).abs() < 1e-4, "{y}");
    }
    f.succeed("encrypt --values 0.5,0.25,1 --slots 8 --level 10 -o x --allow-insecure --force");
    f.succeed("eval x --program largest -o z --allow-insecure");
    let z = f.json("decrypt z --allow-insecure --json");
    assert!((z[1].as_f64().unwrap() - 1.0).abs() < 0.02, "{z}");
    for (status, line, says) in [
        (3, "keygen --program exp --params ckks_toy_table_4", "programs of `ckks_toy_table_4`"),
        (2, "keygen --program exp --params toy_2_2", "leave --program out"),
        (3, "encrypt --values 1,2,3 --slots 2 -o w", "at most 2 values"),
        (3, "encrypt --values 1 --slots 3 -o w", "a power of two of at most 2048"),
        (3, "encrypt --values 1 --level 99 -o w", "level"),
        (2, "encrypt --values 1 --below 4 -o w", "leave --modulus, --below and --slot out"),
        (2, "encrypt --values nan -o w", "values are numbers"),
        (2, "encrypt --packed --values 0.5 -o w", "integers from 0 up"),
    ] {
        let line = format!("{line} --allow-insecure");
        let line = if line.starts_with("keygen") { format!("{line} --force") } else { line };
        let said = f.refuse_with(status, &line);
        assert!(said.contains(says), "{line}: {said}");
    }
    assert!(f.refuse_with(3, "keygen --program exp --force").contains("--allow-insecure"));
}

#[test]
fn functions_say_what_they_take_and_give() {
    let f = Folder::new("function-says");
    let listed = f.json("function --json");
    assert_eq!(listed.as_array().unwrap().len(), Named::all().len());
    let text = f.succeed("function");
    for named in Named::all() {
        assert!(text.contains(named.name) && text.contains(named.about), "{}", named.name);
    }
    let says = f.json("function sigmoid --json");
    assert_eq!((&says["domain"], &says["vectors"]), (&serde_json::json!([-8.0, 8.0]), &1.into()));
    assert!(says["error"].as_f64().unwrap() <= 2f64.powi(-12) && says["program"].is_null());
    assert!(f.succeed("function sort --size 4").contains("4 slots"));
    // With a set alone, and without keys, the program takes a fresh ciphertext of all slots.
    let says = f.json("function tanh --params ckks_toy_12 --allow-insecure --json -o p");
    assert_eq!(says["program"]["inputs"][0]["level"], 10);
    assert!(f.succeed("inspect p").contains("2048 values"));
    // A file that is there stays.
    assert!(
        f.refuse_with(4, "function exp --params ckks_toy_12 --allow-insecure -o p")
            .contains("--force")
    );
}

#[test]
fn wrong_requests_say_what_to_do() {
    let f = Folder::new("function-wrong");
    std::fs::write(f.0.join("text"), "no keys").unwrap();
    for (status, line, says) in [
        (3, "function sinus", "sigmoid, tanh"),
        (3, "function sigmoid --gap 0.1", "leave gap out"),
        (3, "function inverse", "a domain for inverse"),
        (3, "function sort", "a size for sort"),
        (2, "function --bits 3", "name a function"),
        (2, "function exp --domain 1", "two numbers"),
        (3, "function exp --params ckks_toy_12 -o p", "--allow-insecure"),
        (3, "function sigmoid --params ckks_toy_12 --level 3 --allow-insecure", "level 6 or above"),
        (3, "function exp --params ckks_toy_12 --slots 5 --allow-insecure", "power of two"),
        (4, "function exp --evaluation text", "a file of becalm"),
        (4, "function exp --evaluation nowhere", "nowhere"),
    ] {
        let said = f.refuse_with(status, line);
        assert!(said.contains(says), "{line}: {said}");
    }
    assert!(!f.0.join("p").exists());
}
