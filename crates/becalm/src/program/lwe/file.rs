//! Files of TFHE programs.

use super::{Op, Program, Reg, RegInfo};
use crate::Result;
use crate::cipher::file::{Draft, Header, Kind, Trust};
use crate::program::Graph;
use crate::program::file::{self, Opened, Written};
use crate::tfhe::Table;
use serde::Serialize;
use std::path::Path;

/// Registers, instructions, tables, inputs, outputs: in the order of the file.
type Parts = (Vec<RegInfo>, Vec<Op>, Vec<Table>, Vec<Reg>, Vec<Reg>);

impl Program {
    /// The file in memory.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Written::whole(&self.parts())?.to_bytes(Draft::new(Kind::Program, &self.params)?)
    }

    /// Writes the program to a file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let draft = Draft::new(Kind::Program, &self.params)?;
        Written::whole(&self.parts())?.save(draft, path.as_ref())
    }

    /// A program from a file in memory, validated.
    ///
    /// # Errors
    /// [`Error::BadFile`](crate::Error::BadFile), [`Error::WrongParams`](crate::Error::WrongParams) or
    /// [`Error::Insecure`](crate::Error::Insecure) for anything but a program that [`Program::save`] wrote, of at most
    /// `trust.limit`/64 bytes, or that the recorder refuses.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        let set = |header: &Header| header.params(trust);
        let (params, file) = Opened::new(bytes, trust, Kind::Program, set)?;
        let (regs, ops, tables, inputs, outputs): Parts = file.parts()?;
        let program = Program { params, graph: Graph { regs, ops, inputs, outputs }, tables };
        program.validate().map_err(file::refused)?;
        Ok(program)
    }

    /// Reads a program from a file and validates it.
    ///
    /// # Errors
    /// As [`Program::from_bytes`], and [`Error::Io`](crate::Error::Io).
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let set = |header: &Header| header.params(trust);
        Program::from_bytes(&file::load(path.as_ref(), trust, Kind::Program, set)?, trust)
    }

    fn parts(&self) -> impl Serialize + '_ {
        let Graph { regs, ops, inputs, outputs } = &self.graph;
        (regs, ops, &self.tables, inputs, outputs)
    }
}
