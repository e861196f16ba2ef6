//! Launches that run at once in the emulator: `emulator/registry.cpp`.

use becalm_cuda::Kernels;
use becalm_cuda::launch::Launch;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

/// The C++ side of a [`Pool`].
#[repr(C)]
struct Calls {
    _opaque: [u8; 0],
}

#[repr(C)]
struct Request {
    kernels: *const c_char,
    kernel: *const c_char,
    grid: [c_uint; 3],
    block: c_uint,
    cluster: c_uint,
    shared: usize,
    seed: u64,
    arguments: *mut *mut c_void,
    ticket: u64,
}

unsafe extern "C" {
    fn becalm_emulator_new() -> *mut Calls;
    fn becalm_emulator_drop(calls: *mut Calls);
    fn becalm_emulator_begin(calls: *mut Calls, request: *const Request) -> c_int;
    fn becalm_emulator_go(calls: *mut Calls, ticket: *mut u64) -> c_int;
    fn becalm_emulator_why(calls: *const Calls) -> *const c_char;
}

/// The state of the launches of a [`Pool`].
pub(crate) enum Outcome {
    /// None is left.
    Done,
    /// The launch of this ticket has ended.
    Ended(u64),
    /// All threads wait for what is not there; why.
    Stuck(String),
    /// A kernel has made a mistake, which.
    Failed(String),
}

/// Launches that run at once. Where all of their threads wait they stay as they are, until another one begins.
pub(crate) struct Pool {
    calls: *mut Calls,
    /// Those that have not ended: the ticket, and pointers to the arguments.
    running: Vec<(u64, Vec<*mut c_void>)>,
}

// SAFETY: nothing of a pool belongs to a thread while it does not run, and it runs behind `&mut`.
unsafe impl Send for Pool {}

impl Default for Pool {
    fn default() -> Self {
        // SAFETY: makes what `drop` destroys.
        Pool { calls: unsafe { becalm_emulator_new() }, running: vec![] }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: made by `default`, destroyed once.
        unsafe { becalm_emulator_drop(self.calls) };
    }
}

impl Pool {
    /// Whether a launch has begun that has not ended.
    pub fn busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Begins a launch, which no other that runs has the ticket of.
    ///
    /// # Errors
    /// The name that the emulator does not have.
    ///
    /// # Safety
    /// Arguments are pointers to those of the kernel, in number and type, and stay, as what these point to, until it has ended.
    pub unsafe fn begin(
        &mut self,
        kernels: &Kernels,
        launch: &Launch,
        seed: u64,
        arguments: Vec<*mut c_void>,
        ticket: u64,
    ) -> Result<(), String> {
        let (name, kernel) = (CString::new(kernels.name()), CString::new(launch.kernel));
        let (Ok(name), Ok(kernel)) = (name, kernel) else {
            return Err("a name with a zero byte".to_string());
        };
        self.running.push((ticket, arguments));
        let arguments = self.running.last_mut().map(|(_, pointers)| pointers.as_mut_ptr());
        let request = Request {
            kernels: name.as_ptr(),
            kernel: kernel.as_ptr(),
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared: launch.shared as usize,
            seed,
            arguments: arguments.unwrap_or(std::ptr::null_mut()),
            ticket,
        };
        // SAFETY: strings end in 0; the pointers are kept in `running`; the rest is promised by the caller.
        let code = unsafe { becalm_emulator_begin(self.calls, &request) };
        if code != 0 {
            self.running.pop();
        }
        match code {
            0 => Ok(()),
            1 => Err(format!("no kernels {} in the emulator", kernels.name())),
            _ => Err(format!("no kernel {} among {}", launch.kernel, kernels.name())),
        }
    }

    /// Runs launches until one has ended, or none can go on.
    pub fn go(&mut self) -> Outcome {
        let mut ticket = 0;
        // SAFETY: the pool lives; what its launches need stays, as was promised to `begin`.
        let code = unsafe { becalm_emulator_go(self.calls, &mut ticket) };
        let why = || {
            // SAFETY: a text that ends in 0 and stays until the pool is used again.
            let text = unsafe { CStr::from_ptr(becalm_emulator_why(self.calls)) };
            text.to_string_lossy().into_owned()
        };
        match code {
            0 => Outcome::Done,
            1 => {
                self.running.retain(|(running, _)| *running != ticket);
                Outcome::Ended(ticket)
            }
            2 => Outcome::Stuck(why()),
            _ => Outcome::Failed(why()),
        }
    }
}
