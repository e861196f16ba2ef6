//! The functions that recorded instructions: errors call these instructions by the name of the function, which the user called.

use super::CkksProgram;
use crate::program::Reg;
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Which instructions a function recorded. A file has no names, so that programs which differ in them alone are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct Functions(Vec<(Range<usize>, Arc<str>)>);

impl PartialEq for Functions {
    fn eq(&self, _: &Functions) -> bool {
        true
    }
}

impl Functions {
    /// Forgets the functions of instructions that are gone.
    pub(super) fn truncate(&mut self, ops: usize) {
        self.0.retain(|(own, _)| own.end <= ops);
    }
}

impl CkksProgram {
    /// Records the instructions of a function, all or none. Errors about them, now and when they run, have its name.
    ///
    /// # Errors
    /// As `record`.
    pub fn function(
        &mut self,
        name: &str,
        record: impl FnOnce(&mut Self) -> Result<Vec<Reg>>,
    ) -> Result<Vec<Reg>> {
        let before = self.ops.len();
        let made = self.wholly(record).map_err(|e| e.of(name.to_owned()))?;
        self.functions.0.push((before..self.ops.len(), name.into()));
        Ok(made)
    }

    /// An error about an instruction, in the name of the function that recorded it.
    pub(super) fn error_at(&self, at: usize, e: Error) -> Error {
        match self.functions.0.iter().find(|(own, _)| own.contains(&at)) {
            Some((_, name)) => e.of(name.to_string()),
            None => e,
        }
    }

    /// An error about a run, in the name of the function that is all of the program.
    pub(crate) fn error_of_run(&self, e: Error) -> Error {
        match &self.functions.0[..] {
            [(own, name)] if *own == (0..self.ops.len()) && e.detail().op == self.op() => {
                e.of(name.to_string())
            }
            _ => e,
        }
    }
}
