//! Operators: a circuit that is written as a formula.

use super::{Clear, Operation, Recorded, Type, Word};
use crate::apps::{Aim, Circuit};
use crate::params::TfheParams;
use crate::{Error, Result};
use std::cell::RefCell;
use std::ops;
use std::sync::Arc;

/// A circuit that is recorded by operators on its [`Expr`]essions. [`Formula::finish`] returns
/// the errors of the recorder.
///
/// ```
/// # use becalm::apps::{Aim, integer::{Clear, Formula, Type}};
/// # use becalm::params::TfheParams;
/// let params = TfheParams::named("tfhe_2_2")?.clone();
/// let formula = Formula::new(params.into(), Aim::Work)?;
/// let (a, b) = (formula.input(Type::Uint(16)), formula.input(Type::Uint(16)));
/// let circuit = formula.finish(&[&((&a + &b) * &a)])?;
/// let clear = circuit.run_unencrypted(&[Clear::from(300u64), Clear::from(5u64)])?;
/// assert_eq!(clear[0].low(), (305 * 300) % 65536);
///
/// let formula = Formula::new(circuit.program().params().clone(), Aim::Work)?;
/// let x: Vec<_> = (0..3).map(|_| formula.input(Type::Uint(16))).collect();
/// let (x, at) = (x.iter().collect::<Vec<_>>(), formula.input(Type::Uint(2)));
/// let squares = [0u64, 1, 4, 9].map(Clear::from);
/// let result = formula.dot(&x, &x) + formula.index(&x, &at) * at.table(Type::Uint(16), &squares);
/// let circuit = formula.finish(&[&result, &formula.sum(&x)])?;
/// let clear = circuit.run_unencrypted(&[3u64, 5, 7, 2].map(Clear::from))?;
/// assert_eq!([clear[0].low(), clear[1].low()], [9 + 25 + 49 + 7 * 4, 15]);
/// # Ok::<(), becalm::Error>(())
/// ```
pub struct Formula {
    circuit: RefCell<Circuit<'static>>,
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

    /// The sum of expressions of one type, modulo 2^bits.
    pub fn sum(&self, terms: &[&Expr]) -> Expr<'_> {
        self.record(&[terms], |c, words| c.sum(&words[0]))
    }

    /// How many of these booleans are true, in an unsigned type just wide enough.
    pub fn count(&self, flags: &[&Expr]) -> Expr<'_> {
        self.record(&[flags], |c, words| c.count(&words[0]))
    }

    /// Σ aᵢ·bᵢ, modulo 2^bits.
    pub fn dot(&self, a: &[&Expr], b: &[&Expr]) -> Expr<'_> {
        self.record(&[a, b], |c, words| c.dot(&words[0], &words[1]))
    }

    /// The element of an array at an encrypted index; 0 past its end. Bounds as [`Circuit::index`].
    pub fn index(&self, array: &[&Expr], at: &Expr) -> Expr<'_> {
        self.record(&[array, &[at]], |c, words| c.index(&words[0], &words[1][0]))
    }

    /// Records a step on lists of expressions of this formula.
    fn record(
        &self,
        lists: &[&[&Expr]],
        step: impl FnOnce(&mut Circuit, &[Vec<Word>]) -> Result<Word>,
    ) -> Expr<'_> {
        let mut all = lists.iter().copied().flatten();
        let word = match all.all(|e| std::ptr::eq(e.formula, self)) {
            false => {
                let remedy = "take expressions of the formula that they enter";
                let got = "one of another formula";
                Err(Error::bad_input("formula", "expressions of one formula", got, remedy))
            }
            true => {
                let words: Vec<Vec<Word>> =
                    lists.iter().map(|l| l.iter().map(|e| e.word.clone()).collect()).collect();
                step(&mut self.circuit.borrow_mut(), &words)
            }
        };
        Expr { formula: self, word: self.or_refused(word) }
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
        if outputs.iter().any(|e| !std::ptr::eq(e.formula, self)) {
            let (wanted, got) = ("expressions of this formula", "one of another");
            return Err(Error::bad_input(
                "finish",
                wanted,
                got,
                "pass expressions of this formula",
            ));
        }
        let inputs = self.inputs.borrow();
        let outputs: Vec<&Word> = outputs.iter().map(|e| &e.word).collect();
        self.circuit.borrow().clone().finish(&inputs.iter().collect::<Vec<_>>(), &outputs)
    }
}

impl<'a> Expr<'a> {
    /// Its type.
    pub fn ty(&self) -> Type {
        self.word.ty
    }

    /// The first result of an operation by its name, on this and further operands.
    pub fn apply(&self, name: &str, others: &[&Expr]) -> Expr<'a> {
        self.formula.record(&[&[self], others], |c, words| {
            Ok(Operation::named(name)?.record(c, &words.concat())?.remove(0))
        })
    }

    /// `a` where this boolean is true, else `b`.
    pub fn select(&self, a: &Expr, b: &Expr) -> Expr<'a> {
        self.apply("select", &[a, b])
    }

    /// The entry of a clear table at this value; 0 past its end. Bounds as [`Circuit::table`].
    pub fn table(&self, ty: Type, entries: &[Clear]) -> Expr<'a> {
        self.formula.record(&[&[self]], |c, words| c.table(&words[0][0], ty, entries))
    }

    /// The value in another type; see [`Circuit::cast`].
    pub fn cast(&self, ty: Type) -> Expr<'a> {
        self.formula.record(&[&[self]], |c, words| c.cast(&words[0][0], ty))
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
        impl<'a> ops::$operator<Expr<'a>> for &Expr<'a> {
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

macro_rules! unary {
    ($($operator:ident $method:ident $name:literal,)*) => {$(
        impl<'a> ops::$operator for &Expr<'a> {
            type Output = Expr<'a>;
            fn $method(self) -> Expr<'a> {
                self.apply($name, &[])
            }
        }
        impl<'a> ops::$operator for Expr<'a> {
            type Output = Expr<'a>;
            fn $method(self) -> Expr<'a> {
                self.apply($name, &[])
            }
        }
    )*};
}
unary! { Neg neg "neg", Not not "not", }
