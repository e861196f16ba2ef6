//! `becalm serve`: a service in front of the folders of jobs.

use crate::files::TrustArgs;
use crate::report;
use crate::signals::stopped;
use anyhow::Result;
use becalm_serve::{Config, GoOn, Limits, Service, Tokens};
use serde_json::json;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// The folder of the service, which is made if it is missing. It holds keys, programs and jobs, and no secret.
    folder: PathBuf,
    /// The address at which it listens; port 0 lets the system choose. Without TLS only addresses of this machine are possible.
    #[arg(long, default_value = "127.0.0.1:8443", value_parser = address)]
    listen: SocketAddr,
    /// A file of tokens: lines of a name and a token. Only its owner may be able to read it.
    #[arg(long)]
    tokens: PathBuf,
    /// The certificates of the service, in PEM.
    #[arg(long, requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Workers in this process. With 0, others run `becalm job work` on the folders of the jobs.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// The machine of each worker.
    #[arg(long, default_value = "auto", value_parser = report::Device)]
    device: String,
    /// Threads of each; 0 for all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Seconds after which the claim of a worker that gives no sign of life is taken over.
    #[arg(long, default_value_t = 60.0, value_parser = report::positive)]
    lease: f64,
    /// The beginning of the names of the workers in the records of results.
    #[arg(long, default_value = "serve")]
    name: String,
    /// Seconds that requests have to end when the service is told to stop.
    #[arg(long, default_value_t = 30.0, value_parser = report::positive)]
    grace: f64,
    /// Bytes of the longest file.
    #[arg(long, default_value_t = Limits::default().file)]
    file_limit: u64,
    /// Bytes of all keys, programs and waiting inputs of a name.
    #[arg(long, default_value_t = Limits::default().files)]
    files_limit: u64,
    /// Unfinished jobs of a name.
    #[arg(long, default_value_t = Limits::default().queue)]
    queue: usize,
    /// Jobs of a name, finished or not.
    #[arg(long, default_value_t = Limits::default().jobs)]
    jobs: usize,
    /// Requests a second of a name.
    #[arg(long, default_value_t = Limits::default().rate, value_parser = report::positive)]
    rate: f64,
    /// Connections at once.
    #[arg(long, default_value_t = Limits::default().connections, value_parser = report::some)]
    connections: usize,
    /// Seconds of silence after which a connection is closed.
    #[arg(long, default_value_t = Limits::default().idle.as_secs_f64(), value_parser = report::positive)]
    idle: f64,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report the address as JSON.
    #[arg(long)]
    json: bool,
}

/// An address, or the first one of a name such as `localhost`.
fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        "wanted an address of this machine and a port, such as 127.0.0.1:8443 or localhost:8443"
            .into()
    })
}

#[cfg(test)]
#[test]
fn names_and_numbers_are_addresses() {
    assert!(address("localhost:8443").is_ok_and(|at| at.ip().is_loopback() && at.port() == 8443));
    assert_eq!(address("127.0.0.1:0").map(|at| at.to_string()), Ok("127.0.0.1:0".into()));
    for wrong in ["localhost", "8443"] {
        let says = address(wrong).unwrap_err();
        assert!(
            says.starts_with("wanted an address of this machine and a port"),
            "{wrong}: {says}"
        );
    }
}

pub fn run(args: &Args) -> Result<()> {
    let tls = args.tls_certificate.clone().zip(args.tls_key.clone());
    let scheme = if tls.is_some() { "https" } else { "http" };
    let service = Service::bind(Config {
        address: args.listen,
        tls,
        limits: Limits {
            file: args.file_limit,
            files: args.files_limit,
            queue: args.queue,
            jobs: args.jobs,
            rate: args.rate,
            connections: args.connections,
            idle: Duration::from_secs_f64(args.idle),
        },
        trust: args.trust.trust(),
        workers: args.workers,
        name: args.name.clone(),
        device: args.device.clone(),
        threads: args.threads,
        lease: Duration::from_secs_f64(args.lease),
        grace: Duration::from_secs_f64(args.grace),
        tell: Arc::new(|line| report::say(&format!("becalm: {line}"))),
        ..Config::new(&args.folder, Tokens::read(&args.tokens)?)
    })?;
    let address = format!("{scheme}://{}", service.address());
    match args.json {
        true => report::json(&json!({ "address": address, "folder": args.folder }))?,
        false => report::print(&format!("{} at {address}", args.folder.display()))?,
    }
    Ok(service.run(&(Arc::new(|| !stopped()) as GoOn))?)
}
