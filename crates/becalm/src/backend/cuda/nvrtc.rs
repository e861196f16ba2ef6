//! Where NVRTC is: loaded by its path from a folder that somebody named, so that neither it nor the library beside it has to be
//! on the system's path.
//!
//! The wheel `nvidia-cuda-nvrtc` puts both into `nvidia/cu13/lib` beside the package `becalm`, which names that folder as it
//! is imported; from Rust `BECALM_NVRTC` does. Libraries are found again by their names once they are loaded: so NVRTC finds
//! its own, and the calls find NVRTC.

use cudarc::nvrtc::sys;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Folders that were named.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// Names a folder in which NVRTC may be; `$BECALM_NVRTC` is looked at before. Nothing is loaded until a ring must be compiled.
pub fn look_for_nvrtc(folder: &Path) {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(folder.to_path_buf());
}

/// One line about the compiler of rings that are in no image, if it is there: its version and, where known, its place.
pub fn nvrtc() -> Option<String> {
    let (major, minor) = version()?;
    let place = loaded().map_or("the system".to_string(), |path| path.display().to_string());
    Some(format!("NVRTC {major}.{minor} of {place}"))
}

/// The version of NVRTC, if it can be loaded.
pub(super) fn version() -> Option<(i32, i32)> {
    loaded();
    // SAFETY: loads a library by its name; asked before any other call, which would panic without it.
    if !unsafe { sys::is_culib_present() } {
        return None;
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers.
    let done = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    (done == sys::nvrtcResult::NVRTC_SUCCESS && major >= 12).then_some((major, minor))
}

/// Loads NVRTC from the first folder that has it, once; where from.
fn loaded() -> Option<&'static Path> {
    static LOADED: OnceLock<PathBuf> = OnceLock::new();
    let named = std::env::var_os("BECALM_NVRTC").map(PathBuf::from);
    let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in named.iter().chain(&*folders) {
        if LOADED.get().is_some() {
            break;
        }
        // Its own library first, which it would look for by name.
        let file = |prefix| file_of(folder, prefix);
        let (Some(own), Some(nvrtc)) = (file("libnvrtc-builtins.so"), file("libnvrtc.so")) else {
            continue;
        };
        if load(&own) && load(&nvrtc) {
            _ = LOADED.set(nvrtc);
        }
    }
    LOADED.get().map(PathBuf::as_path)
}

/// A file of a folder whose name begins so.
fn file_of(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let begins = |path: &PathBuf| path.file_name()?.to_str()?.starts_with(prefix).then_some(());
    files.filter(|path| begins(path).is_some()).min()
}

/// Loads a library for good, its names for all.
#[cfg(unix)]
fn load(path: &Path) -> bool {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: runs what NVIDIA's library does as it is loaded; the folder was named by the user or lies in their site-packages.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    library.map(std::mem::forget).is_ok()
}

#[cfg(not(unix))]
fn load(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_by_the_beginning_of_their_names() {
        let folder = std::env::temp_dir().join(format!("becalm-nvrtc-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.alt.so.13"] {
            std::fs::write(folder.join(name), b"no library").unwrap();
        }
        assert_eq!(file_of(&folder, "libnvrtc.so"), Some(folder.join("libnvrtc.so.13")));
        assert_eq!(file_of(&folder, "libcuda.so"), None);
        assert!(!load(&folder.join("libnvrtc.so.13")));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
