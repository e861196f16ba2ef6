//! Files of CKKS programs.

use super::{CkksOp, CkksProgram, Limits, MapSpec, RlweInfo};
use crate::Result;
use crate::cipher::file::{Draft, Header, Kind, Trust, bad};
use crate::ckks::{Chain, Chebyshev};
use crate::math::complex::Complex;
use crate::program::{Graph, Reg, file};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Registers, instructions, inputs, outputs, then matrices, polynomials, plaintexts and limits.
type Parts = (
    (Vec<RlweInfo>, Vec<CkksOp>, Vec<Reg>, Vec<Reg>),
    (Vec<MapSpec>, Vec<Chebyshev>, Vec<Vec<Complex>>, Limits),
);

/// The bits of the integers of each argument, 0 for values in slots; a program without integers has no such entry.
const INTEGERS: &str = "integers";

/// The integers of the arguments, as a header states them.
fn integers(header: &Header) -> Result<Vec<Option<u32>>> {
    if !header.has(INTEGERS) {
        return Ok(vec![]);
    }
    let read = serde_json::from_str::<Vec<u32>>(header.entry(INTEGERS)?);
    let bits = read.map_err(|e| bad("a list of the bits of integers", e.to_string()))?;
    Ok(bits.into_iter().map(|b| (b > 0).then_some(b)).collect())
}

impl CkksProgram {
    /// The file in memory.
    ///
    /// # Errors
    /// `BadFile` for a set that cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        file::to_bytes(self.draft()?, &self.parts())
    }

    /// Writes the program to a file.
    ///
    /// # Errors
    /// `Io`; then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        file::save(self.draft()?, &self.parts(), path.as_ref())
    }

    /// A program from a file in memory, recorded again.
    ///
    /// # Errors
    /// `BadFile`, `WrongParams` or `Insecure` for anything but a program that [`CkksProgram::save`] wrote, of at most
    /// `trust.limit`/64 bytes, for a set of this version, or that the recorder refuses.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        let set = |header: &Header| Ok((Chain::of_header(header, trust)?, integers(header)?));
        let ((chain, bits), parts) = file::read(bytes, trust, Kind::CkksProgram, set)?;
        let ((regs, ops, inputs, outputs), (maps, polynomials, plaintexts, limits)): Parts = parts;
        let (chain, mut graph) = (Arc::new(chain), Graph { regs, ops, inputs, outputs });
        for (reg, bits) in graph.inputs.iter().zip(bits) {
            if let Some(info) = graph.regs.get_mut(reg.0 as usize) {
                info.integers = bits;
            }
        }
        let functions = super::Functions::default();
        let program =
            CkksProgram { chain, graph, maps, polynomials, plaintexts, limits, functions };
        program.recorded_again().map_err(file::refused)
    }

    /// Reads a program from a file and records it again.
    ///
    /// # Errors
    /// As [`CkksProgram::from_bytes`], and `Io`.
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let set = |header: &Header| Chain::of_header(header, trust).map(drop);
        CkksProgram::from_bytes(&file::load(path.as_ref(), trust, Kind::CkksProgram, set)?, trust)
    }

    fn draft(&self) -> Result<Draft<'static>> {
        let draft = Draft::of(Kind::CkksProgram, self.chain.row()?);
        let bits: Vec<u32> =
            self.inputs.iter().map(|r| self.reg(*r).integers.unwrap_or(0)).collect();
        if bits.iter().all(|b| *b == 0) {
            return Ok(draft);
        }
        let text =
            serde_json::to_string(&bits).map_err(|e| bad("bits of integers", e.to_string()))?;
        Ok(draft.note(INTEGERS, text))
    }

    fn parts(&self) -> impl Serialize + '_ {
        let Graph { regs, ops, inputs, outputs } = &self.graph;
        let data = (&self.maps[..], &self.polynomials[..], &self.plaintexts[..], &self.limits);
        ((regs, ops, inputs, outputs), data)
    }
}
