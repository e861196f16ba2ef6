//! Files of programs: the parameter set in the header, everything else in [postcard](https://postcard.jamesmunns.com)
//! as one tensor of bytes. A program that was read is recorded again ([`Program::validate`]).

use super::{Op, Program, Reg, RegInfo};
use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Limits, Reader, Trust, bad, read_file, require_limit,
};
use crate::params::TfheParams;
use crate::tfhe::Table;
use crate::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// Registers, instructions, tables, inputs, outputs: as they stand in the file.
type Parts = (Vec<RegInfo>, Vec<Op>, Vec<Table>, Vec<Reg>, Vec<Reg>);

impl Program {
    /// The file in memory.
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let body = self.body()?;
        self.draft(&body)?.to_bytes()
    }

    /// Writes the program to a file.
    ///
    /// # Errors
    /// [`Error::Io`]; then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let body = self.body()?;
        self.draft(&body)?.save(path.as_ref(), false)
    }

    /// A program from a file in memory, validated.
    ///
    /// # Errors
    /// [`Error::BadFile`], [`Error::WrongParams`] or
    /// [`Error::Insecure`] for anything but a program that [`Program::save`] wrote, of at most
    /// `trust.limit`/64 bytes, or that the recorder refuses.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        require_limit(bytes.len() as u64, Limits::from(trust).length())?;
        let file = Reader::open(bytes, Kind::Program)?;
        let params = claims(file.header(), trust)?;
        file.verify()?;
        let (parts, rest): (Parts, _) = postcard::take_from_bytes(file.bytes("program"))
            .map_err(|e| bad("a program in postcard", e.to_string()))?;
        if !rest.is_empty() {
            return Err(bad("nothing after the program", format!("{} bytes", rest.len())));
        }
        let (regs, ops, tables, inputs, outputs) = parts;
        let program = Program { params, regs, ops, tables, inputs, outputs };
        match program.validate() {
            Ok(()) => Ok(program),
            Err(Error::BadInput(why)) => Err(Error::BadFile(why)),
            Err(other) => Err(other),
        }
    }

    /// Reads a program from a file and validates it.
    ///
    /// # Errors
    /// As [`Program::from_bytes`], and [`Error::Io`].
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let check = |header: &Header| claims(header, trust).map(drop);
        let bytes = read_file(path.as_ref(), Limits::from(trust).length(), check)?;
        Program::from_bytes(&bytes, trust)
    }

    fn body(&self) -> Result<Vec<u8>> {
        let parts = (&self.regs, &self.ops, &self.tables, &self.inputs, &self.outputs);
        postcard::to_stdvec(&parts).map_err(|e| bad("a program that can be written", e.to_string()))
    }

    fn draft<'a>(&self, body: &'a [u8]) -> Result<Draft<'a>> {
        let draft = Draft::new(Kind::Program, &self.params)?;
        Ok(draft.tensor("program", &[body.len() as u64], Data::Bytes(body)))
    }
}

fn claims(header: &Header, trust: Trust) -> Result<Arc<TfheParams>> {
    header.require(Kind::Program)?;
    header.expect(&[("program", Dtype::U8, &[header.rows("program")])])?;
    header.params(trust)
}
