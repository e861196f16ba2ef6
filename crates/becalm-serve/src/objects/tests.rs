//! Jobs in a store in memory, which keeps the conditions of the others: every state of a chunk, damage, claims, and what errors say.

#[path = "../../../becalm/tests/jobs/mod.rs"]
mod jobs;

use super::*;
use becalm::UNWATCHED;
use becalm::backend::Cpu;
use becalm::cipher::file::Trust;
use becalm::job::{Event, Job, Next, Parts, Queue, Runner, Worked, Worker};
use jobs::{Folder, ckks_squares, folder, squares};
use object_store::memory::InMemory;

fn store() -> Objects {
    Objects::new(Arc::new(InMemory::new()), "jobs/first", "s3://bucket/jobs/first").unwrap()
}

/// A folder for files, a job of `lanes` squares in a store, and the bytes of one machine.
fn prepared(name: &str, lanes: usize) -> (Folder, Objects, Parts, Vec<u8>) {
    let f = folder(&format!("objects-{name}"));
    let (parts, mut whole) = squares(&f.0, "toy_2_2_p", lanes, lanes);
    let place = store();
    parts.make_at(Arc::new(place.clone())).unwrap();
    (f, place, parts, whole.remove(0))
}

fn opened(place: &Objects) -> Job {
    Job::open_at(Arc::new(place.clone())).unwrap()
}

fn worker(name: &str, lease: u64) -> Worker {
    let lease = Duration::from_millis(lease);
    Worker { lease, trust: Trust::insecure(), ..Worker::new(name) }
}

fn work(job: &Job, worker: &Worker) -> Worked {
    job.work(&Cpu::new(1).unwrap(), worker, UNWATCHED, &mut |_| {}).unwrap()
}

fn collected(job: &Job, f: &Folder) -> Result<Vec<u8>> {
    let out = f.0.join("y.becalm");
    job.collect(std::slice::from_ref(&out), true, Trust::insecure())?;
    Ok(std::fs::read(out).unwrap())
}

/// All names below the prefix of the job.
fn all(place: &Objects) -> Vec<String> {
    let mut names = vec![];
    place.wait(async {
        let mut objects = place.store.list(None);
        while let Some(object) = poll_fn(|context| objects.as_mut().poll_next(context)).await {
            names.push(object.unwrap().location.to_string());
        }
    });
    names
}

#[test]
fn workers_at_once_make_the_bytes_of_one_machine() {
    let (f, place, parts, whole) = prepared("at-once", 9);
    let worked: Vec<Worked> = std::thread::scope(|scope| {
        let place = &place;
        let start = |name| scope.spawn(move || work(&opened(place), &worker(name, 60_000)));
        let threads: Vec<_> = ["a", "b"].into_iter().map(start).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(worked.iter().map(|w| w.finished).sum::<usize>(), 5);
    assert!(worked.iter().all(|w| w.dropped == 0 && w.taken_over == 0), "{worked:?}");
    let job = opened(&place);
    assert!(collected(&job, &f).unwrap() == whole);
    let status = job.status().unwrap();
    assert_eq!((status.done, status.left, status.claimed), (5, 0, 0));
    // Manifest, program, keys; inputs, results and records of five chunks; no claim is left, and nothing outside the prefix.
    let names = all(&place);
    assert_eq!(names.len(), 3 + 3 * 5, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("jobs/first/")), "{names:?}");
    let verified = job.verify(&Cpu::new(1).unwrap(), 1.0, false, Trust::insecure(), UNWATCHED);
    assert_eq!(verified.unwrap().equal, 5);
    // A job is made once, and what was refused changes nothing.
    let again = parts.make_at(Arc::new(place.clone())).unwrap_err();
    assert!(again.to_string().contains("s3://bucket/jobs/first, which exists"), "{again}");
    assert_eq!(all(&place).len(), names.len());
}

#[test]
fn lanes_of_ckks_come_out_as_they_do_from_a_folder() {
    let f = folder("objects-ckks");
    let (parts, wanted) = ckks_squares(&f.0, 3);
    let job = parts.make_at(Arc::new(store())).unwrap();
    work(&job, &worker("a", 60_000));
    let out: Vec<PathBuf> = (0..3).map(|i| f.0.join(format!("y{i}"))).collect();
    job.collect(&out, false, Trust::insecure()).unwrap();
    for (path, wanted) in out.iter().zip(&wanted) {
        assert!(std::fs::read(path).unwrap() == *wanted, "{}", path.display());
    }
}

/// A claim that nobody renews is taken over, whatever its bytes are; one that changes is left alone.
#[test]
fn only_a_claim_that_does_not_change_is_taken_over() {
    let (f, place, parts, whole) = prepared("claims", 4);
    place.put("claims/000000", b"").unwrap();
    let worked = work(&opened(&place), &worker("a", 50));
    assert_eq!((worked.finished, worked.taken_over), (2, 1));
    assert!(collected(&opened(&place), &f).unwrap() == whole);
    let other = store();
    let job = parts.make_at(Arc::new(other.clone())).unwrap();
    other.put("claims/000001", b"0").unwrap();
    let mut waits = 0;
    let note = &mut |event: &Event| {
        if *event == Event::Waiting {
            waits += 1;
            other.put("claims/000001", waits.to_string().as_bytes()).unwrap();
            if waits == 3 {
                other.remove("claims/000001").unwrap();
            }
        }
    };
    let worked = job.work(&Cpu::new(1).unwrap(), &worker("a", 600_000), UNWATCHED, note).unwrap();
    assert_eq!((worked.taken_over, waits), (0, 3));
}

/// A claim belongs to whoever made its last version: the other can neither renew nor remove it.
#[test]
fn a_claim_that_was_taken_over_stays_the_other_workers() {
    let place = store();
    let mut first = place.claim("claims/000000", b"first 0").unwrap().unwrap();
    assert!(place.claim("claims/000000", b"second 0").unwrap().is_none());
    first.renew(b"first 1").unwrap();
    assert!(!place.free("claims/000000", b"first 0").unwrap(), "it has changed since");
    assert!(place.free("claims/000000", b"first 1").unwrap());
    let mut second = place.claim("claims/000000", b"second 0").unwrap().unwrap();
    let refused = first.renew(b"first 2").unwrap_err();
    assert!(refused.to_string().contains("another worker"), "{refused}");
    first.release();
    assert_eq!(place.read("claims/000000", 100).unwrap().unwrap(), b"second 0");
    second.release();
    assert_eq!(place.read("claims/000000", 100).unwrap(), None);
    // An answer that was lost: the same write again is the one that succeeded.
    place.claim("claims/000001", b"third 0").unwrap().unwrap();
    let mut again = place.claim("claims/000001", b"third 0").unwrap().unwrap();
    again.renew(b"third 1").unwrap();
}

/// Every damage is found, and the remedy works.
#[test]
fn damage_is_found_and_computed_again() {
    let (f, place, _, whole) = prepared("damage", 4);
    let job = opened(&place);
    work(&job, &worker("a", 60_000));
    let names = all(&place);
    let find = |part: &str| {
        let name = names.iter().find(|name| name.contains(part)).unwrap();
        name.strip_prefix("jobs/first/").unwrap().to_string()
    };
    let (result, record) = (find("out/000001/000000-"), find("out/000000/done.json"));
    let good = place.read(&result, u64::MAX).unwrap().unwrap();
    for bad in [&good[..0], &good[..good.len() - 1], &[&good[..], b"x"].concat()] {
        place.put(&result, bad).unwrap();
        let refused = collected(&job, &f).unwrap_err();
        assert!(refused.to_string().contains("out/000001/000000"), "{refused}");
        assert_eq!(work(&job, &worker("a", 60_000)).finished, 1);
        assert!(collected(&job, &f).unwrap() == whole);
    }
    for bad in [&b""[..], b"{}"] {
        place.put(&record, bad).unwrap();
        assert_eq!(job.status().unwrap().damaged, [0]);
        assert_eq!(work(&job, &worker("a", 60_000)).finished, 1);
        assert!(collected(&job, &f).unwrap() == whole);
    }
    for part in ["keys-", "program-", "job.json"] {
        let name = find(part);
        let good = place.read(&name, u64::MAX).unwrap().unwrap();
        place.put(&name, &good[..good.len() / 2]).unwrap();
        place.remove(&record).unwrap();
        let opened = Job::open_at(Arc::new(place.clone()));
        let worked = opened.and_then(|job| {
            job.work(&Cpu::new(1)?, &worker("a", 60_000), UNWATCHED, &mut |_| {}).map(drop)
        });
        assert!(matches!(worked, Err(Error::BadFile(_))), "{part}: {worked:?}");
        place.put(&name, &good).unwrap();
    }
}

/// Results that come late are compared and dropped, and a worker that contradicts two others is left out.
#[test]
fn late_results_are_dropped_and_wrong_ones_found() {
    let (f, place, _, whole) = prepared("late", 2);
    let job = opened(&place);
    let runner = Runner::open(&job, &Cpu::new(1).unwrap(), Trust::insecure(), UNWATCHED).unwrap();
    let mut queue = Queue::new(job.clone());
    let Next::Chunk(late) = queue.next(&worker("late", 60_000), &runner.class()).unwrap() else {
        panic!()
    };
    let made = runner.run(&job.inputs(0, u64::MAX).unwrap(), UNWATCHED).unwrap();
    place.remove("claims/000000").unwrap();
    assert_eq!(work(&job, &worker("second", 60_000)).finished, 1);
    let record = place.read("out/000000/done.json", u64::MAX).unwrap();
    assert_eq!(job.finish(late, &runner.class(), &made).unwrap(), Event::Dropped(0));
    assert_eq!(place.read("out/000000/done.json", u64::MAX).unwrap(), record);
    assert!(collected(&job, &f).unwrap() == whole);
    job.leave_out("second", 0).unwrap();
    assert_eq!(job.status().unwrap().done, 0);
    assert_eq!(work(&job, &worker("third", 60_000)).finished, 1);
    assert!(collected(&job, &f).unwrap() == whole);
}

/// A large file goes in parts, and comes back whole.
#[test]
fn a_large_file_goes_in_parts() {
    let (f, place) = (folder("objects-parts"), store());
    let path = f.0.join("large");
    let bytes: Vec<u8> = (0..WHOLE as usize + 12_345).map(|i| (i / 7) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let digest = Digest::of(&bytes);
    place.send(&path, &filed("keys.becalm", digest)).unwrap();
    assert_eq!(place.digest("keys.becalm", digest).unwrap(), Some(digest));
    let local = place.local("keys.becalm", digest).unwrap();
    assert!(std::fs::read(&local).unwrap() == bytes);
    let copy = local.to_path_buf();
    drop(local);
    assert!(!copy.exists(), "the copy is removed");
}

#[test]
fn addresses_and_errors_hold_no_secrets() {
    for wrong in [
        "s3://bucket",
        "s3:///job",
        "s3://bucket/",
        "ftp://bucket/job",
        "s3://key:secret@bucket/job",
        "s3://bucket/job?token=secret",
        "az://c/job#secret",
    ] {
        let refused = Objects::open(wrong).unwrap_err().to_string();
        assert!(!refused.contains("secret") && refused.contains("environment"), "{refused}");
    }
    let body = "Error performing GET http://host/job?X-Amz-Security-Token=secret in 1ms - Server returned non-2xx status code: \
        403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code><StringToSign>secret</StringToSign></Error>";
    let generic = |text: &str| Refused::Generic { store: "S3", source: text.to_string().into() };
    assert_eq!(said(&generic(body)), "status 403 (SignatureDoesNotMatch)");
    assert_eq!(said(&generic("<Code>se cret</Code>")), "an error of the store");
    assert_eq!(said(&generic("HTTP error: secret")), "no answer");
}
