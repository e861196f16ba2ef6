//! The bounds that the head of `kernels/rns/transform.cuh` states, layer by layer, in units of p = s·2^50: what a product takes, and
//! what it gives.

/// Operands of products are below 2^51·p, and sums below 2^53.
fn product(a: f64, w: f64, s: f64) -> f64 {
    assert!(a * w * s < 2.0 && a * s <= 8.0, "{a} by {w}, p = {s}·2^50");
    // The quotient is wrong by |h|·2^-53/p, besides its rounding. Half the last bit of h, which is below a·w·p² < 2^below.
    let below = (a * w * s * s).log2().ceil() + 100.0;
    0.5 + a * w * s / 8.0 + f64::exp2(below - 54.0 - 50.0) / s
}

/// The bound of what is reduced.
const REDUCED: f64 = 0.5 + 1e-14;
/// Factors of p by which primes are smaller than 2^50.
fn scales() -> impl Iterator<Item = f64> {
    (500..1000).map(|i| f64::from(i) / 1000.0)
}

/// The largest residue behind four layers forward; `w`: bounds of the twiddles of each layer.
fn forward(first: f64, reduce: bool, w: [f64; 4], s: f64) -> f64 {
    (0..4).fold(first, |x, layer| {
        let u = if reduce && layer == 0 { REDUCED } else { x };
        u + product(x, w[layer], s)
    })
}

/// A made twiddle is a power of one that is at most p/2, by another such, and the first layer's is reduced.
fn made(s: f64) -> [f64; 4] {
    let second = product(0.5, 0.5, s);
    let fourth = product(second, second, s);
    product(fourth, fourth, s);
    let times = |power: f64| power.max(product(power, 0.5, s));
    [REDUCED, times(fourth), times(second), times(0.5)]
}

#[test]
fn forward_sums_stay_below_four_primes() {
    for s in scales() {
        let first = forward(1.0, false, [0.5; 4], s);
        let mut most = first;
        // A column of 32 has two layers before three, whose first reduces. One of 16 has four, and smaller ones have fewer. Then three
        // times four of a row.
        let layer = |x: f64, u: f64| u + product(x, 0.5, s);
        let two = (0..2).fold(1.0, |x, _| layer(x, x));
        let column = (1..3).fold(layer(two, REDUCED), |x, _| layer(x, x));
        for x in [first, column, 4.0 / s] {
            // A row takes all that is below 2^52.
            assert!(x <= 4.0 / s, "{x}");
            let row = forward(x * 0.999_999, true, [0.5; 4], s);
            let between = forward(row, true, [0.5; 4], s);
            most = most.max(forward(between, true, made(s), s));
        }
        // The end multiplies what is not reduced, or subtracts a residue from what is.
        product(most, 0.5, s);
        product(REDUCED + 1.0, 0.5, s);
    }
}

/// Bounds of 16 residues behind layer `layer` of four backward. `grows`: which are reduced before.
fn back(x: [f64; 16], layer: usize, w: f64, s: f64, grows: fn(usize, usize) -> bool) -> [f64; 16] {
    let half = 8 >> layer;
    let down = |i: usize| if grows(layer, i) { REDUCED } else { x[i] };
    std::array::from_fn(|i| match i & half {
        0 => down(i) + down(i + half),
        _ => product(down(i - half) + down(i), w, s),
    })
}

/// `Stored::grows` and `Made::grows` of the kernels.
fn stored_grows(layer: usize, i: usize) -> bool {
    match layer {
        1 => i.is_multiple_of(4),
        0 => i == 1,
        _ => false,
    }
}

fn made_grows(layer: usize, i: usize) -> bool {
    match layer {
        2 => i.is_multiple_of(4),
        1 => i.is_multiple_of(8),
        0 => i < 2,
        _ => false,
    }
}

#[test]
fn backward_sums_are_brought_down_in_time() {
    for s in scales() {
        // Layers 3 … 0, then the sums of the last of them are reduced.
        for (w, grows) in [([0.5; 4], stored_grows as fn(_, _) -> _), (made(s), made_grows)] {
            let x = (0..4).rev().fold([1.0; 16], |x, l| back(x, l, w[l], s, grows));
            assert!(x[8..].iter().fold(0.0, |most: f64, x| most.max(*x)) <= 1.0);
        }
        // Three layers of half a column of 16 are the first three of both halves of sixteen residues: the last of them makes half of
        // each half sums, which are reduced.
        let x = (1..4).rev().fold([1.0; 16], |x, l| back(x, l, 0.5, s, stored_grows));
        for half in x.chunks(8) {
            assert!(half[4..].iter().fold(0.0, |most: f64, x| most.max(*x)) <= 1.0);
        }
        // The end: pairs of at most 1 with the factor, and with it in the reduced twiddle. The other layers of smaller and larger columns
        // begin so.
        product(2.0, REDUCED, s);
        assert!(product(2.0, 0.5, s) <= 1.0);
    }
}
