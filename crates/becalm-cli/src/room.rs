//! What a bootstrap of CKKS takes, and which flags take less where that is more than there is.

use crate::ckks::{Job, program};
use crate::report::megabytes;
use becalm::backend::{CkksSession, Shares};
use becalm::bootstrap::ckks::KEY_SIZES;
use becalm::cipher::KeyForm;
use becalm::ckks::{Chain, Context};
use becalm::math::buffer::{available_memory, require_memory};
use becalm::params::{CkksParams, Kind};
use becalm::program::rlwe::CkksProgram;
use becalm::{Error, Result};

/// The smallest set that bootstraps, for every kind but the precise one.
pub const SMALLER: &str = "ckks_n15";

/// A set made ready, which has been allowed before, and the bootstrap of a job.
///
/// # Errors
/// `Memory` where not even the tables fit; what the bootstrap refuses.
pub fn recorded(params: &'static CkksParams, job: &Job) -> Result<(Context, CkksProgram)> {
    let program = program(&Chain::new(params)?, job)?;
    Ok((Context::new(params, true)?, program))
}

/// Refuses keys, matrices and the work of a bootstrap that do not fit together, before any of them is made.
///
/// # Errors
/// `Memory`.
pub fn require(chain: &Chain, program: &CkksProgram, form: KeyForm) -> Result<()> {
    require_memory("run", all(chain, program, form))
}

fn all(chain: &Chain, program: &CkksProgram, form: KeyForm) -> usize {
    let keys = chain.key_bytes_as(&program.needs(), form);
    keys + CkksSession::matrix_bytes(chain, program) + Shares::work(chain.params())
}

/// The same refusal with the flags that help, where it is one of memory.
pub fn remedied(
    error: anyhow::Error,
    params: &'static CkksParams,
    job: &Job,
    full: bool,
) -> anyhow::Error {
    match error.downcast_ref::<Error>() {
        Some(Error::Memory(d)) => {
            let remedy = remedy(params, job, full);
            Error::memory(d.op, d.wanted.clone(), d.got.clone(), remedy).into()
        }
        _ => error,
    }
}

fn remedy(params: &'static CkksParams, job: &Job, full: bool) -> String {
    let free = available_memory().unwrap_or(usize::MAX);
    let mut all = vec![];
    if full {
        all.push("leave --full out, which takes what fits".to_string());
    }
    let smaller = || {
        let set = CkksParams::named(SMALLER).ok()?;
        let is_smaller = params.kind == Kind::Standard && set.log2_degree < params.log2_degree;
        if is_smaller { fitting(set, &job.of_any_set(), free, Some(SMALLER)) } else { None }
    };
    all.extend(fitting(params, job, free, None).or_else(smaller));
    all.push("free memory".into());
    all.join("; or ")
}

/// The flags of keys that fit so many bytes with all that a bootstrap takes, the fastest first; of `set`, if it is another one, those
/// that were asked for too.
fn fitting(
    params: &'static CkksParams,
    job: &Job,
    free: usize,
    set: Option<&str>,
) -> Option<String> {
    let chain = Chain::new(params).ok()?;
    if chain.table_bytes() > free {
        return None;
    }
    let larger = |size: &(&str, usize)| size.0 != job.size();
    let below = KEY_SIZES.into_iter().rev().skip_while(larger).skip(1);
    let smaller: Vec<&str> = below.map(|(name, _)| name).collect();
    // Seeded keys come last: they are slower than those of a smaller size.
    let mut tries = vec![(None, Some("packed"))];
    tries.extend(smaller.iter().map(|size| (Some(*size), None)));
    tries.push((None, Some("seeded")));
    tries.extend(smaller.iter().map(|size| (Some(*size), Some("seeded"))));
    if set.is_some() {
        tries.insert(0, (None, None));
    }
    tries.into_iter().find_map(|(size, form)| {
        let other = job.with(size, form);
        let program = program(&chain, &other).ok()?;
        let bytes = all(&chain, &program, other.form());
        let set = set.map(|name| format!("--params {name}"));
        let size = size.map(|name| format!("--keys {name}"));
        let form =
            form.map(|f| if f == "packed" { "--compact".into() } else { format!("--compact={f}") });
        let flags: Vec<String> = [set, size, form].into_iter().flatten().collect();
        (bytes <= free).then(|| format!("{} takes {}", flags.join(" "), megabytes(bytes)))
    })
}
