//! The one meaning of `BECALM_FULL` for tests that have two sizes. Tests with a full size alone are `#[ignore]`d, their names
//! begin with `full_size`, and `make test-full` runs them.

/// Whether this run is a full one: `BECALM_FULL` is set, and neither empty nor 0.
pub fn full() -> bool {
    std::env::var_os("BECALM_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}
