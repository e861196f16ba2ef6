//! The fault campaign of `becalm job`: workers and drivers that are killed, disks that are full, files that are damaged, workers that lie,
//! hang or are of another version. After every round the results are those of one process, byte for byte, and no chunk was computed
//! again whose results were whole. `make faults` prints the table.
#![cfg(unix)]

use becalm::UNWATCHED;
use becalm::backend::Cpu;
use becalm::cipher::file::Trust;
use becalm::job::{Job, Next, Queue, Runner, Worker};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

const TABLE: &str = "1,2,5,10,1,10,5,2,1,2,5,10,1,10,5,2";
const LANES: usize = 384;
const CHUNKS: usize = 24;
const HOUR: Duration = Duration::from_secs(3600);

/// Random numbers of a seed that a failure names.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// Keys, a batch, its results by one process, and a job that is made again in every round.
struct Campaign {
    folder: PathBuf,
    whole: Vec<u8>,
    dice: Dice,
    /// Faults by kind: how many, and how many of them were told of.
    counts: BTreeMap<&'static str, (usize, usize)>,
    /// Whole records that were seen, by chunk.
    seen: BTreeMap<usize, Vec<u8>>,
    workers: usize,
}

impl Drop for Campaign {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Campaign {
    fn new(name: &str, seed: u64) -> Campaign {
        let folder = std::env::temp_dir().join(format!("becalm-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let (counts, seen) = (BTreeMap::new(), BTreeMap::new());
        let mut c = Campaign { folder, whole: vec![], dice: Dice(seed), counts, seen, workers: 0 };
        c.succeed("keygen --params toy_2_2_p --allow-insecure");
        let values: Vec<String> = (0..LANES).map(|i| (i % 16).to_string()).collect();
        c.succeed(&format!("encrypt --values {} -o x.becalm --allow-insecure", values.join(",")));
        c.succeed(&format!("eval x.becalm --table {TABLE} -o whole.becalm --allow-insecure"));
        c.whole = fs::read(c.folder.join("whole.becalm")).unwrap();
        c
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
        command.current_dir(&self.folder).args(line.split_whitespace());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn succeed(&self, line: &str) {
        let out = self.command(line).output().unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    }

    fn make_line(name: &str) -> String {
        let chunk = LANES / CHUNKS;
        format!("job make {name} x.becalm --table {TABLE} --chunk {chunk} --allow-insecure")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join("job").join(name)
    }

    /// The line of a worker of a new name.
    fn line(&mut self) -> String {
        self.workers += 1;
        let name = format!("worker-{}", self.workers);
        format!("job work job --allow-insecure --threads 1 --lease 0.2 --name {name}")
    }

    fn worker(&mut self) -> Child {
        let line = self.line();
        self.command(&line).spawn().unwrap()
    }

    /// A worker runs until it ends by itself.
    fn work(&mut self) -> Output {
        self.worker().wait_with_output().unwrap()
    }

    fn pause(&mut self, most: usize) {
        let time = self.dice.below(most * 1000) as u64;
        std::thread::sleep(Duration::from_micros(time));
    }

    fn count(&mut self, kind: &'static str, told: bool) {
        let entry = self.counts.entry(kind).or_default();
        entry.0 += 1;
        entry.1 += usize::from(told);
    }

    /// Notes whole results. Those that were there before must be the same: nothing finished is computed twice.
    fn look(&mut self) {
        for chunk in 0..CHUNKS {
            let record = fs::read(self.path(&format!("out/{chunk:06}/done.json"))).ok();
            if let Some(before) = self.seen.get(&chunk) {
                assert!(record.as_ref() == Some(before), "chunk {chunk} was computed twice");
            }
            if let Some(record) = record {
                self.seen.insert(chunk, record);
            }
        }
    }

    /// A file of the job that is there, drawn.
    fn drawn(&mut self, folder: &str, file: &str) -> Option<(usize, PathBuf)> {
        let all: Vec<(usize, PathBuf)> = (0..CHUNKS)
            .map(|chunk| (chunk, self.path(&format!("{folder}/{chunk:06}/{file}"))))
            .filter(|(_, path)| path.exists())
            .collect();
        (!all.is_empty()).then(|| all[self.dice.below(all.len())].clone())
    }

    /// Cuts a file or flips a bit of it; the bytes of before.
    fn damage(&mut self, path: &Path) -> Vec<u8> {
        let good = fs::read(path).unwrap();
        let at = self.dice.below(good.len());
        let mut bad = good.clone();
        match self.dice.below(2) {
            0 => bad.truncate(at),
            _ => bad[at] ^= 1 << self.dice.below(8),
        }
        fs::write(path, bad).unwrap();
        good
    }

    fn killed_worker(&mut self) {
        let mut worker = self.worker();
        self.pause(120);
        let ended = worker.try_wait().unwrap().is_some();
        worker.kill().unwrap();
        worker.wait().unwrap();
        if !ended {
            self.count("`kill -9` of a worker at a random moment", false);
        }
    }

    /// The folder as a power cut leaves it between the write of results and their rename, or between a claim and its first bytes.
    fn cut_between(&mut self) {
        let chunk = self.dice.below(CHUNKS);
        if self.path(&format!("out/{chunk:06}")).exists() {
            return;
        }
        let nonce = self.dice.below(usize::MAX);
        let beside = self.path(&format!("out/.tmp-{nonce:016x}"));
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("000000.becalm"), [7; 100]).unwrap();
        fs::write(self.path(&format!("claims/{chunk:06}")), "").unwrap();
        self.count("power cut between write and rename", false);
    }

    fn full_disk(&mut self) {
        let line = self.line();
        if self.left() == 0 {
            return;
        }
        let blocks = self.dice.below(3);
        let shell = format!("ulimit -f {blocks}; exec \"$0\" {line}");
        let out = Command::new("sh")
            .current_dir(&self.folder)
            .args(["-c", &shell, env!("CARGO_BIN_EXE_becalm")])
            .output()
            .unwrap();
        assert!(!out.status.success(), "a full disk was not told of");
        self.count("full disk", true);
    }

    fn left(&self) -> usize {
        CHUNKS - (0..CHUNKS).filter(|c| self.path(&format!("out/{c:06}")).exists()).count()
    }

    fn damaged_input(&mut self) {
        let Some((chunk, path)) = self.drawn("in", "000000.becalm") else { return };
        if self.path(&format!("out/{chunk:06}")).exists() {
            return;
        }
        let good = self.damage(&path);
        if fs::read(&path).unwrap() != good {
            let out = self.work();
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(!out.status.success() && text.contains(&format!("in/{chunk:06}")), "{text}");
            self.count("cut or altered input of a chunk", true);
        }
        fs::write(path, good).unwrap();
    }

    fn damaged_result(&mut self) {
        let file = ["000000.becalm", "done.json"][self.dice.below(2)];
        let Some((chunk, path)) = self.drawn("out", file) else { return };
        let good = self.damage(&path);
        if fs::read(&path).unwrap() == good {
            return;
        }
        // A worker finds damaged records; who collects finds damaged results.
        while self.left() > 0 {
            self.work();
        }
        let line = "job collect job -o y.becalm --allow-insecure --force";
        let refused = self.command(line).output().unwrap();
        let told = !refused.status.success();
        assert!(told || file == "done.json", "a damaged result was collected");
        self.seen.remove(&chunk);
        self.count("cut or altered result or record", true);
    }

    fn damaged_key(&mut self) {
        let names = fs::read_dir(self.folder.join("job")).unwrap();
        let names: Vec<PathBuf> =
            names.map(|e| e.unwrap().path()).filter(|p| p.is_file()).collect();
        let path = names[self.dice.below(names.len())].clone();
        let good = self.damage(&path);
        if fs::read(&path).unwrap() != good && self.left() > 0 {
            assert!(!self.work().status.success(), "{}", path.display());
            self.count("cut or altered key, program or manifest", true);
        }
        fs::write(path, good).unwrap();
    }

    fn other_version(&mut self) {
        let path = self.path("job.json");
        let good = fs::read_to_string(&path).unwrap();
        let body = good.split(",\"checksum\"").next().unwrap();
        let version = format!("\"becalm\":\"{}\"", env!("CARGO_PKG_VERSION"));
        let body = body.replace(&version, "\"becalm\":\"0.0.9\"");
        let sum = blake3::hash(format!("{body}}}").as_bytes()).to_hex();
        fs::write(&path, format!("{body},\"checksum\":\"{sum}\"}}\n")).unwrap();
        if self.left() > 0 {
            let out = self.work();
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(!out.status.success() && text.contains("0.0.9"), "{text}");
            self.count("worker of another version", true);
        }
        fs::write(path, good).unwrap();
    }

    /// A worker is paused for longer than its lease, and goes on after others took its chunk.
    fn slow_worker(&mut self) {
        let mut worker = self.worker();
        self.pause(40);
        let pid = worker.id().to_string();
        let signal = |name: &str| Command::new("kill").args([name, &pid]).output().unwrap();
        signal("-STOP");
        let (ended, left) = (worker.try_wait().unwrap().is_some(), self.left());
        if left > 0 {
            self.work();
        }
        signal("-CONT");
        worker.wait_with_output().unwrap();
        if !ended && left > 0 {
            self.count("slow worker that goes on late", false);
        }
    }

    /// A worker that renews its claim and computes nothing.
    fn hanging_worker(&mut self) {
        if self.left() == 0 {
            return;
        }
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (asked, ended) = (AtomicUsize::new(0), std::sync::Mutex::new(ended));
        let hang = move |_, _| {
            if asked.fetch_add(1, Ordering::SeqCst) == 1 {
                let _ = ended.lock().unwrap().recv();
            }
            ControlFlow::Continue(())
        };
        let job = Job::open(self.folder.join("job")).unwrap();
        let (lease, patience) = (Duration::from_millis(200), Duration::from_millis(400));
        let worker = Worker { lease, patience, ..self.named("hanging") };
        let hanging = std::thread::spawn(move || {
            job.work(&Cpu::new(1).unwrap(), &worker, &hang, &mut |_| {})
        });
        self.work();
        drop(end);
        hanging.join().unwrap().unwrap();
        self.count("hanging worker that renews its claim", false);
    }

    fn named(&mut self, name: &str) -> Worker {
        self.workers += 1;
        let trust = Trust::insecure();
        Worker { trust, ..Worker::new(format!("{name}-{}", self.workers)) }
    }

    /// Claims whose times are an hour off.
    fn skew(&mut self) {
        let mut worker = self.worker();
        let ahead = self.dice.below(2) == 0;
        let time = SystemTime::now();
        let time = if ahead { time + HOUR } else { time - HOUR };
        let mut found = false;
        while worker.try_wait().unwrap().is_none() {
            for entry in fs::read_dir(self.path("claims")).unwrap().flatten() {
                let file = fs::File::options().write(true).open(entry.path());
                found |= file.is_ok_and(|file| file.set_modified(time).is_ok());
            }
        }
        if found {
            self.count("claims with times that are an hour off", false);
        }
    }

    /// Two processes lead workers of one job, as drivers on Ray do.
    fn two_drivers(&mut self) {
        if self.left() == 0 {
            return;
        }
        let (a, b) = (self.named("driver"), self.named("driver"));
        let path = self.folder.join("job");
        std::thread::scope(|scope| {
            for worker in [a, b] {
                let path = &path;
                scope.spawn(move || {
                    let job = Job::open(path).unwrap();
                    let cpu = Cpu::new(1).unwrap();
                    let runner = Runner::open(&job, &cpu, Trust::insecure(), UNWATCHED).unwrap();
                    let mut queue = Queue::new(job.clone());
                    while let Next::Chunk(loan) = queue.next(&worker, &runner.class()).unwrap() {
                        let inputs = job.inputs(loan.chunk(), u64::MAX).unwrap();
                        let made = runner.run(&inputs, UNWATCHED).unwrap();
                        job.finish(loan, &runner.class(), &made).unwrap();
                    }
                });
            }
        });
        self.count("two drivers on one job", false);
    }

    /// The process that makes the job, or collects its results, dies.
    fn killed_driver(&mut self) {
        let making = self.dice.below(2) == 0;
        let collect = "job collect job -o z.becalm --allow-insecure --force".to_string();
        let line = if making { Campaign::make_line("other") } else { collect };
        let mut driver = self.command(&line).spawn().unwrap();
        self.pause(40);
        driver.kill().unwrap();
        driver.wait().unwrap();
        // Either all is there, or nothing is.
        if let Ok(bytes) = fs::read(self.folder.join("z.becalm")) {
            assert!(bytes == self.whole, "half of the results");
        }
        if self.folder.join("other").exists() {
            Job::open(self.folder.join("other")).unwrap();
            fs::remove_dir_all(self.folder.join("other")).unwrap();
        }
        self.count("`kill -9` of the driver", false);
    }

    /// A worker that flips a bit in a result, in a job in which workers check each other.
    fn liar(&mut self) {
        let line = format!("{} --verify 1", Campaign::make_line("checked"));
        self.succeed(&line);
        let job = Job::open(self.folder.join("checked")).unwrap();
        let cpu = Cpu::new(1).unwrap();
        let runner = Runner::open(&job, &cpu, Trust::insecure(), UNWATCHED).unwrap();
        let (liar, mut queue) = (self.named("liar"), Queue::new(job.clone()));
        let lies = 1 + self.dice.below(3);
        for _ in 0..lies {
            let Next::Chunk(loan) = queue.next(&liar, &runner.class()).unwrap() else { break };
            let inputs = job.inputs(loan.chunk(), u64::MAX).unwrap();
            let mut made = runner.run(&inputs, UNWATCHED).unwrap();
            let at = self.dice.below(made[0].len());
            made[0][at] ^= 1 << self.dice.below(8);
            job.finish(loan, &runner.class(), &made).unwrap();
        }
        let honest = ["first", "second", "first"]
            .map(|name| Worker { trust: Trust::insecure(), ..Worker::new(name) });
        for worker in &honest {
            job.work(&cpu, worker, UNWATCHED, &mut |_| {}).unwrap();
        }
        let status = job.status().unwrap();
        let names: BTreeSet<&String> = status.left_out.keys().collect();
        assert_eq!(names, BTreeSet::from([&liar.name]), "{status:?}");
        let out = self.folder.join("checked.becalm");
        job.collect(std::slice::from_ref(&out), true, Trust::insecure()).unwrap();
        assert!(fs::read(out).unwrap() == self.whole, "a wrong result");
        fs::remove_dir_all(self.folder.join("checked")).unwrap();
        (0..lies).for_each(|_| self.count("worker that flips a bit in a result", true));
    }

    /// A job is made, `faults` of them happen to it, and it is finished.
    fn round(&mut self, faults: usize) {
        let _ = fs::remove_dir_all(self.folder.join("job"));
        self.seen.clear();
        self.succeed(&Campaign::make_line("job"));
        for _ in 0..faults {
            match self.dice.below(16) {
                0..=3 => self.killed_worker(),
                4 => self.cut_between(),
                5 => self.full_disk(),
                6 | 7 => self.damaged_input(),
                8 => self.damaged_result(),
                9 => self.damaged_key(),
                10 => self.other_version(),
                11 => self.slow_worker(),
                12 => self.hanging_worker(),
                13 => self.skew(),
                14 => self.two_drivers(),
                _ => self.killed_driver(),
            }
            self.look();
        }
        let mut last = self.work();
        while self.left() > 0 {
            last = self.work();
        }
        assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
        self.look();
        self.succeed("job collect job -o y.becalm --allow-insecure --force");
        assert!(fs::read(self.folder.join("y.becalm")).unwrap() == self.whole, "a wrong result");
        for name in ["claims", "faults"] {
            assert_eq!(fs::read_dir(self.path(name)).unwrap().count(), 0, "{name}");
        }
    }

    fn total(&self) -> usize {
        self.counts.values().map(|(all, _)| all).sum()
    }

    fn table(&self) {
        println!("| fault | injected | told of |\n|---|--:|--:|");
        for (kind, (all, told)) in &self.counts {
            println!("| {kind} | {all} | {told} |");
        }
        println!("| all | {} | |", self.total());
    }
}

/// Each kind once, whatever the dice say, and then a round.
#[test]
fn each_fault_is_found_or_survived() {
    let mut c = Campaign::new("faults", 1);
    c.succeed(&Campaign::make_line("job"));
    c.cut_between();
    c.killed_worker();
    c.damaged_input();
    c.damaged_result();
    c.liar();
    c.killed_driver();
    c.round(6);
    c.table();
}

#[test]
#[ignore = "minutes: `make faults` and `make test-full` run it"]
fn full_size_campaign() {
    let seed = std::env::var("BECALM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(2026);
    println!("seed {seed}");
    let mut c = Campaign::new("campaign", seed);
    while c.total() < 500 {
        c.round(16);
        c.liar();
    }
    c.table();
}
