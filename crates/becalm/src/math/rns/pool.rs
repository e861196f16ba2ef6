//! Memory for limbs that is used again: a page that the system zeroes for the first time costs more than a transform.

use crate::Result;
use crate::math::buffer::{Buffer, refuse};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory that is free, and how much is not.
#[derive(Default)]
pub(crate) struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    /// By no particular order.
    free: Vec<Memory>,
    /// Doubles of the free pieces.
    kept: usize,
    /// Doubles that are lent.
    lent: usize,
    /// The most that were.
    most: usize,
}

/// Doubles of arbitrary content at first, given back to their pool when dropped.
pub(crate) struct Scratch {
    data: Memory,
    len: usize,
    pool: Arc<Pool>,
}

/// Large pieces ask for huge pages, without which streaming has two thirds of the bandwidth.
enum Memory {
    Large(Buffer<f64>),
    Small(Vec<f64>),
}

/// The doubles that a pool keeps, at most.
const KEPT: usize = 1 << 28;
/// From this length on a piece is large.
const LARGE: usize = 1 << 18;

impl Memory {
    /// Zeros; none when the system refuses.
    fn new(len: usize) -> Option<Memory> {
        if len >= LARGE {
            // A refusal is final: another kind of allocation would promise more memory than there is.
            return Buffer::new(len).ok().map(Memory::Large);
        }
        let mut small = Vec::new();
        small.try_reserve_exact(len).ok()?;
        small.resize(len, 0.0);
        Some(Memory::Small(small))
    }

    fn capacity(&self) -> usize {
        match self {
            Memory::Large(x) => x.as_slice().len(),
            Memory::Small(x) => x.len(),
        }
    }
}

impl State {
    fn lend(&mut self, capacity: usize) {
        self.lent += capacity;
        self.most = self.most.max(self.lent);
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `len` doubles: the smallest free piece of at least that and at most twice as much, or new ones. Where the system has none,
    /// the free pieces of other sizes go back to it first; where that does not help, the work is given up
    /// ([`or_refused`](crate::math::buffer::or_refused)).
    pub(crate) fn take(pool: &Arc<Pool>, len: usize) -> Scratch {
        if let Some(data) = pool.found(len) {
            return Scratch { data, len, pool: pool.clone() };
        }
        let data = Memory::new(len).or_else(|| {
            pool.clear();
            Memory::new(len)
        });
        let data = data.unwrap_or_else(|| refuse(8 * len));
        pool.state().lend(data.capacity());
        Scratch { data, len, pool: pool.clone() }
    }

    fn found(&self, len: usize) -> Option<Memory> {
        let mut state = self.state();
        let fits = |m: &Memory| (len..=2 * len).contains(&m.capacity());
        let all = state.free.iter().enumerate().filter(|(_, m)| fits(m));
        let best = all.min_by_key(|(_, m)| m.capacity()).map(|(i, _)| i)?;
        let found = state.free.swap_remove(best);
        state.kept -= found.capacity();
        state.lend(found.capacity());
        Some(found)
    }

    /// Gives the free pieces back to the system.
    fn clear(&self) {
        let mut state = self.state();
        state.kept = 0;
        let free = std::mem::take(&mut state.free);
        drop(state);
        drop(free);
    }

    /// Bytes of free pieces.
    pub(crate) fn kept(&self) -> usize {
        8 * self.state().kept
    }

    /// The most bytes that were lent at a time since this was asked before, and those that are now.
    #[cfg(test)]
    pub(crate) fn most(&self) -> [usize; 2] {
        let mut state = self.state();
        let found = [state.most, state.lent].map(|n| 8 * n);
        state.most = state.lent;
        found
    }
}

impl Scratch {
    /// `len` zeros of no pool, which go back to the system when dropped.
    ///
    /// # Errors
    /// `Memory` when the system refuses.
    pub(crate) fn apart(len: usize) -> Result<Scratch> {
        Ok(Scratch { data: Memory::Large(Buffer::new(len)?), len, pool: Arc::default() })
    }

    /// No doubles, of the same pool.
    pub(crate) fn nothing(&self) -> Scratch {
        Scratch { data: Memory::Small(vec![]), len: 0, pool: self.pool.clone() }
    }
}

impl Deref for Scratch {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        match &self.data {
            Memory::Large(x) => &x.as_slice()[..self.len],
            Memory::Small(x) => &x[..self.len],
        }
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f64] {
        match &mut self.data {
            Memory::Large(x) => &mut x.as_mut_slice()[..self.len],
            Memory::Small(x) => &mut x[..self.len],
        }
    }
}

impl Clone for Scratch {
    fn clone(&self) -> Self {
        let mut copy = Pool::take(&self.pool, self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let capacity = self.data.capacity();
        if capacity == 0 {
            return;
        }
        let mut state = self.pool.state();
        state.lent = state.lent.saturating_sub(capacity);
        // Without room to note it a piece goes back to the system.
        if state.kept + capacity <= KEPT && state.free.try_reserve(1).is_ok() {
            state.kept += capacity;
            state.free.push(std::mem::replace(&mut self.data, Memory::Small(vec![])));
        }
    }
}
