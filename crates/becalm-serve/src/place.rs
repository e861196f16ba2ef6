//! Jobs by the name of their folder, or by their address in an object store.

use becalm::Result;
use becalm::job::{Job, Parts, Place};
use std::path::Path;
use std::sync::Arc;

/// Opens a job in a folder, or at an address such as `s3://bucket/job`, `gs://bucket/job` or `az://container/job`. Credentials come
/// from the environment.
///
/// # Errors
/// As [`Job::open`]; [`Error::Unsupported`](becalm::Error::Unsupported) for an address, if becalm was built without the feature `store`;
/// [`Error::BadInput`](becalm::Error::BadInput) for another address.
pub fn open_at(name: &Path) -> Result<Job> {
    match store(name)? {
        Some(place) => Job::open_at(place),
        None => Job::open(name),
    }
}

/// Makes a job in a new folder, or at an address as [`open_at`] takes it.
///
/// # Errors
/// As [`Parts::make`] and [`open_at`].
pub fn make_at(parts: &Parts, name: &Path) -> Result<Job> {
    match store(name)? {
        Some(place) => parts.make_at(place),
        None => parts.make(name),
    }
}

/// The place at an address; none for the name of a folder.
fn store(name: &Path) -> Result<Option<Arc<dyn Place>>> {
    let Some(address) = name.to_str().filter(|name| name.contains("://")) else { return Ok(None) };
    #[cfg(feature = "store")]
    return Ok(Some(Arc::new(crate::objects::Objects::open(address)?)));
    #[cfg(not(feature = "store"))]
    {
        let wanted = "a becalm that was built with the feature `store`";
        let scheme = address.split("://").next().unwrap_or("");
        let got = format!("one without it, and the address of a job in a store, {scheme}://…");
        let remedy = "build it: cargo build --release -p becalm-cli --features store";
        Err(becalm::Error::unsupported("job", wanted, got, remedy))
    }
}
