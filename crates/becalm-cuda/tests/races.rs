//! The kernels under the race detector of `becalm-emulator/emulator/races.h`: none as they are, and one for each barrier that
//! is left out.
//!
//! The compiler must have `-fsanitize=thread`, of which only its calls before each access are used and not its library;
//! where it has none the test fails and says so. BECALM_FULL=1 takes all rings.

#[path = "../../becalm/tests/full/mod.rs"]
mod full;

use becalm_cuda::{Arithmetic, Kernels, RINGS, Ring, TEST_RINGS};
use full::full;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Barriers that can be left out, numbered from 1 (`planted` in the kernels).
const PLANTS: usize = 15;

/// The kernels in which each missing barrier must be found, by its number; in the first no barrier is missing.
const FOUND: [&str; PLANTS + 1] = [
    "",
    "to_fourier rotate_cluster rotate_block rotate_pair",
    "to_fourier rotate_cluster rotate_block rotate_pair",
    "from_fourier rotate_cluster rotate_block rotate_pair",
    "rotate_cluster rotate_block rotate_pair",
    "rotate_cluster",
    "rotate_block rotate_pair",
    "bundle_one bundle_many",
    "micro_remote",
    "modulus_switch",
    "rotate_cluster rotate_block rotate_pair",
    "micro_remote",
    "rotate_cluster",
    "bundle_tensor",
    "bundle_tensor",
    "bundle_tensor",
];

/// Two levels, bundles of three GGSW, two warps a column; and classic steps, a warp a column: in doubles, by residues, and the
/// second modulo p. Classic steps and bundles with mailboxes in global memory; two bodies.
fn rings() -> [Ring; 8] {
    let of_two = Ring { group_bits: 2, group_ggsws: 3, ..TEST_RINGS[0] };
    let groups = Ring { log2_n: 10, k: 1, base_log: 15, level: 2, ..of_two };
    let with = |ring, arithmetic| Ring { arithmetic, ..ring };
    [
        groups,
        TEST_RINGS[0],
        with(groups, Arithmetic::Exact),
        with(TEST_RINGS[0], Arithmetic::Exact),
        with(TEST_RINGS[0], Arithmetic::Prime),
        Ring { log2_n: 12, k: 1, base_log: 10, level: 3, ..TEST_RINGS[0] },
        Ring { log2_n: 12, k: 1, base_log: 10, level: 4, ..of_two },
        Ring { bodies: 2, ..TEST_RINGS[0] },
    ]
}

/// The rings that a run checks. Those of a short one have every barrier in every kernel.
fn checked() -> Vec<Ring> {
    let all = rings();
    let short = [0, 2, 4, 7].map(|at| all[at]);
    let found = |rings: &[Ring]| {
        let named = FOUND
            .iter()
            .enumerate()
            .flat_map(|(plant, kernels)| kernels.split(' ').map(move |kernel| (plant, kernel)));
        named.filter(|(plant, k)| rings.iter().any(|ring| has(ring, *plant, k))).collect::<Vec<_>>()
    };
    assert_eq!(found(&short), found(&all));
    if full() { all.to_vec() } else { short.to_vec() }
}

/// Whether a ring has a barrier, by its number, in a kernel.
fn has(ring: &Ring, barrier: usize, kernel: &str) -> bool {
    let there = match kernel {
        "rotate_pair" => ring.jobs_of_block() == 2,
        "rotate_block" => ring.jobs_of_block() > 0,
        "bundle_one" | "bundle_many" => ring.group_ggsws > 0 && !ring.is_far(),
        "bundle_tensor" => ring.group_ggsws > 0 && !ring.is_far() && !ring.is_exact(),
        "micro_remote" => !ring.is_exact(),
        _ => true,
    };
    // Before an accumulator is turned, between the levels of a step, and before a block takes its mailbox with it.
    there
        && (barrier != 4 || ring.group_ggsws == 0)
        && (barrier != 10 || ring.level > 1)
        && (barrier != 12 || !ring.is_far())
}

/// The last wait that `kernels/leaves.cuh`, `streams.cuh` and `batch.cuh` can leave out, and what is then found: in the rotations by
/// clusters, each beside the kernel that makes its bundles, and in a batch; with `!` a mistake. In the first no wait is missing.
const LEAVES_PLANTS: usize = 39;
const LEAVES_FOUND: [&str; LEAVES_PLANTS - PLANTS + 1] = [
    "",
    "leaves_16 leaves_4",
    "!leaves_16 leaves_16 !leaves_4 leaves_4",
    "!leaves_16 leaves_16 !leaves_4 leaves_4",
    "leaves_16 leaves_4",
    "leaves_16 leaves_4",
    "leaves_16 leaves_4",
    "leaves_4",
    "leaves_4",
    "leaves_16 leaves_4",
    "leaves_16 leaves_4",
    "!leaves_16 leaves_16 !leaves_4 leaves_4",
    "leaves_16 leaves_4",
    "!batch batch",
    "!batch batch",
    "batch",
    "batch",
    "batch",
    "batch",
    "batch",
    "batch",
    "!batch batch",
    "batch",
    "batch",
    "batch",
];

fn compiler() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "c++".to_string())
}

/// The barriers of the kernels of CKKS, numbered anew, and the kernels in which each must be found.
const RNS_FOUND: [&str; 10] = [
    "",
    "ntt_rows",
    "ntt_rows",
    "intt_rows",
    "convert",
    "convert",
    "key_baby key_baby_8",
    "key_baby key_baby_8",
    "key_baby key_baby_8",
    "intt_rows",
];

/// A call of the compiler for sources of the emulator or kernels; what it said if it cannot.
fn compile(with: impl FnOnce(&mut Command)) -> Result<(), String> {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut command = Command::new(compiler());
    command.arg("-std=c++17").arg("-I").arg(emulator()).arg("-I").arg(kernels);
    with(&mut command);
    let done = command.output().map_err(|e| format!("{}: {e}", compiler()))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

fn emulator() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../becalm-emulator/emulator")
}

/// The emulator and the detector, compiled once for all checks.
fn detector() -> Result<Vec<PathBuf>, String> {
    static MADE: OnceLock<Result<Vec<PathBuf>, String>> = OnceLock::new();
    let make = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let names = ["asynchronous", "emulator", "races"];
        let sources = names.map(|name| emulator().join(format!("{name}.cpp")));
        compile(|c| {
            c.args(["-DBECALM_PLANTS", "-O3", "-c"]).args(sources).current_dir(folder);
        })?;
        Ok(names.map(|name| folder.join(format!("{name}.o"))).to_vec())
    };
    MADE.get_or_init(make).clone()
}

/// Compiles a race check of kernels whose last barrier has the number `plants`.
fn build(kernels: impl Into<Kernels>, check: &str, plants: usize) -> Result<PathBuf, String> {
    let of = kernels.into();
    let file = |kind: &str| {
        let name = format!("{check}_{}{kind}", of.name());
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
    };
    let (object, program) = (file(".o"), file(""));
    compile(|c| {
        c.arg(format!("-DBECALM_PLANTS={plants}")).args(["-O1", "-fsanitize=thread", "-c"]);
        c.args(of.macros().into_iter().map(|(name, value)| format!("-D{name}={value}")));
        c.arg(emulator().join(format!("{check}.cpp"))).arg("-o").arg(&object);
    })?;
    let parts = detector()?;
    compile(|c| {
        c.arg(&object).args(parts).arg("-o").arg(&program);
    })?;
    Ok(program)
}

/// Whether the compiler puts calls before accesses at all.
fn instruments() -> Result<(), String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("probe.cpp");
    std::fs::write(&source, "void f(int* x) { *x = 1; }\n").map_err(|e| e.to_string())?;
    let mut command = Command::new(compiler());
    command.args(["-fsanitize=thread", "-c"]).arg(&source).arg("-o").arg(folder.join("probe.o"));
    match command.output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        Err(e) => Err(format!("{}: {e}", compiler())),
    }
}

/// Runs a race check: the lines that it prints, one without each barrier, and the kernels that each names.
fn lines(program: &Path, wanted: usize) -> Vec<(String, String)> {
    let done = Command::new(program).output().expect("a program that starts");
    let text = String::from_utf8_lossy(&done.stdout);
    let log = String::from_utf8_lossy(&done.stderr);
    let names = |line: &str| {
        let words = line.split_whitespace().skip(1);
        let names: Vec<&str> = words.take_while(|word| word.parse::<u64>().is_err()).collect();
        names.join(" ")
    };
    let lines: Vec<_> = text.lines().map(|line| (line.to_string(), names(line))).collect();
    let what = program.display();
    assert!(done.status.success() && lines.len() == wanted, "{what}: {text}{log}");
    lines
}

#[test]
fn barriers_are_enough_and_each_is_needed() {
    instruments().expect("a C++ compiler with -fsanitize=thread");
    let rings = checked();
    let checked: Vec<_> = std::thread::scope(|scope| {
        let check = |ring: Ring| {
            build(ring, "every_kernel", PLANTS).map(|program| lines(&program, FOUND.len()))
        };
        let begun: Vec<_> = rings.iter().map(|ring| scope.spawn(move || check(*ring))).collect();
        begun.into_iter().map(|work| work.join()).collect()
    });
    for (ring, lines) in rings.into_iter().zip(checked) {
        let lines = lines.expect("a check").unwrap_or_else(|log| panic!("{log}"));
        for (plant, ((line, names), wanted)) in lines.iter().zip(FOUND).enumerate() {
            let wanted = wanted.split(' ').filter(|kernel| has(&ring, plant, kernel));
            let wanted = wanted.collect::<Vec<_>>().join(" ");
            assert_eq!(*names, wanted, "{} without barrier {plant}: {line}", ring.name());
        }
    }
}

/// The same where two kernels run at once and wait for each other.
#[test]
fn waits_of_the_least_latency_are_enough_and_each_is_needed() {
    instruments().expect("a C++ compiler with -fsanitize=thread");
    let program =
        build(RINGS[1], "every_leaf", LEAVES_PLANTS).unwrap_or_else(|log| panic!("{log}"));
    for ((line, names), wanted) in lines(&program, LEAVES_FOUND.len()).iter().zip(LEAVES_FOUND) {
        assert_eq!(names, wanted, "{line}");
    }
}

/// The same for the kernels of CKKS. A kernel that is launched more than once may be named as often.
#[test]
fn barriers_of_ckks_are_enough_and_each_is_needed() {
    instruments().expect("a C++ compiler with -fsanitize=thread");
    let kernels = Kernels::Rns { log2_n: 13 };
    let program =
        build(kernels, "every_rns", RNS_FOUND.len() - 1).unwrap_or_else(|log| panic!("{log}"));
    for ((line, names), wanted) in lines(&program, RNS_FOUND.len()).iter().zip(RNS_FOUND) {
        let mut found: Vec<&str> = names.split_whitespace().collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.join(" "), wanted, "{line}");
    }
}
