//! Where the peers come from: Lattigo by `go build`, Poulpy by a nightly `cargo build`, OpenFHE's wheel in its own environment under the
//! target folder, desilofhe only where the user has installed it. A peer that is not available is reported with the reason, not as an error.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Lattigo v6.
    Lattigo,
    /// OpenFHE.
    OpenFhe,
    /// desilofhe 1.17, a kind of it.
    Desilo(&'static str),
    /// Poulpy 0.10, a preset of it and the contents of the slots.
    Poulpy(&'static str, &'static str),
}

/// The notice that desilofhe's licence asks of comparisons.
pub const ACKNOWLEDGEMENT: &str =
    "This work uses the DESILO FHE library developed by DESILO Inc. (https://desilo.ai)";
/// The version of OpenFHE's wheel; its binaries are for Python 3.10 (Ubuntu 22.04) or 3.12 (24.04), whatever the name says.
const OPENFHE: &str = "openfhe==1.6.1.0.*";
/// The version of desilofhe whose names and tables are compared with.
const DESILOFHE: &str = "1.17";

/// Kinds of desilofhe, and ours beside them.
pub const DESILO: &[(&str, &str)] = &[
    ("regular", "regular"),
    ("14", "14"),
    ("17", "17"),
    ("sparse", "sparse1024"),
    ("lossy", "lossy"),
    ("sign", "sign"),
];
/// Presets of Poulpy, the contents of the slots, and our kind beside them. All have keys of rotations by powers of two only: with the others
/// a key set takes 12 to 17 GB.
pub const POULPY: &[(&str, &str, &str)] = &[
    ("n16_d35_k733_p20_s2c+pow2", "real", "lossy"),
    ("n16_d35_k685_p19_s2c_ffr_ci+pow2", "complex", "regular"),
    ("n16_d35_k636_p20_c2s+pow2", "complex", "17"),
];

/// Sources of the workers.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench")
}

/// A folder for what is built, beside what cargo builds.
fn built() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let target = exe.ancestors().find(|a| a.join("CACHEDIR.TAG").exists());
    let folder = target.map_or_else(std::env::temp_dir, Path::to_path_buf).join("bench-peers");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs a command whose output matters only when it fails.
fn quietly(command: &mut Command) -> Result<String> {
    let named = format!("{command:?}");
    let made = command.stdin(Stdio::null()).output().with_context(|| named.clone())?;
    let said = String::from_utf8_lossy(&made.stderr);
    let find = |wanted: fn(&str) -> bool| said.lines().rev().find(|line| wanted(line));
    let why =
        find(|line| line.starts_with("error")).or_else(|| find(|line| !line.trim().is_empty()));
    ensure!(made.status.success(), "{named}: {}", why.unwrap_or_default());
    Ok(String::from_utf8_lossy(&made.stdout).into_owned())
}

fn lattigo() -> Result<Command> {
    let binary = built()?.join("lattigo");
    let mut build = Command::new("go");
    quietly(
        build.arg("build").arg("-o").arg(&binary).arg(".").current_dir(sources().join("lattigo")),
    )
    .context("Lattigo needs Go")?;
    Ok(Command::new(binary))
}

/// The worker of Poulpy, by a toolchain of rustup: the crates need an unstable feature, and a nightly compiler of May 2026 or later.
fn poulpy(toolchain: &str) -> Result<Command> {
    #[cfg(target_arch = "x86_64")]
    let fast = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let fast = false;
    ensure!(fast, "Poulpy's fast arithmetic needs a processor with AVX2 and FMA");
    let folder = built()?.join("poulpy");
    let mut build = Command::new("rustup");
    build.args(["run", toolchain, "cargo", "build", "--release", "--locked", "--target-dir"]);
    build.arg(&folder).current_dir(sources().join("poulpy"));
    build.env("RUSTFLAGS", "-C target-cpu=native").env_remove("CARGO_ENCODED_RUSTFLAGS");
    quietly(&mut build)
        .context("Poulpy needs nightly Rust of May 2026 or later (BECALM_POULPY_TOOLCHAIN names a toolchain of rustup)")?;
    Ok(Command::new(folder.join("release/poulpy")))
}

/// Interpreters to try for OpenFHE; a shim of pyenv wants the version in its environment.
fn openfhe() -> Result<Command> {
    let folder = built()?.join("openfhe");
    let python = folder.join("bin/python");
    if quietly(Command::new(&python).args(["-c", "import openfhe, numpy"])).is_ok() {
        return Ok(Command::new(python));
    }
    let mut tried = vec![];
    let given = std::env::var("BECALM_OPENFHE_PYTHON").ok();
    let candidates = given
        .iter()
        .map(|p| (p.as_str(), ""))
        .chain([("python3.10", "3.10"), ("python3.12", "3.12")]);
    for (name, version) in candidates {
        let _ = std::fs::remove_dir_all(&folder);
        let mut make = Command::new(name);
        make.args(["-m", "venv"]).arg(&folder);
        if !version.is_empty() {
            make.env("PYENV_VERSION", version);
        }
        let mut install = || -> Result<()> {
            quietly(&mut make)?;
            quietly(Command::new(&python).args(["-m", "pip", "install", "-q", OPENFHE, "numpy"]))?;
            quietly(Command::new(&python).args(["-c", "import openfhe, numpy"]))?;
            Ok(())
        };
        match install() {
            Ok(()) => return Ok(Command::new(python)),
            Err(e) => tried.push(format!("{e:#}")),
        }
    }
    bail!(
        "OpenFHE's wheel works with none (BECALM_OPENFHE_PYTHON names another): {}",
        tried.join("; ")
    )
}

fn desilofhe() -> Result<Command> {
    let python = std::env::var("BECALM_DESILOFHE_PYTHON").unwrap_or_else(|_| "python3".into());
    let script =
        "import importlib.metadata, desilofhe; print(importlib.metadata.version('desilofhe'))";
    let version = quietly(Command::new(&python).args(["-c", script])).context(
        "desilofhe is measured where it is installed: BECALM_DESILOFHE_PYTHON names a Python that has it",
    )?;
    ensure!(version.starts_with(DESILOFHE), "desilofhe {DESILOFHE} is wanted, not {version}");
    Ok(Command::new(python))
}

impl Peer {
    /// Its name in cases.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Lattigo => "lattigo",
            Peer::OpenFhe => "openfhe",
            Peer::Desilo(_) => "desilo",
            Peer::Poulpy(..) => "poulpy",
        }
    }

    /// Bytes that it takes at full size at the most, as measured, for the decision whether it fits.
    pub fn memory(self) -> u64 {
        match self {
            Peer::Lattigo => 13_700_000_000,
            Peer::OpenFhe => 10_700_000_000,
            Peer::Desilo("basic") => 2_500_000_000,
            Peer::Desilo("14") => 16_300_000_000,
            Peer::Desilo("sparse") => 8_000_000_000,
            Peer::Desilo("lossy" | "sign") => 12_800_000_000,
            Peer::Desilo("17") => 17_000_000_000,
            Peer::Desilo(_) => 13_700_000_000,
            Peer::Poulpy(_, "real") => 8_500_000_000,
            Peer::Poulpy(..) => 11_200_000_000,
        }
    }

    /// Builds or finds it: the command that starts its worker.
    ///
    /// # Errors
    /// Why it is not available.
    pub fn command(self, toy: bool, threads: usize) -> Result<Command> {
        let python = |mut command: Command, script: &str| {
            command.arg(sources().join("peers").join(script)).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        };
        let log2_degree = if toy { "12" } else { "16" };
        let mut command = match self {
            Peer::Lattigo => {
                let mut command = lattigo()?;
                command.args(["-log2-degree", log2_degree]);
                command
            }
            Peer::OpenFhe => {
                let mut command = python(openfhe()?, "openfhe_worker.py");
                command.arg(log2_degree);
                command
            }
            Peer::Desilo(kind) => {
                let mut command = python(desilofhe()?, "desilofhe_worker.py");
                command.arg(if toy { "toy" } else { kind });
                command
            }
            Peer::Poulpy(..) if toy => bail!("Poulpy has no preset in a small ring"),
            Peer::Poulpy(preset, values) => {
                let toolchain = std::env::var("BECALM_POULPY_TOOLCHAIN");
                let mut command = poulpy(toolchain.as_deref().unwrap_or("nightly"))?;
                command.args([preset, values]);
                command
            }
        };
        command.env("OMP_NUM_THREADS", threads.to_string());
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever lacks the compiler reads which one is wanted, and how to name it.
    #[test]
    fn poulpy_says_which_compiler_it_needs() {
        let why = format!("{:#}", poulpy("no-such-toolchain").expect_err("no toolchain"));
        let processor = why.contains("AVX2 and FMA");
        assert!(processor || why.contains("BECALM_POULPY_TOOLCHAIN"), "{why}");
    }
}
