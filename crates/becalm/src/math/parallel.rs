//! Parallel loops: rayon's iterators under rayon's names. They begin through [`threads`](super::threads), so that a forked child
//! does not wait for its parent's threads.

use super::threads::begin;
use rayon::iter::{
    Enumerate, FromParallelIterator, IndexedParallelIterator, IntoParallelIterator, Map,
    ParallelIterator, Zip,
};
use rayon::slice::{Chunks, ChunksExactMut, ChunksMut, ParallelSlice, ParallelSliceMut};

/// A loop that has not begun.
pub(crate) struct Loop<I>(I);

impl<I: ParallelIterator> Loop<I> {
    pub(crate) fn map<R: Send, F: Fn(I::Item) -> R + Sync + Send>(self, f: F) -> Loop<Map<I, F>> {
        Loop(self.0.map(f))
    }

    pub(crate) fn map_init<T, R: Send>(
        self,
        init: impl Fn() -> T + Sync + Send,
        f: impl Fn(&mut T, I::Item) -> R + Sync + Send,
    ) -> Loop<impl ParallelIterator<Item = R>> {
        Loop(self.0.map_init(init, f))
    }

    pub(crate) fn for_each(self, f: impl Fn(I::Item) + Sync + Send) {
        begin(|| self.0.for_each(f));
    }

    pub(crate) fn for_each_init<T>(
        self,
        init: impl Fn() -> T + Sync + Send,
        f: impl Fn(&mut T, I::Item) + Sync + Send,
    ) {
        begin(|| self.0.for_each_init(init, f));
    }

    pub(crate) fn try_for_each<E: Send>(
        self,
        f: impl Fn(I::Item) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        begin(|| self.0.try_for_each(f))
    }

    pub(crate) fn collect<C: FromParallelIterator<I::Item> + Send>(self) -> C {
        begin(|| self.0.collect())
    }
}

impl<I: IndexedParallelIterator> Loop<I> {
    pub(crate) fn enumerate(self) -> Loop<Enumerate<I>> {
        Loop(self.0.enumerate())
    }

    pub(crate) fn zip<Z: IntoParallelIterator>(self, other: Z) -> Loop<Zip<I, Z::Iter>>
    where
        Z::Iter: IndexedParallelIterator,
    {
        Loop(self.0.zip(other))
    }
}

/// Lets a loop be zipped with another.
impl<I: ParallelIterator> IntoParallelIterator for Loop<I> {
    type Iter = I;
    type Item = I::Item;
    fn into_par_iter(self) -> I {
        self.0
    }
}

/// Loops over owned items.
pub(crate) trait IntoLoop: IntoParallelIterator + Sized {
    fn into_par_iter(self) -> Loop<Self::Iter> {
        Loop(IntoParallelIterator::into_par_iter(self))
    }
}

impl<T: IntoParallelIterator> IntoLoop for T {}

/// Loops over shared references.
pub(crate) trait RefLoop<'a> {
    type Iter: ParallelIterator;
    fn par_iter(&'a self) -> Loop<Self::Iter>;
}

impl<'a, T: ?Sized + 'a> RefLoop<'a> for T
where
    &'a T: IntoParallelIterator,
{
    type Iter = <&'a T as IntoParallelIterator>::Iter;
    fn par_iter(&'a self) -> Loop<Self::Iter> {
        Loop(IntoParallelIterator::into_par_iter(self))
    }
}

/// Loops over mutable references.
pub(crate) trait MutLoop<'a> {
    type Iter: ParallelIterator;
    fn par_iter_mut(&'a mut self) -> Loop<Self::Iter>;
}

impl<'a, T: ?Sized + 'a> MutLoop<'a> for T
where
    &'a mut T: IntoParallelIterator,
{
    type Iter = <&'a mut T as IntoParallelIterator>::Iter;
    fn par_iter_mut(&'a mut self) -> Loop<Self::Iter> {
        Loop(IntoParallelIterator::into_par_iter(self))
    }
}

/// Loops over pieces of a slice.
pub(crate) trait ChunkLoop<T> {
    fn par_chunks(&self, size: usize) -> Loop<Chunks<'_, T>>
    where
        T: Sync;
    fn par_chunks_mut(&mut self, size: usize) -> Loop<ChunksMut<'_, T>>
    where
        T: Send;
    fn par_chunks_exact_mut(&mut self, size: usize) -> Loop<ChunksExactMut<'_, T>>
    where
        T: Send;
}

impl<T> ChunkLoop<T> for [T] {
    fn par_chunks(&self, size: usize) -> Loop<Chunks<'_, T>>
    where
        T: Sync,
    {
        Loop(ParallelSlice::par_chunks(self, size))
    }

    fn par_chunks_mut(&mut self, size: usize) -> Loop<ChunksMut<'_, T>>
    where
        T: Send,
    {
        Loop(ParallelSliceMut::par_chunks_mut(self, size))
    }

    fn par_chunks_exact_mut(&mut self, size: usize) -> Loop<ChunksExactMut<'_, T>>
    where
        T: Send,
    {
        Loop(ParallelSliceMut::par_chunks_exact_mut(self, size))
    }
}
