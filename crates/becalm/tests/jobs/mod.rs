//! Jobs that the tests of folders and of services share: squares in chunks of two, and the bytes that one machine makes of them.

use becalm::backend::{CkksSetup, Cpu, Evaluator};
use becalm::cipher::file::Trust;
use becalm::cipher::{Lwe, SecretKey};
use becalm::ckks::Context;
use becalm::job::Parts;
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, TfheParams};
use becalm::program::Program;
use becalm::program::rlwe::CkksProgram;
use becalm::tfhe::Table;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A separate folder for each test, removed afterwards.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn folder(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("becalm-jobs-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    Folder(path)
}

fn parts(program: Vec<u8>, keys: PathBuf, inputs: Vec<PathBuf>) -> Parts {
    let trust = Trust::insecure();
    Parts { program, keys, slot_keys: vec![], inputs, chunk: Some(2), verify: 0.0, trust }
}

/// A job of `lanes` squares under a set of TFHE, and the results of every `piece` lanes.
pub fn squares(folder: &Path, set: &str, lanes: usize, piece: usize) -> (Parts, Vec<Vec<u8>>) {
    let secret = SecretKey::generate(TfheParams::named(set).unwrap(), true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let x = secret.encrypt(&(0..lanes as u64).map(|i| i % 16).collect::<Vec<_>>()).unwrap();
    let mut program = Program::new(secret.params().clone());
    let src = program.input_like(&x);
    let squares: Vec<u64> = (0..16).map(|m| m * m % 16).collect();
    let square = program.lookup(src, &Table::new(secret.params(), &squares).unwrap()).unwrap();
    program.output(square).unwrap();
    let (key_file, file) = (folder.join("evaluation.becalm"), folder.join("x.becalm"));
    keys.save(&key_file).unwrap();
    x.save(&file).unwrap();
    let x = Lwe::load(&file, Trust::insecure()).unwrap();
    let evaluator = Evaluator::new(&Cpu::new(1).unwrap(), &keys).unwrap();
    let program = Arc::new(program);
    let result = |from: usize| {
        let part = x.slice(from..(from + piece).min(lanes)).unwrap();
        evaluator.run(&program, &[part.into()]).unwrap()[0].to_bytes().unwrap()
    };
    let wanted = (0..lanes).step_by(piece).map(result).collect();
    (parts(program.to_bytes().unwrap(), key_file, vec![file]), wanted)
}

/// A job of squares of CKKS, a ciphertext a lane, and the result of each lane.
pub fn ckks_squares(folder: &Path, lanes: usize) -> (Parts, Vec<Vec<u8>>) {
    let context = Arc::new(Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap());
    let mut program = CkksProgram::new(&context);
    let x = program.input(2, 4).unwrap();
    let square = program.multiply(x, x).unwrap();
    program.output(square).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = Arc::new(context.keys(&secret, &program.needs()).unwrap());
    let key_file = folder.join("keys");
    context.write_keys(&keys, fs::File::create(&key_file).unwrap()).unwrap();
    let evaluator = Evaluator::new(&Cpu::new(1).unwrap(), CkksSetup::new(&context, &keys)).unwrap();
    let program = Arc::new(program);
    let lane = |i: usize| {
        let values = [0.5, -0.5, 0.25, i as f64 / 4.0].map(Complex::from);
        let path = folder.join(format!("x{i}"));
        context.save_ciphertext(&context.encrypt(&values, 2, &secret).unwrap(), &path).unwrap();
        let x = context.load_ciphertext(&path, Trust::insecure()).unwrap();
        let y = evaluator.run(&program, &[&x]).unwrap();
        (path, context.ciphertext_to_bytes(&y[0]).unwrap())
    };
    let (inputs, wanted) = (0..lanes).map(lane).unzip();
    (parts(program.to_bytes().unwrap(), key_file, inputs), wanted)
}
