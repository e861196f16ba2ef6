//! Linear forms that carry boolean functions: weights w_i and an offset such that f(x) depends on Σ w_i·x_i + offset alone.
//!
//! A lookup reads one integer below p, and its noise grows with Σ w_i². Powers of two tell all inputs apart, but most
//! functions need less: XOR of k bits is a table of their sum (w = 1), a full adder's sum and carry are two tables of the same
//! sum. The search assigns weights from the last input on; two partial assignments of equal sum must leave equal
//! functions of the other inputs, which are nodes of one decision diagram. That prunes it to microseconds.

/// Most inputs of a function: its truth table is a word.
pub(super) const MAX_INPUTS: usize = 6;

/// The form of a lookup's argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Room {
    /// Values that it may take: 0..values.
    pub values: i64,
    /// Bound of Σ w_i².
    pub norm: i64,
}

/// Σ weights·x + offset, in 0..=Σ |weights|.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    weights: [i64; MAX_INPUTS],
    len: usize,
    pub offset: i64,
}

impl Form {
    pub fn of(given: &[i64]) -> Self {
        let mut weights = [0; MAX_INPUTS];
        weights[..given.len()].copy_from_slice(given);
        let offset = -given.iter().filter(|w| **w < 0).sum::<i64>();
        Form { weights, len: given.len(), offset }
    }

    pub fn weights(&self) -> &[i64] {
        &self.weights[..self.len]
    }

    /// The greatest value.
    pub fn limit(&self) -> i64 {
        self.weights.iter().map(|w| w.abs()).sum()
    }

    /// The table of a function of the inputs, given by its truth table. Values that no inputs give are 0.
    pub fn table(&self, function: u64) -> Vec<bool> {
        let mut table = vec![false; self.limit() as usize + 1];
        for x in 0..1usize << self.len {
            let chosen = self.weights().iter().enumerate().filter(|(i, _)| (x >> i) & 1 == 1);
            let at = self.offset + chosen.map(|(_, w)| w).sum::<i64>();
            table[at as usize] = (function >> x) & 1 == 1;
        }
        table
    }
}

/// A node of the decision diagram of all functions at once: its branches for 0 and for 1. Equal nodes are one.
type Branches = [u8; 2];

/// The sums of partial assignments, each once, and the function of the other inputs that each leaves.
struct Sums {
    len: usize,
    all: [(i16, u8); 1 << MAX_INPUTS],
}

struct Search {
    inputs: usize,
    room: Room,
    /// For each number of inputs that are left, the branches of its nodes.
    levels: [[Branches; 1 << MAX_INPUTS]; MAX_INPUTS + 1],
    /// Whether input i and input i + 1 can be swapped.
    alike: [bool; MAX_INPUTS],
    weights: [i64; MAX_INPUTS],
    best: Option<Form>,
    bound: i64,
}

/// The form of least Σ w² that carries all functions of `inputs` variables, at most 64 of them, if there is one in the room.
pub(super) fn find(functions: &[u64], inputs: usize, room: Room) -> Option<Form> {
    let mut search = Search {
        inputs,
        room,
        levels: [[[0; 2]; 1 << MAX_INPUTS]; MAX_INPUTS + 1],
        alike: [false; MAX_INPUTS],
        weights: [0; MAX_INPUTS],
        best: None,
        bound: room.norm + 1,
    };
    let root = search.diagram(functions)?;
    let mut sums = Sums { len: 1, all: [(0, 0); 1 << MAX_INPUTS] };
    sums.all[0].1 = root;
    search.assign(inputs, &sums, 0, 0);
    search.best
}

impl Search {
    /// Builds the diagram from below; its root. `None` if there are more results to tell apart than the room has values.
    fn diagram(&mut self, functions: &[u64]) -> Option<u8> {
        let label = |x: usize| functions.iter().fold(0u64, |l, f| l << 1 | (f >> x & 1));
        let (mut known, mut count) = ([0; 1 << MAX_INPUTS], 0);
        let mut ids = [0u8; 1 << MAX_INPUTS];
        for (x, id) in ids.iter_mut().enumerate().take(1 << self.inputs) {
            let label = label(x);
            let at = known[..count].iter().position(|l| *l == label);
            *id = at.unwrap_or(count) as u8;
            if at.is_none() {
                (known[count], count) = (label, count + 1);
            }
        }
        if count as i64 > self.room.values {
            return None;
        }
        for left in 1..=self.inputs {
            let (level, mut count) = (&mut self.levels[left], 0);
            for x in 0..1 << (self.inputs - left) {
                let pair = [ids[2 * x], ids[2 * x + 1]];
                let at = level[..count].iter().position(|p| *p == pair);
                ids[x] = at.unwrap_or(count) as u8;
                if at.is_none() {
                    (level[count], count) = (pair, count + 1);
                }
            }
            if count as i64 > self.room.values {
                return None;
            }
            if left > 1 {
                let below = &self.levels[left - 1];
                self.alike[left - 2] = self.levels[left][..count]
                    .iter()
                    .all(|[low, high]| below[usize::from(*low)][1] == below[usize::from(*high)][0]);
            }
        }
        Some(ids[0])
    }

    /// Chooses the weight of input `left` − 1.
    fn assign(&mut self, left: usize, sums: &Sums, total: i64, norm: i64) {
        if left == 0 {
            self.bound = norm;
            self.best = Some(Form::of(&self.weights[..self.inputs]));
            return;
        }
        let others = left as i64 - 1;
        // Of inputs that can be swapped the last has the smallest weight.
        let first = match left < self.inputs && self.alike[left - 1] {
            true => self.weights[left].abs(),
            false => 1,
        };
        for size in first.. {
            // Every other input weighs 1 at least.
            let (total, norm) = (total + size, norm + size * size);
            if total + others >= self.room.values || norm + others >= self.bound {
                return;
            }
            // The sign of the first weight is free.
            let signs: &[i64] = if left == self.inputs { &[1] } else { &[1, -1] };
            for sign in signs {
                if let Some(next) = self.with(left, sums, (size * sign) as i16) {
                    self.weights[left - 1] = size * sign;
                    self.assign(left - 1, &next, total, norm);
                }
            }
        }
    }

    /// The sums with a weight for input `left` − 1; `None` where equal ones leave different functions.
    fn with(&self, left: usize, sums: &Sums, weight: i16) -> Option<Sums> {
        let mut next = Sums { len: 0, all: [(0, 0); 1 << MAX_INPUTS] };
        let (old, branches) = (&sums.all[..sums.len], &self.levels[left]);
        let (mut i, mut j) = (0, 0);
        while i < old.len() || j < old.len() {
            let low = old.get(i).map(|(s, n)| (*s, branches[usize::from(*n)][0]));
            let high = old.get(j).map(|(s, n)| (*s + weight, branches[usize::from(*n)][1]));
            let least = match (low, high) {
                (Some(x), Some(y)) if x.0 == y.0 && x.1 != y.1 => return None,
                (Some(x), Some(y)) => {
                    if x.0 <= y.0 {
                        x
                    } else {
                        y
                    }
                }
                (Some(x), None) | (None, Some(x)) => x,
                (None, None) => break,
            };
            i += usize::from(low.is_some_and(|x| x.0 == least.0));
            j += usize::from(high.is_some_and(|y| y.0 == least.0));
            next.all[next.len] = least;
            next.len += 1;
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn function(inputs: usize, f: impl Fn(u32) -> bool) -> u64 {
        (0..1u32 << inputs).fold(0, |t, x| t | (f(x) as u64) << x)
    }

    fn norm(form: &Form) -> i64 {
        form.weights().iter().map(|w| w * w).sum()
    }

    fn check(form: &Form, functions: &[u64], room: Room) {
        assert!(form.limit() < room.values && norm(form) <= room.norm, "{form:?}");
        for f in functions {
            let table = form.table(*f);
            for x in 0..1usize << form.weights().len() {
                let sum: i64 =
                    form.weights().iter().enumerate().map(|(i, w)| ((x >> i) & 1) as i64 * w).sum();
                assert_eq!(
                    table[(sum + form.offset) as usize],
                    (f >> x) & 1 == 1,
                    "{form:?} at {x}"
                );
            }
        }
    }

    #[test]
    fn known_forms() {
        let room = Room { values: 16, norm: 25 };
        let parity = function(6, |x| x.count_ones() % 2 == 1);
        assert_eq!(find(&[parity], 6, room).map(|f| norm(&f)), Some(6));
        let carry = function(3, |x| x.count_ones() > 1);
        let sum = function(3, |x| x.count_ones() % 2 == 1);
        let adder = find(&[carry, sum], 3, Room { values: 4, norm: 3 }).unwrap();
        assert_eq!(adder.limit(), 3);
        // The carry of two bits, 2(a1 + b1) + a0 + b0 + c.
        let carry2 = function(5, |x| {
            2 * ((x >> 3 & 1) + (x >> 4 & 1)) + (x & 1) + (x >> 1 & 1) + (x >> 2 & 1) > 3
        });
        assert_eq!(find(&[carry2], 5, room).map(|f| norm(&f)), Some(11));
        // A multiplexer's data and address must all be told apart but for one pair.
        let mux = function(3, |x| if x & 4 != 0 { x & 1 != 0 } else { x & 2 != 0 });
        check(&find(&[mux], 3, room).unwrap(), &[mux], room);
        assert_eq!(find(&[mux], 3, Room { values: 4, norm: 25 }), None);
        let all: Vec<u64> = (0..3).map(|i| function(3, |x| x >> i & 1 == 1)).collect();
        assert_eq!(find(&all, 3, room).map(|f| norm(&f)), Some(21), "1, 2 and 4");
    }

    proptest! {
        #[test]
        fn forms_carry_their_functions(f: u64, g: u64, inputs in 1usize..=5, values in 2i64..64, pair: bool) {
            let mask = if inputs == 6 { u64::MAX } else { (1 << (1 << inputs)) - 1 };
            let functions = [f & mask, g & mask];
            let functions = if pair { &functions[..] } else { &functions[..1] };
            let room = Room { values, norm: 400 };
            match find(functions, inputs, room) {
                Some(form) => check(&form, functions, room),
                // Powers of two carry everything.
                None => prop_assert!(values < 1 << inputs || inputs > 4, "no form in {:?}", room),
            }
        }
    }
}
