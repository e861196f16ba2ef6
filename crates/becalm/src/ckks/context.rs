//! A parameter set made ready to compute: its [`Chain`] and the tables of a machine.

use super::Chain;
use crate::Result;
use crate::math::fft::FftPlan;
use crate::math::memory::require_memory_or;
use crate::math::parallel::*;
use crate::math::rns::{Converter, Ring, TILE, Work, inverse, mul};
use crate::math::simd::Level;
use crate::params::CkksParams;
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Conversions by the words that they lead from and to.
type Converters = BTreeMap<(Vec<usize>, Vec<usize>), Arc<Converter>>;

/// A CKKS parameter set made ready.
pub struct Context {
    chain: Chain,
    ring: Ring,
    fft: Arc<FftPlan>,
    /// For slot j, the positions of its real and imaginary part in a transform.
    slots: Vec<(usize, usize)>,
    converters: Mutex<Converters>,
    permutations: Mutex<BTreeMap<usize, Arc<Vec<u32>>>>,
    eighth: OnceLock<Eighth>,
}

/// The ring of polynomials in X^8, and for each word where its values stand in the vectors of eight of the tiles.
pub(crate) struct Eighth {
    pub(crate) ring: Ring,
    pub(crate) fft: Arc<FftPlan>,
    pub(crate) slots: Vec<(usize, usize)>,
    pub(crate) order: Vec<Vec<u32>>,
}

impl Context {
    /// Makes the set ready, on the best instructions of this processor: tables of some tens of megabytes.
    ///
    /// # Errors
    /// `Insecure` for a toy set unless `allow_insecure`; `WrongParams` where there are too few primes; `Memory` where the tables do
    /// not fit.
    pub fn new(params: &'static CkksParams, allow_insecure: bool) -> Result<Context> {
        Context::with_level(params, allow_insecure, Level::best())
    }

    /// [`Context::new`] with the given vector instructions, for comparisons.
    ///
    /// # Errors
    /// As there; `Unsupported` if the processor lacks the instructions.
    pub fn with_level(
        params: &'static CkksParams,
        allow_insecure: bool,
        level: Level,
    ) -> Result<Context> {
        params.require_secure(allow_insecure)?;
        let chain = Chain::new(params)?;
        let remedy = "take a set of a smaller ring (`becalm params` lists them), or free memory";
        require_memory_or("make a CKKS context", chain.table_bytes(), remedy)?;
        let ring = Ring::new(params.degree(), chain.primes(), level)?;
        let fft = FftPlan::get(params.degree(), level)?;
        let slots = slots_of(&fft);
        Ok(Context {
            chain,
            ring,
            fft,
            slots,
            converters: Mutex::default(),
            permutations: Mutex::default(),
            eighth: OnceLock::new(),
        })
    }

    /// The chain of moduli, which plans without a context.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The work done in this context so far.
    pub fn work(&self) -> Work {
        self.ring.work()
    }

    /// The ring.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The transform between slots and coefficients.
    pub(crate) fn fft(&self) -> &FftPlan {
        &self.fft
    }

    /// Positions of slot j in a transform.
    pub(crate) fn slots(&self) -> &[(usize, usize)] {
        &self.slots
    }

    /// The product of the first `special` special words modulo word `i`.
    pub(crate) fn special_product(&self, special: usize, i: usize) -> u64 {
        let p = self.ring.word(i).p;
        let (primes, first) = (self.primes(), self.all_words() - self.special());
        let word = |k: usize| primes[first + k] % p;
        (0..special).fold(1, |a, k| mul(a, word(k), p))
    }

    /// The product of words `of` modulo word `i`.
    pub(crate) fn product(&self, of: &[usize], i: usize) -> u64 {
        let p = self.ring.word(i).p;
        of.iter().fold(1, |a, k| mul(a, self.ring.word(*k).p % p, p))
    }

    /// The inverse of the product of words `from` modulo word `i`.
    pub(crate) fn inverse_product(&self, from: &[usize], i: usize) -> u64 {
        inverse(self.product(from, i), self.ring.word(i).p)
    }

    /// The conversion between words, made once.
    pub(crate) fn converter(&self, from: Vec<usize>, to: Vec<usize>) -> Arc<Converter> {
        let mut made = self.converters.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (from, to);
        if let Some(converter) = made.get(&key) {
            return converter.clone();
        }
        let converter = Arc::new(Converter::new(&self.ring, key.0.clone(), key.1.clone()));
        made.insert(key, converter.clone());
        converter
    }

    /// The ring of polynomials in X^8, made once; none where it is too small.
    pub(crate) fn eighth(&self) -> Option<&Eighth> {
        if let Some(made) = self.eighth.get() {
            return Some(made);
        }
        let (n, words) = (self.params().degree(), self.all_words());
        let primes = self.primes();
        let ring = Ring::new(n / 8, primes, self.ring.level()).ok()?;
        let fft = FftPlan::get(n / 8, self.ring.level()).ok()?;
        let order = (0..words).into_par_iter().map(|i| {
            // X^8 there and X here take the same values, each once.
            let (mut there, mut here) = (self.ring.scratch(n), ring.scratch(n / 8));
            there.fill(0.0);
            here.fill(0.0);
            (there[8], here[1]) = (1.0, 1.0);
            self.ring.forward(i, &mut there);
            self.ring.reduce(i, &mut there);
            ring.forward(i, &mut here);
            ring.reduce(i, &mut here);
            let exact = |x: &f64| (*x as i64).rem_euclid(primes[i] as i64);
            let places: HashMap<i64, u32> =
                here.iter().enumerate().map(|(k, x)| (exact(x), k as u32)).collect();
            let kept = there.chunks(TILE).flat_map(|tile| &tile[..8]);
            kept.map(|x| places.get(&exact(x)).copied()).collect::<Option<Vec<u32>>>()
        });
        let order = order.collect::<Option<Vec<_>>>()?;
        let slots = slots_of(&fft);
        Some(self.eighth.get_or_init(|| Eighth { ring, fft, slots, order }))
    }

    /// The permutation of values that X → X^`power` is, made once.
    pub(crate) fn permutation(&self, power: usize) -> Arc<Vec<u32>> {
        let mut made = self.permutations.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(power).or_insert_with(|| Arc::new(self.ring.permutation(power))).clone()
    }
}

/// A context does all that a chain does.
impl Deref for Context {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        &self.chain
    }
}

/// For slot j, the value at ζ^(5^j), the positions of its real and imaginary part in a transform.
fn slots_of(fft: &FftPlan) -> Vec<(usize, usize)> {
    let mut places = vec![0; fft.size() / 2];
    fft.exponents().iter().enumerate().for_each(|(i, u)| places[*u as usize] = i);
    let mut power = 1;
    let slots = (0..fft.size() / 2).map(|_| {
        let at = fft.position(places[power / 4]);
        power = power * 5 % (2 * fft.size());
        at
    });
    slots.collect()
}
