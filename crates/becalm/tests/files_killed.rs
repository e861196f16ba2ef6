//! Files whose writers run at once or are killed in the middle: nothing is left behind, and pairs always belong together.
#![cfg(unix)]

use becalm::cipher::file::{Part, replace, replace_all};
use becalm::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The variable that tells a process of this test its work.
const TASK: &str = "BECALM_TEST_WRITER";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("becalm-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(path: &Path, text: String) -> Part<'static> {
    let failed = |e: std::io::Error| Error::io("test", "to write", e.to_string(), "");
    let private = path.ends_with("secret");
    Part::new(path, private, move |out| out.write_all(text.as_bytes()).map_err(failed))
}

/// Writes a pair of files, each with this word.
fn pair(folder: &Path, word: &str) -> Result<()> {
    let parts = ["secret", "evaluation"].map(|name| text(&folder.join(name), word.into()));
    replace_all(parts.into(), true)
}

/// The work of the other processes.
#[test]
#[ignore = "run by the tests below"]
fn a_writer() {
    let task = std::env::var_os(TASK).expect("the variable that names a task");
    let (task, folder) = task.to_str().and_then(|t| t.split_once(' ')).unwrap();
    let folder = Path::new(folder);
    match task {
        "pairs" => {
            println!("\nbegun");
            for i in 0.. {
                pair(folder, &format!("{} {i}", std::process::id())).unwrap();
            }
        }
        "one" => pair(folder, &std::process::id().to_string()).unwrap(),
        _ => {
            let never = |out: &mut becalm::cipher::file::Output| -> Result<()> {
                out.write_all(b"half of a secret key").unwrap();
                println!("\nbegun");
                std::thread::sleep(Duration::from_secs(600));
                Ok(())
            };
            replace(&folder.join("key"), true, never).unwrap();
        }
    }
}

fn started(task: &str, folder: &Folder) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["a_writer", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(TASK, format!("{task} {}", folder.0.display()));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    if task != "one" {
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "begun"));
    }
    child
}

/// The words of the pair. After a kill the second file may be missing, but it never belongs to another pair.
fn found(folder: &Folder) -> [Option<String>; 2] {
    ["secret", "evaluation"].map(|name| fs::read_to_string(folder.0.join(name)).ok())
}

#[test]
fn pairs_belong_together_when_several_processes_write_at_once() {
    let folder = Folder::new("at-once");
    for _ in 0..10 {
        let writers: Vec<Child> = (0..8).map(|_| started("one", &folder)).collect();
        let ids: Vec<String> = writers.iter().map(|w| w.id().to_string()).collect();
        for mut writer in writers {
            assert!(writer.wait().unwrap().success());
        }
        let [secret, evaluation] = found(&folder);
        assert!(secret.as_ref().is_some_and(|id| ids.contains(id)), "{secret:?}");
        assert_eq!(secret, evaluation);
        assert_eq!(folder.names(), ["evaluation", "secret"].map(String::from).into());
    }
}

#[test]
fn pairs_belong_together_when_their_writers_are_killed() {
    let folder = Folder::new("killed");
    let mut alone = 0;
    pair(&folder.0, "first").unwrap();
    for round in 0..25u64 {
        let mut writers: Vec<Child> = (0..8).map(|_| started("pairs", &folder)).collect();
        std::thread::sleep(Duration::from_millis(3 + round));
        writers.iter_mut().for_each(|w| w.kill().unwrap());
        for writer in &mut writers {
            writer.wait().unwrap();
        }
        let [secret, evaluation] = found(&folder);
        assert!(secret.is_some(), "round {round}: the file that cannot be made again is gone");
        assert!(evaluation.is_none() || secret == evaluation, "{secret:?} {evaluation:?}");
        alone += usize::from(evaluation.is_none());
        // The next writer succeeds, and removes the remains of the dead ones.
        pair(&folder.0, "next").unwrap();
        assert_eq!(found(&folder), [Some("next".into()), Some("next".into())]);
        let hidden: Vec<String> =
            folder.names().into_iter().filter(|n| n.ends_with(".tmp")).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
    }
    println!("{alone} of 25 rounds were killed between the two files");
}

/// On Linux a half-written key does not outlive its writer. Elsewhere the next writer removes it.
#[test]
fn nothing_is_left_of_a_writer_that_was_killed() {
    let folder = Folder::new("left");
    let mut writer = started("waits", &folder);
    let during = folder.names();
    // Other writers leave the file of a living one alone.
    pair(&folder.0, "other").unwrap();
    assert!(during.is_subset(&folder.names()));
    writer.kill().unwrap();
    writer.wait().unwrap();
    fs::write(folder.0.join(".becalm-0123456789abcdef.tmp"), "of a version before").unwrap();
    replace(&folder.0.join("key"), true, |_| Ok::<(), Error>(())).unwrap();
    let names = ["evaluation", "key", "secret"].map(String::from);
    assert_eq!(folder.names(), names.into());
}

/// A writer of private files looks for remains each time, a writer of public ones when it is new in the folder.
#[test]
fn every_writer_removes_the_remains_of_dead_ones() {
    let folder = Folder::new("remains");
    let remains = folder.0.join(".becalm-0123456789abcdef.tmp");
    for (name, private) in [("ciphertext", false), ("key", true)] {
        fs::write(&remains, "of a writer that was killed").unwrap();
        replace(&folder.0.join(name), private, |_| Ok::<(), Error>(())).unwrap();
        assert!(!remains.exists(), "{name}: {:?}", folder.names());
    }
}
