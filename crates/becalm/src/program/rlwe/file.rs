//! Files of CKKS programs. In older files the constants stand within the graph.

use super::{CkksOp, CkksProgram, Limits, MapSpec, RlweInfo};
use crate::Result;
use crate::cipher::file::{Draft, Header, Kind, Trust, bad};
use crate::ckks::{Chain, Chebyshev};
use crate::math::complex::Complex;
use crate::program::file::{self, Numbers, Opened, Written};
use crate::program::{Graph, Reg};
use std::path::Path;
use std::sync::Arc;

/// Registers, instructions, inputs, outputs.
type Parts = (Vec<RlweInfo>, Vec<CkksOp>, Vec<Reg>, Vec<Reg>);
/// Matrices, polynomials, plaintexts and limits.
type Lists = (Vec<MapSpec>, Vec<Chebyshev>, Vec<Vec<Complex>>, Limits);
/// The same without numbers: hollow matrices, the numbers of coefficients, the numbers of values.
type Hollow = (Vec<MapSpec>, Vec<usize>, Vec<usize>, Limits);

/// The next complex numbers.
fn complex(numbers: &mut Numbers, count: usize) -> Result<Vec<Complex>> {
    let parts = numbers.take(count.saturating_mul(2))?;
    let (pairs, _) = parts.as_chunks::<2>();
    Ok(pairs.iter().map(|[re, im]| Complex::new(*re, *im)).collect())
}

/// Puts the numbers into their lists, in the order in which [`CkksProgram::written`] takes them out.
fn filled((mut maps, polynomials, plaintexts, limits): Hollow, mut from: Numbers) -> Result<Lists> {
    for map in &mut maps {
        Arc::make_mut(&mut map.matrix).fill(&mut |count| complex(&mut from, count))?;
    }
    let polynomials = polynomials.into_iter().map(|count| Ok(Chebyshev(from.take(count)?)));
    let polynomials = polynomials.collect::<Result<_>>()?;
    let plaintexts = plaintexts.into_iter().map(|count| complex(&mut from, count));
    let plaintexts = plaintexts.collect::<Result<_>>()?;
    from.finish()?;
    Ok((maps, polynomials, plaintexts, limits))
}

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
        self.written()?.to_bytes(self.draft()?)
    }

    /// Writes the program to a file.
    ///
    /// # Errors
    /// `Io`; then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.written()?.save(self.draft()?, path.as_ref())
    }

    /// A program from a file in memory, recorded again.
    ///
    /// # Errors
    /// `BadFile`, `WrongParams` or `Insecure` for anything but a program that [`CkksProgram::save`] wrote, of at most
    /// `trust.limit` bytes, of which the instructions may take a 64th, for a set of this version, or that the recorder
    /// refuses; `Memory` for more numbers than there is memory.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        let set = |header: &Header| Ok((Chain::of_header(header, trust)?, integers(header)?));
        let ((chain, bits), file) = Opened::new(bytes, trust, Kind::CkksProgram, set)?;
        let ((regs, ops, inputs, outputs), lists): (Parts, Lists) = match file.numbers()? {
            None => file.parts()?,
            Some(numbers) => {
                let (graph, hollow) = file.parts::<(Parts, Hollow)>()?;
                (graph, filled(hollow, numbers)?)
            }
        };
        let (maps, polynomials, plaintexts, limits) = lists;
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

    fn written(&self) -> Result<Written> {
        let mut numbers = vec![];
        let mut take = |list: &[Complex]| {
            numbers.extend(list.iter().flat_map(|x| [x.re, x.im]).map(f64::to_bits));
        };
        let hollow =
            |map: &MapSpec| MapSpec { matrix: map.matrix.hollow(&mut take).into(), ..*map };
        let maps: Vec<MapSpec> = self.maps.iter().map(hollow).collect();
        let coefficients = self.polynomials.iter().flat_map(|p| &p.0).map(|c| c.to_bits());
        numbers.extend(coefficients);
        let values = self.plaintexts.iter().flatten().flat_map(|x| [x.re, x.im]);
        numbers.extend(values.map(f64::to_bits));
        let polynomials: Vec<usize> = self.polynomials.iter().map(|p| p.0.len()).collect();
        let plaintexts: Vec<usize> = self.plaintexts.iter().map(Vec::len).collect();
        let Graph { regs, ops, inputs, outputs } = &self.graph;
        let hollow = (&maps, &polynomials, &plaintexts, &self.limits);
        Written::apart(&((regs, ops, inputs, outputs), hollow), numbers)
    }
}
