//! The peer's work, at its best settings: scratch allocated before, its own batch bootstrap for batches, the centred
//! modulus switch where the set has it, a key switch to 32-bit words where the set has that.

use super::interface;
use super::{Ksk, Peer, Secrets, Standard, encryption_generator, noise};
use crate::cases::{Work, lookup, messages};
use crate::rows::{Side, Timed};
use anyhow::{Result, ensure};
use becalm::params::{ModulusSwitch, TfheParams};
use std::rc::Rc;
use tfhe::core_crypto::commons::math::random::Uniform;
use tfhe::core_crypto::prelude::*;

/// The word of ciphertexts under the small key.
pub trait Word: UnsignedTorus + CastInto<usize> + CastFrom<usize> + 'static {
    /// The small secret key in such words.
    fn small_key(secrets: &Secrets) -> LweSecretKeyOwned<Self>;
    /// The key-switching key to such words.
    fn ksk(peer: &Peer) -> Option<&LweKeyswitchKeyOwned<Self>>;
    /// Encrypts `messages` under the small key.
    fn encrypt(peer: &Peer, messages: &[u64]) -> LweCiphertextListOwned<Self>;
    /// One key switch.
    fn key_switch(
        ksk: &LweKeyswitchKeyOwned<Self>,
        from: &LweCiphertext<&[u64]>,
        to: &mut LweCiphertext<&mut [Self]>,
    );
}

macro_rules! word {
    ($word:ty, $variant:ident, $key_switch:ident) => {
        impl Word for $word {
            fn small_key(secrets: &Secrets) -> LweSecretKeyOwned<Self> {
                LweSecretKey::from_container(
                    secrets.small.as_ref().iter().map(|&bit| bit as $word).collect(),
                )
            }
            fn ksk(peer: &Peer) -> Option<&LweKeyswitchKeyOwned<Self>> {
                match &peer.ksk {
                    Some(Ksk::$variant(ksk)) => Some(ksk),
                    _ => None,
                }
            }
            fn encrypt(peer: &Peer, messages: &[u64]) -> LweCiphertextListOwned<Self> {
                let params = &peer.secrets.params;
                let shift = <$word>::BITS - 1 - params.plaintext_modulus().ilog2();
                let plain = messages.iter().map(|&m| (m as $word) << shift).collect();
                encrypt(&Self::small_key(&peer.secrets), plain, noise::<$word>(params.lwe_noise))
            }
            fn key_switch(
                ksk: &LweKeyswitchKeyOwned<Self>,
                from: &LweCiphertext<&[u64]>,
                to: &mut LweCiphertext<&mut [Self]>,
            ) {
                $key_switch(ksk, from, to)
            }
        }
    };
}
word!(u32, Words32, keyswitch_lwe_ciphertext_with_scalar_change);
word!(u64, Words64, keyswitch_lwe_ciphertext);

fn encrypt<T>(
    key: &LweSecretKeyOwned<T>,
    plain: Vec<T>,
    noise: DynamicDistribution<T>,
) -> LweCiphertextListOwned<T>
where
    T: Encryptable<Uniform, DynamicDistribution<T>>,
{
    let plain = PlaintextList::from_container(plain);
    let count = LweCiphertextCount(plain.plaintext_count().0);
    let size = key.lwe_dimension().to_lwe_size();
    let mut list = LweCiphertextList::new(T::ZERO, size, count, CiphertextModulus::new_native());
    encrypt_lwe_ciphertext_list(key, &mut list, &plain, noise, &mut encryption_generator());
    list
}

/// Bootstraps of a fixed batch, with a key switch first if made so; scratch is allocated once.
pub struct Bootstraps<S: Word> {
    peer: Rc<Peer>,
    key_switch: bool,
    /// Under the big key; read only with a key switch.
    big: LweCiphertextListOwned<u64>,
    /// Under the small key; written by the key switch, else the input.
    small: LweCiphertextListOwned<S>,
    /// `small` with the bodies corrected, if the set's modulus switch is centred.
    centred: LweCiphertextListOwned<S>,
    out: LweCiphertextListOwned<u64>,
    accumulators: GlweCiphertextListOwned<u64>,
    messages: Vec<u64>,
    fft: Fft,
    scratch: ComputationBuffers,
}

impl<S: Word> Bootstraps<S> {
    /// Encrypts `messages`, one ciphertext each.
    pub fn new(peer: Rc<Peer>, key_switch: bool, messages: Vec<u64>) -> Self {
        let params = &peer.secrets.params;
        let count = messages.len();
        let (p, size) = (params.plaintext_modulus(), PolynomialSize(params.polynomial_size));
        let shift = 63 - p.ilog2();
        let plain = messages.iter().map(|&m| m << shift).collect();
        let big = encrypt(&peer.secrets.big(), plain, noise::<u64>(params.glwe_noise));
        let small = S::encrypt(&peer, &messages);
        let glwe = GlweDimension(params.glwe_dimension).to_glwe_size();
        let native = CiphertextModulus::new_native();
        let table = generate_programmable_bootstrap_glwe_lut(
            size,
            glwe,
            p as usize,
            native,
            1 << shift,
            |x: u64| lookup(x, p),
        );
        let tables = table.as_ref().repeat(count);
        let fft = Fft::new(size);
        let mut scratch = ComputationBuffers::new();
        let count = LweCiphertextCount(count);
        scratch.resize(
            batch_programmable_bootstrap_lwe_ciphertext_mem_optimized_requirement::<u64>(
                glwe,
                size,
                CiphertextCount(count.0),
                fft.as_view(),
            )
            .unaligned_bytes_required(),
        );
        Bootstraps {
            key_switch,
            centred: small.clone(),
            out: LweCiphertextList::new(0, big.lwe_size(), count, native),
            accumulators: GlweCiphertextList::from_container(tables, glwe, size, native),
            big,
            small,
            messages,
            fft,
            scratch,
            peer,
        }
    }

    /// The inputs under the big key, to be read or replaced: ciphertexts of k·N + 1 words.
    pub fn inputs(&mut self) -> &mut [u64] {
        self.big.as_mut()
    }

    /// The inputs of the blind rotation under the small key: ciphertexts of n + 1 words.
    pub fn switched(&self) -> &[S] {
        self.small.as_ref()
    }

    /// The outputs of the last run: ciphertexts of k·N + 1 words.
    pub fn outputs(&self) -> &[u64] {
        self.out.as_ref()
    }

    /// Moves the bodies by what the centred modulus switch adds, so that the plain switch inside the peer's bootstrap
    /// computes exactly its centred one (which its batch function has no argument for).
    fn centre(&mut self) {
        let log_modulus = self.peer.bsk.polynomial_size().to_blind_rotation_input_modulus_log();
        for (from, mut to) in self.small.iter().zip(self.centred.iter_mut()) {
            to.as_mut().copy_from_slice(from.as_ref());
            let switched =
                lwe_ciphertext_centered_binary_modulus_switch::<S, usize, _>(from, log_modulus);
            let (_, correction, _) = switched.into_raw_parts();
            let body = to.get_mut_body();
            *body.data = body.data.wrapping_add(correction);
        }
    }
}

impl<S: Word> Timed for Bootstraps<S> {
    fn run(&mut self) {
        if let (true, Some(ksk)) = (self.key_switch, S::ksk(&self.peer)) {
            for (from, mut to) in self.big.iter().zip(self.small.iter_mut()) {
                S::key_switch(ksk, &from, &mut to);
            }
        }
        let centred = self.peer.secrets.params.modulus_switch == ModulusSwitch::Centered;
        if centred {
            self.centre();
        }
        let from = if centred { &self.centred } else { &self.small };
        let (bsk, fft, scratch) = (&self.peer.bsk, self.fft.as_view(), self.scratch.stack());
        if self.messages.len() == 1 {
            let (mut out, accumulator) = (self.out.get_mut(0), self.accumulators.get(0));
            let from = from.get(0);
            programmable_bootstrap_lwe_ciphertext_mem_optimized(
                &from,
                &mut out,
                &accumulator,
                bsk,
                fft,
                scratch,
            );
        } else {
            let out = &mut self.out;
            let tables = &self.accumulators;
            batch_programmable_bootstrap_lwe_ciphertext_mem_optimized(
                from, out, tables, bsk, fft, scratch,
            );
        }
    }

    fn check(&self) -> Result<()> {
        let p = self.peer.secrets.params.plaintext_modulus();
        let shift = 63 - p.ilog2();
        let key = self.peer.secrets.big();
        for (i, (ct, &m)) in self.out.iter().zip(&self.messages).enumerate() {
            let phase = decrypt_lwe_ciphertext(&key, &ct).0;
            let got = phase.wrapping_add(1 << (shift - 1)) >> shift;
            ensure!(
                got == lookup(m, p),
                "tfhe: ciphertext {i}: wanted {}, got {got}",
                lookup(m, p)
            );
        }
        Ok(())
    }

    fn units(&self) -> usize {
        self.messages.len()
    }
}

/// Evaluation keys from given secret keys, on one thread, to the Fourier domain.
struct KeyGeneration {
    params: TfheParams,
    pool: rayon::ThreadPool,
    out: Option<Peer>,
}

impl KeyGeneration {
    fn new(params: &TfheParams) -> Result<KeyGeneration> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        Ok(KeyGeneration { params: params.clone(), pool, out: None })
    }
}

impl Timed for KeyGeneration {
    fn run(&mut self) {
        let params = &self.params;
        self.out = None;
        // Secret keys take microseconds: not worth separating.
        self.out = self.pool.install(|| {
            let secrets = Secrets::generate(params);
            Some(Standard::generate(&secrets, true).ok()?.into_peer(secrets))
        });
    }

    fn check(&self) -> Result<()> {
        ensure!(self.out.is_some(), "tfhe: no keys came out");
        Ok(())
    }

    fn units(&self) -> usize {
        1
    }
}

/// The peer with keys made and inputs encrypted for `work`. `kept` holds the keys of the last set, for the next case.
pub fn prepare(work: Work, params: &TfheParams, kept: &mut Option<Rc<Peer>>) -> Result<Side> {
    let side =
        |timed| Side { timed, params: params.name.to_string(), log2_pfail: params.log2_pfail };
    match work {
        Work::KeyGeneration => Ok(side(Box::new(KeyGeneration::new(params)?))),
        Work::Nand => interface::nand(params),
        Work::Lookup => interface::lookup_one(params),
        Work::Pbs { batch } | Work::KsPbs { batch } => {
            let needed = work.key_switches();
            let fits =
                |peer: &Rc<Peer>| peer.secrets.params == *params && (peer.ksk.is_some() || !needed);
            let peer = match kept.take().filter(fits) {
                Some(peer) => peer,
                None => {
                    let secrets = Secrets::generate(params);
                    Rc::new(Standard::generate(&secrets, needed)?.into_peer(secrets))
                }
            };
            *kept = Some(peer.clone());
            let messages = messages(batch, params);
            let timed: Box<dyn Timed> = match params.ks_modulus_log2 {
                32 => Box::new(Bootstraps::<u32>::new(peer, needed, messages)),
                _ => Box::new(Bootstraps::<u64>::new(peer, needed, messages)),
            };
            Ok(side(timed))
        }
    }
}
