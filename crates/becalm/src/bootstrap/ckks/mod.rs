//! Bootstraps of CKKS, each a function that returns a program: from low levels back to those of the user.
//!
//! ```no_run
//! use becalm::backend::{Ckks, CkksSetup, Cpu, Evaluator};
//! use becalm::bootstrap::ckks::{Settings, regular};
//! use becalm::ckks::Context;
//! use becalm::math::complex::Complex;
//! use becalm::params::CkksParams;
//! use std::sync::Arc;
//!
//! # fn main() -> becalm::Result<()> {
//! let context = Arc::new(Context::new(CkksParams::named("ckks_regular")?, false)?);
//! let program = Arc::new(regular(&context, &Settings::default())?);
//! println!("{} bytes of keys", context.key_bytes(&program.needs()));
//! let secret = context.secret_key()?;
//! let keys = Arc::new(context.keys(&secret, &program.needs())?);
//! let evaluator = Evaluator::new(&Cpu::new(0)?, CkksSetup::new(&context, &keys))?;
//! let x = context.encrypt(&[Complex::from(0.5)], 0, &secret)?;
//! let y = evaluator.run(&program, &[&x])?.remove(0);
//! assert_eq!(y.level(), 10);
//! # Ok(())
//! # }
//! ```

mod coeffs_to_slots;
mod eval_mod;
mod keys;
mod offer;
mod pack;
mod pipeline;
mod regular;
mod sign;
mod slots_first;
mod sparse;
mod table;
mod wish;

pub use keys::{KeyPlan, Price};
pub use offer::{Fit, Offer, said, said_or_least};
pub use pack::{pack, unpack};
use pipeline::MOST_STAGES;
pub use pipeline::{KEY_SIZES, Settings, Values};
pub use regular::regular;
pub use sign::sign;
pub use slots_first::slots_first;
pub use sparse::sparse;
pub use table::tables;
pub use wish::{Instead, Kind, USUAL_SIZE, Wish, set_for, size_named};
