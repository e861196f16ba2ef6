//! Walking a program before it runs: waves, cost, memory and noise.
//!
//! A *wave* is a run of instructions of one kind that do not wait for each other (linear ones may, and run in order).
//! Noise is followed as a linear form over independent sources (arguments, bootstraps, key switches), so that sums of
//! correlated registers are right: variance = Σ coefficient²·V(source).

use super::{Need, Op, Program, Reg, RegType, TableRef};
use crate::tfhe::noise::{self, NoiseReport};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashSet};

/// Most coefficients of noise that a walk keeps, all registers together: 1 GB.
const MAX_FOLLOWED: usize = 1 << 25;

/// What the instructions of a wave have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaveKind {
    /// `MulAdd`, in order.
    Linear,
    /// `KeySwitch`, independent.
    KeySwitch,
    /// `Bootstrap`, independent.
    Bootstrap,
}

/// Instructions that a backend may run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// What they have in common.
    pub kind: WaveKind,
    /// Positions in [`Program::ops`].
    pub ops: Vec<usize>,
}

/// What running a program on one lane takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Blind rotations.
    pub bootstraps: usize,
    /// Key switches.
    pub key_switches: usize,
    /// Linear combinations.
    pub linear: usize,
    /// Waves.
    pub waves: usize,
    /// Bootstraps on the longest path.
    pub depth: usize,
    /// Most bytes of registers alive at once, for one lane.
    pub bytes_per_lane: usize,
}

/// What is known of a program before it runs.
#[derive(Debug, Clone)]
pub struct Walk {
    /// Noise variance of each register, torus units.
    pub noise: Vec<f64>,
    /// log2 of the probability that any bootstrap of one lane fails (union bound); −∞ without bootstraps.
    pub log2_pfail: f64,
    /// The instructions in waves.
    pub waves: Vec<Wave>,
    /// For each wave, the registers that nobody reads after it.
    pub dead_after: Vec<Vec<Reg>>,
    /// What it costs.
    pub cost: Cost,
}

impl Program {
    /// Waves, cost and noise for arguments of the given noise variances (torus units, one for each input).
    ///
    /// # Errors
    /// [`Error::BadInput`] for the wrong number of variances; [`Error::TooNoisy`] if a bootstrap would fail more often
    /// than the parameter set claims.
    pub fn walk(&self, input_noise: &[f64]) -> Result<Walk> {
        if input_noise.len() != self.inputs.len() {
            return Err(Error::bad_input(
                "walk",
                format!("{} noise variances", self.inputs.len()),
                input_noise.len().to_string(),
                "give one for each input",
            ));
        }
        let (noise, log2_pfail) = self.follow_noise(input_noise)?;
        let (waves, depth) = self.waves();
        let dead_after = self.dead_after(&waves);
        let cost = self.count(&waves, &dead_after, depth);
        Ok(Walk { noise, log2_pfail, waves, dead_after, cost })
    }

    /// What the program costs on one lane.
    pub fn cost(&self) -> Cost {
        let (waves, depth) = self.waves();
        let dead_after = self.dead_after(&waves);
        self.count(&waves, &dead_after, depth)
    }

    fn follow_noise(&self, input_noise: &[f64]) -> Result<(Vec<f64>, f64)> {
        let set = NoiseReport::of(&self.params);
        let (v_br, v_ks, v_ms) = (set.blind_rotation.total(), set.key_switch, set.modulus_switch);
        let mut sources: Vec<f64> = input_noise.to_vec();
        let mut forms: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); self.regs.len()];
        for (i, r) in self.inputs.iter().enumerate() {
            forms[r.0 as usize].insert(i, 1.0);
        }
        let fresh = |sources: &mut Vec<f64>, v: f64| {
            sources.push(v);
            sources.len() - 1
        };
        let variance = |sources: &[f64], form: &BTreeMap<usize, f64>| {
            form.iter().map(|(s, c)| c * c * sources[*s]).sum::<f64>()
        };
        let mut pfail = 0.0f64;
        let mut log2_worst = f64::NEG_INFINITY;
        let mut followed = 0;
        for op in &self.ops {
            if followed > MAX_FOLLOWED {
                return Err(too_entangled());
            }
            match op {
                Op::MulAdd { dst, terms, .. } => {
                    let mut form = BTreeMap::new();
                    for (c, r) in terms {
                        for (s, k) in &forms[r.0 as usize] {
                            *form.entry(*s).or_insert(0.0) += k * *c as f64;
                        }
                    }
                    followed += form.len();
                    forms[dst.0 as usize] = form;
                }
                Op::KeySwitch { dst, src } => {
                    let mut form = forms[src.0 as usize].clone();
                    form.insert(fresh(&mut sources, v_ks), 1.0);
                    forms[dst.0 as usize] = form;
                }
                Op::Bootstrap { dst, src, table } => {
                    let v = variance(&sources, &forms[src.0 as usize]);
                    let fail = self.check_noise(*src, v, v + v_ms)?;
                    log2_worst = log2_worst.max(fail);
                    pfail += 1.0;
                    let v_table = match table {
                        TableRef::Encrypted(glwe, _) => variance(&sources, &forms[glwe.0 as usize]),
                        TableRef::Clear(_) => 0.0,
                    };
                    for d in dst {
                        forms[d.0 as usize] =
                            BTreeMap::from([(fresh(&mut sources, v_br + v_table), 1.0)]);
                    }
                }
            }
        }
        let noise = forms.iter().map(|f| variance(&sources, f)).collect();
        Ok((noise, log2_worst + pfail.log2()))
    }

    /// log2 of the failure probability of a bootstrap, or an error if it is above the set's claim.
    fn check_noise(&self, src: Reg, variance: f64, decided: f64) -> Result<f64> {
        let margin = self.regs[src.0 as usize].encoding.margin();
        let fail = noise::log2_erfc(margin / (2.0 * decided).sqrt());
        if fail <= self.params.log2_pfail + noise::CLAIM_TOLERANCE {
            return Ok(fail);
        }
        Err(Error::too_noisy(
            "bootstrap",
            format!("a failure probability of at most 2^{:.1}", self.params.log2_pfail),
            format!("2^{fail:.1} at noise 2^{:.2} (register {})", variance.sqrt().log2(), src.0),
            "bootstrap earlier, sum fewer ciphertexts, or use smaller coefficients",
        ))
    }

    /// Instructions grouped by bootstraps on the path, then key switches on the path, then kind.
    fn waves(&self) -> (Vec<Wave>, usize) {
        let mut at = vec![(0usize, 0usize); self.regs.len()];
        let mut groups: BTreeMap<(usize, usize, WaveKind), Vec<usize>> = BTreeMap::new();
        let mut depth = 0;
        for (i, op) in self.ops.iter().enumerate() {
            let (d, s) = op.sources().iter().map(|r| at[r.0 as usize]).max().unwrap_or((0, 0));
            let (key, result) = match op {
                Op::MulAdd { .. } => ((d, s, WaveKind::Linear), (d, s)),
                Op::KeySwitch { .. } => ((d, s, WaveKind::KeySwitch), (d, s + 1)),
                Op::Bootstrap { .. } => ((d, usize::MAX, WaveKind::Bootstrap), (d + 1, 0)),
            };
            for r in op.results() {
                at[r.0 as usize] = result;
            }
            depth = depth.max(result.0);
            groups.entry(key).or_default().push(i);
        }
        (groups.into_iter().map(|((_, _, kind), ops)| Wave { kind, ops }).collect(), depth)
    }

    fn dead_after(&self, waves: &[Wave]) -> Vec<Vec<Reg>> {
        let mut last = vec![None; self.regs.len()];
        for (w, wave) in waves.iter().enumerate() {
            for &i in &wave.ops {
                for r in self.ops[i].results().iter().copied().chain(self.ops[i].sources()) {
                    last[r.0 as usize] = Some(w);
                }
            }
        }
        let kept: HashSet<Reg> = self.outputs.iter().copied().collect();
        let mut dead = vec![vec![]; waves.len()];
        for (r, w) in last.iter().enumerate() {
            let reg = Reg(r as u32);
            if let (Some(w), false) = (w, kept.contains(&reg)) {
                dead[*w].push(reg);
            }
        }
        dead
    }

    fn count(&self, waves: &[Wave], dead_after: &[Vec<Reg>], depth: usize) -> Cost {
        let count = |need| self.ops.iter().filter(|op| op.need() == need).count();
        let bytes = |r: &Reg| self.bytes(*r);
        let mut alive: usize = self.inputs.iter().map(bytes).sum();
        let mut most = alive;
        for (wave, dead) in waves.iter().zip(dead_after) {
            alive += wave.ops.iter().flat_map(|&i| self.ops[i].results()).map(bytes).sum::<usize>();
            most = most.max(alive);
            alive -= dead.iter().map(bytes).sum::<usize>();
        }
        Cost {
            bootstraps: count(Some(Need::Bootstrap)),
            key_switches: count(Some(Need::KeySwitch)),
            linear: count(None),
            waves: waves.len(),
            depth,
            bytes_per_lane: most,
        }
    }

    /// Words that a register takes on one lane.
    pub(crate) fn width(&self, reg: Reg) -> usize {
        match self.regs[reg.0 as usize].ty {
            RegType::Lwe(role) => role.dimension(&self.params) + 1,
            RegType::Glwe => (self.params.glwe_dimension + 1) * self.params.polynomial_size,
        }
    }

    fn bytes(&self, reg: Reg) -> usize {
        self.width(reg) * 8
    }
}

fn too_entangled() -> Error {
    Error::memory(
        "walk",
        format!("at most {MAX_FOLLOWED} coefficients of noise"),
        "more: long sums of sums without a bootstrap",
        "bootstrap in between, or split the program",
    )
}
