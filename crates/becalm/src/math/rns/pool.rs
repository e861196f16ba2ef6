//! Memory for limbs that is used again: a page that the system zeroes for the first time costs more than a transform.

use crate::Result;
use crate::math::buffer::Buffer;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Free memory, by no particular order.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Memory>>);

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

/// What a pool keeps at most, doubles.
const KEPT: usize = 1 << 28;
/// From this length on a piece is large.
const LARGE: usize = 1 << 18;

impl Memory {
    fn new(len: usize) -> Memory {
        let large = if len >= LARGE { Buffer::new(len).ok() } else { None };
        large.map_or_else(|| Memory::Small(vec![0.0; len]), Memory::Large)
    }

    fn capacity(&self) -> usize {
        match self {
            Memory::Large(x) => x.as_slice().len(),
            Memory::Small(x) => x.len(),
        }
    }
}

impl Pool {
    /// `len` doubles: the smallest free piece of at least that and at most twice as much, or new ones.
    pub(crate) fn take(pool: &Arc<Pool>, len: usize) -> Scratch {
        let mut free = pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |m: &Memory| (len..=2 * len).contains(&m.capacity());
        let best = (0..free.len()).filter(|i| fits(&free[*i])).min_by_key(|i| free[*i].capacity());
        let found = best.map(|i| free.swap_remove(i));
        drop(free);
        Scratch { data: found.unwrap_or_else(|| Memory::new(len)), len, pool: pool.clone() }
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
        let mut free = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = free.iter().map(Memory::capacity).sum();
        if self.data.capacity() > 0 && kept + self.data.capacity() <= KEPT {
            free.push(std::mem::replace(&mut self.data, Memory::Small(vec![])));
        }
    }
}
