//! Logistic regression on encrypted data: 30 steps of gradient descent, a program with bootstraps where levels run out.
//!
//! A sample is a block of 32 slots: 30 features from −1 to 1, a 1 and a 0. Data, labels and weights are encrypted. The data are those of
//! `tests/data`, whose README names their source and licence.

use anyhow::{Context as _, Result};
use becalm::apps::real::{Aim, Bootstraps, Function, approximate, replicate, sum};
use becalm::bootstrap::ckks::{KeyPlan, Wish};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::Reg;
use becalm::program::rlwe::CkksProgram;

const DATA: &str = include_str!("../../../../tests/data/breast_cancer.csv");
/// Slots of a sample.
const BLOCK: usize = 32;
const STEPS: usize = 30;
const RATE: f64 = 4.0;
/// Weights and margins are divided by it, so that a bootstrap may come anywhere: margins reach 16.
const SCALE: f64 = 16.0;

/// Samples, and the number of them that are right by some weights.
pub struct Regression {
    slots: usize,
    samples: Vec<[f64; BLOCK]>,
    labels: Vec<f64>,
    sigmoid: Function,
}

impl Regression {
    /// As many samples as the slots of a set hold.
    pub fn new(params: &CkksParams) -> Result<Regression> {
        let slots = params.slots();
        let rows: Vec<Vec<f64>> = DATA
            .lines()
            .skip(1)
            .take(slots / BLOCK)
            .map(|line| line.split(',').map(|x| Ok(x.parse()?)).collect())
            .collect::<Result<_>>()?;
        let count = rows.len() as f64;
        let labels = rows.iter().filter_map(|row| row.last().copied()).collect();
        let mut samples = vec![[0.0; BLOCK]; rows.len()];
        for i in 0..BLOCK - 2 {
            let mean = rows.iter().map(|row| row[i]).sum::<f64>() / count;
            let squares = rows.iter().map(|row| (row[i] - mean).powi(2)).sum::<f64>();
            let deviation = (squares / count).sqrt();
            for (sample, row) in samples.iter_mut().zip(&rows) {
                sample[i] = ((row[i] - mean) / deviation / 3.0).clamp(-1.0, 1.0);
            }
        }
        samples.iter_mut().for_each(|sample| sample[BLOCK - 2] = 1.0);
        let chance = &mut |x: f64| Ok(logistic(SCALE * x));
        let sigmoid = approximate("sigmoid", chance, [-1.0, 1.0], Aim::Bits(7.0))?;
        Ok(Regression { slots, samples, labels, sigmoid })
    }

    /// The program, whose arguments are those of [`Regression::inputs`].
    pub fn program(&self, params: &'static CkksParams) -> becalm::Result<CkksProgram> {
        let plan = KeyPlan::new(params, &Wish::default())?;
        let mut p = CkksProgram::new(plan.chain());
        let top = params.levels;
        let arguments = [0; 4].map(|_| p.input(top, self.slots));
        let [data, scaled, labels, weights] = arguments;
        let (data, scaled, labels, mut weights) = (data?, scaled?, labels?, weights?);
        let mut lift = Bootstraps::new(plan)?;
        (0..4).for_each(|_| lift.argument(true));
        let within = sum(BLOCK, 1)?;
        let across = sum(self.slots / BLOCK, BLOCK)?;
        let spread = replicate(BLOCK, 0)?;
        for _ in 0..STEPS {
            let products = product(&mut p, &mut lift, data, weights)?;
            let margins = one(&within, &mut p, &mut lift, products)?;
            let margins = one(&spread, &mut p, &mut lift, margins)?;
            let chances = one(&self.sigmoid, &mut p, &mut lift, margins)?;
            let both = p.aligned(&[labels, chances])?;
            let errors = p.subtract(both[0], both[1])?;
            let slopes = product(&mut p, &mut lift, scaled, errors)?;
            let step = one(&across, &mut p, &mut lift, slopes)?;
            let both = p.aligned(&[weights, step])?;
            weights = p.add(both[0], both[1])?;
        }
        p.output(weights)?;
        Ok(p)
    }

    /// Data, data times the step of the divided weights, labels, and weights of 0.
    pub fn inputs(&self) -> [Vec<Complex>; 4] {
        let rate = RATE / SCALE / self.samples.len() as f64;
        let filled = |of: &dyn Fn(usize, usize) -> f64| {
            let value = |j: usize| match j / BLOCK {
                row if row < self.samples.len() => of(row, j % BLOCK),
                _ => 0.0,
            };
            (0..self.slots).map(|j| Complex::from(value(j))).collect()
        };
        [
            filled(&|row, i| self.samples[row][i]),
            filled(&|row, i| rate * self.samples[row][i]),
            filled(&|row, _| self.labels[row]),
            filled(&|_, _| 0.0),
        ]
    }

    /// The divided weights of the same steps in double precision, in every block of slots: with the polynomial, or with the sigmoid itself.
    pub fn weights(&self, exact: bool) -> Vec<f64> {
        let mut weights = [0.0; BLOCK];
        for _ in 0..STEPS {
            let margins: Vec<f64> = self.samples.iter().map(|x| dot(x, &weights)).collect();
            let chances = match exact {
                true => margins.iter().map(|m| logistic(SCALE * m)).collect(),
                false => self.sigmoid.clear(&[margins]).remove(0),
            };
            for ((x, label), chance) in self.samples.iter().zip(&self.labels).zip(chances) {
                let slope = RATE / SCALE / self.samples.len() as f64 * (label - chance);
                weights.iter_mut().zip(x).for_each(|(w, x)| *w += slope * x);
            }
        }
        weights.repeat(self.slots / BLOCK)
    }

    /// Samples that weights classify as their labels do.
    pub fn right(&self, weights: &[f64]) -> usize {
        let same = |(x, label): &(&[f64; BLOCK], &f64)| (dot(x, weights) > 0.0) == (**label > 0.5);
        self.samples.iter().zip(&self.labels).filter(same).count()
    }

    /// Whether weights are as accurate as those of the sigmoid itself, to one sample.
    ///
    /// # Errors
    /// How many they classify as their labels do, and how many should be.
    pub fn require(&self, weights: &[f64]) -> Result<()> {
        let [got, wanted] = [weights, &self.weights(true)].map(|w| self.right(&w[..BLOCK]));
        let fits = got.abs_diff(wanted) <= 1;
        fits.then_some(()).with_context(|| format!("{got} samples are right instead of {wanted}"))
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn dot(x: &[f64; BLOCK], weights: &[f64]) -> f64 {
    x.iter().zip(weights).map(|(x, w)| x * w).sum()
}

/// A product, of which the second factor is bootstrapped where levels run out.
fn product(p: &mut CkksProgram, lift: &mut Bootstraps, a: Reg, b: Reg) -> becalm::Result<Reg> {
    let b = lift.lifted(p, b, 1)?;
    let both = p.aligned(&[a, b])?;
    p.multiply(both[0], both[1])
}

fn one(f: &Function, p: &mut CkksProgram, lift: &mut Bootstraps, x: Reg) -> becalm::Result<Reg> {
    Ok(f.record(p, Some(lift), &[x])?.remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most samples are right, and weights of 0 or of another sign are not as accurate.
    #[test]
    fn the_regression_learns() {
        let params = CkksParams::named("ckks_slots_first").unwrap();
        let regression = Regression::new(params).unwrap();
        let weights = regression.weights(false);
        assert_eq!((weights.len(), regression.samples.len()), (32768, 569));
        assert!(regression.right(&weights) > 540, "{}", regression.right(&weights));
        regression.require(&weights).unwrap();
        for wrong in [weights.iter().map(|w| -w).collect(), vec![0.0; BLOCK]] {
            let refusal = regression.require(&wrong).unwrap_err().to_string();
            assert!(refusal.contains("samples are right instead of"), "{refusal}");
        }
    }
}
