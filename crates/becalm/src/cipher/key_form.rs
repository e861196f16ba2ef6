//! How evaluation keys of CKKS are held in memory.

use super::Purpose;
use crate::{Error, Result};

/// The forms by name.
const FORMS: [(&str, KeyForm); 3] =
    [("ready", KeyForm::Ready), ("packed", KeyForm::Packed), ("seeded", KeyForm::Seeded)];

/// How evaluation keys are held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyForm {
    /// As they are used: a residue takes 64 bits.
    #[default]
    Ready,
    /// Residues of as many bits as their primes, a quarter less, unpacked in the product.
    Packed,
    /// Half of the packed residues, three eighths of the size: the others are drawn from a seed whenever they are used.
    Seeded,
}

impl KeyForm {
    /// The form of one of the keys: that of the user's products, which is used most, is not drawn anew every time.
    pub(crate) fn of(self, which: (Purpose, usize)) -> KeyForm {
        match self {
            KeyForm::Seeded if which == (Purpose::Multiply, 0) => KeyForm::Ready,
            form => form,
        }
    }

    /// Its name: `"ready"`, `"packed"` or `"seeded"`.
    pub fn name(self) -> &'static str {
        FORMS.iter().find(|(_, form)| *form == self).map_or("", |(name, _)| name)
    }

    /// The form of this name.
    ///
    /// # Errors
    /// `BadInput` with the names there are.
    pub fn named(name: &str) -> Result<KeyForm> {
        FORMS.iter().find(|(own, _)| *own == name).map(|(_, form)| *form).ok_or_else(|| {
            let wanted = "ready, packed or seeded keys";
            Error::bad_input("keygen", wanted, name, "choose one of these")
        })
    }
}
