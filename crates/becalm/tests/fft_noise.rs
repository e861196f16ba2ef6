//! exploration
mod statistics;
use becalm::bootstrap::tfhe::Shape;
use becalm::bootstrap::tfhe::blind_rotate::FourierBootstrapKey;
use becalm::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use becalm::math::sampling::{binary, uniform};
use becalm::math::simd::Level;
use becalm::math::{Modulus, exact, gadget};
use becalm::params::TfheParams;
use becalm::tfhe::noise::BlindRotation;

#[test]
fn explore() {
    let q = Modulus::Native;
    for name in std::env::var("SETS").unwrap_or("tfhe_2_2".into()).split(',') {
        let p = TfheParams { lwe_dimension: 1, ..TfheParams::named(name).unwrap().clone() };
        let shape = Shape::of(&p);
        let (n, k, l) = (p.polynomial_size, p.glwe_dimension, p.pbs.level as usize);
        let samples: usize = std::env::var("COUNT").map(|s| s.parse().unwrap()).unwrap_or(200);
        let mut masks = MaskStream::new(&PublicSeed::from_system().unwrap(), Domain::Test, 0);
        let mut secret = NoiseStream::new(&SecretSeed::from_system().unwrap(), Domain::Test, 0);
        let levels = Level::available();
        let mut errs: Vec<Vec<f64>> = vec![vec![]; levels.len()];
        let mut phase: Vec<Vec<f64>> = vec![vec![]; levels.len()];
        let mut zeros = [0usize; 65];
        for _ in 0..samples {
            let mut ggsw = vec![0u64; shape.ggsw_len()];
            uniform(&mut masks, q, &mut ggsw);
            let mut glwe = vec![0u64; shape.glwe_len()];
            uniform(&mut masks, q, &mut glwe);
            let mut s = vec![0u64; k * n];
            binary(&mut secret, &mut s);
            let mut want = vec![0u64; shape.glwe_len()];
            for r in 0..=k {
                let mut digits = vec![0i64; l * n];
                gadget::decompose_slice(q, p.pbs, &glwe[r * n..(r + 1) * n], &mut digits);
                for (lv, d) in digits.chunks(n).enumerate() {
                    for c in 0..=k {
                        let at = ((lv * (k + 1) + r) * (k + 1) + c) * n;
                        exact::multiply_add(q, &mut want[c * n..(c + 1) * n], d, &ggsw[at..at + n])
                            .unwrap();
                    }
                }
            }
            for (i, level) in levels.iter().enumerate() {
                let key =
                    FourierBootstrapKey::new(shape, *level, |_, out| out.copy_from_slice(&ggsw))
                        .unwrap();
                let mut scratch = key.scratch(1).unwrap();
                let mut acc = vec![0u64; shape.glwe_len()];
                key.external_product_add(&mut acc, &glwe, 0, &mut scratch).unwrap();
                if i == 0 {
                    acc.iter().for_each(|x| zeros[x.trailing_zeros() as usize] += 1);
                }
                let e: Vec<f64> = acc
                    .iter()
                    .zip(&want)
                    .map(|(a, b)| a.wrapping_sub(*b) as i64 as f64 * 2f64.powi(-64))
                    .collect();
                let mut ph = e[k * n];
                for c in 0..k {
                    ph -= e[c * n] * s[c * n] as f64;
                    for j in 1..n {
                        ph += e[c * n + n - j] * s[c * n + j] as f64;
                    }
                }
                phase[i].push(ph);
                errs[i].extend(e);
            }
        }
        let b = BlindRotation { lwe_dimension: 1, ..BlindRotation::of(&p) };
        let f = b.classic().fft;
        println!("{name} zeros {:?}", &zeros[20..50]);
        for (i, level) in levels.iter().enumerate() {
            let m = statistics::average(errs[i].iter().copied());
            let v = statistics::average(errs[i].iter().map(|x| x * x));
            let whole = v * (1.0 + (k * n) as f64 / 2.0);
            let pv = statistics::average(phase[i].iter().map(|x| x * x));
            let pm = statistics::average(phase[i].iter().copied());
            println!(
                "{name} {level:?}: coefficient std 2^{:.3} mean/std {:.5} (se {:.5}); (1+kN/2)var / F = {:.4}; phase var / F = {:.4} (se {:.3}), mean/std {:.4} (se {:.3})",
                v.log2() / 2.0,
                m / v.sqrt(),
                1.0 / (errs[i].len() as f64).sqrt(),
                whole / f,
                pv / f,
                (2.0 / samples as f64).sqrt() * pv / f,
                pm / pv.sqrt(),
                1.0 / (samples as f64).sqrt()
            );
        }
    }
}
