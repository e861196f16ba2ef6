//! `becalm serve` as its keeper runs it: processes that are killed, stopped and started again.
#![cfg(unix)]

mod harness;

use becalm::cipher::Lwe;
use becalm::cipher::file::Trust;
use becalm::job::Parts;
use becalm_serve::{Client, RemoteJob};
use harness::{Folder, TABLE};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A service; it is killed when dropped.
struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keys, ciphertexts, their results, a program, and a file of tokens.
fn prepared(name: &str, lanes: usize) -> Folder {
    let f = Folder::with_table(&format!("serve-{name}"), lanes);
    f.succeed(&format!("job make job x.becalm --table {TABLE} --allow-insecure"));
    std::fs::write(f.0.join("tokens"), format!("alice {TOKEN}\n")).unwrap();
    f.mode("tokens", "600");
    f
}

impl Folder {
    fn mode(&self, name: &str, mode: &str) {
        assert!(Command::new("chmod").arg(mode).arg(self.0.join(name)).status().unwrap().success());
    }

    fn serve(&self, more: &str) -> Served {
        let line = format!(
            "serve served --tokens tokens --allow-insecure --threads 1 --lease 1 --json {more}"
        );
        let mut child = self.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut text = String::new();
        while !text.ends_with("}\n") {
            let line = lines.next().expect("the address").unwrap();
            text += &format!("{line}\n");
        }
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        Served { child, address: said["address"].as_str().unwrap().to_string() }
    }

    fn parts(&self, chunk: usize) -> Parts {
        Parts {
            program: std::fs::read(self.0.join("job/program.becalm")).unwrap(),
            keys: self.0.join("evaluation.becalm"),
            slot_keys: vec![],
            inputs: vec![self.0.join("x.becalm")],
            chunk: Some(chunk),
            verify: 0.0,
            trust: Trust::insecure(),
        }
    }

    /// The results of the job are those of one process, byte for byte.
    fn same(&self, job: &RemoteJob) {
        let chunk =
            |chunk| Lwe::from_bytes(&job.wait(chunk).unwrap()[0], Trust::insecure()).unwrap();
        let parts: Vec<Lwe> = (0..job.chunks()).map(chunk).collect();
        let whole = Lwe::concat(&parts).unwrap().to_bytes().unwrap();
        assert!(whole == std::fs::read(self.0.join("whole.becalm")).unwrap());
    }
}

/// The client is not told: it asks again until the service is back, and every job that it asked for is computed.
#[test]
fn a_service_that_is_killed_loses_nothing() {
    let f = prepared("killed", 120);
    let served = f.serve("--listen 127.0.0.1:0");
    let port = served.address.rsplit(':').next().unwrap().to_string();
    let client = Client::new(&served.address, TOKEN, None).unwrap();
    let first = client.make(&f.parts(4), "first").unwrap();
    first.wait(0).unwrap();
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let jobs: Vec<RemoteJob> =
                (0..3).map(|i| client.make(&f.parts(8), &i.to_string()).unwrap()).collect();
            jobs.iter().for_each(|job| f.same(job));
        });
        let mut served = served;
        for pause in [20, 150, 300] {
            std::thread::sleep(Duration::from_millis(pause));
            drop(served);
            served = f.serve(&format!("--listen 127.0.0.1:{port}"));
        }
        asks.join().unwrap();
        f.same(&first);
        drop(served);
    });
}

#[test]
fn a_service_that_is_stopped_gives_its_chunk_back_and_ends_well() {
    let f = prepared("stopped", 400);
    let mut served = f.serve("--listen 127.0.0.1:0");
    let job = Client::new(&served.address, TOKEN, None).unwrap().make(&f.parts(100), "").unwrap();
    let place = f.0.join("served/alice/jobs").join(job.id());
    while files(&place.join("claims")) + files(&place.join("out")) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    Command::new("kill").args(["-TERM", &served.child.id().to_string()]).status().unwrap();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    assert_eq!(files(&place.join("claims")), 0);
    // Others may finish the job by its folder.
    let line = format!("job work {} --allow-insecure --device cpu", place.display());
    f.succeed(&line);
    assert_eq!(files(&place.join("out")), 4);
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Otherwise its jobs would wait for ever. Without workers of its own the machine is that of others.
#[test]
fn a_service_whose_machine_is_not_there_does_not_start() {
    let f = prepared("machine", 1);
    let line = "serve served --tokens tokens --listen 127.0.0.1:0 --device cuda";
    let out = f.command(line).env("CUDA_VISIBLE_DEVICES", "-1").output().unwrap();
    assert_eq!(out.status.code(), Some(6), "{out:?}");
    drop(f.serve("--listen 127.0.0.1:0 --device cuda --workers 0"));
}

#[test]
fn a_service_that_would_be_open_to_all_does_not_start() {
    let f = prepared("open", 1);
    let line = "serve served --tokens tokens --listen 0.0.0.0:0";
    let out = f.run(line);
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stderr).contains("wanted TLS"), "{out:?}");
    f.mode("tokens", "644");
    let out = f.run("serve served --tokens tokens --listen 127.0.0.1:0");
    assert_eq!(out.status.code(), Some(4));
    let says = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(says.contains("chmod 600") && !says.contains(TOKEN), "{says}");
    assert_eq!(f.run("serve served --tokens tokens --tls-key tokens").status.code(), Some(2));
}
