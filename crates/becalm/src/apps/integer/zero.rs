//! Whether all of many sums are 0.
//!
//! Sums are packed into groups: a group is one sum that is 0 where all its members are, so that one table tells. A group gives a
//! flag, which enters another group beside the members there: the groups are a tree, and each costs one bootstrap.

use crate::Result;
use crate::apps::circuit::{Aim, Circuit, NORM2, ROOM, Sum};
use std::collections::{HashSet, VecDeque};

/// How many sums that do not fit are passed over in the search for one that does.
const AHEAD: usize = 16;

/// Sums of which so many are grouped in several ways, to see which takes the fewest bootstraps. It takes time in each.
const SEARCHED: usize = 4096;

/// How many flags an empty group takes along.
const EMPTY: usize = ROOM as usize - 1;

/// Bounds of a group that takes flags along: the differences that its sum may have, and its noise.
const INNER: (i64, i64) = (12, 16);

/// Bounds of a group that need not.
const OUTER: (i64, i64) = (ROOM - 1, NORM2);

/// The weight of `y` with which `x + weight·y` is 0 only where both are.
fn weight(x: &Sum, y: &Sum) -> i64 {
    let up = if y.high > 0 { 1 - x.low } else { 1 };
    let down = if y.low < 0 { 1 + x.high } else { 1 };
    up.max(down)
}

/// The weight of flags in a group.
fn of_flags(group: &Sum) -> i64 {
    if -group.low <= group.high { 1 - group.low } else { -1 - group.high }
}

/// Groups of which each enters another one.
#[derive(Debug, PartialEq)]
struct Tree {
    /// How many empty groups stand before the others.
    empty: usize,
    /// The place of the group that each but the first enters, level by level.
    enters: Vec<usize>,
    levels: usize,
}

impl Tree {
    /// The tree of groups that take so many flags along, the most first: the fewest empty groups that keep to the levels.
    fn of(takes: &[usize], levels: usize) -> Tree {
        let all = takes.len() - 1;
        let fewest = |taken: usize| all.saturating_sub(taken).div_ceil(EMPTY - 1);
        let (mut low, mut high) = (fewest(takes.iter().sum()), fewest(0));
        while low < high {
            let middle = (low + high) / 2;
            match Tree::with(takes, middle).is_some_and(|tree| tree.levels <= levels) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let whole = || Tree { empty: 0, enters: vec![0; all], levels: 2 };
        Tree::with(takes, high).unwrap_or_else(whole)
    }

    /// The tree with some empty groups in front, if all have a place.
    fn with(takes: &[usize], empty: usize) -> Option<Tree> {
        let all = std::iter::repeat_n(EMPTY, empty).chain(takes.iter().copied());
        let slots = all.enumerate().flat_map(|(at, count)| std::iter::repeat_n(at, count));
        let count = empty + takes.len() - 1;
        let enters: Vec<usize> = slots.take(count).collect();
        let mut level = vec![1];
        for at in &enters {
            // Each enters one before itself.
            level.push(level.get(*at)? + 1);
        }
        let levels = level.into_iter().max()?;
        (enters.len() == count).then_some(Tree { empty, enters, levels })
    }
}

impl Circuit<'_> {
    /// 1 if every sum is 0; each takes at most 16 values.
    pub(super) fn all_zero(&mut self, sums: &[Sum]) -> Result<Sum> {
        if sums.iter().any(|s| s.low > 0 || s.high < 0) {
            return Ok(Sum::clear(0));
        }
        // Each once, and no constant: the digits of a sign that was extended are all the same.
        let mut seen = HashSet::new();
        let open = sums.iter().filter(|s| s.constant().is_none());
        let mut sums: Vec<&Sum> = open.filter(|s| seen.insert(*s)).collect();
        // Those of both signs begin groups, others join them.
        sums.sort_by_key(|s| s.low == 0 || s.high == 0);
        let mut groups = self.grouped(&sums);
        let Tree { empty, enters, .. } = self.tree(&groups);
        groups.splice(..0, (0..empty).map(|_| Sum::clear(0)));
        let weights: Vec<i64> = groups.iter().map(of_flags).collect();
        for at in (1..groups.len()).rev() {
            let to = enters[at - 1];
            let flag = self.map(&groups[at], |x| weights[to] * i64::from(x != 0))?;
            groups[to] = &groups[to] + &flag;
        }
        self.map(&groups[0], |x| i64::from(x == 0))
    }

    /// The groups with the fewest bootstraps, those first that take the most flags along.
    fn grouped(&self, sums: &[&Sum]) -> Vec<Sum> {
        let made = |inner: usize| {
            let mut groups = self.packed(sums, inner);
            groups.sort_by_cached_key(|g| std::cmp::Reverse(self.flags(g)));
            let empty = self.tree(&groups).empty;
            (groups, empty)
        };
        let (plain, empty) = made(0);
        if self.aim() == Aim::Depth || empty == 0 || sums.len() > SEARCHED {
            return plain;
        }
        // As few groups with room for flags as save all empty ones.
        let (mut low, mut high) = (0, plain.len());
        while low + 1 < high {
            let middle = (low + high) / 2;
            if made(middle).1 == 0 { high = middle } else { low = middle }
        }
        let (other, left) = made(high);
        if other.len() + left < plain.len() + empty { other } else { plain }
    }

    /// The tree of some groups: on the shortest path with no more levels than if none took flags along.
    fn tree(&self, groups: &[Sum]) -> Tree {
        let levels = match self.aim() {
            Aim::Work => usize::MAX,
            Aim::Depth => Tree::of(&vec![0; groups.len()], usize::MAX).levels,
        };
        let takes: Vec<usize> = groups.iter().map(|g| self.flags(g)).collect();
        Tree::of(&takes, levels)
    }

    /// How many flags a group has room for.
    fn flags(&self, group: &Sum) -> usize {
        let room = (ROOM - 1 - (group.high - group.low)) / of_flags(group).abs();
        room.min(NORM2 - self.norm2(group)).max(0) as usize
    }

    /// The sums in groups, the first `inner` of which have room for flags. At least one group, which may be empty.
    fn packed(&self, sums: &[&Sum], inner: usize) -> Vec<Sum> {
        let mut queue: VecDeque<&Sum> = sums.iter().copied().collect();
        let mut groups = vec![];
        while let Some(first) = queue.pop_front() {
            let bounds = if groups.len() < inner { INNER } else { OUTER };
            let (mut group, mut passed) = (first.clone(), vec![]);
            let full = |s: &Sum| s.high - s.low >= bounds.0 || self.norm2(s) >= bounds.1;
            while passed.len() < AHEAD
                && !full(&group)
                && let Some(next) = queue.pop_front()
            {
                match self.joined(&group, next, bounds) {
                    Some(both) => group = both,
                    None => passed.push(next),
                }
            }
            passed.into_iter().rev().for_each(|s| queue.push_front(s));
            groups.push(group);
        }
        if groups.is_empty() { vec![Sum::clear(0)] } else { groups }
    }

    /// The narrowest sum that is 0 where two are, if it keeps to the bounds.
    fn joined(&self, a: &Sum, b: &Sum, (width, noise): (i64, i64)) -> Option<Sum> {
        let turned = -b;
        let forms = [(a, b), (a, &turned), (b, a), (&turned, a)];
        let sums = forms.iter().map(|(x, y)| *x + &y.times(weight(x, y)));
        let least = sums.min_by_key(|s| s.high - s.low)?;
        (least.high - least.low <= width && self.norm2(&least) <= noise).then_some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_enters_one_before_it() {
        for takes in [&[0; 40][..], &[9, 9, 0, 0, 0, 0, 0], &[2; 33], &[0], &[3, 1, 1, 1, 0, 0]] {
            for levels in [3, usize::MAX] {
                let Tree { empty, enters, levels: own } = Tree::of(takes, levels);
                assert_eq!(enters.len(), empty + takes.len() - 1);
                assert!(own <= levels && enters.iter().enumerate().all(|(i, at)| *at <= i));
                let most = |at: usize| if at < empty { 15 } else { takes[at - empty] };
                for at in 0..empty + takes.len() {
                    assert!(enters.iter().filter(|e| **e == at).count() <= most(at));
                }
            }
        }
        assert_eq!(Tree::of(&[0; 40], 3).empty, 3);
        let (least, flat) = (Tree::of(&[2; 32], usize::MAX), Tree::of(&[2; 32], 3));
        assert_eq!((least.empty, least.levels, flat.empty, flat.levels), (0, 6, 1, 3));
    }
}
