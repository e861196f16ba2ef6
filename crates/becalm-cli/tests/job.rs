//! `becalm job` as users run it: several processes on one folder, processes that are killed and stopped, and `becalm eval` beside it.
#![cfg(unix)]

mod harness;

use harness::{Folder, TABLE};
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

impl Folder {
    fn worker(&self, name: &str, lease: &str) -> Child {
        let line = format!(
            "job work job --allow-insecure --threads 1 --name {name} --lease {lease} --json"
        );
        self.command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until a worker has begun: for minutes, as the machine may be busy.
    fn await_start(&self) {
        let began = Instant::now();
        while !["job/claims/000000", "job/out/000000"].iter().any(|name| self.0.join(name).exists())
        {
            assert!(began.elapsed() < Duration::from_secs(120), "no worker has begun");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn finished(worker: Child) -> serde_json::Value {
    let out = worker.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Keys, `lanes` ciphertexts, what `becalm eval` makes of them, and the same as a job.
fn prepared(name: &str, lanes: usize, chunk: usize) -> Folder {
    let f = Folder::with_table(&format!("job-{name}"), lanes);
    let made = f.json(&format!(
        "job make job x.becalm --table {TABLE} --chunk {chunk} --allow-insecure --json"
    ));
    assert_eq!(made["chunks"], lanes.div_ceil(chunk));
    // An estimate for all lanes, before anything runs.
    let time = &made["time"];
    assert_eq!(time["measured"], false);
    let lane = time["seconds"].as_f64().unwrap() / lanes as f64;
    assert!(lane > 1e-7 && lane < 1e-2, "{lane} s for a lane of a toy set");
    f
}

/// The results of the job are those of one process, byte for byte.
fn collected(f: &Folder) {
    f.succeed("job collect job -o y.becalm --allow-insecure");
    assert!(f.read("y.becalm") == f.read("whole.becalm"), "other bytes than `becalm eval`");
}

#[test]
fn two_workers_equal_one() {
    let f = prepared("two", 60, 4);
    let refused = f.run("job collect job -o y.becalm --allow-insecure");
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("15 missing: 0, 1, 2"));
    let workers = [f.worker("a", "60"), f.worker("b", "60")].map(finished);
    let done: u64 = workers.iter().map(|w| w["finished"].as_u64().unwrap()).sum();
    assert_eq!(done, 15, "{workers:?}");
    assert!(workers.iter().all(|w| w["dropped"] == 0), "{workers:?}");
    collected(&f);
    let status = f.json("job status job --json");
    assert_eq!(
        (&status["done"], &status["left"], &status["claimed"]),
        (&15.into(), &0.into(), &0.into())
    );
    let said = f.succeed("job status job");
    assert!(said.contains("15 of 15 chunks") && said.contains("all chunks"), "{said}");
    let checked = f.json("job verify job --share 0.3 --allow-insecure --json");
    assert_eq!(checked["equal"], 5);
    // A later worker has nothing to do, and says so.
    let later = finished(f.worker("c", "60"));
    assert_eq!((&later["finished"], &later["job_done"]), (&0.into(), &true.into()));
    let said = f.succeed("job work job --allow-insecure");
    assert!(said.contains("0 chunks finished, 0 lanes; the job is done"), "{said}");
}

#[test]
fn a_chunk_of_a_killed_worker_is_taken_over() {
    let f = prepared("killed", 1200, 400);
    let mut first = f.worker("first", "1");
    f.await_start();
    first.kill().unwrap();
    first.wait().unwrap();
    // However fast the machine is, either the claim or the result is there.
    let open = f.0.join("job/claims/000000").exists() && !f.0.join("job/out/000000").exists();
    let second = finished(f.worker("second", "1"));
    if open {
        assert_eq!((&second["finished"], &second["taken_over"]), (&3.into(), &1.into()));
    }
    collected(&f);
    let left = |name: &str| std::fs::read_dir(f.0.join(name)).unwrap().count();
    assert_eq!((left("job/claims"), left("job/out")), (0, 3), "nothing of the dead worker stays");
}

#[test]
fn a_stopped_worker_gives_its_chunk_back() {
    let f = prepared("stopped", 1200, 400);
    let worker = f.worker("first", "60");
    f.await_start();
    let pid = worker.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    let out = worker.wait_with_output().unwrap();
    // A machine that finished the whole job before the signal came ends well.
    assert!(matches!(out.status.code(), Some(0 | 143)), "{out:?}");
    assert_eq!(std::fs::read_dir(f.0.join("job/claims")).unwrap().count(), 0);
    assert_eq!(finished(f.worker("second", "60"))["taken_over"], 0);
    collected(&f);
}

/// A paused process whose chunk is taken over goes on later, and its results are dropped.
#[test]
fn a_worker_that_wakes_up_late_changes_nothing() {
    let f = prepared("paused", 400, 400);
    let first = f.worker("first", "1");
    f.await_start();
    let signal = |name: &str| Command::new("kill").args([name, &first.id().to_string()]).status();
    signal("-STOP").unwrap();
    let second = finished(f.worker("second", "1"));
    signal("-CONT").unwrap();
    let first = finished(first);
    let sum = |name: &str| first[name].as_u64().unwrap() + second[name].as_u64().unwrap();
    assert_eq!(sum("finished"), 1, "{first} {second}");
    assert_eq!(
        (&first["differing"], &second["differing"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
    collected(&f);
}

/// A worker outlives the pipe and the disk that its messages go to.
#[test]
fn a_worker_that_nobody_hears_goes_on() {
    let f = prepared("unheard", 40, 10);
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let line = "job work job --allow-insecure --device cpu --once --json";
    let out = f.command(line).stderr(closed).output().unwrap();
    assert!(out.status.success(), "{:?}", out.status);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let out = f.command(&line.replace("--once ", "")).stderr(full).output().unwrap();
    assert!(out.status.success(), "{:?}", out.status);
    let worked: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(worked["finished"], 3);
    collected(&f);
}

#[test]
fn a_full_disk_loses_nothing() {
    let f = prepared("full", 40, 20);
    let line = "ulimit -f 8; exec \"$0\" job work job --allow-insecure --device cpu";
    let mut shell = Command::new("sh");
    let out = shell.current_dir(&f.0).args(["-c", line, env!("CARGO_BIN_EXE_becalm")]).output();
    let out = out.unwrap();
    assert_eq!(out.status.code(), Some(4), "{}", String::from_utf8_lossy(&out.stderr));
    let left = |name: &str| std::fs::read_dir(f.0.join(name)).unwrap().count();
    assert_eq!((left("job/claims"), left("job/out")), (0, 0));
    assert_eq!(finished(f.worker("second", "60"))["finished"], 2);
    collected(&f);
}

#[test]
fn secrets_and_folders_that_exist_are_refused() {
    let f = prepared("secret", 2, 1);
    let again = f.run(&format!("job make job x.becalm --table {TABLE} --allow-insecure"));
    assert_eq!(again.status.code(), Some(4));
    let line = format!("job make other secret.becalm --table {TABLE} --allow-insecure");
    assert!(!f.run(&line).status.success());
    let line = "job make other x.becalm --program job/program.becalm --evaluation secret.becalm --allow-insecure";
    let refused = f.run(line);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("keep that file secret"));
    assert!(!f.0.join("other").exists());
    let hidden = std::fs::read_dir(&f.0)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with(".becalm-job"));
    assert_eq!(hidden.count(), 0);
}
