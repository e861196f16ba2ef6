//! Signals while the command runs. Ctrl-C and the requests to end (`SIGTERM`, `SIGHUP`) ask the work to stop where nothing is lost. A
//! second one ends the process at once. A write beyond the shell's limit of file sizes (`ulimit -f`) is an error.
//!
//! The command also runs inside Python processes, as `becalm._native.main`. Afterwards every signal does there what it did before: the
//! workers of a pool are ended by `SIGTERM`, and Ctrl-C is Python's.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The signal that has asked the work to stop; 0 for none.
static STOP: AtomicI32 = AtomicI32::new(0);

/// Whether a signal has asked the work to stop.
pub(crate) fn stopped() -> bool {
    STOP.load(Ordering::Relaxed) != 0
}

/// For work that nobody follows: it stops when a signal has asked for it.
pub(crate) fn unless_stopped(_done: usize, _all: usize) -> ControlFlow<()> {
    if stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The exit status of a command that a signal has stopped.
pub(crate) fn status() -> u8 {
    128 + STOP.load(Ordering::Relaxed) as u8
}

/// The commands that run now, on whichever threads, and what the signals did before the first of them.
static LISTENING: Mutex<(usize, Option<system::Before>)> = Mutex::new((0, None));

/// Signals are caught until this is dropped.
pub(crate) struct Listening(());

impl Listening {
    /// From now on signals are caught. An earlier request to stop is forgotten: it was for an earlier command.
    pub(crate) fn start() -> Self {
        let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        if listening.0 == 0 {
            STOP.store(0, Ordering::Relaxed);
            listening.1 = Some(system::catch());
        }
        listening.0 += 1;
        Self(())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        listening.0 -= 1;
        // The last one restores, in whatever order the commands of several threads end.
        if listening.0 == 0 {
            listening.1 = None;
        }
    }
}

#[cfg(unix)]
mod system {
    use super::STOP;
    use libc::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ, c_int, sigaction};
    use std::mem::{MaybeUninit, zeroed};
    use std::sync::atomic::Ordering;

    /// The actions of signals before. They are restored when this is dropped.
    pub(super) struct Before(Vec<(c_int, sigaction)>);

    extern "C" fn stop(signal: c_int) {
        if STOP.swap(signal, Ordering::SeqCst) != 0 {
            // SAFETY: `_exit` may be called from a handler. `exit` may not: it would run the handlers of the end of the process.
            unsafe { libc::_exit(128 + signal) }
        }
    }

    /// Any handler keeps the process alive. Other programs that the command starts do not inherit it, as they would an ignored signal.
    extern "C" fn nothing(_: c_int) {}

    pub(super) fn catch() -> Before {
        let handlers: [(c_int, extern "C" fn(c_int)); 4] =
            [(SIGINT, stop), (SIGTERM, stop), (SIGHUP, stop), (SIGXFSZ, nothing)];
        let before = handlers.into_iter().filter_map(|(signal, handler)| {
            // SAFETY: a `sigaction` of zeros is one: no flags, and the default action.
            let mut action: sigaction = unsafe { zeroed() };
            action.sa_sigaction = handler as *const () as libc::sighandler_t;
            // Calls that a signal interrupts go on, and threads with a stack of their own for signals use it.
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            // SAFETY: the mask is in `action`.
            unsafe { libc::sigemptyset(&mut action.sa_mask) };
            let mut old = MaybeUninit::uninit();
            // SAFETY: both point to a `sigaction`. The handlers touch an atomic alone and call nothing but `_exit`.
            let done = unsafe { libc::sigaction(signal, &action, old.as_mut_ptr()) } == 0;
            // SAFETY: the call has written it.
            done.then(|| (signal, unsafe { old.assume_init() }))
        });
        Before(before.collect())
    }

    impl Drop for Before {
        fn drop(&mut self) {
            for (signal, action) in &self.0 {
                // SAFETY: the system wrote this action. A null pointer asks for no old one.
                unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
            }
        }
    }
}

/// Elsewhere there are no forks, and the handler stays.
#[cfg(not(unix))]
mod system {
    use super::STOP;
    use std::sync::atomic::Ordering;

    pub(super) struct Before;

    pub(super) fn catch() -> Before {
        // A second call in one process finds the handler in place.
        let _ = ctrlc::set_handler(|| {
            if STOP.swap(2, Ordering::Relaxed) != 0 {
                std::process::exit(130);
            }
        });
        Before
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::mem::zeroed;

    fn handler(signal: libc::c_int) -> libc::sighandler_t {
        // SAFETY: a null pointer asks for the action as it is, and the other points to one.
        unsafe {
            let mut now: libc::sigaction = zeroed();
            assert_eq!(libc::sigaction(signal, std::ptr::null(), &mut now), 0);
            now.sa_sigaction
        }
    }

    /// Commands of two threads overlap. Signals are caught until the last has ended, then restored, then caught again.
    #[test]
    fn signals_are_caught_while_a_command_runs() {
        let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGXFSZ];
        let before = signals.map(handler);
        for _ in 0..2 {
            let first = Listening::start();
            assert!(!stopped());
            let second = Listening::start();
            drop(first);
            assert!(signals.map(handler).iter().zip(before).all(|(now, old)| *now != old));
            // SAFETY: the handler of this signal sets a flag.
            unsafe { libc::raise(libc::SIGTERM) };
            assert!(stopped());
            drop(second);
            assert_eq!(signals.map(handler), before);
        }
    }
}
