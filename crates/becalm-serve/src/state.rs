//! The configuration of a service, and the state that its requests and workers share.

use crate::board::Board;
use crate::limits::{Buckets, Limits};
use crate::metrics::Metrics;
use crate::pages::Page;
use crate::store::Area;
use crate::tokens::Tokens;
use becalm::Result;
use becalm::cipher::file::Trust;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How a service works.
pub struct Config {
    /// Its folder. It is made if it is missing, and one service alone may use it.
    pub folder: PathBuf,
    /// The address at which it listens; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Files of its certificates and of its key. Without them it listens on addresses of this machine alone.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The tokens of its clients.
    pub tokens: Tokens,
    /// Limits for clients.
    pub limits: Limits,
    /// The sets and sizes that are accepted.
    pub trust: Trust,
    /// Workers in this process. With 0, others run `becalm job work` on the folders of the jobs.
    pub workers: usize,
    /// The beginning of the names of its workers.
    pub name: String,
    /// The machine of each worker.
    pub device: String,
    /// Threads of each; 0 for all cores.
    pub threads: usize,
    /// The lease of the claims of its workers.
    pub lease: Duration,
    /// The time that requests have to end when the service does.
    pub grace: Duration,
    /// Pages in front of the service, which are served without a token.
    pub pages: Vec<Page>,
    /// Told of events that a keeper of the service wants to know.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Config {
    /// One with a worker on all cores, at a free port of this machine.
    pub fn new(folder: impl Into<PathBuf>, tokens: Tokens) -> Config {
        Config {
            folder: folder.into(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            tokens,
            limits: Limits::default(),
            trust: Trust::default(),
            workers: 1,
            name: "serve".into(),
            device: "auto".into(),
            threads: 0,
            lease: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            pages: vec![],
            tell: Arc::new(|_| {}),
        }
    }
}

/// State that requests and workers share.
pub(crate) struct State {
    /// The folder, which no answer names.
    pub(crate) root_text: String,
    pub(crate) tokens: Tokens,
    pub(crate) limits: Limits,
    pub(crate) trust: Trust,
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) threads: usize,
    pub(crate) lease: Duration,
    pub(crate) pages: Vec<Page>,
    pub(crate) tell: Arc<dyn Fn(&str) + Send + Sync>,
    pub(crate) areas: HashMap<String, Arc<Area>>,
    pub(crate) board: Board,
    pub(crate) buckets: Buckets,
    pub(crate) metrics: Metrics,
    pub(crate) making: Arc<Semaphore>,
    pub(crate) stop: AtomicBool,
}

impl State {
    pub(crate) fn new(config: Config) -> Result<State> {
        let mut areas = HashMap::new();
        let (board, mut jobs) = (Board::default(), vec![]);
        for name in config.tokens.names() {
            let area = Area::open(&config.folder, name)?;
            jobs.extend(area.jobs(config.tell.as_ref())?);
            areas.insert(name.to_string(), Arc::new(area));
        }
        jobs.sort_by_key(|(made, _)| *made);
        for (_, entry) in jobs {
            board.add(entry);
        }
        Ok(State {
            root_text: format!("{}/", config.folder.display()),
            tokens: config.tokens,
            limits: config.limits,
            trust: config.trust,
            name: config.name,
            device: config.device,
            threads: config.threads,
            lease: config.lease,
            pages: config.pages,
            tell: config.tell,
            areas,
            board,
            buckets: Buckets::default(),
            metrics: Metrics::default(),
            making: Arc::new(Semaphore::new(1)),
            stop: AtomicBool::new(false),
        })
    }
}
