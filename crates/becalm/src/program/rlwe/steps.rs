//! The errors that single steps of CKKS add of their own, whatever they compute on: roundings, and the noise of keys.

use crate::cipher::{key_product_bound, product_bound};
use crate::ckks::Chain;

/// The error of an independent step: its standard deviation, and its bound. It was multiplied by a secret or by the noise of a key.
pub(super) fn added(deviation: f64) -> (f64, f64) {
    (deviation, product_bound(deviation))
}

/// The errors that instructions add under a key that so many parties made: each with its standard deviation, and its bound.
#[derive(Clone, Copy)]
pub(super) struct Steps<'a> {
    pub(super) chain: &'a Chain,
    pub(super) parties: usize,
}

impl Steps<'_> {
    /// The rounding of a rescale to `scale`.
    pub(super) fn rescaled(self, scale: f64) -> (f64, f64) {
        added(self.chain.rounding_under(self.parties, scale))
    }

    /// The deviation of the noise of a key switch that is no part of a product.
    pub(super) fn key(self, level: usize, scale: f64) -> f64 {
        self.chain.switching(level, scale) * (self.parties as f64).sqrt()
    }

    /// Such a key switch, and the rounding behind it.
    pub(super) fn switched(self, level: usize, scale: f64) -> (f64, f64) {
        added(self.key(level, scale).hypot(self.chain.rounding_under(self.parties, scale)))
    }

    /// The key switch of a product of the scale `scale` at a level, and the rescale behind it.
    pub(super) fn relinearized(self, level: usize, scale: f64) -> (f64, f64) {
        let rounding = self.chain.rounding_under(self.parties, scale / self.chain.step(level));
        if self.parties == 1 {
            return added(self.chain.switching(level, scale).hypot(rounding));
        }
        let noise = self.chain.product_noise(self.parties);
        let key = self.chain.switching_with(noise, level, scale);
        (key.hypot(rounding), key_product_bound(key) + product_bound(rounding))
    }
}
