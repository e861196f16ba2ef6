//! Jobs as folders: results equal to one machine's, damage found, secrets refused, claims taken over, wrong results found.

mod jobs;

use becalm::backend::Cpu;
use becalm::cipher::file::{Kind, Trust};
use becalm::job::{Event, Job, Next, Parts, Queue, Runner, Worked, Worker};
use becalm::{Error, Result, UNWATCHED};
use jobs::{ckks_squares, folder, squares};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A job of `lanes` squares in chunks of two, and the bytes that one machine makes of them.
fn prepared(folder: &Path, set: &str, lanes: usize) -> (Parts, Vec<u8>) {
    let (parts, mut whole) = squares(folder, set, lanes, lanes);
    (parts, whole.remove(0))
}

fn worker(name: &str, lease: u64) -> Worker {
    let lease = Duration::from_millis(lease);
    Worker { lease, trust: Trust::insecure(), ..Worker::new(name) }
}

fn work(job: &Job, worker: &Worker) -> Result<Worked> {
    job.work(&Cpu::new(1)?, worker, UNWATCHED, &mut |_| {})
}

fn collected(job: &Job, folder: &Path) -> Result<Vec<u8>> {
    let out = folder.join("y.becalm");
    job.collect(std::slice::from_ref(&out), true, Trust::insecure())?;
    Ok(fs::read(out).unwrap())
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn workers_at_once_make_the_bytes_of_one_machine() {
    for (set, exact) in [("toy_2_2", false), ("toy_2_2_p", true)] {
        let f = folder(&format!("at-once-{set}"));
        let (parts, whole) = prepared(&f.0, set, 21);
        let job = parts.make(f.0.join("job")).unwrap();
        assert_eq!((job.chunks(), job.lanes(), job.exact()), (11, 21, exact));
        let job = Job::open(job.folder()).unwrap();
        let names = ["a", "b", "c"];
        let worked: Vec<Worked> = std::thread::scope(|scope| {
            let job = &job;
            let start = |name| scope.spawn(move || work(job, &worker(name, 60_000)).unwrap());
            let threads: Vec<_> = names.into_iter().map(start).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        // Each chunk is computed once, and nothing but results is left.
        assert_eq!(worked.iter().map(|w| w.finished).sum::<usize>(), 11);
        assert_eq!(worked.iter().map(|w| w.lanes).sum::<usize>(), 21);
        assert!(worked.iter().all(|w| w.dropped == 0 && w.taken_over == 0));
        assert_eq!((files(&f.0.join("job/out")), files(&f.0.join("job/claims"))), (11, 0));
        assert!(collected(&job, &f.0).unwrap() == whole, "{set}");
        let verified =
            job.verify(&Cpu::new(1).unwrap(), 1.0, false, Trust::insecure(), UNWATCHED).unwrap();
        assert_eq!((verified.equal, verified.incomparable), (11, 0));
        let status = job.status().unwrap();
        assert_eq!((status.done, status.left, status.claimed), (11, 0, 0));
    }
}

#[test]
fn ckks_lanes_make_the_bytes_of_one_machine() {
    let f = folder("ckks");
    let trust = Trust::insecure();
    let (parts, wanted) = ckks_squares(&f.0, 3);
    let job = parts.make(f.0.join("job")).unwrap();
    assert_eq!((job.chunks(), job.files(), job.exact()), (2, 3, true));
    work(&job, &worker("a", 60_000)).unwrap();
    let out: Vec<PathBuf> = (0..3).map(|i| f.0.join(format!("y{i}"))).collect();
    job.collect(&out, false, trust).unwrap();
    for (path, wanted) in out.iter().zip(&wanted) {
        assert!(fs::read(path).unwrap() == *wanted, "{}", path.display());
    }
    assert_eq!(job.verify(&Cpu::new(1).unwrap(), 1.0, false, trust, UNWATCHED).unwrap().equal, 2);
}

/// A claim that nobody renews is taken over, whatever its bytes are; one that changes is left alone.
#[test]
fn only_a_claim_that_does_not_change_is_taken_over() {
    let f = folder("claims");
    let (parts, whole) = prepared(&f.0, "toy_2_2", 4);
    let job = parts.make(f.0.join("job")).unwrap();
    let dead = f.0.join("job/claims/000000");
    fs::write(&dead, "").unwrap();
    let worked = work(&job, &worker("a", 50)).unwrap();
    assert_eq!((worked.finished, worked.taken_over), (2, 1));
    assert!(collected(&job, &f.0).unwrap() == whole);
    // Again, with a claim that somebody renews: the worker waits until it is given back.
    let job = parts.make(f.0.join("other")).unwrap();
    let held = f.0.join("other/claims/000001");
    fs::write(&held, "0").unwrap();
    let mut waits = 0;
    let worked = job.work(&Cpu::new(1).unwrap(), &worker("a", 600_000), UNWATCHED, &mut |event| {
        if *event == Event::Waiting {
            waits += 1;
            fs::write(&held, waits.to_string()).unwrap();
            if waits == 3 {
                fs::remove_file(&held).unwrap();
            }
        }
    });
    assert_eq!((worked.unwrap().taken_over, waits), (0, 3));
    assert!(collected(&job, &f.0).unwrap() == whole);
}

#[test]
fn a_stopped_worker_gives_its_chunk_back() {
    let f = folder("stopped");
    let (parts, _) = prepared(&f.0, "toy_2_2", 4);
    let job = parts.make(f.0.join("job")).unwrap();
    // The first question comes before the claim, the next in the middle of the chunk.
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let stop = |_, all| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 if all == job.chunks() => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let mut seen = vec![];
    let note = &mut |event: &Event| seen.push(event.clone());
    let stopped = job.work(&Cpu::new(1).unwrap(), &worker("a", 60_000), &stop, note).unwrap_err();
    assert!(matches!(stopped, Error::Interrupted(_)), "{stopped}");
    assert_eq!(seen, [Event::Claimed(0)]);
    assert_eq!((files(&f.0.join("job/claims")), files(&f.0.join("job/out"))), (0, 0));
}

/// Each damage, in every file of a job, is an error that names the file.
#[test]
fn damage_is_found() {
    let f = folder("damage");
    let (parts, whole) = prepared(&f.0, "toy_2_2", 4);
    let job = parts.make(f.0.join("job")).unwrap();
    let keys = fs::read_dir(job.folder()).unwrap().map(|e| e.unwrap().file_name().into_string());
    let keys = keys.map(|name| name.unwrap()).find(|name| name.starts_with("keys-")).unwrap();
    for name in [keys.as_str(), "program.becalm", "job.json"] {
        each_damage(&job.folder().join(name), || {
            Job::open(job.folder()).and_then(|job| work(&job, &worker("a", 60_000)).map(drop))
        });
        assert!(files(&f.0.join("job/claims")) == 0, "{name}: a claim is left");
    }
    work(&job, &worker("a", 60_000)).unwrap();
    for name in ["out/000000/000000.becalm", "out/000001/done.json"] {
        each_damage(&job.folder().join(name), || collected(&job, &f.0).map(drop));
    }
    each_damage(&job.folder().join("out/000001/000000.becalm"), || {
        job.verify(&Cpu::new(1)?, 1.0, false, Trust::insecure(), UNWATCHED).map(drop)
    });
    // The remedy works: the damaged results were moved away, and the chunk is computed again.
    fs::write(f.0.join("job/out/000001/000000.becalm"), "").unwrap();
    let refused = collected(&job, &f.0).unwrap_err();
    assert!(refused.detail().remedy.contains("computes chunk 1 once more"), "{refused}");
    let missing = collected(&job, &f.0).unwrap_err();
    assert!(matches!(missing, Error::BadInput(_)) && missing.to_string().contains("1 missing: 1"));
    assert_eq!(work(&job, &worker("a", 60_000)).unwrap().finished, 1);
    assert!(collected(&job, &f.0).unwrap() == whole);
}

/// A chunk with damaged inputs is named, the others are computed, and once it is repaired so is it.
#[test]
fn a_damaged_chunk_does_not_hold_up_the_others() {
    let f = folder("chunk");
    let (parts, whole) = prepared(&f.0, "toy_2_2", 6);
    let job = parts.make(f.0.join("job")).unwrap();
    let path = f.0.join("job/in/000001/000000.becalm");
    let good = fs::read(&path).unwrap();
    for (times, bad) in
        [&good[..0], &good[..good.len() / 2], &[&good[..], b"x"].concat()].into_iter().enumerate()
    {
        fs::write(&path, bad).unwrap();
        let worked = work(&job, &worker("a", 60_000)).unwrap();
        assert_eq!(worked.finished, if times == 0 { 2 } else { 0 });
        assert!(worked.failed[0].0 == 1 && worked.failed[0].1.contains("000001"), "{worked:?}");
        let status = job.status().unwrap();
        let failed = &status.failed[&1];
        assert_eq!((status.done, status.left, failed.times), (2, 1, times + 1));
        assert_eq!((failed.worker.as_str(), &failed.error), ("a", &worked.failed[0].1));
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(work(&job, &worker("b", 60_000)).unwrap().failed.len(), 1);
    fs::write(&path, good).unwrap();
    assert_eq!(work(&job, &worker("a", 60_000)).unwrap().finished, 1);
    assert!(job.status().unwrap().failed.is_empty());
    assert!(collected(&job, &f.0).unwrap() == whole);
}

/// Results without a whole record do not count: workers compute them again, and no other.
#[test]
fn a_damaged_record_is_computed_again() {
    let f = folder("record");
    let (parts, whole) = prepared(&f.0, "toy_2_2", 6);
    let job = parts.make(f.0.join("job")).unwrap();
    work(&job, &worker("a", 60_000)).unwrap();
    let record = f.0.join("job/out/000001/done.json");
    let text = fs::read_to_string(&record).unwrap();
    for bad in ["", "{}", &text.replace("\"a\"", "\"b\""), &text[..text.len() - 2]] {
        fs::write(&record, bad).unwrap();
        let status = job.status().unwrap();
        assert_eq!((status.done, status.left, &status.damaged[..]), (2, 1, &[1][..]), "{bad}");
        assert_eq!(work(&job, &worker("a", 60_000)).unwrap().finished, 1, "{bad}");
        assert!(collected(&job, &f.0).unwrap() == whole);
    }
    fs::remove_file(&record).unwrap();
    assert_eq!(work(&job, &worker("a", 60_000)).unwrap().finished, 1);
    assert_eq!(files(&f.0.join("job/out")), 3);
}

/// A worker that lives, and renews its claim, but computes nothing loses its chunk.
#[test]
fn a_hanging_worker_loses_its_chunk() {
    let f = folder("hanging");
    let (parts, whole) = prepared(&f.0, "toy_2_2", 4);
    let job = parts.make(f.0.join("job")).unwrap();
    let (hangs, hung) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let ended = std::sync::Mutex::new(ended);
    let hang = move |_, _| {
        // The second question comes in the middle of the first chunk.
        if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 {
            hangs.send(()).unwrap();
            let _ = ended.lock().unwrap().recv();
        }
        ControlFlow::Continue(())
    };
    let first = {
        let (job, patience) = (job.clone(), Duration::from_millis(300));
        let worker = Worker { patience, ..worker("hanging", 100) };
        std::thread::spawn(move || job.work(&Cpu::new(1).unwrap(), &worker, &hang, &mut |_| {}))
    };
    hung.recv().unwrap();
    let second = work(&job, &worker("second", 100)).unwrap();
    assert_eq!(second.finished, 2);
    drop(end);
    let first = first.join().unwrap().unwrap();
    assert_eq!((first.finished, first.dropped, first.differing.len()), (0, 1, 0));
    assert!(collected(&job, &f.0).unwrap() == whole);
}

/// Workers check each other. One that most others contradict is left out, with all of its results.
#[test]
fn a_worker_that_differs_is_left_out() {
    let f = folder("quorum");
    let (parts, whole) = prepared(&f.0, "toy_2_2_p", 12);
    let parts = Parts { verify: 1.0, ..parts };
    let job = parts.make(f.0.join("job")).unwrap();
    let machine = Cpu::new(1).unwrap();
    let runner = Runner::open(&job, &machine, Trust::insecure(), UNWATCHED).unwrap();
    let (liar, mut queue) = (worker("liar", 60_000), Queue::new(job.clone()));
    for _ in 0..2 {
        let Next::Chunk(loan) = queue.next(&liar, &runner.class()).unwrap() else { panic!() };
        let inputs = job.inputs(loan.chunk(), u64::MAX).unwrap();
        let mut made = runner.run(&inputs, UNWATCHED).unwrap();
        *made[0].last_mut().unwrap() ^= 1;
        let chunk = loan.chunk();
        assert_eq!(job.finish(loan, &runner.class(), &made).unwrap(), Event::Finished(chunk));
    }
    // One honest worker contradicts it, and nobody knows who is right.
    let first = work(&job, &worker("first", 60_000)).unwrap();
    assert_eq!((first.finished, first.checked, first.differing.len()), (4, 0, 2), "{first:?}");
    assert_eq!(job.status().unwrap().disputed, [0, 1]);
    let refused = collected(&job, &f.0).unwrap_err();
    assert!(refused.to_string().contains("differ"), "{refused}");
    // A second one settles it, and a chunk that a worker made is checked by the other.
    let second = work(&job, &worker("second", 60_000)).unwrap();
    assert_eq!(second.finished, 2, "{second:?}");
    let status = job.status().unwrap();
    assert_eq!((status.disputed.len(), status.left_out.contains_key("liar")), (0, true));
    let error = queue.next(&liar, &runner.class()).err().unwrap();
    assert!(error.to_string().contains("liar"), "{error}");
    assert_eq!(work(&job, &worker("first", 60_000)).unwrap().finished, 0);
    let status = job.status().unwrap();
    assert_eq!((status.done, status.checked, status.checks), (6, 6, 6));
    assert!(collected(&job, &f.0).unwrap() == whole);
}

/// Cuts and flips a file at several places, and puts it back.
fn each_damage(path: &Path, read: impl Fn() -> Result<()>) {
    let (good, parent) = (fs::read(path).unwrap(), path.parent().unwrap());
    let beside = fs::read_dir(parent).unwrap().map(|e| e.unwrap().path());
    let beside: Vec<_> =
        beside.filter(|p| p.is_file()).map(|p| (fs::read(&p).unwrap(), p)).collect();
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut all: Vec<Vec<u8>> =
        [0, 1, good.len() / 2, good.len() - 1].map(|n| good[..n].to_vec()).into();
    let places = (0..good.len()).step_by(good.len() / 24 + 1).chain([good.len() - 1]);
    all.extend(places.map(|at| {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        bad
    }));
    for bad in all {
        fs::write(path, &bad).unwrap();
        let error = read().expect_err(name);
        assert!(matches!(error, Error::BadFile(_) | Error::Io(_)), "{name}: {error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
        // Damaged results are moved away.
        if !parent.exists() {
            fs::create_dir(parent).unwrap();
            beside.iter().for_each(|(bytes, p)| fs::write(p, bytes).unwrap());
        }
    }
    fs::write(path, good).unwrap();
}

/// A record with a checksum, as a worker writes it.
fn sealed(text: &str) -> String {
    let body = text.split(",\"checksum\"").next().unwrap();
    let sum = blake3::hash(format!("{body}}}").as_bytes()).to_hex();
    format!("{body},\"checksum\":\"{sum}\"}}\n")
}

#[test]
fn a_worker_that_writes_wrong_results_is_named() {
    let f = folder("wrong");
    let (parts, _) = prepared(&f.0, "toy_2_2_p", 4);
    let job = parts.make(f.0.join("job")).unwrap();
    work(&job, &Worker { once: true, ..worker("honest", 60_000) }).unwrap();
    work(&job, &worker("liar", 60_000)).unwrap();
    // The second chunk gets the results of the first, with records that fit them.
    let out = f.0.join("job/out");
    let [first, second] = ["000000", "000001"].map(|name| out.join(name));
    fs::copy(first.join("000000.becalm"), second.join("000000.becalm")).unwrap();
    let text = |folder: &Path| fs::read_to_string(folder.join("done.json")).unwrap();
    let digest = |text: &str| text.split("\"results\":[\"").nth(1).unwrap()[..64].to_string();
    let (honest, lie) = (text(&first), text(&second));
    let lie = sealed(&lie.replace(&digest(&lie), &digest(&honest)));
    fs::write(second.join("done.json"), lie).unwrap();
    collected(&job, &f.0).unwrap();
    let found =
        job.verify(&Cpu::new(1).unwrap(), 1.0, false, Trust::insecure(), UNWATCHED).unwrap();
    assert_eq!((found.equal, found.differing.len()), (1, 1));
    assert_eq!((found.differing[0].chunk, found.differing[0].worker.as_str()), (1, "liar"));
    // A record of another chunk, or of another job, is none of this one.
    fs::write(second.join("done.json"), honest).unwrap();
    assert!(collected(&job, &f.0).unwrap_err().to_string().contains("record of chunk 1"));
    assert!(!second.exists(), "it was moved away");
    // A class that cannot be compared is said to be one.
    let other = sealed(&text(&first).replace("\"class\":\"exact\"", "\"class\":\"abacus\""));
    fs::write(first.join("done.json"), other).unwrap();
    let found =
        job.verify(&Cpu::new(1).unwrap(), 1.0, false, Trust::insecure(), UNWATCHED).unwrap();
    assert_eq!((found.equal, found.incomparable), (0, 1));
}

#[test]
fn manifests_that_lie_are_refused() {
    let f = folder("manifest");
    let (parts, _) = prepared(&f.0, "toy_2_2", 4);
    let job = parts.make(f.0.join("job")).unwrap();
    let path = f.0.join("job/job.json");
    let good = fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("\"lanes\":4", "\"lanes\":5"),
        ("\"lanes\":4", "\"lanes\":0"),
        ("\"lanes\":4", "\"lanes\":18446744073709551615"),
        ("\"chunk\":2", "\"chunk\":0"),
        ("\"chunk\":2", "\"chunk\":1"),
        ("\"arguments\":1", "\"arguments\":4000000000"),
        ("\"results\":1", "\"results\":0"),
        ("\"version\":1", "\"version\":2"),
        ("\"slot_keys\":[]", "\"slot_keys\":[\"../../secret\"]"),
        ("\"exact\":false", "\"exact\":false,\"path\":\"x\""),
        ("\"exact\":false", "\"exact\": false"),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(&path, sealed(&good.replace(from, to))).unwrap();
        let error = Job::open(job.folder()).expect_err(to);
        assert!(matches!(error, Error::BadFile(_)), "{to}: {error}");
    }
    // Another version of becalm may compute otherwise.
    let version = format!("\"becalm\":\"{}\"", env!("CARGO_PKG_VERSION"));
    fs::write(&path, sealed(&good.replace(&version, "\"becalm\":\"0.0.0\""))).unwrap();
    let error = work(&Job::open(job.folder()).unwrap(), &worker("a", 60_000)).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
}

/// A file with the header of a kind and nothing else.
fn headed(kind: Kind) -> Vec<u8> {
    let names: &[&str] = match kind {
        Kind::SlotKey => &["key", "slots"],
        Kind::Lwe => &["encoding", "key", "noise", "range", "role"],
        Kind::Glwe => &["encoding", "key", "noise", "range"],
        Kind::Integers => &["encoding", "key", "noise", "range", "role", "type"],
        Kind::Bits => &["content", "encoding", "key", "noise", "range", "role"],
        Kind::Program | Kind::CkksProgram => &[],
        Kind::Rlwe => &["error", "key", "level", "scale", "slots"],
        Kind::CkksKeyShare => &["key", "parties", "party", "split", "threshold"],
        Kind::CkksPartial => &["ciphertext", "key", "level", "party", "quorum", "split"],
        Kind::CkksParty => &["keys", "parties", "party", "seed", "threshold"],
        Kind::CkksMessage => &["keys", "parties", "party", "round", "seed", "threshold"],
        Kind::BridgeKey => &["key", "moduli", "source", "source_key"],
        Kind::PackingKey => &["key", "moduli", "target", "target_key"],
        _ => &["key"],
    };
    let mut entries: Vec<(&str, String)> = names.iter().map(|name| (*name, "1".into())).collect();
    entries.iter_mut().filter(|(name, _)| *name == "quorum").for_each(|e| e.1 = "1 2".into());
    entries.iter_mut().filter(|(name, _)| *name == "key").for_each(|e| e.1 = "0".repeat(32));
    entries.extend([("checksum", "0".repeat(64)), ("format", kind.name().into())]);
    entries.extend([("params", "{}".to_string()), ("version", "1".into())]);
    entries.sort();
    let texts: Vec<String> =
        entries.iter().map(|(name, text)| format!("\"{name}\":\"{text}\"")).collect();
    let mut json = format!("{{\"__metadata__\":{{{}}}}}", texts.join(",")).into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    [&(json.len() as u64).to_le_bytes()[..], &json].concat()
}

/// Kinds that hold no secret, and have no place in a job.
const OTHERS: [Kind; 7] = [
    Kind::Glwe,
    Kind::Integers,
    Kind::Bits,
    Kind::CkksPublicKey,
    Kind::CkksMessage,
    Kind::BridgeKey,
    Kind::PackingKey,
];

#[test]
fn every_other_kind_of_file_is_refused_and_secrets_above_all() {
    let f = folder("kinds");
    let (parts, _) = prepared(&f.0, "toy_2_2", 2);
    let wrong = f.0.join("wrong");
    let secret = [
        Kind::SecretKey,
        Kind::CkksSecretKey,
        Kind::CkksKeyShare,
        Kind::CkksPartial,
        Kind::CkksParty,
    ];
    // Evaluation keys of CKKS are a format of their own.
    assert_eq!(
        becalm::job::admit(b"becalm ckks 0003", 1 << 20).ok(),
        Some(Kind::CkksEvaluationKeys)
    );
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::CkksEvaluationKeys) {
        let bytes = headed(kind);
        let taken = !secret.contains(&kind) && !OTHERS.contains(&kind);
        match becalm::job::admit(&bytes, bytes.len() as u64) {
            Ok(found) => assert!(taken && found == kind, "{kind}"),
            Err(e) => {
                assert!(!taken && e.detail().got.contains(kind.words()), "{e}");
                let said = e.detail().remedy.contains("keep that file secret");
                assert_eq!(said, secret.contains(&kind), "{e}");
            }
        }
        let half = becalm::job::admit(&bytes[..bytes.len() / 2], bytes.len() as u64);
        assert_eq!(half.map_err(|e| e.kind()), Err("bad_file"), "{kind}");
        fs::write(&wrong, &bytes).unwrap();
        let places = [
            (Kind::Program, Parts { program: bytes, ..parts.clone() }),
            (Kind::EvaluationKey, Parts { keys: wrong.clone(), ..parts.clone() }),
            (Kind::SlotKey, Parts { slot_keys: vec![wrong.clone()], ..parts.clone() }),
            (
                Kind::Lwe,
                Parts { inputs: vec![parts.inputs[0].clone(), wrong.clone()], ..parts.clone() },
            ),
        ];
        for (wanted, parts) in places {
            let Err(error) = parts.make(f.0.join("job")) else { panic!("{kind} for {wanted}") };
            // A program of CKKS wants other keys: those are refused then.
            if kind != wanted && (wanted, kind) != (Kind::Program, Kind::CkksProgram) {
                assert!(matches!(error, Error::BadInput(_)), "{kind} for {wanted}: {error}");
                assert!(error.detail().got.contains(kind.words()), "{error}");
                let said = error.detail().remedy.contains("keep that file secret");
                assert_eq!(said, secret.contains(&kind), "{error}");
            }
            assert!(!f.0.join("job").exists());
        }
    }
    // Nothing of a refused job stays.
    let left = fs::read_dir(&f.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
}
