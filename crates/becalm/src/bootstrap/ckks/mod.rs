//! Bootstraps of CKKS: from level 0 back to the levels of the user.

mod coeffs_to_slots;
mod eval_mod;
mod regular;

pub use regular::Regular;

#[cfg(test)]
mod tests;
