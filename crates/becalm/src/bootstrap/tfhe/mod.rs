//! TFHE bootstraps: arithmetic that knows no program.

pub mod blind_rotate;
pub mod classic;
pub mod extended;
pub mod ntt_rotate;

use crate::params::{Gadget, TfheParams};
use crate::{Error, Result};

/// The shape of a bootstrapping key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of GGSW ciphertexts: n, one for each bit of the small key, where they do not come in groups.
    pub ggsw_count: usize,
    /// k: number of mask polynomials.
    pub glwe_dimension: usize,
    /// w: number of bodies behind the mask.
    pub bodies: usize,
    /// N: coefficients of a polynomial.
    pub polynomial_size: usize,
    /// Base and levels of the decomposition.
    pub gadget: Gadget,
}

impl Shape {
    /// Polynomials of a GLWE ciphertext: k masks and w bodies.
    pub fn columns(&self) -> usize {
        self.glwe_dimension + self.bodies
    }

    /// Words of a GLWE ciphertext.
    pub fn glwe_len(&self) -> usize {
        self.columns().saturating_mul(self.polynomial_size)
    }

    /// Words of the digits of a GLWE ciphertext.
    pub fn digits_len(&self) -> usize {
        self.glwe_len().saturating_mul(self.gadget.level as usize)
    }

    /// Words of a GGSW ciphertext in coefficient form, and values of it in a transformed domain.
    pub fn ggsw_len(&self) -> usize {
        self.digits_len().saturating_mul(self.columns())
    }

    /// Refuses groups of GGSW that do not divide a key.
    pub(crate) fn check_groups(&self, size: usize) -> Result<()> {
        if size >= 1 && self.ggsw_count.is_multiple_of(size) {
            return Ok(());
        }
        Err(Error::bad_input(
            "bootstrapping key",
            "a group size of 1 or more that divides the number of GGSW",
            format!("groups of {size} of {}", self.ggsw_count),
            "choose a supported parameter set",
        ))
    }

    /// The shape of a parameter set's key.
    pub fn of(params: &TfheParams) -> Self {
        Shape {
            ggsw_count: params.ggsw_count(),
            glwe_dimension: params.glwe_dimension,
            bodies: params.slots,
            polynomial_size: params.polynomial_size,
            gadget: params.pbs,
        }
    }
}
