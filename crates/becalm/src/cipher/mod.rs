//! Ciphertexts, encodings and keys. No algorithm lives here: encryption, linear operations and key generation are in
//! [`crate::tfhe`].

mod account;
mod ciphertext;
mod encoding;
mod evaluation_key;
pub mod file;
mod key;
mod key_form;
mod purpose;
mod rlwe;
mod slot_key;
mod vouch;

pub use account::{Account, Loss, Standing};
pub(crate) use account::{PRODUCT_TAIL, TAIL, fresh_bound, key_product_bound, product_bound};
pub use ciphertext::{Ciphertext, Glwe, Lwe, Output};
pub use encoding::Encoding;
pub use evaluation_key::EvaluationKey;
pub(crate) use key::check_structure;
pub use key::{KeyId, KeyRole, SecretKey, Words};
pub use key_form::KeyForm;
pub(crate) use rlwe::{Budget, Held, KeyFile, MOST_PARTIES, Packed, Purpose, StoredKey};
pub use rlwe::{CkksKeys, CkksPublicKey, CkksSecretKey, Integers, PackedRlwe, Rlwe, SwitchKey};
pub(crate) use slot_key::slot_gadget;
pub use slot_key::{RowSums, SlotKey, SlotKeyKind};
