//! Linear forms that carry boolean functions: weights w_i and an offset such that f(x) depends on Σ w_i·x_i + offset alone.
//!
//! A lookup reads one integer below p, and its noise grows with Σ w_i². Powers of two tell all inputs apart, but most
//! functions need less: XOR of k bits is a table of their sum (w = 1), a full adder's sum and carry are two tables of the same
//! sum. The search assigns weights from the last input on; two partial assignments of equal sum must leave equal
//! functions of the other inputs, which prunes it to microseconds.

/// Most inputs of a function: its truth table is a word.
pub(super) const MAX_INPUTS: usize = 6;

/// What a lookup's argument may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Room {
    /// Values that it may take: 0..values.
    pub values: i64,
    /// Bound of Σ w_i².
    pub norm: i64,
}

/// Σ weights·x + offset, in 0..=Σ |weights|.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    pub weights: Vec<i64>,
    pub offset: i64,
}

impl Form {
    fn of(weights: Vec<i64>) -> Self {
        let offset = -weights.iter().filter(|w| **w < 0).sum::<i64>();
        Form { weights, offset }
    }

    /// The greatest value.
    pub fn limit(&self) -> i64 {
        self.weights.iter().map(|w| w.abs()).sum()
    }

    /// The table of a function of the inputs, given by its truth table. Values that no inputs give are 0.
    pub fn table(&self, function: u64) -> Vec<u64> {
        let mut table = vec![0; self.limit() as usize + 1];
        for x in 0..1usize << self.weights.len() {
            let chosen = self.weights.iter().enumerate().filter(|(i, _)| (x >> i) & 1 == 1);
            let at = self.offset + chosen.map(|(_, w)| w).sum::<i64>();
            table[at as usize] = (function >> x) & 1;
        }
        table
    }
}

struct Search<'a> {
    functions: &'a [u64],
    inputs: usize,
    room: Room,
    weights: Vec<i64>,
    best: Option<Form>,
    bound: i64,
}

/// The form of least Σ w² that carries all functions of `inputs` variables, if there is one in the room.
pub(super) fn find(functions: &[u64], inputs: usize, room: Room) -> Option<Form> {
    let bound = room.norm + 1;
    let mut search =
        Search { functions, inputs, room, weights: vec![0; inputs], best: None, bound };
    search.assign(inputs, &[0], 0, 0);
    search.best
}

impl Search<'_> {
    /// Chooses the weight of input `left` − 1. `sums`: what the assignments of the inputs from `left` on sum up to.
    fn assign(&mut self, left: usize, sums: &[i64], total: i64, norm: i64) {
        if left == 0 {
            self.bound = norm;
            self.best = Some(Form::of(self.weights.clone()));
            return;
        }
        let others = left as i64 - 1;
        for size in 1.. {
            // Every other input weighs 1 at least.
            let (total, norm) = (total + size, norm + size * size);
            if total + others >= self.room.values || norm + others >= self.bound {
                return;
            }
            // The sign of the first weight is free.
            let signs: &[i64] = if left == self.inputs { &[1] } else { &[1, -1] };
            for sign in signs {
                let weight = size * sign;
                let next: Vec<i64> = sums.iter().flat_map(|s| [*s, s + weight]).collect();
                if self.consistent(left - 1, &next) {
                    self.weights[left - 1] = weight;
                    self.assign(left - 1, &next, total, norm);
                }
            }
        }
    }

    /// Whether equal sums leave equal functions of the first `left` inputs; `sums[x]` belongs to assignment x of the others.
    fn consistent(&self, left: usize, sums: &[i64]) -> bool {
        let bits = 1u32 << left;
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let rest = |f: u64, x: usize| (f >> (x as u32 * bits)) & mask;
        (1..sums.len()).all(|x| {
            (0..x)
                .filter(|y| sums[*y] == sums[x])
                .all(|y| self.functions.iter().all(|f| rest(*f, x) == rest(*f, y)))
        })
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
        form.weights.iter().map(|w| w * w).sum()
    }

    fn check(form: &Form, functions: &[u64], room: Room) {
        assert!(form.limit() < room.values && norm(form) <= room.norm, "{form:?}");
        for f in functions {
            let table = form.table(*f);
            for x in 0..1usize << form.weights.len() {
                let sum: i64 =
                    (0..form.weights.len()).map(|i| ((x >> i) & 1) as i64 * form.weights[i]).sum();
                assert_eq!(table[(sum + form.offset) as usize], (f >> x) & 1, "{form:?} at {x}");
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
