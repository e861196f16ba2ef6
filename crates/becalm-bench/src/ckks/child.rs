//! A process that makes keys and answers commands: a line on its standard input, a JSON object on its output.
//!
//! | command | answer |
//! |---|---|
//! | (none: when the keys are made) | [`Ready`] |
//! | `threads N` | `{}` |
//! | `bootstrap MESSAGE`, `together K MESSAGE` | [`Answer`], seconds per ciphertext |
//! | `logistic_regression` | [`Answer`], of a whole run |
//! | `multiply`, `rotate`, `encrypt`, `decrypt`, with a level or at the highest | [`Answer`] |
//!
//! Processes that wait for a line take no time of the processor, so that two of them run by turns.

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The message of a process when its keys are made.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Ready {
    /// The library.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its parameter set.
    pub params: String,
    /// log2 of the degree of the ring.
    pub log2_degree: u32,
    /// Values in a ciphertext.
    pub slots: usize,
    /// log2 of the largest modulus under which keys are.
    pub log2_modulus: f64,
    /// Weight of the secret; none for a uniform ternary one.
    pub weight: Option<u32>,
    /// Weight of the ephemeral secret.
    pub ephemeral_weight: Option<u32>,
    /// log2 of the modulus under which the ephemeral secret is used.
    pub ephemeral_log2_modulus: Option<f64>,
    /// Standard deviation of the noise of the key to the ephemeral secret, units of 1; none where it is that of all other keys.
    pub ephemeral_noise_std: Option<f64>,
    /// The probability that the set states for failures of the range, log2; none where it states none.
    pub log2_pfail: Option<f64>,
    /// Levels that a bootstrap leaves.
    pub levels: usize,
    /// Level of fresh ciphertexts, where it is another.
    pub top_level: Option<usize>,
    /// Keys of the bootstrap in memory.
    pub key_bytes: u64,
    /// The same, written.
    pub stored_key_bytes: u64,
    /// Seconds for them.
    pub keygen_seconds: f64,
}

/// The result of an operation, decrypted and compared after the clock was stopped.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
pub struct Answer {
    /// On the wall.
    pub seconds: f64,
    /// Processor time in seconds, all threads of the process together.
    pub processor: f64,
    /// Mean of the absolute errors.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// Level of the result.
    pub level: usize,
}

/// A running process; it is ended when this is dropped.
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Its first message.
    pub ready: Ready,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Worker {
    /// Starts `command` and waits for its keys.
    ///
    /// # Errors
    /// The error that it reports, or that it ended.
    pub fn start(mut command: Command) -> Result<Worker> {
        let named = format!("{command:?}");
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.with_context(|| format!("starting {named}"))?;
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().context("no output")?);
        match read(&mut output) {
            Ok(ready) => Ok(Worker { child, input, output, ready }),
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(e.context(named))
            }
        }
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("its input is closed")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    /// From now on so many threads.
    ///
    /// # Errors
    /// The error that the process reports.
    pub fn threads(&mut self, count: usize) -> Result<()> {
        self.tell(&format!("threads {count}"))?;
        read::<serde_json::Value>(&mut self.output).map(|_| ())
    }

    /// One operation.
    ///
    /// # Errors
    /// The error that the process reports.
    pub fn ask(&mut self, line: &str) -> Result<Answer> {
        self.tell(line)?;
        let name = self.ready.name.clone();
        read(&mut self.output).with_context(|| format!("{name}: {line}"))
    }

    /// The most memory that it has had, where the system tells (Linux).
    pub fn peak_bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = text.lines().find(|l| l.starts_with("VmHWM:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
    }
}

/// One line of JSON: what is wanted, or a refusal.
fn read<T: for<'a> Deserialize<'a>>(output: &mut impl BufRead) -> Result<T> {
    let mut line = String::new();
    if output.read_line(&mut line)? == 0 {
        bail!("the process ended; what it wrote stands above");
    }
    if let Ok(refusal) = serde_json::from_str::<Refusal>(&line) {
        return Err(anyhow!(refusal.error));
    }
    serde_json::from_str(&line).with_context(|| format!("an answer that is none: {line}"))
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its input is how it is told to end; a killed one could not give its memory back sooner.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const READY: &str = r#"echo '{"name":"x","version":"1","params":"p","log2_degree":1,"slots":1,"log2_modulus":1,"levels":1,"key_bytes":1,"stored_key_bytes":1,"keygen_seconds":1}'"#;

    #[test]
    fn answers_come_back_and_refusals_are_errors() {
        let script = format!(
            r#"{READY}; read a; echo '{{"seconds":2,"processor":1,"mean":0.5,"max":1,"level":3}}'; read a; echo "{{\"error\":\"no $a\"}}""#
        );
        let mut worker = Worker::start(shell(&script)).unwrap();
        assert_eq!((worker.ready.name.as_str(), worker.ready.weight), ("x", None));
        assert_eq!(worker.ask("multiply").unwrap().level, 3);
        let refused = format!("{:#}", worker.ask("rotate").unwrap_err());
        assert!(refused.contains("no rotate") && refused.contains("x: rotate"), "{refused}");
        // The process may end before it is asked, or before it answers.
        let ended = worker.ask("rotate").unwrap_err();
        let broken = ended.downcast_ref::<std::io::Error>().map(|e| e.kind());
        let broken = broken == Some(std::io::ErrorKind::BrokenPipe);
        assert!(broken || format!("{ended:#}").contains("the process ended"), "{ended:#}");
    }

    #[test]
    fn a_process_that_ends_or_babbles_is_an_error() {
        for (script, why) in [
            ("exit 3", "the process ended"),
            ("echo hello", "an answer that is none: hello"),
            (r#"echo '{"error":"no memory"}'"#, "no memory"),
        ] {
            let Err(refused) = Worker::start(shell(script)) else { panic!("{script} is ready") };
            // First the command is named, whose text must not pass for the reason.
            let mut reasons = refused.chain().skip(1).map(|e| e.to_string());
            assert!(reasons.any(|reason| reason.contains(why)), "{refused:#}");
        }
    }
}
