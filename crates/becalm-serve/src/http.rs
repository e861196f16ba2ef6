//! Requests to an object store, over the connections and the TLS that the client of a service has. A connection serves one request
//! after another.

use crate::tls;
use crate::transport::{Patient, Stream};
use http_body_util::BodyExt;
use hyper::Uri;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// How long a connection may take, and how long one may stand still.
const CONNECT: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);
/// Connections to a host that are kept.
const KEPT: usize = 4;

/// The connections to stores. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Wire {
    kept: Arc<Mutex<HashMap<String, Vec<Sender>>>>,
    tls: Option<Arc<ClientConfig>>,
    /// Whether the environment allows connections without TLS.
    plain: bool,
}

type Sender = SendRequest<HttpRequestBody>;

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

impl HttpConnector for Wire {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp);
        let plain = plain.is_some_and(|value| value == "true");
        // Without certificates of authorities, connections without TLS are left.
        let tls = tls::client(None).ok();
        Ok(HttpClient::new(Wire { tls, plain, ..self.clone() }))
    }
}

fn failed(kind: HttpErrorKind, text: impl Into<String>) -> HttpError {
    HttpError::new(kind, io::Error::other(text.into()))
}

impl HttpService for Wire {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.answer(request))
    }
}

impl Wire {
    async fn answer(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let bad = || failed(HttpErrorKind::Unknown, "an address without a host");
        let authority = uri.authority().ok_or_else(bad)?.as_str().to_string();
        let target = uri.path_and_query().map_or("/", |p| p.as_str());
        *request.uri_mut() = target.parse().map_err(|_| bad())?;
        let host = HeaderValue::from_str(&authority).map_err(|_| bad())?;
        request.headers_mut().insert(HOST, host);
        let key = format!("{}://{authority}", uri.scheme_str().unwrap_or(""));
        let mut sender = match self.kept(&key) {
            Some(sender) => sender,
            None => match timeout(CONNECT, self.connected(&uri)).await {
                Ok(connected) => connected?,
                Err(_) => return Err(failed(HttpErrorKind::Connect, "no answer")),
            },
        };
        // The store and this crate may both repeat any request, so every error here is tried again.
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|e| HttpError::new(HttpErrorKind::Request, e))?;
        self.keep(key, sender);
        let cut = |e: hyper::Error| HttpError::new(HttpErrorKind::Interrupted, e);
        Ok(answer.map(|body| HttpResponseBody::new(body.map_err(cut))))
    }

    /// A connection whose last answer was read.
    fn kept(&self, key: &str) -> Option<Sender> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let all = kept.get_mut(key)?;
        all.retain(|sender| !sender.is_closed());
        let ready = all.iter().position(SendRequest::is_ready)?;
        Some(all.swap_remove(ready))
    }

    fn keep(&self, key: String, sender: Sender) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let all = kept.entry(key).or_default();
        if all.len() < KEPT {
            all.push(sender);
        }
    }

    async fn connected(&self, uri: &Uri) -> Result<Sender, HttpError> {
        let lost = |e: io::Error| HttpError::new(HttpErrorKind::Connect, e);
        let host = uri.host().unwrap_or("").trim_matches(['[', ']']).to_string();
        let secure = uri.scheme_str() == Some("https");
        if !secure && !self.plain {
            let text = "a connection without TLS, which the environment does not allow";
            return Err(failed(HttpErrorKind::Unknown, text));
        }
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(lost)?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match (secure, &self.tls) {
            (false, _) => Box::new(stream),
            (true, None) => {
                let text = "certificates of authorities, of which this machine has none";
                return Err(failed(HttpErrorKind::Unknown, text));
            }
            (true, Some(config)) => {
                let bad = |_| failed(HttpErrorKind::Connect, "a host without a name");
                let name = ServerName::try_from(host).map_err(bad)?;
                Box::new(
                    TlsConnector::from(config.clone()).connect(name, stream).await.map_err(lost)?,
                )
            }
        };
        let stream = TokioIo::new(Patient::of_client(stream, IDLE));
        let shaken = handshake(stream).await.map_err(|e| HttpError::new(HttpErrorKind::Connect, e));
        let (sender, connection) = shaken?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
