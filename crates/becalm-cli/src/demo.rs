//! `becalm demo`: a service on this machine, and a page in front of it that encrypts and decrypts in the browser.

use crate::report;
use crate::signals::stopped;
use anyhow::Result;
use becalm::Error;
use becalm::math::random::PublicSeed;
use becalm_serve::{Config, GoOn, Page, Service, Tokens};
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    /// The port of this machine at which the page is; 0 lets the system choose.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The client for wasm32, `becalm_client.wasm`, in place of the one that this command was built with.
    #[arg(long)]
    client: Option<PathBuf>,
    /// The machine of the server.
    #[arg(long, default_value = "auto", value_parser = report::Device)]
    device: String,
    /// Threads of the server; 0 for all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Print the address of the page and open no browser.
    #[arg(long)]
    no_open: bool,
    /// Report the address as JSON, and open no browser.
    #[arg(long)]
    json: bool,
}

/// A folder for what clients send, gone with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("becalm-demo-{}", &word()?[..16]));
        std::fs::create_dir(&path).map_err(|e| {
            let wanted = format!("a new folder {}", path.display());
            Error::io("demo", wanted, e.to_string(), "set TMPDIR to a folder that you may write")
        })?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is public: keys for evaluation, and ciphertexts.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// 64 random hexadecimal digits.
fn word() -> Result<String> {
    Ok(PublicSeed::from_system()?.0.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The client for wasm32.
fn client(given: Option<&Path>) -> Result<Vec<u8>> {
    let Some(path) = given else {
        let built = becalm_client::WASM.map(<[u8]>::to_vec);
        return built.ok_or_else(|| {
            let wanted = "the client for wasm32, which encrypts in the page";
            let got = "a becalm that was built without it";
            let remedy = "take the command of the Python package, which has one, or name a file by `--client`; \
                          in the sources `make client` makes it, and the next build embeds it";
            Error::unsupported("demo", wanted, got, remedy).into()
        });
    };
    let bytes = std::fs::read(path).map_err(|e| Error::unreadable("demo", path, &e))?;
    if bytes.starts_with(b"\0asm") {
        return Ok(bytes);
    }
    let wanted = format!("a module of WebAssembly in {}", path.display());
    let remedy = "name target/client/becalm_client.wasm, which `make client` builds";
    Err(Error::bad_file("demo", wanted, "another file", remedy).into())
}

fn pages(wasm: Vec<u8>) -> Vec<Page> {
    let text = |path, media, text: &str| Page { path, media, body: text.into() };
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    vec![
        text("/", "text/html; charset=utf-8", include_str!("../demo/index.html")),
        text("/demo.css", "text/css; charset=utf-8", include_str!("../demo/demo.css")),
        text("/demo.js", SCRIPT, include_str!("../demo/demo.js")),
        text("/plots.js", SCRIPT, include_str!("../demo/plots.js")),
        text("/worker.js", SCRIPT, include_str!("../demo/worker.js")),
        text("/becalm-client.js", SCRIPT, becalm_client::PACKAGE),
        Page { path: "/becalm_client.wasm", media: "application/wasm", body: wasm },
    ]
}

/// Shows a page in the browser of this desktop, if there is one.
fn open(address: &str) {
    let line: &[&str] = match std::env::consts::OS {
        "macos" => &["open"],
        "windows" => &["cmd", "/c", "start", ""],
        _ => &["xdg-open"],
    };
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).arg(address);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without a desktop the printed address is enough.
    let _ = command.spawn();
}

pub fn run(args: &Args) -> Result<()> {
    let wasm = client(args.client.as_deref())?;
    let (folder, token) = (Folder::new()?, word()?);
    let service = Service::bind(Config {
        address: SocketAddr::from(([127, 0, 0, 1], args.port)),
        name: "demo".into(),
        device: args.device.clone(),
        threads: args.threads,
        pages: pages(wasm),
        tell: Arc::new(|line| report::say(&format!("becalm: {line}"))),
        ..Config::new(&folder.0, Tokens::parse(&format!("page {token}"))?)
    })?;
    // A browser does not send what stands behind the #.
    let address = format!("http://{}/#{token}", service.address());
    match args.json {
        true => report::json(&json!({ "address": address }))?,
        false => report::print(&format!("open {address}\nCtrl-C ends the demo"))?,
    }
    if !args.json && !args.no_open {
        open(&address);
    }
    Ok(service.run(&(Arc::new(|| !stopped()) as GoOn))?)
}
