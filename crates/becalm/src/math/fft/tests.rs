use super::*;

fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut x = seed;
    move || {
        x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Coefficient `j` of the exact product of integer polynomials modulo X^N + 1.
fn exact(a: &[i64], b: &[i64], j: usize) -> i128 {
    let n = a.len();
    let product = |i: usize| a[i] as i128 * b[(j + n - i) % n] as i128;
    (0..n).map(|i| if i <= j { product(i) } else { -product(i) }).sum()
}

#[test]
fn products_are_exact_to_double_precision() {
    for &level in Level::available() {
        for log2 in 8..=17 {
            let n = 1usize << log2;
            let plan = FftPlan::get(n, level).unwrap();
            let mut next = noise(n as u64);
            let a: Vec<i64> = (0..n).map(|_| next() as i64 >> 41).collect();
            let b: Vec<i64> = (0..n).map(|_| next() as i64 >> 14).collect();
            let transform = |x: &[i64]| {
                let mut y: Vec<f64> = x.iter().map(|&c| c as f64).collect();
                plan.forward(&mut y);
                y
            };
            let mut c = vec![0.0; n];
            plan.multiply_accumulate(&mut c, &transform(&a), &transform(&b));
            plan.inverse(&mut c);
            // Coefficients of the product are sums of n products of uniforms: standard deviation 2^(22 + 49)/3·√n.
            let size = 2f64.powi(71) / 3.0 * (n as f64).sqrt();
            for j in (0..n).step_by((n / 64).max(1)).chain([n - 1]) {
                let error = (c[j] / (n / 2) as f64 - exact(&a, &b, j) as f64).abs();
                assert!(
                    error < 40.0 * 2f64.powi(-53) * size,
                    "{level:?} N={n} j={j}: {:e}",
                    error / size
                );
            }
        }
    }
}

#[test]
fn values_are_those_at_the_named_roots() {
    for &level in Level::available() {
        for n in [256, 512, 1024, 4096, 16384, 131072] {
            let plan = FftPlan::get(n, level).unwrap();
            // X^shift takes the value e^(iπ·shift·(4u+1)/N) at the root number u.
            for shift in [0, 1, 5, n / 2, n - 1] {
                let mut x = vec![0.0; n];
                x[shift] = 1.0;
                plan.forward(&mut x);
                for (i, &u) in plan.exponents().iter().enumerate() {
                    let turn = (shift as u64 * (4 * u as u64 + 1) % (2 * n) as u64) as f64
                        / (2 * n) as f64;
                    let (sin, cos) = (turn * std::f64::consts::TAU).sin_cos();
                    let (re, im) = plan.position(i);
                    assert!(
                        (x[re] - cos).abs() < 1e-14 && (x[im] - sin).abs() < 1e-14,
                        "{level:?} N={n} u={u}"
                    );
                }
            }
            let mut seen: Vec<u32> = plan.exponents().to_vec();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n as u32 / 2), "every root once");
        }
    }
}

#[test]
fn inverse_undoes_forward() {
    for &level in Level::available() {
        let plan = FftPlan::get(2048, level).unwrap();
        let mut next = noise(7);
        let a: Vec<f64> = (0..2048).map(|_| (next() as i64 >> 20) as f64).collect();
        let mut b = a.clone();
        plan.forward(&mut b);
        plan.inverse(&mut b);
        for (a, b) in a.iter().zip(&b) {
            assert!((a - b / 1024.0).abs() < 2f64.powi(43 - 49), "{level:?}: {a} {}", b / 1024.0);
        }
    }
}

#[test]
fn unsupported_sizes_are_typed_errors() {
    for size in [0, 128, 1000, 262144] {
        assert_eq!(
            FftPlan::get(size, Level::Portable).err().expect("no such plan").kind(),
            "bad_input"
        );
    }
}
