//! Every backend against the reference interpreter: every instruction, every toy set, both moduli, every level of vector
//! instructions. Modulo p words must be equal; modulo 2^64 phases may differ by the FFT term of the noise formula.
//! A new backend adds one line to `machines::backends`.

mod full;
mod machines;

use becalm::Error;
use becalm::UNWATCHED;
use becalm::backend::{self, Backend, Cpu, Evaluator, Reference, Tfhe, TfheSetup};
use becalm::cipher::{Ciphertext, Encoding, EvaluationKey, Glwe, KeyRole, Lwe, RowSums, SecretKey};
use becalm::math::Modulus;
use becalm::params::{Kind, Order, TfheParams};
use becalm::program::{Gate, Op, Program, Reg, RegInfo, RegType};
use becalm::tfhe::{Output, Table, noise};
use full::full;
use machines::{backends, runs_all};

/// A machine that users can name is one that these tests compare. `reference` is what they compare with, and `auto` is one of the others.
#[test]
fn every_machine_is_compared() {
    let compared: Vec<&str> = backends().iter().map(|(_, machine)| machine.info().name).collect();
    for name in becalm::backend::names().filter(|name| !["auto", "reference"].contains(name)) {
        assert!(compared.contains(&name), "add a line for {name} to machines::backends");
    }
}
use std::collections::BTreeSet;
use std::sync::Arc;

/// The processor and GPUs run some sets and instructions only.
fn runs(backend: &dyn Backend, program: &Program) -> bool {
    // The emulators of GPUs take a second or so for this together.
    let small = program.cost().bootstraps as f64 * program.params().cost() < 4e6;
    let affordable = small || backend.info().name != "cuda";
    affordable
        && backend
            .tfhe()
            .is_some_and(|runs| program.ops().iter().all(|op| runs.supports(op, program.params())))
}

fn toy_sets() -> Vec<&'static TfheParams> {
    TfheParams::all().iter().filter(|p| p.kind == Kind::Toy).collect()
}

struct Keys {
    secret: SecretKey,
    evaluation: EvaluationKey,
}

fn keys(params: &TfheParams) -> Keys {
    let secret = SecretKey::generate(params, true).unwrap();
    let evaluation = secret.evaluation_key().unwrap();
    Keys { secret, evaluation }
}

/// Of a batch, the ciphertexts that a GPU gets, as emulators are slow: one for each of three, one more than a tile of a larger batch,
/// and all in a full run.
fn few(is_gpu: bool, x: &Lwe) -> Lwe {
    let some = if x.len() > 16 { 17 } else { x.len().min(3) };
    if is_gpu && !full() { x.slice(0..some).unwrap() } else { x.clone() }
}

/// The machines that a set meets: all of them. In a short run only one of the four emulated GPUs, and the next set the next one; sets
/// with slots are too few for that. And a CPU of one thread or of two, by turns.
fn machines_of(params: &TfheParams) -> Vec<(String, Box<dyn Backend>)> {
    let at = toy_sets().iter().position(|p| p.name == params.name).unwrap();
    let mut gpus = at;
    let threads = if at % 2 == 0 { " 1" } else { " 2" };
    let mut meets = |(name, backend): &(String, Box<dyn Backend>)| {
        let (is_cpu, is_gpu) = (name.starts_with("cpu "), backend.info().name == "cuda");
        gpus += usize::from(is_gpu);
        let due = (!is_cpu || name.ends_with(threads)) && (!is_gpu || gpus % 4 == 0);
        due || full() || params.slots > 1
    };
    backends().into_iter().filter(|machine| meets(machine)).collect()
}

/// Runs a program on [`machines_of`] the set and compares all outputs with the reference's; on GPUs those of [`few`].
fn agree(keys: &Keys, program: Program, inputs: &[Lwe], depth: usize) -> Vec<Lwe> {
    let program = Arc::new(program);
    program.validate().unwrap();
    let reference = Evaluator::new(&Reference, &keys.evaluation).unwrap();
    let whole: Vec<Ciphertext> = inputs.iter().map(|x| x.clone().into()).collect();
    let all = reference.run(&program, &whole).unwrap();
    let p = keys.secret.params();
    for (name, backend) in machines_of(p) {
        if !runs(backend.as_ref(), &program) {
            continue;
        }
        let evaluator = Evaluator::new(backend.as_ref(), &keys.evaluation).unwrap();
        let is_gpu = backend.info().name == "cuda";
        let some: Vec<Ciphertext> = inputs.iter().map(|x| few(is_gpu, x).into()).collect();
        let got = evaluator.run(&program, &some).unwrap();
        assert_eq!(got.len(), all.len());
        for (got, wanted) in got.iter().zip(&all) {
            let wanted = &few(is_gpu, wanted);
            let values = [got, wanted].map(|c| keys.secret.decrypt(c).unwrap());
            assert_eq!(values[0], values[1], "{} on {name}", p.name);
            if p.modulus == Modulus::Goldilocks {
                assert!(got.words() == wanted.words(), "{} on {name}: not bit-exact", p.name);
            } else if depth == 1 {
                close(keys, got, wanted, &name);
            }
        }
    }
    all
}

/// Phases differ by at most seven standard deviations of the FFT error and of what it sets off: where it flips the rounding
/// of a digit, the masks differ from there on. Then both rotations make their own gadget rounding error and take their own
/// noise of the key, and a key switch that follows takes other rows. Only after one bootstrap (groups round the accumulator itself, so every step may flip a digit's whole unit): a second modulus switch may fall on the other side and then differs by the whole noise.
fn close(keys: &Keys, got: &Lwe, wanted: &Lwe, name: &str) {
    let p = keys.secret.params();
    let set = noise::NoiseReport::of(p);
    let switched = if p.order == Order::PbsKs { set.key_switch } else { 0.0 };
    let own = set.blind_rotation.decomposition + set.blind_rotation.external_product;
    let variance = set.blind_rotation.fft + 2.0 * (own + switched);
    let deviations = if p.rotation.group_bits() > 1 { 9.0 } else { 7.0 };
    let bound = deviations * variance.sqrt() * 2f64.powi(64) + 4.0;
    let phases = [got, wanted].map(|c| keys.secret.phases(c).unwrap());
    for (a, b) in phases[0].iter().zip(&phases[1]) {
        let difference = (a.wrapping_sub(*b) as i64).unsigned_abs() as f64;
        let logs = (difference.log2(), bound.log2());
        assert!(
            difference <= bound,
            "{} on {name}: phases differ by {logs:?} (log2, allowed)",
            p.name
        );
    }
}

#[test]
fn there_are_toy_sets_of_both_moduli() {
    for q in [Modulus::Native, Modulus::Goldilocks] {
        assert!(toy_sets().iter().any(|p| p.modulus == q), "no toy set modulo {q:?}");
    }
}

/// A machine is compared where it runs a program. One that refuses all of them would pass for nothing.
#[test]
fn every_machine_runs_a_set_without_slots() {
    let mut ran = BTreeSet::new();
    for params in toy_sets().into_iter().filter(|p| p.slots == 1) {
        let mut program = Program::new(Arc::new(params.clone()));
        let x = program.input(Encoding::of(params));
        let y = program.lookup(x, &Table::from_fn(params, |m| m).unwrap()).unwrap();
        program.output(y).unwrap();
        let runs = |(_, b): &(String, Box<dyn Backend>)| runs(b.as_ref(), &program);
        ran.extend(machines_of(params).into_iter().filter(runs).map(|(name, _)| name));
    }
    for (name, backend) in backends() {
        assert!(backend.tfhe().is_none() || ran.contains(&name), "{name} is compared nowhere");
    }
}

#[test]
fn key_switch_is_exact() {
    for params in toy_sets() {
        let keys = keys(params);
        if keys.secret.resting_role() != KeyRole::Big {
            continue;
        }
        let encoding = Encoding::of(params);
        let mut program = Program::new(keys.secret.params().clone());
        let x = program.input(encoding);
        let y = program.key_switch(x).unwrap();
        program.output(y).unwrap();
        let values: Vec<u64> = (0..12).map(|i| i % encoding.values).collect();
        let input = [Ciphertext::from(keys.secret.encrypt(&values).unwrap())];
        let program = Arc::new(program);
        let run = |b: &dyn Backend| {
            let evaluator = Evaluator::new(b, &keys.evaluation).unwrap();
            evaluator.run(&program, &input).unwrap().remove(0)
        };
        let wanted = run(&Reference);
        for (name, backend) in backends().into_iter().filter(|b| runs(b.1.as_ref(), &program)) {
            assert!(run(backend.as_ref()).words() == wanted.words(), "{} on {name}", params.name);
        }
        assert_eq!(keys.secret.decrypt(&wanted).unwrap(), values);
    }
}

#[test]
fn bootstraps_agree_for_every_kind_of_table() {
    for params in toy_sets() {
        let keys = keys(params);
        let encoding = Encoding::of(params);
        let p = encoding.values;
        let last = params.table_size() - params.accumulators();
        let values = |f: &dyn Fn(u64) -> u64| (0..p).map(f).collect::<Vec<u64>>();
        let (up, down) =
            (&values(&|m| m)[..p as usize / 2], &values(&|m| p - 1 - m)[..p as usize / 2]);
        let square = Table::from_fn(params, |m| (m * m + 1) % p).unwrap();
        let many = Table::many(params, encoding, encoding, &[up, down]).unwrap();
        let third = Encoding::padded(3).unwrap();
        let third = Table::with(params, encoding, third, &values(&|m| m % 3)).unwrap();
        let last = Table::from_fn(params, |m| m).unwrap().extract(last, encoding).unwrap();
        for (table, below) in [(square, p), (many, p / 2), (third, p), (last, p)] {
            let values: Vec<u64> = (0..5).map(|i| (3 * i + 1) % below).collect();
            let ct = keys.secret.encrypt_as(&values, encoding, below).unwrap();
            let mut program = Program::new(keys.secret.params().clone());
            let info = RegInfo { ty: RegType::Lwe(ct.role()), encoding, range: ct.range() };
            let x = program.input_as(info);
            for y in program.lookup_many(x, &table).unwrap() {
                program.output(y).unwrap();
            }
            agree(&keys, program, &[ct], 1);
        }
    }
}

#[test]
fn encrypted_tables_agree() {
    // Behind a common mask there are none.
    for params in toy_sets().into_iter().filter(|p| p.slots == 1) {
        let keys = keys(params);
        let encoding = Encoding::of(params);
        let p = encoding.values;
        let next: Vec<u64> = (0..p).map(|m| (m + 1) % p).collect();
        let third: Vec<u64> = (0..p / 2).map(|m| m % 3).collect();
        let out = Encoding::padded(3).unwrap();
        let one = Table::new(params, &next).unwrap();
        let two = Table::many(params, encoding, out, &[&third, &vec![1; third.len()]]).unwrap();
        for (table, wanted) in [(one, vec![next]), (two, vec![third.clone(), vec![1; third.len()]])]
        {
            let glwe = keys.secret.encrypt_table(&table).unwrap();
            let below = wanted[0].len() as u64;
            let values: Vec<u64> = (0..below).collect();
            let ct = keys.secret.encrypt_as(&values, encoding, below).unwrap();
            let others = machines_of(params).into_iter();
            for (name, backend) in others.filter(|(_, b)| runs_all(b.as_ref(), params)) {
                let evaluator = Evaluator::new(backend.as_ref(), &keys.evaluation).unwrap();
                let ct = few(backend.info().name == "cuda", &ct);
                let got = evaluator.bootstrap_encrypted(&ct, &glwe).unwrap();
                let got: Vec<_> = got.iter().map(|c| keys.secret.decrypt(c).unwrap()).collect();
                let wanted: Vec<_> = wanted.iter().map(|all| &all[..ct.len()]).collect();
                assert_eq!(got, wanted, "{} on {name}", params.name);
            }
        }
    }
}

/// A refusal that says what was wrong and what to do.
fn refused(what: &str, e: Error) {
    assert!(matches!(e, Error::BadInput(_)), "{what}: {e}");
    assert!(e.to_string().contains(what) && !e.detail().remedy.is_empty(), "{what}: {e}");
}

/// The encodings of an encrypted table are public, and checked like those of a plaintext table.
#[test]
fn encrypted_tables_of_other_values_are_not_recorded() {
    let params = TfheParams::named("toy_2_2").unwrap();
    let keys = keys(params);
    let encoding = Encoding::of(params);
    // A gate of two-valued sets reads the whole torus.
    let boolean = TfheParams::named("toy_boolean").unwrap();
    let mut gate = Program::new(Arc::new(boolean.clone()));
    let bit = gate.input(Encoding::of(boolean));
    gate.gate(Gate::And, bit, bit).unwrap();
    let secret = SecretKey::generate(boolean, true).unwrap();
    refused("padding bit", secret.encrypt_table(&gate.tables()[0]).unwrap_err());

    // By the recorder: (source, its range, the table's encoding and limit).
    let role = KeyRole::Small;
    let record = |from: Encoding, range: (i64, i64), input: Encoding, limit: i64, index: usize| {
        let mut p = Program::new(keys.secret.params().clone());
        let src = p.input_as(RegInfo { ty: RegType::Lwe(role), encoding: from, range });
        let table = p.input_table(input, limit);
        p.bootstrap_encrypted(src, table, &[Output { index, encoding, range: (0, 15) }])
    };
    let (eight, cyclic) = (Encoding::padded(8).unwrap(), Encoding::cyclic(16).unwrap());
    assert!(record(encoding, (0, 15), encoding, 15, 0).is_ok());
    refused("values in", record(eight, (0, 7), encoding, 15, 0).unwrap_err());
    refused("values in", record(cyclic, (0, 7), encoding, 15, 0).unwrap_err());
    refused("padding bit", record(cyclic, (0, 7), cyclic, 15, 0).unwrap_err());
    refused("a table of 8 entries", record(encoding, (0, 8), encoding, 7, 0).unwrap_err());
    refused("from 0 to 15", record(encoding, (-1, 3), encoding, 15, 0).unwrap_err());
    let n = params.polynomial_size;
    refused("extraction index", record(encoding, (0, 15), encoding, 15, n).unwrap_err());
}

/// The argument beside what the program declares.
#[test]
fn encrypted_tables_of_other_values_are_not_evaluated() {
    let params = TfheParams::named("toy_2_2").unwrap();
    let keys = keys(params);
    let encoding = Encoding::of(params);
    let eight = Encoding::padded(8).unwrap();
    let evaluator = Evaluator::new(&Cpu::new(1).unwrap(), &keys.evaluation).unwrap();
    let ct = keys.secret.encrypt_as(&[1, 2], encoding, 8).unwrap();
    let encrypt = |input, out, entries: &[u64]| {
        let table = Table::with(params, input, out, entries).unwrap();
        keys.secret.encrypt_table(&table).unwrap()
    };
    let run = |glwe: Glwe, wanted: Output| {
        let mut p = Program::new(keys.secret.params().clone());
        let (src, table) = (p.input_like(&ct), p.input_table(encoding, 7));
        let src = if ct.role() == KeyRole::Small { src } else { p.key_switch(src).unwrap() };
        let found = p.bootstrap_encrypted(src, table, &[wanted]).unwrap();
        p.output(found[0]).unwrap();
        evaluator.run(&Arc::new(p), &[ct.clone().into(), glwe.into()])
    };
    // Whatever the entries are: their own range would tell them.
    let wanted = Output { index: 0, encoding, range: (0, 15) };
    for longer in [8, 9, 16] {
        let entries: Vec<u64> = (0..longer).map(|m| m % 8).collect();
        assert!(run(encrypt(encoding, encoding, &entries), wanted).is_ok());
    }
    let good = encrypt(encoding, encoding, &[7; 8]);
    refused("values 0 to 7", run(encrypt(encoding, encoding, &[7; 7]), wanted).unwrap_err());
    refused("values 0 to 7", run(encrypt(eight, encoding, &[7; 8]), wanted).unwrap_err());
    refused("with the output", run(encrypt(encoding, eight, &[7; 8]), wanted).unwrap_err());
    refused("with the output", run(good.clone(), Output { index: 1, ..wanted }).unwrap_err());
    refused("with the output", run(good.clone(), Output { range: (0, 7), ..wanted }).unwrap_err());

    // In one call.
    let short = encrypt(encoding, encoding, &[7; 4]);
    refused("a table of 4 entries", evaluator.bootstrap_encrypted(&ct, &short).unwrap_err());
    let other = encrypt(eight, encoding, &[7; 8]);
    refused("values in", evaluator.bootstrap_encrypted(&ct, &other).unwrap_err());
    assert!(evaluator.bootstrap_encrypted(&ct, &good).is_ok());
}

#[test]
fn gates_and_multiplexers_agree_with_the_clear() {
    for params in toy_sets() {
        let keys = keys(params);
        let encoding = Encoding::of(params);
        let bits: Vec<[u64; 3]> = (0..8).map(|i| [i >> 2 & 1, i >> 1 & 1, i & 1]).collect();
        let column = |c: usize| bits.iter().map(|b| b[c]).collect::<Vec<_>>();
        let encrypt = |c| keys.secret.encrypt_as(&column(c), encoding, 2).unwrap();
        let inputs: Vec<Lwe> = (0..3).map(encrypt).collect();
        let mut program = Program::new(keys.secret.params().clone());
        let info =
            RegInfo { ty: RegType::Lwe(keys.secret.resting_role()), encoding, range: (0, 1) };
        let [s, x, y] = [0; 3].map(|_| program.input_as(info));
        let mut results: Vec<_> =
            Gate::ALL.iter().map(|g| program.gate(*g, s, x).unwrap()).collect();
        results.push(program.not(y).unwrap());
        results.push(program.mux(s, x, y).unwrap());
        results.iter().for_each(|r| program.output(*r).unwrap());
        let results = agree(&keys, program, &inputs, 1);
        let results: Vec<Vec<u64>> =
            results.iter().map(|r| keys.secret.decrypt(r).unwrap()).collect();
        for (lane, [s, x, y]) in bits.iter().enumerate() {
            for (gate, result) in Gate::ALL.iter().zip(&results) {
                let wanted = gate.eval(*s == 1, *x == 1);
                assert_eq!(result[lane] == 1, wanted, "{gate:?} {s} {x} in {}", params.name);
            }
            assert_eq!(results[6][lane], 1 - y, "NOT in {}", params.name);
            assert_eq!(results[7][lane], *if *s == 1 { x } else { y }, "MUX in {}", params.name);
        }
    }
}

/// Slots are added, extracted, packed, mapped and looked up in one program, which has every instruction of TFHE.
#[test]
fn every_instruction_agrees() {
    let mut names = BTreeSet::new();
    for params in toy_sets().into_iter().filter(|p| p.slots > 1) {
        let w = params.slots;
        let mut keys = keys(params);
        let entry = |j: usize, t: usize| i64::from(t == (j + 1) % w);
        let turn: Vec<Vec<i64>> = (0..w).map(|j| (0..w).map(|t| entry(j, t)).collect()).collect();
        for key in [keys.secret.pack_key().unwrap(), keys.secret.slot_map_key(&turn).unwrap()] {
            keys.evaluation = keys.evaluation.with_slot_key(key).unwrap();
        }
        let values: Vec<u64> = (0..3 * w as u64).map(|i| i * 5 % 3).collect();
        let x = keys.secret.encrypt_as(&values, Encoding::of(params), 3).unwrap();
        let mut p = Program::new(keys.secret.params().clone());
        let a = p.input_like(&x);
        let raised = p.linear(&[(1, a)], 1).unwrap();
        let added = p.add_slots(a, &vec![1; w]).unwrap();
        let extracted: Vec<Reg> = (0..w).map(|_| p.extract(added, 0).unwrap()).collect();
        let packed = p.pack(&extracted).unwrap();
        let mapped = p.slot_map(a, 0, RowSums::of(&turn)).unwrap();
        let square = Table::from_fn(params, |m| m * m % 4).unwrap();
        let squared = p.lookup_slots(mapped, &vec![square; w]).unwrap()[0];
        for reg in [raised, added, extracted[0], packed, mapped, squared] {
            p.output(reg).unwrap();
        }
        names.extend(p.ops().iter().map(Op::name));
        for (name, backend) in backends() {
            let wanted = runs_all(backend.as_ref(), params);
            assert_eq!(runs(backend.as_ref(), &p), wanted, "{} on {name}", params.name);
        }
        let results = agree(&keys, p, &[x], 1);
        let results: Vec<_> = results.iter().map(|c| keys.secret.decrypt(c).unwrap()).collect();
        let up: Vec<u64> = values.iter().map(|m| m + 1).collect();
        let first: Vec<u64> = up.iter().step_by(w).copied().collect();
        let turned: Vec<u64> =
            values.chunks(w).flat_map(|c| (0..w).map(|j| c[(j + 1) % w])).collect();
        let squares = turned.iter().map(|m| m * m % 4).collect();
        let everywhere = first.iter().flat_map(|m| vec![*m; w]).collect();
        assert_eq!(results, [up.clone(), up, first, everywhere, turned, squares]);
    }
    assert_eq!(names, BTreeSet::from_iter(Op::NAMES.iter().copied()));
}

/// Waves that the program does not have are refused; those that it has run afterwards.
#[test]
fn waves_out_of_range_are_refused() {
    let params = TfheParams::named("toy_2_2").unwrap();
    let keys = keys(params);
    let x = keys.secret.encrypt(&[1, 2]).unwrap();
    let mut program = Program::new(keys.secret.params().clone());
    let a = program.input_like(&x);
    let y = program.lookup(a, &Table::from_fn(params, |m| m).unwrap()).unwrap();
    program.output(y).unwrap();
    let walk = Arc::new(program.walk());
    let (program, waves) = (Arc::new(program), walk.waves.len());
    let reference: Box<dyn Backend> = Box::new(Reference);
    for (name, backend) in backends().into_iter().chain([("reference".to_string(), reference)]) {
        if !runs(backend.as_ref(), &program) {
            continue;
        }
        let mut session = backend
            .tfhe()
            .unwrap()
            .open(TfheSetup::new(&keys.evaluation, &program.needs()))
            .unwrap();
        for lanes in [1, 2] {
            session.load(program.clone(), walk.clone(), lanes, UNWATCHED).unwrap();
            let words = &x.words()[..lanes * x.width()];
            for asked in [0..waves + 1, waves + 1..waves + 2, waves..usize::MAX] {
                session.write(a, 0, words).unwrap();
                let run = session.run(asked.clone(), UNWATCHED).and_then(|()| session.wait());
                assert_eq!(run.map_err(|e| e.kind()), Err("bad_input"), "{asked:?} on {name}");
            }
            session.write(a, 0, words).unwrap();
            session.run(0..waves, UNWATCHED).unwrap();
            assert!(session.read(y, 0..lanes).is_ok(), "{name}");
        }
    }
}

/// Several waves: (a² + b) looked up again, beside a linear result, on more lanes than a tile.
#[test]
fn programs_of_several_waves_agree() {
    for params in toy_sets().into_iter().filter(|p| p.carry_modulus >= 2) {
        let keys = keys(params);
        let encoding = Encoding::of(params);
        let (p, below) = (encoding.values, params.message_modulus);
        let a: Vec<u64> = (0..36).map(|i| i % below).collect();
        let b: Vec<u64> = (0..36).map(|i| (i / 3) % below).collect();
        let mut program = Program::new(keys.secret.params().clone());
        let ty = RegType::Lwe(keys.secret.resting_role());
        let info = RegInfo { ty, encoding, range: (0, below as i64 - 1) };
        let (x, y) = (program.input_as(info), program.input_as(info));
        let squares: Vec<u64> = (0..p).map(|m| m * m % below).collect();
        let square = Table::with(params, encoding, encoding, &squares).unwrap();
        let sq = program.lookup(x, &square).unwrap();
        let sum = program.linear(&[(1, sq), (1, y)], 0).unwrap();
        let out = program.lookup(sum, &Table::from_fn(params, |m| (m + 1) % p).unwrap()).unwrap();
        program.output(out).unwrap();
        program.output(sum).unwrap();
        let cost = program.cost();
        assert_eq!((cost.bootstraps, cost.key_switches, cost.depth), (2, 2, 2));
        let encrypt = |v: &[u64]| keys.secret.encrypt_as(v, encoding, below).unwrap();
        let results = agree(&keys, program, &[encrypt(&a), encrypt(&b)], 2);
        let wanted: Vec<u64> = a.iter().zip(&b).map(|(a, b)| (a * a % below + b + 1) % p).collect();
        assert_eq!(keys.secret.decrypt(&results[0]).unwrap(), wanted, "{}", params.name);
    }
}

/// A name is opened, asked about a set, or refused with the names that there are.
#[test]
fn every_name_is_a_machine() {
    let params = TfheParams::named("toy_1_1_p").unwrap();
    let (cpu, known) = (Cpu::new(0).unwrap(), backend::names().collect::<BTreeSet<&str>>());
    assert!(known.contains("cpu") && known.contains("auto") && known.contains("reference"));
    for name in known.iter().copied() {
        // Without a GPU there is no device of that name, and a machine may run CKKS alone.
        match backend::for_params::<Tfhe>(name, &cpu, params) {
            Ok(machine) => assert!(machine.runs::<Tfhe>().is_ok(), "{name}"),
            Err(e) if e.kind() == "device" => assert_eq!(name, "cuda", "{e}"),
            Err(_) => {
                let machine = backend::by_name(name, &cpu).unwrap();
                assert!(machine.tfhe().is_none() && machine.ckks().is_some(), "{name}");
            }
        }
    }
    assert!(known.iter().all(|name| backend::require_name(name).is_ok()));
    for refused in [backend::by_name("tpu", &cpu).err(), backend::require_name("tpu").err()] {
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), "bad_input");
        assert!(known.iter().all(|name| refused.to_string().contains(name)), "{refused}");
    }
}
