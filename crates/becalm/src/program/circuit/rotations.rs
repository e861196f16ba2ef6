//! From chosen cuts to rotations: lookups of the same leaves share one as far as its room goes, and a node whose weight in a
//! sum would be too noisy is put out with that weight in it, beside itself or instead.

use super::cover::Mapper;
use super::cuts::{Cut, Forms, Leaves, heavy};
use super::weights::Form;
use std::collections::{BTreeMap, BTreeSet};

/// A node, and the factor that it was put out with.
pub(super) type Source = (usize, i64);

/// Lookups of one linear form: the nodes that one rotation gives, from the same leaves.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    /// Node, and the factor that is in it already: the weight is a multiple.
    pub leaves: Vec<Source>,
    /// What it gives, and the function of the leaves.
    pub results: Vec<(Source, u64)>,
    pub form: Form,
}

/// A group of functions by their places, and their form.
pub(super) type Group = (Vec<usize>, Form);

/// Functions of the same leaves in groups, each of one rotation.
pub(super) fn pack(forms: &mut Forms, functions: &[u64], leaves: usize) -> Vec<Group> {
    if functions.is_empty() {
        return vec![];
    }
    let mut groups: Vec<(Vec<u64>, Group)> = vec![];
    'next: for (place, f) in functions.iter().enumerate() {
        for (list, group) in &mut groups {
            list.push(*f);
            // One function twice, with another factor, is a result of its own.
            if let Some(form) = forms.together(list, leaves) {
                group.0.push(place);
                group.1 = form;
                continue 'next;
            }
            list.pop();
        }
        let alone = forms.alone(*f, leaves);
        let form = alone.unwrap_or(Form { weights: vec![], offset: 0 });
        groups.push((vec![*f], (vec![place], form)));
    }
    groups.into_iter().map(|g| g.1).collect()
}

/// A rotation before it is known which factors its results must have in them.
struct Draft {
    leaves: Leaves,
    nodes: Vec<(usize, u64)>,
    form: Form,
}

/// The factors that a node is asked for.
type Asked = BTreeMap<usize, BTreeSet<i64>>;

/// The chosen lookups of a cover, in an order in which they can run.
pub(super) fn lookups(mapper: &mut Mapper) -> Vec<Lookup> {
    let drafts = drafts(mapper);
    let asked = asked(mapper, &drafts);
    let values = mapper.forms.room.values;
    let mut found = vec![];
    for Draft { leaves, nodes, form } in drafts {
        let source = |(leaf, weight): (&u32, &i64)| {
            let factors = asked.get(&(*leaf as usize)).into_iter().flatten();
            let factor = factors.filter(|f| weight % **f == 0).max();
            (*leaf as usize, factor.copied().unwrap_or(1))
        };
        let sources: Vec<Source> = match leaves.len() {
            0 | 1 => leaves.iter().map(|l| (*l as usize, 1)).collect(),
            _ => leaves.iter().zip(&form.weights).map(source).collect(),
        };
        let mut results = vec![];
        for (node, function) in nodes {
            let factors = asked.get(&node).filter(|_| leaves.len() > 1);
            let factors = factors.cloned().unwrap_or_else(|| BTreeSet::from([1]));
            results.extend(factors.into_iter().map(|factor| ((node, factor), function)));
        }
        // As many results as a rotation of this sum has, a power of two.
        let room = (values / (form.limit() + 1)).max(1) as u32;
        let most = 1 << room.ilog2();
        found.extend(results.chunks(most).map(|part| {
            let (leaves, results) = (sources.clone(), part.to_vec());
            Lookup { leaves, results, form: form.clone() }
        }));
    }
    found.sort_by_key(|l| l.results.iter().map(|r| r.0.0).min());
    found
}

/// The chosen cuts by their leaves, as many in a rotation as have a form together.
fn drafts(mapper: &mut Mapper) -> Vec<Draft> {
    let mut hosts: BTreeMap<Leaves, Vec<(usize, u64)>> = BTreeMap::new();
    let mut drafts = vec![];
    for node in 1..mapper.cuts.len() {
        if mapper.uses[node] == 0 || mapper.cuts[node].is_empty() {
            continue;
        }
        let Cut { leaves, function, .. } = mapper.chosen(node);
        if leaves.len() > 1 {
            hosts.entry(leaves).or_default().push((node, function));
        } else {
            let form = Form { weights: vec![], offset: 0 };
            drafts.push(Draft { leaves, nodes: vec![(node, function)], form });
        }
    }
    for (leaves, nodes) in hosts {
        let functions: Vec<u64> = nodes.iter().map(|n| n.1).collect();
        for (places, form) in pack(&mut mapper.forms, &functions, leaves.len()) {
            let nodes = places.iter().map(|p| nodes[*p]).collect();
            drafts.push(Draft { leaves, nodes, form });
        }
    }
    drafts
}

/// Which factors the sums ask of each node: those that keep their noise low, and 1 where none of these divides a weight.
fn asked(mapper: &Mapper, drafts: &[Draft]) -> Asked {
    let norm = mapper.forms.room.norm;
    let can = |l: u32| mapper.can_scale(l);
    let mut asked = Asked::new();
    for draft in drafts {
        let form = &draft.form;
        for i in heavy(form, &draft.leaves, norm, can).unwrap_or_default() {
            let factors = asked.entry(draft.leaves[i] as usize).or_default();
            factors.insert(form.weights[i].abs());
        }
    }
    mapper.roots().into_iter().for_each(|n| {
        asked.entry(n).or_default().insert(1);
    });
    for Draft { leaves, form, .. } in drafts {
        for (i, leaf) in leaves.iter().enumerate() {
            let factors = asked.entry(*leaf as usize).or_default();
            // A copy has no weights.
            let weight = form.weights.get(i).copied().unwrap_or(1);
            if !factors.iter().any(|f| weight % f == 0) {
                factors.insert(1);
            }
        }
    }
    asked
}
