//! Operations as tables: what depends on one word of at most 8 bits alone, beside clear ones, is looked up where that costs less.

use super::{Clear, Recorded, Type, Word};
use crate::Result;
use crate::apps::circuit::{Aim, Circuit};

/// Most digits of the results of an operation that is tried as tables.
const MOST: usize = 16;

/// Records an operation on some words.
pub(super) type Record<'a> = &'a dyn Fn(&mut Circuit, &[Word]) -> Result<Vec<Word>>;

/// The only word that is not clear, perhaps several times, if a table takes it for an index.
fn index(words: &[Word]) -> Option<&Word> {
    let mut open = words.iter().filter(|w| w.digits.iter().any(|d| d.constant().is_none()));
    let first = open.next()?;
    let fits = (2..=8).contains(&first.ty.bits()) && open.all(|w| w == first);
    fits.then_some(first)
}

impl Circuit<'_> {
    /// An operation on words, by tables if that costs less by the aim.
    pub(super) fn cheaper(&mut self, words: &[Word], record: Record) -> Result<Vec<Word>> {
        let found = index(words).map(|x| Ok((x, self.tables(words, x, record)?))).transpose()?;
        let Some((x, Some((types, tables)))) = found else { return record(self, words) };
        let x = Word { ty: Type::Uint(x.ty.bits()), digits: x.digits.clone() };
        let tables = types.iter().zip(&tables);
        tables.map(|(ty, entries)| self.table(&x, *ty, entries)).collect()
    }

    /// The types of the results and their tables, if these cost less.
    #[allow(clippy::type_complexity)]
    fn tables(
        &self,
        words: &[Word],
        x: &Word,
        record: Record,
    ) -> Result<Option<(Vec<Type>, Vec<Vec<Clear>>)>> {
        let ty = Type::Uint(x.ty.bits());
        let mut plain = self.beside()?;
        let index = plain.input(ty)?;
        let own = Word { ty: x.ty, digits: index.digits.clone() };
        let put = |w: &Word| if w == x { own.clone() } else { w.clone() };
        let words: Vec<Word> = words.iter().map(put).collect();
        let results = record(&mut plain, &words)?;
        if results.iter().map(|w| w.digits.len()).sum::<usize>() > MOST {
            return Ok(None);
        }
        let plain = plain.finish(&[&index], &results.iter().collect::<Vec<_>>())?;
        // One bootstrap or none is as little as a table takes.
        if plain.program().cost().bootstraps < 2 {
            return Ok(None);
        }
        let values = (0..1u64 << ty.bits()).map(|v| plain.run_unencrypted(&[Clear::from(v)]));
        let values = values.collect::<Result<Vec<_>>>()?;
        let column = |i: usize| values.iter().map(|v| v[i]).collect();
        let tables: Vec<Vec<Clear>> = (0..results.len()).map(column).collect();
        let mut looked_up = self.beside()?;
        let index = looked_up.input(ty)?;
        let all = plain.outputs().iter().zip(&tables);
        let words = all.map(|(ty, entries)| looked_up.table(&index, *ty, entries));
        let words = words.collect::<Result<Vec<_>>>()?;
        let looked_up = looked_up.finish(&[&index], &words.iter().collect::<Vec<_>>())?;
        let key = |recorded: &Recorded| {
            let cost = recorded.program().cost();
            match self.aim() {
                Aim::Work => (cost.bootstraps, cost.depth),
                Aim::Depth => (cost.depth, cost.bootstraps),
            }
        };
        let less = key(&looked_up) < key(&plain);
        Ok(less.then(|| (plain.outputs().to_vec(), tables)))
    }
}
