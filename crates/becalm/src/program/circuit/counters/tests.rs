//! Counts in every spelling that the compiler knows, and circuits that only look like one.

use super::super::restructure::Chains;
use super::super::weights::Room;
use super::super::{Circuit, Port, Wire};
use crate::params::TfheParams;
use crate::program::circuit::Goal;
use proptest::prelude::*;
use std::sync::Arc;

const ROOM: Room = Room { values: 16, norm: 25 };

/// How bits are added up.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// One after another, by a number that becomes a bit wider each time.
    Chain,
    /// The same, cut to the width that the count can have.
    Cut,
    /// Pairs of numbers.
    Tree,
    /// Three bits of one weight at once.
    Save,
}

const FORMS: [Form; 4] = [Form::Chain, Form::Cut, Form::Tree, Form::Save];

/// A circuit that is being written.
struct Sketch {
    to: Circuit,
    /// How a carry is spelled.
    carry: u8,
    /// All sums and carries.
    made: Vec<Wire>,
}

impl Sketch {
    fn new(bits: usize, carry: u8) -> (Sketch, Vec<Wire>) {
        let mut to = Circuit::empty();
        let wires: Vec<Wire> = (0..bits).map(|_| to.input()).collect();
        to.inputs = vec![Port { name: "x".into(), wires: wires.clone() }];
        (Sketch { to, carry, made: vec![] }, wires)
    }

    fn add_bits(&mut self, [a, b, c]: [Wire; 3]) -> (Wire, Wire) {
        let to = &mut self.to;
        let half = to.xor(a, b);
        let sum = to.xor(half, c);
        let carry = match self.carry {
            0 => {
                let other = to.xor(a, c);
                let both = to.and(half, other);
                to.xor(a, both)
            }
            1 => {
                let (x, y) = (to.and(a, b), to.and(half, c));
                to.or(x, y)
            }
            2 => {
                let (x, y, z) = (to.and(a, b), to.and(a, c), to.and(b, c));
                let either = to.or(x, y);
                to.or(either, z)
            }
            _ => {
                let (x, y) = (to.and(a, b), to.and(half, c));
                to.xor(x, y)
            }
        };
        self.made.extend([sum, carry]);
        (sum, carry)
    }

    fn add(&mut self, a: &[Wire], b: &[Wire]) -> Vec<Wire> {
        let (mut carry, mut sums) = (Wire::ZERO, vec![]);
        for i in 0..a.len().max(b.len()) {
            let bit = |of: &[Wire]| of.get(i).copied().unwrap_or(Wire::ZERO);
            let (sum, next) = self.add_bits([bit(a), bit(b), carry]);
            sums.push(sum);
            carry = next;
        }
        sums.push(carry);
        sums
    }

    fn count(&mut self, bits: &[Wire], form: Form) -> Vec<Wire> {
        let width = |count: usize| (usize::BITS - count.leading_zeros()) as usize;
        match form {
            Form::Chain | Form::Cut => {
                let mut sum = vec![bits[0]];
                for (i, bit) in bits.iter().enumerate().skip(1) {
                    sum = self.add(&sum, &[*bit]);
                    if form == Form::Cut {
                        sum.truncate(width(i + 1));
                    }
                }
                sum
            }
            Form::Tree => {
                let mut all: Vec<Vec<Wire>> = bits.iter().map(|b| vec![*b]).collect();
                while all.len() > 1 {
                    let pairs = all.chunks(2).map(|pair| match pair {
                        [a, b] => self.add(a, b),
                        other => other.concat(),
                    });
                    all = pairs.collect();
                }
                all.remove(0)
            }
            Form::Save => {
                let mut columns = vec![bits.to_vec()];
                let mut sums = vec![];
                while let Some(mut column) = columns.pop().filter(|c| !c.is_empty()) {
                    let mut next = vec![];
                    while column.len() > 1 {
                        let third = if column.len() > 2 { column.remove(2) } else { Wire::ZERO };
                        let (b, a) = (column.remove(1), column.remove(0));
                        let (sum, carry) = self.add_bits([a, b, third]);
                        column.push(sum);
                        next.push(carry);
                    }
                    sums.push(column[0]);
                    columns.push(next);
                }
                sums
            }
        }
    }

    fn finish(mut self, outputs: Vec<Wire>) -> Circuit {
        self.to.outputs = vec![Port { name: "y".into(), wires: outputs }];
        self.to
    }
}

/// A form alone, and the fewest rotations of its counters if nothing but them is left.
fn plain(bits: usize, form: Form, carry: u8) -> Option<usize> {
    let (mut sketch, wires) = Sketch::new(bits, carry);
    let outputs = sketch.count(&wires, form);
    let circuit = sketch.finish(outputs).restructured(Chains::Keep);
    let counted = circuit.counted(ROOM);
    let whole = counted.iter().filter(|c| c.gates() == (0, 0));
    whole.map(|c| c.rotations_of_sums(ROOM)).min()
}

#[test]
fn every_spelling_of_a_count_is_found() {
    for (bits, most) in [(7, 2), (15, 4), (31, 8), (64, 18), (70, 19)] {
        for (form, carry) in FORMS.into_iter().flat_map(|f| (0..4).map(move |c| (f, c))) {
            let found = plain(bits, form, carry);
            assert!(found.is_some_and(|f| f <= most), "{bits} {form:?} {carry}: {found:?}");
        }
    }
}

/// What reads a count, what is counted, and how many bootstraps that takes.
#[test]
fn counts_cost_the_same_in_every_form() {
    let params = Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone());
    type Reader = fn(&mut Sketch, &[Wire], Form) -> Vec<Wire>;
    let above: Reader = |s, bits, form| {
        let sum = s.count(bits, form);
        vec![sum[4..].iter().fold(Wire::ZERO, |any, bit| s.to.or(any, *bit))]
    };
    let halves: Reader = |s, bits, form| {
        let (a, b) = (s.count(&bits[..16], form), s.count(&bits[16..], form));
        s.add(&a, &b)
    };
    let distance: Reader = |s, bits, form| {
        let pairs: Vec<Wire> =
            bits.chunks(2).map(|p| s.to.xor(p[0], p[p.len() - 1].not())).collect();
        s.count(&pairs, form)
    };
    let low: Reader = |s, bits, form| s.count(bits, form)[..3].to_vec();
    for (name, reader, most) in
        [("above 15", above, 8), ("halves", halves, 8), ("distance", distance, 21), ("low", low, 8)]
    {
        for form in FORMS {
            let (mut sketch, wires) = Sketch::new(31, 0);
            let outputs = reader(&mut sketch, &wires, form);
            let circuit = sketch.finish(outputs);
            let cost = circuit.compile(&params, Goal::Bootstraps).unwrap().program.cost();
            // A tree of additions over gates is found in part.
            let most = if (name, form) == ("distance", Form::Tree) { 32 } else { most };
            assert!(cost.bootstraps <= most, "{name} {form:?}: {}", cost.bootstraps);
        }
    }
}

/// A choice between two bits, as traced functions record it: the first where `when` is 1.
fn chosen(to: &mut Circuit, when: Wire, [yes, no]: [Wire; 2]) -> Wire {
    let differ = to.xor(yes, no);
    let change = to.and(differ, when);
    to.xor(no, change)
}

/// `if b { s += 1 }` for every bit is a count. So is the sum of one number and another with a carry.
#[test]
fn counts_by_choices_and_carries_into_sums_are_found() {
    let params = Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone());
    let cost = |circuit: Circuit| {
        circuit.compile(&params, Goal::Bootstraps).unwrap().program.cost().bootstraps
    };
    for (bits, most) in [(31, 8), (64, 18)] {
        let (mut sketch, wires) = Sketch::new(bits, 0);
        let mut sum = vec![wires[0]];
        for (i, bit) in wires.iter().enumerate().skip(1) {
            let next = sketch.add(&sum, &[Wire::ONE]);
            sum.push(Wire::ZERO);
            let pairs = next.iter().zip(&sum);
            sum = pairs.map(|(a, b)| chosen(&mut sketch.to, *bit, [*a, *b])).collect();
            sum.truncate((usize::BITS - (i + 1).leading_zeros()) as usize);
        }
        let found = cost(sketch.finish(sum));
        assert!(found <= most, "{bits}: {found}");
    }
    let names = ["x + y + 1", "x + y + c", "x - y - 1"];
    // Behind two additions of constants the second spelling of a carry is not found.
    let forms = (0..3).flat_map(|c| [(24, 0), (25, 1)].map(|form| (c, form)));
    for (case, (bits, carry)) in forms.filter(|(case, (_, carry))| (*case, *carry) != (2, 1)) {
        let (mut sketch, wires) = Sketch::new(2 * bits + 1, carry);
        let (x, y) = (&wires[..bits], &wires[bits..2 * bits]);
        let negated: Vec<Wire> = y.iter().map(|w| w.not()).collect();
        let addends = match case {
            0 => vec![y.to_vec(), vec![Wire::ONE]],
            1 => vec![y.to_vec(), vec![wires[2 * bits]]],
            // x − y is x + ¬y + 1.
            _ => vec![negated, vec![Wire::ONE], vec![Wire::ONE; bits]],
        };
        let sum = addends.iter().fold(x.to_vec(), |sum, by| {
            let mut next = sketch.add(&sum, by);
            next.truncate(bits);
            next
        });
        let found = cost(sketch.finish(sum));
        assert!(found <= bits + 1, "{}, {bits} bits, carry {carry}: {found}", names[case]);
    }
}

/// Bits to count: those given, some negated, or a choice with repetitions and constants.
fn summands(kind: u8, wires: &[Wire], chosen: &[(u16, bool)], seed: u64) -> Vec<Wire> {
    let turned = |wire: Wire, negated: bool| if negated { wire.not() } else { wire };
    let each = wires.iter().enumerate();
    let any =
        chosen.iter().map(|(i, negated)| turned(wires[usize::from(*i) % wires.len()], *negated));
    match kind {
        0 => wires.to_vec(),
        1 => each.map(|(i, w)| turned(*w, seed >> (i % 64) & 1 == 1)).collect(),
        2 => any.chain([Wire::ONE, Wire::ONE]).collect(),
        _ => any.collect(),
    }
}

/// What reads a count, not always as a count.
fn readers(kind: u8, sketch: &mut Sketch, sum: &[Wire], wires: &[Wire], at: [u16; 3]) -> Vec<Wire> {
    let pick = |of: &[Wire], i: usize| of[usize::from(at[i]) % of.len()];
    match kind {
        0 => sum.to_vec(),
        // A part of the digits, one of them negated.
        1 => vec![pick(sum, 0), pick(sum, 1).not()],
        // Readers in the middle.
        2 => {
            let made = [sketch.made.clone(), sum.to_vec()].concat();
            [sum, &[pick(&made, 0), pick(&made, 1)]].concat()
        }
        // A count of some of the bits, perhaps moved by a digit.
        3 => {
            let form = FORMS[usize::from(at[1]) % FORMS.len()];
            let other = sketch.count(&wires[..wires.len() / 2 + 1], form);
            let moved = [&[Wire::ZERO][..], &other].concat();
            sketch.add(sum, if at[0] & 1 == 1 { &moved } else { &other })
        }
        // Its own digits in another order.
        4 => {
            let mut digits = sum.to_vec();
            digits.rotate_left(usize::from(at[0]) % sum.len());
            sketch.add(sum, &digits)
        }
        _ => {
            let negated: Vec<Wire> = sum.iter().map(|w| w.not()).collect();
            let gate = sketch.to.and(pick(sum, 0), pick(sum, 1).not());
            [sketch.add(&negated, &[wires[0], Wire::ONE]), vec![gate]].concat()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Negated, repeated and constant bits, readers in the middle, sums of sums, and gates that make it no count: what is made
    /// of them computes the same.
    #[test]
    fn counters_compute_what_they_replace(
        bits in 3usize..=70,
        form in 0usize..4,
        carry in 0u8..4,
        chosen in prop::collection::vec((any::<u16>(), any::<bool>()), 3..=70),
        kinds in [0u8..6, 0u8..6],
        at in [any::<u16>(), any::<u16>(), any::<u16>()],
        seed: u64,
    ) {
        let (mut sketch, wires) = Sketch::new(bits, carry);
        let sum = sketch.count(&summands(kinds[0], &wires, &chosen, seed), FORMS[form]);
        let mut outputs = readers(kinds[1], &mut sketch, &sum, &wires, at);
        outputs.truncate(1 + usize::from(at[2]) % 80);
        let circuit = sketch.finish(outputs);
        let room = match seed & 1 {
            0 => ROOM,
            _ => Room { values: 4 << (seed >> 8 & 3), norm: 5 + (seed >> 10 & 31) as i64 },
        };
        let counted = circuit.restructured(Chains::Keep).counted(room);
        let mut state = seed | 1;
        let mut random = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            state.rotate_left(29) ^ state >> 7
        };
        for word in 0..32 {
            let mut bit = || match word % 4 {
                0 => random() | random() | random() | random(),
                1 => random() & random() & random() & random(),
                2 => u64::MAX,
                _ => random(),
            };
            let given: Vec<u64> = (0..bits).map(|_| bit()).collect();
            let wanted = circuit.evaluate(&given).unwrap();
            for found in &counted {
                prop_assert_eq!(&found.evaluate(&given).unwrap(), &wanted);
            }
        }
    }
}
