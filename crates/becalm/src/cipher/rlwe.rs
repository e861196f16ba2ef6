//! CKKS: ciphertexts and keys over a ring with a chain of moduli.
//!
//! A ciphertext is (c_0, c_1) with c_0 + c_1·s = m + e modulo the primes of its level; everything is held as values, limb after
//! limb, in the order that docs/files.md states for all machines. Values modulo p are doubles of integers between −p and p. A switch key from s to s' has for each digit j of the chain
//! (b_j, a_j) with b_j + a_j·s' = e_j + P·s modulo the primes of the digit, e_j modulo the others.

use super::{Account, KeyId};
use crate::math::random::PublicSeed;
use crate::math::rns::Scratch;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Integers as the contents of a ciphertext: an integer m of b bits is the coefficient m·q_0/2^b at level 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integers {
    /// b: sums and differences are taken modulo 2^b.
    pub bits: u32,
    /// How many integers there are: those of the first places.
    pub count: usize,
}

impl Integers {
    /// The coefficient that holds the integer of a place, in a ring of `degree` coefficients. CoeffsToSlots takes the coefficients of each half
    /// in bit-reversed order, so this is the one with which slot i has the integer of place i, and i times slot i that of place N/2 + i.
    pub fn coefficient(place: usize, degree: usize) -> usize {
        let half = degree / 2;
        let (part, slot) = (place / half, place % half);
        part * half + (slot.reverse_bits() >> (half.leading_zeros() + 1))
    }

    /// These integers, or values, in errors.
    pub(crate) fn named(bits: Option<u32>) -> String {
        match bits {
            Some(1) => "integers of 1 bit".into(),
            Some(bits) => format!("integers of {bits} bits"),
            None => "values in slots".into(),
        }
    }

    /// Refuses integers of so many bits that an error may turn into others.
    pub(crate) fn require_exact(op: &'static str, bits: u32, account: Account) -> Result<()> {
        let most = (-f64::from(bits) - 1.0).exp2();
        if account.worst < most {
            return Ok(());
        }
        let wanted = format!("integers with an error below 2^{:.0} of q_0", most.log2());
        let got = format!("2^{:.1}", account.worst.log2());
        let remedy = "look them up in a table sooner, which takes errors out";
        Err(Error::too_noisy(op, wanted, got, remedy))
    }
}

/// One ciphertext: up to N/2 complex values under one key, or up to N integers.
#[derive(Clone)]
pub struct Rlwe {
    pub(crate) params: &'static str,
    pub(crate) key: KeyId,
    pub(crate) level: usize,
    pub(crate) scale: f64,
    pub(crate) slots: usize,
    pub(crate) account: Account,
    pub(crate) integers: Option<Integers>,
    /// Shared, so that a clone takes no memory: the register of a machine, for example.
    pub(crate) parts: [Arc<Scratch>; 2],
}

impl Rlwe {
    /// Refuses packed integers, whose slots hold no values.
    pub(crate) fn require_slots(&self, op: &'static str) -> Result<()> {
        if self.integers.is_none() {
            return Ok(());
        }
        let remedy =
            "decrypt packed integers with `decrypt_integers`, or read the file with `load`";
        Err(Error::bad_input(op, "values in slots", "packed integers", remedy))
    }

    /// Name of the parameter set.
    pub fn params(&self) -> &'static str {
        self.params
    }

    /// Identity of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.key
    }

    /// Multiplications that are left.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The factor of a value before it was rounded to integers.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Number of values: a power of two of at most N/2. Fewer than N/2 stand in the ring again and again.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The integers that its coefficients are; none where its slots hold values. Their account is of coefficients, in units of q_0.
    pub fn integers(&self) -> Option<Integers> {
        self.integers
    }

    /// The claimed error of its slots: an upper bound on the root of the mean square, for values within the bound of its account.
    pub fn error(&self) -> f64 {
        self.account.error
    }

    /// The bounds on its values and on their error. A file states those of its ciphertext, so they may be anything; sharing relies only on
    /// an account that is [`Standing::BOUNDED`](super::Standing::BOUNDED).
    pub fn account(&self) -> Account {
        self.account
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|p| p.len() * 8).sum()
    }
}

impl fmt::Debug for Rlwe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Rlwe({}, key {}, level {}, scale 2^{:.2}, {} slots, about {:.1} bits)",
            self.params,
            self.key,
            self.level,
            self.scale.log2(),
            self.slots,
            -self.account.error.log2()
        )
    }
}

/// A ciphertext at rest: residues of as many bits as their primes.
#[derive(Clone)]
pub struct PackedRlwe {
    /// All but the polynomials.
    pub(crate) head: Rlwe,
    pub(crate) parts: [Vec<u8>; 2],
}

impl PackedRlwe {
    /// Name of the parameter set.
    pub fn params(&self) -> &'static str {
        self.head.params
    }

    /// Identity of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.head.key
    }

    /// As [`Rlwe::level`].
    pub fn level(&self) -> usize {
        self.head.level
    }

    /// As [`Rlwe::scale`].
    pub fn scale(&self) -> f64 {
        self.head.scale
    }

    /// As [`Rlwe::slots`].
    pub fn slots(&self) -> usize {
        self.head.slots
    }

    /// As [`Rlwe::integers`].
    pub fn integers(&self) -> Option<Integers> {
        self.head.integers
    }

    /// As [`Rlwe::error`].
    pub fn error(&self) -> f64 {
        self.head.account.error
    }

    /// As [`Rlwe::account`].
    pub fn account(&self) -> Account {
        self.head.account
    }

    /// c_0 and c_1: the residues 0 ≤ x < p of word after word, ⌈log2 p⌉ bits each, least significant first.
    pub fn parts(&self) -> [&[u8]; 2] {
        self.parts.each_ref().map(Vec::as_slice)
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }
}

/// Most parties of a key, each with a share of it: the bits of a number.
pub(crate) const MOST_PARTIES: usize = 32;

/// The budget that a key, or a share of one, has spent on decryptions that others see, in units of 1/[`Budget::ALL`].
#[derive(Default)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    /// The budget of all shared decryptions together.
    const ALL: u64 = 1 << 60;

    /// Spends the part of one of `queries` shared decryptions. Returns false and spends nothing if less is left.
    pub(crate) fn spend(&self, queries: u64) -> bool {
        let part = (Budget::ALL / queries.max(1)).max(1);
        let after = |spent: u64| Some(spent + part).filter(|spent| *spent <= Budget::ALL);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).is_ok()
    }

    /// The spent part, 0 to 1.
    pub(crate) fn spent(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / Budget::ALL as f64
    }
}

/// The secret key: a ternary polynomial, wiped when dropped.
#[derive(ZeroizeOnDrop)]
pub struct CkksSecretKey {
    #[zeroize(skip)]
    pub(crate) params: &'static str,
    #[zeroize(skip)]
    pub(crate) id: KeyId,
    /// N coefficients in {−1, 0, 1}.
    pub(crate) coefficients: Vec<f64>,
    /// Their values modulo the words of the lowest tier, made when first used; they wipe themselves.
    #[zeroize(skip)]
    pub(crate) values: OnceLock<Zeroizing<Vec<f64>>>,
    /// For shared decryptions.
    #[zeroize(skip)]
    pub(crate) budget: Budget,
}

impl CkksSecretKey {
    /// A key of these coefficients.
    pub(crate) fn new(params: &'static str, id: KeyId, coefficients: Vec<f64>) -> CkksSecretKey {
        CkksSecretKey {
            params,
            id,
            coefficients,
            values: OnceLock::new(),
            budget: Budget::default(),
        }
    }

    /// The part of what may be shared that shared decryptions have spent since this key was made or read, 0 to 1. Each spends
    /// 1/`queries`.
    pub fn spent(&self) -> f64 {
        self.budget.spent()
    }

    /// Identity of the key.
    pub fn id(&self) -> KeyId {
        self.id
    }
}

/// An encryption of zero with which anyone encrypts.
pub struct CkksPublicKey {
    pub(crate) params: &'static str,
    pub(crate) id: KeyId,
    /// How many parties made it together; 1 for that of a secret key.
    pub(crate) parties: usize,
    /// Whether a file gave it.
    pub(crate) foreign: bool,
    /// (b, a) at the highest level of the user, as values.
    pub(crate) parts: [Scratch; 2],
}

impl CkksPublicKey {
    /// How many parties made it together; 1 for that of a secret key.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// Identity of the secret key.
    pub fn id(&self) -> KeyId {
        self.id
    }
}

/// The purpose of a switch key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// From s² to s.
    Multiply,
    /// For X → X^g: from s to the image of s under the inverse.
    Galois(u32),
    /// From the secret to the ephemeral one, under the modulus of level 0.
    ToEphemeral,
    /// And back.
    FromEphemeral,
}

/// Switches ciphertexts from one secret to another.
pub struct SwitchKey {
    /// The highest level at which it is used.
    pub(crate) level: usize,
    /// Words of that level.
    pub(crate) count: usize,
    /// Special words of the key.
    pub(crate) special: usize,
    /// The seed of the masks.
    pub(crate) seed: PublicSeed,
    /// b_j: [digit][word of the chain, then special][N].
    pub(crate) bodies: Scratch,
    /// a_j, likewise.
    pub(crate) masks: Scratch,
}

impl SwitchKey {
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        (self.bodies.len() + self.masks.len()) * 8
    }
}

/// A switch key of which there are the seed and the bodies, packed, until it is used.
pub(crate) struct StoredKey {
    /// As in [`SwitchKey`].
    pub(crate) level: usize,
    /// As in [`SwitchKey`].
    pub(crate) special: usize,
    /// As in [`SwitchKey`].
    pub(crate) seed: PublicSeed,
    pub(crate) bodies: Packed,
    /// Packed too, in the same order, where they are not drawn from the seed.
    pub(crate) masks: Option<Vec<u8>>,
}

impl StoredKey {
    /// Whether its bodies are in memory, where they were packed from a key that was ready.
    pub(crate) fn in_memory(&self) -> bool {
        matches!(self.bodies, Packed::Memory(_))
    }
}

/// Where packed bodies are.
pub(crate) enum Packed {
    Memory(Vec<u8>),
    /// From which byte on.
    File(Arc<KeyFile>, u64),
}

/// A file of keys that stays open, and its length and time of change when its digest was checked.
pub(crate) struct KeyFile {
    file: File,
    #[cfg(not(unix))]
    turn: std::sync::Mutex<()>,
    state: (u64, SystemTime),
}

impl KeyFile {
    /// To be called before the digest is checked.
    pub(crate) fn new(file: File) -> io::Result<KeyFile> {
        let state = KeyFile::state(&file)?;
        Ok(KeyFile {
            file,
            #[cfg(not(unix))]
            turn: std::sync::Mutex::default(),
            state,
        })
    }

    fn state(file: &File) -> io::Result<(u64, SystemTime)> {
        let found = file.metadata()?;
        Ok((found.len(), found.modified().unwrap_or(SystemTime::UNIX_EPOCH)))
    }

    /// Fills `bytes` from byte `at` on; an error if the file was written to since.
    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.fill(at, bytes)?;
        if KeyFile::state(&self.file)? == self.state {
            return Ok(());
        }
        Err(io::Error::other("a file that was changed since it was opened"))
    }

    /// Reads at a given position: a position that the file remembers would be shared by a forked child and its parent.
    #[cfg(unix)]
    fn fill(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, at)
    }

    #[cfg(not(unix))]
    fn fill(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        let _turn = self.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (&self.file).seek(SeekFrom::Start(at))?;
        (&self.file).read_exact(bytes)
    }
}

/// A switch key, ready or packed.
#[derive(Clone)]
pub(crate) enum Held {
    Ready(Arc<SwitchKey>),
    Stored(Arc<StoredKey>),
}

impl Held {
    /// The highest level at which it is used.
    pub(crate) fn level(&self) -> usize {
        match self {
            Held::Ready(key) => key.level,
            Held::Stored(key) => key.level,
        }
    }

    /// Bytes in memory.
    fn bytes(&self) -> usize {
        match self {
            Held::Ready(key) => key.bytes(),
            Held::Stored(key) => match &key.bodies {
                Packed::Memory(bytes) => bytes.len() + key.masks.as_ref().map_or(0, Vec::len),
                Packed::File(..) => 0,
            },
        }
    }
}

/// The keys that a server computes with. They hold no secret. Clones and unions share the keys and do not copy them.
#[derive(Clone)]
pub struct CkksKeys {
    pub(crate) params: &'static str,
    pub(crate) id: KeyId,
    /// The key of multiplication is always present; the keys to and from an ephemeral secret come together.
    /// By purpose and tier of the chain. A key to an ephemeral secret has the tier of the key back.
    pub(crate) switches: BTreeMap<(Purpose, usize), Held>,
    /// Whether a file gave them.
    pub(crate) foreign: bool,
}

impl CkksKeys {
    /// No keys at all, for programs that need none: sums, plaintexts, lower levels.
    pub fn none(params: &'static str, id: KeyId) -> CkksKeys {
        CkksKeys { params, id, switches: BTreeMap::new(), foreign: false }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty()
    }

    /// Identity of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Bytes in memory; keys that stay in their file take none; for others their [`KeyForm`](super::KeyForm) decides.
    pub fn bytes(&self) -> usize {
        self.switches.values().map(Held::bytes).sum()
    }

    /// The level of the key for a purpose in a tier.
    pub(crate) fn level(&self, which: (Purpose, usize)) -> Option<usize> {
        self.switches.get(&which).map(Held::level)
    }

    /// The keys of both. Where both have a key, the one for the higher level stays, or this one's.
    ///
    /// # Errors
    /// `WrongParams` for keys of another set, `WrongKey` for those of another secret key.
    pub fn union(&self, other: &CkksKeys) -> Result<CkksKeys> {
        let op = "unite keys";
        if self.params != other.params {
            let (wanted, got) = (format!("keys of `{}`", self.params), other.params);
            return Err(Error::wrong_params(
                op,
                wanted,
                format!("`{got}`"),
                "use one set throughout",
            ));
        }
        if self.id != other.id {
            let (wanted, got) = (format!("keys of key {}", self.id), other.id.to_string());
            let remedy = "use evaluation keys made from one secret key";
            return Err(Error::wrong_key(op, wanted, got, remedy));
        }
        let mut all = self.clone();
        all.foreign |= other.foreign;
        for (which, key) in &other.switches {
            // There and back again by one ephemeral secret.
            let leading = match which.0 {
                Purpose::ToEphemeral => (Purpose::FromEphemeral, which.1),
                _ => *which,
            };
            let (held, theirs) = (self.level(leading), other.level(leading));
            if theirs > held {
                all.switches.insert(*which, key.clone());
            }
        }
        Ok(all)
    }
}
