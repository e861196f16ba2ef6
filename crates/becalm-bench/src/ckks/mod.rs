//! `ckks`: becalm's CKKS beside Lattigo, Poulpy, OpenFHE and desilofhe, each side a process, by turns.
//!
//! A group is one process of ours and one of a peer; both make their keys, then work by turns for every case of the group,
//! and end before the next group begins: two sets of keys are all that is in memory; where even these do not fit, one side ends
//! before the other begins, and the row says so. Ratios are of medians, peer/ours: of one
//! thread by the time of the processor, which leaves out what other processes take, of several by that on the wall.

pub mod child;
mod logistic;
pub mod ours;
pub mod peers;
mod table;

use crate::cases::matches;
use crate::rows::Times;
use anyhow::{Context, Result, anyhow};
use becalm::math::memory::available_memory;
use becalm::security::{Instance, Secret, claimed, least_bits};
use child::{Answer, Worker};
use peers::{ACKNOWLEDGEMENT, DESILO, POULPY, Peer};
use serde::Serialize;
use std::process::Command;
pub use table::table;

/// Bytes that one side takes on toys.
const TOY: u64 = 800_000_000;
/// Standard deviation of the noise of all keys, on all sides, that name no other.
const NOISE_STD: f64 = 3.2;

/// How to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only the cases whose name matches.
    pub pattern: String,
    /// Small rings.
    pub toy: bool,
    /// Measured runs of each side of a case.
    pub rounds: usize,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Bytes that both processes may take together.
    pub memory: u64,
}

/// One side and its times.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// The library and its version.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its set.
    pub params: String,
    /// log2 of the degree.
    pub log2_degree: u32,
    /// Values in a ciphertext.
    pub slots: usize,
    /// log2 of the largest modulus.
    pub log2_modulus: f64,
    /// Bits by becalm's strict estimate, the least over both secrets where the ephemeral one is known; rounded down to a tenth.
    pub security_bits: f64,
    /// Failures of the range of EvalMod: `"0"`, `"2^-138.7"`, `"not stated"`.
    pub pfail: String,
    /// Seconds of the runs, on the wall.
    pub seconds: Seconds,
    /// Median of the seconds of the processor.
    pub processor: f64,
    /// Mean error of the runs, bits: the document's measure.
    pub bits_mean: f64,
    /// Largest error, bits.
    pub bits_worst: f64,
    /// Mean error of −1 and 1 by turns, which lies in few coefficients: bits. Bootstraps only.
    pub bits_signs: Option<f64>,
    /// Level of the results.
    pub level: usize,
    /// Keys of the bootstrap in memory.
    pub key_bytes: u64,
    /// The same, written.
    pub stored_key_bytes: u64,
    /// Seconds for them, all threads.
    pub keygen_seconds: f64,
    /// The most memory that the process has had until then.
    pub peak_bytes: Option<u64>,
}

/// Seconds over the rounds of one side.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Seconds {
    /// The middle.
    pub median: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
    /// How many.
    pub rounds: usize,
}

/// A case measured, or why it was not.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// `"ckks/lattigo/regular/1"`: peer (or becalm alone), work, threads.
    pub case: String,
    /// Threads of each side.
    pub threads: usize,
    /// The message of the timed runs.
    pub message: String,
    /// becalm.
    pub ours: Option<Side>,
    /// The peer.
    pub peer: Option<Side>,
    /// peer/ours, in the same ring.
    pub ratio: Option<f64>,
    /// Both sides worked by turns; else one after the other, for want of memory.
    pub by_turns: bool,
    /// Why it was not measured, or, where `ours` was, why the peer was not.
    pub left_out: Option<String>,
    /// The notice that the peer's licence asks for.
    pub acknowledgement: Option<&'static str>,
}

/// Two processes, or one, and the cases that they serve.
struct Group {
    kind: &'static ours::Kind,
    peer: Option<Peer>,
    threads: Vec<usize>,
    /// Names without threads, and the command.
    cases: Vec<(String, String)>,
}

/// The operations at the highest level of each side.
const BASIC: [&str; 4] = ["multiply", "rotate", "encrypt", "decrypt"];

/// Names and commands of a kind beside a peer.
fn cases(toy: bool, peer: Option<Peer>, kind: &ours::Kind, named: &str) -> Vec<(String, String)> {
    let side = peer.map_or("becalm", Peer::name);
    let mut cases = vec![];
    if named == ours::REGRESSION {
        cases.push((format!("ckks/{named}"), named.into()));
    } else if named != "basic" {
        cases.push((format!("ckks/{side}/{named}"), format!("bootstrap {}", kind.message)));
    }
    // The usual bootstrap keeps every message.
    if peer.is_none() && kind.name == "lossy" {
        cases.push(("ckks/any_message_bits".into(), "bootstrap any".into()));
    }
    if let Some(count) = kind.name.strip_prefix("iterations") {
        cases = vec![(format!("ckks/iterations{count}"), "bootstrap any".into())];
    }
    // Those of desilofhe have a separate group, which takes few keys. Of Poulpy only bootstraps are measured.
    let basic = match peer {
        Some(Peer::Desilo(_)) => named == "basic",
        other => !matches!(other, Some(Peer::Poulpy(..))),
    };
    if kind.name == "regular" && basic {
        cases.extend(BASIC.map(|op| (format!("ckks/{side}/{op}"), op.to_string())));
    }
    // Where the peer's fresh ciphertexts are longer than what its bootstrap leaves: at equal levels too.
    if named == "basic" && !toy {
        let at = |op: &str| (format!("ckks/{side}/{op}_level_10"), format!("{op} 10"));
        cases.extend(BASIC.map(at));
    }
    cases
}

fn groups(how: &Options) -> Result<Vec<Group>> {
    let (one, all) = (vec![how.threads[0]], how.threads.clone());
    let mut groups = vec![];
    let mut push = |peer: Option<Peer>, kind: &str, named: &str, threads: &[usize]| -> Result<()> {
        let kind = ours::kind(kind)?;
        let cases = cases(how.toy, peer, kind, named);
        groups.push(Group { kind, peer, threads: threads.to_vec(), cases });
        Ok(())
    };
    push(Some(Peer::Lattigo), "regular", "regular", &all)?;
    for threads in &all {
        push(Some(Peer::OpenFhe), "regular", "regular", &[*threads])?;
    }
    push(Some(Peer::Desilo("basic")), "regular", "basic", &all)?;
    // desilofhe has no bootstrap in a small ring.
    for &(desilo, kind) in DESILO.iter().filter(|_| !how.toy) {
        let threads = if kind == "regular" { &all } else { &one };
        push(Some(Peer::Desilo(desilo)), kind, kind, threads)?;
    }
    // Poulpy is measured with one thread.
    for &(preset, values, kind) in POULPY.iter().filter(|_| all.contains(&1)) {
        push(Some(Peer::Poulpy(preset, values)), kind, kind, &[1])?;
    }
    for kind in ours::KINDS {
        push(None, kind.name, kind.name, &all)?;
    }
    for group in &mut groups {
        let wanted =
            |threads: usize, name: &str| matches(&how.pattern, &format!("{name}/{threads}"));
        group.threads.retain(|t| group.cases.iter().any(|(name, _)| wanted(*t, name)));
        group.cases.retain(|(name, _)| group.threads.iter().any(|t| wanted(*t, name)));
    }
    groups.retain(|g| !g.cases.is_empty());
    Ok(groups)
}

/// Measures every case that matches; `done` is told after each.
///
/// # Errors
/// A process that fails; a result that is wrong.
pub fn run(how: &Options, mut done: impl FnMut(&[Row]) -> Result<()>) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for group in groups(how)? {
        eprintln!("{} beside {} …", group.kind.name, group.peer.map_or("nothing", Peer::name));
        let measured = seating(how, &group).and_then(|seating| match seating {
            Seating::Together => together(how, &group, &mut rows, &mut done),
            Seating::Apart => apart(how, &group, &mut rows),
        });
        if let Err(reason) = measured {
            // A side that this machine lacks does not end the run; an error later does.
            if !reason.is::<Lacking>() {
                return Err(reason);
            }
            eprintln!("  left out: {reason:#}");
            rows.extend(left_out(&group, &format!("{reason:#}")));
        }
        done(&rows)?;
    }
    Ok(rows)
}

/// Rows that say why there is nothing in them.
fn left_out(group: &Group, reason: &str) -> Vec<Row> {
    let row = |(case, threads): (&String, usize)| Row {
        case: format!("{case}/{threads}"),
        threads,
        message: String::new(),
        ours: None,
        peer: None,
        ratio: None,
        by_turns: false,
        left_out: Some(reason.into()),
        acknowledgement: None,
    };
    let threads = group.threads.iter();
    threads.flat_map(|t| group.cases.iter().map(move |c| (&c.0, *t))).map(row).collect()
}

/// Whether the memory holds both sides.
enum Seating {
    /// Both wait in memory and work by turns.
    Together,
    /// One ends before the other begins.
    Apart,
}

fn seating(how: &Options, group: &Group) -> Result<Seating> {
    let of = |full: u64| if how.toy { TOY } else { full };
    let (ours, peer) = (of(group.kind.memory), group.peer.map_or(0, |p| of(p.memory())));
    let free = available_memory().map_or(u64::MAX, |bytes| bytes as u64).min(how.memory);
    let (needed, there) = (ours.max(peer) as f64 / 1e9, free as f64 / 1e9);
    if needed > there {
        return Err(anyhow!("it takes about {needed:.1} GB, of {there:.1} (--memory)"))
            .context(Lacking);
    }
    Ok(if ours + peer <= free { Seating::Together } else { Seating::Apart })
}

/// This machine lacks something that a side needs.
#[derive(Debug)]
struct Lacking;

impl std::fmt::Display for Lacking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not available here")
    }
}

/// A side that is on this machine and does not start.
#[derive(Debug)]
struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it did not start")
    }
}

fn start_ours(how: &Options, group: &Group) -> Result<Worker> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["ckks-worker", group.kind.name]);
    if how.toy {
        command.arg("--toy");
    }
    Worker::start(command).context(Lacking)
}

fn start_peer(how: &Options, group: &Group) -> Result<Option<Worker>> {
    let Some(peer) = group.peer else { return Ok(None) };
    let command = peer.command(how.toy, group.threads[0]).context(Lacking)?;
    Worker::start(command).context(Failed).context(Lacking).map(Some)
}

/// Both in memory at once.
fn together(
    how: &Options,
    group: &Group,
    rows: &mut Vec<Row>,
    done: &mut impl FnMut(&[Row]) -> Result<()>,
) -> Result<()> {
    // The peer's keys take longer, and more while they are made.
    let (peer, missing) = present(start_peer(how, group))?;
    let mut sides: Vec<Worker> = std::iter::once(start_ours(how, group)?).chain(peer).collect();
    measure(how, group, &mut sides, &mut |measured| {
        match &missing {
            Some(why) => ours_alone(group, vec![measured], why, rows)?,
            None => rows.push(row(group, measured, true)?),
        }
        done(rows)
    })
}

/// The peer, or why it did not start: our side is measured all the same. A peer that is not installed is not a reason to measure ours once
/// more.
fn present(peer: Result<Option<Worker>>) -> Result<(Option<Worker>, Option<anyhow::Error>)> {
    match peer {
        Ok(peer) => Ok((peer, None)),
        Err(why) if why.is::<Failed>() => Ok((None, Some(why))),
        Err(why) => Err(why),
    }
}

/// One after the other.
fn apart(how: &Options, group: &Group, rows: &mut Vec<Row>) -> Result<()> {
    eprintln!("  one after the other: both together do not fit");
    let alone = |worker: Result<Option<Worker>>| -> Result<Vec<Measured>> {
        let mut all = vec![];
        let mut sides: Vec<Worker> = worker?.into_iter().collect();
        measure(how, group, &mut sides, &mut |measured| {
            all.push(measured);
            Ok(())
        })?;
        Ok(all)
    };
    let ours = alone(start_ours(how, group).map(Some))?;
    let peer = alone(start_peer(how, group));
    let peer = match peer {
        Err(why) if why.is::<Lacking>() => return ours_alone(group, ours, &why, rows),
        other => other?,
    };
    for (mut measured, theirs) in ours.into_iter().zip(peer) {
        measured.sides.extend(theirs.sides);
        rows.push(row(group, measured, false)?);
    }
    Ok(())
}

/// Our side is measured already: it stays, with the reason why nothing stands beside it.
fn ours_alone(
    group: &Group,
    ours: Vec<Measured>,
    why: &anyhow::Error,
    rows: &mut Vec<Row>,
) -> Result<()> {
    eprintln!("  without the peer: {why:#}");
    for measured in ours {
        let left_out = Some(format!("{why:#}"));
        rows.push(Row { left_out, acknowledgement: None, ..row(group, measured, false)? });
    }
    Ok(())
}

/// A case at a number of threads, and its sides.
struct Measured {
    case: String,
    threads: usize,
    command: String,
    sides: Vec<Side>,
}

/// Every case of a group at every number of threads.
fn measure(
    how: &Options,
    group: &Group,
    sides: &mut [Worker],
    keep: &mut impl FnMut(Measured) -> Result<()>,
) -> Result<()> {
    let mut signs = vec![None; sides.len()];
    for &threads in &group.threads {
        for side in sides.iter_mut() {
            side.threads(threads)?;
        }
        for (name, command) in &group.cases {
            let case = format!("{name}/{threads}");
            if !matches(&how.pattern, &case) {
                continue;
            }
            let bootstrap = command.starts_with("bootstrap");
            // Also the first run, which is the slowest and is not measured.
            if bootstrap && signs.contains(&None) {
                for (side, signs) in sides.iter_mut().zip(&mut signs) {
                    *signs = Some(-side.ask("bootstrap signs")?.mean.log2());
                }
            }
            eprintln!("  {case}");
            let answers =
                by_turns(sides, command, threads, how.rounds).with_context(|| case.clone())?;
            let made = sides.iter().zip(&answers).zip(&signs);
            let made = made.map(|((w, a), s)| side(w, a, s.filter(|_| bootstrap)));
            let sides = made.collect::<Result<_>>()?;
            keep(Measured { case, threads, command: command.clone(), sides })?;
        }
    }
    Ok(())
}

/// Runs by turns; who begins changes.
fn by_turns(
    sides: &mut [Worker],
    command: &str,
    threads: usize,
    rounds: usize,
) -> Result<Vec<Vec<Answer>>> {
    let mut answers = vec![vec![]; sides.len()];
    let bootstrap = command.strip_prefix("bootstrap ");
    // Operations of milliseconds run once unmeasured, and more often.
    let rounds = if bootstrap.is_some() { rounds } else { 2 * rounds + 1 };
    for round in 0..rounds + usize::from(bootstrap.is_none()) {
        for turn in 0..sides.len() {
            let i = (turn + round) % sides.len();
            // Lattigo computes a bootstrap on one thread: as many at once as there are threads is its best use of them.
            let line = match bootstrap {
                Some(m) if threads > 1 && sides[i].ready.name == "lattigo" => {
                    format!("together {threads} {m}")
                }
                _ => command.to_string(),
            };
            let answer = sides[i].ask(&line)?;
            if bootstrap.is_some() || round > 0 {
                answers[i].push(answer);
            }
        }
    }
    Ok(answers)
}

fn side(worker: &Worker, answers: &[Answer], bits_signs: Option<f64>) -> Result<Side> {
    let r = &worker.ready;
    let times = Times::of(answers.iter().map(|a| a.seconds * 1e3).collect());
    let processor = Times::of(answers.iter().map(|a| a.processor * 1e3).collect());
    let mean = answers.iter().map(|a| a.mean).sum::<f64>() / answers.len() as f64;
    let max = answers.iter().map(|a| a.max).fold(0.0, f64::max);
    let ours = r.name == "becalm";
    Ok(Side {
        name: r.name.clone(),
        version: r.version.clone(),
        params: r.params.clone(),
        log2_degree: r.log2_degree,
        slots: r.slots,
        log2_modulus: r.log2_modulus,
        security_bits: security(r)?,
        pfail: match r.log2_pfail {
            Some(p) => format!("2^{p}"),
            None if ours => "0".into(),
            None => "not stated".into(),
        },
        seconds: Seconds {
            median: times.median_ms / 1e3,
            min: times.min_ms / 1e3,
            max: times.max_ms / 1e3,
            rounds: times.rounds,
        },
        processor: processor.median_ms / 1e3,
        bits_mean: -mean.log2(),
        bits_worst: -max.log2(),
        bits_signs,
        level: answers.last().context("nothing was run")?.level,
        key_bytes: r.key_bytes,
        stored_key_bytes: r.stored_key_bytes,
        keygen_seconds: r.keygen_seconds,
        peak_bytes: worker.peak_bytes(),
    })
}

/// Bits by the strict estimate, here and now, the same way for all, as claims are shown.
fn security(r: &child::Ready) -> Result<f64> {
    let instance = |log2_q, weight: Option<u32>, noise_std| Instance {
        n: 1 << r.log2_degree,
        log2_q,
        secret: weight.map_or(Secret::Ternary, |weight| Secret::Sparse { weight }),
        noise_std,
        targets: 1 << r.log2_degree,
    };
    let mut all = vec![instance(r.log2_modulus, r.weight, NOISE_STD)];
    if let (Some(q), Some(_)) = (r.ephemeral_log2_modulus, r.ephemeral_weight) {
        all.push(instance(q, r.ephemeral_weight, r.ephemeral_noise_std.unwrap_or(NOISE_STD)));
    }
    Ok(claimed(least_bits(&all)?))
}

fn row(group: &Group, measured: Measured, by_turns: bool) -> Result<Row> {
    let Measured { case, threads, command, sides } = measured;
    let mut sides = sides.into_iter();
    let (ours, peer) = (sides.next(), sides.next());
    let mine = ours.as_ref().context("our own side")?;
    anyhow::ensure!(
        mine.bits_mean > 15.0,
        "{case}: our own result is wrong, {:.1} bits in the mean",
        mine.bits_mean
    );
    // desilofhe's smallest ring is larger than our toys: no ratio.
    let same = peer.as_ref().filter(|p| p.log2_degree == mine.log2_degree);
    let ratio = same.map(|p| time(p, threads) / time(mine, threads));
    let desilo = matches!(group.peer, Some(Peer::Desilo(_)));
    Ok(Row {
        case,
        threads,
        message: command.strip_prefix("bootstrap ").unwrap_or("ramp").into(),
        ours,
        peer,
        ratio,
        by_turns,
        left_out: None,
        acknowledgement: desilo.then_some(ACKNOWLEDGEMENT),
    })
}

/// Seconds that a ratio is of.
fn time(side: &Side, threads: usize) -> f64 {
    if threads == 1 { side.processor } else { side.seconds.median }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> Side {
        let seconds = Seconds { median: 2.0, min: 1.0, max: 3.0, rounds: 3 };
        Side {
            name: "becalm".into(),
            version: "1".into(),
            params: "p".into(),
            log2_degree: 12,
            slots: 2048,
            log2_modulus: 1000.0,
            security_bits: 0.0,
            pfail: "0".into(),
            seconds,
            processor: 2.0,
            bits_mean: 25.0,
            bits_worst: 24.0,
            bits_signs: None,
            level: 10,
            key_bytes: 2,
            stored_key_bytes: 1,
            keygen_seconds: 1.0,
            peak_bytes: None,
        }
    }

    /// With the noise of the other keys the ephemeral key of this set would be below its claim.
    #[test]
    fn an_ephemeral_key_is_estimated_with_its_own_noise() {
        let set = becalm::params::CkksParams::named("ckks_n15").unwrap();
        let mut ready = ours::ready(set);
        assert_eq!(security(&ready).unwrap(), set.security_bits);
        ready.ephemeral_noise_std = None;
        assert!(security(&ready).unwrap() < 128.0);
    }

    /// A peer that is there and does not start leaves our side to be measured; one that is not there does not.
    #[test]
    fn a_peer_that_fails_first_is_told_from_one_that_is_not_there() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let failed = Worker::start(command).context(Failed).context(Lacking).map(Some);
        let (peer, why) = present(failed).unwrap();
        assert!(peer.is_none());
        let why = why.unwrap();
        assert!(why.is::<Lacking>() && format!("{why:#}").contains("did not start"), "{why:#}");
        let absent: Result<Option<Worker>> = Err(anyhow!("no Go")).context(Lacking);
        assert!(present(absent).err().is_some_and(|why| why.is::<Lacking>()));
        assert!(present(Ok(None)).is_ok_and(|(peer, why)| peer.is_none() && why.is_none()));
    }

    /// A peer that does not start after our side has run takes nothing of it away.
    #[test]
    fn our_side_stays_without_the_peer() {
        let kind = ours::kind("regular").unwrap();
        let (peer, case) = (Some(Peer::Lattigo), "ckks/lattigo/regular/1".to_string());
        let group = Group { kind, peer, threads: vec![1], cases: vec![] };
        let command = "bootstrap ramp".to_string();
        let measured = Measured { case, threads: 1, command, sides: vec![side()] };
        let (why, mut rows) = (anyhow!("no Go").context(Lacking), vec![]);
        ours_alone(&group, vec![measured], &why, &mut rows).unwrap();
        assert!(rows[0].ours.is_some() && rows[0].peer.is_none() && rows[0].ratio.is_none());
        assert!(rows[0].left_out.as_ref().is_some_and(|w| w.contains("no Go")), "{rows:?}");
        let text = table(&rows);
        assert!(text.contains("2.0000") && text.contains("no peer: ") && text.contains("no Go"));
    }
}
