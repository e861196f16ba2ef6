//! Measurements that may miss by chance are made again, and the parameter sets that proofs measure on.
// Each test that includes this module uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod sets;

pub use becalm::math::statistics::*;

/// Independent measurements that must all miss before a formula is refused: one time in a million.
pub const TRIES: usize = 3;

/// Measures again, up to [`TRIES`] times, until `accept` takes what was measured; panics with the last refusal.
#[track_caller]
pub fn until_accepted<T>(
    mut measure: impl FnMut() -> T,
    mut accept: impl FnMut(&T) -> Result<(), String>,
) -> T {
    let mut refusals = Vec::new();
    for _ in 0..TRIES {
        let measured = measure();
        match accept(&measured) {
            Ok(()) => return measured,
            Err(why) => {
                println!("outside, measured again: {why}");
                refusals.push(why);
            }
        }
    }
    panic!("{TRIES} measurements outside: {}", refusals.join("; "));
}
