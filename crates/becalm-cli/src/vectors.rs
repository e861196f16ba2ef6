//! Vectors of CKKS: `becalm keygen | encrypt` for every set of CKKS, beside the tables of [`packed`](crate::packed).

use crate::ckks::keys as make_keys;
use crate::files::{EncryptArgs, KeygenArgs, require_keys};
use crate::output::{file, read};
use crate::packed::bits_of;
use crate::programs::context_of;
use crate::report::{self, facts};
use crate::status::usage;
use crate::threshold::SECRET;
use anyhow::Result;
use becalm::Error;
use becalm::backend::Cpu;
use becalm::bootstrap::ckks::{KeyPlan, Offer, Wish};
use becalm::cipher::Standing;
use becalm::cipher::file::{Output, Part, Trust};
use becalm::ckks::{Context, Needs};
use becalm::math::complex::Complex;
use becalm::math::memory::available_memory;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use becalm::words::{counted, megabytes};
use std::io::BufWriter;
use std::path::Path;

/// The set of CKKS of a key generation: the one of the name, or that of the programs; none for a set of TFHE.
pub fn set(args: &KeygenArgs) -> Result<Option<&'static CkksParams>> {
    if let Some(name) = &args.params {
        return Ok(CkksParams::named(name).ok());
    }
    let Some(path) = args.program.first() else { return Ok(None) };
    Ok(Some(program(path, args.allow_insecure)?.params()))
}

fn program(path: &Path, allow_insecure: bool) -> Result<CkksProgram> {
    let trust = Trust { allow_insecure, ..Trust::default() };
    read(path, |path| CkksProgram::load(path, trust))
}

/// The keys that were asked for: those of the usual bootstrap or tables of the set, or those of programs alone.
fn plan(params: &'static CkksParams, args: &KeygenArgs) -> Result<KeyPlan> {
    let mut needs = Needs::default();
    for path in &args.program {
        let program = program(path, args.allow_insecure)?;
        if program.params().name != params.name {
            let wanted = format!("programs of `{}`", params.name);
            let got = format!("{}, one of `{}`", path.display(), program.params().name);
            let remedy = "leave --params out, or write the program for this set";
            return Err(Error::wrong_params("keygen", wanted, got, remedy).into());
        }
        needs = needs.union(&program.needs());
    }
    let wish = match args.program.is_empty() {
        true => Wish::default(),
        false => Wish { needs, size: None, ..Wish::default() },
    };
    Ok(KeyPlan::new(params, &wish)?)
}

/// Refuses keys that do not fit the memory by themselves: this command makes them and computes nothing.
fn require_room(plan: &KeyPlan, args: &KeygenArgs) -> becalm::Result<()> {
    let any = args.program.is_empty();
    let otherwise = match any {
        true => {
            "free memory, or name the programs that will run with --program: they may need fewer keys"
        }
        false => "free memory, or make keys for fewer programs",
    };
    // A program is for one set, and this command makes its keys in their usual size and form.
    let set = |o: &Offer| o.set.filter(|_| any && o.size.is_none() && o.form.is_none());
    let words = |o: &Offer| set(o).map(|set| format!("--params {}", set.name));
    plan.clone().alone().require("keygen", available_memory(), words, otherwise)
}

/// Makes a secret key and evaluation keys of a set of CKKS.
pub fn keygen(params: &'static CkksParams, args: &KeygenArgs) -> Result<()> {
    if args.pack.is_some() || !args.slot_map.is_empty() {
        usage!("{} is a set of CKKS; leave --pack and --slot-map out", params.name);
    }
    params.require_secure(args.allow_insecure)?;
    require_keys(args)?;
    args.force.require_files([&args.secret, &args.evaluation])?;
    let plan = plan(params, args)?;
    let price = plan.price()?;
    if !args.json {
        let size = megabytes(price.stored);
        report::print(&format!("{}: the evaluation keys will take {size}", params.name))?;
    }
    require_room(&plan, args)?;
    let context = Context::new(params, args.allow_insecure)?;
    let cpu = Cpu::new(0)?;
    let secret = context.secret_key()?;
    let keys = cpu.install(|| make_keys(&context, &secret, &plan.needs(), plan.form()))?;
    let write = |file: &mut Output| {
        context.write_keys_at(&args.evaluation, &keys, &plan.note(), BufWriter::new(file))
    };
    let parts = vec![
        context.secret_key_part(&secret, &args.secret)?,
        Part::new(args.evaluation.clone(), false, write),
    ];
    args.force.save(parts)?;
    let (key, stored) = (secret.id().to_string(), price.stored);
    if args.json {
        return report::json(&serde_json::json!({
            "params": params.name, "key": key, "secret": args.secret, "evaluation": args.evaluation,
            "stored_key_bytes": stored,
        }));
    }
    report::print(&facts(&[
        ("secret key", format!("{} (keep it)", args.secret.display())),
        ("evaluation keys", format!("{} (for the server)", args.evaluation.display())),
        ("key id", key),
    ]))
}

/// Slots of a vector for the values that are given.
fn slots_of(args: &EncryptArgs, params: &CkksParams) -> Result<usize> {
    let slots = args.slots.unwrap_or_else(|| params.slots());
    let given = args.values.len();
    if !slots.is_power_of_two() || slots > params.slots() {
        let wanted = format!("a power of two of at most {} as --slots", params.slots());
        let least = given.next_power_of_two();
        let remedy = match least <= params.slots() {
            true => format!("{least} are enough for {}", counted(given, "value")),
            false => "divide the values among several ciphertexts".into(),
        };
        return Err(Error::bad_input("encrypt", wanted, slots.to_string(), remedy).into());
    }
    if given > slots {
        let wanted = format!("at most {}, one for each slot", counted(slots, "value"));
        let remedy = "choose more slots, or divide the values among several ciphertexts";
        return Err(Error::bad_input("encrypt", wanted, given.to_string(), remedy).into());
    }
    Ok(slots)
}

/// Encrypts real numbers in the slots of one ciphertext.
pub fn encrypt(args: &EncryptArgs) -> Result<()> {
    if args.modulus.is_some() || args.below.is_some() || args.slot.is_some() {
        let key = args.secret.display();
        usage!("{key} is a key of CKKS; leave --modulus, --below and --slot out");
    }
    let (key, wanted) = match &args.public {
        Some(public) => (public, "a public key of CKKS"),
        None => (&args.secret, SECRET),
    };
    let (context, trust) = (context_of(key, wanted, args.trust.trust())?, args.trust.trust());
    let params = context.params();
    if !args.vector && args.public.is_none() && bits_of(params) > 0 {
        let wanted = "the kind of the values";
        let got = format!("{}, a key of CKKS tables", args.secret.display());
        let remedy = "say --packed for integers in tables, or --vector for real numbers";
        return Err(Error::bad_input("encrypt", wanted, got, remedy).into());
    }
    let (slots, given) = (slots_of(args, params)?, args.values.len());
    let mut values: Vec<Complex> = args.values.iter().map(|v| Complex::from(v.real())).collect();
    values.resize(slots, Complex::from(0.0));
    let level = args.level.unwrap_or(params.levels);
    let x = match &args.public {
        Some(_) => {
            let public = read(key, |path| context.load_public_key(path, trust))?;
            match args.bound {
                Some(bound) => context.encrypt_public_within(&values, bound, level, &public)?,
                None => context.encrypt_public(&values, level, &public)?,
            }
        }
        None => {
            let secret = read(key, |path| context.load_secret_key(path, trust))?;
            match args.bound {
                Some(bound) => context.encrypt_within(&values, bound, level, &secret)?,
                None => context.encrypt(&values, level, &secret)?,
            }
        }
    };
    if x.account().standing.has(Standing::EXCEEDED) {
        report::say(
            "becalm: a value exceeds 1, so no claim of errors holds; state the largest absolute value (--bound)",
        );
    }
    let bytes = context.noted_ciphertext_to_bytes(&x, Some(true))?;
    let (size, level) = (bytes.len(), x.level());
    args.force.save(vec![file(&args.out, false, bytes)])?;
    if args.json {
        return report::json(&serde_json::json!({
            "out": args.out, "values": given, "slots": slots, "level": level, "bytes": size,
        }));
    }
    let what = format!("{} in {}, level {level}", counted(given, "value"), counted(slots, "slot"));
    report::print(&format!("{}: {what}, {}", args.out.display(), megabytes(size)))
}
