//! Files that hold a secret: no writer replaces one by accident, for nothing brings it back.

use super::disk::read_header;
use super::{Header, Kind};
use crate::{Error, Result};
use std::path::Path;

/// The header of the file at `path`, if it holds a secret key or a share of one.
fn secret_at(path: &Path) -> Option<Header> {
    // Looked at first: opening a pipe would wait for its writer.
    let header = path.is_file().then(|| read_header(path).ok()).flatten()?.0;
    let secret = [Kind::SecretKey, Kind::CkksSecretKey, Kind::CkksKeyShare, Kind::CkksParty];
    header.kind().is_ok_and(|kind| secret.contains(&kind)).then_some(header)
}

/// Refuses a place that holds a secret, for a file that holds none. Nobody who asks to overwrite ciphertexts means a key.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn require_no_secret(path: &Path) -> Result<()> {
    match secret_at(path) {
        None => Ok(()),
        Some(_) => Err(holds_a_secret(path, "choose another name")),
    }
}

/// Refuses a place that holds another secret than that of a header. The same secret may be written again.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn require_no_other(path: &Path, new: &Header) -> Result<()> {
    let same = |old: &Header| old.metadata.get("checksum") == new.metadata.get("checksum");
    match secret_at(path) {
        Some(old) if !same(&old) => {
            Err(holds_a_secret(path, "choose another name, or remove that file first"))
        }
        _ => Ok(()),
    }
}

fn holds_a_secret(path: &Path, remedy: &str) -> Error {
    let got = format!("{}, which holds a secret key", path.display());
    Error::io("save", "a name that no secret key has", got, remedy)
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, replace, replace_all};
    use crate::Error;
    use crate::cipher::SecretKey;
    use crate::cipher::file::Trust;
    use crate::params::TfheParams;

    #[test]
    fn a_secret_key_is_replaced_by_force_alone_and_never_by_ciphertexts() {
        let path = std::env::temp_dir().join(format!("becalm-secret-{}", std::process::id()));
        let make = || SecretKey::generate(TfheParams::named("toy_boolean").unwrap(), true).unwrap();
        let (first, second) = (make(), make());
        let is =
            |key: &SecretKey| SecretKey::load(&path, Trust::insecure()).unwrap().id() == key.id();
        first.save(&path).unwrap();
        first.save(&path).unwrap();
        let refused = second.save(&path).unwrap_err();
        assert!(refused.kind() == "io" && refused.to_string().contains("holds a secret key"));
        let ct = first.encrypt(&[1, 0]).unwrap();
        assert_eq!(ct.save(&path).unwrap_err().kind(), "io");
        assert_eq!(replace_all(vec![ct.part(&path).unwrap()], true).unwrap_err().kind(), "io");
        assert!(is(&first));
        replace_all(vec![second.part(&path).unwrap()], true).unwrap();
        assert!(is(&second));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn evaluation_keys_are_replaced_by_evaluation_keys_alone() {
        let path = std::env::temp_dir().join(format!("becalm-kept-{}", std::process::id()));
        let secret = SecretKey::generate(TfheParams::named("toy_boolean").unwrap(), true).unwrap();
        let keys = secret.evaluation_key().unwrap();
        keys.save(&path).unwrap();
        keys.save(&path).unwrap();
        let text = |out: &mut super::super::Output| {
            std::io::Write::write_all(out, b"a text")
                .map_err(|e| Error::io("save", "", e.to_string(), ""))
        };
        let ct = secret.encrypt(&[1, 0]).unwrap();
        let refused = [
            ct.save(&path).unwrap_err(),
            secret.save(&path).unwrap_err(),
            replace(&path, false, text).unwrap_err(),
            replace_all(vec![ct.part(&path).unwrap()], true).unwrap_err(),
            replace_all(vec![secret.part(&path).unwrap()], true).unwrap_err(),
        ];
        for e in refused {
            assert!(e.kind() == "io" && e.to_string().contains("which holds a key"), "{e}");
        }
        assert_eq!(Kind::of(&path).unwrap(), Kind::EvaluationKey);
        std::fs::remove_file(&path).unwrap();
        ct.save(&path).unwrap();
        ct.save(&path).unwrap();
        secret.save(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
