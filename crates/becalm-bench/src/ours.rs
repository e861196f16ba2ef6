//! becalm's half of the comparison, at its best settings on one thread.
//!
//! Cases of one primitive call it on buffers that were allocated before, as the peer's half does; gates and lookups go
//! through the public interface, as the peer's do.

use crate::cases::{Work, lookup, messages, slot_lookup};
use crate::rows::{Side, Timed};
use anyhow::{Context, Result, ensure};
use becalm::backend::{Backend, Cpu, Evaluator, Runs, Session, TfheSetup};
use becalm::bootstrap::tfhe::classic::{BootstrapKey, Scratch, sample_extract};
use becalm::bootstrap::tfhe::extended::load_table;
use becalm::cipher::{Encoding, EvaluationKey, KeyRole, Lwe, SecretKey};
use becalm::math::simd::Level;
use becalm::params::TfheParams;
use becalm::program::{Gate, Need};
use becalm::tfhe::Table;
use becalm::tfhe::key_switch::{KeySwitchKey, KeySwitchScratch, KeySwitchShape};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Keys made and ready to bootstrap.
pub struct Ours {
    secret: SecretKey,
    bootstrap: BootstrapKey,
    key_switch: Option<KeySwitchKey>,
}

/// The shape of a set's key-switching key.
pub fn key_switch_shape(params: &TfheParams) -> KeySwitchShape {
    KeySwitchShape::of(params)
}

impl Ours {
    /// Keys of a set; the key-switching key only if asked for.
    fn generate(params: &TfheParams, key_switch: bool) -> Result<Ours> {
        let secret = SecretKey::generate(params, true)?;
        let keys = secret.evaluation_key()?;
        let bootstrap = BootstrapKey::new(&keys, Level::best())?;
        let key_switch = key_switch.then(|| expand_key_switch(&keys)).transpose()?;
        Ok(Ours { secret, bootstrap, key_switch })
    }
}

fn expand_key_switch(keys: &EvaluationKey) -> Result<KeySwitchKey> {
    let shape = key_switch_shape(keys.params());
    let words = keys.key_switch_words();
    let row = shape.gadget.level as usize * (shape.output_dimension + shape.bodies);
    let fill = |i: usize, out: &mut [u64]| out.copy_from_slice(&words[i * row..(i + 1) * row]);
    Ok(KeySwitchKey::new(shape, Level::best(), fill)?)
}

/// Bootstraps of a fixed batch, with a key switch first if made so; buffers are allocated once. Every slot of a ciphertext has
/// its own table.
pub struct Bootstraps {
    ours: Rc<Ours>,
    key_switch: bool,
    /// Slot by slot, ciphertext after ciphertext.
    messages: Vec<u64>,
    /// Under the big key; read only with a key switch.
    big: Vec<u64>,
    /// Under the small key; written by the key switch, else the input.
    small: Vec<u64>,
    tables: Vec<Table>,
    accumulators: Vec<u64>,
    out: Vec<u64>,
    tile: usize,
    scratch: Scratch,
    key_switch_scratch: KeySwitchScratch,
}

impl Bootstraps {
    fn new(ours: Rc<Ours>, key_switch: bool, messages: Vec<u64>) -> Result<Bootstraps> {
        let params = ours.secret.params().clone();
        let p = params.plaintext_modulus();
        let table = |slot| Table::from_fn(&params, |x| slot_lookup(slot, x, p));
        let tables = (0..params.slots).map(table).collect::<becalm::Result<_>>()?;
        let count = messages.len() / params.slots;
        let tile = ours.bootstrap.best_tile().min(count);
        Ok(Bootstraps {
            key_switch,
            big: ours.secret.encrypt(&messages)?.words().to_vec(),
            small: encrypt_small(&ours.secret, &messages),
            tables,
            accumulators: vec![0; glwe_words(&params) * count],
            out: vec![0; KeyRole::Big.width(&params) * count],
            tile,
            scratch: ours.bootstrap.scratch(tile)?,
            key_switch_scratch: KeySwitchScratch::new(),
            messages,
            ours,
        })
    }

    fn try_run(&mut self) -> becalm::Result<()> {
        let params = self.ours.secret.params();
        if let (true, Some(key)) = (self.key_switch, &self.ours.key_switch) {
            key.apply(&self.big, &mut self.small, &mut self.key_switch_scratch)?;
        }
        let (n, glwe) = (params.polynomial_size, glwe_words(params));
        let [narrow, wide] = [KeyRole::Small, KeyRole::Big].map(|role| role.width(params));
        let small = self.small.chunks(self.tile * narrow);
        let accumulators = self.accumulators.chunks_mut(self.tile * glwe);
        for ((small, accs), out) in
            small.zip(accumulators).zip(self.out.chunks_mut(self.tile * wide))
        {
            for acc in accs.chunks_exact_mut(glwe) {
                acc.fill(0);
                for (slot, table) in self.tables.iter().enumerate() {
                    load_table(params, slot, table.polynomial(), acc);
                }
            }
            let inputs: Vec<&[u64]> = small.chunks_exact(narrow).collect();
            self.ours.bootstrap.rotate(accs, &inputs, &mut self.scratch)?;
            for (acc, out) in accs.chunks_exact(glwe).zip(out.chunks_exact_mut(wide)) {
                let first = &acc[..glwe / params.accumulators()];
                sample_extract(params.modulus, n, first, 0, out);
            }
        }
        Ok(())
    }
}

/// Words of what a rotation turns: k + w polynomials for each accumulator.
fn glwe_words(params: &TfheParams) -> usize {
    (params.glwe_dimension + params.slots) * params.table_size()
}

/// Ciphertexts under the small key, which the scheme has no call for. Masks and noise of the set's variance come from a
/// plain generator: this protects nothing.
fn encrypt_small(secret: &SecretKey, messages: &[u64]) -> Vec<u64> {
    let params = secret.params();
    let (key, encoding) = (secret.expose(KeyRole::Small), Encoding::of(params));
    let kept = u64::MAX << (64 - params.ks_modulus_log2);
    let spread = (12.0 * params.lwe_variance()).sqrt() * 2f64.powi(64);
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state ^ state >> 32
    };
    let mut words = Vec::new();
    for messages in messages.chunks(params.slots) {
        let mask: Vec<u64> = (0..params.lwe_dimension).map(|_| random() & kept).collect();
        words.extend(&mask);
        for (key, &m) in key.chunks_exact(mask.len()).zip(messages) {
            let dot = mask.iter().zip(key).fold(0u64, |sum, (a, s)| sum.wrapping_add(a * s));
            let noise = ((random() as f64 * 2f64.powi(-64) - 0.5) * spread) as i64 as u64;
            let plain = encoding.encode(params.modulus, m as i64);
            words.push(plain.wrapping_add(dot).wrapping_add(noise));
        }
    }
    words
}

impl Timed for Bootstraps {
    fn run(&mut self) {
        self.try_run().expect("shapes fit");
    }

    fn check(&self) -> Result<()> {
        let params = self.ours.secret.params();
        let (key, encoding) = (self.ours.secret.expose(KeyRole::Big), Encoding::of(params));
        let (dimension, width) = (params.big_dimension(), KeyRole::Big.width(params));
        let messages = self.messages.chunks(params.slots);
        for (i, (ct, messages)) in self.out.chunks_exact(width).zip(messages).enumerate() {
            let (mask, bodies) = ct.split_at(dimension);
            let slots = bodies.iter().zip(key.chunks_exact(dimension)).zip(messages);
            for (slot, ((&body, key), &m)) in slots.enumerate() {
                let phase = mask.iter().zip(key).fold(body, |b, (a, s)| b.wrapping_sub(a * s));
                let got = encoding.decode(params.modulus, phase);
                let wanted = slot_lookup(slot, m, encoding.values);
                ensure!(
                    got == wanted,
                    "becalm: ciphertext {i}, slot {slot}: wanted {wanted}, got {got}"
                );
            }
        }
        Ok(())
    }

    fn units(&self) -> usize {
        self.messages.len()
    }
}

/// The calls of the public interface.
enum Call {
    Nand,
    Lookup(Table),
}

/// One call of the public interface on one ciphertext or two.
struct Interface {
    secret: SecretKey,
    evaluator: Evaluator,
    call: Call,
    inputs: Vec<Lwe>,
    out: Option<Lwe>,
    /// Counts runs: which inputs are taken.
    runs: usize,
}

impl Interface {
    fn new(params: &TfheParams, call: Call) -> Result<Interface> {
        let secret = SecretKey::generate(params, true)?;
        let evaluator = Evaluator::new(&Cpu::new(1)?, &secret.evaluation_key()?)?;
        let (values, below) = match call {
            Call::Nand => (vec![0, 1], 2),
            Call::Lookup(_) => (messages(4, params), params.plaintext_modulus()),
        };
        let encrypt = |v: &u64| secret.encrypt_as(&[*v], Encoding::of(params), below);
        let inputs = values.iter().map(encrypt).collect::<becalm::Result<_>>()?;
        Ok(Interface { secret, evaluator, call, inputs, out: None, runs: 0 })
    }
}

impl Timed for Interface {
    fn run(&mut self) {
        self.runs += 1;
        let out = match &self.call {
            Call::Nand => {
                let [a, b] = [self.runs & 1, self.runs >> 1 & 1].map(|bit| &self.inputs[bit]);
                self.evaluator.gate(Gate::Nand, a, b)
            }
            Call::Lookup(table) => {
                self.evaluator.bootstrap(&self.inputs[self.runs % self.inputs.len()], table)
            }
        };
        self.out = Some(out.expect("arguments fit"));
    }

    fn check(&self) -> Result<()> {
        let out = self.out.as_ref().context("nothing was run")?;
        let params = self.secret.params();
        let wanted = match self.call {
            Call::Nand => u64::from(self.runs & 3 != 3),
            Call::Lookup(_) => {
                let m = messages(4, params)[self.runs % self.inputs.len()];
                lookup(m, params.plaintext_modulus())
            }
        };
        let got = self.secret.decrypt(out)?;
        ensure!(got == [wanted], "becalm: wanted {wanted}, got {got:?}");
        Ok(())
    }

    fn units(&self) -> usize {
        1
    }
}

/// Secret key to keys ready to bootstrap, on one thread.
struct KeyGeneration {
    params: TfheParams,
    pool: rayon::ThreadPool,
    cpu: Cpu,
    out: Option<Box<dyn Session>>,
}

impl KeyGeneration {
    fn new(params: &TfheParams) -> Result<KeyGeneration> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        Ok(KeyGeneration { params: params.clone(), pool, cpu: Cpu::new(1)?, out: None })
    }

    fn session(&self) -> becalm::Result<Box<dyn Session>> {
        let params = &self.params;
        let keys = self.pool.install(|| SecretKey::generate(params, true)?.evaluation_key())?;
        let needs = BTreeSet::from([Need::KeySwitch, Need::Bootstrap]);
        self.cpu.open(TfheSetup::new(&keys, &needs))
    }
}

impl Timed for KeyGeneration {
    fn run(&mut self) {
        self.out = None;
        self.out = self.session().ok();
    }

    fn check(&self) -> Result<()> {
        ensure!(self.out.is_some(), "becalm: no keys came out");
        Ok(())
    }

    fn units(&self) -> usize {
        1
    }
}

/// becalm with keys made and inputs encrypted for `work`. `kept` holds the keys of the last set, for the next case.
pub fn prepare(work: Work, params: &TfheParams, kept: &mut Option<Rc<Ours>>) -> Result<Side> {
    let timed: Box<dyn Timed> = match work {
        Work::Nand => Box::new(Interface::new(params, Call::Nand)?),
        Work::Lookup => {
            let p = params.plaintext_modulus();
            let table = Table::from_fn(params, |x| lookup(x, p))?;
            Box::new(Interface::new(params, Call::Lookup(table))?)
        }
        Work::KeyGeneration => Box::new(KeyGeneration::new(params)?),
        Work::Pbs { batch } | Work::KsPbs { batch } => {
            let needed = work.key_switches();
            let fits = |ours: &Rc<Ours>| {
                **ours.secret.params() == *params && (ours.key_switch.is_some() || !needed)
            };
            let ours = match kept.take().filter(fits) {
                Some(ours) => ours,
                None => Rc::new(Ours::generate(params, needed)?),
            };
            *kept = Some(ours.clone());
            Box::new(Bootstraps::new(ours, needed, messages(batch * params.slots, params))?)
        }
    };
    Ok(Side { timed, params: params.name.to_string(), log2_pfail: params.log2_pfail })
}
