//! A table of a few inputs as gates. Its rows as they are written become ANDs and ORs, which are many where the rows are. So
//! they are factored by the literals that they share, and the function is split by one input after another, where equal
//! parts, or parts that are each other's negation, are one: a decision diagram. Its size depends on the order of the inputs,
//! which is searched. A function of the number of ones is a counter. The form of the fewest gates is taken. Sources: Bryant
//! 1986 ("Graph-based algorithms for Boolean function manipulation"), Rudell 1993 ("Dynamic variable ordering for ordered
//! binary decision diagrams").

use super::cuts::{VARIABLES, swapped};
use super::weights::MAX_INPUTS;
use super::{Circuit, Wire};
use std::collections::HashMap;

/// Most inputs of a function that is split.
pub(super) const SPLIT: usize = 12;

/// Literals that the rows of a function that is split have for 64 bits of its truth table.
const DENSE: usize = 8;

/// Operands of a table that become a chain of gates. More become a tree.
const CHAIN: usize = 64;

/// Work that a file's tables may take: parts of functions that are compared, and literals that are counted.
pub(super) const WORK: usize = 1 << 24;

/// A function of `inputs` variables: its truth table, 64 bits a word, of which variable i is bit i of the place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Function {
    inputs: usize,
    words: Vec<u64>,
}

/// A literal: a variable, and whether it is negated.
pub(super) type Literal = (usize, bool);

/// The bits of a function of at most six variables.
fn mask(inputs: usize) -> u64 {
    if inputs < 6 { (1 << (1u32 << inputs)) - 1 } else { u64::MAX }
}

/// The words of its truth table.
fn words(inputs: usize) -> usize {
    1 << inputs.saturating_sub(6)
}

impl Function {
    /// Where a product is 1.
    fn product(inputs: usize, literals: &[Literal]) -> Function {
        let (mut within, mut some, mut none) = (mask(inputs), 0, 0);
        for (variable, negated) in literals {
            match (*variable, *negated) {
                (v @ 0..6, false) => within &= VARIABLES[v],
                (v @ 0..6, true) => within &= !VARIABLES[v],
                (v, false) => some |= 1usize << (v - 6),
                (v, true) => none |= 1usize << (v - 6),
            }
        }
        let word = |at: usize| if at & some == some && at & none == 0 { within } else { 0 };
        Function { inputs, words: (0..words(inputs)).map(word).collect() }
    }

    fn not(mut self) -> Function {
        let mask = mask(self.inputs);
        self.words.iter_mut().for_each(|w| *w ^= mask);
        self
    }

    fn at(&self, place: usize) -> bool {
        self.words[place >> 6] >> (place & 63) & 1 == 1
    }

    /// The function that is 0 at 0, and whether it is the negation of this one.
    fn plain(self) -> (Function, bool) {
        let negated = self.at(0);
        (if negated { self.not() } else { self }, negated)
    }

    /// The functions of the other variables where the last one is 0 and where it is 1.
    fn halves(&self) -> [Function; 2] {
        let inputs = self.inputs - 1;
        if inputs < 6 {
            let word = |by: u32| vec![self.words[0] >> by & mask(inputs)];
            [word(0), word(1 << inputs)].map(|words| Function { inputs, words })
        } else {
            let (low, high) = self.words.split_at(self.words.len() / 2);
            [low, high].map(|words| Function { inputs, words: words.to_vec() })
        }
    }

    /// The function with variables i and i + 1 swapped.
    fn swap(&mut self, i: usize) {
        match i {
            0..5 => self.words.iter_mut().for_each(|w| *w = swapped(*w, i, i + 1)),
            5 => self.words.chunks_mut(2).for_each(|pair| {
                let low = 0xFFFF_FFFF;
                (pair[0], pair[1]) =
                    (pair[0] & low | pair[1] << 32, pair[0] >> 32 | pair[1] & !low);
            }),
            _ => {
                let (a, b) = (1 << (i - 6), 1 << (i - 5));
                (0..self.words.len())
                    .filter(|at| at & a != 0 && at & b == 0)
                    .for_each(|at| self.words.swap(at, at ^ a ^ b));
            }
        }
    }

    /// Its value for each number of ones, if it depends on that alone.
    fn counted(&self) -> Option<Vec<bool>> {
        let values: Vec<bool> = (0..=self.inputs).map(|ones| self.at((1 << ones) - 1)).collect();
        let same = |place: usize| self.at(place) == values[place.count_ones() as usize];
        (0..1 << self.inputs).all(same).then_some(values)
    }
}

/// The parts that some functions of the same variables are split into, the last variable first, and how many were compared.
fn parts(functions: &[Function]) -> (usize, usize) {
    let (mut now, mut count, mut work) = (functions.to_vec(), 0, 0);
    for _ in 0..functions.first().map_or(0, |f| f.inputs) {
        now = now.into_iter().map(|f| f.plain().0).collect();
        now.sort_unstable();
        now.dedup();
        work += now.iter().map(|f| f.words.len()).sum::<usize>();
        let mut next = vec![];
        for function in now {
            let [low, high] = function.halves();
            if low != high {
                count += 1;
                next.push(high);
            }
            next.push(low);
        }
        now = next;
    }
    (count, work)
}

/// An order of the variables in which the functions have few parts: each variable in turn goes to the best place, until
/// nothing gets better. `work` is what may still be spent, and is.
pub(super) fn ordered(functions: &mut [Function], work: &mut usize) -> Vec<usize> {
    let inputs = functions.first().map_or(0, |f| f.inputs);
    let mut order: Vec<usize> = (0..inputs).collect();
    let mut least = usize::MAX;
    let swap = |functions: &mut [Function], order: &mut [usize], i: usize| {
        functions.iter_mut().for_each(|f| f.swap(i));
        order.swap(i, i + 1);
    };
    loop {
        let before = least;
        for variable in 0..inputs {
            let mut at = order.iter().position(|v| *v == variable).unwrap_or(0);
            let mut best = at;
            // Down to the first place, and up to the last one.
            let down = (0..at).rev();
            let up = 0..inputs - 1;
            for i in down.chain(up) {
                swap(functions, &mut order, i);
                at = if at == i { i + 1 } else { i };
                let (count, spent) = parts(functions);
                *work = work.saturating_sub(spent);
                if count < least {
                    (least, best) = (count, at);
                }
                if *work == 0 {
                    break;
                }
            }
            while at != best {
                let i = if at < best { at } else { at - 1 };
                swap(functions, &mut order, i);
                at = if at < best { at + 1 } else { at - 1 };
            }
        }
        if least >= before || *work == 0 {
            return order;
        }
    }
}

/// A table: products of its variables, which list where it is 1, or where it is 0.
pub(super) struct Cover {
    pub inputs: usize,
    pub products: Vec<Vec<Literal>>,
    pub ones: bool,
}

/// The forms in which a table becomes gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// Its rows.
    Rows,
    /// Its rows, factored.
    Factored,
    /// A decision diagram.
    Split,
    /// The sum of its inputs, and a function of that.
    Counter,
}

impl Cover {
    fn literals(&self) -> usize {
        self.products.iter().map(Vec::len).sum()
    }

    /// Whether it is split: its rows are not few beside its truth table.
    pub fn is_dense(&self) -> bool {
        self.inputs <= SPLIT && self.literals() >= DENSE * (1usize << self.inputs) / 64
    }

    pub fn function(&self) -> Function {
        let mut all = Function { inputs: self.inputs, words: vec![0; words(self.inputs)] };
        for product in &self.products {
            let product = Function::product(self.inputs, product);
            all.words.iter_mut().zip(product.words).for_each(|(to, from)| *to |= from);
        }
        if self.ones { all } else { all.not() }
    }

    /// The gates of its rows.
    pub fn written(&self, circuit: &mut Circuit, wires: &[Wire]) -> Wire {
        let products = self.products.iter().map(|p| all(circuit, p, wires)).collect();
        let any = joined(products, Wire::ZERO, |a, b| circuit.or(a, b));
        if self.ones { any } else { any.not() }
    }

    /// The table as gates, in the form that has the fewest. `work` is what may be spent on other forms than its rows, and is.
    pub fn build(&self, circuit: &mut Circuit, wires: &[Wire], work: &mut usize) -> Wire {
        let mut best = (usize::MAX, Form::Rows);
        if self.inputs > 2 && self.products.len() > 1 {
            for form in [Form::Rows, Form::Factored, Form::Split, Form::Counter] {
                let mut trial = Circuit::empty();
                let wires: Vec<Wire> = wires.iter().map(|_| trial.input()).collect();
                if self.formed(form, &mut trial, &wires, work).is_some() {
                    best = best.min((trial.nodes.len(), form));
                }
            }
        }
        self.formed(best.1, circuit, wires, &mut { usize::MAX }).unwrap_or(Wire::ZERO)
    }

    fn formed(
        &self,
        form: Form,
        circuit: &mut Circuit,
        wires: &[Wire],
        work: &mut usize,
    ) -> Option<Wire> {
        let signed = |wire: Wire| if self.ones { wire } else { wire.not() };
        match form {
            Form::Rows => Some(self.written(circuit, wires)),
            Form::Factored if self.inputs <= u64::BITS as usize => {
                factored(circuit, self.products.clone(), wires, work).map(signed)
            }
            Form::Split if self.is_dense() => Some(split(circuit, self.function(), wires)),
            Form::Counter if self.is_dense() => counter(circuit, &self.function(), wires),
            _ => None,
        }
    }
}

/// The AND of literals.
fn all(circuit: &mut Circuit, literals: &[Literal], wires: &[Wire]) -> Wire {
    let literal = |l: &Literal| if l.1 { wires[l.0].not() } else { wires[l.0] };
    joined(literals.iter().map(literal).collect(), Wire::ONE, |a, b| circuit.and(a, b))
}

/// The AND or OR of wires, of which `none` is that of none: one after another if they are few, else as a tree, whose levels are
/// what later steps take time in. Its chains are as long as one lookup is wide.
fn joined(mut wires: Vec<Wire>, none: Wire, mut gate: impl FnMut(Wire, Wire) -> Wire) -> Wire {
    while wires.len() > CHAIN {
        let chains = wires.chunks(MAX_INPUTS);
        let chain = |c: &[Wire]| c[1..].iter().fold(c[0], |all, wire| gate(all, *wire));
        wires = chains.map(chain).collect();
    }
    wires.into_iter().fold(none, gate)
}

/// A function as a decision diagram of the wires of its variables.
fn split(circuit: &mut Circuit, function: Function, wires: &[Wire]) -> Wire {
    part(circuit, function, wires, &mut HashMap::new())
}

fn part(
    circuit: &mut Circuit,
    function: Function,
    wires: &[Wire],
    known: &mut HashMap<Function, Wire>,
) -> Wire {
    let (function, negated) = function.plain();
    let sign = |wire: Wire| if negated { wire.not() } else { wire };
    if function.words.iter().all(|w| *w == 0) {
        return sign(Wire::ZERO);
    }
    if let Some(wire) = known.get(&function) {
        return sign(*wire);
    }
    let [low, high] = function.halves();
    let same = low == high;
    let last = wires[low.inputs];
    let low = part(circuit, low, wires, known);
    let wire = match same {
        true => low,
        false => {
            let high = part(circuit, high, wires, known);
            choose(circuit, last, high, low)
        }
    };
    known.insert(function, wire);
    sign(wire)
}

fn choose(circuit: &mut Circuit, which: Wire, yes: Wire, no: Wire) -> Wire {
    match (yes, no) {
        _ if yes == no.not() => circuit.xor(which, no),
        (Wire::ONE, _) => circuit.or(which, no),
        (Wire::ZERO, _) => circuit.and(which.not(), no),
        (_, Wire::ONE) => circuit.or(which.not(), yes),
        (_, Wire::ZERO) => circuit.and(which, yes),
        _ => {
            let (a, b) = (circuit.and(which, yes), circuit.and(which.not(), no));
            circuit.or(a, b)
        }
    }
}

/// A function of the number of ones: the digits of their sum, and a function of these. `None` for another function.
fn counter(circuit: &mut Circuit, function: &Function, wires: &[Wire]) -> Option<Wire> {
    let values = function.counted()?;
    let (mut column, mut digits) = (wires.to_vec(), vec![]);
    while !column.is_empty() {
        let mut carries = vec![];
        while let [a, b, rest @ ..] = &column[..] {
            let (half, both) = (circuit.xor(*a, *b), circuit.and(*a, *b));
            let (sum, carry, rest) = match rest {
                [c, rest @ ..] => {
                    let one = circuit.and(half, *c);
                    (circuit.xor(half, *c), circuit.or(both, one), rest)
                }
                [] => (half, both, rest),
            };
            carries.push(carry);
            column = rest.iter().copied().chain([sum]).collect();
        }
        digits.push(column[0]);
        column = carries;
    }
    // A number that does not occur is like the greatest.
    let value = |place: &usize| values[(*place).min(values.len() - 1)];
    let product = |place| (0..digits.len()).map(|i| (i, place >> i & 1 == 0)).collect();
    let products = (0..1usize << digits.len()).filter(value).map(product).collect();
    let of_digits = Cover { inputs: digits.len(), products, ones: true };
    Some(split(circuit, of_digits.function(), &digits))
}

/// The OR of products, factored by the literal that most of them share, as long as two share one. `None` if `work`, which is
/// what may still be spent, is too little.
fn factored(
    circuit: &mut Circuit,
    products: Vec<Vec<Literal>>,
    wires: &[Wire],
    work: &mut usize,
) -> Option<Wire> {
    let (mut terms, mut left) = (vec![], products);
    loop {
        let literals = left.iter().map(|p| 1 + p.len()).sum::<usize>() + wires.len();
        *work = work.checked_sub(literals)?;
        let mut counts = vec![[0usize; 2]; wires.len()];
        left.iter().flatten().for_each(|l| counts[l.0][usize::from(l.1)] += 1);
        let most = |v: usize| [(counts[v][0], v, false), (counts[v][1], v, true)];
        let most = (0..wires.len()).rev().flat_map(most).max_by_key(|c| c.0);
        let Some((2.., variable, negated)) = most else { break };
        let shared = (variable, negated);
        let (with, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|p| p.contains(&shared));
        let others = |p: Vec<Literal>| p.into_iter().filter(|l| *l != shared).collect();
        let inner = factored(circuit, with.into_iter().map(others).collect(), wires, work)?;
        let shared = all(circuit, &[shared], wires);
        terms.push(circuit.and(shared, inner));
        left = rest;
    }
    terms.extend(left.iter().map(|p| all(circuit, p, wires)));
    Some(joined(terms, Wire::ZERO, |a, b| circuit.or(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where a cover is 1, by its rows.
    fn at(cover: &Cover, place: usize) -> bool {
        let holds = |p: &Vec<Literal>| p.iter().all(|(v, no)| (place >> v & 1 == 1) != *no);
        cover.products.iter().any(holds) == cover.ones
    }

    fn bits(inputs: usize, place: usize) -> Vec<u64> {
        (0..inputs).map(|i| (place >> i & 1) as u64).collect()
    }

    fn ones(inputs: usize, f: impl Fn(usize) -> bool) -> Cover {
        let product = |place: usize| (0..inputs).map(|i| (i, place >> i & 1 == 0)).collect();
        let products = (0..1 << inputs).filter(|place| f(*place)).map(product).collect();
        Cover { inputs, products, ones: true }
    }

    /// A circuit whose only output is a form of the cover.
    fn circuit(
        cover: &Cover,
        make: impl FnOnce(&mut Circuit, &[Wire]) -> Option<Wire>,
    ) -> Option<Circuit> {
        let mut circuit = Circuit::empty();
        let wires: Vec<Wire> = (0..cover.inputs).map(|_| circuit.input()).collect();
        let output = make(&mut circuit, &wires)?;
        let port = |wires| super::super::Port { name: String::new(), wires };
        circuit.inputs = vec![port(wires)];
        circuit.outputs = vec![port(vec![output])];
        Some(circuit)
    }

    fn check(cover: &Cover) {
        let forms = [Form::Rows, Form::Factored, Form::Split, Form::Counter];
        for form in forms {
            let made = circuit(cover, |c, wires| cover.formed(form, c, wires, &mut { usize::MAX }));
            for place in 0..1 << cover.inputs {
                let Some(made) = &made else { continue };
                let got = made.evaluate(&bits(cover.inputs, place)).unwrap()[0] & 1 == 1;
                assert_eq!(got, at(cover, place), "{form:?} at {place}");
            }
        }
    }

    /// The functions with their variables in another order.
    fn moved(function: &Function, order: &[usize], place: usize) -> bool {
        let from = order.iter().enumerate().map(|(to, v)| (place >> to & 1) << v);
        function.at(from.sum())
    }

    proptest! {
        #[test]
        fn every_form_is_the_table(
            inputs in 1usize..=9,
            rows in prop::collection::vec(prop::collection::vec(0u8..3, 9), 0..24),
            ones: bool,
        ) {
            let product = |row: &Vec<u8>| {
                let literals = row.iter().take(inputs).enumerate();
                literals.filter(|(_, l)| **l < 2).map(|(v, l)| (v, *l == 0)).collect()
            };
            check(&Cover { inputs, products: rows.iter().map(product).collect(), ones });
        }

        #[test]
        fn an_order_moves_the_variables_alone(seeds in prop::array::uniform3(any::<u64>()), inputs in 2usize..=9) {
            let word = |s: u64, at: usize| s.rotate_left(7 * at as u32).wrapping_mul(0x5851_F42D_4C95_7F2D);
            let function = |s: &u64| Function {
                inputs,
                words: (0..words(inputs)).map(|at| word(*s, at) & mask(inputs)).collect(),
            };
            let before: Vec<Function> = seeds.iter().map(function).collect();
            let mut after = before.clone();
            let order = ordered(&mut after, &mut { WORK });
            for (old, new) in before.iter().zip(&after) {
                prop_assert!((0..1 << inputs).all(|place| new.at(place) == moved(old, &order, place)));
            }
            prop_assert!(parts(&after).0 <= parts(&before).0);
        }
    }

    #[test]
    fn the_smallest_form_is_taken() {
        let gates = |cover: &Cover| {
            let made = circuit(cover, |c, wires| Some(cover.build(c, wires, &mut { WORK })));
            let (and, xor) = made.unwrap().gates();
            and + xor
        };
        // A majority is counted, a parity is a chain of XORs, and one row is an AND.
        let majority = ones(9, |place| place.count_ones() > 4);
        check(&majority);
        assert!(gates(&majority) <= 50, "{}", gates(&majority));
        let parity = ones(10, |place| place.count_ones() % 2 == 1);
        assert_eq!(gates(&parity), 9);
        assert_eq!(gates(&ones(12, |place| place == 0x5A5)), 11);
        // Rows that no one input tells apart stay as they are.
        let pairs = |v: usize| vec![(2 * v, false), (2 * v + 1, false)];
        let sparse = Cover { inputs: 12, products: (0..6).map(pairs).collect(), ones: true };
        assert_eq!(gates(&sparse), 11);
        // a·(b + c·(d + e)), as sums of products.
        let products = [vec![0, 1], vec![0, 2, 3], vec![0, 2, 4]];
        let products = products.map(|p| p.into_iter().map(|v| (v, false)).collect()).to_vec();
        assert_eq!(gates(&Cover { inputs: 5, products, ones: true }), 4);
        // Without work left, the rows or a diagram in the order that they are in.
        let cover = ones(8, |place| place.isqrt() % 2 == 1);
        let made = circuit(&cover, |c, wires| Some(cover.build(c, wires, &mut 0)));
        assert!(made.unwrap().gates().0 < 200);
    }
}
