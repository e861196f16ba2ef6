//! The constants of the primes of a chain on a device: small tables of twiddles, from which the transforms make the others.

use super::super::memory::Block;
use crate::Result;
use crate::ckks::Chain;
use crate::math::rns::{centred, constants, inverse, mul, pow, root_of_unity};
use becalm_cuda::rns::Word;
use becalm_cuda::{Argument, Device};
use std::sync::Arc;

/// The records of all primes, and the twiddles that they name.
pub(in super::super) struct Tables {
    words: Block,
    _twiddles: Block,
    device: Arc<dyn Device>,
}

impl Tables {
    /// The tables of a chain.
    ///
    /// # Errors
    /// `Memory` if they do not fit; errors of the device.
    pub fn new(device: &Arc<dyn Device>, chain: &Chain) -> Result<Tables> {
        let (n, primes) = (chain.params().degree(), chain.primes());
        let each = n / 8;
        let mut numbers = Vec::with_capacity(2 * each * primes.len());
        for p in primes {
            let root = root_of_unity(2 * n as u64, *p);
            numbers.extend(twiddles(root, *p, n));
            numbers.extend(twiddles(inverse(root, *p), *p, n));
        }
        let twiddles = Block::of(device, "open", bytemuck::cast_slice(&numbers))?;
        let record = |(i, p): (usize, &u64)| {
            let (magic, root) = constants(*p, n);
            let at = |k: usize| twiddles.at() + 8 * (each * (2 * i + k)) as u64;
            let (p, inverse) = (*p as f64, 1.0 / *p as f64);
            Word { p, inverse, magic, imaginary: root, forward: at(0), backward: at(1) }.words()
        };
        let records: Vec<u64> = primes.iter().enumerate().flat_map(record).collect();
        let words = Block::of(device, "open", bytemuck::cast_slice(&records))?;
        Ok(Tables { words, _twiddles: twiddles, device: device.clone() })
    }

    /// Whether they are on this device.
    pub fn is_on(&self, device: &Arc<dyn Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// The argument of a kernel that reads them.
    pub fn words(&self) -> Argument {
        Argument::Address(self.words.at())
    }

    /// Bytes of the tables of a chain.
    pub fn bytes(chain: &Chain) -> u64 {
        (chain.primes().len() * (2 * chain.params().degree() + size_of::<Word>())) as u64
    }
}

/// w[k] = ψ^brv(k) for k < N/16, then w[N/2 + 8j] for j < N/16.
fn twiddles(root: u64, p: u64, n: usize) -> Vec<f64> {
    let count = n / 16;
    let mut out = vec![0.0; 2 * count];
    // brv(k) of such k is a multiple of 16; that of N/2 + 8j is 1 more than an even number.
    let steps = [(pow(root, 16, p), 1), (pow(root, 2, p), root)];
    for (half, (step, first)) in out.chunks_mut(count).zip(steps) {
        let mut power = first;
        for i in 0..count {
            half[i.reverse_bits() >> (usize::BITS - count.ilog2())] = centred(power, p);
            power = mul(power, step, p);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twiddles_are_powers_in_bit_reversed_order() {
        let (n, p) = (4096usize, crate::math::rns::nearest(2f64.powi(45), 8192, &[]).unwrap());
        let root = root_of_unity(2 * n as u64, p);
        let w = |k: usize| {
            let exponent = k.reverse_bits() >> (usize::BITS - n.ilog2());
            centred(pow(root, exponent as u64, p), p)
        };
        let made = twiddles(root, p, n);
        assert!((0..n / 16).all(|k| made[k] == w(k)));
        assert!((0..n / 16).all(|j| made[n / 16 + j] == w(n / 2 + 8 * j)));
    }
}
