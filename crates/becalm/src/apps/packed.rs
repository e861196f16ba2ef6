//! Whole integers on packed ones. An unsigned integer of 4·D bits is D digits, the lowest first. Each digit is a packed integer of 5 bits below
//! 16, in a ciphertext with the digits of up to N integers.
//!
//! Every step is a sum of digits that stays within 5 bits, and a look-up of that sum. Carries go from digit to digit: a prefix network looks
//! up more digits in all, and one look-up fills the machine already. A product of two digits is q(a + b) − q(a − b), q(x) = ⌊x²/4⌋.

use super::integer::Type;
use crate::bootstrap::ckks::KeyPlan;
use crate::program::Reg;
use crate::program::rlwe::CkksProgram;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 4;
/// Bits of the packed integer that holds a digit: room for the sum of two digits and a carry.
pub const PACKED_BITS: u32 = 5;
/// Most bits of an integer.
pub const MOST_BITS: u32 = 64;

/// The greatest digit.
const MOST: u64 = (1 << DIGIT_BITS) - 1;
/// The greatest sum.
const ROOM: u64 = (1 << PACKED_BITS) - 1;

const OP: &str = "packed integers";

/// An operation. Those of two integers take the digits of the first, then those of the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// a + b.
    Add,
    /// a − b.
    Sub,
    /// −a.
    Neg,
    /// a·b.
    Mul,
    /// Whether a < b, as are the next five.
    Lt,
    /// a ≤ b.
    Le,
    /// a > b.
    Gt,
    /// a ≥ b.
    Ge,
    /// a = b.
    Eq,
    /// a ≠ b.
    Ne,
    /// The lesser of both.
    Min,
    /// The greater of both.
    Max,
    /// Both bits, for each bit.
    And,
    /// Either bit.
    Or,
    /// One bit of both.
    Xor,
    /// a where a boolean is true, else b. The boolean comes first.
    Select,
    /// a·2^k.
    Shl(u32),
    /// ⌊a/2^k⌋.
    Shr(u32),
    /// The sum of so many integers.
    Sum(usize),
}

/// Names of the operations without a number.
const NAMES: [(&str, Operation); 16] = [
    ("add", Operation::Add),
    ("sub", Operation::Sub),
    ("neg", Operation::Neg),
    ("mul", Operation::Mul),
    ("lt", Operation::Lt),
    ("le", Operation::Le),
    ("gt", Operation::Gt),
    ("ge", Operation::Ge),
    ("eq", Operation::Eq),
    ("ne", Operation::Ne),
    ("min", Operation::Min),
    ("max", Operation::Max),
    ("and", Operation::And),
    ("or", Operation::Or),
    ("xor", Operation::Xor),
    ("select", Operation::Select),
];

impl Operation {
    /// The operation of this name: `"add"`, or `"shl"`, `"shr"` and `"sum"` with a number.
    ///
    /// # Errors
    /// `BadInput` for another name, or a number that is missing or too many.
    pub fn named(name: &str, number: Option<usize>) -> Result<Operation> {
        let bits = |k: usize| u32::try_from(k).unwrap_or(u32::MAX);
        match (name, number) {
            ("shl", Some(k)) => return Ok(Operation::Shl(bits(k))),
            ("shr", Some(k)) => return Ok(Operation::Shr(bits(k))),
            ("sum", Some(count)) => return Ok(Operation::Sum(count)),
            _ => {}
        }
        let found = NAMES.iter().find(|(own, _)| *own == name && number.is_none());
        found.map(|(_, operation)| *operation).ok_or_else(|| {
            let all: Vec<&str> = NAMES.iter().map(|(own, _)| *own).collect();
            let wanted = format!("{}, or shl, shr or sum with a number", all.join(", "));
            Error::bad_input(OP, wanted, name, "choose one of these")
        })
    }

    /// The type of the result, on integers of this one.
    pub fn result(self, of: Type) -> Type {
        match self {
            Operation::Lt | Operation::Le | Operation::Gt => Type::Bool,
            Operation::Ge | Operation::Eq | Operation::Ne => Type::Bool,
            _ => of,
        }
    }
}

/// How many digits an integer of a type has.
///
/// # Errors
/// `Unsupported` for signed integers; `BadInput` for bits that are no multiple of 4, or too many.
pub fn digits_of(of: Type) -> Result<usize> {
    let bits = match of {
        Type::Bool => return Ok(1),
        Type::Uint(bits) => bits,
        Type::Int(_) => {
            let remedy = "use becalm.uint, or integers of TFHE";
            return Err(Error::unsupported(OP, "unsigned integers", "signed ones", remedy));
        }
    };
    if bits.is_multiple_of(DIGIT_BITS) && (DIGIT_BITS..=MOST_BITS).contains(&bits) {
        return Ok((bits / DIGIT_BITS) as usize);
    }
    let wanted = format!("a multiple of {DIGIT_BITS} bits, at most {MOST_BITS}");
    Err(Error::bad_input(OP, wanted, bits.to_string(), "choose a wider type"))
}

/// The program of an operation on integers of a type, for the keys of a plan.
///
/// # Errors
/// As [`digits_of`]; `WrongParams` for a set without tables of 5 bits; `Unsupported` for an operation that booleans do not have; `BadInput`
/// for a shift by as many bits as there are, or more, and for a sum of nothing.
///
/// ```
/// use becalm::apps::integer::Type;
/// use becalm::apps::packed::{Operation, record};
/// use becalm::bootstrap::ckks::{KeyPlan, Wish};
/// use becalm::params::CkksParams;
///
/// # fn main() -> becalm::Result<()> {
/// let plan = KeyPlan::new(CkksParams::named("ckks_toy_table_5")?, &Wish::default())?;
/// let add = record(&plan, Operation::Add, Type::Uint(8))?;
/// // Two digits of each, and two of the sum.
/// assert_eq!((add.inputs().len(), add.outputs().len()), (4, 2));
/// # Ok(())
/// # }
/// ```
pub fn record(plan: &KeyPlan, operation: Operation, of: Type) -> Result<CkksProgram> {
    let count = digits_of(of)?;
    let most = plan.chain().params().bootstrap.map_or(0, |own| own.table_bits);
    if most < PACKED_BITS {
        let (wanted, remedy) = ("a set with tables of 5 bits", "use `ckks_table_5`");
        return Err(Error::wrong_params(OP, wanted, plan.chain().params().name, remedy));
    }
    let program = CkksProgram::new(plan.chain());
    let mut recorder = Recorder { plan, program, known: BTreeMap::new() };
    let results = match of {
        Type::Bool => recorder.boolean(operation)?,
        _ => recorder.integer(operation, count)?,
    };
    results.into_iter().try_for_each(|reg| recorder.program.output(reg))?;
    Ok(recorder.program)
}

/// A table of a sum, which is signed where the sum was taken of differences.
type Entry<'a> = &'a dyn Fn(i64) -> i64;

/// A summand of a column, and its greatest value.
#[derive(Clone, Copy)]
struct Term {
    reg: Reg,
    most: u64,
}

/// A program in the making.
struct Recorder<'a> {
    plan: &'a KeyPlan,
    program: CkksProgram,
    /// Programs of tables, by their entries.
    known: BTreeMap<Vec<Vec<u64>>, CkksProgram>,
}

impl Recorder<'_> {
    fn inputs(&mut self, count: usize) -> Result<Vec<Reg>> {
        (0..count).map(|_| self.program.input_integers(PACKED_BITS)).collect()
    }

    /// The entries of a sum in tables. A signed sum is from −16 to 15.
    fn look<const K: usize>(
        &mut self,
        x: Reg,
        signed: bool,
        tables: [Entry; K],
    ) -> Result<[Reg; K]> {
        let p = ROOM as i64 + 1;
        let value = |m: i64| if signed && 2 * m >= p { m - p } else { m };
        let entries = |table: &Entry| -> Vec<u64> {
            (0..p).map(|m| table(value(m)).rem_euclid(p) as u64).collect()
        };
        let all: Vec<Vec<u64>> = tables.iter().map(entries).collect();
        if !self.known.contains_key(&all) {
            let made = self.plan.tables(PACKED_BITS, &all)?;
            self.known.insert(all.clone(), made);
        }
        let made = self.program.append(&self.known[&all], &[x])?;
        Ok(std::array::from_fn(|i| made[i]))
    }

    /// A digit of a sum, and its carry.
    fn reduced(&mut self, sum: Reg, signed: bool, last: bool) -> Result<(Reg, Option<Reg>)> {
        let low: Entry = &|m| m & MOST as i64;
        if last {
            let [digit] = self.look(sum, signed, [low])?;
            return Ok((digit, None));
        }
        // Of a difference the borrow.
        let carry: Entry = &|m| i64::from(m > MOST as i64 || m < 0);
        let [digit, carry] = self.look(sum, signed, [low, carry])?;
        Ok((digit, Some(carry)))
    }

    /// The digits of a sum of columns, modulo the highest carry.
    fn columns(&mut self, mut columns: Vec<Vec<Term>>) -> Result<Vec<Reg>> {
        let mut digits = vec![];
        for at in 0..columns.len() {
            let last = at + 1 == columns.len();
            let mut terms = std::mem::take(&mut columns[at]);
            while terms.len() > 1 || terms.iter().any(|t| t.most > MOST) {
                let (sum, rest) = self.gathered(terms)?;
                terms = rest;
                if sum.most <= MOST {
                    terms.push(sum);
                    continue;
                }
                let (reg, carry) = self.reduced(sum.reg, false, last)?;
                terms.push(Term { reg, most: MOST });
                if let Some(reg) = carry {
                    columns[at + 1].push(Term { reg, most: 1 });
                }
            }
            digits.extend(terms.iter().map(|t| t.reg));
        }
        Ok(digits)
    }

    /// The sum of as many terms as there is room for, the greatest first, and the others.
    fn gathered(&mut self, mut terms: Vec<Term>) -> Result<(Term, Vec<Term>)> {
        terms.sort_by_key(|t| std::cmp::Reverse(t.most));
        let (mut sum, mut rest): (Option<Term>, _) = (None, vec![]);
        for term in terms {
            sum = Some(match sum {
                None => term,
                Some(sum) if sum.most + term.most <= ROOM => {
                    let reg = self.program.add(sum.reg, term.reg)?;
                    Term { reg, most: sum.most + term.most }
                }
                Some(sum) => {
                    rest.push(term);
                    sum
                }
            });
        }
        sum.map(|sum| (sum, rest)).ok_or_else(|| empty("a sum of one integer or more"))
    }

    /// a − b, of nothing −b.
    fn difference(&mut self, a: Option<&[Reg]>, b: &[Reg]) -> Result<Vec<Reg>> {
        let (mut digits, mut borrow) = (vec![], None);
        for i in 0..b.len() {
            let sum = self.step(a, b, i, borrow)?;
            let (digit, next) = self.reduced(sum, true, i + 1 == b.len())?;
            digits.push(digit);
            borrow = next;
        }
        Ok(digits)
    }

    /// Digit i of a − b before it is reduced.
    fn step(&mut self, a: Option<&[Reg]>, b: &[Reg], i: usize, borrow: Option<Reg>) -> Result<Reg> {
        let sum = match a {
            Some(a) => self.program.subtract(a[i], b[i])?,
            None => self.program.negate(b[i])?,
        };
        borrow.map_or(Ok(sum), |borrow| self.program.subtract(sum, borrow))
    }

    /// Whether a < b, or else whether it is not: the last borrow of a − b.
    fn less(&mut self, a: &[Reg], b: &[Reg], yes: bool) -> Result<Reg> {
        let mut borrow = None;
        for i in 0..b.len() {
            let sum = self.step(Some(a), b, i, borrow)?;
            let wanted = yes || i + 1 < b.len();
            let [next] = self.look(sum, true, [&|m| i64::from((m < 0) == wanted)])?;
            borrow = Some(next);
        }
        borrow.ok_or_else(|| empty("a digit or more"))
    }

    /// Whether a = b, or else whether it is not.
    fn equal(&mut self, a: &[Reg], b: &[Reg], yes: bool) -> Result<Reg> {
        let count = a.len() as i64;
        let mut same = None;
        for (a, b) in a.iter().zip(b) {
            let sum = self.program.subtract(*a, *b)?;
            let alone = yes || count > 1;
            let [one] = self.look(sum, true, [&|m| i64::from((m == 0) == alone)])?;
            same = Some(same.map_or(Ok(one), |sum| self.program.add(sum, one))?);
        }
        let same = same.ok_or_else(|| empty("a digit or more"))?;
        if count == 1 {
            return Ok(same);
        }
        let [all] = self.look(same, false, [&|m| i64::from((m == count) == yes)])?;
        Ok(all)
    }

    /// a where c is 1, else b.
    fn select(&mut self, c: Reg, a: &[Reg], b: &[Reg]) -> Result<Vec<Reg>> {
        let base = 1 << DIGIT_BITS;
        let c = self.program.multiple(c, base)?;
        let mut digits = vec![];
        for (a, b) in a.iter().zip(b) {
            let [a, b] = [self.program.add(c, *a)?, self.program.add(c, *b)?];
            let [a] = self.look(a, false, [&|m| if m >= base { m - base } else { 0 }])?;
            let [b] = self.look(b, false, [&|m| if m >= base { 0 } else { m }])?;
            digits.push(self.program.add(a, b)?);
        }
        Ok(digits)
    }

    /// A function of each bit of two integers: of halves of digits, two of which make an index of 4 bits.
    fn bitwise(&mut self, a: &[Reg], b: &[Reg], f: fn(i64, i64) -> i64) -> Result<Vec<Reg>> {
        let mut digits = vec![];
        for (a, b) in a.iter().zip(b) {
            let [high_a, low_a] = self.look(*a, false, [&|m| m & 12, &|m| (m & 3) << 2])?;
            let [high_b, low_b] = self.look(*b, false, [&|m| (m >> 2) & 3, &|m| m & 3])?;
            let high = self.program.add(high_a, high_b)?;
            let low = self.program.add(low_a, low_b)?;
            let [high] = self.look(high, false, [&|m| 4 * (f(m >> 2, m) & 3)])?;
            let [low] = self.look(low, false, [&|m| f(m >> 2, m) & 3])?;
            digits.push(self.program.add(high, low)?);
        }
        Ok(digits)
    }

    /// a·2^k, or ⌊a/2^k⌋ to the `right`.
    fn shifted(&mut self, a: &[Reg], k: u32, right: bool) -> Result<Vec<Reg>> {
        let bits = DIGIT_BITS * a.len() as u32;
        if k >= bits {
            let wanted = format!("a shift by less than {bits} bits");
            return Err(Error::bad_input(OP, wanted, k.to_string(), "shift by fewer"));
        }
        let (moved, rest) = ((k / DIGIT_BITS) as usize, i64::from(k % DIGIT_BITS));
        let most = MOST as i64;
        let zero = self.program.subtract(a[0], a[0])?;
        let mut ordered: Vec<Reg> = a.to_vec();
        if right {
            ordered.reverse();
        }
        // From here on to the end of the vector: the digits that are left come behind zeros.
        let kept = &ordered[..a.len() - moved];
        let mut digits = vec![zero; moved];
        let mut carry: Option<Reg> = None;
        for (i, digit) in kept.iter().enumerate() {
            if rest == 0 {
                digits.push(*digit);
                continue;
            }
            let back = i64::from(DIGIT_BITS) - rest;
            let (own, other): (Entry, Entry) = match right {
                true => (&|m| m >> rest, &|m| (m << back) & most),
                false => (&|m| (m << rest) & most, &|m| m >> back),
            };
            let (own, next) = match i + 1 == kept.len() {
                true => (self.look(*digit, false, [own])?[0], None),
                false => {
                    let [own, next] = self.look(*digit, false, [own, other])?;
                    (own, Some(next))
                }
            };
            digits.push(carry.map_or(Ok(own), |carry| self.program.add(own, carry))?);
            carry = next;
        }
        if right {
            digits.reverse();
        }
        Ok(digits)
    }

    /// The product of two digits: q(a + b) − q(a − b), as two digits, of which the high one only if it is wanted.
    fn product(&mut self, a: Reg, b: Reg, high: bool) -> Result<[Option<Reg>; 2]> {
        let [sum, difference] = [self.program.add(a, b)?, self.program.subtract(a, b)?];
        let quarter = |m: i64| m * m / 4;
        let low: Entry = &|m| quarter(m) & MOST as i64;
        let above: Entry = &|m| quarter(m) >> DIGIT_BITS;
        if !high {
            let [s] = self.look(sum, false, [low])?;
            let [d] = self.look(difference, true, [low])?;
            let low = self.program.subtract(s, d)?;
            return Ok([Some(self.reduced(low, true, true)?.0), None]);
        }
        let [s, s_high] = self.look(sum, false, [low, above])?;
        let [d, d_high] = self.look(difference, true, [low, above])?;
        let low = self.program.subtract(s, d)?;
        let (low, borrow) = self.reduced(low, true, false)?;
        let mut high = self.program.subtract(s_high, d_high)?;
        if let Some(borrow) = borrow {
            high = self.program.subtract(high, borrow)?;
        }
        Ok([Some(low), Some(high)])
    }

    /// a·b, modulo the highest digit.
    fn multiply(&mut self, a: &[Reg], b: &[Reg]) -> Result<Vec<Reg>> {
        let count = a.len();
        let mut columns = vec![vec![]; count];
        for i in 0..count {
            for j in 0..count - i {
                let parts = self.product(a[i], b[j], i + j + 1 < count)?;
                for (at, reg) in parts.into_iter().enumerate() {
                    // A product is at most 225: its high digit is at most 14.
                    let most = MOST - at as u64;
                    columns.get_mut(i + j + at).into_iter().for_each(|column| {
                        column.extend(reg.map(|reg| Term { reg, most }));
                    });
                }
            }
        }
        self.columns(columns)
    }

    fn sum(&mut self, all: &[Vec<Reg>], count: usize) -> Result<Vec<Reg>> {
        if all.is_empty() {
            return Err(empty("a sum of one integer or more"));
        }
        let term = |x: &Vec<Reg>, i: usize| Term { reg: x[i], most: MOST };
        self.columns((0..count).map(|i| all.iter().map(|x| term(x, i)).collect()).collect())
    }

    /// An operation on integers of `count` digits.
    fn integer(&mut self, operation: Operation, count: usize) -> Result<Vec<Reg>> {
        match operation {
            Operation::Shl(k) | Operation::Shr(k) => {
                let a = self.inputs(count)?;
                return self.shifted(&a, k, matches!(operation, Operation::Shr(_)));
            }
            Operation::Neg => {
                let a = self.inputs(count)?;
                return self.difference(None, &a);
            }
            Operation::Sum(many) => {
                let all = (0..many).map(|_| self.inputs(count)).collect::<Result<Vec<_>>>()?;
                return self.sum(&all, count);
            }
            Operation::Select => {
                let c = self.program.input_integers(PACKED_BITS)?;
                let (a, b) = (self.inputs(count)?, self.inputs(count)?);
                return self.select(c, &a, &b);
            }
            _ => {}
        }
        let (a, b) = (self.inputs(count)?, self.inputs(count)?);
        Ok(match operation {
            Operation::Add => self.sum(&[a, b], count)?,
            Operation::Sub => self.difference(Some(&a), &b)?,
            Operation::Mul => self.multiply(&a, &b)?,
            Operation::Lt => vec![self.less(&a, &b, true)?],
            Operation::Ge => vec![self.less(&a, &b, false)?],
            Operation::Gt => vec![self.less(&b, &a, true)?],
            Operation::Le => vec![self.less(&b, &a, false)?],
            Operation::Eq => vec![self.equal(&a, &b, true)?],
            Operation::Ne => vec![self.equal(&a, &b, false)?],
            Operation::And => self.bitwise(&a, &b, |a, b| a & b)?,
            Operation::Or => self.bitwise(&a, &b, |a, b| a | b)?,
            Operation::Xor => self.bitwise(&a, &b, |a, b| a ^ b)?,
            Operation::Min => {
                let c = self.less(&a, &b, true)?;
                self.select(c, &a, &b)?
            }
            _ => {
                let c = self.less(&a, &b, false)?;
                self.select(c, &a, &b)?
            }
        })
    }

    /// An operation on booleans: a table of their sum.
    fn boolean(&mut self, operation: Operation) -> Result<Vec<Reg>> {
        if operation == Operation::Select {
            return self.integer(operation, 1);
        }
        let table: Entry = match operation {
            Operation::And => &|m| i64::from(m == 2),
            Operation::Or => &|m| i64::from(m > 0),
            Operation::Xor | Operation::Ne => &|m| i64::from(m == 1),
            Operation::Eq => &|m| i64::from(m != 1),
            _ => {
                let wanted = "and, or, xor, eq, ne or select of booleans";
                let remedy = "choose between integers with select";
                return Err(Error::unsupported(OP, wanted, format!("{operation:?}"), remedy));
            }
        };
        let (a, b) = (self.inputs(1)?, self.inputs(1)?);
        let sum = self.program.add(a[0], b[0])?;
        Ok(self.look(sum, false, [table])?.to_vec())
    }
}

fn empty(wanted: &str) -> Error {
    Error::bad_input(OP, wanted, "none", "pass one or more")
}
