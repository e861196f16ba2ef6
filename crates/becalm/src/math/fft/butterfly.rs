//! Butterflies of the negacyclic FFT on vectors of complex numbers, split into real and imaginary parts.
//!
//! A node of the transform holds a polynomial modulo `X^(rL) − e^(iθ)`; a butterfly of radix `r` takes it to its
//! children, the polynomials modulo `X^L − e^(i(θ+2πt)/r)`, t = 0..r: coefficient segment m is multiplied by the twiddle
//! `e^(imθ/r)`, then a plain DFT of length r runs over the segments. The inverse butterflies undo this up to the factor r.
//! All functions are `#[inline(always)]`: they are meant for the inside of a `#[target_feature]` function.

// Iterator adaptors and their closures would not be inlined into the kernels.
#![allow(clippy::needless_range_loop)]

use super::vector::Vector;
use crate::math::simd::prefetch;

/// `LANES` complex numbers.
#[derive(Clone, Copy)]
pub(crate) struct Complex<V> {
    pub(crate) re: V,
    pub(crate) im: V,
}

impl<V: Vector> Complex<V> {
    /// # Safety
    /// As [`Vector::splat`].
    #[inline(always)]
    pub(crate) unsafe fn zero() -> Self {
        // SAFETY: promised by the caller.
        unsafe { Complex { re: V::splat(0.0), im: V::splat(0.0) } }
    }

    /// # Safety
    /// As [`Vector::load`], for `2·LANES` doubles: the real parts, then the imaginary parts.
    #[inline(always)]
    pub(crate) unsafe fn load(p: *const f64) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Complex { re: V::load(p), im: V::load(p.add(V::LANES)) } }
    }

    /// # Safety
    /// As [`Vector::store`], for `2·LANES` doubles.
    #[inline(always)]
    pub(crate) unsafe fn store(self, p: *mut f64) {
        // SAFETY: promised by the caller.
        unsafe {
            self.re.store(p);
            self.im.store(p.add(V::LANES));
        }
    }

    /// # Safety
    /// As [`Vector::twiddle`], for `2·COPIES` doubles.
    #[inline(always)]
    pub(crate) unsafe fn twiddle(p: *const f64) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Complex { re: V::twiddle(p), im: V::twiddle(p.add(V::COPIES)) } }
    }

    #[inline(always)]
    pub(crate) fn add(self, o: Self) -> Self {
        Complex { re: self.re + o.re, im: self.im + o.im }
    }

    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Complex { re: self.re - o.re, im: self.im - o.im }
    }

    /// `self + i·o`
    #[inline(always)]
    fn add_i(self, o: Self) -> Self {
        Complex { re: self.re - o.im, im: self.im + o.re }
    }

    /// `self − i·o`
    #[inline(always)]
    fn sub_i(self, o: Self) -> Self {
        Complex { re: self.re + o.im, im: self.im - o.re }
    }

    #[inline(always)]
    pub(crate) fn mul(self, w: Self) -> Self {
        Complex {
            re: self.re.mul_sub(w.re, self.im * w.im),
            im: self.re.mul_add(w.im, self.im * w.re),
        }
    }

    /// `self·conj(w)`
    #[inline(always)]
    pub(crate) fn mul_conj(self, w: Self) -> Self {
        Complex {
            re: self.re.mul_add(w.re, self.im * w.im),
            im: self.im.mul_sub(w.re, self.re * w.im),
        }
    }

    /// `self·w + acc`
    #[inline(always)]
    pub(crate) fn mul_acc(self, w: Self, acc: Self) -> Self {
        let re = self.im.neg_mul_add(w.im, self.re.mul_add(w.re, acc.re));
        Complex { re, im: self.im.mul_add(w.re, self.re.mul_add(w.im, acc.im)) }
    }

    /// `self·conj(w) + acc`
    #[inline(always)]
    pub(crate) fn mul_conj_acc(self, w: Self, acc: Self) -> Self {
        let re = self.im.mul_add(w.im, self.re.mul_add(w.re, acc.re));
        Complex { re, im: self.re.neg_mul_add(w.im, self.im.mul_add(w.re, acc.im)) }
    }
}

/// `y_t = Σ_m x_m i^(mt)`, or with `i^(−mt)`.
#[inline(always)]
fn dft4<V: Vector, const INVERSE: bool>(x: [Complex<V>; 4]) -> [Complex<V>; 4] {
    let (a, b) = (x[0].add(x[2]), x[0].sub(x[2]));
    let (c, d) = (x[1].add(x[3]), x[1].sub(x[3]));
    let (p, m) = (b.add_i(d), b.sub_i(d));
    if INVERSE { [a.add(c), m, a.sub(c), p] } else { [a.add(c), p, a.sub(c), m] }
}

/// `y_t = Σ_m x_m ω^(mt)` with `ω = e^(iπ/4)`, or its conjugate.
#[inline(always)]
fn dft8<V: Vector, const INVERSE: bool>(x: [Complex<V>; 8]) -> [Complex<V>; 8] {
    let e = dft4::<V, INVERSE>([x[0], x[2], x[4], x[6]]);
    let o = dft4::<V, INVERSE>([x[1], x[3], x[5], x[7]]);
    join8::<V, INVERSE>(e, o)
}

/// [`dft8`] from the transforms of the even and the odd entries.
#[inline(always)]
fn join8<V: Vector, const INVERSE: bool>(
    e: [Complex<V>; 4],
    o: [Complex<V>; 4],
) -> [Complex<V>; 8] {
    // ω·o_1 and ω^3·o_3 up to √2, with the signs of (re, im) as below.
    let (o1, o3) = (o[1], o[3]);
    let (u1, v1, u3, v3) = if INVERSE {
        (o1.re + o1.im, o1.im - o1.re, o3.im - o3.re, o3.re + o3.im)
    } else {
        (o1.re - o1.im, o1.re + o1.im, o3.re + o3.im, o3.re - o3.im)
    };
    // SAFETY: values of the vector type are at hand, so the processor has its instructions.
    let h = unsafe { V::half_root() };
    let y1 = Complex { re: u1.mul_add(h, e[1].re), im: v1.mul_add(h, e[1].im) };
    let y5 = Complex { re: u1.neg_mul_add(h, e[1].re), im: v1.neg_mul_add(h, e[1].im) };
    let plus = Complex { re: u3.mul_add(h, e[3].re), im: v3.neg_mul_add(h, e[3].im) };
    let minus = Complex { re: u3.neg_mul_add(h, e[3].re), im: v3.mul_add(h, e[3].im) };
    let (y3, y7) = if INVERSE { (plus, minus) } else { (minus, plus) };
    let (p, m) = (e[2].add_i(o[2]), e[2].sub_i(o[2]));
    let (y2, y6) = if INVERSE { (m, p) } else { (p, m) };
    [e[0].add(o[0]), y1, y2, y3, e[0].sub(o[0]), y5, y6, y7]
}

/// Half a DFT of length `LANES`: the transform of `LANES/2` entries.
#[inline(always)]
fn half_dft<V: Vector, const INVERSE: bool>(x: [Complex<V>; 4]) -> [Complex<V>; 4] {
    if V::LANES == 4 { [x[0].add(x[1]), x[0].sub(x[1]), x[2], x[3]] } else { dft4::<V, INVERSE>(x) }
}

/// The DFT of length `LANES` from its halves, of the even and of the odd entries.
#[inline(always)]
fn join<V: Vector, const INVERSE: bool>(e: [Complex<V>; 4], o: [Complex<V>; 4]) -> [Complex<V>; 8] {
    if V::LANES == 8 {
        return join8::<V, INVERSE>(e, o);
    }
    let (p, m) = (e[1].add_i(o[1]), e[1].sub_i(o[1]));
    let (y1, y3) = if INVERSE { (m, p) } else { (p, m) };
    [e[0].add(o[0]), y1, e[0].sub(o[0]), y3, e[0], e[0], e[0], e[0]]
}

/// The butterfly of radix `R` (2, 4 or 8), in place: segments in, children out. The twiddles stand at `tw` as `FftPlan` lists
/// them.
///
/// # Safety
/// The processor has the instructions of `V`; `tw` is valid for reading `(R − 1)·2·COPIES` doubles.
#[inline(always)]
pub(crate) unsafe fn forward<V: Vector, const R: usize>(x: &mut [Complex<V>; R], tw: *const f64) {
    // SAFETY: promised by the caller.
    unsafe {
        for m in 1..R {
            x[m] = x[m].mul(Complex::twiddle(scalar_twiddle::<V>(tw, m)));
        }
        plain::<V, R, false>(x);
    }
}

/// Undoes [`forward`] up to the factor `R`.
///
/// # Safety
/// As [`forward`].
#[inline(always)]
pub(crate) unsafe fn inverse<V: Vector, const R: usize>(x: &mut [Complex<V>; R], tw: *const f64) {
    // SAFETY: promised by the caller.
    unsafe {
        plain::<V, R, true>(x);
        for m in 1..R {
            x[m] = x[m].mul_conj(Complex::twiddle(scalar_twiddle::<V>(tw, m)));
        }
    }
}

/// The DFT of length `R`, in place: a butterfly without its twiddles.
#[inline(always)]
pub(crate) fn plain<V: Vector, const R: usize, const INVERSE: bool>(x: &mut [Complex<V>; R]) {
    match R {
        2 => (x[0], x[1]) = (x[0].add(x[1]), x[0].sub(x[1])),
        4 => {
            let y = dft4::<V, INVERSE>([x[0], x[1], x[2], x[3]]);
            x.copy_from_slice(&y);
        }
        _ => {
            let y = dft8::<V, INVERSE>([x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]]);
            x.copy_from_slice(&y);
        }
    }
}

/// Cache lines to ask for beside a transform, a few between its instructions: asked for all at once they would fill the
/// memory's queues, and the transform would wait.
pub(crate) struct Fetch<const LINES: usize>(pub(crate) *const f64);

impl<const LINES: usize> Fetch<LINES> {
    #[inline(always)]
    fn step(&mut self) {
        for _ in 0..LINES {
            prefetch(self.0);
            self.0 = self.0.wrapping_add(8);
        }
    }
}

/// How many steps a leaf's transform spreads its [`Fetch`] over.
#[inline(always)]
pub(crate) const fn fetch_steps(lanes: usize) -> usize {
    2 * lanes
}

/// Where the vectors of a leaf's twiddles begin, after the scalars: on a cache line.
#[inline(always)]
pub(crate) const fn leaf_head(lanes: usize, copies: usize) -> usize {
    ((lanes - 1) * 2 * copies).next_multiple_of(8)
}

/// The last `LANES²` points of the transform in registers: a butterfly of radix `LANES` over vectors, a transposition,
/// and a butterfly whose twiddles differ from lane to lane. Point `LANES·w + lane` is in vector `w`.
///
/// Both butterflies are written as an even and an odd half: additions of one then run beside the products and the
/// shuffles of the other, which the processor's window is too short to arrange by itself.
///
/// # Safety
/// The processor has the instructions of `V`; `x` is valid for reading `2·LANES²` doubles and `tw` for the leaf's twiddles
/// as `FftPlan` lists them.
#[inline(always)]
pub(crate) unsafe fn leaf_forward<V: Vector, const LINES: usize>(
    x: *const f64,
    tw: *const f64,
    mut fetch: Fetch<LINES>,
) -> [Complex<V>; 8] {
    // SAFETY: promised by the caller.
    unsafe {
        let mut halves = [[Complex::<V>::zero(); 4]; 2];
        for odd in 0..2 {
            for i in 0..V::LANES / 2 {
                let m = 2 * i + odd;
                fetch.step();
                let value = Complex::load(x.add(m * 2 * V::LANES));
                halves[odd][i] = if m == 0 {
                    value
                } else {
                    value.mul(Complex::twiddle(scalar_twiddle::<V>(tw, m)))
                };
            }
            halves[odd] = half_dft::<V, false>(halves[odd]);
        }
        let y = join::<V, false>(halves[0], halves[1]);
        for odd in 0..2 {
            halves[odd] = columns(&y, odd == 1);
            for i in 0..V::LANES / 2 {
                let m = 2 * i + odd;
                fetch.step();
                if m != 0 {
                    halves[odd][i] = halves[odd][i].mul(Complex::load(lane_twiddle::<V>(tw, m)));
                }
            }
            halves[odd] = half_dft::<V, false>(halves[odd]);
        }
        join::<V, false>(halves[0], halves[1])
    }
}

/// Undoes [`leaf_forward`] up to the factor `LANES²` and writes to `x`.
///
/// # Safety
/// As [`leaf_forward`], `x` valid for writing.
#[inline(always)]
pub(crate) unsafe fn leaf_inverse<V: Vector, const LINES: usize>(
    y: [Complex<V>; 8],
    x: *mut f64,
    tw: *const f64,
    mut fetch: Fetch<LINES>,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let e = half_dft::<V, true>([y[0], y[2], y[4], y[6]]);
        let o = half_dft::<V, true>([y[1], y[3], y[5], y[7]]);
        let mut y = join::<V, true>(e, o);
        fetch.step();
        for m in 1..V::LANES {
            fetch.step();
            y[m] = y[m].mul_conj(Complex::load(lane_twiddle::<V>(tw, m)));
        }
        let e = half_dft::<V, true>(columns(&y, false));
        let o = half_dft::<V, true>(columns(&y, true));
        let y = join::<V, true>(e, o);
        fetch.step();
        y[0].store(x);
        for m in 1..V::LANES {
            fetch.step();
            y[m].mul_conj(Complex::twiddle(scalar_twiddle::<V>(tw, m)))
                .store(x.add(m * 2 * V::LANES));
        }
    }
}

/// The twiddle of segment `m >= 1` of a node, or of vector `m` in a leaf's first butterfly.
#[inline(always)]
pub(crate) fn scalar_twiddle<V: Vector>(tw: *const f64, m: usize) -> *const f64 {
    tw.wrapping_add((m - 1) * 2 * V::COPIES)
}

/// The twiddles of vector `m >= 1` in a leaf's second butterfly.
#[inline(always)]
fn lane_twiddle<V: Vector>(tw: *const f64, m: usize) -> *const f64 {
    tw.wrapping_add(leaf_head(V::LANES, V::COPIES) + (m - 1) * 2 * V::LANES)
}

/// Every second column of the square matrix of the first `LANES` vectors.
#[inline(always)]
fn columns<V: Vector>(y: &[Complex<V>; 8], odd: bool) -> [Complex<V>; 4] {
    let re = [y[0].re, y[1].re, y[2].re, y[3].re, y[4].re, y[5].re, y[6].re, y[7].re];
    let im = [y[0].im, y[1].im, y[2].im, y[3].im, y[4].im, y[5].im, y[6].im, y[7].im];
    let (re, im) = (V::columns(re, odd), V::columns(im, odd));
    let mut out = [y[0]; 4];
    for i in 0..4 {
        out[i] = Complex { re: re[i], im: im[i] };
    }
    out
}
