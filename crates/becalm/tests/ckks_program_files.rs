//! Files of CKKS programs: the instructions and the numbers stand in two tensors. Files of before, which have one, still load,
//! and files that lie about either are typed errors.

mod harness;

use becalm::backend::{CkksSetup, Cpu, Evaluator};
use becalm::cipher::Rlwe;
use becalm::cipher::file::{Trust, inspect};
use becalm::ckks::{Chain, Chebyshev, Context, Matrix};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::Program;
use becalm::program::rlwe::CkksProgram;
use harness::{ckks_program, edit, join, program, seal, split, tiny};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

const TOY: Trust = Trust { allow_insecure: true, limit: 1 << 30 };
const SLOTS: usize = 2048;

fn vector() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/ckks_program.becalm")
}

/// A file of version 1 with one tensor, as such programs were first written. It must load for ever; never write it again.
#[test]
fn a_file_of_one_tensor_still_loads() {
    let described = inspect(vector()).unwrap();
    assert!(described.tensors.is_empty() && described.params == "ckks_toy_12");
    let (header, _) = split(&std::fs::read(vector()).unwrap()).unwrap();
    assert!(header["program"].is_object() && header["data"].is_null());
    let old = CkksProgram::load(vector(), TOY).unwrap();
    assert_eq!(old, ckks_program());
    let new = old.to_bytes().unwrap();
    let (header, _) = split(&new).unwrap();
    assert!(header["program"].is_null() && header["data"].is_object());
    assert_eq!(CkksProgram::from_bytes(&new, TOY).unwrap(), old);
}

/// A program of `count` sums with values for every slot, and the values that it adds.
fn many_plaintexts(context: &Context, count: usize) -> (CkksProgram, Vec<Complex>) {
    let mut p = CkksProgram::new(context);
    let mut x = p.input(2, SLOTS).unwrap();
    let mut sums = vec![Complex::default(); SLOTS];
    for k in 0..count {
        let value = |j: usize| ((j * 7 + k * 13) % 1000) as f64 / (1000 * count) as f64;
        let values: Vec<Complex> =
            (0..SLOTS).map(|j| Complex::new(value(j) + k as f64 * 1e-9, -value(j))).collect();
        sums.iter_mut().zip(&values).for_each(|(sum, v)| *sum = *sum + *v);
        x = p.add_plain(x, &values).unwrap();
    }
    p.output(x).unwrap();
    (p, sums)
}

#[test]
fn forty_mebibytes_of_plaintexts_load_by_default_and_run() {
    let set = CkksParams::named("ckks_toy_12").unwrap();
    let context = Arc::new(Context::new(set, true).unwrap());
    let (program, sums) = many_plaintexts(&context, 1280);
    let path = std::env::temp_dir().join(format!("becalm-plaintexts-{}", std::process::id()));
    program.save(&path).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    let loaded = CkksProgram::load(&path, Trust::insecure());
    let described = inspect(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let loaded = loaded.unwrap();
    assert!(length > 40 << 20 && described.bytes == length, "{length} bytes");
    assert!(loaded == program, "another program came back");
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &loaded.needs()).unwrap();
    let setup = CkksSetup::new(&context, &Arc::new(keys));
    let evaluator = Evaluator::new(&Cpu::new(0).unwrap(), setup).unwrap();
    let x = context.encrypt(&[Complex::from(0.25); SLOTS], 2, &secret).unwrap();
    let words = |program: CkksProgram| -> Rlwe {
        evaluator.run(&Arc::new(program), &[&x]).unwrap().remove(0)
    };
    let (got, same) = (words(loaded), words(program));
    let bytes = |x: &Rlwe| context.ciphertext_to_bytes(x).unwrap();
    assert!(bytes(&got) == bytes(&same), "the loaded program computes otherwise");
    let got = context.decrypt(&got, &secret).unwrap();
    let off = got.iter().zip(&sums).map(|(x, sum)| (*x - *sum - Complex::from(0.25)).abs());
    assert!(off.fold(0.0, f64::max) < 1e-4);
}

/// The limit holds for the file, a 64th of it for the instructions.
#[test]
fn both_tensors_have_their_limits() {
    let file = ckks_program().to_bytes().unwrap();
    let (header, _) = split(&file).unwrap();
    let graph = header["graph"]["shape"][0].as_u64().unwrap();
    let read = |limit| CkksProgram::from_bytes(&file, Trust { limit, ..TOY });
    let path = std::env::temp_dir().join(format!("becalm-two-limits-{}", std::process::id()));
    std::fs::write(&path, &file).unwrap();
    let load = |limit| CkksProgram::load(&path, Trust { limit, ..TOY });
    let enough = (file.len() as u64).max(64 * graph);
    assert!(read(enough).is_ok() && load(enough).is_ok());
    for (limit, told) in [(64 * graph - 1, "a 64th of the limit"), (100, "at most 100 bytes")] {
        for refused in [read(limit).unwrap_err(), load(limit).unwrap_err()] {
            assert!(
                refused.kind() == "bad_file" && refused.to_string().contains(told),
                "{refused}"
            );
        }
    }
    std::fs::remove_file(&path).unwrap();
    let (long, _) = many_plaintexts(&Context::new(ckks_program().params(), true).unwrap(), 4);
    let long = long.to_bytes().unwrap();
    let all = long.len() as u64;
    assert!(CkksProgram::from_bytes(&long, Trust { limit: all, ..TOY }).is_ok());
    let refused = CkksProgram::from_bytes(&long, Trust { limit: all - 1, ..TOY }).unwrap_err();
    assert_eq!(refused.kind(), "bad_file", "{refused}");
}

/// The file with other numbers and another graph, the lengths of the tensors kept right.
fn with_tensors(change: impl FnOnce(&mut Vec<f64>, &mut Vec<u8>)) -> Vec<u8> {
    edit(&ckks_program().to_bytes().unwrap(), |h, d| {
        let at = h["graph"]["data_offsets"][0].as_u64().unwrap() as usize;
        let mut graph = d.split_off(at);
        let (words, _) = d.as_chunks::<8>();
        let mut numbers = words.iter().map(|w| f64::from_le_bytes(*w)).collect();
        change(&mut numbers, &mut graph);
        let (from, to) = (8 * numbers.len(), 8 * numbers.len() + graph.len());
        h["data"]["shape"] = json!([numbers.len()]);
        h["data"]["data_offsets"] = json!([0, from]);
        h["graph"]["shape"] = json!([graph.len()]);
        h["graph"]["data_offsets"] = json!([from, to]);
        *d = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        d.extend(graph);
    })
}

fn refused(what: &str, file: &[u8]) -> String {
    match CkksProgram::from_bytes(file, TOY) {
        Err(e) if e.kind() == "bad_file" => e.to_string(),
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn numbers_that_do_not_fit_the_instructions_are_refused() {
    assert!(CkksProgram::from_bytes(&with_tensors(|_, _| {}), TOY).is_ok());
    let count = 2 * 3 * 8 + 3 + 2 + 2 * 8;
    with_tensors(|numbers, _| assert_eq!(numbers.len(), count));
    for left in [0, 1, 47, 48, 51, count - 1] {
        let told = refused("too few", &with_tensors(|numbers, _| numbers.truncate(left)));
        assert!(told.contains("a list of"), "{left}: {told}");
    }
    for more in [1, 2, 1000] {
        let longer = with_tensors(|numbers, _| numbers.extend(vec![0.5; more]));
        let told = refused("too many", &longer);
        assert!(told.contains("nothing after the last list"), "{told}");
    }
    for at in 0..count {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            refused("no number", &with_tensors(|numbers, _| numbers[at] = number));
        }
    }
    // Every byte of the graph. Where the program is another one, its numbers are its own.
    let graph = with_graph_length();
    for at in 0..graph {
        for byte in [0, 1, 2, 3, 8, 127, 128, 255] {
            let file = with_tensors(|_, graph| graph[at] = byte);
            if let Ok(other) = CkksProgram::from_bytes(&file, TOY) {
                assert_eq!(other.to_bytes().unwrap(), file, "byte {at} = {byte}");
            }
        }
        refused("cut", &with_tensors(|_, graph| graph.truncate(at)));
    }
    refused("longer", &with_tensors(|_, graph| graph.push(0)));
}

fn with_graph_length() -> usize {
    let mut length = 0;
    with_tensors(|_, graph| length = graph.len());
    length
}

/// The refusal of a set that has the name of one here and other numbers says which.
#[test]
fn a_set_of_other_numbers_is_refused_with_their_names() {
    let (mut header, data) = split(&ckks_program().to_bytes().unwrap()).unwrap();
    let text = header["__metadata__"]["params"].as_str().unwrap().to_owned();
    let other = text.replace("\"levels\":10", "\"levels\":9");
    assert_ne!(other, text);
    header["__metadata__"]["params"] = other.into();
    let refused = CkksProgram::from_bytes(&seal(header, &data), TOY).unwrap_err();
    let said = refused.detail();
    assert_eq!((refused.kind(), &*said.wanted), ("wrong_params", "`ckks_toy_12`"));
    assert_eq!(said.got, "`ckks_toy_12` with other values of levels");
}

#[test]
fn tensors_of_other_forms_are_refused() {
    let file = ckks_program().to_bytes().unwrap();
    let old = std::fs::read(vector()).unwrap();
    let (old_header, old_body) = split(&old).unwrap();
    let other = |what: &str, change: fn(&mut Value, &mut Vec<u8>)| {
        refused(what, &edit(&file, change));
    };
    other("words", |h, _| h["data"]["dtype"] = "U64".into());
    other("bytes", |h, _| {
        let bytes = h["data"]["data_offsets"][1].clone();
        h["data"] = json!({"dtype": "U8", "shape": [bytes], "data_offsets": [0, bytes]});
    });
    other("rows", |h, _| {
        let count = h["data"]["shape"][0].clone();
        h["data"]["shape"] = json!([count, 1]);
    });
    other("no numbers", |h, d| {
        let from = h["data"]["data_offsets"][1].as_u64().unwrap() as usize;
        h.as_object_mut().unwrap().remove("data");
        d.drain(..from);
        h["graph"]["data_offsets"] = json!([0, d.len()]);
    });
    other("numbers alone", |h, d| {
        let from = h["data"]["data_offsets"][1].as_u64().unwrap() as usize;
        h.as_object_mut().unwrap().remove("graph");
        d.truncate(from);
    });
    other("both forms", |h, d| {
        let end = d.len();
        h["program"] = json!({"dtype": "U8", "shape": [0], "data_offsets": [end, end]});
    });
    // The graph of before in the new form, and the entries of one diagonal in the graph.
    refused("the graph of before", &with_tensors(|_, graph| *graph = old_body.clone()));
    let mixed = with_tensors(|numbers, graph| {
        numbers.drain(..16);
        let at = graph.windows(5).position(|w| w == [8, 3, 0, 0, 1]).unwrap();
        graph.splice(at + 3..at + 4, [&[8][..], &[0; 8 * 16]].concat());
    });
    let told = refused("numbers in the graph", &mixed);
    assert!(told.contains("in `data` alone"), "{told}");
    let mut header = old_header;
    header["data"] = json!({"dtype": "F64", "shape": [0], "data_offsets": [0, 0]});
    refused("the form of before with numbers", &join(&header, &old_body));
    refused("sealed", &edit(&join(&header, &old_body), |_, _| {}));
    // Programs of TFHE have one form.
    let tfhe = edit(&program(&tiny()).to_bytes().unwrap(), |h, d| {
        let end = d.len();
        h["graph"] = json!({"dtype": "U8", "shape": [end], "data_offsets": [0, end]});
        h["data"] = json!({"dtype": "F64", "shape": [0], "data_offsets": [0, 0]});
        h.as_object_mut().unwrap().remove("program");
    });
    assert_eq!(Program::from_bytes(&tfhe, Trust::insecure()).unwrap_err().kind(), "bad_file");
}

/// Writes the vector: `cargo test --test ckks_program_files -- --ignored write_vector`, with the version that wrote one tensor.
/// Never over the one that is there.
#[test]
#[ignore = "writes the committed vector"]
fn write_vector() {
    assert!(!vector().exists());
    ckks_program().save(vector()).unwrap();
}

#[test]
fn lists_of_each_kind_are_in_the_vector() {
    let program = ckks_program();
    let matrix: &Matrix = &program.maps()[0].matrix;
    assert_eq!(matrix.rotations().collect::<Vec<_>>(), [0, 1, 5]);
    assert_eq!(program.polynomials(), [Chebyshev(vec![0.0, 1.0, 0.5])]);
    assert_eq!(program.plaintexts().iter().map(Vec::len).collect::<Vec<_>>(), [1, 8]);
    assert!(Chain::new(program.params()).is_ok());
}
