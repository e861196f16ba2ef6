//! Keys that fit the memory instead of those that were asked for, and how they are said: front ends bring the words.

use super::wish::Wish;
use crate::cipher::{CkksKeys, KeyForm};
use crate::ckks::{Chain, Needs};
use crate::params::CkksParams;
use crate::words::megabytes;

/// An alternative to the request, with its cost: only the differences are set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Another parameter set.
    pub set: Option<&'static CkksParams>,
    /// Values in a ciphertext.
    pub slots: usize,
    /// Another number of stages, which leaves another number of levels.
    pub stages: Option<usize>,
    /// Another size of the keys.
    pub size: Option<&'static str>,
    /// Another form of the keys in memory.
    pub form: Option<KeyForm>,
    /// Whether keys that another machine makes stay in their file here.
    pub stored: bool,
    /// Bytes of the keys and of a bootstrap's work beside them, or of what the refusal counts.
    pub bytes: usize,
}

/// The keys that fit the memory of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fit {
    /// The keys that were asked for.
    AsAsked,
    /// Others.
    Instead(Offer),
    /// None of a standard set; a toy that has the kinds, which protects nothing.
    Toy(&'static CkksParams),
}

impl Offer {
    /// The wish that takes the offer up, for the set of the offer if it has another one.
    pub fn wish(&self, wish: &Wish) -> Wish {
        Wish {
            slots: if self.set.is_some() { Some(self.slots) } else { wish.slots },
            stage_count: match self.set {
                Some(_) => None,
                None => self.stages.or(wish.stage_count),
            },
            size: self.size.or(wish.size),
            form: self.form.or(wish.form),
            ..wish.clone()
        }
    }
}

impl Offer {
    /// The keys for these needs that are not `known`, packed, where they are not; without any work beside them.
    pub fn packed(
        chain: &Chain,
        needs: &Needs,
        form: KeyForm,
        known: Option<&CkksKeys>,
    ) -> Option<Offer> {
        let bytes = chain.bytes_to_make(needs, KeyForm::Packed, known);
        let (slots, form) =
            (chain.params().slots(), (form == KeyForm::Ready).then_some(KeyForm::Packed)?);
        Some(Offer {
            set: None,
            slots,
            stages: None,
            size: None,
            form: Some(form),
            stored: false,
            bytes,
        })
    }
}

/// Offers as one remedy: each as `words` say it, with the bytes that it takes, then `otherwise`. An offer without words is left out.
pub fn said(offers: &[Offer], words: impl Fn(&Offer) -> Option<String>, otherwise: &str) -> String {
    let takes = |offer: &Offer| Some(format!("{} takes {}", words(offer)?, megabytes(offer.bytes)));
    let each = offers.iter().filter_map(takes);
    let last = Some(otherwise.to_string()).filter(|text| !text.is_empty());
    each.chain(last).collect::<Vec<_>>().join("; or ")
}

/// [`said`] of the offers that fit `free` bytes; where none does, of the one that takes the least.
pub fn said_or_least(
    offers: &[Offer],
    free: usize,
    words: impl Fn(&Offer) -> Option<String>,
    otherwise: &str,
) -> String {
    let fitting: Vec<Offer> = offers.iter().copied().filter(|offer| offer.bytes <= free).collect();
    match offers.iter().min_by_key(|offer| offer.bytes).filter(|_| fitting.is_empty()) {
        None => said(&fitting, words, otherwise),
        Some(least) => {
            let words = |offer: &Offer| Some(format!("the least is {}, which", words(offer)?));
            said(&[*least], words, otherwise)
        }
    }
}
