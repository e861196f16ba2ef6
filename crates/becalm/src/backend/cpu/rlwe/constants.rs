//! The constants of a program in the form of this processor: which matrices are kept encoded, and how memory is spent on them and on
//! keys.

use super::linear::LinearMap;
use super::plain::Plain;
use crate::cipher::CkksKeys;
use crate::ckks::{Chain, Context};
use crate::math::buffer::or_refused;
use crate::program::Constants;
use crate::program::rlwe::{CkksProgram, MapSpec};
use crate::words::megabytes;
use crate::{Error, Progress, Result};
use std::path::Path;
use std::sync::Arc;

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

/// Bytes of a matrix, encoded.
pub(super) fn encoded_bytes(chain: &Chain, map: &MapSpec) -> usize {
    map.matrix.encoded_bytes(chain, map.level)
}

/// The matrices and plaintexts of a program that are encoded; the others are when their turn comes.
pub(in crate::backend) struct Encoded {
    /// In the order of the program.
    pub(in crate::backend) maps: Vec<Option<LinearMap>>,
    /// The plaintext of a program that has one.
    pub(in crate::backend) plain: Option<Arc<Plain>>,
}

impl Encoded {
    /// Encodes matrices of at most `bytes` together, the largest first. `progress` is told of these.
    pub(super) fn of(
        context: &Context,
        program: &CkksProgram,
        bytes: usize,
        progress: Progress,
    ) -> Result<Encoded> {
        context.check_set(program.op(), program.params().name)?;
        let specs = program.maps();
        let size =
            |map: &MapSpec| if bytes == usize::MAX { 0 } else { encoded_bytes(context, map) };
        let mut sizes: Vec<(usize, usize)> =
            specs.iter().map(size).enumerate().map(|(i, s)| (s, i)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let (mut left, mut kept) = (bytes, vec![false; sizes.len()]);
        for (size, i) in sizes {
            if size <= left {
                left -= size;
                kept[i] = true;
            }
        }
        // Diagonals are counted for a matrix alone, and matrices where there are several.
        let told = |i: usize, done: usize, all: usize| match specs.len() {
            1 => progress(done, all),
            several => progress(i, several),
        };
        let encode = |(i, (map, kept)): (usize, (&MapSpec, bool))| {
            kept.then(|| encoded(context, map, &|done, all| told(i, done, all))).transpose()
        };
        let maps = || specs.iter().zip(kept).enumerate().map(encode).collect::<Result<_>>();
        Ok(Encoded { maps: or_refused(program.op(), maps)?, plain: None })
    }

    pub(super) fn bytes(&self) -> usize {
        self.maps.iter().flatten().map(LinearMap::bytes).sum()
    }

    /// As a machine hands it on.
    pub(super) fn constants(self) -> Constants {
        Constants::new(self.bytes(), Arc::new(self))
    }
}

/// A matrix of a program, encoded.
pub(in crate::backend) fn encoded(
    context: &Context,
    map: &MapSpec,
    progress: Progress,
) -> Result<LinearMap> {
    LinearMap::new(context, &map.matrix, map.level, map.baby, map.scale, progress)
}

impl Plain {
    /// The constants of a program whose only plaintext is encoded already, at the level where it is used or above.
    pub fn constants(self: &Arc<Plain>, program: &CkksProgram) -> Constants {
        let maps = program.maps().iter().map(|_| None).collect();
        Encoded { maps, plain: Some(self.clone()) }.constants()
    }
}
