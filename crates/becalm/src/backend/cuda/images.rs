//! The code of kernels for a device: compiled ahead and in this build, else made by NVRTC once and kept in a cache.
//!
//! The cache is a folder of cubins: `$BECALM_CACHE`, else `becalm` in `$XDG_CACHE_HOME`, else in `~/.cache`. A name is the hash
//! of sources, options and compiler: what was made for others is never found. A file ends in the hash of the code in it: what
//! is damaged is made anew.

use super::nvrtc::Nvrtc;
use crate::cipher::file::{replace, write_error};
use becalm_cuda::{Fault, Kernels, SOURCES, image, options};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes of a hash.
const HASH: usize = blake3::OUT_LEN;

/// Code that the driver loads: a cubin, or PTX that ends in 0.
pub(super) fn code(kernels: &Kernels, capability: (u32, u32)) -> Result<Vec<u8>, Fault> {
    if let Some(image) = image(kernels, capability) {
        let mut code = image.to_vec();
        code.push(0);
        return Ok(code);
    }
    let nvrtc = Nvrtc::loaded().map_err(|instead| {
        let instead = if instead.is_empty() { instead } else { format!(" ({instead})") };
        Fault::NoKernels {
            name: kernels.name(),
            got: "none in this build".to_string(),
            remedy: format!(
                "install NVRTC 13 beside becalm (`pip install nvidia-cuda-nvrtc`; from Rust name its folder in \
                 BECALM_NVRTC){instead}, use a standard set of a build with kernels, or compute on the CPU"
            ),
        }
    })?;
    let options = options(kernels, capability);
    let file = folder().map(|folder| folder.join(name(&options, nvrtc.version)));
    cached(file.as_deref(), || {
        nvrtc.compile(SOURCES, &options).map_err(|log| {
            Fault::Failed(format!("the kernels of {} do not compile: {log}", kernels.name()))
        })
    })
}

/// The image in the file, or a new one, which is then stored there.
fn cached(
    file: Option<&Path>,
    make: impl FnOnce() -> Result<Vec<u8>, Fault>,
) -> Result<Vec<u8>, Fault> {
    if let Some(code) = file.and_then(kept) {
        return Ok(code);
    }
    let code = make()?;
    // A cache that cannot be written costs the next start a second or two, and nothing else.
    if let Some(file) = file {
        _ = keep(file, &code);
    }
    Ok(code)
}

/// The code of a file, if it is there and whole.
fn kept(file: &Path) -> Option<Vec<u8>> {
    let mut code = std::fs::read(file).ok()?;
    let hash = code.split_off(code.len().checked_sub(HASH)?);
    (blake3::hash(&code).as_bytes() == &hash[..]).then_some(code)
}

/// Where compiled code is kept.
fn folder() -> Option<PathBuf> {
    folder_of(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn folder_of(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("BECALM_CACHE").or_else(|| Some(cache()?.join("becalm")))
}

/// The file of the image that these options make from the sources.
fn name(options: &[String], (major, minor): (i32, i32)) -> String {
    let mut hash = blake3::Hasher::new();
    let texts = SOURCES.iter().flat_map(|(name, text)| [*name, *text]);
    for part in texts.chain(options.iter().map(String::as_str)) {
        hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hash.update(format!("{major}.{minor}").as_bytes());
    format!("{}.cubin", hash.finalize().to_hex())
}

/// Writes a file whole or not at all.
fn keep(file: &Path, code: &[u8]) -> crate::Result<()> {
    if let Some(folder) = file.parent() {
        _ = std::fs::create_dir_all(folder);
    }
    replace(file, false, |out| {
        out.write_all(code)
            .and_then(|()| out.write_all(blake3::hash(code).as_bytes()))
            .map_err(|e| write_error(file, &e))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use becalm_cuda::{Arithmetic, RINGS, Ring, TEST_RINGS};

    #[test]
    fn the_cache_lies_where_the_system_says() {
        let with = |set: &[(&str, &str)]| {
            folder_of(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v)))
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("HOME", "/h")]), Some("/h/.cache/becalm".into()));
        let both = [("HOME", "/h"), ("XDG_CACHE_HOME", "/x")];
        assert_eq!(with(&both), Some("/x/becalm".into()));
        assert_eq!(with(&[both[0], both[1], ("BECALM_CACHE", "/b")]), Some("/b".into()));
    }

    #[test]
    fn other_options_and_compilers_have_other_files() {
        let of =
            |ring: &Ring, capability, version| name(&options(&ring.into(), capability), version);
        let one = of(&RINGS[0], (9, 0), (13, 0));
        let others = [
            of(&RINGS[1], (9, 0), (13, 0)),
            of(&RINGS[0], (8, 0), (13, 0)),
            of(&RINGS[0], (9, 0), (13, 1)),
        ];
        assert!(others.iter().all(|other| *other != one));
        assert_eq!(of(&RINGS[0], (9, 0), (13, 0)), one);
    }

    #[test]
    fn what_is_damaged_is_made_anew() {
        let folder = std::env::temp_dir().join(format!("becalm-images-{}", std::process::id()));
        let file = folder.join("a.cubin");
        let asked = |file: Option<&Path>, makes: &str| {
            let mut made = false;
            let code = cached(file, || {
                made = true;
                Ok(makes.as_bytes().to_vec())
            });
            (code.unwrap(), made)
        };
        assert_eq!(asked(Some(&file), "code"), (b"code".to_vec(), true));
        assert_eq!(asked(Some(&file), "other"), (b"code".to_vec(), false));
        let whole = std::fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        flipped[2] ^= 1;
        // Altered, cut short, shorter than a hash, empty, and longer.
        let longer = [&whole[..], b"x"].concat();
        for damaged in [&flipped[..], &whole[..whole.len() - 1], &whole[..5], &[], &longer] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(asked(Some(&file), "code"), (b"code".to_vec(), true));
            assert_eq!(std::fs::read(&file).unwrap(), whole, "it was not replaced");
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "a draft was left");
        // Where nothing can be kept all works the same.
        assert_eq!(asked(Some(&file.join("below")), "code"), (b"code".to_vec(), true));
        assert_eq!(asked(None, "code"), (b"code".to_vec(), true));
        let failing = cached(Some(&folder.join("b")), || Err(Fault::Failed("no".into())));
        assert!(matches!(&failing, Err(Fault::Failed(why)) if why.contains("no")));
        assert!(!folder.join("b").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// The architecture that the header of a cubin names; `None` for bytes that are not a cubin.
    fn architecture(code: &[u8]) -> Option<u32> {
        let flags = u32::from_le_bytes(code.get(48..52)?.try_into().ok()?);
        (code.starts_with(b"\x7fELF") && code[18..20] == [190, 0]).then_some(flags >> 8 & 0xFF)
    }

    /// The whole way. `make test` runs it where NVRTC is installed.
    #[test]
    #[ignore = "needs NVRTC: `make .venv/.cuda` installs it"]
    fn nvrtc_compiles_other_rings() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
        for python in std::fs::read_dir(root).into_iter().flatten().flatten() {
            crate::backend::look_for_nvrtc(&python.path().join("site-packages/nvidia/cu13/lib"));
        }
        let nvrtc = Nvrtc::loaded().expect("NVRTC: run `make .venv/.cuda`");
        println!("{}", crate::backend::nvrtc().unwrap());
        // Doubles for clusters, residues for GPUs that have none; not from the cache.
        let kinds = [
            (Arithmetic::Double, (9, 0)),
            (Arithmetic::Exact, (8, 6)),
            (Arithmetic::Prime, (12, 0)),
        ];
        for (arithmetic, capability) in kinds {
            let ring = TEST_RINGS.iter().find(|r| r.arithmetic == arithmetic).unwrap();
            let code = nvrtc.compile(SOURCES, &options(&ring.into(), capability)).unwrap();
            assert_eq!(architecture(&code), Some(10 * capability.0 + capability.1));
        }
        let log = nvrtc.compile(SOURCES, &["--gpu-architecture=sm_90".to_string()]).unwrap_err();
        assert!(log.contains("BECALM_"), "{log}");
    }
}
