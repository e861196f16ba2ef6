//! Jobs of becalm over HTTP: a [`Service`] in front of the folders of jobs, and its [`Client`].
//!
//! Every name is a digest: that of a file for keys, programs and inputs, and that of the request for a job. So every request may be
//! sent again, and a client that lost an answer repeats its question. An answer comes once all that it promises is on the disk.
//!
//! ```
//! use becalm::cipher::file::Trust;
//! use becalm::cipher::{Lwe, SecretKey};
//! use becalm::job::Parts;
//! use becalm::params::TfheParams;
//! use becalm::program::Program;
//! use becalm_serve::{Client, Config, GoOn, Service, Tokens};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! # fn main() -> becalm::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("becalm-serve-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! // A toy set: `insecure` allows it.
//! let (trust, token) = (Trust::insecure(), "0123456789abcdef0123456789abcdef");
//! let tokens = Tokens::parse(&format!("alice {token}\n"))?;
//! let config = Config { trust, threads: 1, ..Config::new(folder.join("served"), tokens) };
//! let service = Service::bind(config)?;
//! let address = format!("http://{}", service.address());
//! let serving = Arc::new(AtomicBool::new(true));
//! let on = serving.clone();
//! let thread = std::thread::spawn(move || {
//!     let go_on: GoOn = Arc::new(move || on.load(Ordering::Relaxed));
//!     service.run(&go_on)
//! });
//!
//! let secret = SecretKey::generate(TfheParams::named("toy_2_2")?, true)?;
//! let x = secret.encrypt(&[3, 1, 2])?;
//! let mut program = Program::new(secret.params().clone());
//! let src = program.input_like(&x);
//! program.output(src)?;
//! let (keys, inputs) = (folder.join("evaluation.becalm"), folder.join("x.becalm"));
//! secret.evaluation_key()?.save(&keys)?;
//! x.save(&inputs)?;
//! let parts = Parts {
//!     program: program.to_bytes()?, keys, slot_keys: vec![], inputs: vec![inputs], chunk: Some(2), verify: 0.0, trust,
//! };
//! let client = Client::new(&address, token, None)?;
//! let job = client.make(&parts, "")?;
//! let first = job.wait(0)?;
//! assert_eq!(secret.decrypt(&Lwe::from_bytes(&first[0], trust)?)?, [3, 1]);
//! job.delete()?;
//! serving.store(false, Ordering::Relaxed);
//! thread.join().unwrap()?;
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok(())
//! # }
//! ```

mod answer;
mod board;
mod client;
mod handle;
#[cfg(feature = "store")]
mod http;
mod limits;
mod metrics;
#[cfg(feature = "store")]
mod objects;
mod pages;
mod place;
mod remote;
mod request;
mod routes;
mod service;
mod state;
mod store;
mod tls;
mod tokens;
mod transport;
mod work;

pub use client::Client;
pub use limits::Limits;
pub use pages::Page;
pub use place::{make_at, open_at};
pub use remote::RemoteJob;
pub use request::Request;
pub use routes::openapi;
pub use service::Service;
pub use state::Config;
pub use tokens::Tokens;

use std::sync::Arc;

/// Asked whether the work is to go on. Its `false` stops the work.
pub type GoOn = Arc<dyn Fn() -> bool + Send + Sync>;
