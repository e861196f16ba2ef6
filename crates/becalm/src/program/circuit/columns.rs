//! The binary digits of a sum of bits of several weights: columns are added from the lowest, as many bits at once as a rotation
//! takes. A step gives a digit for each result, or values of several digits for the steps after it, which cost no more noise
//! than a bit.

use super::weights::Room;
use super::{Circuit, Node, Sum, Wire};
use std::collections::{BTreeMap, VecDeque};

/// The form of the results of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Values of several digits where they are added up again: the fewest rotations.
    Values,
    /// Digits alone: the shorter path now and then.
    Bits,
}

/// A summand: the node of its lowest digit, and its greatest value.
#[derive(Debug, Clone, Copy)]
struct Item {
    wire: Wire,
    most: i64,
}

/// The bits and values that are still to be added, by exponents.
#[derive(Default)]
pub(super) struct Columns {
    items: BTreeMap<i64, VecDeque<Item>>,
}

/// A sum of items of a few columns, and the digits that its results are.
struct Step {
    /// The places of the items in each column, in order.
    taken: Vec<(i64, Vec<usize>)>,
    total: i64,
    norm: i64,
    /// The lowest digit of each result, and their number.
    fields: Vec<(u8, u8)>,
}

impl Columns {
    pub fn push(&mut self, exponent: i64, wire: Wire) {
        self.items.entry(exponent).or_default().push_back(Item { wire, most: 1 });
    }

    /// The digits of the sum up to the exponent `top`; those that are missing are 0. Adds the sums to a circuit.
    pub fn digits(
        mut self,
        to: &mut Circuit,
        top: i64,
        room: Room,
        style: Style,
    ) -> BTreeMap<i64, Wire> {
        let open = |(e, column): (&i64, &VecDeque<Item>)| {
            let done = column.len() < 2 && column.iter().all(|i| i.most == 1);
            (*e <= top && !done).then_some(*e)
        };
        while let Some(e) = self.items.iter().find_map(open) {
            let step = match style {
                Style::Bits => self.step_of_bits(e, top, room),
                Style::Values => self.step_of_values(e, top, room),
            };
            self.apply(step, to, e);
        }
        let first = |(e, column): (i64, VecDeque<Item>)| Some((e, column.front()?.wire));
        self.items.into_iter().filter_map(first).filter(|(e, _)| *e <= top).collect()
    }

    /// The sum that the most bits go for a rotation by, and of as many the widest.
    fn step_of_bits(&self, e: i64, top: i64, room: Room) -> Step {
        let mut best: Option<(f64, Step)> = None;
        for values in (0..).map(|t| room.values >> t).take_while(|v| *v > 3) {
            let mut step = self.widest(e, top, Room { values, ..room });
            let digits = (64 - step.total.leading_zeros() as i64).min(top + 1 - e).max(1) as u8;
            step.fields = (0..digits).map(|d| (d, 1)).collect();
            let gain = (step.len() as f64 - f64::from(digits)) / step.rotations(room.values) as f64;
            if best.as_ref().is_none_or(|(g, s)| gain > *g || (gain == *g && step.len() >= s.len()))
            {
                best = Some((gain, step));
            }
        }
        best.map(|b| b.1).unwrap_or_else(|| self.widest(e, top, room))
    }

    /// The bits of each column from the lowest, as long as all of a column fit.
    fn widest(&self, e: i64, top: i64, room: Room) -> Step {
        let mut step = Step { taken: vec![], total: 0, norm: 0, fields: vec![] };
        let mut weight = 1;
        for at in e..=top {
            let column = self.items.get(&at);
            let left = ((room.values - 1 - step.total) / weight)
                .min((room.norm - step.norm) / (weight * weight));
            let count = column.map_or(0, VecDeque::len).min(left.max(0) as usize);
            step.taken.push((at, (0..count).collect()));
            step.total += weight * count as i64;
            step.norm += weight * weight * count as i64;
            if column.is_some_and(|c| c.len() > count) || weight > room.values {
                break;
            }
            weight *= 2;
        }
        step
    }

    /// Closes the lowest column and those after it that fit too, or takes as much of it as fits and gives two values.
    fn step_of_values(&self, e: i64, top: i64, room: Room) -> Step {
        let mut step = Step { taken: vec![], total: 0, norm: 0, fields: vec![] };
        let fits = |s: &Step| s.total < room.values && s.norm <= room.norm;
        let column = |at: i64| self.items.get(&at).into_iter().flatten();
        let mut closed = 0u8;
        while e + i64::from(closed) <= top {
            let (at, weight) = (e + i64::from(closed), 1i64 << closed);
            let total = step.total + weight * column(at).map(|i| i.most).sum::<i64>();
            let norm = step.norm + weight * weight * column(at).count() as i64;
            // No digit is left above.
            let over = total >> closed == 0;
            if over || total >= room.values || norm > room.norm {
                break;
            }
            (step.total, step.norm) = (total, norm);
            step.taken.push((at, (0..column(at).count()).collect()));
            closed += 1;
        }
        if closed == 0 {
            let mut taken = vec![];
            for (i, item) in column(e).enumerate() {
                let more =
                    Step { total: step.total + item.most, norm: step.norm + 1, ..Step::none() };
                if fits(&more) {
                    (step.total, step.norm) = (more.total, more.norm);
                    taken.push(i);
                }
                if step.total == room.values - 1 {
                    break;
                }
            }
            step.taken.push((e, taken));
            let digits = (64 - step.total.leading_zeros()) as u8;
            let low = (digits / 2).max(1);
            step.fields = vec![(0, low), (low, digits - low)];
        } else {
            let digits = (64 - step.total.leading_zeros()).max(1) as u8;
            let above = |at: &i64| *at >= e + i64::from(closed) && *at <= top;
            let last = self.items.iter().all(|(at, c)| !above(at) || c.is_empty());
            let alone = if last { digits } else { closed.min(digits) };
            step.fields = (0..alone).map(|d| (d, 1)).collect();
            step.fields.push((alone, digits - alone));
        }
        step.fields.retain(|(at, width)| *width > 0 && e + i64::from(*at) <= top);
        step
    }

    fn apply(&mut self, step: Step, to: &mut Circuit, e: i64) {
        let mut terms: BTreeMap<usize, i64> = BTreeMap::new();
        let mut offset = 0;
        for (at, places) in &step.taken {
            let column = self.items.entry(*at).or_default();
            let weight = 1i64 << (at - e);
            for place in places.iter().rev() {
                let Some(Item { wire, most }) = column.remove(*place) else { continue };
                let sign = if wire.negated() { -1 } else { 1 };
                offset += if wire.negated() { weight } else { 0 };
                for digit in 0..64 - most.leading_zeros() as usize {
                    // The node 0 is the constant 0.
                    *terms.entry(wire.node() + digit).or_default() +=
                        if wire.node() == 0 { 0 } else { (sign * weight) << digit };
                }
            }
        }
        let terms = terms.into_iter().filter(|t| t.1 != 0).collect();
        to.sums.push(Sum { terms, offset, limit: step.total });
        let sum = to.sums.len() as u32 - 1;
        for (place, width) in step.fields {
            let wire = Wire::new(to.nodes.len());
            to.nodes.push(Node::Digit(sum, place));
            to.nodes.extend((1..width).map(|d| Node::Upper(sum, place + d)));
            let most = (step.total >> place).min((1 << width) - 1);
            self.items.entry(e + i64::from(place)).or_default().push_back(Item { wire, most });
        }
    }
}

impl Circuit {
    /// How many rotations its sums take.
    pub(super) fn rotations_of_sums(&self, room: Room) -> usize {
        let mut results = vec![0usize; self.sums.len()];
        for node in &self.nodes {
            if let Node::Digit(sum, _) = node {
                results[*sum as usize] += 1;
            }
        }
        let of = |(sum, count): (&Sum, usize)| count.div_ceil(results_of(sum.limit, room.values));
        self.sums.iter().zip(results).map(of).sum()
    }
}

/// How many results a rotation of a sum has.
fn results_of(limit: i64, values: i64) -> usize {
    1 << (values / (limit + 1)).max(1).ilog2()
}

impl Step {
    fn none() -> Step {
        Step { taken: vec![], total: 0, norm: 0, fields: vec![] }
    }

    fn len(&self) -> usize {
        self.taken.iter().map(|t| t.1.len()).sum()
    }

    fn rotations(&self, values: i64) -> usize {
        self.fields.len().div_ceil(results_of(self.total, values))
    }
}
