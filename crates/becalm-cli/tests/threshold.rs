//! A key of CKKS split among parties, and a decryption by a quorum, as users run them.

mod harness;

use becalm::cipher::file::Trust;
use becalm::ckks::{Context, KeyShare};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use harness::Folder;
use serde_json::Value;

/// A folder with a secret key, two ciphertexts under it and one under another key; the bound on the errors of the first.
fn made(name: &str) -> (Folder, f64) {
    let f = Folder::new(name);
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    let [secret, other] = [0; 2].map(|_| context.secret_key().unwrap());
    context.save_secret_key(&secret, f.0.join("secret.becalm")).unwrap();
    let m = [Complex::new(0.5, 0.25), Complex::from(-0.25)];
    let x = context.encrypt(&m, 2, &secret).unwrap();
    let real = context.noted_ciphertext_to_bytes(&x, Some(true)).unwrap();
    std::fs::write(f.0.join("real.becalm"), real).unwrap();
    context.save_ciphertext(&x, f.0.join("x.becalm")).unwrap();
    let low = context.encrypt(&m, 1, &secret).unwrap();
    context.save_ciphertext(&low, f.0.join("low.becalm")).unwrap();
    let foreign = context.encrypt(&m, 2, &other).unwrap();
    context.save_ciphertext(&foreign, f.0.join("foreign.becalm")).unwrap();
    (f, x.account().worst)
}

const SPLIT: &str = "threshold split --threshold 2 -o s1 -o s2 -o s3 --allow-insecure";

#[test]
fn a_quorum_decrypts_through_files() {
    let (f, worst) = made("threshold");
    let split = f.json(&format!("{SPLIT} --json"));
    assert_eq!((split["parties"].as_u64(), split["threshold"].as_u64()), (Some(3), Some(2)));
    let says = f.json("inspect s3 --json");
    assert_eq!([&says["party"], &says["parties"], &says["threshold"]], [3, 3, 2]);
    assert_eq!(says["key"], split["key"]);
    assert!(f.succeed("inspect s3").contains("of party 3 of 3, of whom 2 decrypt together"));
    let options = format!("--quorum 3,1 --queries 4 --error {worst} --allow-insecure");
    let part = |party: usize, x: &str, out: &str| {
        let like = "--like x.becalm";
        f.json(&format!("threshold decrypt {x} --share s{party} {like} {options} -o {out} --json"))
    };
    let first = part(1, "x.becalm", "p1");
    assert_eq!((&first["quorum"], &first["party"]), (&serde_json::json!([1, 3]), &1.into()));
    let bits = first["bits"].as_f64().unwrap();
    part(3, "x.becalm", "p3");
    let says = f.json("inspect p3 --json");
    assert_eq!((&says["quorum"], &says["party"]), (&serde_json::json!([1, 3]), &3.into()));
    assert!(f.succeed("inspect p3").contains("of party 3; the quorum is [1, 3]"));
    // The noise of two parts, eight standard deviations away.
    let within = 8.0 * 2f64.sqrt() * (-bits).exp2();
    let values = f.json("threshold combine x.becalm p1 p3 --allow-insecure --json");
    let number = |v: &Value| v.as_f64().unwrap();
    assert!((number(&values[0][0]) - 0.5).abs() < within, "{values} within {within}");
    assert!((number(&values[0][1]) - 0.25).abs() < within, "{values} within {within}");
    let text = f.succeed("threshold combine x.becalm p3 p1 --allow-insecure");
    assert!(text.matches('i').count() == 2 && text.contains(','), "{text}");
    part(1, "real.becalm", "r1");
    part(3, "real.becalm", "r3");
    let values = f.json("threshold combine real.becalm r1 r3 --allow-insecure --json");
    assert!((number(&values[1]) + 0.25).abs() < within, "{values} within {within}");
    assert!(f.refuse_with(3, "threshold combine x.becalm p1 --allow-insecure").contains("[1, 3]"));
    let damaged = std::fs::read(f.0.join("p3")).unwrap();
    std::fs::write(f.0.join("p3"), &damaged[..damaged.len() - 1]).unwrap();
    assert!(f.refuse_with(4, "threshold combine x.becalm p1 p3 --allow-insecure").contains("p3"));
}

#[test]
fn what_gives_a_share_away_is_not_done() {
    let (f, worst) = made("threshold-refused");
    f.succeed(SPLIT);
    assert!(f.refuse_with(4, SPLIT).contains("--force"));
    f.succeed(&format!("{SPLIT} --force"));
    f.refuse_with(2, "threshold split --threshold 2 -o t1 -o t1 --allow-insecure");
    f.refuse_with(3, "threshold split --threshold 3 -o t1 -o t2 --allow-insecure");
    f.refuse_with(3, "threshold split --threshold 2 -o t1 -o t2");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(f.0.join("s1")).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "only its owner reads a share");
    }
    let line = |x: &str, like: &str, more: &str| {
        format!(
            "threshold decrypt {x} --like {like} --share s1 --error {worst} --queries 4 --allow-insecure {more}"
        )
    };
    // Results of another computation, parties that are no quorum, and more bits than hide the error.
    let says = f.refuse_with(3, &line("x.becalm", "low.becalm", "--quorum 1,2 -o p"));
    assert!(says.contains("not the result of the same computation"), "{says}");
    f.refuse_with(3, &line("foreign.becalm", "foreign.becalm", "--quorum 1,2 -o p"));
    f.refuse_with(3, &line("x.becalm", "x.becalm", "--quorum 2,3 -o p"));
    f.refuse_with(3, &line("x.becalm", "x.becalm", "--quorum 1,2 --bits 30 -o p"));
    f.refuse_with(3, &line("x.becalm", "x.becalm", "--quorum 1,2 --bound 0 -o p"));
    // Keys stay, whatever is forced.
    for key in ["s1", "s2", "secret.becalm"] {
        let says = f.refuse_with(
            4,
            &line("x.becalm", "x.becalm", &format!("--quorum 1,2 --force -o {key}")),
        );
        assert!(says.contains("holds a key"), "{says}");
    }
    let no_error = "threshold decrypt x.becalm --like x.becalm --quorum 1,2 --queries 4 -o p";
    f.refuse_with(2, no_error);
    assert!(!f.0.join("p").exists());
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    assert!(KeyShare::load(&context, f.0.join("s1"), Trust::insecure()).is_ok());
}
