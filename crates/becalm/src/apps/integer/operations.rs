//! The operations by name, for front ends and tests.

use super::{Shift, Type, Word};
use crate::apps::circuit::Circuit;
use crate::{Error, Result};

/// An operation with a name.
pub struct Operation {
    /// Its name: `"add"`.
    pub name: &'static str,
    /// How many words it takes.
    pub arity: usize,
    record: fn(&mut Circuit, &[Word]) -> Result<Vec<Word>>,
}

/// Every operation of one to three words; shifts take their amount as a word.
pub const OPERATIONS: &[Operation] = &[
    op("add", 2, |c, w| one(c.add(&w[0], &w[1]))),
    op("sub", 2, |c, w| one(c.sub(&w[0], &w[1]))),
    op("mul", 2, |c, w| one(c.mul(&w[0], &w[1]))),
    op("div", 2, |c, w| one(c.div(&w[0], &w[1]))),
    op("rem", 2, |c, w| one(c.rem(&w[0], &w[1]))),
    op("div_rem", 2, |c, w| two(c.div_rem(&w[0], &w[1]))),
    op("neg", 1, |c, w| one(c.neg(&w[0]))),
    op("abs", 1, |c, w| one(c.abs(&w[0]))),
    op("and", 2, |c, w| one(c.and(&w[0], &w[1]))),
    op("or", 2, |c, w| one(c.or(&w[0], &w[1]))),
    op("xor", 2, |c, w| one(c.xor(&w[0], &w[1]))),
    op("not", 1, |c, w| Ok(vec![c.not(&w[0])])),
    op("refresh", 1, |c, w| one(c.refresh(&w[0]))),
    op("shl", 2, |c, w| one(moved(c, Shift::Left, w))),
    op("shr", 2, |c, w| one(moved(c, Shift::Right, w))),
    op("rotate_left", 2, |c, w| one(moved(c, Shift::RotateLeft, w))),
    op("rotate_right", 2, |c, w| one(moved(c, Shift::RotateRight, w))),
    op("eq", 2, |c, w| one(c.eq(&w[0], &w[1]))),
    op("ne", 2, |c, w| one(c.ne(&w[0], &w[1]))),
    op("gt", 2, |c, w| one(c.gt(&w[0], &w[1]))),
    op("ge", 2, |c, w| one(c.le(&w[1], &w[0]))),
    op("lt", 2, |c, w| one(c.gt(&w[1], &w[0]))),
    op("le", 2, |c, w| one(c.le(&w[0], &w[1]))),
    op("min", 2, |c, w| one(c.min(&w[0], &w[1]))),
    op("max", 2, |c, w| one(c.max(&w[0], &w[1]))),
    op("select", 3, |c, w| one(c.select(&w[0], &w[1], &w[2]))),
    op("overflowing_add", 2, |c, w| two(c.overflowing_add(&w[0], &w[1]))),
    op("overflowing_sub", 2, |c, w| two(c.overflowing_sub(&w[0], &w[1]))),
    op("overflowing_mul", 2, |c, w| two(c.overflowing_mul(&w[0], &w[1]))),
    op("leading_zeros", 1, |c, w| one(c.leading_zeros(&w[0]))),
    op("trailing_zeros", 1, |c, w| one(c.trailing_zeros(&w[0]))),
    op("leading_ones", 1, |c, w| one(c.leading_ones(&w[0]))),
    op("trailing_ones", 1, |c, w| one(c.trailing_ones(&w[0]))),
    op("count_ones", 1, |c, w| one(c.count_ones(&w[0]))),
    op("ilog2", 1, |c, w| one(c.ilog2(&w[0]))),
];

const fn op(
    name: &'static str,
    arity: usize,
    record: fn(&mut Circuit, &[Word]) -> Result<Vec<Word>>,
) -> Operation {
    Operation { name, arity, record }
}

fn one(word: Result<Word>) -> Result<Vec<Word>> {
    Ok(vec![word?])
}

fn two(words: Result<(Word, Word)>) -> Result<Vec<Word>> {
    let (a, b) = words?;
    Ok(vec![a, b])
}

/// By a clear amount where the word is a constant.
fn moved(c: &mut Circuit, how: Shift, words: &[Word]) -> Result<Word> {
    let amount = &words[1];
    if amount.ty.signed() {
        let got = amount.ty.to_string();
        return Err(Error::bad_input("shift", "an unsigned amount", got, "cast it to uintN"));
    }
    let digits: Option<Vec<i64>> = amount.digits.iter().map(|d| d.constant()).collect();
    match digits {
        // A rotation counts modulo the width; any other amount past 2^64 moves everything out.
        Some(d) => {
            let bits = u64::from(words[0].ty.bits());
            let turns = matches!(how, Shift::RotateLeft | Shift::RotateRight);
            let more = |n: u64, d: &i64| match turns {
                true => (n * 4 + *d as u64) % bits,
                false => n.saturating_mul(4).saturating_add(*d as u64),
            };
            c.shift(how, &words[0], d.iter().rev().fold(0, more))
        }
        None => c.shift_by(how, &words[0], amount),
    }
}

impl Operation {
    /// The operation of a name.
    ///
    /// # Errors
    /// [`Error::BadInput`] if there is none.
    pub fn named(name: &str) -> Result<&'static Operation> {
        OPERATIONS.iter().find(|o| o.name == name).ok_or_else(|| {
            let names: Vec<&str> = OPERATIONS.iter().map(|o| o.name).collect();
            Error::bad_input("operation", names.join(", "), name, "choose one of these")
        })
    }

    /// Records the operation on some words.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of words, or types that it does not take.
    pub fn record(&self, circuit: &mut Circuit, words: &[Word]) -> Result<Vec<Word>> {
        if words.len() != self.arity {
            let (wanted, got) = (format!("{} words", self.arity), words.len().to_string());
            return Err(Error::bad_input(self.name, wanted, got, "pass one for each operand"));
        }
        // Who refreshes a word wants its bootstraps.
        match self.name {
            "refresh" => (self.record)(circuit, words),
            _ => circuit.cheaper(words, &self.record),
        }
    }

    /// The operation alone, as a circuit with inputs of these types.
    ///
    /// # Errors
    /// As [`Operation::record`].
    pub fn circuit(
        &self,
        params: std::sync::Arc<crate::params::TfheParams>,
        aim: crate::apps::Aim,
        types: &[Type],
    ) -> Result<super::Recorded> {
        self.on(Circuit::new(params, aim)?, types)
    }

    /// The operation on inputs of these types, in an empty circuit.
    ///
    /// # Errors
    /// As [`Operation::record`].
    pub fn on(&self, mut circuit: Circuit, types: &[Type]) -> Result<super::Recorded> {
        let inputs = types.iter().map(|t| circuit.input(*t)).collect::<Result<Vec<_>>>()?;
        let outputs = self.record(&mut circuit, &inputs)?;
        circuit.finish(&inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>())
    }
}
