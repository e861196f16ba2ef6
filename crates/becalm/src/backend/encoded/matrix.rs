//! Matrices, encoded: the diagonals of a linear map, as the steps take them.

use crate::ckks::{Context, Form, Matrix, Short, Steps};
use crate::math::buffer::or_refused;
use crate::math::complex::Complex;
use crate::math::memory::require_memory_or;
use crate::math::parallel::*;
use crate::math::rns::Scratch;
use crate::progress::tell;
use crate::{Error, Progress, Result};
#[cfg(feature = "cuda")]
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The values of an encoded diagonal in each limb.
pub(in crate::backend) enum Diagonal {
    Full(Scratch),
    /// A vector of eight for each tile.
    Tiled(Scratch),
    /// The coefficients, of which the values of a limb are made when its turn comes.
    Short(Short),
}

impl Diagonal {
    /// Values encoded at a level, in a form.
    fn new(context: &Context, x: &[Complex], scale: f64, level: usize, form: Form) -> Diagonal {
        let special = context.special();
        let short = (form == Form::Short).then(|| context.short(x, scale)).flatten();
        match (form, short) {
            (_, Some(short)) => Diagonal::Short(short),
            (Form::Full, _) => Diagonal::Full(context.plain(x, scale, level, special)),
            _ => Diagonal::Tiled(context.plain_tiled(x, scale, level, special)),
        }
    }
}

/// A [`Matrix`] encoded at a level, with its division into baby and giant steps.
pub(in crate::backend) struct LinearMap {
    /// Name of the set that it was encoded for.
    pub(in crate::backend) params: &'static str,
    pub(in crate::backend) level: usize,
    pub(in crate::backend) steps: Steps,
    /// Of the entries.
    pub(in crate::backend) scale: f64,
    /// (l, j, i) → diagonal ((j·m + l)·n_1 + i)·stride, rotated to the right by j·m·n_1·stride.
    pub(in crate::backend) diagonals: BTreeMap<(usize, usize, usize), Diagonal>,
}

impl LinearMap {
    /// Encodes `matrix`, which acts on each of its number of slots alike, for ciphertexts at `level`, with `baby` = n_1 baby steps (a power of two is best) and entries at
    /// scale `scale`.
    ///
    /// # Errors
    /// `BadInput` for a matrix of more than N/2 slots or with no diagonals, a level of 0, or entries that the level below has no
    /// room for; `Memory` where it does not fit; `Interrupted` when stopped: `progress` is told how many diagonals are done.
    pub(in crate::backend) fn new(
        context: &Context,
        matrix: &Matrix,
        level: usize,
        baby: usize,
        scale: f64,
        progress: Progress,
    ) -> Result<LinearMap> {
        let op = "encode a linear map";
        let most = matrix.rotations().max();
        let slots = context.params().slots();
        let (Some(_), true) = (most, matrix.slots() <= slots && matrix.slots().is_power_of_two())
        else {
            let wanted = format!("diagonals of a power of two of at most {slots} slots");
            let got = format!("{} of {}", matrix.rotations().count(), matrix.slots());
            return Err(Error::bad_input(op, wanted, got, "cut the map into smaller ones"));
        };
        if level == 0 || level > context.params().top_level() || baby == 0 {
            let top = context.params().top_level();
            let wanted = format!("a level in 1 ..= {top}, one baby step at least");
            let got = format!("{level}, {baby}");
            return Err(Error::bad_input(op, wanted, got, "choose another level"));
        }
        if level <= context.params().levels {
            context.check_room(op, matrix.largest(), level - 1, context.scale(level - 1)?)?;
        }
        let (n, reader) = (matrix.slots(), matrix.reader());
        let forms = matrix.forms(slots);
        let remedy = "take more stages or fewer slots, or keep matrices within less memory";
        require_memory_or(op, matrix.encoded_bytes(context, level), remedy)?;
        let steps = matrix.steps(baby);
        let Steps { stride, middle, .. } = steps;
        let (done, all) = (AtomicUsize::new(0), forms.len());
        let encode = |(k, form): (usize, Form)| {
            tell(op, progress, done.fetch_add(1, Ordering::Relaxed), all)?;
            let (step, i) = (k / stride / baby, k / stride % baby);
            let (j, l) = (step / middle, step % middle);
            let back = n - j * middle * baby * stride % n;
            // Rotations by multiples of the map's slots change nothing.
            let mut moved = reader.diagonal(k).into_owned();
            moved.rotate_left(back % n);
            Ok(((l, j, i), Diagonal::new(context, &moved, scale, level, form)))
        };
        let encoded = || forms.into_par_iter().map(encode).collect::<Result<_>>();
        let diagonals = or_refused(op, encoded)?;
        let params = context.params().name;
        Ok(LinearMap { params, level, steps, scale, diagonals })
    }

    /// The diagonals by middle, giant and baby step, and whether each has a vector of eight for each tile instead of all values.
    #[cfg(feature = "cuda")]
    pub(in crate::backend) fn places(
        &self,
    ) -> impl Iterator<Item = ((usize, usize, usize), bool)> + '_ {
        let tiled = |d: &Diagonal| !matches!(d, Diagonal::Full(_));
        self.diagonals.iter().map(move |(place, d)| (*place, tiled(d)))
    }

    /// The values of a diagonal modulo the words of the map's level and the special words.
    #[cfg(feature = "cuda")]
    pub(in crate::backend) fn values(
        &self,
        context: &Context,
        place: (usize, usize, usize),
    ) -> Cow<'_, [f64]> {
        match &self.diagonals[&place] {
            Diagonal::Full(x) | Diagonal::Tiled(x) => Cow::Borrowed(&x[..]),
            Diagonal::Short(x) => {
                let each = context.params().degree() / 8;
                let words = context.words_of(self.level, context.special());
                let mut made = vec![0.0; words.len() * each];
                made.par_chunks_mut(each).zip(&words).for_each(|(kept, i)| x.tiles(*i, kept));
                Cow::Owned(made)
            }
        }
    }

    /// Bytes of the encoded diagonals.
    pub(in crate::backend) fn bytes(&self) -> usize {
        let len = |d: &Diagonal| match d {
            Diagonal::Full(x) | Diagonal::Tiled(x) => x.len() * 8,
            Diagonal::Short(x) => x.bytes(),
        };
        self.diagonals.values().map(len).sum()
    }
}
