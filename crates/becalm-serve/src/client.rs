//! The client: requests that may all be sent again, so it does so until one is answered.

use crate::GoOn;
use crate::answer::Fault;
use crate::tls;
use crate::transport::Stream;
use becalm::{Error, Result};
use http_body_util::BodyExt;
use hyper::Uri;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper_util::rt::TokioIo;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use zeroize::Zeroizing;

/// How long a client tries to reach a service that does not answer.
const TRIES: Duration = Duration::from_secs(60);
/// How often a request that waits asks whether to go on.
const ASK: Duration = Duration::from_millis(50);
/// Bytes of a file that are read at once.
const PIECE: u64 = 1 << 18;

/// The body of a request.
#[derive(Clone, Copy)]
pub(crate) enum Sent<'a> {
    Nothing,
    Bytes(&'a [u8]),
    File(&'a Path),
}

/// An answer: its status and its body.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    retry: Option<f64>,
}

impl Got {
    /// The error that it tells of.
    pub(crate) fn error(&self) -> Error {
        match serde_json::from_slice::<Fault>(&self.body) {
            Ok(fault) => fault.error(),
            Err(_) => {
                let got = format!("status {}", self.status);
                Error::io("serve", "an answer of becalm serve", got, "check the address")
            }
        }
    }
}

/// A client of a service.
#[derive(Clone)]
pub struct Client {
    uri: Uri,
    host: String,
    port: u16,
    token: Arc<Zeroizing<String>>,
    tls: Option<Arc<ClientConfig>>,
    go_on: GoOn,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.uri)
    }
}

impl Client {
    /// A client of the service at an address such as `https://host:8443`. With `authorities`, a file in PEM, those of the system do
    /// not count.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another address, among them one of another machine without TLS, and for a token that cannot be sent;
    /// [`Error::BadFile`] for certificates that cannot be read.
    pub fn new(address: &str, token: &str, authorities: Option<&Path>) -> Result<Client> {
        let remedy = "write https://host:port; http:// is for this machine alone";
        let bad = || Error::bad_input("serve", "the address of a service", address, remedy);
        let uri: Uri = address.trim_end_matches('/').parse().map_err(|_| bad())?;
        let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_string();
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad());
        }
        let here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|a| a.is_loopback());
        let (tls, usual) = match uri.scheme_str() {
            Some("https") => (Some(tls::client(authorities)?), 443),
            Some("http") if here => (None, 80),
            _ => return Err(bad()),
        };
        if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
            let (wanted, remedy) =
                ("a token of printable characters", "pass the one of the service");
            return Err(Error::bad_input("serve", wanted, "another", remedy));
        }
        let (port, token) =
            (uri.port_u16().unwrap_or(usual), Arc::new(Zeroizing::new(token.into())));
        Ok(Client { uri, host, port, token, tls, go_on: Arc::new(|| true) })
    }

    /// The same, which asks whether to go on while it waits.
    pub fn asking(self, go_on: GoOn) -> Client {
        Client { go_on, ..self }
    }

    /// The address of the service.
    pub fn address(&self) -> String {
        self.uri.to_string().trim_end_matches('/').to_string()
    }

    /// Sends a request until it is answered: after 429 and 503 at the time that the service says, after an error of the connection
    /// soon, for a minute without an answer.
    pub(crate) fn send(&self, method: &str, place: &str, sent: Sent<'_>) -> Result<Got> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| self.failed(&e.to_string()))?;
        runtime.block_on(async {
            let (mut since, mut pause) = (Instant::now(), 0.05);
            loop {
                let last = match self.until_stopped(self.once(method, place, sent)).await? {
                    Ok(got) => {
                        let Some(seconds) = got.retry.filter(|_| matches!(got.status, 429 | 503))
                        else {
                            return Ok(got);
                        };
                        if got.status == 429 {
                            since = Instant::now();
                        }
                        pause = seconds;
                        got.error()
                    }
                    Err(text) => self.failed(&text),
                };
                if since.elapsed() > TRIES {
                    return Err(last);
                }
                self.until_stopped(sleep(Duration::from_secs_f64(pause))).await?;
                pause = (2.0 * pause).min(2.0);
            }
        })
    }

    fn failed(&self, got: &str) -> Error {
        let remedy = "check address, certificate and network; nothing that was accepted is lost";
        Error::io("serve", format!("an answer of {}", self.address()), got, remedy)
    }

    async fn until_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = pin!(work);
        loop {
            match timeout(ASK, work.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(_) if (self.go_on)() => {}
                Err(_) => {
                    let remedy = "send it again: nothing that was accepted is lost";
                    return Err(Error::interrupted(
                        "serve",
                        "an answer",
                        "a request to stop",
                        remedy,
                    ));
                }
            }
        }
    }

    async fn once(
        &self,
        method: &str,
        place: &str,
        sent: Sent<'_>,
    ) -> std::result::Result<Got, String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let stream =
            TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| text(&e))?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = ServerName::try_from(self.host.clone()).map_err(|e| text(&e))?;
                let connected = TlsConnector::from(config.clone()).connect(name, stream).await;
                Box::new(connected.map_err(|e| text(&e))?)
            }
        };
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|e| text(&e))?;
        tokio::spawn(connection);
        let body = Outgoing::new(sent).map_err(|e| text(&e))?;
        let authority = self.uri.authority().map_or("", |a| a.as_str());
        let request = hyper::Request::builder().method(method).uri(place).header("host", authority);
        let request = request.header("authorization", format!("Bearer {}", self.token.as_str()));
        let answer = sender.send_request(request.body(body).map_err(|e| text(&e))?).await;
        let (head, body) = answer.map_err(|e| text(&e))?.into_parts();
        let retry = head.headers.get("retry-after").and_then(|v| v.to_str().ok()?.parse().ok());
        let body = body.collect().await.map_err(|e| text(&e))?.to_bytes();
        Ok(Got { status: head.status.as_u16(), body: body.into(), retry })
    }
}

/// The body of a request, of a known length.
struct Outgoing {
    source: Box<dyn Read + Send>,
    left: u64,
}

impl Outgoing {
    fn new(sent: Sent<'_>) -> io::Result<Outgoing> {
        let (source, left): (Box<dyn Read + Send>, u64) = match sent {
            Sent::Nothing => (Box::new(io::empty()), 0),
            Sent::Bytes(bytes) => (Box::new(io::Cursor::new(bytes.to_vec())), bytes.len() as u64),
            Sent::File(path) => {
                let file = File::open(path)?;
                let length = file.metadata()?.len();
                (Box::new(file), length)
            }
        };
        Ok(Outgoing { source, left })
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; self.left.min(PIECE) as usize];
        Poll::Ready(Some(self.source.read_exact(&mut piece).map(|()| {
            self.left -= piece.len() as u64;
            Frame::data(Bytes::from(piece))
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
