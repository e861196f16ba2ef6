//! TFHE bootstraps: arithmetic that knows no program.

pub mod blind_rotate;
pub mod classic;
pub mod ntt_rotate;

use crate::params::{Gadget, TfheParams};

/// The shape of a bootstrapping key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// n: number of GGSW ciphertexts.
    pub lwe_dimension: usize,
    /// k: number of mask polynomials.
    pub glwe_dimension: usize,
    /// N: coefficients of a polynomial.
    pub polynomial_size: usize,
    /// Base and levels of the decomposition.
    pub gadget: Gadget,
}

impl Shape {
    /// The shape of a parameter set's key.
    pub fn of(params: &TfheParams) -> Self {
        Shape {
            lwe_dimension: params.lwe_dimension,
            glwe_dimension: params.glwe_dimension,
            polynomial_size: params.polynomial_size,
            gadget: params.pbs,
        }
    }
}
