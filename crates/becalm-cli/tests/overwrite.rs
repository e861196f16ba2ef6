//! Every command that writes a file refuses one that exists, unless `--force` is given.

mod harness;

use harness::Folder;

/// A command that writes, and the name of the file.
const WRITERS: [(&str, &str); 11] = [
    ("keygen --params toy_boolean --allow-insecure", "secret.becalm"),
    ("keygen --params toy_boolean --allow-insecure --secret s2", "evaluation.becalm"),
    ("encrypt --values 1,0 --allow-insecure -o x.becalm", "x.becalm"),
    ("eval x.becalm --table 1,0 --allow-insecure -o y.becalm", "y.becalm"),
    ("circuit compile adder8.txt -o adder8.becalm", "adder8.becalm"),
    ("circuit cost adder8.txt --device processor --code adder8.s", "adder8.s"),
    ("circuit cost adder8.txt --device processor --trace clocks.json", "clocks.json"),
    ("circuit assemble adder8.s -o adder8.bin", "adder8.bin"),
    ("noise --params toy_boolean --short 4 --keys 2 --samples 1 --plot noise.svg", "noise.svg"),
    ("bench --quick --params toy_boolean --allow-insecure --json rows.json", "rows.json"),
    ("bench ckks --quick --tables nothing --json rows.json", "rows.json"),
];

#[test]
fn a_file_that_exists_is_overwritten_only_by_force() {
    let folder = Folder::new("overwrite");
    let adder = include_bytes!("../../becalm/circuits/adder8.txt");
    std::fs::write(folder.0.join("adder8.txt"), adder).unwrap();
    for (line, name) in WRITERS {
        if !folder.0.join(name).exists() {
            folder.succeed(line);
        }
        let before = folder.read(name);
        let says = folder.refuse(line);
        let wanted = format!("save: wanted a new name, got {name}, which exists; ");
        assert!(says.contains(&wanted) && says.contains("--force"), "{line}: {says}");
        assert_eq!(folder.read(name), before, "{line}");
    }
    // A name that is taken costs no work: the circuit is not even read.
    assert!(folder.refuse("circuit compile none.txt -o adder8.bin").contains("adder8.bin, which"));
    // Several results: none is written where one name is taken.
    std::fs::write(folder.0.join("taken"), "old").unwrap();
    let eval = "eval x.becalm --program adder8.becalm --allow-insecure -o z0 -o taken";
    assert!(folder.refuse(eval).contains("taken, which exists"));
    assert!(!folder.0.join("z0").exists() && folder.read("taken") == b"old");
    // By force the file is new. A key is spared even then.
    for (line, name) in [0, 2, 3, 4].map(|i| WRITERS[i]) {
        let before = folder.read(name);
        folder.succeed(&format!("{line} --force"));
        assert!(folder.read(name) != before || name.starts_with("adder8"), "{line}");
    }
    let says = folder.refuse("encrypt --values 1 --allow-insecure --force -o secret.becalm");
    assert!(says.contains("holds a key"), "{says}");
    let key = folder.read("evaluation.becalm");
    let keygen = "keygen --params toy_boolean --allow-insecure --force";
    for places in
        ["--secret evaluation.becalm --evaluation e2", "--secret s3 --evaluation secret.becalm"]
    {
        let says = folder.refuse(&format!("{keygen} {places}"));
        assert!(says.contains("holds a key"), "{places}: {says}");
    }
    for line in [
        "circuit compile adder8.txt",
        "circuit cost adder8.txt --device processor --code",
        "circuit assemble adder8.s",
    ] {
        let out = if line.ends_with("--code") { "" } else { " -o" };
        let says = folder.refuse(&format!("{line}{out} evaluation.becalm --force"));
        assert!(says.contains("evaluation.becalm, which holds a key"), "{line}: {says}");
        let says = folder.refuse(&format!("{line}{out} . --force"));
        assert!(says.contains("which is a folder; name a file in it"), "{line}: {says}");
    }
    assert_eq!(folder.read("evaluation.becalm"), key);
    // Standard output and devices hold nothing that could be lost.
    folder.succeed("circuit cost adder8.txt --device processor --trace /dev/null");
}
