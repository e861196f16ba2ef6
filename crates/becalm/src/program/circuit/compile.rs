//! From a covered circuit to a program: a lookup is a linear combination and a bootstrap, and no more is kept than outputs need.

use super::abc::{self, Budget, Rewriting};
use super::candidates::Goal;
use super::portfolio::best;
use super::rotations::{Lookup, Source};
use super::weights::Room;
use super::{Circuit, Port, ROOM, Wire};
use crate::cipher::Encoding;
use crate::math::Modulus;
use crate::math::memory::require_for_threads;
use crate::math::threads;
use crate::params::TfheParams;
use crate::program::{Program, Reg};
use crate::progress::tell;
use crate::tfhe::{Table, noise};
use crate::{Error, Progress, Result, UNWATCHED};
use std::collections::HashMap;
use std::sync::Arc;

/// The least noise, in outputs of bootstraps, that covers are searched for: that of a gate of two inputs.
const LEAST_NORM: i64 = 5;

/// Bytes of memory that compiling takes for each gate, without ABC: measured for gates of near ones, on eight threads.
const NEEDED: u64 = 20 << 10;
/// Bytes more for each gate and thread with ABC, measured with two and eight threads: threads cover circuits of ABC's side by side.
const OF_ABC: u64 = 5 << 10;
/// Threads that this makes a difference for, at most.
const MOST: usize = 24;
/// Bytes that compiling takes for any circuit.
const BASE: u64 = 16 << 20;
/// Compiling may take so many times the memory that reading may.
const TIMES: u64 = 4;

/// A circuit as a program: an argument and a result for each bit, ports in order, least significant bit first.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The program. Bits are values 0 and 1 of the set's own encoding.
    pub program: Program,
    /// Ports of the arguments.
    pub inputs: Vec<Port>,
    /// Ports of the results.
    pub outputs: Vec<Port>,
    /// The rewriting that ran before the cover.
    pub rewriting: Rewriting,
}

impl Circuit {
    /// The circuit as a program for a parameter set. Its failure probability for freshly encrypted bits is checked.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a set of fewer than four values; [`Error::BadInput`] for a [`Goal::Within`] that is not
    /// reached, with the number that is, and for a circuit from a file that has too many gates for the memory that it was read
    /// with; [`Error::Memory`] for one that may take more than is free; [`Error::TooNoisy`] if a bootstrap would fail more often than the set claims.
    pub fn compile(&self, params: &Arc<TfheParams>, goal: Goal) -> Result<Compiled> {
        self.compile_with(params, goal, UNWATCHED)
    }

    /// [`Circuit::compile`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Circuit::compile`], and [`Error::Interrupted`].
    pub fn compile_with(
        &self,
        params: &Arc<TfheParams>,
        goal: Goal,
        progress: Progress,
    ) -> Result<Compiled> {
        params.require_one_slot("circuit")?;
        self.require_memory()?;
        let values = params.plaintext_modulus();
        if values < 4 {
            return Err(Error::unsupported(
                "circuit",
                "a parameter set of four values or more",
                format!("{} with {values}", params.name),
                match params.modulus {
                    Modulus::Goldilocks => "choose tfhe_1_1_p, tfhe_2_2_p or larger",
                    _ => "choose tfhe_1_1, tfhe_2_2 or larger",
                },
            ));
        }
        // Noise that the set has room for, in outputs of bootstraps.
        let norm = (params.max_norm2 * params.max_norm2) as i64;
        let mut room = Room { values: values as i64, norm: norm.max(LEAST_NORM) };
        loop {
            match self.compile_within(params, goal, room, progress) {
                // A cover takes the noise of its leaves for independent, and results of one rotation share theirs.
                Err(Error::TooNoisy(_)) if room.norm > LEAST_NORM => {
                    room.norm = (room.norm * 9 / 10).max(LEAST_NORM);
                }
                other => return other,
            }
        }
    }

    /// Refuses a circuit whose compilation may take more memory than is free, and one of a file that may take more than its reader
    /// allows.
    fn require_memory(&self) -> Result<()> {
        let gates = |c: &Circuit| c.gates().0 + c.gates().1;
        let netlists = self.netlists.iter().flat_map(|all| all.direct.iter().chain([&all.file]));
        let gates = netlists.map(gates).fold(gates(self), usize::max);
        match self.memory.map(|limit| (limit, limit.saturating_mul(TIMES) / NEEDED)) {
            Some((limit, most)) if gates as u64 > most => {
                return Err(Error::bad_input(
                    "circuit",
                    format!(
                        "at most {most} gates of {NEEDED} bytes each: {TIMES} times the limit of {limit}"
                    ),
                    format!("{gates} gates"),
                    "split it, or raise the limit if you trust the file (`Limits::memory`, `limit=` in Python, `--limit`)",
                ));
            }
            _ => {}
        }
        let threads = threads::usual();
        let foreign = gates <= abc::PROVABLE && abc::unused().tool.is_some();
        let each = NEEDED + if foreign { OF_ABC * threads.min(MOST) as u64 } else { 0 };
        let bytes = (gates as u64).saturating_mul(each).saturating_add(BASE) as usize;
        // One thread more: the one that began the work may only watch it.
        require_for_threads("circuit", bytes, threads + 1, ROOM)
    }

    /// A cover within a room; the walk has the last word on the noise.
    fn compile_within(
        &self,
        params: &Arc<TfheParams>,
        goal: Goal,
        room: Room,
        progress: Progress,
    ) -> Result<Compiled> {
        let mut budget = Budget::new();
        let (mut candidates, mut rewriting) = self.candidates(room, &budget, progress);
        tell("circuit", progress, 0, 1)?;
        let covering = best(&mut candidates, room, goal, &mut rewriting, &mut budget, progress)?;
        if rewriting.wrong > 0 {
            let wrong = rewriting.wrong;
            rewriting.remark =
                Some(format!("{wrong} circuits of ABC are not used: they are not proved equal"));
        }
        let chosen = &candidates[covering.candidate].circuit;
        let netlists = self.netlists.as_ref();
        let chosen = netlists.map_or_else(|| chosen.clone(), |all| all.of_module(chosen));
        let emitter = Emitter::new(&chosen, params);
        let program = emitter.emit(&covering.lookups)?;
        let fresh = noise::fresh(program.resting_role().fresh_noise(params), Modulus::LOG2);
        program.follow(&vec![fresh; program.inputs().len()])?;
        let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
        Ok(Compiled { program, inputs, outputs, rewriting })
    }
}

struct Emitter<'a> {
    circuit: &'a Circuit,
    program: Program,
    encoding: Encoding,
    /// Where the value of a node is, times a factor.
    at: HashMap<Source, Reg>,
}

impl<'a> Emitter<'a> {
    fn new(circuit: &'a Circuit, params: &Arc<TfheParams>) -> Self {
        let (program, encoding) = (Program::new(params.clone()), Encoding::of(params));
        Emitter { circuit, program, encoding, at: HashMap::new() }
    }

    fn emit(mut self, lookups: &[Lookup]) -> Result<Program> {
        for wire in self.circuit.inputs.iter().flat_map(|p| &p.wires) {
            let bit = crate::program::RegInfo {
                ty: crate::program::RegType::Lwe(self.program.resting_role()),
                encoding: self.encoding,
                range: (0, 1),
            };
            let reg = self.program.input_as(bit);
            self.at.insert((wire.node(), 1), reg);
        }
        for lookup in lookups {
            self.lookup(lookup)?;
        }
        for wire in self.circuit.outputs.iter().flat_map(|p| &p.wires) {
            let reg = self.result(*wire)?;
            self.program.output(reg)?;
        }
        Ok(self.program)
    }

    fn lookup(&mut self, lookup: &Lookup) -> Result<()> {
        // Functions of nothing and of one bit are linear.
        if let [(to, table)] = &lookup.results[..]
            && !lookup.is_rotation()
        {
            let entry = |v: usize| i64::from(table.get(v).copied().unwrap_or(table[0]));
            let (first, step) = (entry(0), entry(1) - entry(0));
            let reg = match &lookup.leaves[..] {
                [(leaf, weight)] if step != 0 => {
                    match (weight * step, first + step * lookup.offset) {
                        (1, 0) => self.at[leaf],
                        (factor, offset) => {
                            self.program.linear(&[(factor, self.at[leaf])], offset)?
                        }
                    }
                }
                _ => self.constant(first)?,
            };
            self.at.insert(*to, reg);
            return Ok(());
        }
        let terms: Vec<(i64, Reg)> =
            lookup.leaves.iter().map(|(leaf, w)| (w / leaf.1, self.at[leaf])).collect();
        let packed = self.program.linear(&terms, lookup.offset)?;
        let scaled = |(to, table): &(Source, Vec<u8>)| -> Vec<u64> {
            table.iter().map(|value| to.1 as u64 * u64::from(*value)).collect()
        };
        let mut tables: Vec<Vec<u64>> = lookup.results.iter().map(scaled).collect();
        // A rotation has a power of two of results.
        let empty = vec![0; tables[0].len()];
        tables.resize(tables.len().next_power_of_two(), empty);
        let entries: Vec<&[u64]> = tables.iter().map(|t| &t[..]).collect();
        let table = Table::many(self.program.params(), self.encoding, self.encoding, &entries)?;
        let results = self.program.lookup_many(packed, &table)?;
        for ((to, _), reg) in lookup.results.iter().zip(results) {
            self.at.insert(*to, reg);
        }
        Ok(())
    }

    fn constant(&mut self, value: i64) -> Result<Reg> {
        match self.program.inputs().first() {
            Some(any) => self.program.linear(&[(0, *any)], value),
            None => Err(Error::unsupported(
                "circuit",
                "an input",
                "a circuit of constants alone",
                "evaluate it on plaintext bits",
            )),
        }
    }

    /// The register of an output: negations and constants cost no bootstrap.
    fn result(&mut self, wire: Wire) -> Result<Reg> {
        match self.at.get(&(wire.node(), 1)) {
            None => self.constant(wire.negated() as i64),
            Some(reg) if wire.negated() => self.program.linear(&[(-1, *reg)], 1),
            Some(reg) => Ok(*reg),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two layers of a function of four bits whose lightest form, (−5, 4, −2, 1), has Σ w² = 46; the sets have room for 25.
    fn heavy() -> Circuit {
        let ones = |f: u32| (0..16).filter(move |x| f >> x & 1 == 1);
        let bit = |x: u32, i: u32| if x >> i & 1 == 1 { '1' } else { '0' };
        let product = |x: u32| (0..4).map(|i| bit(x, i)).collect::<String>();
        let rows: Vec<String> = ones(0xeb13).map(|x| format!("{} 1\n", product(x))).collect();
        let table = |names: [String; 5]| format!(".names {}\n{}", names.join(" "), rows.concat());
        let name = |layer: char, i: usize| format!("{layer}{i}");
        let mut text: String = ".model heavy\n.inputs".to_string();
        (0..16).for_each(|i| text += &format!(" x{i}"));
        text += "\n.outputs z0\n";
        for y in 0..4 {
            let leaves = [0, 1, 2, 3].map(|i| name('x', 4 * y + i));
            let [a, b, c, d] = leaves;
            text += &table([a, b, c, d, name('y', y)]);
        }
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| name('y', i));
        text += &table([a, b, c, d, name('z', 0)]);
        Circuit::parse(&text).unwrap()
    }

    /// A cover that believes in more room than the set has is found out by the walk, and nothing is emitted.
    #[test]
    fn a_cover_with_too_much_noise_is_refused() {
        let circuit = heavy();
        for set in ["tfhe_2_2", "tfhe_2_2_p"] {
            let params = Arc::new(TfheParams::named(set).unwrap().clone());
            let good = circuit.compile(&params, Goal::Depth).unwrap().program.cost();
            let loud = Room { values: 16, norm: 46 };
            let refused =
                circuit.compile_within(&params, Goal::Depth, loud, UNWATCHED).unwrap_err();
            assert_eq!(refused.kind(), "too_noisy", "{refused}");
            // The same room where it is true.
            let true_room = Room { norm: 25, ..loud };
            let quiet = circuit.compile_within(&params, Goal::Depth, true_room, UNWATCHED);
            assert_eq!(quiet.unwrap().program.cost(), good);
            assert!(good.depth > 2);
        }
    }

    /// Some gates on eight inputs, of which the last sixteen are outputs.
    fn arbitrary(seed: u64) -> Circuit {
        let mut state = seed;
        let mut below = |n: usize| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) as usize % n
        };
        let mut text = "120 128\n1 8\n1 16\n".to_string();
        for to in 8..128 {
            let kind = ["AND", "XOR"][below(2)];
            // Mostly of what came just before, so that there are paths of some length.
            let (a, b) = (to - 1 - below(8), to - 1 - below(to.min(30)));
            text += &format!("2 1 {a} {b} {to} {kind}\n");
        }
        Circuit::parse(&text).unwrap()
    }

    /// No goal is reached better by another: for any circuit, whatever its covers are like.
    #[test]
    fn the_fewest_bootstraps_are_never_more_than_the_shortest_path_has() {
        let params = Arc::new(TfheParams::named("toy_2_2").unwrap().clone());
        let mut fewer = 0;
        for seed in 0..24 {
            let circuit = arbitrary(seed);
            let cost = |goal| circuit.compile(&params, goal).unwrap().program.cost();
            let (short, few) = (cost(Goal::Depth), cost(Goal::Bootstraps));
            assert!(few.bootstraps <= short.bootstraps, "{seed}");
            // For nothing the path is not made longer either.
            assert!(few.bootstraps < short.bootstraps || few.depth == short.depth, "{seed}");
            assert!(short.depth <= few.depth, "{seed}");
            fewer += usize::from(few.bootstraps < short.bootstraps);
            let within = cost(Goal::Within(short.depth as u32 + 1));
            assert!(within.bootstraps <= short.bootstraps, "{seed}");
            assert!(within.depth <= short.depth + 1, "{seed}");
        }
        assert!(fewer > 0);
    }
}
