//! Answers, and errors as they travel: the service writes them, the client makes the same errors of them again.

use becalm::Error;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde::{Deserialize, Serialize};

pub(crate) const JSON: &str = "application/json";
pub(crate) const BYTES: &str = "application/octet-stream";

/// An answer of the service.
pub(crate) struct Answer {
    pub(crate) status: u16,
    media: &'static str,
    body: Vec<u8>,
    /// Seconds after which the client may ask again.
    retry: Option<f64>,
    headers: &'static [(&'static str, &'static str)],
}

/// An error as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fault {
    kind: String,
    wanted: String,
    got: String,
    remedy: String,
    /// Digests of files that the service does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<becalm::job::Digest>,
}

impl Fault {
    pub(crate) fn new(
        kind: &str,
        wanted: impl Into<String>,
        got: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Fault {
        let (wanted, got, remedy) = (wanted.into(), got.into(), remedy.into());
        Fault { kind: kind.into(), wanted, got, remedy, missing: vec![] }
    }

    /// The same with a status, to be sent.
    pub(crate) fn with(self, status: u16) -> Answer {
        Answer::json(status, &self)
    }

    /// The error of the client.
    pub(crate) fn error(self) -> Error {
        let Fault { kind, wanted, got, remedy, .. } = self;
        let make = match kind.as_str() {
            "wrong_key" => Error::wrong_key,
            "wrong_params" => Error::wrong_params,
            "insecure" => Error::insecure,
            "too_noisy" => Error::too_noisy,
            "memory" => Error::memory,
            "bad_file" => Error::bad_file,
            "io" => Error::io,
            "device" => Error::device,
            "unsupported" => Error::unsupported,
            "interrupted" => Error::interrupted,
            _ => Error::bad_input,
        };
        make("serve", wanted, got, remedy)
    }
}

impl Answer {
    pub(crate) fn of(status: u16, media: &'static str, body: Vec<u8>) -> Answer {
        Answer { status, media, body, retry: None, headers: &[] }
    }

    pub(crate) fn json(status: u16, value: &impl Serialize) -> Answer {
        // Texts and numbers alone, which serde always writes.
        Answer::of(status, JSON, serde_json::to_vec(value).unwrap_or_default())
    }

    /// One without contents.
    pub(crate) fn empty(status: u16) -> Answer {
        Answer::of(status, BYTES, vec![])
    }

    /// The same with further headers.
    pub(crate) fn with_headers(self, headers: &'static [(&'static str, &'static str)]) -> Answer {
        Answer { headers, ..self }
    }

    /// Asks the client to come again.
    pub(crate) fn later(mut self, seconds: f64) -> Answer {
        self.retry = Some(seconds);
        self
    }

    /// An error of the library. The client learns nothing of the folder in which the service keeps things.
    pub(crate) fn refused(error: &Error, folder: &str) -> Answer {
        let status = match error {
            Error::BadFile(_) => 400,
            Error::Insecure(_) => 403,
            Error::Io(_) => 507,
            Error::Memory(_) | Error::Device(_) | Error::Interrupted(_) => 503,
            _ => 422,
        };
        let d = error.detail();
        let text = |text: &str| text.replace(folder, "");
        Fault::new(error.kind(), text(&d.wanted), text(&d.got), text(&d.remedy)).with(status)
    }

    pub(crate) fn bytes_out(&self) -> u64 {
        self.body.len() as u64
    }
}

impl From<Answer> for Response<Full<Bytes>> {
    fn from(answer: Answer) -> Self {
        let mut made = Response::new(Full::new(Bytes::from(answer.body)));
        *made.status_mut() = hyper::StatusCode::from_u16(answer.status).unwrap_or_default();
        let headers = made.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.media));
        for (name, value) in answer.headers {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(seconds) = answer.retry {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.ceil().max(1.0) as u64));
        }
        if answer.status == 401 {
            headers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
        }
        made
    }
}
