//! The kernels on the CPU: the same sources, compiled by the C++ compiler of the machine against `emulator/emulator.h`.

use crate::launch::Launch;
use crate::rings::Ring;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};

unsafe extern "C" {
    fn becalm_emulator_run(
        ring: *const c_char,
        kernel: *const c_char,
        grid: *const c_uint,
        block: c_uint,
        cluster: c_uint,
        shared: usize,
        seed: u64,
        arguments: *mut *mut c_void,
    ) -> c_int;
}

/// Runs a kernel of a ring: `arguments` are pointers to each argument, as the driver takes them; `seed` 0 runs threads in
/// order, else draws their order.
///
/// # Errors
/// The name that the emulator does not have.
///
/// # Safety
/// Arguments are those of the kernel, in number and type, and its pointers are valid for what it reads and writes.
pub unsafe fn run(
    ring: &Ring,
    launch: &Launch,
    seed: u64,
    arguments: &mut [*mut c_void],
) -> Result<(), String> {
    let (name, kernel) = (CString::new(ring.name()), CString::new(launch.kernel));
    let (Ok(name), Ok(kernel)) = (name, kernel) else {
        return Err("a name with a zero byte".to_string());
    };
    // SAFETY: strings end in 0, the grid has three numbers; the rest is promised by the caller.
    let code = unsafe {
        becalm_emulator_run(
            name.as_ptr(),
            kernel.as_ptr(),
            launch.grid.as_ptr(),
            launch.block,
            launch.cluster,
            launch.shared as usize,
            seed,
            arguments.as_mut_ptr(),
        )
    };
    match code {
        0 => Ok(()),
        1 => Err(format!("no ring {} in the emulator", ring.name())),
        _ => Err(format!("no kernel {} for the ring {}", launch.kernel, ring.name())),
    }
}
