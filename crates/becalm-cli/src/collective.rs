//! The verbs of `becalm threshold` for a collective key: parties make a key of CKKS together, with files between them.

use crate::files::TrustArgs;
use crate::output::{Force, file, read};
use crate::programs::context_of;
use crate::report::{self, facts};
use crate::status::usage;
use anyhow::Result;
use becalm::Error;
use becalm::bootstrap::ckks::{KeyPlan, Wish};
use becalm::cipher::KeyForm;
use becalm::cipher::file::{Kind, Output, Part, hex};
use becalm::ckks::{Agreement, Context, KeyShare, Needs, Party, PartyMessage};
use becalm::math::random::PublicSeed;
use becalm::params::CkksParams;
use serde_json::json;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct PartyArgs {
    /// The parameter set. A set with a bootstrap gets keys for its other operations alone.
    #[arg(long, default_value = "ckks_n14")]
    params: String,
    /// 64 hexadecimal digits that all parties know: a random seed of all public masks, drawn by one of them.
    #[arg(long)]
    seed: String,
    /// The number of this party, from 1.
    #[arg(long)]
    index: usize,
    /// How many parties make the key.
    #[arg(long)]
    parties: usize,
    /// How many of them decrypt together: all, unless it is given.
    #[arg(long)]
    threshold: Option<usize>,
    /// Rotations of slots that the server computes.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true)]
    rotate: Vec<i64>,
    /// The server computes complex conjugates.
    #[arg(long)]
    conjugate: bool,
    /// Where the party goes. It is secret, and answers later.
    #[arg(short, long, default_value = "party.becalm")]
    out: PathBuf,
    /// Where its first message goes, for all parties.
    #[arg(short, long, default_value = "first.becalm")]
    message: PathBuf,
    /// Where the parts of its secret go if fewer than all decrypt: one file for each party in order, its own included. Send each over a
    /// secret channel.
    #[arg(short, long)]
    deal: Vec<PathBuf>,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct AnswerArgs {
    /// The party.
    #[arg(long, default_value = "party.becalm")]
    party: PathBuf,
    /// The first messages of all parties, the own one among them.
    #[arg(required = true)]
    messages: Vec<PathBuf>,
    /// The shares that each other party dealt to this one, if fewer than all decrypt.
    #[arg(short, long)]
    dealt: Vec<PathBuf>,
    /// Where the second message goes, for whoever adds the messages up.
    #[arg(short, long, default_value = "second.becalm")]
    out: PathBuf,
    /// Where the party's share of the key goes, for `becalm threshold decrypt`. It is secret.
    #[arg(long, default_value = "share.becalm")]
    share: PathBuf,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct AggregateArgs {
    /// The messages of all parties, the first and the second ones.
    #[arg(required = true)]
    messages: Vec<PathBuf>,
    /// Where the key of encryption goes.
    #[arg(long, default_value = "public.becalm")]
    public: PathBuf,
    /// Where the keys of the server go.
    #[arg(long, default_value = "evaluation.becalm")]
    evaluation: PathBuf,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

/// A file of a party that errors name.
const MESSAGE: &str = "a party's message of a collective key of CKKS";

/// A seed of its digits.
fn seed_of(text: &str) -> Result<PublicSeed> {
    let mut seed = [0; 32];
    let digits = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !digits {
        let got = format!("{} characters", text.chars().count());
        let remedy = "let one party draw 32 random bytes and send their digits to all";
        return Err(
            Error::bad_input("party", "64 hexadecimal digits as --seed", got, remedy).into()
        );
    }
    for (byte, at) in seed.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16)?;
    }
    Ok(PublicSeed(seed))
}

/// Refuses a place of a secret that holds another file of value, but for an older one of the same kind where that is asked for.
fn require_secret_place(path: &Path, kind: Kind, force: Force) -> Result<()> {
    Kind::require_place(path, &[kind])?;
    force.require_files([path])
}

/// Makes a party, with its first message and the parts of its secret.
pub fn party(args: &PartyArgs) -> Result<()> {
    let threshold = args.threshold.unwrap_or(args.parties);
    let wanted = if threshold < args.parties { args.parties } else { 0 };
    if args.deal.len() != wanted {
        let got = format!("{} files as --deal", args.deal.len());
        let remedy = "name a file for the part of each party where fewer than all decrypt";
        return Err(
            Error::bad_input("party", format!("{wanted} files as --deal"), got, remedy).into()
        );
    }
    let places: Vec<&PathBuf> = [&args.out, &args.message].into_iter().chain(&args.deal).collect();
    for (i, path) in places.iter().enumerate() {
        if places[..i].contains(path) {
            usage!("{} is named twice; give each its own file", path.display());
        }
    }
    require_secret_place(&args.out, Kind::CkksParty, args.force)?;
    require_secret_place(&args.message, Kind::CkksMessage, args.force)?;
    for path in &args.deal {
        require_secret_place(path, Kind::CkksKeyShare, args.force)?;
    }
    let set = CkksParams::named(&args.params)?;
    let context = Context::new(set, args.trust.trust().allow_insecure)?;
    let conjugate = args.conjugate.then_some(set.levels);
    let needs = Needs { conjugate, ..Needs::default() }.rotate(args.rotate.clone(), set.levels);
    let agreement =
        Agreement::new(&context, args.parties, threshold, seed_of(&args.seed)?, &needs)?;
    let party = Party::new(&context, &agreement, args.index)?;
    let bar = report::bar("first message", 1);
    let message = party.first_message(&context, &report::follow(&bar))?;
    bar.finish_and_clear();
    let mut parts = vec![file(&args.out, true, party.to_bytes(&context)?)];
    parts.push(file(&args.message, false, message.to_bytes(&context)?));
    for (path, part) in args.deal.iter().zip(party.deal(&context)?) {
        parts.push(file(path, true, part.to_bytes(&context)?));
    }
    args.force.save(parts)?;
    let (agreement, digest) = (hex(&agreement.id()), hex(&message.digest()));
    if args.json {
        return report::json(&json!({
            "params": set.name, "party": args.index, "parties": args.parties, "threshold": threshold,
            "agreement": agreement, "digest": digest, "out": args.out, "message": args.message,
            "dealt": args.deal,
        }));
    }
    let each = args.deal.iter().zip(1..);
    let mut rows = vec![
        ("party", format!("{} (keep it)", args.out.display())),
        ("first message", format!("{} (for all)", args.message.display())),
    ];
    let dealt = each.map(|(path, i)| ("part", format!("{} (for party {i} alone)", path.display())));
    rows.extend(dealt);
    rows.push(("decrypt", format!("any {threshold} of {} parties together", args.parties)));
    rows.push(("agreement", agreement));
    rows.push(("digest", digest));
    report::print(&facts(&rows))
}

fn messages_of(
    context: &Context,
    paths: &[PathBuf],
    trust: &TrustArgs,
) -> Result<Vec<PartyMessage>> {
    let load = |path: &PathBuf| read(path, |path| PartyMessage::load(context, path, trust.trust()));
    paths.iter().map(load).collect()
}

/// Answers the first messages, and makes the party's share.
pub fn answer(args: &AnswerArgs) -> Result<()> {
    let inputs = args.messages.iter().chain(&args.dealt).chain([&args.party]);
    for path in inputs {
        if [&args.out, &args.share].contains(&path) {
            usage!("{} is an input; choose another name for the result", path.display());
        }
    }
    require_secret_place(&args.out, Kind::CkksMessage, args.force)?;
    require_secret_place(&args.share, Kind::CkksKeyShare, args.force)?;
    let wanted = "a party's secret of a collective key of CKKS";
    let (context, trust) =
        (context_of(&args.party, wanted, args.trust.trust())?, args.trust.trust());
    let party = read(&args.party, |path| Party::load(&context, path, trust))?;
    let firsts = messages_of(&context, &args.messages, &args.trust)?;
    let load = |path: &PathBuf| read(path, |path| KeyShare::load(&context, path, trust));
    let dealt = args.dealt.iter().map(load).collect::<Result<Vec<KeyShare>>>()?;
    let dealt: Vec<&KeyShare> = dealt.iter().collect();
    let share = party.share(&context, &firsts, &dealt)?;
    let bar = report::bar("second message", 1);
    let message = party.second_message(&context, &firsts, &report::follow(&bar))?;
    bar.finish_and_clear();
    args.force.save(vec![
        file(&args.share, true, share.to_bytes(&context)?),
        file(&args.out, false, message.to_bytes(&context)?),
    ])?;
    let (key, digest) = (share.key_id().to_string(), hex(&message.digest()));
    if args.json {
        return report::json(&json!({
            "party": party.party(), "parties": share.parties(), "threshold": share.threshold(),
            "key": key, "digest": digest, "out": args.out, "share": args.share,
        }));
    }
    report::print(&facts(&[
        ("second message", format!("{} (for whoever adds them up)", args.out.display())),
        ("share", format!("{} (keep it)", args.share.display())),
        ("key id", key),
        ("digest", digest),
    ]))
}

/// Adds the messages of all parties up to keys.
pub fn aggregate(args: &AggregateArgs) -> Result<()> {
    for path in [&args.public, &args.evaluation] {
        if args.messages.contains(path) {
            usage!("{} is an input; choose another name for the keys", path.display());
        }
    }
    Kind::require_place(&args.public, &[Kind::CkksPublicKey])?;
    Kind::require_place(&args.evaluation, &[Kind::CkksEvaluationKeys])?;
    args.force.require_files([&args.public, &args.evaluation])?;
    let context = context_of(&args.messages[0], MESSAGE, args.trust.trust())?;
    let messages = messages_of(&context, &args.messages, &args.trust)?;
    let (bar, form) = (report::bar("keys", 1), KeyForm::Packed);
    let follow = report::follow(&bar);
    let (public, keys) = PartyMessage::aggregate(&context, &messages, form, &follow)?;
    bar.finish_and_clear();
    let note = KeyPlan::new(context.params(), &Wish::default())?.note().to_string();
    let bytes = context.public_key_to_bytes(&public)?;
    let write = |out: &mut Output| {
        context.write_keys_at(&args.evaluation, &keys, &note, BufWriter::new(out))
    };
    args.force
        .save(vec![file(&args.public, false, bytes), Part::new(&args.evaluation, false, write)])?;
    let (parties, key) = (public.parties(), public.id().to_string());
    if args.json {
        return report::json(&json!({
            "params": context.params().name, "parties": parties, "key": key, "public": args.public,
            "evaluation": args.evaluation,
        }));
    }
    report::print(&facts(&[
        ("public key", format!("{} (for all who encrypt)", args.public.display())),
        ("evaluation keys", format!("{} (for the server)", args.evaluation.display())),
        ("parties", parties.to_string()),
        ("key id", key),
    ]))
}
