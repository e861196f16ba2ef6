//! Circuits compiled to programs: run unencrypted, the program computes what the circuit computes; known answers
//! included, and no circuit takes more bootstraps than its gates.

mod full;
mod netlists;

use becalm::UNWATCHED;
use becalm::apps::integer::{Forms, ListOperation, Type, Word};
use becalm::apps::{Aim, Arguments};
use becalm::cipher::file::Limits;
use becalm::params::TfheParams;
use becalm::program::circuit::{Circuit, Compiled, Goal};
use full::full;
use proptest::prelude::*;
use std::sync::Arc;

const ADDER: &str = include_str!("../circuits/adder8.txt");
const MAX: &str = include_str!("../circuits/max4.blif");

fn compile(text: &str, set: &str) -> (Circuit, Compiled) {
    let circuit = Circuit::parse(text).unwrap();
    let params = Arc::new(TfheParams::named(set).unwrap().clone());
    let compiled = circuit.compile(&params, Goal::Depth).unwrap();
    (circuit, compiled)
}

/// Values of the input ports to values of the output ports, by an unencrypted run of the program.
fn run(compiled: &Compiled, values: &[u128]) -> Vec<u128> {
    let ports = compiled.inputs.iter().zip(values);
    let bits: Vec<i64> =
        ports.flat_map(|(p, v)| (0..p.width()).map(move |i| (v >> i) as i64 & 1)).collect();
    let mut result = compiled.program.run_unencrypted(&bits).unwrap().into_iter();
    let port = |width| (0..width).fold(0, |v, i| v | (result.next().unwrap() as u128) << i);
    compiled.outputs.iter().map(|p| p.width()).map(port).collect()
}

fn words(count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        state.rotate_left(29) ^ state >> 7
    };
    (0..count).map(|_| word()).collect()
}

/// Some lanes of the circuit's own evaluation against the program's.
fn agree(name: &str, circuit: &Circuit, compiled: &Compiled, lanes: usize) {
    let bits = circuit.inputs().iter().map(|p| p.width()).sum();
    let inputs = words(bits, bits as u64);
    let wanted = circuit.evaluate(&inputs).unwrap();
    for lane in 0..lanes {
        let lane_of =
            |all: &[u64]| all.iter().map(|w| (w >> lane & 1) as i64).collect::<Vec<i64>>();
        let got = compiled.program.run_unencrypted(&lane_of(&inputs)).unwrap();
        assert_eq!(got, lane_of(&wanted), "{name}, lane {lane}");
    }
}

#[test]
fn own_circuits_add_and_compare() {
    for set in ["toy_2_2", "toy_1_1", "tfhe_3_3"] {
        let ((adder_circuit, adder), (max_circuit, max)) = (compile(ADDER, set), compile(MAX, set));
        for (a, b) in [(0, 0), (1, 255), (255, 255), (170, 85), (200, 100)] {
            assert_eq!(run(&adder, &[a, b]), [a + b], "{set}");
            let (a, b) = (a & 15, b >> 4);
            assert_eq!(run(&max, &[a, b]), [u128::from(a < b), a.max(b)], "{set}");
        }
        agree("adder8", &adder_circuit, &adder, 64);
        agree("max4", &max_circuit, &max, 64);
    }
}

/// A full adder is one rotation with two results; two places of the carry are one lookup.
#[test]
fn an_adder_takes_one_rotation_a_place() {
    let cost = compile(ADDER, "tfhe_2_2").1.program.cost();
    assert_eq!((cost.bootstraps, cost.depth), (8, 4));
}

/// The noise of leaves that come from one rotation adds up to more than a cover expects: then less of it is asked for.
#[test]
fn results_of_one_rotation_do_not_make_a_circuit_too_noisy() {
    let circuit = Circuit::parse(include_str!("netlists/shared_noise.blif")).unwrap();
    for set in ["tfhe_2_2", "tfhe_2_2_p"] {
        let params = Arc::new(TfheParams::named(set).unwrap().clone());
        for goal in [Goal::Depth, Goal::Bootstraps] {
            let compiled = circuit.compile(&params, goal).unwrap();
            agree(&format!("{set}, {goal:?}"), &circuit, &compiled, 32);
        }
    }
}

#[test]
fn bad_files_are_refused_with_the_line() {
    for (text, line) in [
        ("", "1"),
        ("1 3\n2 1 1\n1 1\n2 1 0 1 2 NAND\n", "4"),
        ("1 3\n2 1 1\n1 1\n2 1 0 7 2 AND\n", "4"),
        ("2 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n", "1"),
        ("1 3\n2 1 1\n1 1\n2 1 0 1 1 AND\n", "4"),
        ("1 99999999999\n1 1\n1 1\n", "1"),
        (".model m\n.inputs a\n.outputs b\n.latch a b\n.end\n", "4"),
        (".model m\n.inputs a\n.outputs b\n.names a b\n11 1\n.end\n", "5"),
        (".model m\n.inputs a\n.outputs b\n.names c b\n1 1\n.names b c\n1 1\n.end\n", "4"),
        (".model m\n.inputs a\n.outputs b\n.end\n", "3"),
        (".model m\n.inputs a\n.outputs b\n.names a c b\n11 1\n.end\n", "4"),
        (".model m\n.inputs a a\n.outputs a\n.end\n", "2"),
        (".model m\n.inputs a b\n.outputs b\n.names a b\n1 1\n.end\n", "4"),
    ] {
        let refused = Circuit::parse(text).unwrap_err();
        assert_eq!(refused.kind(), "bad_input");
        assert!(refused.to_string().contains(&format!("line {line}")), "{text:?}: {refused}");
    }
    for (set, instead) in [("tfhe_boolean", "tfhe_2_2 "), ("tfhe_boolean_p", "tfhe_2_2_p")] {
        let params = Arc::new(TfheParams::named(set).unwrap().clone());
        let refused = Circuit::parse(ADDER).unwrap().compile(&params, Goal::Depth).unwrap_err();
        assert!(refused.kind() == "unsupported" && refused.to_string().contains(instead));
    }
}

/// Lines that other tools write and becalm does not read, and lines that could be misread, are refused: with the line, its text, and
/// what to do about it.
#[test]
fn what_would_be_misread_is_refused() {
    let blif = |lines: &str| format!(".model m\n{lines}\n");
    let and = ".inputs a b\n.outputs c\n.names a b c\n11 1";
    for (lines, line, got, remedy) in [
        (&*format!("{and}\n.end\n.model n\n{and}\n.end"), 7, "`.model n`", "flatten"),
        (&format!("{and}\n.model n\n{and}"), 6, "`.model n`", "flatten"),
        (&format!("{and}\n.end\n.names a c\n1 1"), 7, "`.names a c`", "take the `.end` out"),
        (&format!("{and}\n.end\n11 1"), 7, "`11 1`", "end the file there"),
        (".inputs a\n.outputs b\n.latch a b", 4, "`.latch a b`", "cut it at its registers"),
        (".inputs a\n.outputs b\n.subckt n x=a y=b", 4, "`.subckt n x=a y=b`", "flatten"),
        (".inputs a\n.outputs b\n.gate inv A=a Y=b", 4, "`.gate inv A=a Y=b`", "library"),
        (".inputs a\n.outputs b\n.exdc", 4, "`.exdc`", "BLIF"),
        (".inputs a\n.outputs b\n.end", 3, "neither", "add `.names` for it"),
        (".inputs a[0] a[2]\n.outputs c\n.names c\n1", 2, "none", "every bit of a port"),
        (
            ".inputs a\n.outputs c[3]\n.outputs c[1]\n.names a c[3]\n1 1\n.names a c[1]\n1 1",
            3,
            "none",
            "every bit of a port",
        ),
        (".inputs a[-1] a[1]\n.outputs c\n.names c\n1", 2, "none", "every bit of a port"),
        (".inputs a[0] a[18446744073709551616]\n.outputs c\n.names c\n1", 2, "none", "every bit"),
        (".inputs a a[0]\n.outputs c\n.names c\n1", 2, "`a[0]`", "differ before the brackets"),
        (".inputs a[1] a[01]\n.outputs c\n.names c\n1", 2, "`a[01]`", "differ"),
        (".inputs a\n.outputs c c\n.names a c\n1 1", 3, "`c`", "circuit"),
        (".inputs a\n.names a c\n1 1\n.end", 5, "none", "`.outputs`"),
    ] {
        says(&blif(lines), line, got, remedy);
    }
    for (text, line, got, remedy) in [
        ("1 3\n2 1 1\n1 1\n2 1 0 1 2 MAND\n", 4, "`MAND`", "write other gates with these"),
        ("1 3\n2 1 1\n1 1\n2 1 0 2 AND\n", 4, "`2 1 0 2 AND`", "Bristol"),
        ("1 3\n2 1 1\n0\n2 1 0 1 2 AND\n", 3, "none", "Bristol"),
        ("1 3\n2 1 1\n2 1 0\n2 1 0 1 2 AND\n", 3, "another line", "Bristol"),
        // What is no circuit is not quoted: it may be a secret.
        ("root:x:0:0\n", 1, "another line", "Bristol"),
        ("4711 42 7\n", 1, "another line", "Bristol"),
        ("1 3\nhunter 2\n", 2, "another line", "Bristol"),
        ("1 99999999\n1 1\n1 1\n", 1, "more", "declare only wires"),
        ("1 3\n2 1 1\n1 1\n2 1 0 1 2 hunter#2\n", 4, "another word", "write other gates"),
        ("key = hunter2\n.names a\n", 1, "another line", "BLIF"),
        (".key hunter2\n.names a\n", 1, "another line", "BLIF"),
        ("1 3\n2 1 1\n", 2, "the end of the file", "Bristol"),
        ("", 1, "nothing", "Bristol"),
    ] {
        says(text, line, got, remedy);
    }
    let said = Circuit::parse("1 3\n2 1 1\n1 1\n2 1 0 1 2 NAND\n").unwrap_err().to_string();
    assert!(said.contains("AND, XOR, INV, NOT, EQW, EQ"), "{said}");
    // A port may begin where it likes, and tables need no `.model`.
    let shifted = ".inputs a[8] a[7]\n.outputs c\n.names a[7] a[8] c\n10 1\n";
    let circuit = Circuit::parse(shifted).unwrap();
    assert_eq!((circuit.inputs()[0].width(), circuit.evaluate(&[1, 0]).unwrap()), (2, vec![1]));
}

fn says(text: &str, line: usize, got: &str, remedy: &str) {
    let refused = Circuit::parse(text).unwrap_err();
    assert_eq!(refused.kind(), "bad_input");
    let detail = refused.detail();
    assert!(detail.wanted.ends_with(&format!("in line {line}")), "{text}: {refused}");
    assert!(detail.got == got && detail.remedy.contains(remedy), "{text}: {refused}");
}

/// A longest path that the compiler does not reach is refused with the one that it reaches, and nothing longer is emitted.
#[test]
fn a_goal_out_of_reach_is_refused() {
    let circuit = Circuit::parse(ADDER).unwrap();
    let params = Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone());
    for most in [0, 1, 3] {
        let refused = circuit.compile(&params, Goal::Within(most)).unwrap_err();
        assert_eq!(refused.kind(), "bad_input");
        let (wanted, got) = (&refused.detail().wanted, &refused.detail().got);
        assert!(wanted.ends_with(&format!("at most {most}")) && got.starts_with("4,"), "{refused}");
    }
    for most in [4, 5, u32::MAX] {
        let cost = circuit.compile(&params, Goal::Within(most)).unwrap().program.cost();
        assert!(cost.depth <= most as usize && cost.bootstraps <= 8);
    }
}

/// Computes the words of the results from those of the arguments.
type Function = fn(&[u128]) -> Vec<u128>;

fn multiplier_bits() -> usize {
    if full() { 64 } else { 32 }
}

#[test]
fn circuits_of_known_functions_compute_them() {
    let cases: [(&str, String, Function); 5] = [
        ("adder", netlists::adder(64), |x| vec![(x[0] + x[1]) as u64 as u128]),
        ("multiplier", netlists::multiplier(multiplier_bits()), |x| {
            vec![x[0].wrapping_mul(x[1]) & (u64::MAX >> (64 - multiplier_bits())) as u128]
        }),
        ("zero", netlists::is_zero(64), |x| vec![u128::from(x[0] == 0)]),
        ("rotator", netlists::rotator(7), |x| vec![x[0].rotate_left(x[1] as u32)]),
        ("maximum", netlists::maximum(128), |x| vec![x[0].max(x[1]), u128::from(x[0] < x[1])]),
    ];
    for (name, text, function) in cases {
        let (circuit, compiled) = compile(&text, "tfhe_2_2");
        let few = circuit.compile(compiled.program.params(), Goal::Bootstraps).unwrap();
        let (cost, least, (and, xor)) =
            (compiled.program.cost(), few.program.cost(), circuit.gates());
        println!("{name}: {} bootstraps, depth {}", cost.bootstraps, cost.depth);
        println!("{name}: {} bootstraps, depth {} for the fewest", least.bootstraps, least.depth);
        assert!(cost.bootstraps <= and + xor && cost.depth <= least.depth, "{name}");
        assert!(least.bootstraps <= cost.bootstraps, "{name}");
        // Between the two: a path one longer costs no more bootstraps.
        let within = Goal::Within(cost.depth as u32 + 1);
        let between = circuit.compile(compiled.program.params(), within).unwrap();
        let middle = between.program.cost();
        println!("{name}: {} bootstraps, depth {}", middle.bootstraps, middle.depth);
        assert!(middle.depth <= cost.depth + 1 && middle.bootstraps <= cost.bootstraps, "{name}");
        for (lane, seed) in [0, 1, 2, 3, 4, u64::MAX].into_iter().enumerate() {
            let widths = circuit.inputs().iter().map(|p| p.width());
            let pairs = words(2 * widths.len(), seed);
            let wide = pairs.chunks(2).map(|w| (w[0] as u128) << 64 | w[1] as u128);
            // Zeros first, which only some circuits tell from the rest.
            let wide = wide.map(|w| if lane == 0 { 0 } else { w });
            let values: Vec<u128> = wide.zip(widths).map(|(w, bits)| w >> (128 - bits)).collect();
            for compiled in [&compiled, &few, &between] {
                assert_eq!(run(compiled, &values), function(&values), "{name} of {values:x?}");
            }
        }
    }
}

/// FIPS-197, appendix B: the state at the start of the third round; with BECALM_FULL=1 the cipher's result, behind all ten.
#[test]
fn aes_encrypts_the_standards_block() {
    let (rounds, wanted) = match full() {
        true => (10, 0x3925_841d_02dc_09fb_dc11_8597_196a_0b32),
        false => (2, 0xaa8f_5f03_61dd_e3ef_82d2_4ad2_6832_469a),
    };
    let (circuit, compiled) = compile(&netlists::aes(rounds), "tfhe_2_2");
    let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c;
    let block = 0x3243_f6a8_885a_308d_3131_98a2_e037_0734;
    let cost = compiled.program.cost();
    println!("aes: {} bootstraps, depth {}", cost.bootstraps, cost.depth);
    assert_eq!(run(&compiled, &[key, block]), [wanted]);
    agree("aes", &circuit, &compiled, 1);
}

/// A random circuit of AND, XOR and INV gates in Bristol Fashion.
fn random(inputs: usize, gates: Vec<(u8, usize, usize)>) -> String {
    let count = gates.len();
    let mut text = format!("{count} {}\n1 {inputs}\n1 {}\n", inputs + count, count.min(6));
    for (i, (kind, a, b)) in gates.into_iter().enumerate() {
        let (to, a, b) = (inputs + i, a % (inputs + i), b % (inputs + i));
        text += &match kind % 5 {
            0 | 1 => format!("2 1 {a} {b} {to} AND\n"),
            2 | 3 => format!("2 1 {a} {b} {to} XOR\n"),
            _ => format!("1 1 {a} {to} INV\n"),
        };
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn random_circuits_keep_their_function(
        inputs in 1usize..9,
        gates in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 1..80),
        set in prop::sample::select(&["toy_2_2", "toy_1_1", "toy_3_3"][..]),
    ) {
        let (circuit, compiled) = compile(&random(inputs, gates), set);
        agree("random", &circuit, &compiled, 16);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9 \nANDXORINV.modelinputsoutputsnames\\-]{0,200}") {
        if let Ok(circuit) = Circuit::parse(&text) {
            let bits = circuit.inputs().iter().map(|p| p.width()).sum();
            prop_assert!(circuit.evaluate(&vec![0; bits]).is_ok());
        }
    }
}

/// `circuit` of Python's traced functions, as text: half adders of a bit with a growing sum, and a carry that ripples.
fn traced_sum(bits: usize) -> String {
    let inputs: String = (0..bits).map(|i| format!(" x[{i}]")).collect();
    let mut text = format!(".model sum\n.inputs{inputs}\n.outputs");
    let mut sum = vec!["x[0]".to_string()];
    let mut gates = String::new();
    for i in 1..bits {
        let (mut carry, mut next) = (format!("x[{i}]"), vec![]);
        for (place, bit) in sum.iter().enumerate() {
            let (s, c) = (format!("s{i}_{place}"), format!("c{i}_{place}"));
            gates +=
                &format!(".names {bit} {carry} {s}\n01 1\n10 1\n.names {bit} {carry} {c}\n11 1\n");
            next.push(s);
            carry = c;
        }
        next.push(carry);
        sum = next;
    }
    for (place, bit) in sum.iter().enumerate() {
        text += &format!(" y[{place}]");
        gates += &format!(".names {bit} y[{place}]\n1 1\n");
    }
    format!("{text}\n{gates}.end\n")
}

/// A sum of bits that are added one by one takes a few rotations of up to fifteen bits each, and is right.
#[test]
fn counters_are_recognised() {
    for (bits, most) in [(7, 2), (15, 4), (31, 8), (40, 12), (64, 18)] {
        let circuit = Circuit::parse(&traced_sum(bits)).unwrap();
        let params = Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone());
        let compiled = circuit.compile(&params, Goal::Bootstraps).unwrap();
        let cost = compiled.program.cost();
        println!("sum of {bits} bits: {} bootstraps, depth {}", cost.bootstraps, cost.depth);
        assert!(cost.bootstraps <= most, "{bits}: {}", cost.bootstraps);
        agree("sum", &circuit, &compiled, 64);
        let all = compiled.program.run_unencrypted(&vec![1; bits]).unwrap();
        assert_eq!(
            all.iter().enumerate().map(|(i, b)| (*b as u128) << i).sum::<u128>(),
            bits as u128
        );
    }
}

/// The sum of booleans of `apps::integer` takes no more bootstraps than the sum of as many bits that is compiled.
#[test]
fn sums_of_booleans_cost_no_more_than_circuits() {
    let params = Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone());
    for bits in (1..=16).chain([23, 31, 32, 47, 64, 100, 127, 200]) {
        let sum = ListOperation::named("sum").unwrap();
        let forms = Forms::new(params.clone(), move |mut circuit| {
            let words: Result<Vec<Word>, _> =
                (0..bits).map(|_| circuit.input(Type::Bool)).collect();
            let words = words?;
            let sum = sum.record(&mut circuit, &words)?;
            circuit.finish(&words.iter().collect::<Vec<_>>(), &sum.iter().collect::<Vec<_>>())
        });
        let count = |arguments| {
            let form = forms.of(Aim::Work, arguments, UNWATCHED).unwrap();
            form.program().cost().bootstraps
        };
        let circuit = Circuit::parse(&traced_sum(bits)).unwrap();
        let compiled = circuit.compile(&params, Goal::Bootstraps).unwrap();
        let traced = compiled.program.cost().bootstraps;
        let own = count(Arguments::Independent);
        assert!(own <= traced, "{bits}: {own} and {traced}");
        assert!(own <= count(Arguments::Any), "{bits}");
    }
}

/// Four functions of four bits take a bootstrap each, and one more for the bit whose weight is too noisy: for any functions.
#[test]
fn tables_of_four_inputs_share_one_refreshed_input() {
    let params = Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone());
    let cost = |text: &str| {
        let circuit = Circuit::parse(text).unwrap();
        let compiled = circuit.compile(&params, Goal::Depth).unwrap();
        agree("tables", &circuit, &compiled, 64);
        (compiled.program.cost().bootstraps, compiled.program.cost().depth)
    };
    for seed in 1..=6 {
        let all = words(16, seed);
        let found = cost(&rows(4, 4, |v| all[v] as usize >> 20 & 15));
        assert!(found <= (5, 2), "{seed}: {found:?}");
    }
}

/// A file whose gates would take more memory than its reader allows is read, and refused before it is compiled.
#[test]
fn compiling_keeps_the_limit_of_the_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/circuits/adder8.txt");
    let params = Arc::new(TfheParams::named("toy_2_2").unwrap().clone());
    let load = |memory| Circuit::load(path, Limits { memory, ..Limits::default() }).unwrap();
    let refused = load(120_000).compile(&params, Goal::Depth).unwrap_err();
    let said = refused.to_string();
    assert_eq!(refused.kind(), "bad_input");
    assert!(said.contains("at most 23 gates") && said.contains("limit of 120000"), "{said}");
    assert!(said.contains("37 gates") && said.contains("--limit"), "{said}");
    assert!(load(1 << 20).compile(&params, Goal::Depth).is_ok());
}

/// Deep chains take no more than quadratic time: four times the gates, at most about sixteen times as long.
#[test]
fn deep_chains_compile_soon() {
    let params = Arc::new(TfheParams::named("toy_2_2").unwrap().clone());
    let seconds = |gates: usize| {
        let mut text = format!("{gates} {}\n1 64\n1 1\n", gates + 64);
        for i in 0..gates {
            let kind = ["AND", "XOR", "XOR"][i % 3];
            text += &format!("2 1 {} {} {} {kind}\n", i * 29 % 63, i + 63, i + 64);
        }
        let circuit = Circuit::parse(&text).unwrap();
        let began = std::time::Instant::now();
        let depth = circuit.compile(&params, Goal::Depth).unwrap().program.cost().depth;
        assert!(depth > gates / 16, "{depth}: no chain");
        began.elapsed().as_secs_f64()
    };
    // The least of three, since other processes may take the machine for a while.
    let least = |gates| (0..3).map(|_| seconds(gates)).fold(f64::INFINITY, f64::min);
    let (short, long) = (least(1000), least(4000));
    println!("a chain of 1000 gates: {short:.2} s, of 4000: {long:.2} s");
    assert!(long < 1.0 + 24.0 * short, "{short} {long}");
}

/// A function as BLIF: a table for each output bit, with a row for each input where it is 1.
fn rows(inputs: usize, outputs: usize, function: impl Fn(usize) -> usize) -> String {
    let list = |letter, count| (0..count).map(|i| format!(" {letter}[{i}]")).collect::<String>();
    let (ins, outs) = (list('x', inputs), list('y', outputs));
    let mut text = format!(".model m\n.inputs{ins}\n.outputs{outs}\n");
    for k in 0..outputs {
        text += &format!(".names{ins} y[{k}]\n");
        for place in (0..1 << inputs).filter(|place| function(*place) >> k & 1 == 1) {
            let bits: String =
                (0..inputs).map(|i| if place >> i & 1 == 1 { '1' } else { '0' }).collect();
            text += &format!("{bits} 1\n");
        }
    }
    text + ".end\n"
}

/// Tables of many rows are not their rows: as few gates as a good decision diagram has, and as few bootstraps as tables of four
/// inputs that other tools map them to.
#[test]
fn wide_tables_are_factored() {
    let decimal = |v: usize| ((v / 10) << 4) | (v % 10);
    let majority = |v: usize| usize::from(v.count_ones() > 4);
    // Inputs, outputs, the function, and the most gates and bootstraps.
    type Case = (usize, usize, fn(usize) -> usize, usize, usize);
    let cases: [Case; 3] =
        [(8, 4, usize::isqrt, 120, 23), (7, 8, decimal, 160, 39), (9, 1, majority, 60, 8)];
    let params = Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone());
    for (inputs, outputs, function, gates, bootstraps) in cases {
        let circuit = Circuit::parse(&rows(inputs, outputs, function)).unwrap();
        let (and, xor) = circuit.gates();
        assert!(and + xor <= gates, "{} gates of at most {gates}", and + xor);
        let compiled = circuit.compile(&params, Goal::Bootstraps).unwrap();
        let cost = compiled.program.cost();
        println!("{inputs} inputs: {} gates, {} bootstraps", and + xor, cost.bootstraps);
        assert!(cost.bootstraps <= bootstraps, "{} of at most {bootstraps}", cost.bootstraps);
        for place in 0..1usize << inputs {
            assert_eq!(run(&compiled, &[place as u128]), [function(place) as u128], "{place}");
        }
    }
}
