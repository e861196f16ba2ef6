//! `becalm keygen | encrypt | eval | decrypt`: the same job in separate steps, with files between them. TFHE runs here.

use crate::output::{Force, read};
use crate::report::{self, Given, facts};
use crate::status::usage;
use anyhow::Result;
use becalm::backend::{Cpu, Evaluator, Tfhe, TfheSetup, for_params};
use becalm::cipher::file::{Kind, Limits, Trust};
use becalm::cipher::{Ciphertext, Encoding, EvaluationKey, Lwe, SecretKey, SlotKey, SlotKeyKind};
use becalm::params::TfheParams;
use becalm::program::{Program, Reg};
use becalm::tfhe::Table;
use becalm::words::{counted, megabytes};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of every verb that reads a file of becalm.
#[derive(clap::Args)]
pub struct TrustArgs {
    /// Accept toy and comparison sets below 128 bits.
    #[arg(long)]
    allow_insecure: bool,
    /// Memory in bytes that ciphertexts or a program may take (1 GiB by default). A program takes 64 bytes for each byte of its
    /// file.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl TrustArgs {
    pub fn of(allow_insecure: bool, limit: Option<u64>) -> Self {
        TrustArgs { allow_insecure, limit }
    }

    pub fn trust(&self) -> Trust {
        let usual = Trust::default();
        Trust { allow_insecure: self.allow_insecure, limit: self.limit.unwrap_or(usual.limit) }
    }
}

#[derive(clap::Args)]
pub struct KeygenArgs {
    /// The parameter set (see `becalm params`). Without it, the set of the program, or tfhe_2_2.
    #[arg(long)]
    pub(crate) params: Option<String>,
    /// A program of CKKS, as `becalm function` writes it: makes only the keys that it needs. Give it several times for the keys of several programs.
    #[arg(long)]
    pub(crate) program: Vec<PathBuf>,
    /// Where the secret key goes; keep it.
    #[arg(long, default_value = "secret.becalm")]
    pub(crate) secret: PathBuf,
    /// Where the evaluation key goes; give it to the server.
    #[arg(long, default_value = "evaluation.becalm")]
    pub(crate) evaluation: PathBuf,
    /// Allow toy and comparison sets below 128 bits.
    #[arg(long)]
    pub(crate) allow_insecure: bool,
    /// Also a key that packs plain ciphertexts of slot 0, for a common-mask set, and where it goes.
    #[arg(long)]
    pub(crate) pack: Option<PathBuf>,
    /// Also a key of a private map between slots: a file of its matrix as JSON, and where the key goes.
    #[arg(long, num_args = 2, value_names = ["MATRIX", "KEY"])]
    pub(crate) slot_map: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) force: Force,
    /// Report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("given").args(["values", "values_from"]).required(true)))]
pub struct EncryptArgs {
    /// The secret key.
    #[arg(long, default_value = "secret.becalm")]
    pub(crate) secret: PathBuf,
    /// A public key of CKKS in place of a secret key, for a vector.
    #[arg(long, conflicts_with_all = ["secret", "packed", "modulus", "below", "slot"])]
    pub(crate) public: Option<PathBuf>,
    /// Values to encrypt: integers from 0 up, or, under a key of CKKS, real numbers. Other users of the machine see them in its list of
    /// processes: `--values-from` hides them.
    #[arg(long, value_delimiter = ',', value_parser = Given::parse, allow_hyphen_values = true)]
    pub(crate) values: Vec<Given>,
    /// A text file of the values, with commas, blanks or line ends between them; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) values_from: Option<PathBuf>,
    /// As packed integers in one ciphertext of CKKS, under a key of a set with tables.
    #[arg(long, conflicts_with_all = ["modulus", "below", "slot"])]
    pub(crate) packed: bool,
    /// As real numbers in the slots of one ciphertext of CKKS, which is usual under a key of a set without tables.
    #[arg(long, conflicts_with_all = ["packed", "modulus", "below", "slot"])]
    pub(crate) vector: bool,
    /// The level of a vector, by default the highest of the set.
    #[arg(long, conflicts_with = "packed")]
    pub(crate) level: Option<usize>,
    /// Slots of a vector, by default all that the set has. Slots without a value hold 0.
    #[arg(long, conflicts_with = "packed")]
    pub(crate) slots: Option<usize>,
    /// Public bound on the absolute values of a vector, which claims of errors hold for; by default 1.
    #[arg(long, conflicts_with_all = ["packed", "modulus", "below", "slot"])]
    pub(crate) bound: Option<f64>,
    /// Bits of a packed integer; by default as many as the tables of the set take.
    #[arg(long, requires = "packed")]
    pub(crate) bits: Option<u32>,
    /// How many values the encoding has; by default all that the parameter set allows.
    #[arg(long)]
    pub(crate) modulus: Option<u64>,
    /// Public bound that every value lies below; a smaller one leaves room for sums.
    #[arg(long)]
    pub(crate) below: Option<u64>,
    /// One by one under the key of this slot of a common-mask set, instead of a value in each slot.
    #[arg(long, conflicts_with = "modulus")]
    pub(crate) slot: Option<u32>,
    /// Where the ciphertexts go.
    #[arg(short, long)]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) force: Force,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub struct EvalArgs {
    /// The evaluation key; for CKKS the evaluation keys of a server.
    #[arg(long, default_value = "evaluation.becalm")]
    pub(crate) evaluation: PathBuf,
    /// A lookup table, one entry for each value; with slots also one table after another, one for each slot. Packed integers are looked
    /// up in one table after another, each with an output of its own.
    #[arg(long, value_delimiter = ',', value_parser = report::value, allow_hyphen_values = true)]
    pub(crate) table: Vec<u64>,
    /// A program of TFHE or CKKS instead of a table.
    #[arg(long, conflicts_with = "table")]
    pub(crate) program: Option<PathBuf>,
    /// Keys between the slots of a common-mask set: with a program in the order in which it names its maps; without one each
    /// is applied, in this order, before the table if there is one.
    #[arg(long = "slot-key")]
    pub(crate) slot_keys: Vec<PathBuf>,
    /// The machine that computes.
    #[arg(long, default_value = "auto", value_parser = report::Device)]
    pub(crate) device: String,
    /// Ciphertexts, one file for each input. A file of TFHE holds all lanes. A program of CKKS runs on several lanes if you give
    /// the files of the first lane, then those of the second, and so on.
    #[arg(required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Where the results go, one file for each output; for several lanes of CKKS those of the first lane come first.
    #[arg(short, long, required = true)]
    pub(crate) out: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) force: Force,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub struct DecryptArgs {
    /// The secret key.
    #[arg(long, default_value = "secret.becalm")]
    pub(crate) secret: PathBuf,
    /// Ciphertexts of TFHE, or one of CKKS.
    pub(crate) input: PathBuf,
    /// Report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// Refuses to write the keys over those of other kinds.
pub(crate) fn require_keys(args: &KeygenArgs) -> becalm::Result<()> {
    Kind::require_place(&args.secret, &[Kind::SecretKey])?;
    Kind::require_place(&args.evaluation, &[Kind::EvaluationKey])
}

/// Makes both keys.
pub fn keygen(args: &KeygenArgs) -> Result<()> {
    let name = args.params.as_deref().unwrap_or("tfhe_2_2");
    if !args.program.is_empty() {
        usage!("{name} is a set of TFHE, whose keys run every program; leave --program out");
    }
    let params = TfheParams::named(name)?;
    let between = args.pack.iter().chain(args.slot_map.iter().skip(1).step_by(2));
    require_keys(args)?;
    between.clone().try_for_each(|path| Kind::require_place(path, &[Kind::SlotKey]))?;
    args.force.require_files([&args.secret, &args.evaluation].into_iter().chain(between))?;
    let stored = params.seeded_bootstrap_key_bytes() + params.seeded_key_switch_key_bytes();
    if !args.json {
        let size = megabytes(stored as usize);
        report::print(&format!("{}: the evaluation key will take {size}", params.name))?;
    }
    let secret = SecretKey::generate(params, args.allow_insecure)?;
    // Before the large key: a wrong matrix is refused at once.
    let between = slot_keys(args, &secret)?;
    let keys = report::keygen(&secret)?;
    // The secret key comes first: the others are made from it.
    let mut parts = vec![secret.part(&args.secret)?, keys.part(&args.evaluation)?];
    for (path, key) in &between {
        parts.push(key.part(path)?);
    }
    args.force.save(parts)?;
    if args.json {
        return report::json(&json!({
            "params": params.name, "key": secret.id().to_string(), "secret": args.secret,
            "evaluation": args.evaluation, "stored_key_bytes": keys.seeded_bytes(),
            "slot_keys": between.iter().map(|(path, key)| json!({
                "path": path, "does": key.kind().to_string(), "bytes": key.seeded_bytes(),
            })).collect::<Vec<_>>(),
        }));
    }
    let mut rows = vec![
        ("secret key", format!("{} (keep it)", args.secret.display())),
        ("evaluation key", format!("{} (for the server)", args.evaluation.display())),
    ];
    rows.extend(between.iter().map(|(path, key)| {
        let size = megabytes(key.seeded_bytes());
        (
            "key between slots",
            format!("{} ({}, {size}; for the server)", path.display(), key.kind()),
        )
    }));
    rows.push(("key id", secret.id().to_string()));
    report::print(&facts(&rows))
}

/// The keys between slots that were asked for, and where they go.
fn slot_keys<'a>(args: &'a KeygenArgs, secret: &SecretKey) -> Result<Vec<(&'a Path, SlotKey)>> {
    let mut keys = vec![];
    for pair in args.slot_map.chunks_exact(2) {
        let (matrix, out) = (&pair[0], &pair[1]);
        let text = Limits::default().read_text(matrix)?;
        let rows: Vec<Vec<i64>> = serde_json::from_str(&text).map_err(|e| {
            let got = format!("{}, which is not: {e}", matrix.display());
            let remedy = "write the matrix as [[1, 0], [0, 1]]";
            becalm::Error::bad_file("slot map", "a list of rows of integers", got, remedy)
        })?;
        keys.push((out.as_path(), secret.slot_map_key(&rows)?));
    }
    if let Some(path) = &args.pack {
        keys.push((path, secret.pack_key()?));
    }
    Ok(keys)
}

/// Refuses to write ciphertexts over a key, even where `--force` is given, and over another file unless it is.
pub(crate) fn require_place(path: &Path, force: Force) -> Result<()> {
    force.require_result(path)?;
    force.require_files([path])
}

/// Encrypts values.
pub fn encrypt(args: &EncryptArgs) -> Result<()> {
    let secret = read(&args.secret, |path| SecretKey::load(path, args.trust.trust()))?;
    if args.vector || args.level.is_some() || args.slots.is_some() || args.bound.is_some() {
        let key = args.secret.display();
        usage!("{key} is no key of CKKS; leave --vector, --level, --slots and --bound out");
    }
    let values = Given::integers(&args.values)?;
    let encoding = match args.modulus {
        Some(p) => Encoding::padded(p)?,
        None => Encoding::of(secret.params()),
    };
    let below = args.below.unwrap_or(encoding.values);
    let ct = match args.slot {
        Some(slot) => secret.encrypt_slot(slot, &values, below)?,
        None => secret.encrypt_as(&values, encoding, below)?,
    };
    args.force.save(vec![ct.part(&args.out)?])?;
    if args.json {
        let (len, bytes) = (ct.len(), ct.bytes());
        return report::json(&json!({ "out": args.out, "ciphertexts": len, "bytes": bytes }));
    }
    report::print(&format!(
        "{}: {}, {}",
        args.out.display(),
        counted(ct.len(), "ciphertext"),
        megabytes(ct.bytes())
    ))
}

/// Bootstraps through a table, or runs a program.
pub fn eval(args: &EvalArgs) -> Result<()> {
    let load = |path: &PathBuf| read(path, |path| Program::load(path, args.trust.trust()));
    let program = args.program.as_ref().map(load).transpose()?;
    let mut keys = read(&args.evaluation, |path| EvaluationKey::load(path, args.trust.trust()))?;
    let machine = for_params::<Tfhe>(&args.device, &Cpu::new(0)?, keys.params())?;
    let mut between = vec![];
    for path in &args.slot_keys {
        let key = read(path, |path| SlotKey::load(path, args.trust.trust()))?;
        between.push(key.kind());
        keys = keys.with_slot_key(key)?;
    }
    let batch = |path: &PathBuf| read(path, |path| Lwe::load(path, args.trust.trust()));
    let inputs = args.inputs.iter().map(batch).collect::<Result<Vec<Lwe>>>()?;
    let program = match program {
        Some(program) => program,
        None => record(&keys, &inputs, &between, &args.table)?,
    };
    if args.out.len() != program.outputs().len() {
        let wanted = format!("a file for each of {}", counted(program.outputs().len(), "output"));
        let got = format!("{} named with --out", counted(args.out.len(), "file"));
        let remedy = "name one file for each output of the program";
        return Err(becalm::Error::bad_input("eval", wanted, got, remedy).into());
    }
    let evaluator = Evaluator::new(machine.as_ref(), TfheSetup::new(&keys, &program.needs()))?;
    let inputs: Vec<Ciphertext> = inputs.into_iter().map(Into::into).collect();
    let bar = report::bar("bootstraps", 1);
    let results = evaluator.run_with(&Arc::new(program), &inputs, &report::follow(&bar))?;
    bar.finish_and_clear();
    report::tell_fallback(&evaluator);
    let placed = args.out.iter().zip(&results);
    let parts = placed.map(|(path, ct)| ct.part(path)).collect::<becalm::Result<_>>()?;
    args.force.save(parts)?;
    let mut rows = vec![];
    for (path, ct) in args.out.iter().zip(&results) {
        let log2 = ct.noise_variance().log2() / 2.0;
        rows.push(json!({ "out": path, "ciphertexts": ct.len(), "noise_log2_std": log2 }));
        if !args.json {
            report::print(&format!(
                "{}: {}, noise 2^{log2:.2}",
                path.display(),
                counted(ct.len(), "ciphertext")
            ))?;
        }
    }
    if args.json { report::json(&rows) } else { Ok(()) }
}

/// The keys between slots that were named, one after the other, then the table.
pub(crate) fn record(
    keys: &EvaluationKey,
    inputs: &[Lwe],
    between: &[SlotKeyKind],
    entries: &[u64],
) -> Result<Program> {
    let mut program = Program::new(keys.params().clone());
    let mut srcs: Vec<Reg> = inputs.iter().map(|input| program.input_like(input)).collect();
    let mut map = 0;
    for kind in between {
        srcs = match kind {
            SlotKeyKind::Pack => vec![program.pack(&srcs)?],
            SlotKeyKind::Map(sums) => {
                let turned = srcs.iter().map(|r| program.slot_map(*r, map, *sums));
                let turned = turned.collect::<becalm::Result<_>>()?;
                map += 1;
                turned
            }
        };
    }
    let ([src], Some(encoding)) = (&srcs[..], inputs.first().map(Lwe::encoding)) else {
        let got = counted(srcs.len(), "ciphertext file");
        let remedy = "give one file, or pack several with --slot-key";
        return Err(becalm::Error::bad_input("eval", "one ciphertext file", got, remedy).into());
    };
    let src = *src;
    if entries.is_empty() {
        program.output(src)?;
        return Ok(program);
    }
    let table = |entries: &[u64]| Table::with(keys.params(), encoding, encoding, entries);
    let slots = keys.params().slots;
    // As many entries as all slots have: a table for each.
    let dst = match usize::try_from(encoding.values) {
        Ok(values) if slots > 1 && entries.len() > values => {
            let tables = entries.chunks(values).map(table).collect::<becalm::Result<Vec<_>>>()?;
            program.lookup_slots(src, &tables)?[0]
        }
        _ => program.lookup(src, &table(entries)?)?,
    };
    program.output(dst)?;
    Ok(program)
}

/// Decrypts ciphertexts.
pub fn decrypt(args: &DecryptArgs) -> Result<()> {
    let secret = read(&args.secret, |path| SecretKey::load(path, args.trust.trust()))?;
    let values = read(&args.input, |path| secret.decrypt(&Lwe::load(path, args.trust.trust())?))?;
    if args.json {
        return report::json(&values);
    }
    report::print(&values.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
}
