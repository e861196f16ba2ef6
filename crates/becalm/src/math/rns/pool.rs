//! Memory for limbs that is used again: a page that the system zeroes for the first time costs more than a transform.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Free memory, by no particular order.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Vec<f64>>>);

/// Doubles of arbitrary content at first, given back to their pool when dropped.
pub(crate) struct Scratch {
    data: Vec<f64>,
    pool: Arc<Pool>,
}

/// What a pool keeps at most, doubles.
const KEPT: usize = 1 << 28;

impl Pool {
    /// `len` doubles: the smallest free piece of at least that and at most twice as much, or new ones.
    pub(crate) fn take(pool: &Arc<Pool>, len: usize) -> Scratch {
        let mut free = pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |v: &Vec<f64>| (len..=2 * len).contains(&v.capacity());
        let best = (0..free.len()).filter(|i| fits(&free[*i])).min_by_key(|i| free[*i].capacity());
        let mut data = best.map(|i| free.swap_remove(i)).unwrap_or_else(|| Vec::with_capacity(len));
        drop(free);
        data.resize(len, 0.0);
        Scratch { data, pool: pool.clone() }
    }
}

impl Scratch {
    /// No doubles, of the same pool.
    pub(crate) fn nothing(&self) -> Scratch {
        Scratch { data: Vec::new(), pool: self.pool.clone() }
    }
}

impl Deref for Scratch {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        &self.data
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }
}

impl Clone for Scratch {
    fn clone(&self) -> Self {
        let mut copy = Pool::take(&self.pool, self.data.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut free = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = free.iter().map(Vec::capacity).sum();
        if self.data.capacity() > 0 && kept + self.data.capacity() <= KEPT {
            free.push(std::mem::take(&mut self.data));
        }
    }
}
