//! The constants of a program of CKKS, encoded: residues in the order of files, which every machine can read. The CPU computes with them as
//! they are, and a GPU brings them onto its device. Which matrices stay encoded, and which programs they serve, is said here.

mod matrix;
mod plain;

pub(in crate::backend) use matrix::{Diagonal, LinearMap};
pub use plain::Plain;
pub(in crate::backend) use plain::largest;

use crate::ckks::{Chain, Context};
use crate::math::buffer::or_refused;
use crate::program::rlwe::{CkksProgram, MapSpec};
use crate::program::{Constants, Walk};
use crate::{Progress, Result};
use std::sync::Arc;

/// Bytes of a matrix, encoded.
fn encoded_bytes(chain: &Chain, map: &MapSpec) -> usize {
    map.matrix.encoded_bytes(chain, map.level)
}

/// The matrices and plaintexts of a program that are encoded; the others are when their turn comes.
pub(in crate::backend) struct Encoded {
    /// The matrices.
    specs: Vec<MapSpec>,
    /// In the same order.
    pub(in crate::backend) maps: Vec<Option<LinearMap>>,
    /// The plaintext of a program that has one.
    pub(in crate::backend) plain: Option<Arc<Plain>>,
}

impl Encoded {
    /// Encodes matrices of at most `bytes` together, the largest first. `progress` is told of these.
    pub(in crate::backend) fn of(
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
        Ok(Encoded { specs: specs.to_vec(), maps: or_refused(program.op(), maps)?, plain: None })
    }

    /// The constants that a walk of a program carries, if they are in this form and of this program.
    pub(in crate::backend) fn carried(walk: &Walk, program: &CkksProgram) -> Option<Arc<Encoded>> {
        let held = walk.constants.as_ref()?.held::<Encoded>()?;
        held.serves(program).then_some(held)
    }

    /// Whether a program has the same matrices. It may compute something else with them.
    pub(in crate::backend) fn serves(&self, program: &CkksProgram) -> bool {
        self.specs == program.maps()
    }

    /// Bytes of each matrix that is encoded when its turn comes; none of those that are kept.
    pub(in crate::backend) fn later(&self, chain: &Chain) -> Vec<usize> {
        let each = self.specs.iter().zip(&self.maps);
        each.map(|(spec, kept)| if kept.is_some() { 0 } else { encoded_bytes(chain, spec) })
            .collect()
    }

    /// The only plaintext of a program, encoded already at the level where it is used or above; its matrices are not.
    pub(in crate::backend) fn of_plain(plain: &Arc<Plain>, program: &CkksProgram) -> Encoded {
        let (specs, maps) = program.maps().iter().map(|spec| (spec.clone(), None)).unzip();
        Encoded { specs, maps, plain: Some(plain.clone()) }
    }

    /// Bytes in memory.
    pub(in crate::backend) fn bytes(&self) -> usize {
        self.maps.iter().flatten().map(LinearMap::bytes).sum()
    }

    /// As a machine hands it on.
    pub(in crate::backend) fn constants(self) -> Constants {
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
