//! Lookup tables: the polynomial whose coefficients a blind rotation turns into place.
//!
//! A value m of p (below a padding bit) has phase near m/(2p), so the rotation brings coefficient ⌊2N·phase⌉ to the
//! front. Coefficient j therefore holds the result for round(j·p/N): each value owns N/p coefficients centred on its own
//! position. Past the last value the polynomial wraps negacyclically into −f(0). Source: Chillotti, Joye, Paillier 2021
//! ("Programmable bootstrapping enables efficient homomorphic inference"), §3; many tables from one rotation: ia.cr/2021/729.

use crate::cipher::{Encoding, Output};
use crate::params::TfheParams;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A plaintext lookup table, and the coefficients to extract from the rotated table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// N coefficients modulo q, 2^η·N for an extended rotation.
    pub(crate) polynomial: Vec<u64>,
    /// The encoding of the values looked up.
    pub(crate) input: Encoding,
    /// Values 0 ..= limit may be looked up.
    pub(crate) limit: i64,
    /// The outputs, one ciphertext for each.
    pub(crate) outputs: Vec<Output>,
}

impl Table {
    /// The table m ↦ `values[m]` from and to the set's own encoding.
    ///
    /// # Errors
    /// As [`Table::with`].
    ///
    /// ```
    /// # use becalm::{params::TfheParams, tfhe::Table};
    /// let params = TfheParams::named("tfhe_1_1")?;
    /// let square = Table::new(params, &[0, 1, 0, 1])?; // m² modulo 4
    /// assert_eq!(square.outputs().len(), 1);
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn new(params: &TfheParams, values: &[u64]) -> Result<Self> {
        let e = Encoding::of(params);
        Table::with(params, e, e, values)
    }

    /// The table of a function on the set's own encoding.
    ///
    /// # Errors
    /// As [`Table::with`].
    pub fn from_fn(params: &TfheParams, f: impl Fn(u64) -> u64) -> Result<Self> {
        let values: Vec<u64> = (0..params.plaintext_modulus()).map(f).collect();
        Table::new(params, &values)
    }

    /// The table of a function of two values, looked up at `a·base + b` with `b < base`.
    ///
    /// # Errors
    /// [`Error::BadInput`] if `base` does not divide the set's values; as [`Table::with`].
    pub fn from_fn2(params: &TfheParams, base: u64, f: impl Fn(u64, u64) -> u64) -> Result<Self> {
        let p = params.plaintext_modulus();
        if base == 0 || !p.is_multiple_of(base) {
            return Err(Error::bad_input(
                "table",
                format!("a packing base that divides {p}"),
                base.to_string(),
                "use the message modulus as base",
            ));
        }
        Table::from_fn(params, |m| f(m / base, m % base))
    }

    /// The table m ↦ `values[m]` between any two encodings; the input's needs a padding bit. `values` may be shorter
    /// than the input's space: then only the values that it lists may be looked up.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a table longer than the space or than N, an entry outside the output's values, or an
    /// input encoding without a padding bit.
    pub fn with(
        params: &TfheParams,
        input: Encoding,
        output: Encoding,
        values: &[u64],
    ) -> Result<Self> {
        Table::many(params, input, output, &[values])
    }

    /// Several tables looked up by one rotation. With t tables (t a power of two that divides p) each has at most p/t
    /// entries: t values share the room of one, at no extra noise.
    ///
    /// # Errors
    /// [`Error::BadInput`] as [`Table::with`], or if t is not a power of two that divides the number of values.
    pub fn many(
        params: &TfheParams,
        input: Encoding,
        output: Encoding,
        tables: &[&[u64]],
    ) -> Result<Self> {
        let (n, t) = (params.table_size(), tables.len());
        let (input, output) = (input.checked()?, output.checked()?);
        let p = input.values;
        check_shape(params, input, tables)?;
        if let Some(at) = tables.iter().flat_map(|t| t.iter()).position(|v| *v >= output.values) {
            // The table may be about to be encrypted: the position is public, the entry is not.
            return Err(Error::bad_input(
                "table",
                format!("entries below {}", output.values),
                format!("a larger one at position {at}"),
                "reduce the entries or choose an output encoding with more values",
            ));
        }
        let part = (p / t as u64) as usize;
        let listed = |m: usize| tables[m / part].get(m % part).copied().unwrap_or(0) as i64;
        let polynomial = boxes(params, output, &(0..p as usize).map(listed).collect::<Vec<_>>());
        let outputs = tables
            .iter()
            .enumerate()
            .map(|(s, table)| Output {
                index: s * n / t,
                encoding: output,
                range: (
                    table.iter().min().map_or(0, |v| *v as i64),
                    table.iter().max().map_or(0, |v| *v as i64),
                ),
            })
            .collect();
        let limit = tables.iter().map(|t| t.len()).min().unwrap_or(0) as i64 - 1;
        Ok(Table { polynomial, input, limit, outputs })
    }

    /// A table on the whole torus of p entries: `entries[v]` at v/(2p) and, because rotation is negacyclic, −`entries[v]`
    /// half a torus further. An output (offset, range) takes the entry `offset` places further on. Entries are values of
    /// `output`, of either sign.
    pub(crate) fn circle(
        params: &TfheParams,
        input: Encoding,
        output: Encoding,
        entries: &[i64],
        outputs: &[(usize, (i64, i64))],
    ) -> Self {
        let step = params.table_size() / entries.len().max(1);
        let outputs = outputs
            .iter()
            .map(|(at, range)| Output { index: at * step, encoding: output, range: *range })
            .collect();
        let polynomial = boxes(params, output, entries);
        Table { polynomial, input, limit: input.values as i64 - 1, outputs }
    }

    /// The sign of a phase anywhere on the torus: 1/8 in the upper half, −1/8 in the lower. Boolean gates are this
    /// table after a linear combination; adding 1/8 gives a value of the two-valued encoding.
    pub(crate) fn sign(params: &TfheParams) -> Self {
        let output = Encoding { values: 2, padding: true };
        Table {
            polynomial: vec![params.modulus.fraction(1, 8); params.table_size()],
            input: Encoding { values: 2, padding: false },
            limit: 1,
            outputs: vec![Output { index: 0, encoding: output, range: (0, 1) }],
        }
    }

    /// Also extracts the coefficient `index` of the rotated polynomial, as a value of `encoding`.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the polynomial has no such coefficient.
    pub fn extract(mut self, index: usize, encoding: Encoding) -> Result<Self> {
        if index >= self.polynomial.len() {
            return Err(Error::bad_input(
                "table",
                format!("an extraction index below {}", self.polynomial.len()),
                index.to_string(),
                "extract a coefficient of the polynomial",
            ));
        }
        self.outputs.push(Output {
            index,
            encoding: encoding.checked()?,
            range: (0, encoding.values as i64 - 1),
        });
        Ok(self)
    }

    /// The outputs of a lookup.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The encoding of the values looked up.
    pub fn input(&self) -> Encoding {
        self.input
    }

    /// The coefficients modulo q, [`TfheParams::table_size`] of them.
    pub fn polynomial(&self) -> &[u64] {
        &self.polynomial
    }
}

/// The polynomial with `entries` in boxes of 1/p of its coefficients, each centred on its own position.
fn boxes(params: &TfheParams, output: Encoding, entries: &[i64]) -> Vec<u64> {
    let (n, p) = (params.table_size() as u128, entries.len() as u128);
    let words: Vec<u64> = entries.iter().map(|v| output.encode(params.modulus, *v)).collect();
    (0..n)
        .map(|j| match ((2 * j * p + n) / (2 * n)) as usize {
            m if m == entries.len() => params.modulus.neg(words[0]),
            m => words[m],
        })
        .collect()
}

fn check_shape(params: &TfheParams, input: Encoding, tables: &[&[u64]]) -> Result<()> {
    let (p, t) = (input.values, tables.len() as u64);
    let refuse = |wanted: String, got: String, remedy: &str| {
        Err(Error::bad_input("table", wanted, got, remedy))
    };
    if !input.padding {
        return refuse(
            "an input encoding with a padding bit".into(),
            "none".into(),
            "encode with Encoding::padded",
        );
    }
    if p > params.table_size() as u64 {
        return refuse(
            format!("at most {} values", params.table_size()),
            p.to_string(),
            "use a set with a larger polynomial",
        );
    }
    // Only accumulator 0 is extracted from: t tables lie table_size/t coefficients apart.
    if t > params.polynomial_size as u64 {
        return refuse(
            format!("at most N = {} tables", params.polynomial_size),
            t.to_string(),
            "look up in several rotations",
        );
    }
    if !t.is_power_of_two() || !p.is_multiple_of(t) {
        return refuse(
            format!("a power of two of tables that divides {p}"),
            t.to_string(),
            "pad the list of tables",
        );
    }
    for table in tables {
        if table.is_empty() || table.len() as u64 > p / t {
            let (wanted, remedy) = match t {
                1 => (format!("1 to {p} entries"), "give one entry for each value"),
                _ => (
                    format!("1 to {} entries in each of {t} tables of one rotation", p / t),
                    "give one entry for each value, or fewer tables",
                ),
            };
            return refuse(wanted, format!("{} entries", table.len()), remedy);
        }
    }
    Ok(())
}
