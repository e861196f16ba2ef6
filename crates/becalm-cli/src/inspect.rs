//! `becalm inspect`: the claims of a file of any kind; of a program also its keys and cost.

use crate::output::read;
use crate::report::{self, facts};
use anyhow::Result;
use becalm::cipher::file::{Description, Kind, TensorShape, Trust, VERSION, inspect, verify};
use becalm::ckks::whole_bytes;
use becalm::program::rlwe::{CkksProgram, RlweInfo};
use becalm::program::{Cost, Need, Program, Reg};
use becalm::words::{counted, megabytes, shown};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    /// Any file of becalm.
    input: PathBuf,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

/// Describes the contents of a file.
pub fn run(args: &Args) -> Result<()> {
    let found = read(&args.input, inspect)?;
    let program = program(&found, &args.input)?;
    match args.json {
        true => report::json(&as_json(&found, program.as_ref())),
        false => report::print(&facts(&rows(&found, program.as_ref()))),
    }
}

/// A program of either scheme.
enum Recorded {
    Tfhe(Program),
    Ckks(Box<CkksProgram>),
}

impl Recorded {
    fn rows(&self) -> Vec<(&'static str, String)> {
        match self {
            Recorded::Tfhe(program) => tfhe_rows(program),
            Recorded::Ckks(program) => program_rows(program),
        }
    }

    fn value(&self) -> Value {
        match self {
            Recorded::Tfhe(program) => tfhe_value(program),
            Recorded::Ckks(program) => program_value(program),
        }
    }
}

/// The program of a file, recorded again as it would be to run; none of an unknown set, whose header is described all the same. It
/// is not a key, so toys may be described too.
fn program(found: &Description, path: &Path) -> Result<Option<Recorded>> {
    let trust = Trust::insecure();
    Ok(match found.kind {
        Kind::Program if found.in_table => {
            Some(Recorded::Tfhe(read(path, |path| Program::load(path, trust))?))
        }
        Kind::CkksProgram if found.in_table => {
            Some(Recorded::Ckks(Box::new(read(path, |path| CkksProgram::load(path, trust))?)))
        }
        // Nothing else says whether the name of the set is right.
        Kind::Program | Kind::CkksProgram => {
            read(path, |path| verify(path, trust))?;
            None
        }
        _ => None,
    })
}

/// All claims, with null for those that the kind does not have.
fn as_json(found: &Description, program: Option<&Recorded>) -> Value {
    let tensor = |t: &TensorShape| json!({ "name": t.name, "dtype": t.dtype, "shape": t.shape, "bytes": t.bytes });
    json!({
        "kind": found.kind.name(), "version": VERSION, "bytes": found.bytes,
        "whole_bytes": whole_bytes(found), "params": found.params, "in_table": found.in_table,
        "key": found.key.map(|k| k.to_string()), "role": found.role, "encoding": found.encoding,
        "range": found.range, "noise_variance": found.noise,
        "does": found.does.map(|kind| kind.to_string()),
        "tensors": found.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "level": found.level, "scale": found.scale, "slots": found.slots, "error": found.error,
        "integers": found.integers.map(|own| own.count), "bits": found.integers.map(|own| own.bits),
        "values": found.values, "party": found.party, "parties": found.parties,
        "threshold": found.threshold, "quorum": found.quorum, "round": found.round, "keys": found.switches(),
        "note": found.note, "program": program.map(Recorded::value),
    })
}

/// The claims that there are.
fn rows(found: &Description, program: Option<&Recorded>) -> Vec<(&'static str, String)> {
    let known = if found.in_table { "" } else { " (not a set of this version)" };
    let mut rows = vec![
        ("holds", format!("{}, {}", found.kind, megabytes(found.bytes as usize))),
        ("parameter set", shown(format!("{}{known}", found.params))),
    ];
    rows.extend(found.key.map(|k| ("key id", k.to_string())));
    rows.extend(found.role.map(|r| ("under", format!("the {r:?} key").to_lowercase())));
    rows.extend(found.does.map(|kind| ("does", kind.to_string())));
    rows.extend(found.encoding.map(|e| {
        let padding = if e.padding { " below a padding bit" } else { "" };
        ("encoding", format!("{} values{padding}", e.values))
    }));
    rows.extend(found.range.map(|(a, b)| ("messages", format!("{a} to {b}"))));
    rows.extend(found.noise.map(|v| ("noise", format!("2^{:.2} of the torus", v.sqrt().log2()))));
    rows.extend(parties(found));
    rows.extend(found.level.map(|l| ("level", l.to_string())));
    rows.extend(found.integers.map(|i| ("integers", format!("{} of {} bits", i.count, i.bits))));
    let of = found.values.as_ref().map(|kind| format!(", {kind}")).unwrap_or_default();
    let slots = found.slots.filter(|_| found.integers.is_none());
    rows.extend(slots.map(|n| ("values", format!("{n}{of}"))));
    rows.extend(found.scale.map(|s| ("scale", format!("2^{:.2}", s.log2()))));
    rows.extend(found.error.map(|e| ("error", format!("2^{:.2}", e.log2()))));
    let keys = found.switches().into_iter();
    rows.extend(keys.map(|(what, level)| ("key", format!("{what}, up to level {level}"))));
    rows.extend(program.iter().flat_map(|program| program.rows()));
    if !found.note.is_empty() {
        // Whoever wrote the file wrote this.
        rows.push(("note", shown(found.note.clone())));
    }
    if let Some(whole) = whole_bytes(found).filter(|whole| *whole != found.bytes) {
        let (bytes, off) = (found.bytes, whole.abs_diff(found.bytes));
        let what = if whole > bytes { "are missing" } else { "are too many" };
        let text =
            format!("NOT WHOLE: {whole} bytes wanted, {bytes} there, {off} {what}; copy it again");
        rows.push(("length", text));
    }
    let checked = match program {
        Some(_) => "all of it: the program was recorded again",
        None if matches!(found.kind, Kind::Program | Kind::CkksProgram) => {
            "its form and its checksum; all else by a version that has its set"
        }
        None => "its form; all else is checked when the file is used",
    };
    rows.push(("checked", checked.into()));
    let tensor = |t: &TensorShape| {
        let size = megabytes(t.bytes as usize);
        ("tensor", shown(format!("{} {:?} {}, {size}", t.name, t.shape, t.dtype)))
    };
    rows.extend(found.tensors.iter().map(tensor));
    rows
}

/// The party of a share, a message or a part, and those beside it.
fn parties(found: &Description) -> Option<(&'static str, String)> {
    let party = found.party?;
    if let Some(quorum) = &found.quorum {
        return Some(("part", format!("of party {party}; the quorum is {quorum:?}")));
    }
    let (all, t) = (found.parties?, found.threshold?);
    let round = found.round.map(|round| format!(", round {round}")).unwrap_or_default();
    let what = match found.kind {
        Kind::CkksParty => "secret",
        Kind::CkksMessage => "message",
        _ => "share",
    };
    Some((what, format!("of party {party} of {all}, of whom {t} decrypt together{round}")))
}

/// The inputs, needs and cost of a program of TFHE, as rows for people.
fn tfhe_rows(program: &Program) -> Vec<(&'static str, String)> {
    let Cost { bootstraps, key_switches, linear, waves, depth, bytes_per_lane } = program.cost();
    let info = |what: &'static str, regs: &[Reg]| {
        let each = regs.iter().filter_map(|r| program.info(*r));
        each.map(|info| (what, info.to_string())).collect::<Vec<_>>()
    };
    let mut rows = info("input", program.inputs());
    rows.extend(info("output", program.outputs()));
    rows.push(("instructions", program.ops().len().to_string()));
    rows.extend(program.needs().iter().map(|need| ("needs", format!("the key of {need}"))));
    rows.push(("cost", format!("{}, {depth} in a row", counted(bootstraps, "bootstrap"))));
    rows.push(("cost", counted(key_switches, "key switch")));
    rows.push(("cost", counted(linear, "linear combination")));
    rows.push(("cost", counted(waves, "wave")));
    let memory = megabytes(bytes_per_lane);
    rows.push(("memory", format!("{memory} of ciphertexts for each lane")));
    rows
}

/// The same as JSON.
fn tfhe_value(program: &Program) -> Value {
    let Cost { bootstraps, key_switches, linear, waves, depth, bytes_per_lane } = program.cost();
    let info = |regs: &[Reg]| -> Vec<Value> {
        let each = regs.iter().filter_map(|r| program.info(*r));
        each.map(|x| json!({ "type": x.ty, "encoding": x.encoding, "range": x.range })).collect()
    };
    let needs = program.needs();
    let maps = needs.iter().filter_map(|need| match need {
        Need::SlotMap(map) => Some(*map),
        _ => None,
    });
    json!({
        "inputs": info(program.inputs()), "outputs": info(program.outputs()),
        "needs": {
            "bootstrap": needs.contains(&Need::Bootstrap), "key_switch": needs.contains(&Need::KeySwitch),
            "pack": needs.contains(&Need::Pack), "slot_maps": maps.collect::<Vec<u32>>(),
        },
        "cost": {
            "instructions": program.ops().len(), "bootstraps": bootstraps, "depth": depth, "waves": waves,
            "key_switches": key_switches, "linear": linear, "bytes_per_lane": bytes_per_lane,
        },
    })
}

/// The inputs, needs and cost of a program of CKKS, as rows for people.
pub fn program_rows(program: &CkksProgram) -> Vec<(&'static str, String)> {
    let (cost, needs) = (program.cost(), program.needs());
    let info = |regs: &[Reg]| {
        let each = regs.iter().filter_map(|r| program.info(*r));
        let text = |x: &RlweInfo| {
            let held = match x.integers {
                Some(bits) => {
                    format!("up to {} integers of {}", 2 * x.slots, counted(bits as usize, "bit"))
                }
                None => format!("{} values", x.slots),
            };
            format!("level {}, scale 2^{:.2}, {held}", x.level, x.scale.log2())
        };
        each.map(text).collect::<Vec<String>>()
    };
    let mut rows: Vec<(&str, String)> = vec![];
    rows.extend(info(program.inputs()).into_iter().map(|text| ("input", text)));
    rows.extend(info(program.outputs()).into_iter().map(|text| ("output", text)));
    rows.push(("instructions", program.ops().len().to_string()));
    let turns: Vec<String> = needs.rotations.keys().take(16).map(i64::to_string).collect();
    let more = if needs.rotations.len() > turns.len() { ", …" } else { "" };
    let by =
        if turns.is_empty() { String::new() } else { format!(" by {}{more}", turns.join(", ")) };
    rows.push(("needs", format!("{}{by}", counted(needs.rotations.len(), "rotation"))));
    let levels = [
        ("the key of products", (needs.multiply > 0).then_some(needs.multiply)),
        ("the key of conjugation", needs.conjugate),
        ("the keys of a bootstrap", needs.bootstrap),
    ];
    for (what, level) in levels {
        rows.extend(level.map(|level| ("needs", format!("{what}, up to level {level}"))));
    }
    rows.push(("cost", counted(program.bootstraps(), "bootstrap")));
    rows.push(("cost", counted(cost.key_switches, "key switch")));
    rows.push(("cost", format!("{} of ciphertexts", counted(cost.products, "product"))));
    rows.push(("cost", format!("about {}", counted(cost.transforms, "transform"))));
    rows.push(("memory", format!("{} of ciphertexts for each lane", megabytes(cost.bytes))));
    rows
}

/// The same as JSON.
pub fn program_value(program: &CkksProgram) -> Value {
    let (cost, needs) = (program.cost(), program.needs());
    let info = |regs: &[Reg]| -> Vec<Value> {
        let each = regs.iter().filter_map(|r| program.info(*r));
        let facts = |x: &RlweInfo| match x.integers {
            Some(bits) => json!({ "level": x.level, "scale": x.scale, "bits": bits }),
            None => json!({ "level": x.level, "scale": x.scale, "slots": x.slots }),
        };
        each.map(facts).collect()
    };
    json!({
        "inputs": info(program.inputs()), "outputs": info(program.outputs()),
        "needs": {
            "rotations": needs.rotations.keys().collect::<Vec<_>>(), "multiply": needs.multiply,
            "conjugate": needs.conjugate, "bootstrap": needs.bootstrap,
        },
        "cost": {
            "instructions": program.ops().len(), "bootstraps": program.bootstraps(),
            "key_switches": cost.key_switches, "products": cost.products,
            "transforms": cost.transforms, "diagonals": cost.diagonals, "bytes_per_lane": cost.bytes,
        },
    })
}
