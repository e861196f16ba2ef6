//! Files that the command writes. A file that exists is an error, before the work that the new one is for, unless `--force`
//! allows the command to overwrite it.

use crate::status::usage;
use anyhow::{Context, Result};
use becalm::Error;
use becalm::cipher::file::{Files, Kind, Part, replace, replace_all};
use std::io::Write;
use std::path::Path;

#[derive(clap::Args, Clone, Copy)]
pub struct Force {
    /// Overwrite files that exist.
    #[arg(long)]
    force: bool,
}

impl Force {
    /// Refuses a file that exists, and a folder. `-`, which is standard output, devices and pipes lose nothing and pass.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn require_new(self, path: &Path) -> Result<()> {
        if path.is_dir() {
            let got = format!("{}, which is a folder", path.display());
            return Err(Error::io("save", "the name of a file", got, "name a file in it").into());
        }
        let there = path.as_os_str() != "-" && !is_stream(path) && path.symlink_metadata().is_ok();
        if self.force || !there {
            return Ok(());
        }
        let got = format!("{}, which exists", path.display());
        let remedy = "choose another name, or pass --force to overwrite the file";
        Err(Error::io("save", "a new name", got, remedy).into())
    }

    /// [`Force::require_new`] for a result, which never replaces a key: `--force` does not mean one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn require_result(self, path: &Path) -> Result<()> {
        Kind::require_place(path, &[])?;
        self.require_new(path)
    }

    /// Refuses what [`Force::save`] would refuse after the work: a file that exists, a path in no folder, and a device. Also one file for two.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn require_files<'a, P: AsRef<Path> + ?Sized + 'a>(
        self,
        paths: impl IntoIterator<Item = &'a P>,
    ) -> Result<()> {
        let mut places = vec![];
        for path in paths.into_iter().map(AsRef::as_ref) {
            let refused = |wanted: &str, why: &str, remedy: &str| {
                let got = format!("{}, {why}", path.display());
                Err(Error::io("save", wanted, got, remedy).into())
            };
            let Some(name) = path.file_name().filter(|_| path.as_os_str() != "-") else {
                let what = if path.as_os_str() == "-" { "standard output" } else { "a folder" };
                return refused("the name of a file", &format!("which is {what}"), "name a file");
            };
            if path.is_dir() {
                return refused("the name of a file", "which is a folder", "name a file in it");
            }
            if is_stream(path) {
                let what = "which is a device, a pipe or a socket";
                return refused("the name of a file", what, "choose another name");
            }
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let Ok(folder) = folder.unwrap_or(Path::new(".")).canonicalize() else {
                return refused(
                    "a folder that exists",
                    "in no such folder",
                    "make the folder first",
                );
            };
            let place = folder.join(name);
            if places.contains(&place) {
                usage!("{} is named twice; name a file for each", path.display());
            }
            places.push(place);
            self.require_new(path)?;
        }
        Ok(())
    }

    /// Whether files that exist may be overwritten.
    pub fn allowed(self) -> bool {
        self.force
    }

    /// Files to be written as their content comes, and put in place together.
    pub fn files(self) -> Files {
        Files::new(self.force)
    }

    /// Puts files in place together: all of them or none.
    ///
    /// # Errors
    /// As [`replace_all`]: a file that another process has made since [`Force::require_new`] is an error too.
    pub fn save(self, parts: Vec<Part>) -> Result<()> {
        Ok(replace_all(parts, self.force)?)
    }
}

/// Writes a file, whole or not at all, over an old one: after [`Force::require_new`], or over the command's own. A device or
/// a pipe stays a pipe.
///
/// # Errors
/// If the file cannot be written; the error has the path.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if is_stream(path) {
        return std::fs::write(path, bytes).with_context(|| path.display().to_string());
    }
    replace(path, false, |file| {
        file.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))
    })
}

/// Whether a path names a device, a pipe or a socket.
pub fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Reads a file, which an error names once: a command may have several.
pub(crate) fn read<'a, T>(
    path: &'a Path,
    load: impl FnOnce(&'a Path) -> becalm::Result<T>,
) -> Result<T> {
    load(path).map_err(|e| {
        let said = e.detail().names_file;
        let e = anyhow::Error::from(e);
        if said { e } else { e.context(path.display().to_string()) }
    })
}

/// A file of these bytes; only its owner can read a private one.
pub fn file<'a>(path: &Path, private: bool, bytes: impl AsRef<[u8]> + Send + 'a) -> Part<'a> {
    Part::new(path, private, move |file| {
        let failed =
            |e: std::io::Error| Error::io("save", "room for the file", e.to_string(), "free some");
        file.write_all(bytes.as_ref()).map_err(failed)
    })
}
