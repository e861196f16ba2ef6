//! Constants of a program that a machine has prepared.

use std::any::Any;
use std::fmt::{Debug, Formatter};
use std::sync::Arc;

/// The matrices and plaintexts of a program in the form of one kind of machine. No key is needed for them.
#[derive(Clone)]
pub struct Constants {
    bytes: usize,
    held: Arc<dyn Any + Send + Sync>,
}

impl Constants {
    /// Constants of so many bytes.
    pub fn new(bytes: usize, held: Arc<dyn Any + Send + Sync>) -> Constants {
        Constants { bytes, held }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The constants, if they are of this type.
    pub fn held<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.held.clone().downcast().ok()
    }
}

impl Debug for Constants {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "Constants of {} bytes", self.bytes)
    }
}
