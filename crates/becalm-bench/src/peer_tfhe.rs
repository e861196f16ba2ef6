//! The peer `tfhe` at the parameters of a becalm set: its keys, made by itself or taken from raw arrays.
//!
//! Raw arrays are in becalm's layout. The peer's differs in one thing: it stores gadget levels from the least
//! significant one. The rest agrees: q/B^l times the message in GGSW rows (the peer writes −m·S_r·q/B^l into the body
//! where becalm writes m·q/B^l into column r: the same phase), masks before body, s_i·q/B^l in key-switching keys.

pub mod artifact;
pub mod common_mask;
mod interface;
mod work;

pub use work::{Bootstraps, Word, prepare};

use anyhow::{Result, bail, ensure};
use becalm::params::{Gadget, Noise, TfheParams};
use tfhe::core_crypto::commons::math::random::DynamicDistribution;
use tfhe::core_crypto::prelude::*;

/// The peer's crate version, pinned in `Cargo.toml`.
pub const VERSION: &str = "1.8.2";

/// A key-switching key as words, [k·N][level 1 ..= ℓ][n + 1].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawKsk {
    /// Modulo 2^32.
    Words32(Vec<u32>),
    /// Modulo 2^64.
    Words64(Vec<u64>),
}

/// Secret and evaluation keys as words modulo 2^64, in becalm's layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawKeys {
    /// The small key: n bits.
    pub lwe_secret: Vec<u64>,
    /// The big key: k polynomials of N bits.
    pub glwe_secret: Vec<u64>,
    /// The bootstrapping key, coefficients: [n][level 1 ..= ℓ][row 0 ..= k][column 0 ..= k][N].
    pub bsk: Vec<u64>,
    /// The key-switching key from the big key to the small one.
    pub ksk: Option<RawKsk>,
}

/// The peer's key-switching key by word size.
pub(crate) enum Ksk {
    Words32(LweKeyswitchKeyOwned<u32>),
    Words64(LweKeyswitchKeyOwned<u64>),
}

/// The peer's secret keys.
pub struct Secrets {
    pub(crate) params: TfheParams,
    pub(crate) small: LweSecretKeyOwned<u64>,
    pub(crate) glwe: GlweSecretKeyOwned<u64>,
}

/// The peer's evaluation keys before the Fourier transform.
pub struct Standard {
    bsk: LweBootstrapKeyOwned<u64>,
    ksk: Option<Ksk>,
}

/// The peer with keys ready to bootstrap.
pub struct Peer {
    pub(crate) secrets: Secrets,
    pub(crate) bsk: FourierLweBootstrapKeyOwned,
    pub(crate) ksk: Option<Ksk>,
}

/// Randomness for secret keys.
fn secret_generator() -> SecretRandomGenerator<DefaultRandomGenerator> {
    SecretRandomGenerator::new(new_seeder().seed())
}

/// Randomness for encryption.
pub(crate) fn encryption_generator() -> EncryptionRandomGenerator<DefaultRandomGenerator> {
    let mut seeder = new_seeder();
    EncryptionRandomGenerator::new(seeder.seed(), seeder.as_mut())
}

/// The peer's type of a noise distribution.
pub(crate) fn noise<T: UnsignedInteger>(noise: Noise) -> DynamicDistribution<T> {
    match noise {
        Noise::Gaussian { std } => DynamicDistribution::new_gaussian_from_std_dev(StandardDev(std)),
        Noise::TUniform { bound_log2 } => DynamicDistribution::new_t_uniform(bound_log2),
    }
}

fn gadget(g: Gadget) -> (DecompositionBaseLog, DecompositionLevelCount) {
    (DecompositionBaseLog(g.base_log as usize), DecompositionLevelCount(g.level as usize))
}

/// `words` as blocks of `levels` equal parts, the parts of each block in reverse: becalm's order of levels to the
/// peer's, and back.
fn reverse_levels<T: Copy>(words: &[T], levels: usize, part: usize) -> Vec<T> {
    words
        .chunks_exact(levels * part)
        .flat_map(|block| block.chunks_exact(part).rev())
        .flatten()
        .copied()
        .collect()
}

impl Secrets {
    /// Fresh binary keys.
    pub fn generate(params: &TfheParams) -> Secrets {
        let mut random = secret_generator();
        let (n, k) = (LweDimension(params.lwe_dimension), GlweDimension(params.glwe_dimension));
        let small = allocate_and_generate_new_binary_lwe_secret_key(n, &mut random);
        let size = PolynomialSize(params.polynomial_size);
        let glwe = allocate_and_generate_new_binary_glwe_secret_key(k, size, &mut random);
        Secrets { params: params.clone(), small, glwe }
    }

    /// The big key as an LWE key of k·N bits.
    pub fn big(&self) -> LweSecretKeyOwned<u64> {
        self.glwe.clone().into_lwe_secret_key()
    }
}

impl Standard {
    /// Evaluation keys for `secrets`, made as the peer's own server key is: the bootstrapping key on rayon's current
    /// pool. The key-switching key only if asked for.
    pub fn generate(secrets: &Secrets, key_switch: bool) -> Result<Standard> {
        let params = &secrets.params;
        let mut random = encryption_generator();
        let (base_log, level) = gadget(params.pbs);
        let native = CiphertextModulus::new_native();
        let bsk = par_allocate_and_generate_new_lwe_bootstrap_key(
            &secrets.small,
            &secrets.glwe,
            base_log,
            level,
            noise::<u64>(params.glwe_noise),
            native,
            &mut random,
        );
        let ksk = if key_switch { Some(generate_ksk(secrets, &mut random)?) } else { None };
        Ok(Standard { bsk, ksk })
    }

    /// Checks the lengths of `raw` against `params` and converts.
    pub fn import(params: &TfheParams, raw: &RawKeys) -> Result<(Secrets, Standard)> {
        let (n, k, size) = (params.lwe_dimension, params.glwe_dimension, params.polynomial_size);
        let (levels, part) = (params.pbs.level as usize, (k + 1) * (k + 1) * size);
        ensure!(
            raw.lwe_secret.len() == n,
            "small key of {} bits, wanted {n}",
            raw.lwe_secret.len()
        );
        ensure!(
            raw.glwe_secret.len() == k * size,
            "big key of {} bits, wanted {}",
            raw.glwe_secret.len(),
            k * size
        );
        ensure!(raw.bsk.len() == n * levels * part, "bootstrapping key of {} words", raw.bsk.len());
        let small = LweSecretKey::from_container(raw.lwe_secret.clone());
        let glwe = GlweSecretKey::from_container(raw.glwe_secret.clone(), PolynomialSize(size));
        let (base_log, level) = gadget(params.pbs);
        let bsk = LweBootstrapKey::from_container(
            reverse_levels(&raw.bsk, levels, part),
            GlweDimension(k).to_glwe_size(),
            PolynomialSize(size),
            base_log,
            level,
            CiphertextModulus::new_native(),
        );
        let ksk = raw.ksk.as_ref().map(|ksk| import_ksk(params, ksk)).transpose()?;
        Ok((Secrets { params: params.clone(), small, glwe }, Standard { bsk, ksk }))
    }

    /// These keys and `secrets` as raw arrays.
    pub fn export(&self, secrets: &Secrets) -> RawKeys {
        let p = &secrets.params;
        let part = (p.glwe_dimension + 1).pow(2) * p.polynomial_size;
        let (levels, row) = (p.ks.level as usize, p.lwe_dimension + 1);
        RawKeys {
            lwe_secret: secrets.small.as_ref().to_vec(),
            glwe_secret: secrets.glwe.as_ref().to_vec(),
            bsk: reverse_levels(self.bsk.as_ref(), p.pbs.level as usize, part),
            ksk: self.ksk.as_ref().map(|ksk| match ksk {
                Ksk::Words32(ksk) => RawKsk::Words32(reverse_levels(ksk.as_ref(), levels, row)),
                Ksk::Words64(ksk) => RawKsk::Words64(reverse_levels(ksk.as_ref(), levels, row)),
            }),
        }
    }

    /// The Fourier transform of the bootstrapping key, on rayon's current pool.
    pub fn into_peer(self, secrets: Secrets) -> Peer {
        let mut bsk = FourierLweBootstrapKey::new(
            self.bsk.input_lwe_dimension(),
            self.bsk.glwe_size(),
            self.bsk.polynomial_size(),
            self.bsk.decomposition_base_log(),
            self.bsk.decomposition_level_count(),
        );
        par_convert_standard_lwe_bootstrap_key_to_fourier(&self.bsk, &mut bsk);
        Peer { secrets, bsk, ksk: self.ksk }
    }
}

fn generate_ksk(
    secrets: &Secrets,
    random: &mut EncryptionRandomGenerator<DefaultRandomGenerator>,
) -> Result<Ksk> {
    let params = &secrets.params;
    let (base_log, level) = gadget(params.ks);
    let big = secrets.big();
    Ok(match params.ks_modulus_log2 {
        32 => Ksk::Words32(allocate_and_generate_new_lwe_keyswitch_key(
            &big,
            &<u32 as Word>::small_key(secrets),
            base_log,
            level,
            noise::<u32>(params.lwe_noise),
            CiphertextModulus::new_native(),
            random,
        )),
        64 => Ksk::Words64(allocate_and_generate_new_lwe_keyswitch_key(
            &big,
            &secrets.small,
            base_log,
            level,
            noise::<u64>(params.lwe_noise),
            CiphertextModulus::new_native(),
            random,
        )),
        bits => bail!(
            "the peer is measured with a modulus of 32 or 64 bits after the key switch, not {bits}"
        ),
    })
}

fn import_ksk(params: &TfheParams, raw: &RawKsk) -> Result<Ksk> {
    let (levels, row) = (params.ks.level as usize, params.lwe_dimension + 1);
    let wanted = params.big_dimension() * levels * row;
    let (base_log, level) = gadget(params.ks);
    Ok(match (raw, params.ks_modulus_log2) {
        (RawKsk::Words32(words), 32) if words.len() == wanted => {
            let words = reverse_levels(words, levels, row);
            let native = CiphertextModulus::new_native();
            Ksk::Words32(LweKeyswitchKey::from_container(
                words,
                base_log,
                level,
                LweSize(row),
                native,
            ))
        }
        (RawKsk::Words64(words), 64) if words.len() == wanted => {
            let words = reverse_levels(words, levels, row);
            let native = CiphertextModulus::new_native();
            Ksk::Words64(LweKeyswitchKey::from_container(
                words,
                base_log,
                level,
                LweSize(row),
                native,
            ))
        }
        _ => bail!(
            "a key-switching key that is not {wanted} words of {} bits",
            params.ks_modulus_log2
        ),
    })
}
