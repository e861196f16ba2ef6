//! Linear instructions in host memory, shared by the backends that compute there.

use super::registers::Registers;
use crate::Result;
use crate::math::Modulus;
use crate::program::Op;

/// Runs `MulAdd`s in order, every lane.
pub(super) fn run(regs: &mut Registers, q: Modulus, ops: &[&Op]) -> Result<()> {
    for op in ops {
        let Op::MulAdd { dst, terms, constant } = op else {
            continue;
        };
        regs.require_alive(&op.sources())?;
        let mut sum = vec![0u64; regs.allocate(*dst).len()];
        for (c, r) in terms {
            let f = q.from_signed(*c);
            for (s, x) in sum.iter_mut().zip(regs.all(*r)) {
                *s = q.add(*s, q.mul(*x, f));
            }
        }
        let width = sum.len() / regs.lanes().max(1);
        for body in sum.iter_mut().skip(width - 1).step_by(width) {
            *body = q.add(*body, *constant);
        }
        regs.allocate(*dst).copy_from_slice(&sum);
    }
    Ok(())
}
