//! Jobs in an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure.
//!
//! An object is whole or not there. A claim is made by a conditional write that one worker alone can win, and is renewed, given back
//! and taken over by writes that succeed only on the version that was read. Programs, keys, inputs and results have their digests in
//! their names, so writers never mix contents; the conditional write of a record decides which results count.

use crate::http::Wire;
use becalm::job::{Digest, Held, Local, MANIFEST, Place, RECORD};
use becalm::{Error, Result};
use hyper::body::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as Name;
use object_store::{
    BackoffConfig, Error as Refused, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, RetryConfig, UpdateVersion,
};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, Runtime};

/// Files that are larger go in parts.
const WHOLE: u64 = 32 << 20;
/// Bytes of a part, and how many there may be.
const PART: u64 = 16 << 20;
const PARTS: u64 = 9_000;
/// How long a request is tried again.
const TRIES: Duration = Duration::from_secs(60);
const REMEDY: &str = "check the address, the credentials in the environment, and what they allow";

/// The place of a job in an object store.
#[derive(Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    runtime: Arc<Runtime>,
    prefix: String,
    /// As the user wrote it. It has no credentials.
    address: String,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Objects({})", self.address)
    }
}

fn bad_address() -> Error {
    let wanted = "s3://bucket/job, gs://bucket/job or az://container/job";
    let remedy = "credentials belong in the environment";
    Error::bad_input("job", wanted, "another address", remedy)
}

/// An error of the store, without what it says in full: requests in it may hold credentials.
fn said(e: &Refused) -> String {
    let text = e.to_string();
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let plain = |code: &&str| code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric());
    let code = code.map(|(code, _)| code).filter(plain).map(|code| format!(" ({code})"));
    let status =
        text.split_once("status code: ").map_or("", |(_, rest)| rest.get(..3).unwrap_or(""));
    let kind = match e {
        Refused::NotFound { .. } => "nothing there".to_string(),
        Refused::PermissionDenied { .. } | Refused::Unauthenticated { .. } => {
            "access was refused".into()
        }
        Refused::Precondition { .. } | Refused::AlreadyExists { .. } => "another version".into(),
        _ if status.bytes().all(|b| b.is_ascii_digit()) && !status.is_empty() => {
            format!("status {status}")
        }
        Refused::Generic { .. } if text.contains("HTTP error") => "no answer".into(),
        _ => "an error of the store".into(),
    };
    format!("{kind}{}", code.unwrap_or_default())
}

impl Objects {
    /// The place at an address, with the credentials of the environment.
    pub(crate) fn open(address: &str) -> Result<Objects> {
        let (scheme, rest) = address.split_once("://").ok_or_else(bad_address)?;
        let (bucket, prefix) =
            rest.trim_end_matches('/').split_once('/').ok_or_else(bad_address)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
        if bucket.is_empty() || prefix.is_empty() || !rest.chars().all(plain) {
            return Err(bad_address());
        }
        let backoff = BackoffConfig { max_backoff: Duration::from_secs(5), ..Default::default() };
        let retry = RetryConfig { backoff, retry_timeout: TRIES, ..Default::default() };
        let store: object_store::Result<Arc<dyn ObjectStore>> = match scheme {
            "s3" => AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_http_connector(Wire::default())
                .build()
                .map(|s| Arc::new(s) as Arc<dyn ObjectStore>),
            "gs" => GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_http_connector(Wire::default())
                .build()
                .map(|s| Arc::new(s) as Arc<dyn ObjectStore>),
            "az" => MicrosoftAzureBuilder::from_env()
                .with_container_name(bucket)
                .with_retry(retry)
                .with_http_connector(Wire::default())
                .build()
                .map(|s| Arc::new(s) as Arc<dyn ObjectStore>),
            _ => return Err(bad_address()),
        };
        let store = store.map_err(|_| {
            let wanted = format!("settings for {scheme}:// in the environment");
            Error::bad_input("job", wanted, "none, or others", REMEDY)
        })?;
        Objects::new(store, prefix, address.trim_end_matches('/'))
    }

    pub(crate) fn new(store: Arc<dyn ObjectStore>, prefix: &str, address: &str) -> Result<Objects> {
        let built = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = built.map_err(|e| {
            let remedy = "end other programs, or allow more threads";
            Error::io("job", "a thread for requests", e.to_string(), remedy)
        })?;
        let (prefix, address) = (prefix.to_string(), address.to_string());
        Ok(Objects { store, runtime: Arc::new(runtime), prefix, address })
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn name(&self, name: &str) -> Name {
        Name::from_iter(self.prefix.split('/').chain(name.split('/')))
    }

    fn refused(&self, doing: &str, name: &str, e: &Refused) -> Error {
        let wanted = format!("to {doing} {}", self.path(name).display());
        Error::io("job", wanted, said(e), REMEDY)
    }

    /// The answer, or none for an object that does not exist. A bucket that does not exist is an error.
    fn maybe<T>(&self, name: &str, got: object_store::Result<T>) -> Result<Option<T>> {
        match got {
            Ok(got) => Ok(Some(got)),
            Err(e @ Refused::NotFound { .. })
                if ["Bucket", "Container"].iter().any(|w| said(&e).contains(w)) =>
            {
                Err(self.refused("read", name, &e))
            }
            Err(Refused::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.refused("read", name, &e)),
        }
    }

    fn get(&self, name: &str) -> Result<Option<GetResult>> {
        self.maybe(name, self.wait(self.store.get(&self.name(name))))
    }

    /// The contents and the version of an object.
    fn version(&self, name: &str, limit: u64) -> Result<Option<(Vec<u8>, UpdateVersion)>> {
        let Some(got) = self.get(name)? else { return Ok(None) };
        if got.meta.size > limit {
            let wanted = format!("at most {limit} bytes in {}", self.path(name).display());
            let remedy =
                "make the job with smaller chunks, or raise the limit if you trust the job";
            return Err(Error::bad_file("job", wanted, "more", remedy));
        }
        let version =
            UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        let bytes = self.wait(got.bytes()).map_err(|e| self.refused("read", name, &e))?;
        Ok(Some((bytes.into(), version)))
    }

    /// Writes an object on a condition; its version, or none if the condition does not hold. An answer may be lost and the request
    /// sent again, so an object with these bytes is the one that was written: they have a random number in them.
    fn put_if(&self, name: &str, bytes: &[u8], mode: PutMode) -> Result<Option<UpdateVersion>> {
        let options = PutOptions { mode, ..Default::default() };
        let payload = PutPayload::from_bytes(Bytes::copy_from_slice(bytes));
        match self.wait(self.store.put_opts(&self.name(name), payload, options)) {
            Ok(put) => Ok(Some(put.into())),
            Err(Refused::AlreadyExists { .. } | Refused::Precondition { .. }) => {
                let there = self.version(name, bytes.len() as u64).unwrap_or_default();
                let own = there.filter(|(there, _)| !bytes.is_empty() && there == bytes);
                Ok(own.map(|(_, version)| version))
            }
            Err(e) => Err(self.refused("write", name, &e)),
        }
    }

    /// Removes an object of a version. It is emptied first, as only writes have conditions.
    fn remove_if(&self, name: &str, version: UpdateVersion) -> Result<bool> {
        if self.put_if(name, &[], PutMode::Update(version))?.is_none() {
            return Ok(false);
        }
        self.remove(name)?;
        Ok(true)
    }

    /// Sends a file of any size.
    fn send(&self, from: &Path, to: &str) -> Result<()> {
        let refused = |e: io::Error| Error::unreadable("job", from, &e);
        let mut file = File::open(from).map_err(refused)?;
        let length = file.metadata().map_err(refused)?.len();
        if length <= WHOLE {
            let mut bytes = vec![];
            file.read_to_end(&mut bytes).map_err(refused)?;
            return self.put(to, &bytes);
        }
        let failed = |e: Refused| self.refused("write", to, &e);
        let mut upload = self.wait(self.store.put_multipart(&self.name(to))).map_err(failed)?;
        let part = PART.max(length.div_ceil(PARTS));
        let mut sent = || -> Result<()> {
            loop {
                let mut bytes = vec![];
                (&mut file).take(part).read_to_end(&mut bytes).map_err(refused)?;
                if bytes.is_empty() {
                    return self.wait(upload.complete()).map(drop).map_err(failed);
                }
                self.wait(upload.put_part(bytes.into())).map_err(failed)?;
            }
        };
        let sent = sent();
        if sent.is_err() {
            // The parts of an upload that was killed stay until the bucket clears them.
            let _ = self.wait(upload.abort());
        }
        sent
    }

    /// Reads an object of any size piece by piece; false if it is not there.
    fn pieces(&self, name: &str, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let Some(got) = self.get(name)? else { return Ok(false) };
        let (size, mut from) = (got.meta.size, 0);
        drop(got);
        while from < size {
            let to = (from + PART).min(size);
            let read = self.wait(self.store.get_range(&self.name(name), from..to));
            take(&read.map_err(|e| self.refused("read", name, &e))?)?;
            from = to;
        }
        Ok(true)
    }
}

/// The claim of this process, at its last version.
struct HeldObject {
    place: Objects,
    name: String,
    version: UpdateVersion,
}

impl Held for HeldObject {
    fn renew(&mut self, bytes: &[u8]) -> Result<()> {
        let mode = PutMode::Update(self.version.clone());
        match self.place.put_if(&self.name, bytes, mode)? {
            Some(version) => {
                self.version = version;
                Ok(())
            }
            None => {
                let wanted = format!("the claim {}", self.place.path(&self.name).display());
                Err(Error::io("work", wanted, "that of another worker", "claim another chunk"))
            }
        }
    }

    fn release(&mut self) {
        // If it cannot be removed, it becomes stale.
        let _ = self.place.remove_if(&self.name, self.version.clone());
    }
}

/// A new name in the folder of temporary files.
fn scratch() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("becalm-{}-{}-{number}", std::process::id(), time.as_nanos());
    std::env::temp_dir().join(name)
}

/// The name of a file with a digest.
fn filed(name: &str, digest: Digest) -> String {
    let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
    format!("{stem}-{digest}.{end}")
}

impl Place for Objects {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}/{name}", self.address).trim_end_matches('/'))
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.version(name, limit)?.map(|(bytes, _)| bytes))
    }

    fn content(&self, name: &str, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>> {
        self.read(&filed(name, digest), limit)
    }

    fn digest(&self, name: &str, digest: Digest) -> Result<Option<Digest>> {
        let mut hasher = blake3::Hasher::new();
        let there = self.pieces(&filed(name, digest), |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok(there.then(|| Digest(*hasher.finalize().as_bytes())))
    }

    fn local(&self, name: &str, digest: Digest) -> Result<Local> {
        let path = scratch();
        let mut file = File::create_new(&path).map_err(|e| Error::unwritable("job", &path, &e))?;
        let local = Local::copy(path.clone());
        let name = filed(name, digest);
        let there = self.pieces(&name, |piece| {
            file.write_all(piece).map_err(|e| Error::unwritable("job", &path, &e))
        })?;
        match there {
            true => Ok(local),
            false => {
                let wanted = format!("to read {}", self.path(&name).display());
                Err(Error::io("job", wanted, "nothing there", REMEDY))
            }
        }
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.maybe(name, self.wait(self.store.head(&self.name(name))))?.is_some())
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        let listed = self.wait(self.store.list_with_delimiter(Some(&self.name(folder))));
        let listed = listed.map_err(|e| self.refused("list", folder, &e))?;
        Ok(listed.objects.iter().filter_map(|o| o.location.filename().map(String::from)).collect())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let payload = PutPayload::from_bytes(Bytes::copy_from_slice(bytes));
        let put = self.wait(self.store.put(&self.name(name), payload));
        put.map(drop).map_err(|e| self.refused("write", name, &e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.wait(self.store.delete(&self.name(name))) {
            Ok(()) | Err(Refused::NotFound { .. }) => Ok(()),
            Err(e) => Err(self.refused("remove", name, &e)),
        }
    }

    fn claim(&self, name: &str, bytes: &[u8]) -> Result<Option<Box<dyn Held>>> {
        let made = self.put_if(name, bytes, PutMode::Create)?;
        let held = |version| HeldObject { place: self.clone(), name: name.into(), version };
        Ok(made.map(|version| Box::new(held(version)) as Box<dyn Held>))
    }

    fn free(&self, name: &str, seen: &[u8]) -> Result<bool> {
        match self.version(name, u64::MAX)? {
            None => Ok(true),
            Some((there, version)) if there == seen => self.remove_if(name, version),
            Some(_) => Ok(false),
        }
    }

    fn commit(
        &self,
        folder: &str,
        files: &[(String, Digest, &[u8])],
        record: &[u8],
    ) -> Result<bool> {
        for (name, digest, bytes) in files {
            self.put(&filed(&format!("{folder}/{name}"), *digest), bytes)?;
        }
        Ok(self.put_if(&format!("{folder}/{RECORD}"), record, PutMode::Create)?.is_some())
    }

    fn committed(&self, folder: &str) -> Result<Vec<String>> {
        let under = format!("{}/", self.name(folder));
        let mut names = vec![];
        self.wait(async {
            let mut objects = self.store.list(Some(&self.name(folder)));
            while let Some(object) = poll_fn(|context| objects.as_mut().poll_next(context)).await {
                let object = object.map_err(|e| self.refused("list", folder, &e))?;
                let name = object.location.as_ref().strip_prefix(&under);
                let whole = name.and_then(|n| n.strip_suffix(RECORD)?.strip_suffix('/'));
                names.extend(whole.map(String::from));
            }
            Ok(())
        })?;
        Ok(names)
    }

    fn is_committed(&self, folder: &str) -> Result<bool> {
        self.exists(&format!("{folder}/{RECORD}"))
    }

    fn withdraw(&self, folder: &str, good: &dyn Fn(&str) -> bool) -> Result<bool> {
        let record = format!("{folder}/{RECORD}");
        // Read before `good` looks: a record that was replaced meanwhile has another version, and stays.
        let head = self.maybe(&record, self.wait(self.store.head(&self.name(&record))))?;
        let Some(head) = head else { return Ok(false) };
        let version = UpdateVersion { e_tag: head.e_tag, version: head.version };
        Ok(!good(folder) && self.remove_if(&record, version)?)
    }

    fn tidy(&self, _: &[&str]) {
        // What a killed worker has left are results under their digests, and another may write the same now.
    }

    fn draft(&self) -> Result<PathBuf> {
        match self.exists(MANIFEST)? {
            true => Err(self.there()),
            false => {
                let path = scratch();
                std::fs::create_dir(&path).map_err(|e| Error::unwritable("job", &path, &e))?;
                Ok(path)
            }
        }
    }

    fn take(&self, folder: &Path, files: &[(String, Digest)]) -> Result<()> {
        for (name, digest) in files {
            self.send(&folder.join(name), &filed(name, *digest))?;
        }
        let path = folder.join(MANIFEST);
        let manifest = std::fs::read(&path).map_err(|e| Error::unreadable("job", &path, &e))?;
        match self.put_if(MANIFEST, &manifest, PutMode::Create)? {
            Some(_) => Ok(()),
            None => Err(self.there()),
        }
    }
}

impl Objects {
    fn there(&self) -> Error {
        let got = format!("{}, which exists", self.address);
        Error::io("job", "a new job", got, "choose another name")
    }
}

#[cfg(test)]
mod tests;
