//! The service: it listens, answers, and lets its workers work.

use crate::GoOn;
use crate::handle::handle;
use crate::state::{Config, State};
use crate::store::io_error;
use crate::transport::{Patient, Stream};
use crate::{tls, work};
use becalm::backend::{Cpu, by_name};
use becalm::{Error, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::thread;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// How often the service asks whether to go on.
const ASK: Duration = Duration::from_millis(50);
/// The time that a handshake of TLS may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A service that listens. See the [crate](crate).
pub struct Service {
    listener: std::net::TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    state: Arc<State>,
    workers: usize,
    grace: Duration,
    /// Locked until the service has ended.
    _lock: File,
}

impl Service {
    /// Opens the folder and listens. Requests are answered once [`Service::run`] runs.
    ///
    /// # Errors
    /// [`Error::BadInput`] for an address of other machines without TLS, and for limits that are none; [`Error::Device`] for workers on
    /// a machine that is not there; [`Error::Io`] for a folder
    /// that another service uses, and for errors of the operating system; [`Error::BadFile`] for a certificate or key that cannot be
    /// read.
    pub fn bind(config: Config) -> Result<Service> {
        let limits = config.limits;
        let remedy = "name a certificate and its key, or listen on 127.0.0.1 behind a proxy";
        if config.tls.is_none() && !config.address.ip().is_loopback() {
            let got = config.address.to_string();
            return Err(Error::bad_input(
                "serve",
                "TLS, or an address of this machine",
                got,
                remedy,
            ));
        }
        if limits.rate.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater)
            || limits.connections == 0
        {
            let (got, remedy) = (format!("{limits:?}"), "choose larger ones");
            return Err(Error::bad_input("serve", "a rate and connections above 0", got, remedy));
        }
        if config.workers > 0 {
            // A machine that is not there would let every job wait.
            drop(by_name(&config.device, &Cpu::new(config.threads)?)?);
        }
        let tls = config.tls.as_ref().map(|(chain, key)| tls::server(chain, key)).transpose()?;
        let refused = |e: &std::io::Error| io_error(&config.folder, e);
        std::fs::create_dir_all(&config.folder).map_err(|e| refused(&e))?;
        let lock = File::create(config.folder.join("lock")).map_err(|e| refused(&e))?;
        if lock.try_lock().is_err() {
            let wanted = format!("{} for one service", config.folder.display());
            let remedy = "stop the other one, or choose another folder";
            return Err(Error::io("serve", wanted, "a folder that another uses", remedy));
        }
        let unheard = |e: std::io::Error| {
            let wanted = format!("to listen at {}", config.address);
            Error::io("serve", wanted, e.to_string(), "choose another address or port")
        };
        let listener = std::net::TcpListener::bind(config.address).map_err(unheard)?;
        listener.set_nonblocking(true).map_err(unheard)?;
        let address = listener.local_addr().map_err(unheard)?;
        let (workers, grace) = (config.workers, config.grace);
        let state = Arc::new(State::new(config)?);
        Ok(Service {
            listener,
            address,
            tls: tls.map(TlsAcceptor::from),
            state,
            workers,
            grace,
            _lock: lock,
        })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers and works until `go_on` says no. Then it takes no further connection, lets requests end, and gives chunks back.
    ///
    /// # Errors
    /// [`Error::Io`] for errors of the operating system.
    pub fn run(self, go_on: &GoOn) -> Result<()> {
        let refused = |e: std::io::Error| {
            let remedy = "end other programs, or allow more threads and files";
            Error::io("serve", "threads and sockets", e.to_string(), remedy)
        };
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name("becalm-serve").enable_all().build();
        let runtime = runtime.map_err(refused)?;
        let (state, workers) = (self.state.clone(), self.workers);
        thread::scope(|scope| {
            for index in 0..workers {
                let state = &state;
                let name = thread::Builder::new().name(format!("becalm-worker-{index}"));
                let started = name.spawn_scoped(scope, move || work::work(state, index));
                if let Err(e) = started {
                    state.stop.store(true, Ordering::Relaxed);
                    return Err(refused(e));
                }
            }
            let served = runtime.block_on(self.serve(go_on)).map_err(refused);
            state.stop.store(true, Ordering::Relaxed);
            served
        })?;
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(())
    }

    async fn serve(self, go_on: &GoOn) -> std::io::Result<()> {
        let listener = TcpListener::from_std(self.listener)?;
        let most = self.state.limits.connections;
        let (room, (end, ended)) = (Arc::new(Semaphore::new(most)), watch::channel(()));
        while go_on() {
            let Ok(Ok(permit)) = timeout(ASK, room.clone().acquire_owned()).await else { continue };
            let Ok(accepted) = timeout(ASK, listener.accept()).await else { continue };
            let Ok((stream, _)) = accepted else {
                // Too many files are open, or the client has gone.
                sleep(ASK).await;
                continue;
            };
            let (state, tls, ended) = (self.state.clone(), self.tls.clone(), ended.clone());
            tokio::spawn(connection(state, tls, stream, ended, permit));
        }
        self.state.stop.store(true, Ordering::Relaxed);
        drop(listener);
        drop(ended);
        // Told by its end, so that connections end after the request that they have.
        let all = room.acquire_many(u32::try_from(most).unwrap_or(u32::MAX));
        drop(end);
        let _ = timeout(self.grace, all).await;
        Ok(())
    }
}

/// Serves a connection until it or the service ends.
async fn connection(
    state: Arc<State>,
    tls: Option<TlsAcceptor>,
    stream: TcpStream,
    mut ended: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(stream),
        Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => Box::new(stream),
            _ => return,
        },
    };
    state.metrics.connections.fetch_add(1, Ordering::Relaxed);
    let (idle, of) = (state.limits.idle, state.clone());
    let answer = service_fn(move |request| {
        let state = of.clone();
        async move { Ok::<_, std::convert::Infallible>(handle(state, request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(idle);
    let mut served = pin!(http.serve_connection(TokioIo::new(Patient::new(stream, idle)), answer));
    let mut told = false;
    let mut end = pin!(async move { ended.changed().await.is_err() });
    // An error is that of a client that has gone, or was silent for too long.
    let _ = poll_fn(|context| {
        if !told && end.as_mut().poll(context).is_ready() {
            told = true;
            served.as_mut().graceful_shutdown();
        }
        match served.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    state.metrics.connections.fetch_sub(1, Ordering::Relaxed);
}
