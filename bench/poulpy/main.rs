//! Poulpy's half of `becalm-bench -- ckks`: makes keys, then answers commands on standard input, a JSON object a line.
//!
//!     poulpy PRESET complex | real
//!
//!     threads 1             the answer is empty; Poulpy's serial backends have one thread
//!     bootstrap MESSAGE     one bootstrap of a ciphertext at the preset's input width
//!
//! MESSAGE: ramp (linspace -1 … 1), complex, ones, signs. PRESET: a name of `poulpy_ckks::presets::bootstrapping`, taken at the
//! radix that this backend holds with a probability of failure of 2^-128, as Poulpy's own tests take it;
//! with `+pow2`, with the keys of rotations by powers of two only, which are fewer.

use anyhow::{Context, Result, anyhow, ensure};
use poulpy_ckks::{
    CKKSInfos, GLWEPlaintextMeta, Scale, SetCKKSInfos, SlotsKind,
    api::{
        CKKSAllOpsTmpBytes, CKKSBootstrappingCIOps, CKKSBootstrappingOps, CKKSDecryptOps,
        CKKSEncodingHostOps, CKKSEncryptOps,
    },
    layouts::{
        BootstrappingContextPrepared, BootstrappingKeySet, BootstrappingKeysPrepared,
        CKKSCiphertextAlloc, CKKSCiphertextOwned, CKKSPlaintextAlloc, EvalModRing,
    },
    presets::bootstrapping::{BootstrappingPreset, all},
};
use poulpy_core::{
    api::{
        GGLWEPreparedFactory, GLWEAutomorphismKeyPreparedFactory, GLWESecretPreparedFactory,
        GLWESecretSampling,
    },
    layouts::{
        BackendGLWESecret, BackendGLWESecretPrepared, GGLWEInfos, GLWESecretAlloc, LWEInfos, SetK,
    },
};
use poulpy_cpu_avx::{NTT4x30Avx as Ring, NTT4x30CIAvx as RealRing};
use poulpy_hal::{
    api::{ScratchOwnedAlloc, ScratchOwnedBorrow},
    layouts::{Backend, Module, ScratchOwned},
    source::Source,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::io::Write;

/// Bits of the probability of failure for which the radix is chosen.
const FAILURE_BITS: usize = 128;
/// Integer bits of a decrypted message, at most: as Poulpy's own test of precision has them.
const MESSAGE_BITS: usize = 8;

type Buffer = <Ring as Backend>::OwnedBuf;
type Plan = BootstrappingContextPrepared<Ring, f64>;

/// EvalMod in the ring of the ciphertexts, or in its real subring.
enum Bootstrap {
    Standard {
        plan: Plan,
        keys: BootstrappingKeysPrepared<Buffer, Ring>,
    },
    Real {
        ring: Module<RealRing>,
        plan: Plan,
        keys: BootstrappingKeysPrepared<Buffer, Ring, RealRing>,
        scratch: ScratchOwned<RealRing>,
    },
}

struct Worker {
    preset: BootstrappingPreset,
    slots: SlotsKind,
    module: Module<Ring>,
    secret: BackendGLWESecretPrepared<Ring>,
    bootstrap: Bootstrap,
    scratch: ScratchOwned<Ring>,
    sources: [Source; 2],
}

/// Seconds on the wall and of the processor.
fn now() -> [f64; 2] {
    [ClockId::Monotonic, ClockId::ProcessCPUTime].map(|clock| {
        let t = clock_gettime(clock);
        t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
    })
}

/// The values that are encrypted: real parts and imaginary ones.
fn message(kind: &str, n: usize) -> (Vec<f64>, Vec<f64>) {
    let value = |j: usize| {
        let ramp = 2.0 * j as f64 / (n - 1) as f64 - 1.0;
        match kind {
            "ones" => (1.0, 0.0),
            "signs" => ((2 * (j % 2)) as f64 - 1.0, 0.0),
            "complex" => {
                let turn = std::f64::consts::TAU * (j * 7 % n) as f64 / n as f64;
                (ramp * turn.cos(), ramp * turn.sin())
            }
            _ => (ramp, 0.0),
        }
    };
    (0..n).map(value).unzip()
}

/// Prepares the keys of rotations one by one and frees the source of each, so that few keys are in memory twice. `others` prepares the rest.
fn rotations<BM: Backend>(
    module: &Module<Ring>,
    mut made: BootstrappingKeySet<Buffer, i64>,
    scratch: &mut ScratchOwned<Ring>,
    others: impl FnOnce(
        &BootstrappingKeySet<Buffer, i64>,
        &mut ScratchOwned<Ring>,
    ) -> Result<BootstrappingKeysPrepared<Buffer, Ring, BM>>,
) -> Result<BootstrappingKeysPrepared<Buffer, Ring, BM>> {
    let rotations = std::mem::take(&mut made.rotation_keys);
    let mut keys = others(&made, scratch)?;
    drop(made);
    for (element, key) in rotations {
        let mut prepared = module.glwe_automorphism_key_prepared_alloc_from_infos(&key);
        module.glwe_automorphism_key_prepare(&mut prepared, &key, &mut scratch.borrow());
        keys.rotation_keys.insert(element, prepared);
    }
    Ok(keys)
}

/// Fresh randomness for secrets, noise and masks.
fn sources() -> Result<[Source; 3]> {
    let mut seeds = [[0; 32]; 3];
    let mut random = std::fs::File::open("/dev/urandom").context("/dev/urandom")?;
    for seed in &mut seeds {
        std::io::Read::read_exact(&mut random, seed)?;
    }
    Ok(seeds.map(Source::new))
}

impl Worker {
    fn new(name: &str, slots: SlotsKind) -> Result<(Worker, Value)> {
        let (base, few) = (name.strip_suffix("+pow2").unwrap_or(name), name.ends_with("+pow2"));
        let found = all()?.into_iter().find(|preset| preset.name() == base);
        let preset = found.with_context(|| format!("no preset {base}"))?;
        let preset = if few { preset.with_power_of_two_keys()? } else { preset };
        let preset = preset.with_backend_base2k::<Ring, RealRing>(FAILURE_BITS)?;
        let real = preset.plan().eval_mod_ring() != EvalModRing::Standard;
        // The conversions to the real subring are in the ring of twice the degree, which serves the other stages too.
        let module = Module::<Ring>::new((preset.n() << usize::from(real)) as u64);
        let [mut xs, xe, xa] = sources()?;
        let layout = preset.bootstrap_layout().glwe_layout;
        let mut secret = module.glwe_secret_alloc_from_infos(&layout);
        let weight = preset.dense_secret_hamming_weight();
        module.glwe_secret_fill_ternary_hw(&mut secret, weight, &mut xs);
        let mut prepared = module.glwe_secret_prepared_alloc_from_infos(&layout);
        module.glwe_secret_prepare(&mut prepared, &secret);
        let mut sources = [xe, xa];
        let begun = now();
        let (bootstrap, bytes) = match real {
            false => standard(&preset, &module, &secret, &mut xs, &mut sources)?,
            true => in_subring(&preset, &module, &secret, &mut xs, &mut sources)?,
        };
        let seconds = now()[0] - begun[0];
        let scratch = ScratchOwned::alloc(bytes.max(setup_bytes(&preset, &module)));
        let ready = ready(name, &preset, &module, seconds);
        let secret = prepared;
        Ok((Worker { preset, slots, module, secret, bootstrap, scratch, sources }, ready))
    }

    fn encrypt(&mut self, (re, im): &(Vec<f64>, Vec<f64>)) -> Result<CKKSCiphertextOwned<Ring>> {
        let (layout, base2k) = (self.preset.input_layout(), self.preset.base2k());
        let mut plain =
            self.module.ckks_plaintext_alloc_from_slots(re.len(), base2k.into(), layout.k());
        plain.set_meta(GLWEPlaintextMeta { slots: self.slots, ..layout.meta() });
        let scratch = &mut self.scratch.borrow();
        self.module.ckks_encode_slots_host_into(&mut plain, re, im, scratch)?;
        let mut x = self.module.ckks_ciphertext_alloc_from_glwe_infos(&layout);
        let [xe, xa] = &mut self.sources;
        self.module.ckks_encrypt_sk(&mut x, &plain, &self.secret, xe, xa, scratch)?;
        Ok(x)
    }

    fn decrypt(&mut self, x: &CKKSCiphertextOwned<Ring>) -> Result<(Vec<f64>, Vec<f64>)> {
        let slots = self.preset.n() / 2;
        let bits = x.log_delta() + x.log_budget().min(MESSAGE_BITS);
        let mut plain = self.module.ckks_plaintext_alloc_from_slots(slots, x.base2k(), bits.into());
        plain.set_meta(GLWEPlaintextMeta {
            scale: Scale::Log(x.log_delta()),
            slots: SlotsKind::Complex,
            log_sparsity: 0,
        });
        let scratch = &mut self.scratch.borrow();
        self.module.ckks_decrypt(&mut plain, x, &self.secret, scratch)?;
        let (mut re, mut im) = (vec![0.0; slots], vec![0.0; slots]);
        self.module.ckks_decode_slots_host_into(&plain, &mut re, &mut im, scratch)?;
        Ok((re, im))
    }

    fn bootstrap(&mut self, kind: &str) -> Result<Value> {
        ensure!(self.slots == SlotsKind::Complex || kind != "complex", "the slots are real");
        let wanted = message(kind, self.preset.n() / 2);
        let x = self.encrypt(&wanted)?;
        let layout = self.preset.bootstrap_layout();
        let mut y = self.module.ckks_ciphertext_alloc_from_glwe_infos(&layout);
        y.set_k(self.preset.bootstrap_k().into());
        let (module, scratch) = (&self.module, &mut self.scratch.borrow());
        let begun = now();
        match &mut self.bootstrap {
            Bootstrap::Standard { plan, keys } => {
                module.ckks_bootstrap(&mut y, &x, plan, keys, scratch)?
            }
            Bootstrap::Real { ring, plan, keys, scratch: second } => {
                let second = &mut second.borrow();
                module.ckks_bootstrap_ci_into(ring, &mut y, &x, plan, keys, scratch, second)?
            }
        }
        let ended = now();
        let got = self.decrypt(&y)?;
        let (mut mean, mut max) = (0.0, 0.0_f64);
        for j in 0..wanted.0.len() {
            let e = (got.0[j] - wanted.0[j]).hypot(got.1[j] - wanted.1[j]);
            mean += e / wanted.0.len() as f64;
            max = max.max(e);
        }
        Ok(json!({
            "seconds": ended[0] - begun[0], "processor": ended[1] - begun[1],
            "mean": mean, "max": max,
            "level": (y.k().as_usize() - self.preset.input_k()) / self.preset.log_delta(),
        }))
    }

    fn answer(&mut self, line: &str) -> Result<Value> {
        match *line.split_whitespace().collect::<Vec<_>>() {
            ["threads", "1"] => Ok(json!({})),
            ["threads", _] => Err(anyhow!("Poulpy is measured with one thread")),
            ["bootstrap", kind] => self.bootstrap(kind),
            _ => Err(anyhow!("unknown command {line:?}")),
        }
    }
}

/// Bytes to make keys, to encrypt and to decrypt.
fn setup_bytes(preset: &BootstrappingPreset, module: &Module<Ring>) -> usize {
    let (layout, keys) = (preset.bootstrap_layout(), preset.keys_layout());
    let mut factors = layout.clone();
    let meta = preset.plan().eval_mod().coeffs_meta;
    factors.glwe_layout.k = (meta.log_delta() + meta.log_budget()).into();
    factors.meta.scale = Scale::Log(meta.log_delta());
    let of = |key| module.ckks_all_ops_with_atk_tmp_bytes(&layout, &factors, &keys.tensor_key, key);
    keys.rotation_key_layouts().iter().map(of).max().unwrap_or(0)
}

/// The bootstrap in the ring of the ciphertexts, and the bytes that it works in.
fn standard(
    preset: &BootstrappingPreset,
    module: &Module<Ring>,
    secret: &BackendGLWESecret<Ring>,
    xs: &mut Source,
    [xe, xa]: &mut [Source; 2],
) -> Result<(Bootstrap, usize)> {
    let (recipe, layout) = (preset.plan(), preset.keys_layout());
    let mut scratch = ScratchOwned::<Ring>::alloc(setup_bytes(preset, module));
    let made = recipe.generate_keys(module, secret, layout, xs, xe, xa, &mut scratch.borrow())?;
    let mut scratch = ScratchOwned::<Ring>::alloc(layout.prepare_tmp_bytes(module));
    let keys = rotations(module, made, &mut scratch, |made, scratch| {
        Ok(made.prepare(module, &mut scratch.borrow()))
    })?;
    let bytes = Plan::compile_unprepared_tmp_bytes(module, recipe)?;
    let mut scratch = ScratchOwned::<Ring>::alloc(bytes);
    let plan =
        Plan::compile_unprepared(module, preset.base2k().into(), recipe, &mut scratch.borrow())?;
    let mut scratch = ScratchOwned::<Ring>::alloc(plan.prepare_tmp_bytes(module));
    let plan = plan.prepare(module, &mut scratch.borrow())?;
    let bytes = module.ckks_bootstrap_tmp_bytes(
        &preset.bootstrap_layout(),
        &preset.input_layout(),
        &plan,
        layout,
    );
    Ok((Bootstrap::Standard { plan, keys }, bytes))
}

/// The same with EvalMod in the real subring.
fn in_subring(
    preset: &BootstrappingPreset,
    module: &Module<Ring>,
    secret: &BackendGLWESecret<Ring>,
    xs: &mut Source,
    [xe, xa]: &mut [Source; 2],
) -> Result<(Bootstrap, usize)> {
    let (recipe, layout) = (preset.plan(), preset.keys_layout());
    let ring = Module::<RealRing>::new(preset.n() as u64);
    let alloc = |(bytes, second)| {
        (ScratchOwned::<Ring>::alloc(bytes), ScratchOwned::<RealRing>::alloc(second))
    };
    let (mut scratch, mut second) = alloc(layout.generate_ci_tmp_bytes(module, &ring));
    let made = recipe.generate_keys_ci(
        module,
        &ring,
        secret,
        layout,
        xs,
        xe,
        xa,
        &mut scratch.borrow(),
        &mut second.borrow(),
    )?;
    let (mut scratch, mut second) = alloc(layout.prepare_ci_tmp_bytes(module, &ring));
    let keys = rotations(module, made, &mut scratch, |made, scratch| {
        made.prepare_ci(module, &ring, &mut scratch.borrow(), &mut second.borrow())
    })?;
    let (mut scratch, mut second) =
        alloc(Plan::compile_ci_unprepared_tmp_bytes(module, &ring, recipe)?);
    let plan = Plan::compile_ci_unprepared(
        module,
        &ring,
        preset.base2k().into(),
        recipe,
        &mut scratch.borrow(),
        &mut second.borrow(),
    )?;
    let mut scratch = ScratchOwned::<Ring>::alloc(plan.prepare_tmp_bytes(module));
    let plan = plan.prepare(module, &mut scratch.borrow())?;
    let (bytes, second) = module.ckks_bootstrap_ci_tmp_bytes(
        &ring,
        &preset.bootstrap_layout(),
        &preset.input_layout(),
        &plan,
        layout,
    );
    let scratch = ScratchOwned::alloc(second);
    Ok((Bootstrap::Real { ring, plan, keys, scratch }, bytes))
}

/// The first line of output.
fn ready(name: &str, preset: &BootstrappingPreset, module: &Module<Ring>, seconds: f64) -> Value {
    let layout = preset.keys_layout();
    // Under the dense secret: the largest modulus of its keys. Rows may begin below the top.
    let (mut modulus, mut stored, mut bytes) = (preset.bootstrap_k(), 0, 0);
    let mut count = |key: &dyn GGLWEInfos, copies: usize, dense: bool| {
        let key = key.gglwe_layout();
        let k = key.k().as_usize();
        let limbs = k.div_ceil(key.base2k().as_usize());
        if dense {
            modulus = modulus.max(k);
        }
        stored += copies * 2 * key.dnum().as_usize() * limbs * key.n().as_usize() * 8;
        bytes += copies * module.gglwe_prepared_bytes_of_from_infos(&key);
    };
    layout.rotation_keys.values().for_each(|key| count(key, 1, true));
    count(&layout.tensor_key, 1, true);
    let mut sparse = None;
    if let Some(encapsulation) = &layout.encapsulation {
        count(&encapsulation.dense_to_sparse, 1, false);
        sparse = Some(encapsulation.dense_to_sparse.k().as_usize());
        encapsulation.sparse_to_dense.iter().for_each(|key| count(key, 1, true));
    }
    if let Some(key) = &layout.first_factor_key {
        let (transform, log_n) = (preset.plan().coeffs_to_slots(), preset.log_n());
        count(key, transform.first_factor_rotations(log_n).len(), true);
    }
    if let Some((trace, embed)) = &layout.conversion_keys {
        count(trace, 1, true);
        count(embed, 1, true);
    }
    let backend = std::any::type_name::<Ring>().rsplit("::").next();
    json!({
        "name": "poulpy", "version": "0.10.0",
        "params": format!("{}, {}, 2^{}", name, backend.unwrap_or(""), preset.base2k()),
        "log2_degree": preset.log_n(), "slots": preset.n() / 2, "log2_modulus": modulus,
        "weight": preset.dense_secret_hamming_weight(),
        "ephemeral_weight": preset.sparse_secret_hamming_weight(),
        "ephemeral_log2_modulus": sparse,
        "levels": (preset.output_k() - preset.input_k()) / preset.log_delta(),
        "key_bytes": bytes, "stored_key_bytes": stored, "keygen_seconds": seconds,
    })
}

fn main() -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut say = |answer: Result<Value>| -> Result<()> {
        let line = answer.unwrap_or_else(|e| json!({"error": format!("{e:#}")}));
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, slots) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name, "real"] => (name, SlotsKind::Real),
        [name, "complex"] => (name, SlotsKind::Complex),
        _ => return say(Err(anyhow!("usage: poulpy PRESET complex | real"))),
    };
    let mut worker = match Worker::new(name, slots) {
        Ok((worker, ready)) => {
            say(Ok(ready))?;
            worker
        }
        Err(why) => return say(Err(why)),
    };
    for line in std::io::stdin().lines() {
        say(worker.answer(&line?))?;
    }
    Ok(())
}
