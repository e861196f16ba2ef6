//! One error type for the whole library: every error says which operation failed, what it wanted, what it got and
//! what to do about it. No secret ever enters a message.

use crate::words::shown;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

/// The details of every error: the operation, the expected value, the value that came, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detail {
    /// The operation that refused, in the words of the public interface (`"bootstrap"`, `"load"`).
    pub op: Cow<'static, str>,
    /// The need of the operation.
    pub wanted: String,
    /// The value that came instead.
    pub got: String,
    /// The remedy for the caller.
    pub remedy: String,
    /// The key or the levels that are missing, if any: a program can then state the remedy in its own words.
    pub missing: Option<Missing>,
    /// Whether the CPU does what this machine does not: a front end can then name its own option for that.
    pub cpu_can: bool,
    /// Whether the remedy is a higher limit: a front end can then name its own option for that.
    pub over_limit: bool,
    /// Whether the text names the file that it is about.
    pub names_file: bool,
}

/// Something that an operation of CKKS lacks, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// An evaluation key.
    Key(MissingKey),
    /// Levels: the operation starts at a higher level than the ciphertext has.
    Levels(MissingLevels),
}

/// The level that an operation of CKKS needs, and the lower one that its ciphertext has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingLevels {
    /// The lowest level at which the operation can start.
    pub needed: usize,
    /// The level of the ciphertext.
    pub left: usize,
}

/// An evaluation key of CKKS that an operation lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingKey {
    /// The purpose of the key.
    pub purpose: MissingPurpose,
    /// Up to which level the operation needs it.
    pub level: usize,
}

/// The purpose of a [`MissingKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingPurpose {
    /// Products of ciphertexts.
    Multiply,
    /// Complex conjugation.
    Conjugate,
    /// The rotation to the left by this number of slots.
    Rotate(usize),
    /// The switch to the ephemeral secret of a bootstrap, or back.
    Bootstrap,
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: wanted {}, got {}; {}", self.op, self.wanted, self.got, self.remedy)
    }
}

/// An error, by kind. Programs react to the kind; people read the [`Detail`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value, length, table or shape that the operation cannot take.
    #[error("bad input: {0}")]
    BadInput(Box<Detail>),
    /// A ciphertext and a key that do not belong together.
    #[error("wrong key: {0}")]
    WrongKey(Box<Detail>),
    /// Parameter sets that do not match, or a set that the operation or backend does not support.
    #[error("wrong parameters: {0}")]
    WrongParams(Box<Detail>),
    /// A parameter set below 128 bits that was not allowed by name.
    #[error("insecure parameters: {0}")]
    Insecure(Box<Detail>),
    /// A ciphertext too noisy for the operation to be right with the claimed probability.
    #[error("too much noise: {0}")]
    TooNoisy(Box<Detail>),
    /// A key, a table or a batch that does not fit the free memory.
    #[error("not enough memory: {0}")]
    Memory(Box<Detail>),
    /// A file that is truncated, altered, of another type or version, or larger than its limit.
    #[error("bad file: {0}")]
    BadFile(Box<Detail>),
    /// The operating system refused to read or write.
    #[error("input/output: {0}")]
    Io(Box<Detail>),
    /// A GPU that is not there, or does not answer any more.
    #[error("device: {0}")]
    Device(Box<Detail>),
    /// An instruction or mode that this backend does not have.
    #[error("unsupported: {0}")]
    Unsupported(Box<Detail>),
    /// The caller asked to stop; nothing was half-written.
    #[error("interrupted: {0}")]
    Interrupted(Box<Detail>),
}

/// Characters of a part of a message. A name in a file may have as many as the file.
const MOST_STATED: usize = 4000;

/// The name of a run in errors, unless the call that made it says its own by [`Error::ran_by`].
pub(crate) const RUN: &str = "run";

/// The result of every fallible call of this library.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $variant:ident),* $(,)?) => {
        impl Error {
            $($(#[$doc])*
            pub fn $name(op: impl Into<Cow<'static, str>>, wanted: impl Into<String>, got: impl Into<String>, remedy: impl Into<String>) -> Self {
                // They may quote names from a file of somebody else.
                let [wanted, got, remedy] = [wanted.into(), got.into(), remedy.into()].map(stated);
                let op = op.into();
                Error::$variant(Box::new(Detail { op, wanted, got, remedy, missing: None, cpu_can: false, over_limit: false, names_file: false }))
            })*

            /// The same error of the operation that the caller knows: a function, say, whose instructions refused.
            pub fn of(mut self, op: impl Into<Cow<'static, str>>) -> Self {
                match &mut self { $(Error::$variant(d) => d.op = op.into(),)* }
                self
            }

            /// The same error, with what is missing.
            pub(crate) fn lacking(mut self, missing: Missing) -> Self {
                match &mut self { $(Error::$variant(d) => d.missing = Some(missing),)* }
                self
            }

            /// The same error of a machine that the CPU can take the place of, as the remedy says.
            pub(crate) fn or_cpu(mut self) -> Self {
                match &mut self { $(Error::$variant(d) => d.cpu_can = true,)* }
                self
            }

            /// The same error, whose remedy is a higher limit.
            pub(crate) fn above_limit(mut self) -> Self {
                match &mut self { $(Error::$variant(d) => d.over_limit = true,)* }
                self
            }

            /// The same error, whose text names the file that it is about.
            pub(crate) fn naming_file(mut self) -> Self {
                match &mut self { $(Error::$variant(d) => d.names_file = true,)* }
                self
            }

            /// The same error, saying where: most readers do not know the name of what they read.
            pub(crate) fn at(mut self, place: &Path) -> Self {
                if !self.detail().names_file {
                    let place = place.display();
                    match &mut self { $(Error::$variant(d) => d.got = format!("{}, in {place}", d.got),)* }
                }
                self.naming_file()
            }

            /// The operation, the expected value, the value that came, and the remedy.
            pub fn detail(&self) -> &Detail {
                match self { $(Error::$variant(d) => d,)* }
            }

            /// The kind of the error as one word in snake case: `"too_noisy"`, `"bad_file"`, …
            pub fn kind(&self) -> &'static str {
                match self { $(Error::$variant(_) => stringify!($name),)* }
            }
        }
    };
}
constructors! {
    /// A value, length, table or shape that the operation cannot take.
    bad_input => BadInput,
    /// A ciphertext and a key that do not belong together.
    wrong_key => WrongKey,
    /// Parameter sets that do not match or are not supported.
    wrong_params => WrongParams,
    /// A parameter set below 128 bits that was not allowed by name.
    insecure => Insecure,
    /// A ciphertext too noisy for the operation.
    too_noisy => TooNoisy,
    /// Something that does not fit memory.
    memory => Memory,
    /// A file that cannot be trusted.
    bad_file => BadFile,
    /// A refusal of the operating system.
    io => Io,
    /// A GPU that is not there, or does not answer any more.
    device => Device,
    /// An instruction or mode that a backend does not have.
    unsupported => Unsupported,
    /// The caller asked to stop.
    interrupted => Interrupted,
}

/// A part of a message, as one line of bounded length.
fn stated(text: String) -> String {
    let mut text = shown(text);
    if let Some((end, _)) = text.char_indices().nth(MOST_STATED) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The words of the system. It does not name the end of a file, so that has words of its own.
pub(crate) fn in_words(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => "the end of the file before all of it was read".into(),
        _ => e.to_string(),
    }
}

impl Error {
    /// A ciphertext of CKKS at a level that is too low. `purpose` follows the level in the text, as in `" for degree 7"`.
    pub(crate) fn too_low(
        op: impl Into<Cow<'static, str>>,
        needed: usize,
        left: usize,
        purpose: &str,
        remedy: String,
    ) -> Self {
        let wanted = format!("a ciphertext at level {needed} or above{purpose}");
        let missing = Missing::Levels(MissingLevels { needed, left });
        Error::bad_input(op, wanted, format!("level {left}"), remedy).lacking(missing)
    }

    /// An error of a run in the name of the call that ran the program: `"bootstrap"`. Errors of anything else keep theirs.
    pub fn ran_by(self, op: impl Into<Cow<'static, str>>) -> Self {
        if self.detail().op == RUN { self.of(op) } else { self }
    }

    /// A file or folder that the operating system does not let this process read.
    pub fn unreadable(op: &'static str, path: &Path, e: &io::Error) -> Self {
        let remedy = match e.kind() {
            io::ErrorKind::NotFound => "check the name",
            io::ErrorKind::PermissionDenied => "check its permissions",
            _ => "check that it is whole and can be read",
        };
        Error::io(op, format!("to read {}", path.display()), in_words(e), remedy).naming_file()
    }

    /// An operation that its caller asked to stop.
    pub fn stopped(op: &'static str, remedy: impl Into<String>) -> Self {
        Error::interrupted(op, "to reach the end", "a request to stop before it", remedy)
    }

    /// A file or folder that the operating system does not let this process write.
    pub fn unwritable(op: &'static str, path: &Path, e: &io::Error) -> Self {
        let remedy = match e.kind() {
            io::ErrorKind::NotFound => "make its folder first",
            io::ErrorKind::PermissionDenied => "check the permissions of its folder",
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "choose another name",
            io::ErrorKind::IsADirectory => "name a file in it",
            io::ErrorKind::FileTooLarge => "raise the limit of file sizes (ulimit -f)",
            _ => "check its folder and the free space",
        };
        Error::io(op, format!("to write {}", path.display()), e.to_string(), remedy).naming_file()
    }
}
