//! The kernels of `emulator/trials.cuh`: what lands late, kernels that wait for each other, and what the emulator says of mistakes.

use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Device, Fault, TEST_RINGS};
use becalm_emulator::Emulated;

const SEEDS: [u64; 6] = [0, 1, 2, 3, 4, 5];
/// `SLOT` of the kernels.
const SLOT: usize = 64;

fn shape(kernel: &'static str, grid: u32, block: u32, cluster: u32, shared: u32) -> Launch {
    Launch { kernel, grid: [grid, 1, 1], block, cluster, shared, at_once: false }
}

/// An emulated device and its memory.
struct Bench(Emulated);

impl Bench {
    fn new(seed: u64) -> Self {
        Bench(Emulated::new(seed))
    }

    /// Memory with these words.
    fn put(&self, words: &[u64]) -> Argument {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = self.0.allocate(bytes.len() as u64).unwrap();
        // SAFETY: just allocated.
        unsafe { self.0.upload(at, &bytes) }.unwrap();
        Argument::Address(at)
    }

    fn doubles(&self, values: &[f64]) -> Argument {
        self.put(&values.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    }

    fn clear(&self, words: usize) -> Argument {
        self.put(&vec![0; words])
    }

    /// Puts a kernel on a stream.
    fn launch(&self, stream: usize, launch: &Launch, arguments: &[Argument]) {
        // SAFETY: each test passes what its kernel takes.
        unsafe { self.0.launch(stream, &TEST_RINGS[0].into(), launch, arguments) }.unwrap();
    }

    /// The words there, after all work.
    fn words(&self, at: Argument, count: usize) -> Result<Vec<u64>, Fault> {
        let Argument::Address(at) = at else { panic!("{at:?}") };
        let mut bytes = vec![0; 8 * count];
        // SAFETY: allocated for so many words.
        unsafe { self.0.download(&mut [(at, &mut bytes)]) }?;
        let word = |b: &[u8]| b.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        Ok(bytes.chunks(8).map(word).collect())
    }

    fn values(&self, at: Argument, count: usize) -> Vec<f64> {
        self.words(at, count).unwrap().into_iter().map(f64::from_bits).collect()
    }
}

/// Small integers, of which sums are exact.
fn numbers(count: usize) -> Vec<f64> {
    (0..count as u64).map(|i| (i * 2_654_435_761 % 1009) as f64).collect()
}

#[test]
fn copies_go_through_a_ring() {
    let count = 11;
    let input = numbers(count * 64);
    let wanted: Vec<f64> = (0..32)
        .map(|lane| (0..count).map(|i| i * 64 + 2 * lane).map(|i| input[i] + input[i + 1]).sum())
        .collect();
    for seed in SEEDS {
        let bench = Bench::new(seed);
        let (out, data) = (bench.clear(32), bench.doubles(&input));
        let launch = shape("becalm_try_ring", 1, 64, 1, 3 * (32 * 16 + 16));
        bench.launch(0, &launch, &[out, data, Argument::U32(count as u32)]);
        assert_eq!(bench.values(out, 32), wanted, "seed {seed}");
    }
}

/// What `blocks` blocks have after some rounds.
fn exchanged(blocks: u32, rounds: u32) -> Vec<f64> {
    let mut values: Vec<f64> = (0..blocks).map(f64::from).collect();
    for _ in 0..rounds {
        let sum = |rank| {
            let terms = values.iter().enumerate();
            terms.fold(0.0, |sum, (b, x)| sum + ((b as f64 + 1.0) * x + 1.0)) / 1024.0
                + f64::from(rank)
        };
        let next = (0..blocks).map(sum).collect();
        values = next;
    }
    values
}

#[test]
fn blocks_of_a_large_cluster_send_to_all() {
    for (blocks, rounds) in [(16, 50), (3, 7)] {
        let wanted = exchanged(blocks, rounds);
        for (kernel, boxes) in [("becalm_try_all_to_all", 1), ("becalm_try_exchange", 2)] {
            for seed in SEEDS {
                let bench = Bench::new(seed);
                let out = bench.clear(16);
                let shared = boxes * (blocks * 16 + 8);
                let launch = shape(kernel, blocks, 32, blocks, shared);
                bench.launch(0, &launch, &[out, Argument::U32(rounds)]);
                let found = bench.values(out, blocks as usize);
                assert_eq!(found, wanted, "{kernel}, {blocks} blocks, seed {seed}");
            }
        }
    }
}

/// A producer and a consumer of some channels, and where the sums come.
struct Channels {
    count: u32,
    blocks: u32,
    produce: [Argument; 4],
    consume: [Argument; 4],
    wanted: Vec<f64>,
}

impl Channels {
    fn new(bench: &Bench, blocks: u32, count: u32) -> Self {
        let input = numbers((blocks * count) as usize * SLOT * 2);
        let (data, slots) = (bench.doubles(&input), bench.clear((blocks * 2) as usize * SLOT * 2));
        let flags = bench.clear(blocks as usize);
        let out = bench.clear(blocks as usize * SLOT);
        let sum = |block: usize, thread: usize| {
            let slots = (0..count as usize).map(|i| (block * count as usize + i) * SLOT + thread);
            slots.map(|at| input[2 * at] + input[2 * at + 1]).sum()
        };
        let all = (0..blocks as usize).flat_map(|b| (0..SLOT).map(move |t| (b, t)));
        let wanted = all.map(|(block, thread)| sum(block, thread)).collect();
        let n = Argument::U32(count);
        let (produce, consume) = ([slots, flags, data, n], [out, slots, flags, n]);
        Channels { count, blocks, produce, consume, wanted }
    }

    /// One on each stream; flags are of one run alone.
    fn put(&self, bench: &Bench, producer: usize) {
        let shared = SLOT as u32 * 16 + 8;
        bench.launch(
            1 - producer,
            &shape("becalm_try_consume", self.blocks, SLOT as u32, 1, shared),
            &self.consume,
        );
        bench.launch(
            producer,
            &shape("becalm_try_produce", self.blocks, SLOT as u32, 1, 0),
            &self.produce,
        );
    }

    fn sums(&self, bench: &Bench) -> Vec<f64> {
        bench.values(self.consume[0], self.wanted.len())
    }
}

#[test]
fn kernels_on_two_streams_wait_for_each_other() {
    for seed in SEEDS {
        for producer in 0..2 {
            let bench = Bench::new(seed);
            let channels = Channels::new(&bench, 3, 9);
            bench.0.follow(1, 0).unwrap();
            channels.put(&bench, producer);
            assert_eq!(channels.sums(&bench), channels.wanted, "seed {seed}");
        }
    }
}

#[test]
fn kernels_of_a_recording_wait_for_each_other() {
    for seed in SEEDS {
        let bench = Bench::new(seed);
        let warm = Channels::new(&bench, 1, 3);
        bench.0.follow(1, 0).unwrap();
        warm.put(&bench, 1);
        assert_eq!(warm.sums(&bench), warm.wanted);
        let channels = Channels::new(&bench, 2, 9);
        let Argument::Address(flags) = channels.produce[1] else { panic!("flags") };
        bench.0.record().unwrap();
        channels.put(&bench, 1);
        let recording = bench.0.recorded().unwrap();
        for _ in 0..3 {
            // SAFETY: the flags of two channels; the recording's arguments are its kernels'.
            unsafe {
                bench.0.upload(flags, &[0; 16]).unwrap();
                bench.0.replay(recording).unwrap();
            }
            assert_eq!(channels.sums(&bench), channels.wanted, "seed {seed}");
        }
        assert_eq!(channels.count, 9);
    }
}

/// The host waits for something else while kernels wait for what it has not put yet.
#[test]
fn a_kernel_waits_until_what_it_waits_for_is_put() {
    for seed in SEEDS {
        let bench = Bench::new(seed);
        let (out, flag) = (bench.clear(4), bench.clear(1));
        let poll = shape("becalm_try_poll", 1, 1, 1, 0);
        let chain = shape("becalm_try_chain", 1, 1, 1, 0);
        let other = bench.clear(4);
        bench.0.follow(1, 0).unwrap();
        bench.launch(1, &poll, &[out, flag, Argument::U32(1)]);
        bench.launch(0, &chain, &[other, flag, Argument::U32(0)]);
        assert_eq!(bench.words(out, 1).unwrap(), [1], "seed {seed}");
    }
}

#[test]
fn blocks_of_a_launch_wait_for_later_ones() {
    for seed in SEEDS {
        let bench = Bench::new(seed);
        let (out, flags) = (bench.clear(5), bench.clear(5));
        bench.launch(0, &shape("becalm_try_chain", 5, 1, 1, 0), &[out, flags, Argument::U32(4)]);
        assert_eq!(bench.words(out, 5).unwrap(), [4, 3, 2, 1, 0]);
    }
}

#[test]
fn a_flag_that_nobody_raises_is_named() {
    for seed in SEEDS {
        let bench = Bench::new(seed);
        let (out, flags) = (bench.clear(5), bench.clear(5));
        bench.launch(0, &shape("becalm_try_chain", 3, 1, 1, 0), &[out, flags, Argument::U32(9)]);
        let refusal = bench.0.wait().unwrap_err();
        let Fault::Lost(why) = refusal else { panic!("{refusal:?}") };
        assert!(why.contains("waits for a flag that nobody raises"), "{why}");
        // Nothing is left of it.
        bench.launch(0, &shape("becalm_try_chain", 3, 1, 1, 0), &[out, flags, Argument::U32(2)]);
        assert_eq!(bench.words(out, 3).unwrap(), [2, 1, 0]);
    }
}

#[test]
fn products_of_16_rows() {
    let number = |i: usize| (i * i % 97) as f64 / 7.0 - 5.0;
    let values = |from: usize, count: usize| (from..from + count).map(number).collect::<Vec<_>>();
    let (a, b, mut d) = (values(1, 64), values(200, 32), values(400, 130));
    let bench = Bench::new(3);
    let place = bench.doubles(&d);
    bench.launch(
        0,
        &shape("becalm_try_multiply", 1, 32, 1, 0),
        &[place, bench.doubles(&a), bench.doubles(&b)],
    );
    for row in 0..16 {
        for column in 0..8 {
            let sum = &mut d[row * 8 + column];
            *sum = (0..4).fold(*sum, |sum, k| a[row * 4 + k].mul_add(b[k * 8 + column], sum));
        }
    }
    (d[128], d[129]) = (f64::from(a[0].to_bits() as u32), a[0]);
    assert_eq!(bench.values(place, 130), d);
}

#[test]
fn mistakes_are_named() {
    let wanted = [
        "not initialised",
        "phase of an mbarrier that does not end",
        "under way",
        "more arrivals",
        "not aligned",
        "later phase",
        "different blocks",
    ];
    for (which, wanted) in wanted.iter().enumerate() {
        let bench = Bench::new(0);
        let out = bench.clear(8);
        let launch = shape("becalm_try_mistake", 2, 32, 2, 64);
        bench.launch(0, &launch, &[out, Argument::U32(which as u32)]);
        let refusal = bench.0.wait().unwrap_err();
        let Fault::Lost(why) = refusal else { panic!("{refusal:?}") };
        assert!(why.contains(wanted), "{which}: {why}");
    }
}
