//! The sign of a sum, which comparisons and the carries of `prefix` ask for.

use crate::Result;
use crate::apps::circuit::{Circuit, ROOM, Sum};

/// A question about a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// 1 if it is above 0.
    Greater,
    /// −`weight`, 0 or `weight`.
    Sign(i64),
}

impl Circuit<'_> {
    /// The sign of a sum, as asked: a table if its values fit one, else by the odd function on the whole torus.
    pub(super) fn sign_of(&mut self, v: &Sum, ask: Ask) -> Result<Sum> {
        let small = v.high - v.low < ROOM;
        match ask {
            Ask::Greater if small => self.map(v, |x| i64::from(x > 0)),
            Ask::Sign(weight) if small => self.map(v, |x| weight * x.signum()),
            Ask::Greater => {
                // One below: then 0 counts with the negative half.
                let moved = v.plus(-1);
                Ok(self.circle(&moved, &[1; ROOM as usize], &[(0, 1, 0, 1)])?.remove(0))
            }
            Ask::Sign(weight) => {
                let mut entries = [2 * weight; ROOM as usize];
                entries[0] = 0;
                Ok(self.circle(v, &entries, &[(0, 0, -weight, weight)])?.remove(0))
            }
        }
    }
}
