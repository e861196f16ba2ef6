//! The same transform in twice the precision, for what is transformed once and used often: keys and twiddles.
//!
//! A [`Twofold`] number is an unevaluated sum `high + low` with `|low|` at most half a unit of `high`; operations are the
//! classical error-free ones (Dekker 1971, Knuth), good to some 2^-100. Being a [`Vector`] it runs the ordinary kernels.
//! In memory the low parts stand [`OFFSET`] doubles after the high parts, for data and for twiddles alike.

use super::vector::Vector;
use std::ops::{Add, Mul, Sub};

/// From a high part to its low part in memory, in doubles: no polynomial and no table of twiddles is longer.
pub(crate) const OFFSET: usize = 1 << 18;

/// `high + low`
#[derive(Clone, Copy)]
pub(crate) struct Twofold<V> {
    high: V,
    low: V,
}

impl<V: Vector> Twofold<V> {
    /// For `|high| >= |low|`.
    #[inline(always)]
    fn normal(high: V, low: V) -> Self {
        let sum = high + low;
        Twofold { high: sum, low: low - (sum - high) }
    }
}

impl<V: Vector> Add for Twofold<V> {
    type Output = Self;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        let sum = self.high + o.high;
        let part = sum - self.high;
        let error = (self.high - (sum - part)) + (o.high - part);
        Self::normal(sum, error + (self.low + o.low))
    }
}

impl<V: Vector> Sub for Twofold<V> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        let sum = self.high - o.high;
        let part = sum - self.high;
        let error = (self.high - (sum - part)) - (o.high + part);
        Self::normal(sum, error + (self.low - o.low))
    }
}

impl<V: Vector> Mul for Twofold<V> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        let product = self.high * o.high;
        let error = self.high.product_error(o.high, product);
        Self::normal(product, self.low.mul_add(o.high, self.high.mul_add(o.low, error)))
    }
}

impl<V: Vector> Vector for Twofold<V> {
    const LANES: usize = V::LANES;
    const COPIES: usize = V::COPIES;
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Twofold { high: V::splat(x), low: V::splat(0.0) } }
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: promised by the caller, who keeps the low parts at `OFFSET`.
        unsafe { Twofold { high: V::load(p), low: V::load(p.add(OFFSET)) } }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: as in `load`.
        unsafe {
            self.high.store(p);
            self.low.store(p.add(OFFSET));
        }
    }
    #[inline(always)]
    unsafe fn twiddle(p: *const f64) -> Self {
        // SAFETY: as in `load`.
        unsafe { Twofold { high: V::twiddle(p), low: V::twiddle(p.add(OFFSET)) } }
    }
    #[inline(always)]
    unsafe fn half_root() -> Self {
        // √(1/2) − FRAC_1_SQRT_2
        const LOW: f64 = -4.833646656726457e-17;
        // SAFETY: promised by the caller.
        unsafe { Twofold { high: V::half_root(), low: V::splat(LOW) } }
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self * b + c
    }
    #[inline(always)]
    fn mul_sub(self, b: Self, c: Self) -> Self {
        self * b - c
    }
    #[inline(always)]
    fn neg_mul_add(self, b: Self, c: Self) -> Self {
        c - self * b
    }
    #[inline(always)]
    fn product_error(self, b: Self, product: Self) -> Self {
        self.mul_sub(b, product)
    }
    #[inline(always)]
    fn columns(x: [Self; 8], odd: bool) -> [Self; 4] {
        let high = [
            x[0].high, x[1].high, x[2].high, x[3].high, x[4].high, x[5].high, x[6].high, x[7].high,
        ];
        let low = [x[0].low, x[1].low, x[2].low, x[3].low, x[4].low, x[5].low, x[6].low, x[7].low];
        let (high, low) = (V::columns(high, odd), V::columns(low, odd));
        let mut out = [x[0]; 4];
        for i in 0..4 {
            out[i] = Twofold { high: high[i], low: low[i] };
        }
        out
    }
}

/// A number in twice the precision: (high, low).
type Pair = (f64, f64);

fn add(a: Pair, b: Pair) -> Pair {
    let sum = a.0 + b.0;
    let part = sum - a.0;
    let low = (a.0 - (sum - part)) + (b.0 - part) + (a.1 + b.1);
    (sum + low, low - ((sum + low) - sum))
}

fn mul(a: Pair, b: Pair) -> Pair {
    let product = a.0 * b.0;
    let low = a.0.mul_add(b.0, -product) + (a.0 * b.1 + a.1 * b.0);
    (product + low, low - ((product + low) - product))
}

fn divide(a: Pair, by: f64) -> Pair {
    let q = a.0 / by;
    let low = ((-q).mul_add(by, a.0) + a.1) / by;
    (q + low, low - ((q + low) - q))
}

/// Cosine (`odd = false`) or sine of 2π·turn for 0 <= turn <= 1/8, by the Taylor series, to 2^-100.
pub(crate) fn series(turn: f64, odd: bool) -> Pair {
    let x = mul((turn, 0.0), (std::f64::consts::TAU, 2.4492935982947064e-16));
    let square = mul(x, x);
    let mut term = if odd { x } else { (1.0, 0.0) };
    let mut sum = term;
    for n in 0..14 {
        let n = f64::from(2 * n + if odd { 2 } else { 1 });
        term = divide(mul(term, (-square.0, -square.1)), n * (n + 1.0));
        sum = add(sum, term);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circle_points_are_accurate_to_twice_the_precision() {
        for i in 0..=64 {
            let turn = f64::from(i) / 512.0;
            let (cos, sin) = (series(turn, false), series(turn, true));
            assert!((cos.0 - (turn * std::f64::consts::TAU).cos()).abs() < 2e-16);
            let one = add(mul(cos, cos), mul(sin, sin));
            assert!((one.0 - 1.0 + one.1).abs() < 1e-30, "{i}: {one:?}");
        }
        let (c, s) = (series(0.125, false), series(0.125, true));
        assert_eq!((c.0, s.0), (std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::FRAC_1_SQRT_2));
        assert!((c.1 + 4.833646656726457e-17).abs() < 1e-31);
    }
}
