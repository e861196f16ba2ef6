//! The processor's instructions: binary and text say the same, damage is refused with its place, and a lowered program
//! computes what the program does.

use becalm::backend::processor::{Job, Machine, Unit};
use becalm::backend::{Evaluator, Processor};
use becalm::cipher::{Ciphertext, Encoding, SecretKey};
use becalm::params::TfheParams;
use becalm::program::circuit::{Circuit, Goal};
use becalm::program::isa::{
    Instruction, MAGIC, MAX_COUNT, Slot, assemble, decode, disassemble, encode,
};
use becalm::program::{Layout, Program};
use becalm::tfhe::Table;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

fn slot() -> impl Strategy<Value = Slot> {
    any::<u16>().prop_map(Slot)
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let terms = prop::collection::vec((-(1i64 << 47)..1 << 47, slot()), 1..9);
    let results = prop::collection::vec(any::<u64>(), 1..9);
    prop_oneof![
        Just(Instruction::Sync),
        Just(Instruction::Flush),
        (slot(), any::<u64>(), any::<bool>()).prop_map(|(dst, address, small)| Instruction::Load {
            dst,
            address,
            small
        }),
        (slot(), any::<u64>(), any::<bool>())
            .prop_map(|(src, address, small)| Instruction::Store { src, address, small }),
        (slot(), terms, any::<u64>(), any::<bool>()).prop_map(|(dst, terms, constant, small)| {
            Instruction::MulAdd { dst, terms, constant, small }
        }),
        (slot(), slot(), any::<u64>()).prop_map(|(dst, src, key)| Instruction::KeySwitch {
            dst,
            src,
            key
        }),
        (0u16..65000, slot(), any::<[u64; 2]>(), any::<bool>(), results).prop_map(
            |(dst, src, [key, table], encrypted, indices)| Instruction::Bootstrap {
                dst: Slot(dst),
                src,
                key,
                table,
                encrypted,
                indices
            }
        ),
    ]
}

fn programs() -> impl Strategy<Value = Vec<Instruction>> {
    prop::collection::vec(instruction(), 0..20).prop_map(|mut p| {
        p.push(Instruction::Halt);
        p
    })
}

proptest! {
    #[test]
    fn binaries_and_texts_come_back(program in programs()) {
        prop_assert_eq!(&decode(&encode(&program).unwrap()).unwrap(), &program);
        prop_assert_eq!(assemble(&disassemble(&program)).unwrap(), program);
    }

    /// Accepted bytes are exactly those that would be written: no byte can differ unseen.
    #[test]
    fn damage_is_refused_or_means_something_else(
        program in programs(), at: prop::sample::Index, flip in 1u8..=255, cut: prop::sample::Index,
    ) {
        let bytes = encode(&program).unwrap();
        let mut damaged = bytes.clone();
        damaged[at.index(bytes.len())] ^= flip;
        if let Ok(other) = decode(&damaged) {
            prop_assert_eq!(encode(&other).unwrap(), damaged);
        }
        let cut = decode(&bytes[..cut.index(bytes.len())]);
        prop_assert_eq!(cut.err().map(|e| e.kind()), Some("bad_file"));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ldstmuaks0-9rx*# \npbhaltyncfe-]{0,80}") {
        let _ = assemble(&text);
    }
}

#[test]
fn malformed_binaries_name_the_offset() {
    let bytes = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    for (binary, offset, why) in [
        (vec![], 0, "the end"),
        (bytes(&[7]), 0, "becalm01"),
        (bytes(&[MAGIC]), 8, "the end"),
        (bytes(&[MAGIC, 9]), 8, "operation"),
        (bytes(&[MAGIC, 6, 1]), 24, "the end"),
        (bytes(&[MAGIC, 6 | 1 << 8, 0]), 8, "without a use"),
        (bytes(&[MAGIC, 3, 0, 0]), 8, "count"),
        (bytes(&[MAGIC, 5 | 0xFFFF << 8 | 2 << 40, 0]), 8, "slot 65536"),
        (bytes(&[MAGIC, 3 | (MAX_COUNT as u64 + 1) << 40]), 8, "count"),
        (bytes(&[MAGIC, 1 | 1 << 40, 0]), 8, "without a use"),
        (bytes(&[MAGIC, 0, 0]), 16, "nothing after"),
    ] {
        let refused = decode(&binary).unwrap_err();
        assert_eq!(refused.kind(), "bad_file");
        let text = refused.to_string();
        assert!(text.contains(&format!("at byte {offset}")) && text.contains(why), "{text}");
    }
    let big = Instruction::MulAdd {
        dst: Slot(0),
        terms: vec![(1 << 47, Slot(0))],
        constant: 0,
        small: false,
    };
    assert_eq!(encode(&[big, Instruction::Halt]).unwrap_err().kind(), "bad_input");
    for (program, got) in [
        (vec![], "no instructions"),
        (vec![Instruction::Sync], "1 without one"),
        (vec![Instruction::Halt, Instruction::Sync], "one as number 1 of 2"),
    ] {
        let refused = encode(&program).unwrap_err();
        assert!(refused.kind() == "bad_input" && refused.to_string().contains(got), "{refused}");
    }
    for line in ["ld r1 17", "ld r+1 0x11", "ld r1 0x+11", "ld 1 0x11", "muladd r1 0x0 0x2*r1"] {
        let refused = assemble(&format!("halt # the end\n{line}")).unwrap_err().to_string();
        assert!(refused.contains("line 2") && refused.contains("hexadecimal (0x100)"), "{refused}");
    }
}

const LAYOUT: Layout = Layout {
    inputs: 0,
    outputs: 1 << 32,
    tables: 1 << 40,
    key_switch: 1 << 41,
    bootstrap: 1 << 42,
    spill: 1 << 43,
    slots: Layout::MOST_SLOTS,
};

/// Runs instructions on phases, as an unencrypted run of the program does; memory holds a phase at each address.
fn execute(program: &Program, code: &[Instruction], values: &[u64]) -> Vec<u64> {
    let (params, mut memory, mut slots) = (program.params(), HashMap::new(), HashMap::new());
    let (q, n) = (params.modulus, params.polynomial_size);
    let width = 8 * (params.glwe_dimension * n + 1) as u64;
    let encoding = becalm::cipher::Encoding::of(params);
    for (i, v) in values.iter().enumerate() {
        memory.insert(LAYOUT.inputs + i as u64 * width, encoding.encode(q, *v as i64));
    }
    for instruction in code {
        match instruction {
            Instruction::Load { dst, address, .. } => {
                slots.insert(*dst, memory[address]);
            }
            Instruction::Store { src, address, .. } => {
                memory.insert(*address, slots[src]);
            }
            Instruction::MulAdd { dst, terms, constant, .. } => {
                let term = |(c, s): &(i64, Slot)| q.mul(q.from_signed(*c), slots[s]);
                let sum = terms.iter().map(term).fold(*constant, |a, b| q.add(a, b));
                slots.insert(*dst, sum);
            }
            Instruction::KeySwitch { dst, src, .. } => {
                slots.insert(*dst, slots[src]);
            }
            Instruction::Bootstrap { dst, src, table, indices, .. } => {
                let table: &Table = &program.tables()[((table - LAYOUT.tables) / 8) as usize / n];
                let phase = q.to_torus(slots[src]) as u128;
                let turn = ((phase * 2 * n as u128 + (1 << 63)) >> 64) as usize;
                for (i, index) in indices.iter().enumerate() {
                    let at = turn + *index as usize;
                    let entry = table.polynomial()[at % n];
                    let entry = if at / n % 2 == 1 { q.neg(entry) } else { entry };
                    slots.insert(Slot(dst.0 + i as u16), entry);
                }
            }
            _ => {}
        }
    }
    let phase = |i: usize| memory[&(LAYOUT.outputs + i as u64 * width)];
    (0..program.outputs().len()).map(|i| encoding.decode(q, phase(i))).collect()
}

#[test]
fn a_lowered_adder_adds() {
    let circuit = Circuit::parse(include_str!("../circuits/adder8.txt")).unwrap();
    let params = Arc::new(TfheParams::named("toy_2_2_p").unwrap().clone());
    let program = circuit.compile(&params, Goal::Depth).unwrap().program;
    let code = program.lower(&LAYOUT, 1, 4).unwrap().code;
    let code = decode(&encode(&code).unwrap()).unwrap();
    for (a, b) in [(0u64, 0u64), (200, 100), (255, 255), (85, 171)] {
        let bits: Vec<u64> = (0..16).map(|i| (a | b << 8) >> i & 1).collect();
        let sum = execute(&program, &code, &bits);
        assert_eq!(sum.iter().rev().fold(0, |v, bit| 2 * v + bit), a + b);
    }
    // Slots are used again, the sooner the fewer are in flight.
    let slots = |batch| program.lower(&LAYOUT, 1, batch).unwrap().slots;
    assert!(slots(1) * 3 < program.registers() * 2 && slots(4) <= program.registers());
}

/// With fewer slots than values are alive some are stored and loaded again; the results are the same, and the fewer slots the
/// more is stored, until one instruction needs more than there are.
#[test]
fn values_are_spilled_where_slots_run_out() {
    let circuit = Circuit::parse(include_str!("../circuits/adder8.txt")).unwrap();
    let params = Arc::new(TfheParams::named("toy_2_2_p").unwrap().clone());
    let program = circuit.compile(&params, Goal::Depth).unwrap().program;
    let stores = |code: &[Instruction]| {
        code.iter().filter(|i| matches!(i, Instruction::Store { .. })).count()
    };
    let plain = program.lower(&LAYOUT, 1, 4).unwrap();
    assert_eq!((plain.spilled, stores(&plain.code)), (0, program.outputs().len()));
    let (mut least, mut before) = (usize::MAX, 0);
    for slots in (1..=plain.slots).rev() {
        let lowered = match program.lower(&Layout { slots, ..LAYOUT }, 1, 4) {
            Ok(lowered) => lowered,
            Err(refused) => {
                assert_eq!(refused.kind(), "memory", "{refused}");
                break;
            }
        };
        let used = |i: &Instruction| match i {
            Instruction::Load { dst, .. } | Instruction::KeySwitch { dst, .. } => dst.0 as usize,
            Instruction::Bootstrap { dst, indices, .. } => dst.0 as usize + indices.len() - 1,
            Instruction::MulAdd { dst, .. } => dst.0 as usize,
            _ => 0,
        };
        assert!(lowered.code.iter().all(|i| used(i) < slots) && lowered.slots <= slots);
        let stored = stores(&lowered.code) - program.outputs().len();
        // Big ciphertexts have 513 words, small ones 65.
        let words = lowered.spilled / 8;
        assert!((stored as u64 * 65..=stored as u64 * 513).contains(&words), "{slots} slots");
        for (a, b) in [(200u64, 100u64), (255, 255)] {
            let bits: Vec<u64> = (0..16).map(|i| (a | b << 8) >> i & 1).collect();
            let sum = execute(&program, &lowered.code, &bits);
            assert_eq!(sum.iter().rev().fold(0, |v, bit| 2 * v + bit), a + b, "{slots} slots");
        }
        (least, before) = (slots, stored);
    }
    println!("{} slots without spilling, {least} with {before} stores", plain.slots);
    // A sum of five, its result, and what else is alive at that time.
    assert!(least <= 8 && before > 0);
}

/// The processor with few slots gives what the reference gives, on several lanes; and its clocks are soon known.
#[test]
fn a_processor_with_few_slots_computes_the_same() {
    let circuit = Circuit::parse(include_str!("../circuits/adder8.txt")).unwrap();
    let params = TfheParams::named("toy_2_2_p").unwrap();
    let program =
        Arc::new(circuit.compile(&Arc::new(params.clone()), Goal::Depth).unwrap().program);
    let secret = SecretKey::generate(params, true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let bits = |i: usize| [200u64 | 100 << 8, 255 | 1 << 8].map(|pair| pair >> i & 1);
    let encoding = Encoding::of(params);
    let encrypt = |i| Ciphertext::Lwe(secret.encrypt_as(&bits(i), encoding, 2).unwrap());
    let inputs: Vec<Ciphertext> = (0..16).map(encrypt).collect();
    let roomy = Processor::default();
    let tight = Processor { machine: Machine { slots: 20, ..Machine::default() } };
    let run = |processor: &Processor| {
        Evaluator::new(processor, &keys).unwrap().run(&program, &inputs).unwrap()
    };
    let sums = run(&tight);
    for (one, other) in sums.iter().zip(run(&roomy)) {
        assert_eq!(one.words(), other.words());
    }
    let bit = |i: usize, lane: usize| secret.decrypt(&sums[i]).unwrap()[lane] << i;
    let sum = |lane| (0..9).map(|i| bit(i, lane)).sum::<u64>();
    assert_eq!([sum(0), sum(1)], [300, 256]);
    let cost = |p: &Processor| p.machine.cost(&program, 2).unwrap();
    assert!(cost(&tight).work(Unit::Linear).1 > cost(&roomy).work(Unit::Linear).1);
}

/// A sum that waits for a bootstrap is as much work as one that does not; the wait is told apart, in the timeline too.
#[test]
fn waiting_for_operands_is_no_work() {
    let params = TfheParams::named("toy_2_2_p").unwrap();
    let machine = Machine::default();
    let cost = |terms: &str| {
        let text = format!(
            "ld r0 0x0\nld r1 0x2000\nks r2 r0 0x10000\npbs r3 r2 0x20000 0x30000 0x0\n\
             muladd r4 0x0 {terms}\nst r4 0x4000\nhalt\n"
        );
        machine.simulate(params, &assemble(&text).unwrap()).unwrap()
    };
    let (free, late, early) = (cost("1*r0 1*r1"), cost("1*r0 1*r3"), cost("1*r3 1*r0"));
    let bootstrap = free.busy(Unit::Bootstrap);
    // The batch begins when its result is asked for. The other term is worked on meanwhile, if it comes first.
    for (report, least) in [(&late, bootstrap - 300), (&early, bootstrap)] {
        let (busy, waiting) = (report.busy(Unit::Linear), report.waiting(Unit::Linear));
        assert!(
            waiting > least && waiting + busy < report.clocks,
            "{waiting} of {}",
            report.clocks
        );
        // But for the way of the second term's words from memory, which is not hidden behind the first.
        assert!(busy.abs_diff(free.busy(Unit::Linear)) <= machine.latency + 10, "{busy}");
        assert_eq!(report.work(Unit::Linear), (5, 4));
        let waits = report.spans.iter().filter(|s| s.job == Job::Wait);
        assert_eq!(waits.map(|s| s.end + 1 - s.begin).sum::<u64>(), waiting);
    }
    assert_eq!(free.waiting(Unit::Linear), 0);
    let trace = late.trace();
    for name in ["load", "store", "sum of 2", "wait", "key switch of 1", "bootstrap of 1"] {
        assert!(trace.contains(&format!(r#"{{"name":"{name}","ph":"X""#)), "{name}: {trace}");
    }
}

/// The sets that the machine refuses are answered with those that it runs, and so are programs of too many results.
#[test]
fn a_refused_set_is_answered_with_those_that_run() {
    let circuit = Circuit::parse(include_str!("../circuits/adder8.txt")).unwrap();
    for (set, runs) in [("tfhe_2_2", "tfhe_2_2_p, tfhe_1_1_p"), ("toy_2_2", "toy_2_2_p, toy_1_1_p")]
    {
        let params = Arc::new(TfheParams::named(set).unwrap().clone());
        let program = circuit.compile(&params, Goal::Depth).unwrap().program;
        let refused = Machine::default().require(&program).unwrap_err();
        assert!(
            refused.kind() == "wrong_params" && refused.to_string().contains(runs),
            "{refused}"
        );
    }
    let params = Arc::new(TfheParams::named("toy_2_2_p").unwrap().clone());
    Machine::default().require(&circuit.compile(&params, Goal::Depth).unwrap().program).unwrap();
    let mut many = Program::new(params.clone());
    let encoding = Encoding::of(&params);
    let x = many.input(encoding);
    let x = many.linear(&[(0, x)], 1).unwrap();
    let table = [0u64, 1];
    let table = Table::many(&params, encoding, encoding, &[&table[..]; 8]).unwrap();
    many.lookup_many(x, &table).unwrap();
    let refused = Machine::default().require(&many).unwrap_err();
    assert!(
        refused.kind() == "unsupported" && refused.to_string().contains("8 results"),
        "{refused}"
    );
}

/// The model of the clocks takes less than 100 ms for each bootstrap of full size, by far.
#[test]
fn clocks_are_soon_known() {
    let circuit = Circuit::parse(include_str!("../circuits/adder8.txt")).unwrap();
    let params = Arc::new(TfheParams::named("tfhe_2_2_p").unwrap().clone());
    let program = circuit.compile(&params, Goal::Depth).unwrap().program;
    for lanes in [1, 64] {
        let began = std::time::Instant::now();
        let report = Machine::default().cost(&program, lanes).unwrap();
        let (bootstraps, batches) = report.work(Unit::Bootstrap);
        let each = began.elapsed().as_secs_f64() * 1e3 / bootstraps as f64;
        println!("{bootstraps} bootstraps in {batches} batches: {each:.3} ms of modelling each");
        assert_eq!(bootstraps, 8 * lanes);
        assert!(each < 100.0);
        if lanes == 64 {
            // Full batches follow each other, and what is switched meanwhile is hidden.
            let busy = report.busy(Unit::Bootstrap) as f64 / report.clocks as f64;
            let hidden = report.both(Unit::KeySwitch, Unit::Bootstrap) as f64
                / report.busy(Unit::KeySwitch) as f64;
            println!("bootstrap busy {busy:.4}, key switches hidden {hidden:.4}");
            assert!(busy > 0.95 && hidden > 0.95);
        }
    }
}
