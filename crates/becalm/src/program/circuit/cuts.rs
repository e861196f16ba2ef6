//! Cuts: for each node sets of at most six nodes that determine it, merged from the cuts of its inputs. A function is a word,
//! its truth table over six variables of which those past the leaves do not matter. Source: Mishchenko, Cho, Chatterjee,
//! Brayton 2007 ("Combinational and sequential mapping with priority cuts").

use super::weights::{Form, MAX_INPUTS, Room, find};
use super::{Circuit, Node, Wire};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Mutex;

/// Σ w² of four leaves that weigh 8, 4, 2 and 1: what a function may have before leaves come scaled.
const HEAVIEST: i64 = 85;

/// The same for functions of more leaves, few of which have a form at all.
const HEAVY: i64 = 64;

/// Most gates of a cone.
const CONE: usize = 400;

/// Where variable i is 1.
pub(super) const VARIABLES: [u64; MAX_INPUTS] = [
    0xAAAA_AAAA_AAAA_AAAA,
    0xCCCC_CCCC_CCCC_CCCC,
    0xF0F0_F0F0_F0F0_F0F0,
    0xFF00_FF00_FF00_FF00,
    0xFFFF_0000_FFFF_0000,
    0xFFFF_FFFF_0000_0000,
];

/// At most six nodes, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Leaves {
    len: u8,
    nodes: [u32; MAX_INPUTS],
}

/// The nodes of two lists in order, and their number; behind them stands `rest`. None if they are more than N.
pub(super) fn united<const N: usize>(a: &[u32], b: &[u32], rest: u32) -> Option<([u32; N], u8)> {
    let (mut all, mut len, mut i, mut j) = ([rest; N], 0, 0, 0);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => *x.min(y),
            (Some(x), None) | (None, Some(x)) => *x,
            (None, None) => break,
        };
        i += usize::from(a.get(i) == Some(&next));
        j += usize::from(b.get(j) == Some(&next));
        *all.get_mut(len)? = next;
        len += 1;
    }
    Some((all, len as u8))
}

impl Leaves {
    fn of(nodes: &[u32]) -> Self {
        let mut all = [0; MAX_INPUTS];
        all[..nodes.len()].copy_from_slice(nodes);
        Leaves { len: nodes.len() as u8, nodes: all }
    }

    fn union(&self, other: &Leaves) -> Option<Leaves> {
        let (nodes, len) = united(self, other, 0)?;
        Some(Leaves { len, nodes })
    }

    /// A bit for each leaf, shared by those that are equal modulo 64: subsets have subsets.
    fn signature(&self) -> u64 {
        self.iter().fold(0, |s, n| s | 1 << (n % 64))
    }
}

impl std::ops::Deref for Leaves {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        &self.nodes[..self.len as usize]
    }
}

/// A set of nodes, and a node as a function of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub leaves: Leaves,
    pub function: u64,
    /// How many leaves must come scaled, so that the sum is not too noisy.
    pub scaled: u8,
}

/// A hash for keys of a few words, of which there are many: Fowler's product with a rotation.
#[derive(Default)]
pub(super) struct Words(u64);

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

/// A map whose keys are words.
pub(super) type WordMap<K, V> = HashMap<K, V, BuildHasherDefault<Words>>;

/// The forms found so far, shared by threads.
pub(super) struct Forms {
    pub room: Room,
    found: [Mutex<Known>; 64],
}

/// Functions, the number of their variables, and their form.
type Known = WordMap<(Functions, u8), Option<Form>>;

/// Whether a node can be put out with a weight in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scale {
    /// An input, a constant, a copy.
    No,
    /// The result of a table.
    Yes,
    /// An input that is refreshed for nothing else: it takes the greatest weight.
    First,
}

/// Functions that one rotation may have for results: as many as 8, from which a set would need 8 values for two inputs.
pub(super) type Functions = [u64; MOST_RESULTS];
/// Most results of a rotation.
pub(super) const MOST_RESULTS: usize = 8;

impl Forms {
    pub fn new(room: Room) -> Self {
        Forms { room, found: std::array::from_fn(|_| Mutex::default()) }
    }

    fn known(&self, key: (Functions, u8), search: impl FnOnce() -> Option<Form>) -> Option<Form> {
        let mut hasher = Words::default();
        key.hash(&mut hasher);
        let part = &self.found[hasher.finish() as usize % self.found.len()];
        let found = part.lock().ok().and_then(|known| known.get(&key).copied());
        found.unwrap_or_else(|| {
            let form = search();
            if let Ok(mut known) = part.lock() {
                known.insert(key, form);
            }
            form
        })
    }

    /// The form of a function, with more noise than there is room for, since leaves can come scaled.
    pub fn alone(&self, function: u64, leaves: usize) -> Option<Form> {
        let (mut f, order, flipped) = ordered(function, leaves);
        f = masked(f, leaves).min(masked(!f, leaves));
        let norm = self.room.norm.max(if leaves <= 4 { HEAVIEST } else { HEAVY });
        let mut key = [0; MOST_RESULTS];
        key[0] = f;
        let search = || find(&[f], leaves, Room { norm, ..self.room });
        let found = self.known((key, leaves as u8), search)?;
        let mut weights = [0; MAX_INPUTS];
        for (at, from) in order[..leaves].iter().enumerate() {
            let sign = if flipped >> from & 1 == 1 { -1 } else { 1 };
            weights[*from] = sign * found.weights()[at];
        }
        Some(Form::of(&weights[..leaves]))
    }

    /// The form of two functions or more in as many values as one rotation leaves to each.
    pub fn together(&self, functions: &[u64], leaves: usize) -> Option<Form> {
        let values = self.room.values / functions.len().next_power_of_two() as i64;
        if leaves as i64 >= values || functions.len() > MOST_RESULTS {
            return None;
        }
        let mut key = [0; MOST_RESULTS];
        for (k, f) in key.iter_mut().zip(functions) {
            *k = masked(*f, leaves);
        }
        key[..functions.len()].sort_unstable();
        // No number of variables is as large as this.
        let mark = (leaves | functions.len() << 4) as u8;
        let search = || find(&key[..functions.len()], leaves, Room { values, ..self.room });
        self.known((key, mark), search)
    }

    /// How many leaves of a function come scaled; `None` where it has no form, or one that stays too noisy.
    pub fn scaled(&self, function: u64, leaves: &[u32], can: impl Fn(u32) -> Scale) -> Option<u8> {
        self.weighed(function, leaves, can).map(|(_, list)| list.len() as u8)
    }

    /// The form of a function of leaves, and those that come scaled. Where a refreshed input is not the heaviest, it gets the
    /// greatest of weights that tell all leaves apart.
    pub fn weighed(
        &self,
        function: u64,
        leaves: &[u32],
        can: impl Fn(u32) -> Scale,
    ) -> Option<(Form, Vec<usize>)> {
        let with = |form: Form| Some((form, heavy(&form, leaves, self.room.norm, &can)?));
        let form = self.alone(function, leaves.len())?;
        with(form).or_else(|| {
            let mut order: Vec<usize> = (0..leaves.len()).collect();
            order.sort_by_key(|i| can(leaves[*i]));
            let mut weights = [0; MAX_INPUTS];
            order.into_iter().enumerate().for_each(|(place, i)| weights[i] = 1 << place);
            let first = leaves.iter().any(|l| can(*l) == Scale::First);
            let apart = first && 1 << leaves.len() <= self.room.values;
            apart.then(|| with(Form::of(&weights[..leaves.len()]))).flatten()
        })
    }
}

/// The function of its variables in an order of their weight, negated where that makes it smaller, so that functions that are
/// alike are mostly one: which variable stands where, and a bit for each that is negated.
fn ordered(mut f: u64, inputs: usize) -> (u64, [usize; MAX_INPUTS], u8) {
    let (mut order, mut flipped) = ([0, 1, 2, 3, 4, 5], 0);
    for i in 0..inputs {
        let (low, high) = ((f & !VARIABLES[i]).count_ones(), (f & VARIABLES[i]).count_ones());
        if high < low {
            let by = 1 << i;
            f = (f & VARIABLES[i]) >> by | (f & !VARIABLES[i]) << by;
            flipped |= 1 << i;
        }
    }
    for last in (1..inputs).rev() {
        for i in 0..last {
            let ones = |i: usize| (f & VARIABLES[i]).count_ones();
            if ones(i) > ones(i + 1) {
                f = swapped(f, i, i + 1);
                order.swap(i, i + 1);
            }
        }
    }
    (f, order, flipped)
}

/// The leaves, heaviest first, whose weight must be in what they put out already, for the noise to stay within `norm`.
pub(super) fn heavy(
    form: &Form,
    leaves: &[u32],
    norm: i64,
    can: impl Fn(u32) -> Scale,
) -> Option<Vec<usize>> {
    let weights = form.weights();
    let mut sum: i64 = weights.iter().map(|w| w * w).sum();
    let mut order: Vec<usize> = (0..leaves.len()).filter(|i| can(leaves[*i]) > Scale::No).collect();
    order.sort_by_key(|i| -weights[*i].abs());
    let mut list = vec![];
    for i in order {
        if sum <= norm {
            break;
        }
        sum -= weights[i] * weights[i] - 1;
        list.push(i);
    }
    (sum <= norm).then_some(list)
}

/// The truth table of the first `inputs` variables alone.
pub(super) fn masked(function: u64, inputs: usize) -> u64 {
    if inputs >= MAX_INPUTS { function } else { function & ((1 << (1u32 << inputs)) - 1) }
}

/// The function with two variables swapped, i < j.
pub(super) fn swapped(f: u64, i: usize, j: usize) -> u64 {
    let by = (1 << j) - (1 << i);
    let moved = ((f >> by) ^ f) & VARIABLES[i] & !VARIABLES[j];
    f ^ moved ^ (moved << by)
}

/// The function of a cut as a function of more leaves.
fn spread(cut: &Cut, leaves: &Leaves) -> u64 {
    let (mut f, mut to) = (cut.function, leaves.len());
    // From the last: the places above are free.
    for i in (0..cut.leaves.len()).rev() {
        to -= 1;
        while leaves[to] != cut.leaves[i] {
            to -= 1;
        }
        if to != i {
            f = swapped(f, i, to);
        }
    }
    f
}

/// The leaves and the function without leaves that do not matter.
fn reduced(leaves: Leaves, mut f: u64) -> (Leaves, u64) {
    let matters = |f: u64, i: usize| ((f >> (1 << i)) ^ f) & !VARIABLES[i] != 0;
    let (mut kept, mut len) = ([0; MAX_INPUTS], 0);
    for i in 0..leaves.len() {
        if matters(f, i) {
            if len != i {
                f = swapped(f, len, i);
            }
            kept[len] = leaves[i];
            len += 1;
        }
    }
    (Leaves::of(&kept[..len]), f)
}

/// A node as a function of leaves; `None` where they do not determine it, or only through more than a few gates.
pub(super) fn cone(circuit: &Circuit, node: usize, leaves: &[usize]) -> Option<Cut> {
    let mut sorted: Vec<u32> = leaves.iter().map(|l| *l as u32).collect();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() > MAX_INPUTS || sorted.contains(&(node as u32)) {
        return None;
    }
    let mut known: HashMap<usize, u64> = HashMap::from([(0, 0)]);
    known.extend(sorted.iter().zip(VARIABLES).map(|(l, f)| (*l as usize, f)));
    let mut todo = vec![node];
    while let Some(at) = todo.last().copied() {
        let (Node::And(a, b) | Node::Xor(a, b)) = circuit.nodes[at] else { return None };
        let of = |w: Wire| known.get(&w.node()).map(|f| if w.negated() { !f } else { *f });
        match (of(a), of(b)) {
            (Some(f), Some(g)) => {
                let and = matches!(circuit.nodes[at], Node::And(..));
                known.insert(at, if and { f & g } else { f ^ g });
                todo.pop();
            }
            (f, g) => {
                todo.extend(f.is_none().then_some(a.node()));
                todo.extend(g.is_none().then_some(b.node()));
            }
        }
        if known.len() + todo.len() > CONE {
            return None;
        }
    }
    let (leaves, function) = reduced(Leaves::of(&sorted), known[&node]);
    Some(Cut { leaves, function, scaled: 0 })
}

/// A node as a function of itself.
fn alone(w: Wire) -> Cut {
    Cut { leaves: Leaves::of(&[w.node() as u32]), function: VARIABLES[0], scaled: 0 }
}

/// The cuts of a gate, from those of its inputs and from the inputs themselves. Whether they have forms is not known yet.
pub(super) fn merged(circuit: &Circuit, node: usize, cuts: &[Vec<Cut>]) -> Vec<Cut> {
    let (Node::And(a, b) | Node::Xor(a, b)) = circuit.nodes[node] else { return vec![] };
    let and = matches!(circuit.nodes[node], Node::And(..));
    let of = |w: Wire| -> Vec<(u64, Cut)> {
        let all = cuts[w.node()].iter().copied().chain([alone(w)]);
        all.map(|c| (c.leaves.signature(), c)).collect()
    };
    let (from_a, from_b) = (of(a), of(b));
    let mut found: Vec<(Leaves, u64)> = vec![];
    for (at, x) in &from_a {
        for (bt, y) in &from_b {
            if (at | bt).count_ones() as usize > MAX_INPUTS {
                continue;
            }
            let Some(leaves) = x.leaves.union(&y.leaves) else { continue };
            let operand = |cut: &Cut, wire: Wire| {
                let f = spread(cut, &leaves);
                if wire.negated() { !f } else { f }
            };
            let (f, g) = (operand(x, a), operand(y, b));
            found.push(reduced(leaves, if and { f & g } else { f ^ g }));
        }
    }
    // By their number, which stands first in a list of leaves.
    found.sort_unstable();
    found.dedup_by_key(|c| c.0);
    found.into_iter().map(|(leaves, function)| Cut { leaves, function, scaled: 0 }).collect()
}

/// Cuts that have a form, of which none contains another.
#[derive(Default)]
pub(super) struct Kept(Vec<(u64, Cut)>);

impl Kept {
    /// Takes a cut, if it has a form and contains none that is there.
    pub fn add(&mut self, mut cut: Cut, forms: &Forms, can: impl Fn(u32) -> Scale) {
        let signature = cut.leaves.signature();
        let within = |x: &(u64, Cut), y: &(u64, Cut)| {
            x.0 & !y.0 == 0 && x.1.leaves.iter().all(|l| y.1.leaves.contains(l))
        };
        if self.0.iter().any(|x| within(x, &(signature, cut))) {
            return;
        }
        if let Some(scaled) = forms.scaled(cut.function, &cut.leaves, can) {
            cut.scaled = scaled;
            self.0.retain(|x| !within(&(signature, cut), x));
            self.0.push((signature, cut));
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn into_cuts(self) -> Vec<Cut> {
        self.0.into_iter().map(|c| c.1).collect()
    }
}
