//! Puts files in place: each whole or not at all, several together. A writer that is killed leaves nothing behind.
//!
//! A file is written without a name where the system can (Linux), else under a hidden name, `.becalm-….tmp`. It gets its name
//! when it is on the disk. Its writer holds an advisory lock on it. So a hidden file without a lock belongs to a dead writer,
//! and the next writer removes it. Files that belong together get their names one after another, under a lock on these names.
//! The old companions are moved away first, so that files of two calls never lie side by side.

use super::disk::write_error;
use super::secret::require_no_secret;
use super::{Kind, hex};
use crate::math::random::PublicSeed;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time for which a process does not look through a folder again.
const SWEPT_FOR: Duration = Duration::from_secs(60);

/// A file that is being written. At a limit of the process (`ulimit -f`) the write fails, and no signal (`SIGXFSZ`) ends the process.
pub struct Output<'a> {
    file: &'a File,
    left: u64,
}

impl Output<'_> {
    fn new(file: &File) -> Output<'_> {
        #[cfg(unix)]
        let left = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        #[cfg(not(unix))]
        let left = None;
        Output { file, left: left.unwrap_or(u64::MAX) }
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        if most == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = (&mut &*self.file).write(&bytes[..most])?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the content of a file.
type Writer<'a> = Box<dyn FnOnce(&mut Output) -> Result<()> + Send + 'a>;

/// One of the files that [`replace_all`] puts in place together.
pub struct Part<'a> {
    path: PathBuf,
    private: bool,
    write: Writer<'a>,
}

impl<'a> Part<'a> {
    /// The file that `write` writes, for `path`. Only its owner can read a private one.
    pub fn new(
        path: impl Into<PathBuf>,
        private: bool,
        write: impl FnOnce(&mut Output) -> Result<()> + Send + 'a,
    ) -> Self {
        Part { path: path.into(), private, write: Box::new(write) }
    }
}

/// Puts a new file at `path` in one step: a reader of the path finds the old file or the new one, never a part. Only its owner
/// can read a private file.
///
/// # Errors
/// As `write`; [`Error::Io`] for errors of the operating system, for a device, a pipe or a socket at `path`, and for a key of
/// another kind there.
pub fn replace<E: From<Error>>(
    path: &Path,
    private: bool,
    write: impl FnOnce(&mut Output) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut pending = Pending::new(path, private)?;
    pending.fill(write)?;
    let folder = pending.folder.clone();
    pending.place()?;
    keep_names(&folder);
    Ok(())
}

/// Puts files in place that belong together, such as a secret key and the evaluation key made from it: all of them, or none
/// if one cannot be written. Calls for the same paths wait for each other, in other processes too, so the files of one call
/// stay together.
///
/// The first file is the one that cannot be made again. The old companions are removed before it is replaced, so a process that
/// is killed in between leaves the first file, old or new, without companions of another call. Without `overwrite` existing files
/// stay as they are.
///
/// # Errors
/// As the writers; [`Error::Io`] for errors of the operating system, without `overwrite` for an existing file, and always for a
/// key of another kind in the place of a file;
/// [`Error::BadInput`] for two files of one name.
pub fn replace_all(parts: Vec<Part>, overwrite: bool) -> Result<()> {
    let mut files = Files::new(overwrite);
    parts.into_iter().try_for_each(|part| files.write(part))?;
    files.place()
}

/// Files of [`replace_all`] that are written one by one, as their content comes, and put in place together.
pub struct Files {
    pending: Vec<Pending>,
    overwrite: bool,
}

impl Files {
    /// None yet. Without `overwrite` existing files stay as they are.
    pub fn new(overwrite: bool) -> Files {
        Files { pending: vec![], overwrite }
    }

    /// Writes a file to the disk, without its name. Nothing is left of it if the files are dropped.
    ///
    /// # Errors
    /// As [`replace_all`].
    pub fn write(&mut self, part: Part) -> Result<()> {
        let mut file = Pending::new(&part.path, part.private)?;
        if !self.overwrite {
            file.require_new()?;
        }
        file.fill(part.write)?;
        self.pending.push(file);
        Ok(())
    }

    /// Puts all of them in place, or none.
    ///
    /// # Errors
    /// As [`replace_all`].
    pub fn place(self) -> Result<()> {
        let Files { mut pending, overwrite } = self;
        let _turns = turns(&pending)?;
        named_all(&mut pending, overwrite)?;
        placed(pending)
    }
}

/// Gives each file a hidden name: from there on only a rename is left.
fn named_all(pending: &mut [Pending], overwrite: bool) -> Result<()> {
    for file in pending {
        if !overwrite {
            file.require_new()?;
        }
        if file.to.is_dir() {
            return Err(write_error(&file.to, &io::ErrorKind::IsADirectory.into()));
        }
        file.name()?;
    }
    Ok(())
}

/// Renames all of them.
fn placed(pending: Vec<Pending>) -> Result<()> {
    let folders: BTreeSet<PathBuf> = pending.iter().map(|file| file.folder.clone()).collect();
    let mut pending = pending.into_iter();
    let Some(first) = pending.next() else { return Ok(()) };
    let others: Vec<Pending> = pending.collect();
    let aside = others.iter().map(|file| Aside::new(file).map_err(|e| write_error(&file.to, &e)));
    let mut aside = aside.collect::<Result<Vec<_>>>()?;
    first.place()?;
    // From here on the old companions belong to no key.
    aside.iter_mut().flatten().for_each(|old| old.back = None);
    others.into_iter().try_for_each(Pending::place)?;
    drop(aside);
    folders.iter().for_each(|folder| keep_names(folder));
    Ok(())
}

/// Writes a folder to the disk: only then does a new name survive a power cut. Some file systems refuse.
fn keep_names(folder: &Path) {
    #[cfg(unix)]
    let _ = File::open(folder).and_then(|f| f.sync_all());
    #[cfg(not(unix))]
    let _ = folder;
}

/// A file that is removed when dropped, unless it got its name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Most often it was renamed and is gone. If it cannot be removed, nothing can be done.
        let _ = fs::remove_file(&self.0);
    }
}

/// A file that is not yet in its place. It is removed if it is dropped before.
struct Pending {
    to: PathBuf,
    folder: PathBuf,
    private: bool,
    /// Its hidden name, if it has one. The name is removed before the lock of the file is released.
    hidden: Option<Unfinished>,
    file: File,
}

impl Pending {
    fn new(path: &Path, private: bool) -> Result<Pending> {
        let refused = |e| write_error(path, &e);
        if path.file_name().is_none() {
            let got = format!("{}, which is a folder", path.display());
            let error = Error::io("save", "the name of a file", got, "name a file in it");
            return Err(error.naming_file());
        }
        if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            // The name would go to another file, and nothing of a device would be left.
            let wanted = format!("{} to be a file or a new name", path.display());
            let got = "a device, a pipe or a socket";
            return Err(Error::io("save", wanted, got, "save under the name of a file"));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        if !private {
            require_no_secret(path)?;
        }
        if private || due(&folder) {
            sweep(&folder);
        }
        let (file, hidden) = match unnamed(&folder, private) {
            Some(file) => (file, None),
            None => named(&folder, private).map(|(f, name)| (f, Some(name))).map_err(refused)?,
        };
        Ok(Pending { to: path.to_path_buf(), folder, private, hidden, file })
    }

    fn require_new(&self) -> Result<()> {
        if fs::symlink_metadata(&self.to).is_err() {
            return Ok(());
        }
        let got = format!("{}, which exists", self.to.display());
        Err(Error::io(
            "save",
            "a new name",
            got,
            "choose another name, or ask to overwrite the file",
        ))
    }

    /// Writes all of it to the disk.
    fn fill<E: From<Error>>(
        &mut self,
        write: impl FnOnce(&mut Output) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        write(&mut Output::new(&self.file))?;
        Ok(self.file.sync_all().map_err(|e| write_error(&self.to, &e))?)
    }

    /// The file's hidden name. Its own kind stands in it now: it replaces no key of another kind.
    fn name(&mut self) -> Result<&Path> {
        let to = self.to.clone();
        let hidden = self.hide().map_err(|e| write_error(&to, &e))?;
        Kind::require_place(&to, Kind::of(hidden).ok().as_slice())?;
        Ok(hidden)
    }

    /// Gives the file a hidden name, if it has none.
    fn hide(&mut self) -> io::Result<&Path> {
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => {
                let name = hidden_name(&self.folder)?;
                match link(&self.file, &name) {
                    Ok(()) => Unfinished(name),
                    Err(_) => self.copied()?,
                }
            }
        };
        Ok(&self.hidden.insert(hidden).0)
    }

    /// A copy under a hidden name, for file systems that make files without names and cannot name them later.
    fn copied(&mut self) -> io::Result<Unfinished> {
        let (mut copy, name) = named(&self.folder, self.private)?;
        io::Seek::rewind(&mut self.file)?;
        io::copy(&mut self.file, &mut copy)?;
        copy.sync_all()?;
        self.file = copy;
        Ok(name)
    }

    fn place(mut self) -> Result<()> {
        let to = self.to.clone();
        // A new name is given directly. A name that is taken goes to this file only by a rename.
        if self.hidden.is_some() || link(&self.file, &to).is_err() {
            fs::rename(self.name()?, &to).map_err(|e| write_error(&to, &e))?;
        }
        Ok(())
    }
}

/// An old file, moved away. When dropped it is put back, or removed if `back` is none.
struct Aside {
    hidden: PathBuf,
    back: Option<PathBuf>,
    /// Its lock shows that its writer is alive.
    _held: Option<File>,
}

impl Aside {
    fn new(new: &Pending) -> io::Result<Option<Aside>> {
        let hidden = hidden_name(&new.folder)?;
        let held = File::open(&new.to).ok().filter(|file| file.try_lock().is_ok());
        match fs::rename(&new.to, &hidden) {
            Ok(()) => Ok(Some(Aside { hidden, back: Some(new.to.clone()), _held: held })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // If this fails, the file stays under its hidden name until the next writer removes it.
        let _ = match &self.back {
            Some(back) => fs::rename(&self.hidden, back),
            None => fs::remove_file(&self.hidden),
        };
    }
}

/// The right to give a name to a file; released when dropped.
struct Turn {
    file: File,
    path: PathBuf,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Removed while it is held: a waiting process sees that it is gone and makes a new one.
        let _ = fs::remove_file(&self.path);
        // Closing alone would not release it if a forked child holds it too.
        let _ = self.file.unlock();
    }
}

/// Waits for the right to put all of these in place. Calls that share names take them in the same order.
fn turns(files: &[Pending]) -> Result<Vec<Turn>> {
    let mut names = vec![];
    for file in files {
        let refused = |e| write_error(&file.to, &e);
        let folder = fs::canonicalize(&file.folder).map_err(refused)?;
        names.extend(file.to.file_name().map(|name| folder.join(name)));
    }
    names.sort();
    if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
        let got = format!("{} twice", two[0].display());
        return Err(Error::bad_input("save", "files of different names", got, "name two files"));
    }
    let turns = names.iter().map(|name| Turn::of(name).map_err(|e| write_error(name, &e)));
    turns.filter_map(Result::transpose).collect()
}

impl Turn {
    /// Waits for the right to a name. There is none where the file system has no locks.
    fn of(name: &Path) -> io::Result<Option<Turn>> {
        let tag = blake3::hash(name.file_name().unwrap_or_default().as_encoded_bytes());
        let path = name.with_file_name(format!(".becalm-{}.lock", hex(&tag.as_bytes()[..8])));
        loop {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).open(&path)?;
            if file.lock().is_err() {
                return Ok(None);
            }
            if is_at(&file, &path) {
                return Ok(Some(Turn { file, path }));
            }
        }
    }
}

/// Whether this file has this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |found: fs::Metadata| (found.dev(), found.ino());
    let (held, there) = (file.metadata().map(number), fs::symlink_metadata(path).map(number));
    matches!((held, there), (Ok(a), Ok(b)) if a == b)
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// A hidden name that no file has yet.
fn hidden_name(folder: &Path) -> io::Result<PathBuf> {
    let tag = PublicSeed::from_system().map_err(io::Error::other)?;
    Ok(folder.join(format!(".becalm-{}.tmp", hex(&tag.0[..8]))))
}

fn is_hidden(name: &str) -> bool {
    let tag = name.strip_prefix(".becalm-").and_then(|rest| rest.strip_suffix(".tmp"));
    tag.is_some_and(|tag| super::unhex::<8>(tag).is_some())
}

/// A new file without a name, which disappears with its writer. None where the system cannot make one.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path, private: bool) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(if private { 0o600 } else { 0o666 });
    let file = options.custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32).open(folder).ok()?;
    // The lock protects it while it has a hidden name.
    let _ = file.try_lock();
    Some(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path, _: bool) -> Option<File> {
    None
}

/// Gives a new name to a file without one.
#[cfg(target_os = "linux")]
fn link(file: &File, to: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes a new, locked file under a hidden name. A private one belongs to its owner alone from the first moment.
fn named(folder: &Path, private: bool) -> io::Result<(File, Unfinished)> {
    loop {
        let name = hidden_name(folder)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        if private {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        #[cfg(not(unix))]
        let _ = private;
        let file = options.open(&name)?;
        let hidden = Unfinished(name);
        // Between these two steps another writer may have taken its writer for dead and removed it.
        if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && is_at(&file, &hidden.0) {
            return Ok((file, hidden));
        }
    }
}

/// Whether it is time to look through the folder again.
fn due(folder: &Path) -> bool {
    static SWEPT: Mutex<BTreeMap<PathBuf, Instant>> = Mutex::new(BTreeMap::new());
    // The lock is never waited for: a child that was forked while another thread held it would wait for ever.
    let Ok(mut swept) = SWEPT.try_lock() else { return false };
    let now = Instant::now();
    let last = swept.insert(folder.to_path_buf(), now);
    last.is_none_or(|last| now.duration_since(last) >= SWEPT_FOR)
}

/// Removes the hidden files of dead writers. Living writers lock theirs.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let hidden = entry.file_name().to_str().is_some_and(is_hidden);
        if !hidden || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let mut options = OpenOptions::new();
        options.write(true);
        #[cfg(unix)]
        {
            use rustix::fs::OFlags;
            use std::os::unix::fs::OpenOptionsExt;
            // A link is not followed, and a pipe not waited for, should one have taken its place meanwhile.
            options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
        }
        let path = entry.path();
        if options.open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("becalm-place-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The sweep, as systems without nameless files need it.
    #[test]
    fn only_hidden_files_of_the_dead_are_removed() {
        let folder = folder("sweep");
        let (held, living) = named(&folder, true).unwrap();
        let (dead, left) = named(&folder, true).unwrap();
        // The process ends here: its locks go, its files stay.
        std::mem::forget(left);
        drop(dead);
        let others =
            [".becalm-0123.tmp", ".becalm-0123456789abcdeg.tmp", "becalm-0123456789abcdef.tmp"];
        others.iter().for_each(|name| fs::write(folder.join(name), "mine").unwrap());
        #[cfg(unix)]
        std::os::unix::fs::symlink("nowhere", folder.join(".becalm-0123456789abcdef.tmp")).unwrap();
        assert_eq!(names(&folder).len(), 5 + usize::from(cfg!(unix)));
        sweep(&folder);
        assert_eq!(names(&folder).len(), 4 + usize::from(cfg!(unix)));
        assert!(living.0.exists(), "of a writer that lives");
        drop((living, held));
        sweep(&folder);
        assert_eq!(names(&folder).len(), 3 + usize::from(cfg!(unix)));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A file system that cannot name a nameless file gets a copy.
    #[test]
    fn a_file_that_gets_no_name_is_copied() {
        let folder = folder("copied");
        let mut file = Pending::new(&folder.join("key"), true).unwrap();
        file.fill(|out| out.write_all(b"all of it").map_err(|e| write_error(Path::new("key"), &e)))
            .unwrap();
        file.hidden = Some(file.copied().unwrap());
        file.place().unwrap();
        assert_eq!(fs::read(folder.join("key")).unwrap(), b"all of it");
        assert_eq!(names(&folder), ["key"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// At a limit of the process the file holds as much as fits. Then comes an error, and no signal.
    #[test]
    fn the_end_of_the_limit_is_an_error() {
        let folder = folder("limit");
        let (file, _hidden) = named(&folder, false).unwrap();
        let mut out = Output { file: &file, left: 5 };
        assert_eq!(out.write(b"four").unwrap(), 4);
        assert_eq!(out.write(b"four").unwrap(), 1);
        assert_eq!(out.write(b"our").unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(file.metadata().unwrap().len(), 5);
        fs::remove_dir_all(&folder).unwrap();
    }

    fn text<'a>(path: &Path, text: &'a str) -> Part<'a> {
        let to = path.to_path_buf();
        Part::new(path, false, move |out| {
            out.write_all(text.as_bytes()).map_err(|e| write_error(&to, &e))
        })
    }

    #[test]
    fn all_of_several_files_or_none() {
        let folder = folder("all");
        let [a, b] = ["a", "b"].map(|name| folder.join(name));
        let put = |words: [&str; 2], overwrite| {
            replace_all(vec![text(&a, words[0]), text(&b, words[1])], overwrite)
        };
        let read = || [&a, &b].map(|path| fs::read_to_string(path).unwrap());
        put(["1", "1"], false).unwrap();
        let refused = put(["2", "2"], false).unwrap_err();
        assert_eq!((refused.kind(), read()), ("io", ["1".into(), "1".into()]), "{refused}");
        put(["2", "2"], true).unwrap();
        assert_eq!(read(), ["2", "2"]);
        // The second cannot be written, or cannot be put in place: the first stays as it was.
        let fails = Part::new(&b, false, |_| {
            Err(write_error(Path::new("b"), &io::ErrorKind::Other.into()))
        });
        assert_eq!(replace_all(vec![text(&a, "3"), fails], true).unwrap_err().kind(), "io");
        assert_eq!(read(), ["2", "2"]);
        let folder_there = folder.join("c");
        fs::create_dir(&folder_there).unwrap();
        let refused = replace_all(vec![text(&a, "3"), text(&folder_there, "3")], true).unwrap_err();
        assert_eq!((refused.kind(), read()), ("io", ["2".into(), "2".into()]), "{refused}");
        let twice = replace_all(vec![text(&a, "3"), text(&folder.join("./a"), "4")], true);
        assert_eq!(twice.unwrap_err().kind(), "bad_input");
        assert_eq!(names(&folder), ["a", "b", "c"], "nothing else is left");
        fs::remove_dir_all(&folder).unwrap();
    }
}
