//! Secret keys, their identities and roles, and the words that keys are stored in.

use crate::math::Modulus;
use crate::params::{Noise, Rotation, TfheParams};
use crate::{Error, Result};
use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use zeroize::ZeroizeOnDrop;

/// Identity of a secret key: random, public, carried by everything made with the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyId(pub [u8; 16]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// Which of the two secret keys of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyRole {
    /// The LWE key of dimension n that the blind rotation reads.
    Small,
    /// The GLWE key, read as an LWE key of dimension k·N: the key of a bootstrap's output.
    Big,
    /// The big key of one slot of a common-mask set: plain LWE ciphertexts of one message.
    Slot(u32),
}

impl fmt::Display for KeyRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyRole::Small => f.write_str("the small key"),
            KeyRole::Big => f.write_str("the big key"),
            KeyRole::Slot(slot) => write!(f, "the key of slot {slot}"),
        }
    }
}

impl KeyRole {
    /// Dimension of the mask under this key.
    pub fn dimension(self, params: &TfheParams) -> usize {
        match self {
            KeyRole::Small => params.lwe_dimension,
            KeyRole::Big | KeyRole::Slot(_) => params.big_dimension(),
        }
    }

    /// Bodies behind the mask, each a message under its own key.
    pub fn bodies(self, params: &TfheParams) -> usize {
        match self {
            KeyRole::Small | KeyRole::Big => params.slots,
            KeyRole::Slot(_) => 1,
        }
    }

    /// Words of a ciphertext: mask and bodies.
    pub fn width(self, params: &TfheParams) -> usize {
        self.dimension(params) + self.bodies(params)
    }

    /// The role itself if the set has such a key.
    pub(crate) fn checked(self, params: &TfheParams) -> Result<Self> {
        match self {
            KeyRole::Slot(slot) if slot as usize >= params.slots || params.slots == 1 => {
                let wanted = match params.slots {
                    1 => "a common-mask set".to_string(),
                    w => format!("a slot below {w}"),
                };
                let remedy = "choose a slot that a ciphertext of the set has";
                Err(Error::bad_input("slot", wanted, format!("slot {slot}"), remedy))
            }
            role => Ok(role),
        }
    }

    /// The noise of fresh ciphertexts under this key, added modulo q.
    pub fn fresh_noise(self, params: &TfheParams) -> Noise {
        match (self, params.lwe_noise) {
            (KeyRole::Big | KeyRole::Slot(_), _) => params.glwe_noise,
            // A bound in units of a smaller modulus is the same noise in units of q, shifted.
            (KeyRole::Small, Noise::TUniform { bound_log2 }) => {
                Noise::TUniform { bound_log2: bound_log2 + Modulus::LOG2 - params.ks_modulus_log2 }
            }
            (KeyRole::Small, noise) => noise,
        }
    }
}

/// The secret keys of one user: binary, wiped when dropped, neither printable nor copyable by accident.
#[derive(ZeroizeOnDrop)]
pub struct SecretKey {
    #[zeroize(skip)]
    pub(crate) params: Arc<TfheParams>,
    #[zeroize(skip)]
    pub(crate) id: KeyId,
    /// n bits for each slot, one a word.
    pub(crate) small: Vec<u64>,
    /// k·N bits for each slot, one a word: S_1 … S_k.
    pub(crate) big: Vec<u64>,
}

impl SecretKey {
    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.params
    }

    /// Identity of the key.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The key's bits, one a word, slot after slot, for exchange with other libraries and for proofs. The caller holds a
    /// secret then.
    pub fn expose(&self, role: KeyRole) -> &[u64] {
        match role {
            KeyRole::Small => &self.small,
            KeyRole::Big => &self.big,
            KeyRole::Slot(slot) => {
                let size = self.params.big_dimension();
                self.big.chunks_exact(size).nth(slot as usize).unwrap_or(&[])
            }
        }
    }
}

/// Words in memory or in a mapped file.
#[derive(Clone)]
pub enum Words {
    /// In memory.
    Owned(Arc<Vec<u64>>),
    /// Bytes of a mapped file; the start is a multiple of 8.
    Mapped(Arc<Mmap>, Range<usize>),
}

impl std::ops::Deref for Words {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        match self {
            Words::Owned(v) => v,
            // A map begins on a page and the range was checked when it was made, so the cast cannot fail.
            Words::Mapped(map, range) => {
                bytemuck::try_cast_slice(&map[range.clone()]).unwrap_or(&[])
            }
        }
    }
}

/// Refuses bits that are not a key of the set's family: the error states the wanted and the given kind, and no bits.
pub(crate) fn check_structure(
    params: &TfheParams,
    small: &[u64],
    big: &[u64],
) -> std::result::Result<(), (&'static str, &'static str)> {
    let blocks = match params.rotation {
        Rotation::Block { size } => {
            let above = |block: &[u64]| u64::from(block.iter().sum::<u64>() > 1);
            small.chunks(size as usize).map(above).sum::<u64>()
        }
        _ => 0,
    };
    let shared = params.shared_dimension();
    let other = small[..shared].iter().zip(big).fold(0, |other, (s, b)| other | (s ^ b));
    if blocks == 0 && other == 0 {
        return Ok(());
    }
    Err(("a small key of blocks, or the beginning of the big key, as the set says", "other bits"))
}
