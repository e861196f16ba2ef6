//! The service on this machine: jobs of both schemes, files and requests that are damaged or too many, tokens, secrets, restarts.

#[path = "../../becalm/tests/jobs/mod.rs"]
mod jobs;

use becalm::UNWATCHED;
use becalm::backend::Cpu;
use becalm::cipher::SecretKey;
use becalm::cipher::file::{Kind, Trust};
use becalm::ckks::Context;
use becalm::job::Digest;
use becalm::params::{CkksParams, TfheParams};
use becalm_serve::{Client, Config, GoOn, Limits, Page, Service, Tokens};
use jobs::{ckks_squares, folder, squares};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

/// A service in a thread; it ends when dropped.
struct Served {
    address: SocketAddr,
    on: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.on.store(false, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn config(folder: &Path) -> Config {
    let tokens = Tokens::parse(&format!("alice {TOKEN}\nbob {OTHER}\n")).unwrap();
    let (trust, lease) = (Trust::insecure(), Duration::from_secs(1));
    Config { trust, threads: 1, lease, ..Config::new(folder.join("served"), tokens) }
}

fn serve(config: Config) -> Served {
    let service = Service::bind(config).unwrap();
    let (address, on) = (service.address(), Arc::new(AtomicBool::new(true)));
    let asked = on.clone();
    let go_on: GoOn = Arc::new(move || asked.load(Ordering::Relaxed));
    let thread = Some(std::thread::spawn(move || service.run(&go_on).unwrap()));
    Served { address, on, thread }
}

impl Served {
    fn client(&self, token: &str) -> Client {
        Client::new(&format!("http://{}", self.address), token, None).unwrap()
    }

    /// The answer to a request as it is written: its status, and its body.
    fn raw(&self, method: &str, place: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head =
            format!("{method} {place} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // It may answer before it has read everything.
        let _ = stream.write_all(body);
        let mut answer = vec![];
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
        let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
        (status, answer[end + 4..].to_vec())
    }

    fn put(&self, place: &str, body: &[u8]) -> (u16, Value) {
        let length = format!("authorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n", body.len());
        let (status, body) = self.raw("PUT", place, &length, body);
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    fn get(&self, place: &str, token: &str) -> (u16, Vec<u8>) {
        self.raw("GET", place, &format!("authorization: Bearer {token}\r\n"), b"")
    }
}

fn stored(bytes: &[u8]) -> String {
    format!("/v1/files/{}", Digest::of(bytes))
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn jobs_of_tfhe_come_in_order_and_names_are_apart() {
    let f = folder("tfhe");
    let (parts, wanted) = squares(&f.0, "toy_2_2_p", 7, 2);
    let served = serve(config(&f.0));
    let client = served.client(TOKEN);
    let job = client.make(&parts, "a note").unwrap();
    assert_eq!((job.lanes(), job.chunk(), job.chunks(), job.results()), (7, 2, 4, 1));
    assert_eq!((job.set(), job.exact(), job.note()), ("toy_2_2_p", true, "a note"));
    for (chunk, wanted) in wanted.iter().enumerate() {
        assert!(job.wait(chunk).unwrap() == [wanted.clone()], "chunk {chunk}");
    }
    assert_eq!(job.status().unwrap()["done"], 4);
    assert!(job.is_complete().unwrap() && job.program().unwrap() == parts.program);
    // The same request is the same job. The job has taken its inputs, and keys and program stay.
    assert_eq!(client.make(&parts, "a note").unwrap().id(), job.id());
    assert_eq!(files(&f.0.join("served/alice/files")), 2);
    // Another name sees nothing of it, and has its own.
    let other = served.client(OTHER);
    assert_eq!(other.open(&job.id()).unwrap_err().kind(), "bad_input");
    assert_eq!(served.get(&format!("/v1/jobs/{}/chunks/0", job.id()), OTHER).0, 404);
    assert!(other.make(&parts, "a note").unwrap().wait(0).unwrap() == [wanted[0].clone()]);
    let (_, text) = served.get("/metrics", TOKEN);
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("becalm_requests_total{route=\"PUT /v1/jobs/{id}\",status=\"201\"} 2"),
        "{text}"
    );
    assert!(text.contains("# TYPE becalm_jobs_finished gauge"), "{text}");
    job.delete().unwrap();
    assert_eq!(
        (client.open(&job.id()).unwrap_err().kind(), files(&f.0.join("served/alice/jobs"))),
        ("bad_input", 0)
    );
}

#[test]
fn jobs_of_ckks_make_the_bytes_of_one_machine() {
    let f = folder("ckks");
    let (parts, wanted) = ckks_squares(&f.0, 3);
    let served = serve(config(&f.0));
    let job = served.client(TOKEN).make(&parts, "").unwrap();
    let got: Vec<Vec<u8>> = (0..2).flat_map(|chunk| job.wait(chunk).unwrap()).collect();
    assert!(got == wanted);
}

/// The client reads why nobody works, and so does the keeper.
#[test]
fn a_job_that_its_workers_cannot_do_fails() {
    let f = folder("cannot");
    let (parts, _) = ckks_squares(&f.0, 3);
    let served = serve(Config { device: "processor".into(), threads: 0, ..config(&f.0) });
    let job = served.client(TOKEN).make(&parts, "").unwrap();
    let failed = || job.status().unwrap()["failed"].as_object().unwrap().clone();
    while failed().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let failed = failed();
    assert_eq!(failed.len(), job.chunks());
    assert!(failed["0"]["error"].as_str().unwrap().contains("runs CKKS"), "{failed:?}");
    let text = String::from_utf8(served.get("/metrics", TOKEN).1).unwrap();
    assert!(text.contains("\nbecalm_jobs_stopped 1\n"), "{text}");
    assert_eq!(job.wait(0).unwrap_err().kind(), "device");
}

/// The header of a file of this kind.
fn headed(kind: Kind) -> Vec<u8> {
    let names: &[&str] = match kind {
        Kind::CkksKeyShare => &["parties", "party", "split", "threshold"],
        Kind::CkksPartial => &["ciphertext", "level", "party", "quorum", "split"],
        Kind::CkksParty => &["keys", "parties", "party", "seed", "threshold"],
        Kind::Glwe => &["encoding", "noise", "range"],
        Kind::Integers => &["encoding", "noise", "range", "role", "type"],
        Kind::Bits => &["content", "encoding", "noise", "range", "role"],
        _ => &[],
    };
    let mut entries: Vec<(&str, String)> = names.iter().map(|name| (*name, "1".into())).collect();
    entries.extend([("checksum", "0".repeat(64)), ("format", kind.name().into())]);
    if kind != Kind::CkksParty {
        entries.push(("key", "0".repeat(32)));
    }
    entries.extend([("params", "{}".to_string()), ("version", "1".into())]);
    entries.sort();
    let texts: Vec<String> =
        entries.iter().map(|(name, text)| format!("\"{name}\":\"{text}\"")).collect();
    let mut json = format!("{{\"__metadata__\":{{{}}}}}", texts.join(",")).into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    [&(json.len() as u64).to_le_bytes()[..], &json].concat()
}

#[test]
fn every_kind_of_secret_is_refused_and_never_kept() {
    let f = folder("secrets");
    let served = serve(Config { workers: 0, ..config(&f.0) });
    let secret = SecretKey::generate(TfheParams::named("toy_2_2").unwrap(), true).unwrap();
    let path = f.0.join("secret");
    secret.save(&path).unwrap();
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    let kinds = [
        Kind::SecretKey,
        Kind::CkksSecretKey,
        Kind::CkksKeyShare,
        Kind::CkksPartial,
        Kind::CkksParty,
    ];
    let mut secrets: Vec<Vec<u8>> = kinds.into_iter().map(headed).collect();
    secrets.push(fs::read(&path).unwrap());
    context.save_secret_key(&context.secret_key().unwrap(), f.0.join("ckks")).unwrap();
    secrets.push(fs::read(f.0.join("ckks")).unwrap());
    for bytes in &secrets {
        let (status, said) = served.put(&stored(bytes), bytes);
        assert_eq!((status, &said["kind"]), (422, &"bad_input".into()), "{said}");
        assert!(said["remedy"].as_str().unwrap().contains("keep that file secret"), "{said}");
    }
    for kind in [Kind::Glwe, Kind::Integers, Kind::Bits, Kind::CkksPublicKey] {
        let bytes = headed(kind);
        let (status, said) = served.put(&stored(&bytes), &bytes);
        assert!(status == 422 && said["got"].as_str().unwrap().contains(kind.words()), "{said}");
    }
    for part in ["files", "incoming"] {
        assert_eq!(files(&f.0.join("served/alice").join(part)), 0);
    }
}

#[test]
fn damaged_bodies_are_refused_and_leave_nothing() {
    let f = folder("damaged");
    let (parts, _) = squares(&f.0, "toy_2_2_p", 2, 2);
    let served = serve(Config { workers: 0, ..config(&f.0) });
    let x = fs::read(&parts.inputs[0]).unwrap();
    let place = stored(&x);
    let mut altered = x.clone();
    *altered.last_mut().unwrap() ^= 1;
    assert_eq!(served.put(&place, &altered).0, 400);
    assert_eq!(served.put(&place, &x[..x.len() / 2]).0, 400);
    assert_eq!(served.put(&place, b"hello").0, 400);
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    // A client that goes in the middle.
    let mut stream = TcpStream::connect(served.address).unwrap();
    let head =
        format!("PUT {place} HTTP/1.1\r\nhost: x\r\n{token}content-length: {}\r\n\r\n", x.len());
    stream.write_all(&[head.as_bytes(), &x[..x.len() / 2]].concat()).unwrap();
    drop(stream);
    assert_eq!(
        served
            .raw("PUT", &place, &format!("{token}transfer-encoding: chunked\r\n"), b"0\r\n\r\n")
            .0,
        411
    );
    assert_eq!(served.put("/v1/files/abc", &x).0, 404);
    assert_eq!(served.put(&place.to_uppercase().replace("/V1/FILES", "/v1/files"), &x).0, 404);
    assert_eq!(files(&f.0.join("served/alice/files")), 0);
    assert_eq!(served.put(&place, &x).0, 201);
    assert_eq!(served.put(&place, &x).0, 200);
    assert!(served.get(&place, TOKEN) == (200, x));
    for body in ["", "{}", "[1]", "{\"program\":1}"] {
        let (status, said) =
            served.put(&format!("/v1/jobs/{}", Digest::of(body.as_bytes())), body.as_bytes());
        assert_eq!((status, &said["kind"]), (422, &"bad_input".into()), "{body}");
    }
    let none = Digest::of(b"none");
    let body = format!("{{\"program\":\"{none}\",\"keys\":\"{none}\",\"inputs\":[\"{none}\"]}}");
    assert_eq!(served.put(&format!("/v1/jobs/{none}"), body.as_bytes()).0, 422);
    let (status, said) =
        served.put(&format!("/v1/jobs/{}", Digest::of(body.as_bytes())), body.as_bytes());
    assert_eq!((status, &said["missing"]), (409, &serde_json::json!([none])));
    // Files that do not go together: the error is that of the library, without the folder of the service.
    let digest = Digest::of(&fs::read(&parts.inputs[0]).unwrap());
    let body =
        format!("{{\"program\":\"{digest}\",\"keys\":\"{digest}\",\"inputs\":[\"{digest}\"]}}");
    let (status, said) =
        served.put(&format!("/v1/jobs/{}", Digest::of(body.as_bytes())), body.as_bytes());
    assert_eq!(status, 422, "{said}");
    assert!(!said.to_string().contains("becalm-jobs-damaged"), "{said}");
}

#[test]
fn limits_answer_413_and_429_and_lose_nothing() {
    let f = folder("limits");
    let (parts, wanted) = squares(&f.0, "toy_2_2_p", 2, 2);
    let length = |path: &Path| fs::metadata(path).unwrap().len();
    let all = length(&parts.keys) + length(&parts.inputs[0]) + parts.program.len() as u64;
    let limits = Limits { file: all, files: 2 * all, queue: 1, rate: 1000.0, ..Limits::default() };
    let served = serve(Config { workers: 0, limits, ..config(&f.0) });
    let long = format!("authorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n", all + 1);
    assert_eq!(served.raw("PUT", &stored(b""), &long, b"").0, 413);
    let huge = format!("authorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n", 1u64 << 30);
    assert_eq!(served.raw("PUT", &format!("/v1/jobs/{}", Digest::of(b"")), &huge, b"").0, 413);
    let client = served.client(TOKEN);
    let first = client.make(&parts, "first").unwrap();
    // Nobody works, so the queue is full. A client that waits gets in once somebody has.
    let second = std::thread::scope(|scope| {
        let waits = scope.spawn(|| client.make(&parts, "second").unwrap());
        let place = f.0.join("served/alice/jobs").join(first.id());
        let refused = || {
            let text = String::from_utf8(served.get("/metrics", TOKEN).1).unwrap();
            text.contains("route=\"PUT /v1/jobs/{id}\",status=\"429\"}")
        };
        while !refused() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let job = becalm::job::Job::open(place).unwrap();
        let worker =
            becalm::job::Worker { trust: Trust::insecure(), ..becalm::job::Worker::new("other") };
        job.work(&Cpu::new(1).unwrap(), &worker, UNWATCHED, &mut |_| {}).unwrap();
        waits.join().unwrap()
    });
    assert_ne!(first.id(), second.id());
    assert!(first.wait(0).unwrap() == [wanted[0].clone()]);
    assert_eq!(second.results_of(0, 0).unwrap(), None);
    // A rate of less than a request a second: the second one is told when to come again.
    let slow = folder("rate");
    let limits = Limits { rate: 0.01, ..Limits::default() };
    let served = serve(Config { workers: 0, limits, ..config(&slow.0) });
    assert_eq!(served.get("/v1/jobs", TOKEN).0, 200);
    assert_eq!(served.get("/v1/jobs", TOKEN).0, 429);
    assert_eq!((served.get("/v1/jobs", OTHER).0, served.get("/healthz", "").0), (200, 200));
}

/// Every route of the description answers, and nothing but those.
#[test]
fn the_description_is_that_of_the_routes() {
    let f = folder("openapi");
    let served = serve(Config { workers: 0, ..config(&f.0) });
    let (status, text) = served.raw("GET", "/openapi.json", "", b"");
    let described: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((status, &described), (200, &becalm_serve::openapi()));
    assert_eq!(described["openapi"], "3.1.0");
    let (mut count, digest) = (0, Digest::of(b"none").to_string());
    for (path, methods) in described["paths"].as_object().unwrap() {
        let place =
            path.replace("{digest}", &digest).replace("{id}", &digest).replace("{chunk}", "0");
        for (method, operation) in methods.as_object().unwrap() {
            count += 1;
            let method = method.to_uppercase();
            let listed = |status: u16| operation["responses"].get(status.to_string()).is_some();
            let named = operation["parameters"].as_array().unwrap();
            let in_path = named.iter().filter(|p| p["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{path}");
            let open = operation["security"] == serde_json::json!([]);
            for wrong in ["", "authorization: Bearer wrong\r\n", "authorization: Basic x\r\n"] {
                let status = served.raw(&method, &place, wrong, b"").0;
                assert_eq!(status, if open { 200 } else { 401 }, "{method} {path}");
            }
            let token = format!("authorization: Bearer {TOKEN}\r\n");
            let status = served.raw(&method, &place, &token, b"").0;
            assert!(listed(status) && status != 401, "{method} {path}: {status}");
            assert_eq!(served.raw("PATCH", &place, &token, b"").0, 405, "{path}");
        }
    }
    assert_eq!(count, 12);
    assert_eq!(served.get("/v1", TOKEN).0, 404);
    assert_eq!(served.get("/v1/files/", TOKEN).0, 404);
}

/// All that was accepted is there after the end of the service, and chunks that were begun are given back.
#[test]
fn a_service_that_starts_again_goes_on() {
    let f = folder("again");
    let (parts, wanted) = squares(&f.0, "toy_2_2_p", 24, 2);
    let served = serve(config(&f.0));
    let refused = Service::bind(config(&f.0)).err().map(|e| e.kind());
    assert_eq!(refused, Some("io"), "one service to a folder");
    let job = served.client(TOKEN).make(&parts, "kept").unwrap();
    job.wait(0).unwrap();
    drop(served);
    let place = f.0.join("served/alice/jobs").join(job.id());
    assert_eq!(files(&place.join("claims")), 0);
    let before = files(&place.join("out"));
    fs::write(f.0.join("served/alice/incoming/7"), b"a part").unwrap();
    let served = serve(config(&f.0));
    let job = served.client(TOKEN).open(&job.id()).unwrap();
    assert_eq!((job.note(), files(&f.0.join("served/alice/incoming"))), ("kept", 0));
    assert!(before > 0 && files(&place.join("out")) >= before);
    for (chunk, wanted) in wanted.iter().enumerate() {
        assert!(job.wait(chunk).unwrap() == [wanted.clone()], "chunk {chunk}");
    }
}

#[test]
fn tls_and_addresses_are_checked() {
    let f = folder("tls");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let tls = Some((data.join("certificate.pem"), data.join("key.pem")));
    let served = serve(Config { workers: 0, tls, ..config(&f.0) });
    let (address, authority) =
        (format!("https://localhost:{}", served.address.port()), data.join("authority.pem"));
    let client = Client::new(&address, TOKEN, Some(&authority)).unwrap();
    let error = client.open(&Digest::of(b"none").to_string()).unwrap_err();
    assert_eq!(error.kind(), "bad_input", "{error}");
    // A certificate of an unknown authority: no token goes there. The request is stopped, or it would be tried for a minute.
    let stranger = Client::new(&address, TOKEN, Some(&data.join("certificate.pem"))).unwrap();
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let go_on: GoOn = Arc::new(move || asked.fetch_add(1, Ordering::Relaxed) < 20);
    let error = stranger.asking(go_on).open(&Digest::of(b"none").to_string()).unwrap_err();
    assert!(matches!(error.kind(), "interrupted" | "io"), "{error}");
    for wrong in
        ["http://192.0.2.1:80", "ftp://localhost", "localhost:80", "https://localhost/x", ""]
    {
        assert_eq!(
            Client::new(wrong, TOKEN, Some(&authority)).unwrap_err().kind(),
            "bad_input",
            "{wrong}"
        );
    }
    assert_eq!(Client::new(&address, "a b", Some(&authority)).unwrap_err().kind(), "bad_input");
    assert!(!format!("{client:?}").contains(TOKEN));
    let open = Config { address: ([0, 0, 0, 0], 0).into(), ..config(&f.0) };
    assert_eq!(Service::bind(open).err().unwrap().kind(), "bad_input");
}

/// Pages need no token, and a browser lets them talk to their own service alone. Everything else stays as it is without them.
#[test]
fn pages_are_open_and_the_rest_is_not() {
    let folder = folder("pages");
    let page = Page { path: "/", media: "text/html", body: b"<!doctype html>".to_vec() };
    let served = serve(Config { pages: vec![page], ..config(&folder.0) });
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("<!doctype html>"), "{answer}");
    for wanted in ["default-src 'none'", "connect-src 'self'", "nosniff", "text/html"] {
        assert!(answer.contains(wanted), "{wanted}: {answer}");
    }
    let status = |method, place| served.raw(method, place, "", b"").0;
    assert_eq!(
        (status("PUT", "/"), status("GET", "/other"), status("GET", "/v1/jobs")),
        (404, 404, 401)
    );
}
