//! NVRTC: where it is, and what it makes of sources. It is loaded by its path from a folder that was named, or by the name of
//! its version, so that no other version is ever taken and nothing of it has to be on the system's path.
//!
//! The wheel `nvidia-cuda-nvrtc` puts it and its own library into `nvidia/cu13/lib` beside the package `becalm`, which names that
//! folder as it is imported; from Rust `BECALM_NVRTC` does, and goes before. Of several folders the highest version is taken.

use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The version whose code drivers of becalm's GPUs load, and that knows all of these.
const MAJOR: u32 = 13;

/// Folders that were named.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// Names a folder in which NVRTC may be; `$BECALM_NVRTC` is looked at before. Nothing is loaded until a ring must be compiled.
pub fn look_for_nvrtc(folder: &Path) {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(folder.to_path_buf());
}

/// One line about the compiler of rings that are in no image: its version and where it is, or what is there instead of it;
/// `None` where there is nothing of the kind.
pub fn nvrtc() -> Option<String> {
    match Nvrtc::loaded() {
        Ok(Nvrtc { version: (major, minor), place, .. }) => {
            Some(format!("NVRTC {major}.{minor} of {}", place.display()))
        }
        Err(none) if none.is_empty() => None,
        Err(instead) => Some(format!("none of version {MAJOR}: {instead}")),
    }
}

/// A handle of NVRTC's.
type Program = *mut c_void;
/// The status that its calls return: 0 for success.
type Code = c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Code;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code;
type Size = unsafe extern "C" fn(Program, *mut usize) -> Code;
type Read = unsafe extern "C" fn(Program, *mut c_char) -> Code;
type Destroy = unsafe extern "C" fn(*mut Program) -> Code;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code;

/// The compiler, loaded for good.
pub(super) struct Nvrtc {
    library: Library,
    /// Major and minor.
    pub version: (i32, i32),
    place: PathBuf,
}

impl Nvrtc {
    /// The compiler, loaded when it is asked for the first time.
    ///
    /// # Errors
    /// Why a library that was found is not NVRTC; an empty string if none was found.
    pub fn loaded() -> Result<&'static Nvrtc, String> {
        static LOADED: OnceLock<Nvrtc> = OnceLock::new();
        let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = LOADED.get() {
            return Ok(found);
        }
        let named = std::env::var_os("BECALM_NVRTC").filter(|value| !value.is_empty());
        let named = named.map(PathBuf::from);
        let (places, mut instead) = places(named.as_deref(), &folders);
        for Place { own, nvrtc, .. } in places {
            // Its own library first, which it would look for by name.
            match own.iter().try_for_each(|own| open(own).map(std::mem::forget)) {
                Ok(()) => match Nvrtc::open(&nvrtc) {
                    Ok(found) => return Ok(LOADED.get_or_init(|| found)),
                    Err(why) => instead.push(why),
                },
                Err(why) => instead.push(why),
            }
        }
        match Nvrtc::open(Path::new(&format!("libnvrtc.so.{MAJOR}"))) {
            Ok(found) => Ok(LOADED.get_or_init(|| found)),
            Err(_) => Err(instead.join("; ")),
        }
    }

    fn open(path: &Path) -> Result<Nvrtc, String> {
        let library = open(path)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function of this name has this type, in every version; it writes two numbers.
        let done = unsafe {
            let version = library.get::<Version>(b"nvrtcVersion\0").map_err(|e| e.to_string())?;
            version(&mut major, &mut minor)
        };
        if done != 0 || major != MAJOR as i32 {
            return Err(format!("{} says that it is of version {major}.{minor}", path.display()));
        }
        Ok(Nvrtc { library, version: (major, minor), place: path.to_path_buf() })
    }

    fn call<T: Copy>(&self, name: &str) -> Result<T, String> {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: every caller below names the type that NVRTC documents for the name.
        let found = unsafe { self.library.get::<T>(name.as_bytes_with_nul()) };
        found.map(|function| *function).map_err(|e| e.to_string())
    }

    /// A cubin of the first of these sources, by name; the others are its headers.
    ///
    /// # Errors
    /// The compiler's log.
    pub fn compile(&self, sources: &[(&str, &str)], options: &[String]) -> Result<Vec<u8>, String> {
        let texts = |texts: Vec<&str>| -> Result<Vec<CString>, String> {
            texts.iter().map(|t| CString::new(*t).map_err(|e| e.to_string())).collect()
        };
        let names = texts(sources.iter().map(|s| s.0).collect())?;
        let bodies = texts(sources.iter().map(|s| s.1).collect())?;
        let options = texts(options.iter().map(String::as_str).collect())?;
        let pointers = |all: &[CString]| -> Vec<*const c_char> {
            all.iter().map(|text| text.as_ptr()).collect()
        };
        let (include_names, headers) = (pointers(&names[1..]), pointers(&bodies[1..]));
        let (create, compile) = (
            self.call::<Create>("nvrtcCreateProgram")?,
            self.call::<Compile>("nvrtcCompileProgram")?,
        );
        let destroy = self.call::<Destroy>("nvrtcDestroyProgram")?;
        let mut program = std::ptr::null_mut();
        // SAFETY: strings end in 0 and live through the calls, which copy them; as many headers as names; the program is
        // made here and destroyed once.
        unsafe {
            let (body, name) = (bodies[0].as_ptr(), names[0].as_ptr());
            let count = headers.len() as c_int;
            let (headers, include_names) = (headers.as_ptr(), include_names.as_ptr());
            good("create", create(&mut program, body, name, count, headers, include_names))?;
            let options = pointers(&options);
            let done = compile(program, options.len() as c_int, options.as_ptr());
            let code = match good("compile", done) {
                Ok(()) => self.read(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
                Err(e) => {
                    let log = self.read(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
                    let log = log.unwrap_or_default();
                    let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
                    Err(format!("{e} {log}"))
                }
            };
            _ = destroy(&mut program);
            code
        }
    }

    /// A text or image: one function gives its size, another writes it.
    ///
    /// # Safety
    /// The program is alive and compiled.
    unsafe fn read(&self, program: Program, size: &str, read: &str) -> Result<Vec<u8>, String> {
        let (size_of, get) = (self.call::<Size>(size)?, self.call::<Read>(read)?);
        let mut bytes = 0;
        // SAFETY: the program is alive; writes a number.
        good(size, unsafe { size_of(program, &mut bytes) })?;
        let mut out = vec![0u8; bytes];
        // SAFETY: as many bytes as were asked for.
        good(read, unsafe { get(program, out.as_mut_ptr().cast()) })?;
        Ok(out)
    }
}

fn good(what: &str, code: Code) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("NVRTC: {what}: error {code}")) }
}

/// The files of one folder: NVRTC and its own libraries.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    version: Vec<u32>,
    own: Vec<PathBuf>,
    nvrtc: PathBuf,
}

/// Where NVRTC of the wanted version is, the folder of the environment first, then the highest version; and what is there
/// instead.
fn places(named: Option<&Path>, folders: &[PathBuf]) -> (Vec<Place>, Vec<String>) {
    let mut instead = vec![];
    let mut look = |folder: &Path| {
        let all = versions(folder, "libnvrtc.so");
        let fits = |file: &&(Vec<u32>, PathBuf)| file.0.first() == Some(&MAJOR);
        let own: Vec<_> =
            versions(folder, "libnvrtc-builtins.so").into_iter().filter(|f| fits(&f)).collect();
        match (all.iter().filter(fits).max(), own.iter().max()) {
            (Some((_, nvrtc)), Some((version, _))) => Some(Place {
                version: version.clone(),
                own: own.iter().map(|f| f.1.clone()).collect(),
                nvrtc: nvrtc.clone(),
            }),
            _ => {
                instead.extend(all.iter().map(|(_, path)| format!("{} is there", path.display())));
                None
            }
        }
    };
    let first = named.and_then(&mut look);
    let mut rest: Vec<Place> = folders.iter().filter_map(|folder| look(folder)).collect();
    // Stable: of equals the one that was named first.
    rest.sort_by(|a, b| b.version.cmp(&a.version));
    if let (Some(named), None) = (named, &first) {
        instead.push(format!("BECALM_NVRTC names {}, which has none", named.display()));
    }
    (first.into_iter().chain(rest).collect(), instead)
}

/// The files of a folder whose names begin with the prefix, and the version in each name; a link has the version of its file.
fn versions(folder: &Path, prefix: &str) -> Vec<(Vec<u32>, PathBuf)> {
    let of = |path: &Path| -> Option<Vec<u32>> {
        let rest = path.file_name()?.to_str()?.strip_prefix(prefix)?;
        rest.split('.').filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let mut found: Vec<(Vec<u32>, PathBuf)> = files
        .filter_map(|path| {
            let version = of(&path)?;
            let behind = || of(&path.canonicalize().ok()?);
            let version = if version.is_empty() { behind().unwrap_or_default() } else { version };
            Some((version, path))
        })
        .collect();
    found.sort();
    found
}

/// Loads a library, its names for all.
#[cfg(unix)]
fn open(path: &Path) -> Result<Library, String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: runs what NVIDIA's library does as it is loaded; the folder was named by the user or lies in their site-packages.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    library.map(Into::into).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(not(unix))]
fn open(path: &Path) -> Result<Library, String> {
    Err(format!("{}: NVRTC is not loaded on this system", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_version_is_taken_wherever_it_lies() {
        let root = std::env::temp_dir().join(format!("becalm-nvrtc-{}", std::process::id()));
        let folder = |name: &str, files: &[&str]| {
            let folder = root.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|f| std::fs::write(folder.join(f), b"no library").unwrap());
            folder
        };
        let old = folder("cu12", &["libnvrtc.so.12", "libnvrtc-builtins.so.12.8"]);
        let both = ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.alt.so.13"];
        let mixed = folder("cu13", &[&both[..], &["libnvrtc-builtins.so.13.0"]].concat());
        let new = folder("other", &["libnvrtc.so.13", "libnvrtc-builtins.so.13.10"]);
        let half = folder("half", &["libnvrtc.so.13"]);
        let next = folder("cu14", &["libnvrtc.so.14", "libnvrtc-builtins.so.14.0"]);
        let all = [old.clone(), next, mixed.clone(), half, new.clone()];
        let files =
            |places: &[Place]| -> Vec<PathBuf> { places.iter().map(|p| p.nvrtc.clone()).collect() };
        let (found, instead) = places(None, &all);
        // 13.10 is after 13.0, and neither 12 nor 14 is asked.
        assert_eq!(files(&found), [new.join("libnvrtc.so.13"), mixed.join("libnvrtc.so.13")]);
        assert_eq!(instead.len(), 3, "{instead:?}");
        let backwards: Vec<PathBuf> = all.iter().rev().cloned().collect();
        assert_eq!(places(None, &backwards).0, found);
        // The folder of the environment goes before, and is missed where it has none.
        assert_eq!(files(&places(Some(&mixed), &all).0)[0], mixed.join("libnvrtc.so.13"));
        let (found, instead) = places(Some(&old), &[]);
        assert!(found.is_empty() && instead.len() == 2, "{instead:?}");
        assert!(instead[1].contains("BECALM_NVRTC") && instead[0].contains("libnvrtc.so.12"));
        let file = new.join("libnvrtc.so.13");
        let why = Nvrtc::open(&file).map(|_| ()).unwrap_err();
        assert!(why.contains(&file.display().to_string()), "{why}");
        std::fs::remove_dir_all(root).unwrap();
    }
}
