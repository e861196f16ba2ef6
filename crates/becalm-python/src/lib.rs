//! `becalm._native`: the foundation of the Python package. Handles of the library's own types and flat calls between them;
//! shapes, operators, tables from functions and progress bars are Python's, arithmetic is the library's.
//!
//! Rules of the boundary: no panic crosses it ([`call::guarded`]); long work leaves the interpreter free, and is stopped
//! by Ctrl-C ([`call::supervised`]); integers travel as little-endian bytes, because numpy arrays are made of them and
//! the buffer protocol is not in the stable interface of Python 3.10.

mod bridge;
mod call;
mod ciphertext;
mod circuit;
mod ckks;
mod ckks_collective;
mod ckks_evaluate;
mod ckks_function;
mod ckks_keys;
mod ckks_machine;
mod ckks_plain;
mod ckks_plan;
mod ckks_program;
mod ckks_threshold;
mod evaluate;
mod integers;
mod job;
mod keys;
mod params;
mod program;
mod service;

use pyo3::prelude::*;

/// The compiled part of becalm. Use the package `becalm`, not this module.
#[pymodule(gil_used = false)]
mod _native {
    use crate::call;
    use becalm::math::simd::Level;
    use pyo3::prelude::*;
    use std::ffi::OsString;

    #[pymodule_export]
    use crate::bridge::{BridgeKey, PackingKey};
    #[pymodule_export]
    use crate::ciphertext::{Glwe, Lwe};
    #[pymodule_export]
    use crate::circuit::Circuit;
    #[pymodule_export]
    use crate::ckks::CkksCiphertext;
    #[pymodule_export]
    use crate::ckks_collective::{CkksParty, CkksPartyMessage, ckks_aggregate};
    #[pymodule_export]
    use crate::ckks_evaluate::{CkksKeys, CkksPrepared};
    #[pymodule_export]
    use crate::ckks_function::{CkksFunction, polynomial_levels, sum_rotations};
    #[pymodule_export]
    use crate::ckks_keys::{CkksPublicKey, CkksSecretKey};
    #[pymodule_export]
    use crate::ckks_machine::CkksMachine;
    #[pymodule_export]
    use crate::ckks_plain::{CkksMap, CkksMatrix, CkksPlaintext};
    #[pymodule_export]
    use crate::ckks_plan::{CkksChain, CkksPlan};
    #[pymodule_export]
    use crate::ckks_program::{CkksProgram, CkksRegister};
    #[pymodule_export]
    #[pymodule_export]
    use crate::ckks_threshold::{CkksKeyShare, CkksPartialDecryption, ckks_combine};
    #[pymodule_export]
    use crate::evaluate::{Evaluator, require_machine};
    #[pymodule_export]
    use crate::integers::{
        IntegerForms, aes_ctr, aes_ctr_blocks, bits_from_bytes, bits_to_bytes, check_bits,
        decrypt_bits, decrypt_integers, encrypt_bits, encrypt_integers, integer_most,
        integer_operations, integer_type, integers_from_bytes, integers_to_bytes, load_bits,
        load_integers, record_aes_ctr, record_aes_ecb, save_bits, save_integers, trivial_integers,
    };
    #[pymodule_export]
    use crate::job::{Job, JobLoan, JobRunner, job_seconds};
    #[pymodule_export]
    use crate::keys::{
        CkksNeeds, EvaluationKey, SecretKey, SlotKey, available_memory, ckks_keys_of_file,
        free_memory, kind_of_bytes, kind_of_file,
    };
    #[pymodule_export]
    use crate::params::{Params, scheme_of};
    #[pymodule_export]
    use crate::program::{Program, Table};
    #[pymodule_export]
    use crate::service::RemoteJob;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Sizes of bootstrapping keys of CKKS by name, as baby steps.
    #[pymodule_export]
    const KEY_SIZES: [(&str, usize); 3] = becalm::bootstrap::ckks::KEY_SIZES;

    /// The size of these keys where none is asked for.
    #[pymodule_export]
    const USUAL_KEY_SIZE: &str = becalm::bootstrap::ckks::USUAL_SIZE;

    /// Most slots that a set of CKKS has.
    #[pyfunction]
    fn most_slots() -> usize {
        becalm::params::CkksParams::most_slots()
    }

    /// Tools in this Python's packages are found though its folder is not on the path.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let python = module.py().import("sys")?.getattr("executable")?;
        if let Ok(python) = python.extract::<String>() {
            becalm::program::circuit::use_python(python);
        }
        Ok(())
    }

    /// Runs the `becalm` command; its exit status. The first argument is the name of the command.
    #[pyfunction]
    fn main(py: Python<'_>, argv: Vec<OsString>) -> PyResult<u8> {
        call::guarded(|| Ok(py.detach(|| becalm_cli::main_with(argv))))
    }

    /// Names of the vector instructions that this processor has, the ones in use first.
    #[pyfunction]
    fn instructions() -> Vec<&'static str> {
        let mut levels: Vec<Level> = Level::available().iter().rev().copied().collect();
        levels.sort_by_key(|l| *l != Level::best());
        levels.iter().map(|l| l.name()).collect()
    }

    /// Bytes in words.
    #[pyfunction]
    fn megabytes(size: usize) -> String {
        becalm::words::megabytes(size)
    }

    /// A number of things, of which `one` is the name of one.
    #[pyfunction]
    fn counted(count: usize, one: &str) -> String {
        becalm::words::counted(count, one)
    }

    /// The GPUs of this machine, a line each.
    #[pyfunction]
    fn gpus() -> PyResult<Vec<String>> {
        call::guarded(|| becalm::backend::gpus().map_err(call::raise))
    }

    /// Names and bytes of the code for GPUs in this build.
    #[pyfunction]
    fn gpu_images() -> Vec<(&'static str, usize)> {
        becalm::backend::images().collect()
    }

    /// The compiler of other code for GPUs and its place, if there is one.
    #[pyfunction]
    fn nvrtc() -> PyResult<Option<String>> {
        call::guarded(|| Ok(becalm::backend::nvrtc()))
    }

    /// Names a folder in which that may be.
    #[pyfunction]
    fn look_for_nvrtc(folder: std::path::PathBuf) {
        becalm::backend::look_for_nvrtc(&folder);
    }

    /// Panics inside the boundary, on the calling thread or on a worker: a test that `becalm.Error` is all that arrives.
    #[pyfunction]
    fn _panic(py: Python<'_>, worker: bool) -> PyResult<()> {
        if worker {
            return call::supervised(py, None, |_| panic!("a test of the boundary"));
        }
        call::guarded(|| panic!("a test of the boundary"))
    }
}
