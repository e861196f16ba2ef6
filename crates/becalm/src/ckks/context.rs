//! A parameter set made ready to compute: its [`Chain`] and the tables of this processor.

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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Conversions by the words that they lead from and to.
type Converters = BTreeMap<(Vec<usize>, Vec<usize>), Arc<Converter>>;

/// The tables of all contexts in memory.
static MADE: Mutex<Vec<Weak<Tables>>> = Mutex::new(vec![]);

/// A CKKS parameter set made ready.
pub struct Context(Arc<Tables>);

/// The tables of a chain for this processor, at a level of its instructions.
struct Tables {
    chain: Arc<Chain>,
    ring: Ring,
    fft: Arc<FftPlan>,
    /// For slot j, the positions of its real and imaginary part in a transform.
    slots: Vec<(usize, usize)>,
    converters: Mutex<Converters>,
    permutations: Mutex<BTreeMap<usize, Arc<Vec<u32>>>>,
    parts: Mutex<BTreeMap<usize, Arc<Part>>>,
}

/// The ring of polynomials in a power of X, and for each word where its values stand in the vectors of eight of the tiles.
pub(crate) struct Part {
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
        Context::with_instructions(params, allow_insecure, Level::best())
    }

    /// [`Context::new`] with the given vector instructions, for comparisons.
    ///
    /// # Errors
    /// As there; `Unsupported` if the processor lacks the instructions.
    pub fn with_instructions(
        params: &'static CkksParams,
        allow_insecure: bool,
        level: Level,
    ) -> Result<Context> {
        params.require_secure(allow_insecure)?;
        Tables::new(&Arc::new(Chain::new(params)?), level).map(Context)
    }

    /// The context of a chain whose keys there are: with the tables that another context of the same chain has in memory, or with new
    /// ones at `level`.
    ///
    /// # Errors
    /// As [`Context::with_instructions`], but for `Insecure`.
    pub(crate) fn of(chain: &Arc<Chain>, level: Level) -> Result<Context> {
        let same = |made: &Arc<Tables>| Arc::ptr_eq(&made.chain, chain);
        let found = Tables::made().iter().filter_map(Weak::upgrade).find(same);
        match found {
            Some(made) => Ok(Context(made)),
            None => Tables::new(chain, level).map(Context),
        }
    }

    /// The chain of moduli, which plans without a context.
    pub fn chain(&self) -> &Arc<Chain> {
        &self.0.chain
    }

    /// The work done in this context so far.
    pub fn work(&self) -> Work {
        self.0.ring.work()
    }

    /// The ring.
    pub(crate) fn ring(&self) -> &Ring {
        &self.0.ring
    }

    /// The transform between slots and coefficients.
    pub(crate) fn fft(&self) -> &FftPlan {
        &self.0.fft
    }

    /// Positions of slot j in a transform.
    pub(crate) fn slots(&self) -> &[(usize, usize)] {
        &self.0.slots
    }

    /// The product of the first `special` special words modulo word `i`.
    pub(crate) fn special_product(&self, special: usize, i: usize) -> u64 {
        let p = self.0.ring.word(i).p;
        let (primes, first) = (self.primes(), self.all_words() - self.special());
        let word = |k: usize| primes[first + k] % p;
        (0..special).fold(1, |a, k| mul(a, word(k), p))
    }

    /// The product of words `of` modulo word `i`.
    pub(crate) fn product(&self, of: &[usize], i: usize) -> u64 {
        let p = self.0.ring.word(i).p;
        of.iter().fold(1, |a, k| mul(a, self.0.ring.word(*k).p % p, p))
    }

    /// The inverse of the product of words `from` modulo word `i`.
    pub(crate) fn inverse_product(&self, from: &[usize], i: usize) -> u64 {
        inverse(self.product(from, i), self.0.ring.word(i).p)
    }

    /// The conversion between words, made once.
    pub(crate) fn converter(&self, from: Vec<usize>, to: Vec<usize>) -> Arc<Converter> {
        let mut made = self.0.converters.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (from, to);
        if let Some(converter) = made.get(&key) {
            return converter.clone();
        }
        let converter = Arc::new(Converter::new(&self.0.ring, key.0.clone(), key.1.clone()));
        made.insert(key, converter.clone());
        converter
    }

    /// The ring of polynomials in X^`every`, 8 or a greater power of two, made once; none where it is too small.
    pub(crate) fn part(&self, every: usize) -> Option<Arc<Part>> {
        let parts = || self.0.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = parts().get(&every) {
            return Some(made.clone());
        }
        let (n, words) = (self.params().degree(), self.all_words());
        let (size, primes) = (n / every, self.primes());
        let ring = Ring::new(size, primes, self.0.ring.level()).ok()?;
        let fft = FftPlan::get(size, self.0.ring.level()).ok()?;
        let order = (0..words).into_par_iter().map(|i| {
            // X^every there and X here take the same values, each as often as any other.
            let (mut there, mut here) = (self.0.ring.scratch(n), ring.scratch(size));
            there.fill(0.0);
            here.fill(0.0);
            (there[every], here[1]) = (1.0, 1.0);
            self.0.ring.forward(i, &mut there);
            self.0.ring.reduce(i, &mut there);
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
        // Not within the lock: a thread that waits for others would take up work that waits for the lock.
        Some(parts().entry(every).or_insert(Arc::new(Part { ring, fft, slots, order })).clone())
    }

    /// The permutation of values that X → X^`power` is, made once.
    pub(crate) fn permutation(&self, power: usize) -> Arc<Vec<u32>> {
        let mut made = self.0.permutations.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(power).or_insert_with(|| Arc::new(self.0.ring.permutation(power))).clone()
    }
}

impl Tables {
    fn made() -> MutexGuard<'static, Vec<Weak<Tables>>> {
        MADE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(chain: &Arc<Chain>, level: Level) -> Result<Arc<Tables>> {
        let params = chain.params();
        let remedy = "take a set of a smaller ring (`becalm params` lists them), or free memory";
        require_memory_or("make a CKKS context", chain.table_bytes(), remedy)?;
        let ring = Ring::new(params.degree(), chain.primes(), level)?;
        let fft = FftPlan::get(params.degree(), level)?;
        let slots = slots_of(&fft);
        let tables = Arc::new(Tables {
            chain: chain.clone(),
            ring,
            fft,
            slots,
            converters: Mutex::default(),
            permutations: Mutex::default(),
            parts: Mutex::default(),
        });
        let mut made = Tables::made();
        made.retain(|other| other.strong_count() > 0);
        made.push(Arc::downgrade(&tables));
        Ok(tables)
    }
}

/// A context does all that a chain does.
impl Deref for Context {
    type Target = Arc<Chain>;

    fn deref(&self) -> &Arc<Chain> {
        &self.0.chain
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_a_chain_share_the_tables_of_its_context() {
        let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
        let of = |chain| Context::of(chain, Level::best()).unwrap();
        let (a, b) = (of(context.chain()), of(context.chain()));
        assert!([&a, &b].iter().all(|made| Arc::ptr_eq(&made.0, &context.0)));
        // Without a context in memory the first machine makes tables, and the second has the same.
        let chain = Arc::new(Chain::new(context.params()).unwrap());
        let own = of(&chain);
        assert!(!Arc::ptr_eq(&own.0, &context.0));
        assert!(Arc::ptr_eq(&own.0, &of(&chain).0));
        let dropped = Arc::downgrade(&own.0);
        drop(own);
        assert!(dropped.upgrade().is_none());
    }
}
