//! Parties that make a key of CKKS together and decrypt with it, as users run them.

mod harness;

use harness::Folder;

const SEED: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A party of three, of whom two decrypt.
fn party(index: usize) -> String {
    let deal: Vec<String> = (1..=3).map(|to| format!("--deal d{index}{to}")).collect();
    format!(
        "threshold party --params ckks_toy_12 --seed {SEED} --index {index} --parties 3 --threshold 2 --rotate 1 -o p{index} --message f{index} {} --allow-insecure",
        deal.join(" ")
    )
}

fn answer(index: usize) -> String {
    let others = (1..=3).filter(|from| *from != index);
    let dealt: Vec<String> = others.map(|from| format!("--dealt d{from}{index}")).collect();
    format!(
        "threshold answer --party p{index} f1 f2 f3 {} -o s{index} --share share{index} --allow-insecure",
        dealt.join(" ")
    )
}

const AGGREGATE: &str = "threshold aggregate f1 f2 f3 s1 s2 s3 --allow-insecure";

#[test]
fn three_parties_make_a_key_through_files_and_two_decrypt() {
    let f = Folder::new("collective");
    let made: Vec<_> = (1..=3).map(|i| f.json(&format!("{} --json", party(i)))).collect();
    assert!(made.iter().all(|party| party["agreement"] == made[0]["agreement"]));
    let says = f.json("inspect f2 --json");
    assert_eq!(
        [&says["party"], &says["parties"], &says["threshold"], &says["round"]],
        [2, 3, 2, 1]
    );
    assert!(
        f.succeed("inspect f2").contains("of party 2 of 3, of whom 2 decrypt together, round 1")
    );
    assert_eq!(f.json("inspect p1 --json")["kind"], "becalm.ckks_party");
    let keys: Vec<_> = (1..=3).map(|i| f.json(&format!("{} --json", answer(i)))).collect();
    let sum = f.json(&format!("{AGGREGATE} --json"));
    assert!(keys.iter().all(|key| key["key"] == sum["key"]));
    assert_eq!(f.json("inspect evaluation.becalm --json")["key"], sum["key"]);
    f.succeed(
        "encrypt --public public.becalm --values 0.5,-0.25 --level 1 -o x.becalm --allow-insecure",
    );
    f.succeed("encrypt --public public.becalm --values 0 --level 1 -o dry.becalm --allow-insecure");
    let part = |party: usize| {
        let options = "--quorum 3,1 --queries 1 --error 1e-6 --like dry.becalm --allow-insecure";
        let line = format!(
            "threshold decrypt x.becalm --share share{party} -o part{party} {options} --json"
        );
        f.json(&line)["bits"].as_f64().unwrap()
    };
    let bits = part(1);
    assert!((bits - part(3)).abs() < 1e-9);
    let values = f.json("threshold combine x.becalm part1 part3 --allow-insecure --json");
    let within = 8.0 * 2f64.sqrt() * (-bits).exp2();
    for (value, wanted) in values.as_array().unwrap().iter().zip([0.5, -0.25]) {
        assert!((value.as_f64().unwrap() - wanted).abs() < within, "{value}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let f = Folder::new("collective-refused");
    (1..=3).for_each(|i| drop(f.succeed(&party(i))));
    // A party that answers later is not replaced without a word.
    assert!(f.refuse_with(4, &party(1)).contains("--force"));
    f.succeed(&format!("{} --force", party(3)));
    let short =
        "threshold party --params ckks_toy_12 --seed 00 --index 1 --parties 2 -o q --message g";
    assert!(f.refuse_with(3, &format!("{short} --allow-insecure")).contains("64 hexadecimal"));
    let twice = party(1).replace("--message f1", "--message p1");
    assert!(f.refuse_with(2, &twice).contains("named twice"));
    let none = party(1).replace(" --deal d13", "").replace("-o p1", "-o q");
    assert!(f.refuse_with(3, &none).contains("3 files as --deal"));
    let line = answer(1).replace("f1 f2 f3", "f1 f2");
    assert!(f.refuse_with(3, &line).contains("none of [3]"));
    let line = answer(1).replace("--dealt d21", "--dealt d22");
    assert!(f.refuse_with(3, &line).contains("for party 2"));
    assert!(f.refuse_with(2, &answer(1).replace("-o s1", "-o f1")).contains("is an input"));
    (1..=2).for_each(|i| drop(f.succeed(&answer(i))));
    let sum = "threshold aggregate f1 f2 f3 s1 s2 --allow-insecure";
    assert!(f.refuse_with(3, sum).contains("none of [3]"));
    let over = "threshold aggregate f1 f2 f3 s1 s2 --public p1 --force --allow-insecure";
    assert!(f.refuse(over).contains("holds a key"));
    assert!(
        f.refuse("encrypt --public f1 --values 1 -o x --allow-insecure").contains("public key")
    );
    assert!(f.refuse("threshold aggregate p1 --allow-insecure").contains("message"));
}
