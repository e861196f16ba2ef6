//! Linear instructions of TFHE.

use crate::Result;
use crate::backend::registers::Registers;
use crate::math::Modulus;
use crate::program::{Op, Operation};

/// Runs linear instructions in order, every lane.
pub(super) fn run(regs: &mut Registers, q: Modulus, ops: &[&Op]) -> Result<()> {
    for op in ops {
        regs.require_alive(&op.sources())?;
        match op {
            Op::MulAdd { dst, terms, constant } => {
                let mut sum = vec![0u64; regs.allocate(*dst).len()];
                for (c, r) in terms {
                    let f = q.from_signed(*c);
                    for (s, x) in sum.iter_mut().zip(regs.all(*r)) {
                        *s = q.add(*s, q.mul(*x, f));
                    }
                }
                let constants = vec![*constant; regs.bodies(*dst)];
                add(&mut sum, q, regs.width(*dst), &constants);
                regs.allocate(*dst).copy_from_slice(&sum);
            }
            Op::AddSlots { dst, src, constants } => {
                let mut sum = regs.all(*src).to_vec();
                add(&mut sum, q, regs.width(*dst), constants);
                regs.allocate(*dst).copy_from_slice(&sum);
            }
            Op::Extract { dst, src, slot } => {
                for lane in 0..regs.lanes() {
                    let words = extract(regs.lane(*src, lane), regs.width(*dst), *slot);
                    regs.lane_mut(*dst, lane).copy_from_slice(&words);
                }
            }
            // Waves of another kind.
            Op::KeySwitch { .. } | Op::Bootstrap { .. } | Op::Pack { .. } | Op::SlotMap { .. } => {}
        }
    }
    Ok(())
}

/// Adds a constant to each body of ciphertexts of `width` words.
fn add(cts: &mut [u64], q: Modulus, width: usize, constants: &[u64]) {
    for ct in cts.chunks_exact_mut(width) {
        for (body, constant) in ct[width - constants.len()..].iter_mut().zip(constants) {
            *body = q.add(*body, *constant);
        }
    }
}

/// Mask and one body of a ciphertext, `width` words in all.
fn extract(ct: &[u64], width: usize, slot: u32) -> Vec<u64> {
    let (mask, bodies) = ct.split_at(width - 1);
    [mask, &bodies[slot as usize..][..1]].concat()
}
