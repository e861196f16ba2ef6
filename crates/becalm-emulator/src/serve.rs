//! How what waits on an emulated device's streams is run: one task after another, streams in any order. Kernels that wait for a
//! flag stay as they are while others run, as on a GPU.

use crate::pool::Outcome;
use crate::{Emulated, State, Task};
use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Fault, Kernels};
use std::ffi::c_void;

impl Emulated {
    /// Runs what waits: all of it, or until a number of tasks of a stream are done. After a failure nothing waits any more.
    pub(crate) fn serve(
        &self,
        state: &mut State,
        until: Option<(usize, u64)>,
    ) -> Result<(), Fault> {
        while until.is_none_or(|(stream, count)| state.streams[stream].done < count) {
            let done = match self.step(state) {
                Ok(true) => continue,
                Ok(false) => state.left(),
                Err(fault) => Err(fault),
            };
            if done.is_err() {
                state.give_up();
            }
            return done;
        }
        Ok(())
    }

    /// Runs something that waits; false if nothing can.
    pub(crate) fn step(&self, state: &mut State) -> Result<bool, Fault> {
        if state.stuck.is_none() && state.pool.busy() {
            match state.pool.go() {
                Outcome::Ended(stream) => state.end(stream as usize),
                Outcome::Stuck(why) => state.stuck = Some(why),
                Outcome::Failed(why) => return Err(Fault::Lost(format!("a kernel failed: {why}"))),
                Outcome::Done => {}
            }
            return Ok(true);
        }
        let ready = state.ready();
        if ready.is_empty() {
            return Ok(false);
        }
        let draw = state.draw();
        let stream = ready[draw as usize % ready.len()];
        match state.streams[stream].waiting.pop_front() {
            Some(Task::Launch(kernels, launch, arguments)) => {
                self.begin(state, stream, &kernels, &launch, arguments)?;
            }
            Some(task) => {
                state.perform(task)?;
                state.streams[stream].done += 1;
            }
            None => {}
        }
        // Those that wait may find what they wait for.
        state.stuck = None;
        Ok(true)
    }

    fn begin(
        &self,
        state: &mut State,
        stream: usize,
        kernels: &Kernels,
        launch: &Launch,
        arguments: Vec<Argument>,
    ) -> Result<(), Fault> {
        state.launches += 1;
        if state.launches > self.life {
            return Err(Fault::Lost("the emulated device was told to go".to_string()));
        }
        for argument in &arguments {
            // Null says that there is none.
            if let Argument::Address(at) = argument
                && *at != 0
            {
                state.find(*at, 1)?;
            }
        }
        let seed = if state.random == 0 { 0 } else { state.draw() | 1 };
        let pointers: Vec<*mut c_void> = arguments.iter().map(pointer).collect();
        // SAFETY: the caller of `launch` promised that arguments are the kernel's and its addresses valid; the stream keeps
        // the arguments until the launch has ended.
        unsafe { state.pool.begin(kernels, launch, seed, pointers, stream as u64) }
            .map_err(Fault::Failed)?;
        state.streams[stream].running = Some(arguments);
        Ok(())
    }
}

impl State {
    /// Streams whose first task may begin.
    fn ready(&self) -> Vec<usize> {
        let ready = |s: &usize| match self.streams[*s].waiting.front() {
            _ if self.streams[*s].running.is_some() => false,
            Some(Task::After(other, count)) => self.streams[*other].done >= *count,
            Some(_) => true,
            None => false,
        };
        (0..self.streams.len()).filter(ready).collect()
    }

    /// The launch that runs on a stream has ended.
    fn end(&mut self, stream: usize) {
        self.streams[stream].running = None;
        self.streams[stream].done += 1;
    }

    /// Nothing can go on: an error if something should.
    fn left(&mut self) -> Result<(), Fault> {
        if let Some(why) = self.stuck.take() {
            return Err(Fault::Lost(format!("kernels that would never end: {why}")));
        }
        if self.streams.iter().any(|s| !s.waiting.is_empty()) {
            return Err(Fault::Failed("streams that wait for each other".to_string()));
        }
        self.streams.truncate(becalm_cuda::STREAMS);
        Ok(())
    }

    /// Forgets all that waits and all that runs.
    fn give_up(&mut self) {
        self.pool = Default::default();
        self.stuck = None;
        for stream in &mut self.streams {
            stream.waiting.clear();
            stream.running = None;
            stream.done = stream.put;
        }
    }

    /// A task that is no launch.
    fn perform(&mut self, task: Task) -> Result<(), Fault> {
        match task {
            Task::Upload(to, bytes) => self.place(to, &bytes)?,
            Task::Read(to, from, bytes) => {
                let at = self.find(to, bytes as u64)?;
                // SAFETY: `find` has checked the device's side; the caller keeps the host's until it has waited.
                unsafe { at.copy_from(from as *const u8, bytes) };
            }
            Task::Write(to, from, bytes) => {
                let at = self.find(from, bytes as u64)?;
                // SAFETY: as above.
                unsafe { at.copy_to(to as *mut u8, bytes) };
            }
            Task::After(..) | Task::Launch(..) => {}
        }
        Ok(())
    }
}

/// Where the value of an argument lies.
fn pointer(argument: &Argument) -> *mut c_void {
    match argument {
        Argument::Address(x) | Argument::U64(x) => (&raw const *x).cast_mut().cast(),
        Argument::U32(x) => (&raw const *x).cast_mut().cast(),
        Argument::KeySwitch(x) => (&raw const *x).cast_mut().cast(),
    }
}
