//! The peer's experimental common mask: key switch and f64-FFT bootstrap of w messages behind one mask, scratch allocated
//! before, its own table for each slot.
//!
//! Its modulus switch is the plain one. The artifact puts a search among encryptions of zero before it, which lowers the
//! noise and takes time of its own: left out here, in the peer's favour. It has no batch function: ciphertexts of a batch
//! follow one another.

use super::{encryption_generator, gadget, noise, secret_generator};
use crate::cases::{Work, messages, slot_lookup};
use crate::rows::{Side, Timed};
use anyhow::{Result, bail, ensure};
use becalm::params::TfheParams;
use tfhe::core_crypto::experimental::prelude::cm_fft64::cm_programmable_bootstrap_lwe_ciphertext_mem_optimized as bootstrap;
use tfhe::core_crypto::experimental::prelude::cm_lwe_keyswitch_key_generation::allocate_and_generate_new_cm_lwe_keyswitch_key;
use tfhe::core_crypto::experimental::prelude::*;
use tfhe::core_crypto::prelude::*;

const NATIVE: CiphertextModulus<u64> = CiphertextModulus::new_native();

/// A small and a big key for each slot.
struct Secrets {
    small: Vec<LweSecretKeyOwned<u64>>,
    glwe: Vec<GlweSecretKeyOwned<u64>>,
    big: Vec<LweSecretKeyOwned<u64>>,
}

impl Secrets {
    fn generate(params: &TfheParams) -> Secrets {
        let mut random = secret_generator();
        let n = LweDimension(params.lwe_dimension);
        let (k, size) =
            (GlweDimension(params.glwe_dimension), PolynomialSize(params.polynomial_size));
        let small = (0..params.slots)
            .map(|_| allocate_and_generate_new_binary_lwe_secret_key(n, &mut random))
            .collect();
        let glwe: Vec<GlweSecretKeyOwned<u64>> = (0..params.slots)
            .map(|_| allocate_and_generate_new_binary_glwe_secret_key(k, size, &mut random))
            .collect();
        let big = glwe.iter().map(|key| key.clone().into_lwe_secret_key()).collect();
        Secrets { small, glwe, big }
    }
}

/// The bootstrapping key in the Fourier domain, made on rayon's current pool.
fn bootstrap_key(params: &TfheParams, secrets: &Secrets) -> FourierCmLweBootstrapKeyOwned {
    let (base_log, level) = gadget(params.pbs);
    let (k, w) = (GlweDimension(params.glwe_dimension), CmDimension(params.slots));
    let (n, size) = (LweDimension(params.lwe_dimension), PolynomialSize(params.polynomial_size));
    let mut standard = CmLweBootstrapKey::new(0u64, k, w, size, base_log, level, n, NATIVE);
    par_generate_cm_lwe_bootstrap_key(
        &secrets.small,
        &secrets.glwe,
        &mut standard,
        noise::<u64>(params.glwe_noise),
        &mut encryption_generator(),
    );
    let mut fourier = FourierCmLweBootstrapKey::new(n, k, w, size, base_log, level);
    par_convert_standard_cm_lwe_bootstrap_key_to_fourier(&standard, &mut fourier);
    fourier
}

/// The table of every slot in its body.
fn tables(params: &TfheParams) -> CmGlweCiphertextOwned<u64> {
    let (k, w) = (GlweDimension(params.glwe_dimension), CmDimension(params.slots));
    let (size, p) = (PolynomialSize(params.polynomial_size), params.plaintext_modulus());
    let delta = 1 << (63 - p.ilog2());
    let of_slot = |slot| {
        let f = |x| slot_lookup(slot, x, p);
        cm_generate_programmable_bootstrap_glwe_lut(size, k, w, p as usize, NATIVE, delta, f)
    };
    let mut all = of_slot(0);
    for slot in 1..params.slots {
        let body = (k.0 + slot) * size.0..(k.0 + slot + 1) * size.0;
        all.as_mut()[body.clone()].copy_from_slice(&of_slot(slot).as_ref()[body]);
    }
    all
}

/// Key switches and bootstraps of a fixed batch.
struct Bootstraps {
    params: TfheParams,
    secrets: Secrets,
    key_switch: CmLweKeyswitchKeyOwned<u64>,
    bootstrap: FourierCmLweBootstrapKeyOwned,
    tables: CmGlweCiphertextOwned<u64>,
    messages: Vec<u64>,
    big: Vec<CmLweCiphertextOwned<u64>>,
    small: CmLweCiphertextOwned<u64>,
    out: Vec<CmLweCiphertextOwned<u64>>,
    fft: Fft,
    scratch: ComputationBuffers,
}

impl Bootstraps {
    fn new(params: &TfheParams, messages: Vec<u64>) -> Bootstraps {
        let secrets = Secrets::generate(params);
        let (w, mut random) = (CmDimension(params.slots), encryption_generator());
        let (base_log, level) = gadget(params.ks);
        let key_switch = allocate_and_generate_new_cm_lwe_keyswitch_key(
            &secrets.big,
            &secrets.small,
            w,
            base_log,
            level,
            noise::<u64>(params.lwe_noise),
            NATIVE,
            &mut random,
        );
        let shift = 63 - params.plaintext_modulus().ilog2();
        let mut encrypt = |messages: &[u64]| {
            let plain: Vec<u64> = messages.iter().map(|&m| m << shift).collect();
            allocate_and_encrypt_new_cm_lwe_ciphertext(
                &secrets.big,
                &PlaintextList::from_container(plain),
                noise::<u64>(params.glwe_noise),
                NATIVE,
                &mut random,
            )
        };
        let big: Vec<_> = messages.chunks(params.slots).map(&mut encrypt).collect();
        let fft = Fft::new(PolynomialSize(params.polynomial_size));
        let mut scratch = ComputationBuffers::new();
        let k = GlweDimension(params.glwe_dimension);
        let needed = cm_bootstrap_requirement::<u64>(
            k,
            w,
            PolynomialSize(params.polynomial_size),
            fft.as_view(),
        );
        scratch.resize(needed.unaligned_bytes_required());
        Bootstraps {
            bootstrap: bootstrap_key(params, &secrets),
            tables: tables(params),
            small: CmLweCiphertext::new(0, LweDimension(params.lwe_dimension), w, NATIVE),
            out: big.clone(),
            params: params.clone(),
            secrets,
            key_switch,
            messages,
            big,
            fft,
            scratch,
        }
    }
}

impl Timed for Bootstraps {
    fn run(&mut self) {
        for (from, to) in self.big.iter().zip(&mut self.out) {
            cm_keyswitch_lwe_ciphertext(&self.key_switch, from, &mut self.small);
            let (fft, scratch) = (self.fft.as_view(), self.scratch.stack());
            bootstrap(&self.small, to, &self.tables, &self.bootstrap, fft, scratch);
        }
    }

    fn check(&self) -> Result<()> {
        let p = self.params.plaintext_modulus();
        let shift = 63 - p.ilog2();
        let messages = self.messages.chunks(self.params.slots);
        for (i, (ct, messages)) in self.out.iter().zip(messages).enumerate() {
            let phases = decrypt_cm_lwe_ciphertext(&self.secrets.big, ct);
            for (slot, (phase, &m)) in phases.iter().zip(messages).enumerate() {
                let got = phase.0.wrapping_add(1 << (shift - 1)) >> shift;
                let wanted = slot_lookup(slot, m, p);
                ensure!(
                    got == wanted,
                    "tfhe: ciphertext {i}, slot {slot}: wanted {wanted}, got {got}"
                );
            }
        }
        Ok(())
    }

    fn units(&self) -> usize {
        self.messages.len()
    }
}

/// The peer with keys made and `batch` ciphertexts of w messages encrypted; only a key switch with a bootstrap.
pub fn prepare(work: Work, params: &TfheParams) -> Result<Side> {
    let Work::KsPbs { batch } = work else {
        bail!("the common mask is measured with a key switch")
    };
    let timed = Bootstraps::new(params, messages(batch * params.slots, params));
    Ok(Side {
        timed: Box::new(timed),
        params: params.name.to_string(),
        log2_pfail: params.log2_pfail,
    })
}
