//! The calls of NVRTC that the library makes: it compiles to the name of the kernels that the options describe, and the
//! emulated driver has the kernels of that.
//!
//! So that it also loads what nvcc made, `$BECALM_EMULATOR_IMAGES` names a folder of cubins by their names: an image that equals
//! one of them is of the kernels in its name.

use becalm_cuda::Kernels;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

/// The first bytes of the code that is made here.
const BEGINS: &str = "becalm kernels ";
/// NVRTC's for a program that does not compile.
const COMPILATION: c_int = 6;

/// The kernels that an image holds.
///
/// # Safety
/// The image is as long as its head says, or ends in 0.
pub(crate) unsafe fn kernels_of(image: *const u8) -> Option<Kernels> {
    // SAFETY: the first bytes of a cubin are its head; text ends in 0.
    let elf = unsafe { *image } == 0x7F;
    let name = if elf {
        // SAFETY: as promised.
        let image = unsafe { std::slice::from_raw_parts(image, length(image)) };
        named(Path::new(&std::env::var_os("BECALM_EMULATOR_IMAGES")?), image)?
    } else {
        // SAFETY: as promised.
        let text = unsafe { CStr::from_ptr(image.cast()) }.to_str().ok()?;
        text.strip_prefix(BEGINS)?.to_string()
    };
    all().find(|kernels| kernels.name() == name)
}

/// All kernels of the emulator.
fn all() -> impl Iterator<Item = Kernels> {
    Kernels::ahead().chain(Kernels::of_tests())
}

/// Bytes of a cubin: its tables of sections and of segments are its end.
unsafe fn length(image: *const u8) -> usize {
    // SAFETY: the head of an ELF file of 64 bits has 64 bytes.
    let head = unsafe { std::slice::from_raw_parts(image, 64) };
    let number = |at: usize, bytes: usize| {
        head[at..at + bytes].iter().rev().fold(0usize, |all, byte| all << 8 | usize::from(*byte))
    };
    let segments = number(32, 8) + number(54, 2) * number(56, 2);
    let sections = number(40, 8) + number(58, 2) * number(60, 2);
    segments.max(sections)
}

/// The kernels in the name of the file that equals an image.
fn named(folder: &Path, image: &[u8]) -> Option<String> {
    let files = std::fs::read_dir(folder).ok()?.flatten();
    let equal = |path: &Path| {
        // The driver does not read anything behind the tables either.
        std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(image))
    };
    let file = files.map(|file| file.path()).find(|path| equal(path))?;
    Some(file.file_name()?.to_str()?.split('.').next()?.to_string())
}

/// A program: what was made of it, and what the compiler says.
#[derive(Default)]
struct Program {
    code: Vec<u8>,
    log: Vec<u8>,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    // SAFETY: places for two numbers. A version that does not exist, so that nothing in a cache is taken for it.
    unsafe {
        major.write(13);
        minor.write(9999);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut *mut Program,
    _source: *const c_char,
    _name: *const c_char,
    _headers: c_int,
    _texts: *const *const c_char,
    _names: *const *const c_char,
) -> c_int {
    // SAFETY: a place for a handle.
    unsafe { program.write(Box::into_raw(Box::default())) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCompileProgram(
    program: *mut Program,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    // SAFETY: `count` options, each of which ends in 0; the program is alive.
    let (program, options) = unsafe {
        let text = |i| CStr::from_ptr(*options.add(i)).to_string_lossy().into_owned();
        (&mut *program, (0..count as usize).map(text).collect::<Vec<_>>())
    };
    let told = |kernels: &Kernels| {
        let wanted = |(name, value): &(&str, u32)| options.contains(&format!("-D{name}={value}"));
        kernels.macros().iter().all(wanted)
    };
    match all().find(told) {
        Some(kernels) => {
            program.code = format!("{BEGINS}{}\0", kernels.name()).into_bytes();
            0
        }
        None => {
            program.log = format!("no kernels of the emulator: {options:?}\0").into_bytes();
            COMPILATION
        }
    }
}

/// The size of one of the two.
unsafe fn size(bytes: &[u8], out: *mut usize) -> c_int {
    // SAFETY: a place for a number.
    unsafe { out.write(bytes.len()) };
    0
}

/// One of the two.
unsafe fn copy(bytes: &[u8], out: *mut c_char) -> c_int {
    // SAFETY: room for as many bytes as was said.
    unsafe { out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetCUBINSize(program: *const Program, out: *mut usize) -> c_int {
    // SAFETY: the program is alive, the place is the caller's; as for the next three.
    unsafe { size(&(*program).code, out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetCUBIN(program: *const Program, out: *mut c_char) -> c_int {
    // SAFETY: as above.
    unsafe { copy(&(*program).code, out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLogSize(program: *const Program, out: *mut usize) -> c_int {
    // SAFETY: as above.
    unsafe { size(&(*program).log, out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLog(program: *const Program, out: *mut c_char) -> c_int {
    // SAFETY: as above.
    unsafe { copy(&(*program).log, out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcDestroyProgram(program: *mut *mut Program) -> c_int {
    // SAFETY: made by `nvrtcCreateProgram`, destroyed once.
    unsafe {
        drop(Box::from_raw(*program));
        program.write(std::ptr::null_mut::<c_void>().cast());
    }
    0
}
