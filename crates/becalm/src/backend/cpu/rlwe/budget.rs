//! How memory is spent on the keys and the encoded matrices of programs.

use crate::cipher::CkksKeys;
use crate::ckks::{Chain, Context};
use crate::program::rlwe::CkksProgram;
use crate::words::megabytes;
use crate::{Error, Result};
use std::path::Path;

/// How memory for keys and matrices is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Bytes for encoded matrices that are kept: [`CkksSetup::within`](crate::backend::CkksSetup::within).
    pub matrices: usize,
    /// Bytes for keys that are kept ready: [`Context::ready_keys`](crate::ckks::Context::ready_keys).
    pub keys: usize,
}

impl MemoryBudget {
    /// Spends `bytes` on the keys and matrices of a program: first on those of the largest instruction, which may have to
    /// be made when its turn comes, then on matrices to be kept, then on keys. Beside these, a run takes its
    /// ciphertexts and work space.
    ///
    /// # Errors
    /// `Memory` where that is less than an instruction takes.
    pub fn of(
        chain: &Chain,
        program: &CkksProgram,
        keys: &CkksKeys,
        bytes: usize,
    ) -> Result<MemoryBudget> {
        let least = program.least_bytes(chain);
        let all = program.matrix_bytes(chain);
        if bytes >= all + chain.ready_bytes(keys) {
            return Ok(MemoryBudget { matrices: usize::MAX, keys: usize::MAX });
        }
        let Some(spare) = bytes.checked_sub(least) else {
            let room = |bytes: usize| format!("{} for keys and matrices", megabytes(bytes));
            let remedy = "allow more memory, or make keys of fewer baby steps or for more stages";
            return Err(Error::memory("bootstrap", room(least), room(bytes), remedy));
        };
        let matrices = spare.min(all);
        Ok(MemoryBudget { matrices, keys: spare - matrices })
    }

    /// The keys of a file, and the bytes of matrices beside them, within `bytes` in all for bootstraps of which any may run. With 0 bytes
    /// all stay in the file and take what a bootstrap needs.
    ///
    /// # Errors
    /// As [`Context::open_keys`], [`MemoryBudget::of`] and [`Context::ready_keys`].
    pub fn opened<'a>(
        context: &Context,
        path: &Path,
        programs: impl IntoIterator<Item = &'a CkksProgram>,
        bytes: usize,
    ) -> Result<(CkksKeys, usize)> {
        let keys = context.open_keys(path)?;
        if bytes == 0 {
            return Ok((keys, 0));
        }
        let budget = MemoryBudget::of_each(context, programs, &keys, bytes)?;
        Ok((context.ready_keys(&keys, budget.keys)?, budget.matrices))
    }

    /// [`MemoryBudget::of`] where any of these programs may run next: the least of their budgets fits each. Without programs the keys
    /// may take all.
    ///
    /// # Errors
    /// `Memory` where that is less than an instruction takes.
    pub fn of_each<'a>(
        chain: &Chain,
        programs: impl IntoIterator<Item = &'a CkksProgram>,
        keys: &CkksKeys,
        bytes: usize,
    ) -> Result<MemoryBudget> {
        let budgets =
            programs.into_iter().map(|program| MemoryBudget::of(chain, program, keys, bytes));
        let all = MemoryBudget { matrices: bytes, keys: bytes };
        let least = |a: MemoryBudget, b: MemoryBudget| MemoryBudget {
            matrices: a.matrices.min(b.matrices),
            keys: a.keys.min(b.keys),
        };
        Ok(budgets.collect::<Result<Vec<_>>>()?.into_iter().reduce(least).unwrap_or(all))
    }
}
