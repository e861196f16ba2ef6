//! The code of a ring for a device: compiled ahead and in this build, else made by NVRTC once and kept in a cache.
//!
//! The cache is a folder of cubins: `$BECALM_CACHE`, else `becalm` in `$XDG_CACHE_HOME`, else in `~/.cache`. A name is the hash
//! of sources, options and compiler: what was made for others is never found.

use super::nvrtc::version;
use becalm_cuda::{Fault, Ring, SOURCES, image, options};
use cudarc::nvrtc::{result, sys};
use std::ffi::{CString, c_char};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Code that the driver loads: a cubin, or PTX that ends in 0.
pub(super) fn code(ring: &Ring, capability: (u32, u32)) -> Result<Vec<u8>, Fault> {
    if let Some(image) = image(ring, capability) {
        let mut code = image.to_vec();
        code.push(0);
        return Ok(code);
    }
    let Some(version) = version() else {
        return Err(Fault::NoKernels(
            ring.name(),
            "install NVRTC 13 beside becalm (`pip install nvidia-cuda-nvrtc`; from Rust name its folder in \
             BECALM_NVRTC), use a standard set of a build with kernels, or compute with device=\"cpu\""
                .to_string(),
        ));
    };
    let options = options(ring, capability);
    let file = folder().map(|folder| folder.join(name(&options, version)));
    if let Some(code) = file.as_ref().and_then(|file| std::fs::read(file).ok()) {
        return Ok(code);
    }
    let code = compile(&options).map_err(|log| {
        let remedy = format!("report this with what the compiler says: {log}");
        Fault::NoKernels(ring.name(), remedy)
    })?;
    // A cache that cannot be written costs the next start a second or two, and nothing else.
    if let Some(file) = file {
        _ = keep(&file, &code);
    }
    Ok(code)
}

/// Where compiled code is kept.
fn folder() -> Option<PathBuf> {
    folder_of(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn folder_of(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("BECALM_CACHE").or_else(|| Some(cache()?.join("becalm")))
}

/// The file of what these options make of the sources.
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
fn keep(file: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let half = file.with_extension(format!("{}.part", std::process::id()));
    let mut out = std::fs::File::create(&half)?;
    out.write_all(code).and_then(|()| std::fs::rename(&half, file)).inspect_err(|_| {
        _ = std::fs::remove_file(&half);
    })
}

/// A cubin, or what the compiler said.
fn compile(options: &[String]) -> Result<Vec<u8>, String> {
    let texts = |texts: Vec<&str>| -> Vec<CString> {
        texts.iter().filter_map(|text| CString::new(*text).ok()).collect()
    };
    let (names, bodies) = (
        texts(SOURCES.iter().map(|s| s.0).collect()),
        texts(SOURCES.iter().map(|s| s.1).collect()),
    );
    let pointers = |all: &[CString]| -> Vec<*const c_char> {
        all[1..].iter().map(|text| text.as_ptr()).collect()
    };
    let (include_names, headers) = (pointers(&names), pointers(&bodies));
    let mut program = std::ptr::null_mut();
    // SAFETY: strings end in 0 and live through the call, which copies them; as many headers as names.
    let made = unsafe {
        sys::nvrtcCreateProgram(
            &mut program,
            bodies[0].as_ptr(),
            names[0].as_ptr(),
            headers.len() as i32,
            headers.as_ptr(),
            include_names.as_ptr(),
        )
    };
    made.result().map_err(|e| format!("{e:?}"))?;
    // SAFETY: the program was made above and is destroyed below, once.
    unsafe {
        let code = result::compile_program(program, options).map_err(|e| {
            let log = result::get_program_log(program).unwrap_or_default();
            let log: Vec<u8> = log.iter().map(|c| *c as u8).collect();
            format!("{e:?} {}", String::from_utf8_lossy(&log).trim_end_matches('\0'))
        });
        let code = code.and_then(|()| cubin(program));
        _ = result::destroy_program(program);
        code
    }
}

/// The machine code of a compiled program.
///
/// # Safety
/// The program is alive and compiled.
unsafe fn cubin(program: sys::nvrtcProgram) -> Result<Vec<u8>, String> {
    let mut size = 0;
    // SAFETY: the program is alive; writes a number.
    unsafe { sys::nvrtcGetCUBINSize(program, &mut size) }.result().map_err(|e| format!("{e:?}"))?;
    let mut code = vec![0u8; size];
    // SAFETY: as many bytes as were asked for.
    let done = unsafe { sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()) };
    done.result().map_err(|e| format!("{e:?}"))?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use becalm_cuda::{RINGS, TEST_RINGS};

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
        let of = |ring, capability, version| name(&options(ring, capability), version);
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
    fn files_are_whole() {
        let folder = std::env::temp_dir().join(format!("becalm-images-{}", std::process::id()));
        let file = folder.join("a.cubin");
        keep(&file, b"code").unwrap();
        keep(&file, b"again").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"again");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// The architecture that the header of a cubin names; `None` for what is no cubin.
    fn architecture(code: &[u8]) -> Option<u32> {
        let flags = u32::from_le_bytes(code.get(48..52)?.try_into().ok()?);
        (code.starts_with(b"\x7fELF") && code[18..20] == [190, 0]).then_some(flags >> 8 & 0xFF)
    }

    /// The whole way where NVRTC is there (`make cuda` installs it); without it, the refusal that says how to get it.
    #[test]
    fn other_rings_are_compiled_or_refused() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
        for python in std::fs::read_dir(root).into_iter().flatten().flatten() {
            crate::backend::look_for_nvrtc(&python.path().join("site-packages/nvidia/cu13/lib"));
        }
        if version().is_none() {
            let found = code(&TEST_RINGS[0], (9, 0));
            let Err(Fault::NoKernels(what, remedy)) = found else { panic!("{found:?}") };
            assert!(what == TEST_RINGS[0].name() && remedy.contains("nvidia-cuda-nvrtc"));
            println!("skipped: no NVRTC here, so only its refusal was tested");
            return;
        }
        println!("{}", crate::backend::nvrtc().unwrap());
        // Of each arithmetic, one that clusters rotate and one for a GPU that has none; not from the cache.
        for (ring, capability) in [(&TEST_RINGS[6], (9, 0)), (&TEST_RINGS[11], (8, 6))] {
            let code = compile(&options(ring, capability)).unwrap();
            assert_eq!(architecture(&code), Some(10 * capability.0 + capability.1));
        }
        let log = compile(&["--gpu-architecture=sm_90".to_string()]).unwrap_err();
        assert!(log.contains("BECALM_"), "{log}");
    }
}
