//! Multiplication: products of digits in columns, then carries.
//!
//! With odd digits x = 2a − 3 ∈ {±1, ±3} a product xy = lo + 4·hi is odd in x, so its 16 cases are 8 table entries and
//! their negatives half a torus away, and *one* rotation gives both lo ∈ {±1, ±3} and hi ∈ {0, ±2}. For A, B of n digits,
//!   Σxᵢ4ⁱ · Σyⱼ4ʲ = (2A + 1)(2B + 1) − 2·4ⁿ(A + B + 1)   modulo 4ⁿ⁺¹,
//! so 2AB = Σₖ 4ᵏ(Σλ + Ση − aₖ − bₖ) + constant with λ = (lo + 3)/2, η = (hi + 2)/2: n(n+1)/2 bootstraps for the products,
//! about 5/6 of one for each product to sum them, and n to move the result by a bit. Column n counts by its parity only.

use super::arithmetic::pack;
use super::{Type, Word};
use crate::Result;
use crate::apps::circuit::{Circuit, ROOM, Sum, xor};

/// λ and 2·η in half units, for |x| ∈ {1, 3} and b = 0 … 3; even places lo, odd places hi. x > 0.
fn entries(top: bool) -> [i64; ROOM as usize] {
    let mut entries = [0; ROOM as usize];
    for (i, pair) in entries.chunks_exact_mut(2).enumerate() {
        let (x, y) = (1 + 2 * (i as i64 / 4), 2 * (i as i64 % 4) - 3);
        let lo = match x * y {
            9 => 1,
            -9 => -1,
            small => small,
        };
        // In the last column but one hi counts for the parity above it: half a torus for each.
        let scale = if top { ROOM } else { 1 };
        pair.copy_from_slice(&[lo, scale * (x * y - lo) / 4]);
    }
    entries
}

/// Base-4 digits of (Σₖ 4ᵏ(3mₖ + 2mₖ₋₁) + 1)/2 + 2(4ⁿ − 1) − 4ⁿ, negated modulo 2·4ⁿ: what the columns are short of, with
/// mₖ products in column k. As digits of columns 0 … n−1 and the parity of column n.
fn constant(n: usize) -> Vec<i64> {
    let count = |k: i64| match k {
        _ if k < 0 => 0,
        _ if k < n as i64 => k + 1,
        _ => n as i64 - 1,
    };
    // Twice the constant, column by column, may be negative; carries make it digits of base 4, and a shift halves it.
    let mut twice: Vec<i64> = (0..=n as i64).map(|k| -(3 * count(k) + 2 * count(k - 1))).collect();
    twice.push(0);
    twice[0] -= 1;
    // −A − B is written with 3 − a and 3 − b: less 2(4ⁿ − 1), twice that here.
    for digit in &mut twice[..n] {
        *digit -= 12;
    }
    // 4ⁿ(a₀ + b₀ + 1), twice.
    twice[n] += 2;
    let mut carry = 0;
    for digit in &mut twice {
        let v = *digit + carry;
        (*digit, carry) = (v.rem_euclid(4), v.div_euclid(4));
    }
    let mut half: Vec<i64> = (0..=n).map(|k| (twice[k] >> 1) + 2 * (twice[k + 1] & 1)).collect();
    half[n] &= 1;
    half
}

impl Circuit<'_> {
    /// a · b modulo 2^bits.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn mul(&mut self, a: &Word, b: &Word) -> Result<Word> {
        a.require_like(b, "mul")?;
        match (a.constants(), b.constants()) {
            (Some(_), _) => self.mul_clear(b, a),
            (_, Some(_)) => self.mul_clear(a, b),
            _ => self.mul_odd(a, b),
        }
    }

    /// By a word whose digits are constants: a·2 and a·3 of each digit, shared by all places.
    fn mul_clear(&mut self, a: &Word, b: &Word) -> Result<Word> {
        if let Some(places) = b.power_of_two() {
            return self.shift(super::Shift::Left, a, places);
        }
        let n = a.digits.len();
        let mut columns = vec![vec![]; n + 1];
        for (j, factor) in b.digits.iter().enumerate() {
            let c = factor.constant().unwrap_or(0);
            for (i, digit) in a.digits[..n - j].iter().enumerate().filter(|_| c != 0) {
                let (low, high) = (|v: i64| c * v % 4, |v: i64| c * v / 4);
                let mut both = match c {
                    1 => vec![digit.clone(), Sum::clear(0)],
                    _ => self.lookup(digit, &[&low, &high])?,
                };
                columns[i + j + 1].push(both.remove(1));
                columns[i + j].push(both.remove(0));
            }
        }
        columns.truncate(n);
        let fits = |s: &Sum| s.constant() != Some(0);
        columns.iter_mut().for_each(|c| c.retain(fits));
        self.columns(a.ty, columns)
    }

    fn mul_odd(&mut self, a: &Word, b: &Word) -> Result<Word> {
        let n = a.digits.len();
        // x = ±1 at 0, ±3 at 8 units, negative ones half a torus away; and the digit's parity.
        let place = |v: i64| [24, 16, 0, 8][v as usize];
        let odd = |v: i64| ROOM * (v & 1);
        let (mut places, mut odds) = (vec![], vec![]);
        for (i, digit) in a.digits.iter().chain(&b.digits).enumerate() {
            let digit = digit.clone().within(0, 3);
            let functions: [&dyn Fn(i64) -> i64; 2] = [&odd, &place];
            let mut both = self.lookup(&digit, &functions[..if i < n { 2 } else { 1 }])?;
            places.extend(both.drain(1..));
            odds.push(both.remove(0));
        }
        let mut columns = vec![vec![]; n];
        for i in 0..n {
            for j in 0..n - i {
                let top = i + j + 1 == n;
                let v = (&places[i] + &b.digits[j].times(2)).within(0, 31);
                let scale = if top { ROOM } else { 1 };
                let outputs = [(0, 3, 0, 3), (1, 2 * scale, 0, 2 * scale)];
                let mut both = self.circle(&v, &entries(top), &outputs)?;
                let hi = both.remove(1);
                columns[i + j].push(both.remove(0));
                if top { odds.push(hi) } else { columns[i + j + 1].push(hi) }
            }
        }
        let constant = constant(n);
        for (k, column) in columns.iter_mut().enumerate() {
            // At both ends: the two may be related, and one table should not take both beside noisier terms.
            column.insert(0, (-&a.digits[k]).plus(3));
            column.push((-&b.digits[k]).plus(3));
            column.push(Sum::clear(constant[k]));
        }
        odds.push(Sum::clear(ROOM * constant[n]));
        self.halve(a.ty, columns, odds)
    }

    /// Half of Σ 4^k·column k + 4^n·parity of `odds` (which stand at 0 or 16 units), modulo 4^n.
    fn halve(&mut self, ty: Type, columns: Vec<Vec<Sum>>, odds: Vec<Sum>) -> Result<Word> {
        let n = columns.len();
        // One column more takes the carries of the others.
        let wide = Type::Uint(2 * n as u32 + 2);
        let twice = self.columns(wide, columns)?;
        let bit = (&xor(&odds) + &twice.digit(n).times(ROOM)).within(0, ROOM);
        // 0 or half a torus: constant entries turn into minus and plus one half unit.
        let top = self.circle(&bit, &[-1], &[(0, 1, 0, 1)])?.remove(0);
        let mut digits = vec![];
        for k in 0..n {
            let next = if k + 1 == n { top.clone() } else { twice.digits[k + 1].clone() };
            let mask = ty.mask(k);
            let packed = pack(&next, &twice.digits[k]);
            digits.push(self.map(&packed, |v| ((v & 3) >> 1 | (v >> 2 & 1) << 1) & mask)?);
        }
        Ok(Word { ty, digits })
    }

    /// Σ aᵢ·bᵢ modulo 2^bits.
    ///
    /// # Errors
    /// [`Error::BadInput`](crate::Error::BadInput) for none, different types or lists of different lengths.
    pub fn dot(&mut self, a: &[Word], b: &[Word]) -> Result<Word> {
        if a.len() != b.len() {
            let (wanted, got) = (a.len().to_string(), b.len().to_string());
            return Err(crate::Error::bad_input("dot", wanted, got, "pass lists of one length"));
        }
        let products = a.iter().zip(b).map(|(x, y)| self.mul(x, y)).collect::<Result<Vec<_>>>()?;
        self.sum(&products)
    }
}
