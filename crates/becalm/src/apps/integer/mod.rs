//! Encrypted integers: booleans, unsigned and two's complement integers of 2 to 256 bits, as digits of base 4.
//!
//! A [`Word`] is such an integer inside a [`Circuit`]; the operations on it record bootstraps. [`Integers`] is a batch of
//! encrypted ones outside: one batch of ciphertexts for each digit, least significant first. The cost of a circuit is
//! known before it runs: [`Recorded::program`] has a [`cost`](crate::program::Program::cost).

mod arithmetic;
mod array;
mod compare;
mod count;
mod decompose;
mod divide;
mod element;
mod expression;
mod file;
mod forms;
mod multiply;
mod operations;
mod prefix;
mod shift;
mod sign;
mod size;
mod table;
mod tabulate;
mod value;
mod zero;

pub use array::{LIST_OPERATIONS, ListOperation};
pub use expression::{Expr, Formula};
pub use forms::{Forms, fitting};
pub use operations::{OPERATIONS, Operation};
pub use shift::Shift;
pub use size::most_elements;
pub use value::{Clear, Integers};

use super::circuit::{Circuit, Sum};
use crate::cipher::{Ciphertext, Lwe};
use crate::program::Program;
use crate::tfhe::noise::bootstrap_output;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// Most bits of an integer.
pub const MAX_BITS: u32 = 256;

/// The type of an encrypted integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// True or false.
    Bool,
    /// Unsigned, of this number of bits.
    Uint(u32),
    /// Two's complement, of this number of bits.
    Int(u32),
}

impl Type {
    /// The type itself if it is one: 2 to 256 bits.
    ///
    /// # Errors
    /// [`Error::BadInput`] for other widths.
    pub fn checked(self) -> Result<Self> {
        if self == Type::Bool || (2..=MAX_BITS).contains(&self.bits()) {
            return Ok(self);
        }
        Err(Error::bad_input(
            "integer",
            format!("2 to {MAX_BITS} bits"),
            self.bits().to_string(),
            "choose a width in that range",
        ))
    }

    /// Bits of a value.
    pub fn bits(self) -> u32 {
        match self {
            Type::Bool => 1,
            Type::Uint(bits) | Type::Int(bits) => bits,
        }
    }

    /// The least and the greatest value, for people: `0 to 255`, `-2^99 to 2^99 - 1`.
    pub fn range(self) -> String {
        match self {
            Type::Bool => "0 or 1".into(),
            Type::Uint(bits @ 0..=64) => format!("0 to {}", (1u128 << bits) - 1),
            Type::Int(bits @ 1..=64) => {
                let half = 1i128 << (bits - 1);
                format!("{} to {}", -half, half - 1)
            }
            Type::Uint(bits) => format!("0 to 2^{bits} - 1"),
            Type::Int(bits) => format!("-2^{0} to 2^{0} - 1", bits - 1),
        }
    }

    /// True for two's complement.
    pub fn signed(self) -> bool {
        matches!(self, Type::Int(_))
    }

    /// Digits of a value: the width in base 4, rounded up.
    pub fn digits(self) -> usize {
        self.bits().div_ceil(2) as usize
    }

    /// The greatest value of a digit: 3, or 1 for the last of an odd width.
    pub fn mask(self, digit: usize) -> i64 {
        if 2 * digit + 1 == self.bits() as usize { 1 } else { 3 }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => write!(f, "bool"),
            Type::Uint(bits) => write!(f, "uint{bits}"),
            Type::Int(bits) => write!(f, "int{bits}"),
        }
    }
}

impl FromStr for Type {
    type Err = Error;
    /// `bool`, `uint64`, `int7`, …
    fn from_str(text: &str) -> Result<Self> {
        let width = |digits: &str| digits.parse().unwrap_or(0);
        match (text, text.strip_prefix("uint"), text.strip_prefix("int")) {
            ("bool", ..) => Ok(Type::Bool),
            (_, Some(bits), _) => Type::Uint(width(bits)).checked(),
            (_, _, Some(bits)) => Type::Int(width(bits)).checked(),
            _ => Err(Error::bad_input("integer", "bool, uintN or intN", text, "write uint64")),
        }
    }
}

/// An encrypted integer in a circuit, or a clear one, which is folded into tables and costs nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub(super) ty: Type,
    pub(super) digits: Vec<Sum>,
}

impl Word {
    /// A clear value.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the type cannot hold it.
    pub fn clear(ty: Type, value: Clear) -> Result<Word> {
        let digits = value.digits(ty.checked()?)?;
        Ok(Word { ty, digits: digits.iter().map(|d| Sum::clear(*d as i64)).collect() })
    }

    /// Its type.
    pub fn ty(&self) -> Type {
        self.ty
    }

    pub(super) fn bool(digit: Sum) -> Word {
        Word { ty: Type::Bool, digits: vec![digit] }
    }

    /// The digit at `i`, or zero past the last.
    pub(super) fn digit(&self, i: usize) -> Sum {
        self.digits.get(i).cloned().unwrap_or(Sum::clear(0))
    }

    /// The digits of a clear word.
    pub(super) fn constants(&self) -> Option<Vec<i64>> {
        self.digits.iter().map(Sum::constant).collect()
    }

    /// The exponent of a clear power of two.
    pub(super) fn power_of_two(&self) -> Option<u64> {
        let digits = self.constants()?;
        let at = digits.iter().position(|d| *d != 0)?;
        let alone = digits[at].count_ones() == 1 && digits[at + 1..].iter().all(|d| *d == 0);
        alone.then(|| 2 * at as u64 + u64::from(digits[at].trailing_zeros()))
    }

    /// Refuses operands of different types.
    pub(super) fn require_like(&self, other: &Word, op: &'static str) -> Result<()> {
        if self.ty == other.ty {
            return Ok(());
        }
        let (wanted, got) = (self.ty.to_string(), other.ty.to_string());
        Err(Error::bad_input(op, wanted, got, "cast one of them"))
    }

    /// The boolean.
    pub(super) fn truth(&self, op: &'static str) -> Result<&Sum> {
        match (self.ty, &self.digits[..]) {
            (Type::Bool, [only]) => Ok(only),
            _ => Err(Error::bad_input(op, "a bool", self.ty.to_string(), "compare with zero")),
        }
    }
}

/// A finished circuit on integers.
#[derive(Debug, Clone)]
pub struct Recorded {
    program: Arc<Program>,
    inputs: Vec<Type>,
    outputs: Vec<Type>,
    takes_any: OnceLock<bool>,
}

impl Circuit<'_> {
    /// A new argument.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a width that no integer has.
    pub fn input(&mut self, ty: Type) -> Result<Word> {
        ty.checked()?;
        let digit = |i| self.argument(Circuit::encoding(), ty.mask(i));
        Ok(Word { ty, digits: (0..ty.digits()).map(digit).collect() })
    }

    /// The circuit as a program whose arguments are the inputs, digit by digit, and whose results are `outputs`.
    ///
    /// # Errors
    /// [`Error::BadInput`] for words that are not of this circuit, or constants in a circuit without inputs.
    pub fn finish(mut self, inputs: &[&Word], outputs: &[&Word]) -> Result<Recorded> {
        for word in outputs {
            for (i, digit) in self.fresh(word)?.digits.iter().enumerate() {
                // A table may list values that its argument never has.
                let known = digit.clone().within(digit.low.max(0), digit.high.min(word.ty.mask(i)));
                self.result(&known, Circuit::encoding(), 1)?;
            }
        }
        let program = self.into_program();
        let types = |words: &[&Word]| words.iter().map(|w| w.ty).collect::<Vec<Type>>();
        let recorded = Recorded {
            program: Arc::new(program),
            inputs: types(inputs),
            outputs: types(outputs),
            takes_any: OnceLock::new(),
        };
        let digits: usize = recorded.inputs.iter().map(|t| t.digits()).sum();
        if digits != recorded.program.inputs().len() {
            return Err(Error::bad_input(
                "finish",
                format!("inputs of {} digits", recorded.program.inputs().len()),
                digits.to_string(),
                "name every input of the circuit once, in order",
            ));
        }
        Ok(recorded)
    }
}

impl Recorded {
    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Types of the arguments.
    pub fn inputs(&self) -> &[Type] {
        &self.inputs
    }

    /// Types of the results.
    pub fn outputs(&self) -> &[Type] {
        &self.outputs
    }

    /// Whether it takes any results of bootstraps, related ones too.
    pub fn takes_any(&self) -> bool {
        *self.takes_any.get_or_init(|| {
            let (noise, count) =
                (bootstrap_output(self.program.params()), self.program.inputs().len());
            self.program.follow_related(&vec![noise; count], &vec![true; count]).is_ok()
        })
    }

    /// The program's arguments: the digits of the integers.
    ///
    /// # Errors
    /// [`Error::BadInput`] for integers of other types than the circuit's inputs.
    pub fn arguments(&self, integers: &[&Integers]) -> Result<Vec<Ciphertext>> {
        let types: Vec<Type> = integers.iter().map(|x| x.ty()).collect();
        if types != self.inputs {
            let names = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>();
            let (wanted, got) = (names(&self.inputs), names(&types));
            return Err(Error::bad_input(
                "arguments",
                format!("arguments {}", wanted.join(", ")),
                got.join(", "),
                "cast them, or record the circuit for these types",
            ));
        }
        let digits = integers.iter().flat_map(|x| x.digits());
        Ok(digits.map(|d| d.clone().into()).collect())
    }

    /// The program's results as integers.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of batches than the program has outputs.
    pub fn results(&self, batches: Vec<Lwe>) -> Result<Vec<Integers>> {
        let wanted: usize = self.outputs.iter().map(|t| t.digits()).sum();
        if batches.len() != wanted {
            let got = batches.len().to_string();
            return Err(Error::bad_input(
                "results",
                format!("{wanted} batches"),
                got,
                "pass all results",
            ));
        }
        let mut rest = batches.into_iter();
        let mut take = |ty: &Type| Integers::new(*ty, rest.by_ref().take(ty.digits()).collect());
        self.outputs.iter().map(&mut take).collect()
    }

    /// The results for clear arguments, without any encryption: see [`Program::run_unencrypted`].
    ///
    /// # Errors
    /// As there.
    pub fn run_unencrypted(&self, arguments: &[Clear]) -> Result<Vec<Clear>> {
        let mut digits = vec![];
        for (ty, value) in self.inputs.iter().zip(arguments) {
            digits.extend(value.digits(*ty)?.iter().map(|d| *d as i64));
        }
        let mut rest = self.program.run_unencrypted(&digits)?.into_iter().map(|d| d as u64);
        let mut take = |ty: &Type| {
            Clear::from_digits(*ty, &rest.by_ref().take(ty.digits()).collect::<Vec<u64>>())
        };
        Ok(self.outputs.iter().map(&mut take).collect())
    }
}
