//! From chosen cuts to rotations: lookups of the same leaves share one as far as its room goes, and a node whose weight in a
//! sum would be too noisy is put out with that weight in it, beside itself or instead.

use super::choice::Choice;
use super::cuts::{Cut, Forms, Leaves, heavy};
use super::weights::Form;
use super::{Circuit, Node};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A node, and the factor that it was put out with.
pub(super) type Source = (usize, i64);

/// A rotation: a sum of bits, and the results of its tables.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    /// Node, the factor that is in it already, and the weight, a multiple.
    pub leaves: Vec<(Source, i64)>,
    pub offset: i64,
    /// Its results, by the value of the sum: bits, or values of several digits.
    pub results: Vec<(Source, Vec<u8>)>,
}

impl Lookup {
    /// Whether it takes a bootstrap: a sum of at most two values is linear, but for a weight in what it puts out.
    pub fn is_rotation(&self) -> bool {
        self.results.iter().any(|((_, factor), table)| table.len() > 2 || *factor > 1)
    }
}

/// Lookups of the same leaves that one rotation gives: nodes and their functions.
struct Group {
    nodes: Vec<(usize, u64)>,
    form: Form,
}

/// The groups by their leaves, in order.
type Groups = BTreeMap<Leaves, Vec<Group>>;

/// The factors that a node is asked for.
type Asked = BTreeMap<usize, BTreeSet<i64>>;

/// The chosen lookups of a cover, in an order in which they can run.
pub(super) fn lookups(choice: &Choice) -> Vec<Lookup> {
    let mut groups = grouped(choice);
    sweep(choice, &mut groups);
    let asked = asked(choice, &groups);
    let factor = |leaf: usize, weight: i64| {
        let factors = asked.get(&leaf).into_iter().flatten();
        let factor = factors.filter(|f| weight % **f == 0).max();
        ((leaf, factor.copied().unwrap_or(1)), weight)
    };
    let plain = BTreeSet::from([1]);
    let factors = |node: usize| asked.get(&node).filter(|factors| !factors.is_empty());
    let mut found = vec![];
    for (leaves, group) in groups.iter().flat_map(|(l, groups)| groups.iter().map(move |g| (l, g)))
    {
        let form = &group.form;
        let sources: Vec<_> = match leaves.len() {
            0 | 1 => leaves.iter().map(|l| ((*l as usize, 1), 1)).collect(),
            _ => leaves.iter().zip(form.weights()).map(|(l, w)| factor(*l as usize, *w)).collect(),
        };
        let mut results = vec![];
        for (node, function) in &group.nodes {
            let table = match leaves.len() {
                0 => vec![(function & 1) as u8],
                1 => vec![(function & 1) as u8, (function >> 1 & 1) as u8],
                _ => form.table(*function).into_iter().map(u8::from).collect(),
            };
            let factors = factors(*node).filter(|_| leaves.len() > 1).unwrap_or(&plain);
            results.extend(factors.iter().map(|factor| ((*node, *factor), table.clone())));
        }
        split(choice, sources, form.offset, form.limit(), results, &mut found);
    }
    for (sum, digits) in choice.circuit.sums.iter().zip(digits(choice.circuit)) {
        // An upper digit comes with the one below it.
        let whole = |t: &&(usize, i64)| !matches!(choice.circuit.nodes[t.0], Node::Upper(..));
        let terms = sum.terms.iter().filter(whole);
        let sources = terms.map(|(leaf, weight)| factor(*leaf, *weight)).collect();
        let limit = sum.limit;
        let value = |v: i64, place: u8, width: u8| (v >> place & ((1 << width) - 1)) as u8;
        let result = |(node, place, width): (usize, u8, u8)| {
            let table: Vec<u8> = (0..=limit).map(|v| value(v, place, width)).collect();
            let factors = factors(node).unwrap_or(&plain);
            factors.iter().map(move |factor| ((node, *factor), table.clone()))
        };
        let results = digits.into_iter().flat_map(result).collect();
        split(choice, sources, sum.offset, limit, results, &mut found);
    }
    found.sort_by_key(|l| l.results.iter().map(|r| r.0.0).min());
    found
}

/// The results of each sum: the node, the lowest digit, and how many digits it has.
fn digits(circuit: &Circuit) -> Vec<Vec<(usize, u8, u8)>> {
    let mut found = vec![vec![]; circuit.sums.len()];
    for (node, kind) in circuit.nodes.iter().enumerate() {
        match kind {
            Node::Digit(sum, place) => found[*sum as usize].push((node, *place, 1)),
            Node::Upper(sum, _) => {
                if let Some((_, _, width)) = found[*sum as usize].last_mut() {
                    *width += 1;
                }
            }
            _ => {}
        }
    }
    found
}

/// As many results as a rotation of this sum has, a power of two.
fn split(
    choice: &Choice,
    leaves: Vec<(Source, i64)>,
    offset: i64,
    limit: i64,
    results: Vec<(Source, Vec<u8>)>,
    found: &mut Vec<Lookup>,
) {
    let room = (choice.forms.room.values / (limit + 1)).max(1) as u32;
    found.extend(results.chunks(1 << room.ilog2()).map(|part| Lookup {
        leaves: leaves.clone(),
        offset,
        results: part.to_vec(),
    }));
}

/// The chosen cuts by their leaves, as many in a rotation as have a form together. A node may be one more result of a rotation of
/// another of its cuts.
fn grouped(choice: &Choice) -> Groups {
    let used = |n: &usize| choice.uses[*n] > 0 && !choice.cuts[*n].is_empty();
    let mut nodes: Vec<usize> = (1..choice.cuts.len()).filter(used).collect();
    // Wide lookups first: narrow ones can join them.
    nodes.sort_by_key(|n| (Reverse(choice.cut(*n).leaves.len()), *n));
    let mut groups = Groups::new();
    for node in nodes {
        let own = choice.cut(node);
        let width = own.leaves.len();
        let late = |cut: &Cut| {
            let ready = cut.leaves.iter().map(|l| choice.ready(*l as usize)).max();
            // Where that is not sure, it is found out when the cost of the cover is counted.
            match choice.exact {
                true => ready >= Some(choice.required[node]),
                false => choice.arrival_of(cut) > choice.required[node],
            }
        };
        let others = choice.cuts[node].iter().filter(|c| c.leaves.len() > 1 && !late(c));
        let joined = width > 1
            && [own].iter().chain(others).any(|cut| {
                let mut hosts = groups.get_mut(&cut.leaves).into_iter().flatten();
                hosts.any(|g: &mut Group| g.add(choice.forms, node, cut.function, cut.leaves.len()))
            });
        if !joined {
            let can = |l: u32| choice.can_scale(l);
            let form = choice.forms.weighed(own.function, &own.leaves, can);
            let form = form.filter(|_| width > 1).map_or(Form::of(&[]), |f| f.0);
            let group = Group { nodes: vec![(node, own.function)], form };
            groups.entry(own.leaves).or_default().push(group);
        }
    }
    groups
}

impl Group {
    /// One more result, if there is a form.
    fn add(&mut self, forms: &Forms, node: usize, function: u64, leaves: usize) -> bool {
        let functions: Vec<u64> = self.nodes.iter().map(|n| n.1).chain([function]).collect();
        let form = forms.together(&functions, leaves);
        if let Some(form) = form {
            self.nodes.push((node, function));
            self.form = form;
        }
        form.is_some()
    }
}

/// Leaves out nodes that no output needs any more.
fn sweep(choice: &Choice, groups: &mut Groups) {
    let mut place = BTreeMap::new();
    for (leaves, list) in groups.iter() {
        place.extend(list.iter().flat_map(|g| &g.nodes).map(|n| (n.0, *leaves)));
    }
    let mut needed = vec![false; choice.cuts.len()];
    choice.roots().into_iter().for_each(|n| needed[n] = true);
    for node in (0..needed.len()).rev().filter(|n| place.contains_key(n)) {
        if needed[node] {
            place[&node].iter().for_each(|l| needed[*l as usize] = true);
        }
    }
    for list in groups.values_mut() {
        list.iter_mut().for_each(|g| g.nodes.retain(|n| needed[n.0]));
        list.retain(|g| !g.nodes.is_empty());
    }
}

/// Which factors the sums ask of each node: those that keep their noise low, and 1 where none of these divides a weight.
fn asked(choice: &Choice, groups: &Groups) -> Asked {
    let norm = choice.forms.room.norm;
    let can = |l: u32| choice.can_scale(l);
    let mut asked = Asked::new();
    let all = || groups.iter().flat_map(|(l, groups)| groups.iter().map(move |g| (l, &g.form)));
    for (leaves, form) in all() {
        for i in heavy(form, leaves, norm, can).unwrap_or_default() {
            let factors = asked.entry(leaves[i] as usize).or_default();
            factors.insert(form.weights()[i].abs());
        }
    }
    choice.roots().into_iter().for_each(|n| {
        asked.entry(n).or_default().insert(1);
    });
    for (leaves, form) in all() {
        for (i, leaf) in leaves.iter().enumerate() {
            let factors = asked.entry(*leaf as usize).or_default();
            // A copy has no weights.
            let weight = form.weights().get(i).copied().unwrap_or(1);
            if !factors.iter().any(|f| weight % f == 0) {
                factors.insert(1);
            }
        }
    }
    asked
}
