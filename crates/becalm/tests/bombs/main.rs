//! Small texts and files that ask for much memory, time, depth or output. A separate process reads each one and uses it as far
//! as possible. The system ends the process after 2 seconds of processor time or 64 MB of memory above its start. It must end
//! before that, with a typed error or a right result. Verilog, which Yosys reads, is in `tests/test_python_bombs.py`.

mod ckks_programs;
#[path = "../harness/mod.rs"]
mod harness;
mod programs;
mod texts;

use becalm::Error;
use becalm::cipher::file::Trust;
use becalm::params::TfheParams;
use becalm::program::Program;
use becalm::program::circuit::{Circuit, Goal};
use becalm::program::isa;
use becalm::program::rlwe::CkksProgram;
use ckks_programs::CKKS_PROGRAMS;
use programs::PROGRAMS;
use std::process::Command;
use std::sync::Arc;
use texts::{BLIF, BRISTOL, Bomb, ISA};

/// Bytes of a bomb, at most.
const SMALL: usize = 6000;
/// Kilobytes of data that a process may have: 64 MB above those of the test itself (stacks of threads, tables of sets).
const MEMORY: u64 = (64 + 32) << 10;
const SECONDS: u64 = 2;

/// The bomb that the variable names, read in the separate process.
const BOMB: &str = "BECALM_TEST_BOMB";

fn read_circuit(bytes: &[u8]) -> Result<(), Error> {
    let text = String::from_utf8_lossy(bytes);
    let circuit = Circuit::parse(&text)?;
    let bits: usize = circuit.inputs().iter().map(|p| p.width()).sum();
    let wanted = circuit.evaluate(&vec![0; bits])?;
    let params = Arc::new(TfheParams::named("toy_2_2").unwrap().clone());
    let program = circuit.compile(&params, Goal::Depth)?.program;
    let got = program.run_unencrypted(&vec![0; bits])?;
    assert!(got.iter().zip(&wanted).all(|(a, b)| *a == (*b & 1) as i64));
    Ok(())
}

fn read_program(bytes: &[u8]) -> Result<(), Error> {
    let program = Program::from_bytes(bytes, Trust::insecure())?;
    assert!(program.cost().waves <= program.ops().len());
    program.follow(&vec![0.0; program.inputs().len()])?;
    assert_eq!(Program::from_bytes(&program.to_bytes()?, Trust::insecure())?, program);
    Ok(())
}

fn read_ckks_program(bytes: &[u8]) -> Result<(), Error> {
    let program = CkksProgram::from_bytes(bytes, Trust::insecure())?;
    assert!(program.waves().len() <= program.ops().len());
    let wanted = (program.cost(), program.needs());
    let again = CkksProgram::from_bytes(&program.to_bytes()?, Trust::insecure())?;
    assert!(again == program && (again.cost(), again.needs()) == wanted);
    Ok(())
}

fn read_isa(bytes: &[u8]) -> Result<(), Error> {
    let program = match bytes.starts_with(&isa::MAGIC.to_le_bytes()) {
        true => isa::decode(bytes)?,
        false => isa::assemble(&String::from_utf8_lossy(bytes))?,
    };
    assert_eq!(isa::assemble(&isa::disassemble(&program))?, program);
    assert_eq!(isa::decode(&isa::encode(&program)?)?, program);
    Ok(())
}

type Reader = fn(&[u8]) -> Result<(), Error>;
const FORMATS: [(&str, Reader, &[Bomb]); 5] = [
    ("bristol", read_circuit, BRISTOL),
    ("blif", read_circuit, BLIF),
    ("program", read_program, PROGRAMS),
    ("isa", read_isa, ISA),
    ("program of CKKS", read_ckks_program, CKKS_PROGRAMS),
];

/// The work of the process.
#[test]
#[ignore = "run by the test below"]
fn one_bomb() {
    let wanted = std::env::var(BOMB).expect("the variable that names a bomb");
    for (format, read, table) in FORMATS {
        for (name, make) in table.iter().filter(|(name, _)| format!("{format}/{name}") == wanted) {
            let bytes = make();
            assert!(bytes.len() <= SMALL, "{name}: {} bytes", bytes.len());
            match read(&bytes) {
                Ok(()) => println!("<{name}: read>"),
                Err(e) => {
                    assert!(!e.detail().remedy.is_empty() && e.to_string().len() < 1000, "{e}");
                    println!("<{name}: {e}>");
                }
            }
        }
    }
}

#[test]
fn every_bomb_ends_soon_and_takes_little_memory() {
    let test = std::env::current_exe().unwrap();
    let mut failed = vec![];
    for (format, _, table) in FORMATS {
        assert!(table.len() >= 20, "{format}: {}", table.len());
        for (name, _) in table {
            let script = format!("ulimit -d {MEMORY}; ulimit -t {SECONDS}; exec \"$0\" \"$@\"");
            let mut child = Command::new("sh");
            child.args(["-c", &script]).arg(&test).args([
                "--exact",
                "one_bomb",
                "--ignored",
                "--nocapture",
            ]);
            let done = child.env(BOMB, format!("{format}/{name}")).output().unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            if !done.status.success() || !said.contains(&format!("<{name}: ")) {
                let why = String::from_utf8_lossy(&done.stderr);
                failed.push(format!("{format}/{name}: {} {said} {why}", done.status));
            }
        }
    }
    assert!(failed.is_empty(), "{} bombs:\n{}", failed.len(), failed.join("\n"));
}
