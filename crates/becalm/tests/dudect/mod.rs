//! The instrument of `timing.rs`: Welch's t of cycle counts between classes of secrets, with a control and a planted leak.

use super::statistics::until_accepted;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

/// The bound that |t| stays below where nothing leaks.
pub const BOUND: f64 = 4.5;
/// Where the true |t| is [`BOUND`] plus this, a measured |t| exceeds [`BOUND`] with 99 %.
pub const SURE: f64 = 2.33;
/// The test gives up after so many runs in which noise of the machine spoilt the control or hid the planted leak.
pub const NOISY: usize = 6;
/// Words that the planted comparison compares, at least. Work of more than 64 times as many cycles has one word for 64 cycles: the
/// planted leak is about 2 % of it.
pub const PLANTED: usize = 4096;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Class {
    Fixed,
    Control,
    Random,
    Planted,
}

/// Cycles of the processor's clock; nanoseconds where it has none.
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__rdtscp, _mm_lfence};
        let mut core = 0;
        // SAFETY: every x86-64 processor that this library has kernels for has these instructions; they write only `core`.
        unsafe {
            _mm_lfence();
            let time = __rdtscp(&mut core);
            _mm_lfence();
            time
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// A generator of words (splitmix64), which need not be secret.
pub struct Draw(pub u64);

impl Draw {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// `out ← a` or `b`, by a mask and not by a branch.
pub fn select(out: &mut [u64], a: &[u64], b: &[u64], second: bool) {
    let mask = black_box(u64::from(second)).wrapping_neg();
    for ((x, a), b) in out.iter_mut().zip(a).zip(b) {
        *x = a ^ ((a ^ b) & mask);
    }
}

/// The distance of two samples: Welch's t, the difference of their means, and its standard error.
#[derive(Clone, Copy, Debug)]
pub struct Welch {
    pub t: f64,
    pub difference: f64,
    pub error: f64,
}

pub fn welch(a: &[f64], b: &[f64]) -> Welch {
    let moments = |x: &[f64]| {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
    };
    let ((ma, va), (mb, vb)) = (moments(a), moments(b));
    let (difference, error) = (ma - mb, (va + vb).sqrt());
    // Two equal constants do not differ.
    let t = if difference == 0.0 { 0.0 } else { difference / error };
    Welch { t, difference, error }
}

/// The largest |t| over all measurements and over those below each of 100 percentiles of both classes together: the lowest
/// 1 − 2^(−i/10) of them. Crops that leave too few measurements do not count.
pub fn largest(a: &[f64], b: &[f64]) -> Welch {
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let crop = |limit: f64| {
        let below = |x: &[f64]| x.iter().copied().filter(|v| *v <= limit).collect::<Vec<f64>>();
        (below(a), below(b))
    };
    let limits = (1..=100).map(|i| {
        let share = 1.0 - 0.5f64.powf(f64::from(i) / 10.0);
        all[((all.len() as f64 * share) as usize).min(all.len() - 1)]
    });
    let crops = limits.chain([f64::INFINITY]).map(crop);
    let enough = crops.filter(|(a, b)| a.len().min(b.len()) >= 200);
    let found = enough.map(|(a, b)| welch(&a, &b));
    found.max_by(|x, y| x.t.abs().total_cmp(&y.t.abs())).expect("more than 200 measurements")
}

/// The least difference that a run finds with 99 %, in the crop where the error of a difference is least.
pub fn power(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let errors = [0.5, 0.7, 0.9, 0.99].map(|share| {
        let limit = all[((all.len() as f64 * share) as usize).min(all.len() - 1)];
        let below = |x: &[f64]| x.iter().copied().filter(|v| *v <= limit).collect::<Vec<f64>>();
        welch(&below(a), &below(b)).error
    });
    (BOUND + SURE) * errors.into_iter().fold(f64::INFINITY, f64::min)
}

/// Measurements of the four classes.
pub struct Run {
    pub cycles: [Vec<f64>; 4],
}

impl Run {
    pub fn of(&self, class: Class) -> &[f64] {
        &self.cycles[class as usize]
    }

    pub fn median(&self) -> f64 {
        let mut all = self.of(Class::Fixed).to_vec();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }

    pub fn between(&self, a: Class, b: Class) -> Welch {
        largest(self.of(a), self.of(b))
    }
}

/// The planted leak: a comparison that ends at the first difference.
#[inline(never)]
pub fn early_exit(a: &[u64], b: &[u64]) -> bool {
    for (x, y) in a.iter().zip(b) {
        if black_box(x) != black_box(y) {
            return false;
        }
    }
    true
}

/// Measures. `prepare(random)` puts an input in its place, of the fixed secret or of a random one, with the same work for both. `timed`
/// works on the input. Before that, pairs of words are compared, with an early exit in all classes but the planted one.
pub fn run(samples: usize, mut prepare: impl FnMut(bool), mut timed: impl FnMut()) -> Run {
    let mut cycles = [const { Vec::new() }; 4];
    let mut draw = Draw(now());
    let least = (0..5).map(|_| {
        prepare(false);
        let began = now();
        timed();
        now() - began
    });
    let words = PLANTED.max(least.min().map_or(0, |cycles| cycles as usize / 64));
    let (ones, zeros) = (vec![1u64; words], vec![0u64; words]);
    let (mut left, right) = (vec![0u64; words], vec![1u64; words]);
    for i in 0..samples + samples / 20 {
        let class =
            [Class::Fixed, Class::Control, Class::Random, Class::Planted][draw.word() as usize % 4];
        prepare(class == Class::Random);
        // The words are equal for the planted class alone: only there the comparison goes on to the end.
        select(&mut left, &zeros, &ones, class == Class::Planted);
        let began = now();
        black_box(early_exit(&left, &right));
        timed();
        let took = now() - began;
        // The first runs do not count: caches and predictors are cold.
        if i >= samples / 20 {
            cycles[class as usize].push(took as f64);
        }
    }
    Run { cycles }
}

/// One measurement at a time: others would be noise.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run whose control is quiet and whose planted leak is found.
pub fn sound(name: &str, mut measure: impl FnMut() -> Run) -> Run {
    for _ in 0..NOISY {
        let run = measure();
        let (control, planted) = (
            run.between(Class::Fixed, Class::Control).t.abs(),
            run.between(Class::Fixed, Class::Planted).t.abs(),
        );
        if control < BOUND && planted >= BOUND {
            return run;
        }
        println!("{name}: control |t| {control:.1}, planted leak |t| {planted:.1}: measured again");
    }
    panic!("{name}: this machine is too noisy, or the test is at fault: {NOISY} runs in vain");
}

/// Fails for an operation whose time depends on its secret.
pub fn check(name: &str, mut measure: impl FnMut() -> Run) {
    let _alone = alone();
    let accept = |run: &Run| {
        let real = run.between(Class::Fixed, Class::Random);
        let line = format!(
            "{name}: {:.0} cycles, |t| {:.2} ({:+.0} cycles); control {:.2}, planted {:.1}; found with 99 %: {:.0} cycles",
            run.median(),
            real.t.abs(),
            real.difference,
            run.between(Class::Fixed, Class::Control).t.abs(),
            run.between(Class::Fixed, Class::Planted).t.abs(),
            power(run.of(Class::Fixed), run.of(Class::Random)),
        );
        println!("{line}");
        if real.t.abs() < BOUND { Ok(()) } else { Err(line) }
    };
    until_accepted(|| sound(name, &mut measure), accept);
}

/// The work runs on one thread of a pool of one: no other thread of the library is woken, and none is waited for.
pub fn on_one_thread(work: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work);
}
