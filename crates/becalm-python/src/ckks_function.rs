//! CKKS: functions of real numbers, which say their levels and errors and record themselves.

use crate::call::{guarded, raise};
use becalm::apps::real::{self, Aim, Asked, Function, Named};
use becalm::ckks::{self, Chebyshev};
use becalm::program::rlwe::Operator;
use becalm::{Error, Result};
use pyo3::prelude::*;

/// A function of real vectors.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksFunction(pub(crate) Function);

type Domain = (f64, f64);

fn made(make: impl FnOnce() -> Result<Function>) -> PyResult<CkksFunction> {
    guarded(|| make().map(CkksFunction).map_err(raise))
}

/// A domain and bits.
fn on(domain: Domain, bits: f64) -> Asked {
    Asked { domain: Some([domain.0, domain.1]), bits: Some(bits), ..Asked::default() }
}

fn named(name: &str, asked: &Asked) -> PyResult<CkksFunction> {
    made(|| Named::of(name)?.made(asked))
}

#[pymethods]
impl CkksFunction {
    /// A function of Python by its Chebyshev series, of the least degree with so many bits or of a degree.
    #[staticmethod]
    #[pyo3(signature = (name, f, domain, bits=None, degree=None))]
    fn approximate(
        name: &str,
        f: &Bound<'_, PyAny>,
        domain: Domain,
        bits: Option<f64>,
        degree: Option<usize>,
    ) -> PyResult<Self> {
        let aim = match (bits, degree) {
            (Some(bits), None) => Aim::Bits(bits),
            (None, Some(degree)) => Aim::Degree(degree),
            _ => {
                let (wanted, got) = ("either bits or a degree", "both or none");
                let remedy = "as in bits=20";
                return Err(raise(Error::bad_input("approximate", wanted, got, remedy)));
            }
        };
        // An exception of the function reaches the caller as it is.
        let mut raised = None;
        let mut value = |x: f64| {
            f.call1((x,)).and_then(|y| y.extract::<f64>()).map_err(|e| {
                raised = Some(e);
                Error::bad_input("approximate", "a function of one number", "an exception", "")
            })
        };
        let found = made(|| real::approximate(name, &mut value, [domain.0, domain.1], aim));
        match raised {
            Some(e) => Err(e),
            None => found,
        }
    }

    /// A function by name of values in a domain.
    #[staticmethod]
    fn named(name: &str, domain: Domain, bits: f64) -> PyResult<Self> {
        named(name, &on(domain, bits))
    }

    /// A function by name that is right for values a gap apart.
    #[staticmethod]
    fn beyond(name: &str, domain: Domain, gap: f64, bits: f64) -> PyResult<Self> {
        named(name, &Asked { gap: Some(gap), ..on(domain, bits) })
    }

    /// A function by name of blocks of slots.
    #[staticmethod]
    fn of_blocks(name: &str, size: usize, domain: Domain, bits: f64) -> PyResult<Self> {
        named(name, &Asked { size: Some(size), ..on(domain, bits) })
    }

    /// The place of the largest value of each block, and the value.
    #[staticmethod]
    fn argmax(size: usize, domain: Domain, gap: f64, bits: f64) -> PyResult<Self> {
        named("argmax", &Asked { size: Some(size), gap: Some(gap), ..on(domain, bits) })
    }

    /// In each slot the sum of `size` slots from it on, `stride` apart.
    #[staticmethod]
    fn sum(size: usize, stride: usize) -> PyResult<Self> {
        made(|| real::sum(size, stride))
    }

    /// The mean of these slots.
    #[staticmethod]
    fn mean(size: usize, stride: usize) -> PyResult<Self> {
        made(|| real::mean(size, stride))
    }

    /// Every block filled with one of its slots.
    #[staticmethod]
    fn replicate(size: usize, index: usize) -> PyResult<Self> {
        made(|| real::replicate(size, index))
    }

    /// Some slots moved to another place, zeros elsewhere; errors have the name.
    #[staticmethod]
    fn placed(name: &str, slots: usize, start: usize, count: usize, to: usize) -> PyResult<Self> {
        made(|| Ok(real::placed(slots, start, count, to)?.named(name)))
    }

    /// The first values of several vectors in one.
    #[staticmethod]
    fn concatenate(slots: usize, counts: Vec<usize>) -> PyResult<Self> {
        made(|| real::concatenate(slots, &counts))
    }

    /// The product of two matrices.
    #[staticmethod]
    fn matrix_product(size: usize) -> PyResult<Self> {
        made(|| real::matrix_product(size))
    }

    /// A matrix times a vector.
    #[staticmethod]
    fn matrix_vector(size: usize) -> PyResult<Self> {
        made(|| real::matrix_vector(size))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Number of vectors that it takes.
    #[getter]
    fn arguments(&self) -> usize {
        self.0.arguments()
    }

    /// The values that it is made for.
    #[getter]
    fn domain(&self) -> Option<Domain> {
        self.0.domain().map(|[a, b]| (a, b))
    }

    /// The least distance that it tells apart.
    #[getter]
    fn gap(&self) -> Option<f64> {
        self.0.gap()
    }

    /// The largest absolute error on the domain.
    #[getter]
    fn error(&self) -> f64 {
        self.0.error()
    }

    /// Levels from its arguments to its results.
    #[getter]
    fn levels(&self) -> usize {
        self.0.levels()
    }

    /// Products of two ciphertexts.
    #[getter]
    fn products(&self) -> usize {
        self.0.products()
    }

    /// Slots of a block.
    #[getter]
    fn period(&self) -> usize {
        self.0.period()
    }

    /// The rotations that it needs keys for, in vectors of so many slots.
    fn rotations(&self, slots: usize) -> PyResult<Vec<i64>> {
        guarded(|| Ok(self.0.rotations(slots)))
    }
}

/// The rotations that a sum over `size` slots needs.
#[pyfunction]
pub fn sum_rotations(size: usize) -> Vec<i64> {
    ckks::sum_rotations(size)
}

/// The levels that a polynomial of factor·x + offset takes.
#[pyfunction]
pub fn polynomial_levels(coefficients: Vec<f64>, factor: f64, offset: f64) -> usize {
    Operator::Polynomial { p: Chebyshev(coefficients), factor, offset }.levels()
}
