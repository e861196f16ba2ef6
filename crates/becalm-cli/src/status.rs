//! The exit status of the command, by the kind of its error.

use crate::signals;
use std::fmt;

/// Its text in `--help`.
pub const HELP: &str = "Exit status:
  0  all results are right
  1  a result is wrong, or nothing could be measured
  2  a wrong command line
  3  an input, a key or a parameter set that does not fit
  4  a file that is missing, damaged, or cannot be written
  5  too little memory
  6  no GPU, or one that does not answer
  128 plus the number of the signal that stopped it: 130 for Ctrl-C";

/// A command line that its grammar allows and its meaning does not: options that exclude or need each other.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Returns with a [`Usage`], as `bail!` does with an error without a kind. That one is for wrong results alone.
macro_rules! usage {
    ($($text:tt)*) => { return Err($crate::status::Usage(format!($($text)*)).into()) };
}
pub(crate) use usage;

/// The exit status of an error.
pub fn of(error: &anyhow::Error) -> u8 {
    use becalm::Error;
    match error.downcast_ref() {
        Some(Error::BadInput(_) | Error::WrongParams(_) | Error::WrongKey(_)) => 3,
        Some(Error::Insecure(_) | Error::TooNoisy(_) | Error::Unsupported(_)) => 3,
        Some(Error::BadFile(_) | Error::Io(_)) => 4,
        Some(Error::Memory(_)) => 5,
        Some(Error::Device(_)) => 6,
        Some(Error::Interrupted(_)) => signals::status(),
        None if error.downcast_ref::<Usage>().is_some() => 2,
        None if error.downcast_ref::<std::io::Error>().is_some() => 4,
        _ => 1,
    }
}
