//! CKKS: the calls of a server as instructions. A call records them and runs them at once; a program keeps them.

use becalm::Result;
use becalm::ckks::{self, Chebyshev};
use becalm::program::Reg;
use becalm::program::rlwe::CkksProgram as Program;
use pyo3::prelude::*;

/// An instruction on the two registers of `args`, at the lower of their levels.
pub(crate) fn on_both(
    p: &mut Program,
    args: &[Reg],
    record: impl FnOnce(&mut Program, Reg, Reg) -> Result<Reg>,
) -> Result<Reg> {
    let both = p.aligned(args)?;
    record(p, both[0], both[1])
}

/// Σ a·b over the pairs of a first and a second half of registers.
pub(crate) fn dot(p: &mut Program, args: &[Reg]) -> Result<Reg> {
    let all = p.aligned(args)?;
    let (a, b) = all.split_at(all.len() / 2);
    p.dot(&a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>())
}

/// The rotations that a sum over `size` slots needs.
#[pyfunction]
pub fn sum_rotations(size: usize) -> Vec<i64> {
    ckks::sum_rotations(size)
}

/// The levels that a polynomial takes.
#[pyfunction]
pub fn chebyshev_depth(coefficients: Vec<f64>) -> usize {
    Chebyshev(coefficients).depth()
}

/// Rotations of one register, one after the other: a machine shares the work between them.
pub(crate) fn rotations(p: &mut Program, x: Reg, by: &[i64]) -> Result<Vec<Reg>> {
    by.iter().map(|by| p.rotate(x, *by)).collect()
}
