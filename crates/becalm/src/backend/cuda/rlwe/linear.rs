//! Linear maps of the slots on a device: baby, middle and giant steps as `backend/cpu/rlwe/linear.rs` has them. One kernel takes all baby
//! steps of one or two middle steps with their diagonals, so that rotated values never reach memory.

use super::arithmetic::{Cipher, Factor, Sum};
use super::key_switch::{Digits, Own};
use super::keys::{DeviceKey, DeviceMap};
use super::recorder::Recorder;
use super::tape::{Kind, Limbs};
use crate::Result;
use crate::cipher::Purpose;
use crate::ckks::{Steps, power_of_rotation};
use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Baby, Diagonal, GIANTS, Turned};
use std::collections::BTreeSet;

/// x rotated by a middle step, modulo Q·P: itself, zero from limb `owned` on, and its digits.
struct Middle {
    step: usize,
    own: Limbs,
    owned: usize,
    digits: Digits,
}

impl<'a> Recorder<'a> {
    /// The map applied to the slots: one level lower.
    pub fn linear(&mut self, x: &Cipher, map: &DeviceMap) -> Result<Cipher> {
        let level = map.level;
        let x = self.tape.lowered(x, level);
        let x = Cipher { level, ..x };
        let sums = self.giants(&x, map)?;
        let Steps { stride, baby, middle, giant, .. } = map.steps;
        let special = self.tape.context.special();
        let all = self.tape.context.words(level) + special;
        let lanes = self.tape.lanes;
        let each = |j: usize| sums.part((2 * j * lanes) as u64);
        let mut sum = each(giant - 1);
        for j in (0..giant - 1).rev() {
            let (key, power) = self.rotation(middle * baby * stride, level)?;
            let steps = [level, level, special];
            let linear = self.tape.divide(&sum.of_lanes(1), lanes, steps, Kind::Work);
            let digits = self.tape.decompose(&linear, lanes, level, special);
            let own = Own { parts: [Some(sum.of_lanes(0)), None], count: all, raised: false };
            sum = self.tape.key_product(&digits, key, &own, power, Some(&each(j)));
        }
        let steps = [level, level - 1, special];
        let parts = self.tape.divide(&sum, 2 * lanes, steps, Kind::Ciphertext);
        let scale = x.scale * map.scale / self.tape.context.step(level);
        Ok(Cipher { level: level - 1, scale, parts })
    }

    /// P·x modulo the words of its level.
    fn raised(&mut self, x: &Cipher) -> Limbs {
        let context = self.tape.context;
        let p = |i: usize| context.special_product(context.special(), i);
        let mut sum = Sum::new(x.level, x.scale);
        let residues = context.words_of(x.level, 0).into_iter().map(|i| {
            let prime = context.ring().word(i).p;
            crate::math::rns::centred(p(i), prime)
        });
        let residues = self.tape.numbers(residues);
        sum.add(x, Factor::Residues(residues));
        sum.evaluated(&mut self.tape, Kind::Work)
    }

    /// u_j for every giant step j, modulo Q·P: [giant step][lane][2][limb][N].
    fn giants(&mut self, x: &Cipher, map: &DeviceMap) -> Result<Limbs> {
        let (level, Steps { stride, baby, middle, .. }) = (map.level, map.steps);
        let (special, count) = (self.tape.context.special(), self.tape.context.words(level));
        let (all, lanes) = (count + special, self.tape.lanes);
        let sums = self.tape.take(Kind::Work, 2 * map.steps.giant * lanes, all);
        let own = self.raised(x);
        let digits = self.tape.decompose(&x.parts.of_lanes(1), lanes, level, special);
        let mut this = Middle { step: 0, own, owned: count, digits };
        let mut waiting: Option<Middle> = None;
        loop {
            let last = this.step + 1 == middle;
            let next = match last {
                true => None,
                false => {
                    let (key, power) = self.rotation(baby * stride, level)?;
                    let own = Own {
                        parts: [Some(this.own.of_lanes(0)), None],
                        count: this.owned,
                        raised: false,
                    };
                    Some(self.tape.key_product(&this.digits, key, &own, power, None))
                }
            };
            let waits = map.steps.in_pairs() && this.step.is_multiple_of(2) && !last;
            let step = this.step + 1;
            if waits {
                waiting = Some(this);
            } else {
                let inputs: Vec<Middle> = waiting.take().into_iter().chain([this]).collect();
                self.babies(map, &inputs, &sums)?;
            }
            let Some(own) = next else { return Ok(sums) };
            let steps = [level, level, special];
            let linear = self.tape.divide(&own.of_lanes(1), lanes, steps, Kind::Work);
            let digits = self.tape.decompose(&linear, lanes, level, special);
            this = Middle { step, own, owned: all, digits };
        }
    }

    /// The lists of baby steps: inputs of each lane, rotations, and the diagonals of each; and how many rotations there are.
    fn lists(&mut self, map: &DeviceMap, inputs: &[Middle]) -> Result<([Argument; 3], usize)> {
        let (level, giant) = (map.level, map.steps.giant);
        let babies: BTreeSet<usize> = map.diagonals.keys().map(|(_, _, i)| *i).collect();
        let record = |x: &Middle, lane: u64| Turned {
            own0: x.own.part(2 * lane).at,
            own1: x.own.part(2 * lane + 1).at,
            lifted: x.digits.lifted.part(lane).at,
            values: x.digits.values.part(lane).at,
            owned: x.owned as u32,
            ..Turned::default()
        };
        let lanes = 0..self.tape.lanes as u64;
        let each = lanes.flat_map(|lane| inputs.iter().map(move |x| record(x, lane)));
        let turned: Vec<u64> = each.flat_map(|turned| turned.words()).collect();
        let (mut rotations, mut diagonals) = (vec![], vec![]);
        for i in &babies {
            let mut by = Baby { power: 1, ..Baby::default() };
            if *i > 0 {
                let (key, power) = self.rotation(i * map.steps.stride, level)?;
                let stored = (key.count + key.special) as u32;
                let (bodies, masks) = (key.bodies(), key.masks());
                by = Baby { bodies, masks, power: power as u32, stored, unused: 0 };
            }
            rotations.extend(by.words());
            for (x, j) in inputs.iter().flat_map(|x| (0..giant).map(move |j| (x, j))) {
                let found = map.diagonals.get(&(x.step, j, *i));
                let one = found.map(|d| Diagonal { at: d.at, tiled: d.tiled.into(), unused: 0 });
                diagonals.extend(one.unwrap_or_default().words());
            }
        }
        let lists = [turned, rotations, diagonals].map(|w| Argument::Address(self.tape.own(w)));
        Ok((lists, babies.len()))
    }

    /// The terms that one or two middle steps add to all u_j.
    fn babies(&mut self, map: &DeviceMap, inputs: &[Middle], sums: &Limbs) -> Result<()> {
        let (level, giant) = (map.level, map.steps.giant);
        let ([turned, rotations, diagonals], babies) = self.lists(map, inputs)?;
        let limbs = self.tape.key_limbs(&inputs[0].digits, false);
        let kept = inputs.iter().all(|x| x.step > 0);
        let all = self.tape.context.words(level) + self.tape.context.special();
        let lanes = self.tape.lanes;
        let number = |x: usize| Argument::U32(x as u32);
        for first in (0..giant).step_by(GIANTS) {
            let here = GIANTS.min(giant - first);
            let arguments = [
                Argument::Address(sums.part((2 * first * lanes) as u64).at),
                turned,
                rotations,
                diagonals,
                limbs,
                self.tape.tables.words(),
                number(babies),
                number(inputs.len()),
                number(here),
                number(first),
                number(giant),
                number(inputs[0].digits.count),
                number(all),
                number(kept.into()),
                number(lanes),
            ];
            let [count, giants, lanes] = [all, here, lanes].map(|x| x as u32);
            let launch = Launch::key_baby(self.tape.log2_n(), count, giants, lanes);
            self.tape.launch(launch, arguments);
        }
        Ok(())
    }

    /// The key and the power of X of a rotation by `by` at `level`.
    fn rotation(&self, by: usize, level: usize) -> Result<(&'a DeviceKey, usize)> {
        let power = power_of_rotation(by as i64, self.tape.context.params().degree());
        Ok((self.key(Purpose::Galois(power as u32), level)?, power))
    }
}
