//! The functions that recorded instructions: errors call these instructions by the name of the function, which the user called.

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
    /// Notes the instructions of a function.
    pub(super) fn note(&mut self, own: Range<usize>, name: &str) {
        self.0.push((own, name.into()));
    }

    /// The function that recorded an instruction.
    pub(super) fn at(&self, op: usize) -> Option<&str> {
        self.0.iter().find(|(own, _)| own.contains(&op)).map(|(_, name)| &**name)
    }

    /// The function that recorded all of so many instructions.
    pub(super) fn whole(&self, ops: usize) -> Option<&str> {
        match &self.0[..] {
            [(own, name)] if *own == (0..ops) => Some(name),
            _ => None,
        }
    }

    /// Forgets the functions of instructions that are gone.
    pub(super) fn truncate(&mut self, ops: usize) {
        self.0.retain(|(own, _)| own.end <= ops);
    }
}
