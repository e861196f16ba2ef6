//! Requests and their answers.

use crate::answer::{Answer, BYTES, Fault};
use crate::board::Entry;
use crate::pages::Page;
use crate::request::{MAX_REQUEST, Request};
use crate::routes::{self, Verb};
use crate::state::State;
use crate::store::{Area, io_error};
use becalm::Error;
use becalm::job::{Digest, HEAD, admit};
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::{Body, Bytes, Incoming};
use hyper::http::request::Parts;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};

/// The longest time that a client may wait for results in one request.
const LONGEST_WAIT: f64 = 60.0;
/// How often a waiting request looks.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes a second below which an upload counts as too slow.
const SLOWEST: f64 = 65536.0;
/// Seconds for which the rest of a body is read whose request was refused, so that the client can read why.
const DRAIN: Duration = Duration::from_secs(5);

type Answered = std::result::Result<Answer, Answer>;

/// A request of a client that has shown its token.
struct Call<'a> {
    state: &'a Arc<State>,
    area: Arc<Area>,
    values: Vec<String>,
    head: &'a Parts,
    body: &'a mut Incoming,
}

pub(crate) async fn handle(
    state: Arc<State>,
    request: hyper::Request<Incoming>,
) -> Response<Full<Bytes>> {
    let (head, mut body) = request.into_parts();
    let (verb, answer) = match routes::find(head.method.as_str(), head.uri.path()) {
        Err(404) if let Some(page) = page(&state, &head) => (None, page.answer()),
        Err(status) => {
            let got = format!("{} {:.200}", head.method, head.uri.path());
            let fault = Fault::new("bad_input", "a route of /openapi.json", got, "look there");
            (None, fault.with(status))
        }
        Ok((route, values)) => {
            let answered = match (route.verb, allowed(&state, &head, route.open)) {
                (_, Err(answer)) => Err(answer),
                (Verb::Health, _) => Ok(health(&state)),
                (Verb::OpenApi, _) => Ok(Answer::json(200, &routes::openapi())),
                (_, Ok(None)) => Err(unauthorised()),
                (verb, Ok(Some(area))) => {
                    let call = Call { state: &state, area, values, head: &head, body: &mut body };
                    call.answer(verb).await
                }
            };
            (Some(route.verb), answered.unwrap_or_else(|refused| refused))
        }
    };
    state.metrics.count(verb, answer.status, answer.bytes_out());
    if !body.is_end_stream() {
        tokio::spawn(timeout(DRAIN, async move { while let Some(Ok(_)) = body.frame().await {} }));
    }
    answer.into()
}

/// The page that a browser asks for.
fn page<'a>(state: &'a State, head: &Parts) -> Option<&'a Page> {
    let asked = head.method == hyper::Method::GET;
    state.pages.iter().find(|page| asked && page.path == head.uri.path())
}

fn unauthorised() -> Answer {
    let remedy = "send the header `Authorization: Bearer TOKEN`";
    Fault::new("bad_input", "a token of this service", "none, or another", remedy).with(401)
}

/// The folder of the name whose token was sent, if its rate allows the request. Open routes need none.
fn allowed(state: &State, head: &Parts, open: bool) -> Result<Option<Arc<Area>>, Answer> {
    if open {
        return Ok(None);
    }
    let sent = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    let token = sent.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or("");
    let name = state.tokens.name_of(token).ok_or_else(unauthorised)?;
    let taken = state.buckets.take(name, state.limits.rate, Instant::now());
    taken.map_err(|seconds| {
        let wanted = format!("at most {} requests a second", state.limits.rate);
        let remedy = "send it again after the time of Retry-After";
        Fault::new("unsupported", wanted, "more", remedy).with(429).later(seconds)
    })?;
    Ok(state.areas.get(name).cloned())
}

fn health(state: &State) -> Answer {
    let ends = state.stop.load(Ordering::Relaxed);
    let text = if ends { "ending" } else { "ok" };
    Answer::json(if ends { 503 } else { 200 }, &json!({ "status": text }))
}

/// Work that waits for the disk or computes.
async fn blocking<T: Send + 'static>(
    state: &State,
    work: impl FnOnce() -> becalm::Result<T> + Send + 'static,
) -> Result<T, Answer> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|e| Answer::refused(&e, &state.root_text)),
        Err(e) => {
            let got = if e.is_panic() { "an internal error" } else { "a stop" };
            let remedy = "please report it with the request that led to it";
            Err(Fault::new("io", "an answer", got, remedy).with(507))
        }
    }
}

fn too_large(what: &str, most: u64, got: u64, remedy: &str) -> Answer {
    let wanted = format!("at most {most} bytes of {what}");
    Fault::new("bad_input", wanted, got.to_string(), remedy).with(413)
}

fn bad_name(wanted: &str) -> Answer {
    let remedy = "use the 64 hexadecimal digits of a BLAKE3 digest";
    Fault::new("bad_input", wanted, "another name", remedy).with(404)
}

impl Call<'_> {
    async fn answer(mut self, verb: Verb) -> Answered {
        match verb {
            Verb::Metrics => {
                let state = self.state.clone();
                let text =
                    blocking(self.state, move || Ok(state.metrics.text(&state.board))).await?;
                Ok(Answer::of(200, "text/plain; version=0.0.4", text.into_bytes()))
            }
            Verb::PutFile => self.put_file().await,
            Verb::GetFile => self.get_file().await,
            Verb::DeleteFile => {
                let (area, digest) = (self.area.clone(), self.digest()?);
                match blocking(self.state, move || area.remove(digest)).await? {
                    true => Ok(Answer::empty(204)),
                    false => Err(bad_name("a file that is stored")),
                }
            }
            Verb::ListJobs => {
                let jobs = self.state.board.of(&self.area.name);
                let list = blocking(self.state, move || {
                    let row = |e: &Arc<Entry>| json!({ "id": e.id, "complete": e.is_complete() });
                    Ok(jobs.iter().map(row).collect::<Vec<Value>>())
                });
                Ok(Answer::json(200, &json!({ "jobs": list.await? })))
            }
            Verb::PutJob => self.put_job().await,
            Verb::GetJob => {
                let entry = self.entry()?;
                let facts = blocking(self.state, move || Ok(facts(&entry))).await?;
                Ok(Answer::json(200, &facts))
            }
            Verb::Status => {
                let entry = self.entry()?;
                let status = blocking(self.state, move || entry.status()).await?;
                Ok(Answer::json(200, &status))
            }
            Verb::Chunk => self.chunk().await,
            Verb::DeleteJob => self.delete_job().await,
            // Answered before, without a token.
            Verb::Health | Verb::OpenApi => Ok(health(self.state)),
        }
    }

    /// The digest in the path.
    fn digest(&self) -> Result<Digest, Answer> {
        let text = self.values.first().cloned().unwrap_or_default();
        let digest = Digest::try_from(text.clone()).ok().filter(|d| d.to_string() == text);
        digest.ok_or_else(|| bad_name("a digest"))
    }

    /// The job in the path.
    fn entry(&self) -> Result<Arc<Entry>, Answer> {
        let found = self.state.board.find(&self.area.name, self.digest()?);
        found.ok_or_else(|| bad_name("a job of this name"))
    }

    /// The length that the client announces.
    fn length(&self, what: &str, most: u64) -> Result<u64, Answer> {
        let sent = self.head.headers.get("content-length").and_then(|value| value.to_str().ok());
        let Some(length) = sent.and_then(|text| text.parse::<u64>().ok()) else {
            let remedy = "send the header Content-Length";
            return Err(Fault::new("bad_input", "a length", "none", remedy).with(411));
        };
        match length <= most {
            true => Ok(length),
            false => Err(too_large(what, most, length, "divide it, or ask for a higher limit")),
        }
    }

    /// The next bytes of the body; none at its end. A client must be neither silent for long nor slow as a whole.
    async fn next(&mut self, until: Instant) -> Result<Option<Bytes>, Answer> {
        let left = until.saturating_duration_since(Instant::now());
        loop {
            let frame = timeout(self.state.limits.idle.min(left), self.body.frame()).await;
            let slow = |_| {
                let remedy = "send it again over a faster connection";
                Fault::new("io", "a body that comes", "too few bytes", remedy).with(408)
            };
            let Some(frame) = frame.map_err(slow)? else { return Ok(None) };
            let cut = |e: hyper::Error| {
                Fault::new("io", "a whole body", e.to_string(), "send it again").with(400)
            };
            if let Ok(bytes) = frame.map_err(cut)?.into_data() {
                self.state.metrics.bytes_in.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                return Ok(Some(bytes));
            }
        }
    }

    fn deadline(&self, length: u64) -> Instant {
        let seconds = length as f64 / SLOWEST;
        Instant::now() + self.state.limits.idle + Duration::from_secs_f64(seconds)
    }

    async fn put_file(&mut self) -> Answered {
        let (digest, limits) = (self.digest()?, self.state.limits);
        let length = self.length("a file", limits.file)?;
        if self.area.has(digest) {
            return Ok(Answer::empty(200));
        }
        let area = self.area.clone();
        let refused = |e: &Error| Answer::refused(e, &self.state.root_text);
        let room = area.announce(length, limits.files).map_err(|e| refused(&e))?;
        let upload = room.map_err(|used| {
            let got = used.saturating_add(length);
            too_large("files", limits.files, got, "remove files that no job needs any more")
        })?;
        let (until, mut first) = (self.deadline(length), vec![]);
        while first.len() < HEAD {
            let Some(bytes) = self.next(until).await? else { break };
            first.extend_from_slice(&bytes);
        }
        // Before a byte of it is kept: it may be a secret.
        admit(&first, length).map_err(|e| Answer::refused(&e, &self.state.root_text))?;
        let root = self.state.root_text.clone();
        let failed = |e: std::io::Error| Answer::refused(&io_error(&upload.path, &e), &root);
        let mut file = tokio::fs::File::create_new(&upload.path).await.map_err(failed)?;
        let mut hasher = blake3::Hasher::new();
        let mut bytes = Bytes::from(first);
        loop {
            hasher.update(&bytes);
            file.write_all(&bytes).await.map_err(failed)?;
            let Some(next) = self.next(until).await? else { break };
            bytes = next;
        }
        if Digest(*hasher.finalize().as_bytes()) != digest {
            let wanted = format!("a file with the digest {digest}");
            let fault =
                Fault::new("bad_file", wanted, "one that was cut or altered", "send it again");
            return Err(fault.with(400));
        }
        file.sync_all().await.map_err(failed)?;
        area.keep(&upload, digest).map_err(|e| Answer::refused(&e, &root))?;
        Ok(Answer::empty(201))
    }

    async fn get_file(&mut self) -> Answered {
        let (area, digest) = (self.area.clone(), self.digest()?);
        if !area.has(digest) {
            return Err(bad_name("a file that is stored"));
        }
        let limit = self.state.trust.limit;
        match blocking(self.state, move || area.read(digest, limit)).await {
            Err(answer) if answer.status == 400 => {
                Err(too_large("a file that is sent back", limit, limit + 1, "keep your own copy"))
            }
            read => Ok(Answer::of(200, BYTES, read?)),
        }
    }

    async fn put_job(&mut self) -> Answered {
        let id = self.digest()?;
        let length = self.length("a request", MAX_REQUEST)?;
        let (until, mut text) = (self.deadline(length), vec![]);
        while let Some(bytes) = self.next(until).await? {
            text.extend_from_slice(&bytes);
        }
        let request = Request::parse(&text).map_err(|e| Answer::refused(&e, ""))?;
        if Digest::of(&text) != id {
            let remedy = "name the job after the digest of the request";
            let wanted = format!("a request with the digest {id}");
            return Err(Fault::new("bad_input", wanted, "another", remedy).with(422));
        }
        // One at a time: program, keys and inputs are read into memory.
        let making = self.state.making.clone().acquire_owned().await;
        let (state, area) = (self.state.clone(), self.area.clone());
        let made = blocking(self.state, move || {
            let _making = making;
            Ok(make(&state, &area, id, &text, &request))
        });
        made.await?
    }

    async fn chunk(&mut self) -> Answered {
        let entry = self.entry()?;
        let number = self.values.get(1).and_then(|text| text.parse::<usize>().ok());
        let Some(chunk) = number.filter(|n| *n < entry.job.chunks()) else {
            return Err(bad_name("a chunk of the job"));
        };
        let wait = match self.head.uri.query().map(|query| query.strip_prefix("wait=")) {
            None => Some(0.0),
            Some(text) => text.and_then(|text| text.parse::<f64>().ok()),
        };
        let Some(wait) = wait.filter(|s| (0.0..=LONGEST_WAIT).contains(s)) else {
            let remedy = "write ?wait=20, or leave it out";
            let wanted = format!("a time of 0 to {LONGEST_WAIT} seconds");
            return Err(Fault::new("bad_input", wanted, "another query", remedy).with(422));
        };
        let until = Instant::now() + Duration::from_secs_f64(wait);
        loop {
            let (entry, limit) = (entry.clone(), self.state.trust.limit);
            let of = entry.clone();
            let vain = blocking(self.state, move || of.fails(chunk));
            let read = blocking(self.state, move || results(&entry, chunk, limit));
            if let Some(body) = read.await? {
                return Ok(Answer::of(200, BYTES, body));
            }
            if self.state.stop.load(Ordering::Relaxed) {
                let fault =
                    Fault::new("io", "the results", "a service that ends", "ask again later");
                return Err(fault.with(503).later(1.0));
            }
            if Instant::now() >= until || vain.await? {
                return Ok(Answer::empty(204));
            }
            sleep(LOOK).await;
        }
    }

    async fn delete_job(&mut self) -> Answered {
        let (entry, area) = (self.entry()?, self.area.clone());
        entry.removed.store(true, Ordering::Relaxed);
        while entry.workers.load(Ordering::Relaxed) > 0 {
            sleep(LOOK).await;
        }
        let state = self.state.clone();
        blocking(self.state, move || {
            area.remove_job(entry.id)?;
            state.board.remove(&entry);
            Ok(())
        })
        .await?;
        Ok(Answer::empty(204))
    }
}

/// Makes a job, unless it is there or something speaks against it.
fn make(state: &State, area: &Area, id: Digest, text: &[u8], request: &Request) -> Answered {
    if let Some(entry) = state.board.find(&area.name, id) {
        area.release(request);
        return Ok(Answer::json(200, &facts(&entry)));
    }
    let jobs = state.board.of(&area.name);
    let many = |wanted: String, remedy: &str| {
        Fault::new("unsupported", wanted, "one more", remedy).with(429).later(5.0)
    };
    if jobs.len() >= state.limits.jobs {
        let wanted = format!("at most {} jobs", state.limits.jobs);
        return Err(many(wanted, "remove jobs whose results you have"));
    }
    if jobs.iter().filter(|e| !e.is_complete()).count() >= state.limits.queue {
        let wanted = format!("at most {} jobs that are not finished", state.limits.queue);
        return Err(many(wanted, "send it again once one of them is"));
    }
    let missing: Vec<Digest> = request.files().into_iter().filter(|d| !area.has(*d)).collect();
    if !missing.is_empty() {
        let got = format!("{} missing", missing.len());
        let remedy = "store the missing files, then send the request again";
        let mut fault = Fault::new("bad_input", "files that are stored", got, remedy);
        fault.missing = missing;
        return Err(fault.with(409));
    }
    let made = area.make(id, text, request, state.trust);
    let entry = state.board.add(made.map_err(|e| Answer::refused(&e, &state.root_text))?);
    area.release(request);
    Ok(Answer::json(201, &facts(&entry)))
}

fn facts(entry: &Entry) -> Value {
    let job = &entry.job;
    json!({
        "id": entry.id, "scheme": job.scheme(), "set": job.set(), "lanes": job.lanes(), "chunk": job.chunk(),
        "chunks": job.chunks(), "results": job.results(), "exact": job.exact(),
        "complete": entry.is_complete(), "program": entry.request.program,
        "note": entry.request.note,
    })
}

/// The files of the results of a chunk, each after its length; none while it has none.
fn results(entry: &Entry, chunk: usize, limit: u64) -> becalm::Result<Option<Vec<u8>>> {
    if !entry.job.is_settled(chunk)? {
        return Ok(None);
    }
    let Some(files) = entry.job.results_of(chunk, limit)? else {
        entry.reopen();
        return Ok(None);
    };
    let mut body = Vec::with_capacity(files.iter().map(|file| 8 + file.len()).sum());
    for file in &files {
        body.extend((file.len() as u64).to_le_bytes());
        body.extend(file);
    }
    Ok(Some(body))
}
