//! Numbers of any width in arguments and reports: decimal, hexadecimal with `0x`, binary with `0b`.

/// A number as the user wrote it: the base, by its prefix, and the digits.
#[derive(Debug)]
pub struct Number {
    base: u32,
    /// The most significant first, without zeros before it.
    digits: Vec<u32>,
}

impl Number {
    /// `200`, `0xc8` or `0b11001000`; nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let prefixed = |small, large| text.strip_prefix(small).or_else(|| text.strip_prefix(large));
        let (base, digits) = match (prefixed("0x", "0X"), prefixed("0b", "0B")) {
            (Some(digits), _) => (16, digits),
            (_, Some(digits)) => (2, digits),
            _ => (10, text),
        };
        if digits.is_empty() {
            return None;
        }
        let all: Option<Vec<u32>> = digits.chars().map(|c| c.to_digit(base)).collect();
        Some(Number { base, digits: all?.into_iter().skip_while(|d| *d == 0).collect() })
    }

    /// The base in words.
    pub fn base(&self) -> &'static str {
        match self.base {
            2 => "a binary number",
            10 => "a decimal number",
            _ => "a hexadecimal number",
        }
    }

    /// The bits, least significant first; `None` if there are more than `width`.
    pub fn bits(&self, width: usize) -> Option<Vec<u64>> {
        // Each digit holds at least one bit, so a longer number needs no arithmetic.
        if self.digits.len() > width {
            return None;
        }
        let mut limbs: Vec<u32> = vec![];
        for digit in &self.digits {
            let mut carry = u64::from(*digit);
            for limb in &mut limbs {
                carry += u64::from(*limb) * u64::from(self.base);
                *limb = carry as u32;
                carry >>= 32;
            }
            limbs.extend((carry > 0).then_some(carry as u32));
        }
        let all = limbs.iter().flat_map(|l| (0..32).map(move |i| u64::from(l >> i & 1)));
        let mut bits: Vec<u64> = all.collect();
        if bits.iter().skip(width).any(|bit| *bit == 1) {
            return None;
        }
        bits.resize(width, 0);
        Some(bits)
    }
}

/// `0x12c` from bits, least significant first: one digit for four bits.
pub fn hexadecimal(bits: &[u64]) -> String {
    let digits = bits.chunks(4).rev().map(|d| d.iter().rev().fold(0, |v, b| 2 * v + b));
    digits.fold("0x".to_string(), |text, digit| format!("{text}{digit:x}"))
}

/// `300` from bits, least significant first.
pub fn decimal(bits: &[u64]) -> String {
    let mut parts: Vec<u64> = vec![0];
    for bit in bits.iter().rev() {
        let mut carry = *bit;
        for part in &mut parts {
            carry += 2 * *part;
            *part = carry % 1_000_000_000;
            carry /= 1_000_000_000;
        }
        parts.extend((carry > 0).then_some(carry));
    }
    let (last, rest) = parts.split_last().unwrap_or((&0, &[]));
    rest.iter().rev().fold(last.to_string(), |text, part| format!("{text}{part:09}"))
}

/// `300 (0x12c)` from bits, least significant first.
pub fn both(bits: &[u64]) -> String {
    format!("{} ({})", decimal(bits), hexadecimal(bits))
}

/// The highest number of `width` bits: `255 (0xff)`.
pub fn highest(width: usize) -> String {
    both(&vec![1; width])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(value: u128, width: usize) -> Vec<u64> {
        (0..width).map(|i| (value >> i & 1) as u64).collect()
    }

    #[test]
    fn the_prefix_of_a_number_names_its_base() {
        for (text, value) in [
            ("200", 200),
            ("0200", 200),
            ("0xc8", 200),
            ("0XC8", 200),
            ("0b11001000", 200),
            ("0", 0),
            ("0x0", 0),
            ("340282366920938463463374607431768211455", u128::MAX),
            ("0xffffffffffffffffffffffffffffffff", u128::MAX),
            ("18446744073709551616", 1 << 64),
        ] {
            let number = Number::parse(text).unwrap();
            assert_eq!(number.bits(128), Some(bits(value, 128)), "{text}");
            let width = 128 - value.leading_zeros() as usize;
            assert_eq!(number.bits(width), Some(bits(value, width)), "{text}");
            assert_eq!(width > 0, number.bits(width.saturating_sub(1)).is_none(), "{text}");
            assert_eq!(both(&bits(value, 128)), format!("{value} ({value:#034x})"));
        }
        for text in
            ["", "0x", "0b", "c8", "0b2", "-1", "+1", "0x0x8", "1_0", " 1", "1.5", "x", "０"]
        {
            assert!(Number::parse(text).is_none(), "{text}");
        }
    }
}
