//! A job is a folder: program, evaluation keys, chunks of inputs and of results. Workers on any machines that see the folder share it.
//!
//! A worker claims a chunk by making a file that one alone can make, computes it, and puts all results in place by one rename. A worker
//! that dies loses its chunk to another. Nothing in the folder is secret: keys that decrypt raise an error. `docs/cluster.md` describes
//! states and faults.
//!
//! ```
//! use becalm::cipher::file::Trust;
//! use becalm::cipher::{Lwe, SecretKey};
//! use becalm::job::{Job, Parts, Worker};
//! use becalm::params::TfheParams;
//! use becalm::program::Program;
//! use becalm::tfhe::Table;
//! use std::sync::Arc;
//!
//! # fn main() -> becalm::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("becalm-job-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! // A toy set: `true` allows an insecure one.
//! let params = TfheParams::named("toy_2_2")?;
//! let secret = SecretKey::generate(params, true)?;
//! let (keys, inputs) = (folder.join("evaluation.becalm"), folder.join("x.becalm"));
//! secret.evaluation_key()?.save(&keys)?;
//! let x = secret.encrypt(&[3, 1, 2])?;
//! x.save(&inputs)?;
//! let mut program = Program::new(secret.params().clone());
//! let src = program.input_like(&x);
//! let squares: Vec<u64> = (0..16).map(|m| m * m % 16).collect();
//! let square = program.lookup(src, &Table::new(secret.params(), &squares)?)?;
//! program.output(square)?;
//!
//! let trust = Trust::insecure();
//! let parts = Parts {
//!     program: program.to_bytes()?, keys, slot_keys: vec![], inputs: vec![inputs], chunk: Some(2), verify: 0.0, trust,
//! };
//! let job = parts.make(folder.join("job"))?;
//! // On every machine:
//! let machine = job.machine("cpu", 1)?;
//! let worker = Worker { trust, ..Worker::new("first") };
//! job.work(machine.as_ref(), &worker, becalm::UNWATCHED, &mut |_| {})?;
//! // When all chunks are done:
//! job.collect(&[folder.join("y.becalm")], false, trust)?;
//! assert_eq!(secret.decrypt(&Lwe::load(folder.join("y.becalm"), trust)?)?, [9, 1, 4]);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok(())
//! # }
//! ```

mod check;
mod claim;
mod collect;
mod digest;
mod disk;
mod folder;
mod look;
mod make;
mod manifest;
mod place;
mod queue;
mod run;
mod time;
mod verify;
mod work;
mod worker;

pub use digest::Digest;
pub use folder::Job;
pub use look::{Failure, Status};
pub use make::{HEAD, Parts, admit};
pub use manifest::Scheme;
pub use place::{Held, Local, MANIFEST, Place, RECORD};
pub use queue::{Loan, Next, Queue};
pub use run::Runner;
pub use time::{JobTime, expected_seconds};
pub use verify::{Difference, Verified};
pub use work::{Event, Worked};
pub use worker::Worker;
