//! Measurements of a GPU that the kernels' design rests on: `kernels/micro.cuh` of `becalm-cuda` with clocks, and a few launches one by one
//! and as a recording.
//!
//! Figures are of the first device; each has its unit and the figure expected of an H100 before anything was measured.

use super::memory::{Block, Recording};
use super::{Cuda, launch, no_kernel, refused};
use crate::{Error, Result};
use becalm_cuda::launch::{Launch, Path};
use becalm_cuda::{Argument, Device, RINGS, Ring};
use std::sync::Arc;
use std::time::Instant;

/// A measured figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The quantity measured.
    pub what: String,
    /// How much.
    pub value: f64,
    /// The unit: `"clocks"`, `"a clock and multiprocessor"`, `"GB/s"`, `"µs"`.
    pub unit: &'static str,
    /// The figure expected of an H100 before any measurement.
    pub expected: &'static str,
}

/// The results of [`Cuda::micro`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Micro {
    /// The figures measured.
    pub figures: Vec<Figure>,
    /// The measurements that failed, and why; the rest were taken all the same.
    pub failed: Vec<String>,
}

/// The ring whose code has the microbenchmarks.
const RING: &Ring = &RINGS[1];

/// One kind of them.
type Part = fn(&Bench, &mut Vec<Figure>) -> Result<()>;

/// A device, and room for the kernels' results.
struct Bench {
    device: Arc<dyn Device>,
    out: Block,
    sums: Block,
    rounds: u32,
}

/// Threads of a launch at most.
const THREADS: u32 = 1024;
/// Launches that are measured together.
const LAUNCHES: u32 = 64;

impl Figure {
    fn of_a_launch(what: &str, seconds_of_all: f64, expected: &'static str) -> Self {
        let value = seconds_of_all / f64::from(LAUNCHES) * 1e6;
        Figure { what: what.into(), value, unit: "µs", expected }
    }
}

impl Bench {
    /// Launches, and the clocks of the slowest block.
    fn clocks(&self, shape: &Launch, more: &[Argument]) -> Result<f64> {
        let arguments: Vec<Argument> =
            [Argument::Address(self.out.at())].into_iter().chain(more.iter().copied()).collect();
        // The first run warms up.
        for _ in 0..2 {
            // SAFETY: room for a word of each block and of each thread; the rest is the caller's.
            unsafe { launch("micro", self.device.as_ref(), 0, RING, shape, &arguments)? };
        }
        let mut clocks = vec![0u64; shape.grid[0] as usize];
        self.out.download("micro", &mut [(0, bytemuck::cast_slice_mut(&mut clocks))])?;
        Ok(clocks.into_iter().max().unwrap_or(0).max(1) as f64)
    }

    fn sums(&self) -> Argument {
        Argument::Address(self.sums.at())
    }

    fn barriers(&self, figures: &mut Vec<Figure>) -> Result<()> {
        for cluster in [2, 4, 8] {
            let shape = Launch::micro_barrier(cluster, RING.threads());
            let clocks = self.clocks(&shape, &[Argument::U32(self.rounds)])?;
            figures.push(Figure {
                what: format!("barrier of a cluster of {cluster} blocks"),
                value: clocks / f64::from(self.rounds),
                unit: "clocks",
                expected: "200-300",
            });
        }
        let rounds = Argument::U32(self.rounds);
        let clocks = self.clocks(&Launch::micro_remote(), &[self.sums(), rounds])?;
        figures.push(Figure {
            what: "a load from another block's shared memory".into(),
            value: clocks / f64::from(self.rounds),
            unit: "clocks",
            expected: "about 200",
        });
        Ok(())
    }

    /// Multiply-adds that wait for each other; rates of multiply-adds, products of the tensor cores, and both at once.
    fn arithmetic(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let blocks = self.device.info().multiprocessors;
        let per_round = 8.0;
        for (kind, threads, what, expected) in [
            (0, 32, "a multiply-add that waits for another", "8 clocks or more"),
            (1, 512, "multiply-adds", "64"),
            (2, 512, "multiply-adds in products of tensor cores", "128"),
            (3, 512, "multiply-adds, half the warps by tensor cores", "between 64 and 192"),
        ] {
            let shape = Launch::micro_fp64(blocks, threads);
            let arguments = [self.sums(), Argument::U32(self.rounds), Argument::U32(kind)];
            let clocks = self.clocks(&shape, &arguments)? / f64::from(self.rounds) / per_round;
            let warps = f64::from(threads / 32);
            let (value, unit) = match kind {
                0 => (clocks, "clocks"),
                1 => (32.0 * warps / clocks, "a clock and multiprocessor"),
                2 => (256.0 * warps / clocks, "a clock and multiprocessor"),
                _ => ((32.0 + 256.0) / 2.0 * warps / clocks, "a clock and multiprocessor"),
            };
            figures.push(Figure { what: what.into(), value, unit, expected });
        }
        Ok(())
    }

    /// Bandwidth of the second-level cache, by the host's clock.
    fn cache(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let info = self.device.info();
        let bytes = info.cache / 4 / 16 * 16;
        let data = Block::new(&self.device, "micro", bytes)?;
        let zeros = vec![0u8; bytes as usize];
        data.upload("micro", 0, &zeros)?;
        let shape = Launch::micro_read(info.multiprocessors, THREADS);
        let count = Argument::U32((bytes / 16) as u32);
        let arguments =
            [self.sums(), Argument::Address(data.at()), count, Argument::U32(self.rounds)];
        self.clocks(&shape, &arguments)?;
        let all: Vec<Argument> =
            [Argument::Address(self.out.at())].into_iter().chain(arguments).collect();
        let seconds = self.seconds(|| {
            // SAFETY: room for a word of each block and thread, and `count` values of data.
            unsafe { launch("micro", self.device.as_ref(), 0, RING, &shape, &all) }
        })?;
        figures.push(Figure {
            what: format!("reading {} KB again and again", bytes >> 10),
            value: bytes as f64 * f64::from(self.rounds) / seconds / 1e9,
            unit: "GB/s",
            expected: "5000-7000",
        });
        Ok(())
    }

    /// Launches of next to nothing, one by one.
    fn launches(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let single = self.seconds(|| self.put())?;
        figures.push(Figure::of_a_launch("a launch of a stream", single, "2-3"));
        Ok(())
    }

    /// The same launches, recorded.
    fn recording(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let recording = Recording::of(&self.device, "micro", || self.put())?;
        let recorded = self.seconds(|| recording.replay("micro"))?;
        figures.push(Figure::of_a_launch("a launch of a recording", recorded, "about 1"));
        Ok(())
    }

    fn put(&self) -> Result<()> {
        let shape = Launch::micro_fp64(1, 32);
        let out = Argument::Address(self.out.at());
        let arguments = [out, self.sums(), Argument::U32(1), Argument::U32(0)];
        (0..LAUNCHES).try_for_each(|_| {
            // SAFETY: room for a word of each block and thread.
            unsafe { launch("micro", self.device.as_ref(), 0, RING, &shape, &arguments) }
        })
    }

    /// The best of three, to the end of the work.
    fn seconds(&self, work: impl Fn() -> Result<()>) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let began = Instant::now();
            work()?;
            self.device.wait().map_err(|f| refused("micro", self.device.as_ref(), f))?;
            best = best.min(began.elapsed().as_secs_f64());
        }
        Ok(best.max(1e-9))
    }
}

impl Cuda {
    /// Takes the measurements that the kernels' design rests on, on the first device: `rounds` of each loop. A failed one leaves the others.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a device without clusters or fast doubles, or without kernels.
    pub fn micro(&self, rounds: u32) -> Result<Micro> {
        let device = self.devices.first().cloned().ok_or_else(|| {
            Error::device("micro", "a GPU", "none", "look at the list of `becalm doctor`")
        })?;
        let info = device.info();
        if Launch::rotate(RING, Path::Cluster, 1).is_none()
            || !info.clusters()
            || !info.fast_doubles()
        {
            return Err(no_kernel("micro", device.as_ref(), RING));
        }
        device.prepare(&RING.into()).map_err(|f| refused("micro", device.as_ref(), f))?;
        let words = u64::from(info.multiprocessors.max(8) * THREADS);
        let out = Block::new(&device, "micro", words * 8)?;
        let sums = Block::new(&device, "micro", words * 8)?;
        let bench = Bench { device, out, sums, rounds: rounds.max(1) };
        let mut found = Micro::default();
        let parts: [Part; 5] =
            [Bench::barriers, Bench::arithmetic, Bench::cache, Bench::launches, Bench::recording];
        for part in parts {
            if let Err(e) = part(&bench, &mut found.figures) {
                found.failed.push(e.to_string());
            }
        }
        Ok(found)
    }
}
