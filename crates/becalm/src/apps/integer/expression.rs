//! Operators: a circuit that is written as a formula.

use super::{Clear, Operation, Recorded, Type, Word};
use crate::apps::{Aim, Circuit};
use crate::params::TfheParams;
use crate::{Error, Result};
use std::cell::RefCell;
use std::ops;
use std::sync::Arc;

/// A circuit that is recorded by operators on its [`Expr`]essions. What the recorder refuses is told by
/// [`Formula::finish`].
///
/// ```
/// # use becalm::apps::{Aim, integer::{Clear, Formula, Type}};
/// # use becalm::params::TfheParams;
/// let params = TfheParams::named("tfhe_2_2")?.clone();
/// let formula = Formula::new(params.into(), Aim::Work)?;
/// let (a, b) = (formula.input(Type::Uint(16)), formula.input(Type::Uint(16)));
/// let circuit = formula.finish(&[&((&a + &b) * &a)])?;
/// let clear = circuit.run_in_the_clear(&[Clear::from(300u64), Clear::from(5u64)])?;
/// assert_eq!(clear[0].low(), (305 * 300) % 65536);
/// # Ok::<(), becalm::Error>(())
/// ```
pub struct Formula {
    circuit: RefCell<Circuit>,
    inputs: RefCell<Vec<Word>>,
    /// The first refusal.
    refused: RefCell<Option<Error>>,
}

/// An encrypted or clear integer in a formula.
#[derive(Clone)]
pub struct Expr<'a> {
    formula: &'a Formula,
    word: Word,
}

impl Formula {
    /// An empty formula.
    ///
    /// # Errors
    /// As [`Circuit::new`].
    pub fn new(params: Arc<TfheParams>, aim: Aim) -> Result<Self> {
        let circuit = RefCell::new(Circuit::new(params, aim)?);
        Ok(Formula { circuit, inputs: RefCell::default(), refused: RefCell::default() })
    }

    /// A new argument.
    pub fn input(&self, ty: Type) -> Expr<'_> {
        let word = self.or_refused(self.circuit.borrow_mut().input(ty));
        self.inputs.borrow_mut().push(word.clone());
        Expr { formula: self, word }
    }

    /// A clear value.
    pub fn clear(&self, ty: Type, value: impl Into<Clear>) -> Expr<'_> {
        Expr { formula: self, word: self.or_refused(Word::clear(ty, value.into())) }
    }

    /// The word, or one that stands for it until the refusal is told.
    fn or_refused(&self, word: Result<Word>) -> Word {
        word.unwrap_or_else(|e| {
            self.refused.borrow_mut().get_or_insert(e);
            Word { ty: Type::Bool, digits: vec![super::Sum::clear(0)] }
        })
    }

    /// The circuit with these results.
    ///
    /// # Errors
    /// The first thing that was refused while recording; as [`Circuit::finish`].
    pub fn finish(&self, outputs: &[&Expr]) -> Result<Recorded> {
        if let Some(e) = &*self.refused.borrow() {
            return Err(e.clone());
        }
        let inputs = self.inputs.borrow();
        let outputs: Vec<&Word> = outputs.iter().map(|e| &e.word).collect();
        self.circuit.borrow().clone().finish(&inputs.iter().collect::<Vec<_>>(), &outputs)
    }
}

impl<'a> Expr<'a> {
    /// The first result of an operation by its name, on this and further operands.
    pub fn apply(&self, name: &str, others: &[&Expr]) -> Expr<'a> {
        let words: Vec<Word> =
            std::iter::once(self).chain(others.iter().copied()).map(|e| e.word.clone()).collect();
        let record = || {
            let operation = Operation::named(name)?;
            Ok(operation.record(&mut self.formula.circuit.borrow_mut(), &words)?.remove(0))
        };
        Expr { formula: self.formula, word: self.formula.or_refused(record()) }
    }

    /// `a` where this boolean is true, else `b`.
    pub fn select(&self, a: &Expr, b: &Expr) -> Expr<'a> {
        self.apply("select", &[a, b])
    }
}

macro_rules! operators {
    ($($operator:ident $method:ident $name:literal,)*) => {$(
        impl<'a> ops::$operator<&Expr<'a>> for &Expr<'a> {
            type Output = Expr<'a>;
            fn $method(self, other: &Expr<'a>) -> Expr<'a> {
                self.apply($name, &[other])
            }
        }
        impl<'a> ops::$operator<&Expr<'a>> for Expr<'a> {
            type Output = Expr<'a>;
            fn $method(self, other: &Expr<'a>) -> Expr<'a> {
                self.apply($name, &[other])
            }
        }
        impl<'a> ops::$operator for Expr<'a> {
            type Output = Expr<'a>;
            fn $method(self, other: Expr<'a>) -> Expr<'a> {
                self.apply($name, &[&other])
            }
        }
    )*};
}
operators! {
    Add add "add",
    Sub sub "sub",
    Mul mul "mul",
    Div div "div",
    Rem rem "rem",
    BitAnd bitand "and",
    BitOr bitor "or",
    BitXor bitxor "xor",
    Shl shl "shl",
    Shr shr "shr",
}

impl<'a> ops::Neg for &Expr<'a> {
    type Output = Expr<'a>;
    fn neg(self) -> Expr<'a> {
        self.apply("neg", &[])
    }
}

impl<'a> ops::Not for &Expr<'a> {
    type Output = Expr<'a>;
    fn not(self) -> Expr<'a> {
        self.apply("not", &[])
    }
}
