//! Certificates and keys of TLS, for both sides.

use becalm::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn bad(wanted: String, got: impl ToString) -> Error {
    Error::bad_file(
        "serve",
        wanted,
        got.to_string(),
        "name a file of certificates or of a key, in PEM",
    )
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let wanted = || format!("certificates in {}", path.display());
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|e| bad(wanted(), e))?;
    match found.is_empty() {
        true => Err(bad(wanted(), "none")),
        false => Ok(found),
    }
}

/// The side of the service, from the files of its certificates and of its key.
pub(crate) fn server(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let wanted = format!("a private key in {}", key.display());
    let key = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(wanted, e))?;
    let unusable = |e| bad("a certificate and its key".into(), e);
    let config =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(unusable)?.with_no_client_auth();
    Ok(Arc::new(config.with_single_cert(certificates(chain)?, key).map_err(unusable)?))
}

/// The side of a client that accepts the certificates of a file, or those of its system.
pub(crate) fn client(authorities: Option<&Path>) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let given = match authorities {
        Some(path) => certificates(path)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let (accepted, _) = roots.add_parsable_certificates(given);
    if accepted == 0 {
        return Err(bad("certificates of authorities".into(), "none"));
    }
    let config =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(|e| bad("versions of TLS".into(), e))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
