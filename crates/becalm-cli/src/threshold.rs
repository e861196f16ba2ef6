//! `becalm threshold`: a secret key of CKKS split among parties, of whom some decrypt together, with files between them. The verbs of a key
//! that they make together stand in [`collective`].

use crate::collective;
use crate::files::{TrustArgs, require_place};
use crate::output::{Force, file, read};
use crate::programs::context_of;
use crate::report::{self, facts};
use crate::status::usage;
use anyhow::Result;
use becalm::cipher::Rlwe;
use becalm::cipher::file::Kind;
use becalm::ckks::{KeyShare, PartialDecryption};
use becalm::math::complex::Complex;
use clap::Subcommand;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Split a secret key of CKKS among parties, of whom any `--threshold` decrypt together.
    Split(SplitArgs),
    /// Make a party of a collective key, which parties make together, and its first message.
    Party(collective::PartyArgs),
    /// Answer the first messages of all parties, and make this party's share of the key.
    Answer(collective::AnswerArgs),
    /// Add the messages of all parties up to the key of encryption and those of a server.
    Aggregate(collective::AggregateArgs),
    /// Write a party's part of the decryption of a ciphertext.
    Decrypt(DecryptArgs),
    /// Print the values of a ciphertext from the parts of a whole quorum.
    Combine(CombineArgs),
}

#[derive(clap::Args)]
struct SplitArgs {
    /// The secret key. Remove it when every party has its share.
    #[arg(long, default_value = "secret.becalm")]
    secret: PathBuf,
    /// How many parties decrypt together.
    #[arg(long)]
    threshold: usize,
    /// Where the shares go, one file for each party. Send each over a secret channel.
    #[arg(short, long, required = true)]
    out: Vec<PathBuf>,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct DecryptArgs {
    /// The party's share of the key.
    #[arg(long, default_value = "share.becalm")]
    share: PathBuf,
    /// The numbers of all parties that decrypt, this one among them.
    #[arg(long, value_delimiter = ',', required = true)]
    quorum: Vec<usize>,
    /// How many decryptions under the key will be shared in all. A share in a file does not count them, so this covers every call.
    #[arg(long)]
    queries: u64,
    /// The result of the same computation on encryptions of zeros, made by this party. A ciphertext of another level, scale or key is
    /// not decrypted.
    #[arg(long)]
    like: PathBuf,
    /// Bound on the absolute values in all slots, which this party vouches for.
    #[arg(long, default_value_t = 1.0)]
    bound: f64,
    /// Bound on the absolute errors of these values, which this party vouches for: `account.worst` of the party's own computation.
    #[arg(long)]
    error: f64,
    /// Bits of precision: the noise of the part has standard deviation 2^-BITS in a slot. By default as many as hide the error.
    #[arg(long, allow_hyphen_values = true)]
    bits: Option<f64>,
    /// The ciphertext. Decrypt only what you know to be the result of the agreed computation: a part of another one gives the
    /// share away.
    input: PathBuf,
    /// Where the part goes.
    #[arg(short, long)]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct CombineArgs {
    /// The ciphertext.
    input: PathBuf,
    /// The parts of all parties of the quorum.
    #[arg(required = true)]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON: a number for each slot, or a pair of them for complex values.
    #[arg(long)]
    json: bool,
}

/// Runs a verb.
pub fn run(args: &Args) -> Result<()> {
    match &args.verb {
        Verb::Split(args) => split(args),
        Verb::Party(args) => collective::party(args),
        Verb::Answer(args) => collective::answer(args),
        Verb::Aggregate(args) => collective::aggregate(args),
        Verb::Decrypt(args) => decrypt(args),
        Verb::Combine(args) => combine(args),
    }
}

/// The file that encryption and splitting begin with.
pub(crate) const SECRET: &str = "a secret key of CKKS";

fn split(args: &SplitArgs) -> Result<()> {
    for (i, path) in args.out.iter().enumerate() {
        if *path == args.secret || args.out[..i].contains(path) {
            usage!("{} is named twice; give each share a file of its own", path.display());
        }
        Kind::require_place(path, &[Kind::CkksKeyShare])?;
        args.force.require_files([path])?;
    }
    let context = context_of(&args.secret, SECRET, args.trust.trust())?;
    let secret = read(&args.secret, |path| context.load_secret_key(path, args.trust.trust()))?;
    let shares = KeyShare::split(&context, &secret, args.out.len(), args.threshold)?;
    let mut parts = vec![];
    for (path, share) in args.out.iter().zip(&shares) {
        parts.push(file(path, true, share.to_bytes(&context)?));
    }
    args.force.save(parts)?;
    let (parties, key) = (shares.len(), secret.id().to_string());
    if args.json {
        return report::json(&json!({
            "params": context.params().name, "key": key, "parties": parties,
            "threshold": args.threshold, "shares": args.out,
        }));
    }
    let each = args.out.iter().zip(1..);
    let mut rows: Vec<(&str, String)> = each
        .map(|(path, i)| ("share", format!("{} (for party {i} alone)", path.display())))
        .collect();
    rows.push(("decrypt", format!("any {} of {parties} parties together", args.threshold)));
    rows.push(("key id", key));
    report::print(&facts(&rows))
}

fn decrypt(args: &DecryptArgs) -> Result<()> {
    require_place(&args.out, args.force)?;
    if [&args.input, &args.like, &args.share].contains(&&args.out) {
        usage!("{} is an input; choose another name for the part", args.out.display());
    }
    let (context, trust) = (
        context_of(&args.share, "a share of a secret key of CKKS", args.trust.trust())?,
        args.trust.trust(),
    );
    let share = read(&args.share, |path| KeyShare::load(&context, path, trust))?;
    let ciphertext = |path: &Path| read(path, |path| context.load_ciphertext(path, trust));
    let (x, like): (Rlwe, Rlwe) = (ciphertext(&args.input)?, ciphertext(&args.like)?);
    x.require_like(&like)?;
    let x = x.vouched(args.bound, args.error)?;
    let most = || share.bits_to_decrypt_partially(&context, &x, args.queries);
    let bits = args.bits.map_or_else(most, Ok)?;
    let part = share.decrypt_partially(&context, &x, &args.quorum, bits, args.queries)?;
    args.force.save(vec![file(&args.out, false, part.to_bytes(&context)?)])?;
    if args.json {
        return report::json(&json!({
            "out": args.out, "party": part.party(), "quorum": part.quorum(), "bits": bits,
            "key": part.key_id().to_string(),
        }));
    }
    report::print(&format!(
        "{}: the part of party {} of {:?}, {bits:.1} bits",
        args.out.display(),
        part.party(),
        part.quorum()
    ))
}

fn combine(args: &CombineArgs) -> Result<()> {
    let (context, trust) =
        (context_of(&args.input, "a ciphertext of CKKS", args.trust.trust())?, args.trust.trust());
    let (x, real) = read(&args.input, |path| context.load_noted_ciphertext(path, trust))?;
    let part = |path: &PathBuf| read(path, |path| PartialDecryption::load(&context, path, trust));
    let parts = args.parts.iter().map(part).collect::<Result<Vec<_>>>()?;
    let values = PartialDecryption::combine(&context, &x, &parts)?;
    show(&values, real == Some(true), args.json)
}

/// Prints decrypted values of slots.
pub(crate) fn show(values: &[Complex], real: bool, json: bool) -> Result<()> {
    if json {
        let value = |v: &Complex| if real { json!(v.re) } else { json!([v.re, v.im]) };
        return report::json(&values.iter().map(value).collect::<Vec<Value>>());
    }
    let value = |v: &Complex| match real {
        true => v.re.to_string(),
        false => format!("{}{:+}i", v.re, v.im),
    };
    report::print(&values.iter().map(value).collect::<Vec<String>>().join(","))
}
