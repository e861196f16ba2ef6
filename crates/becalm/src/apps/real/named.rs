//! The functions by name, with the domain and the precision that each has unless others are asked for: front ends look them up here.

use super::{
    Function, absolute, argmax, compare, exp, inverse, inverse_sqrt, largest, matrix_product,
    matrix_vector, maximum, mean, minimum, replicate, sigmoid, sign, smallest, sort, sqrt, sum,
    tanh,
};
use crate::params::near;
use crate::{Error, Result};

/// Parameters that a caller asks for. A parameter that is `None` has its usual value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Asked {
    /// The least value and the largest.
    pub domain: Option<[f64; 2]>,
    /// The error is at most 2^-bits.
    pub bits: Option<f64>,
    /// The least distance between values that it tells apart.
    pub gap: Option<f64>,
    /// Slots of a block, terms of a sum, or rows of a matrix.
    pub size: Option<usize>,
    /// The distance between the slots of a sum.
    pub stride: Option<usize>,
    /// The slot of a block that is copied.
    pub index: Option<usize>,
}

/// The arguments of a function beside vectors.
#[derive(Debug, Clone, Copy)]
enum Make {
    /// A domain and bits.
    Series(fn([f64; 2], f64) -> Result<Function>),
    /// A domain, a gap and bits.
    Beyond(fn([f64; 2], f64, f64) -> Result<Function>),
    /// A size, a domain and bits.
    Blocks(fn(usize, [f64; 2], f64) -> Result<Function>),
    /// A size, a domain, a gap and bits.
    Place(fn(usize, [f64; 2], f64, f64) -> Result<Function>),
    /// A size and a stride.
    Strided(fn(usize, usize) -> Result<Function>),
    /// A size and a slot.
    Copies(fn(usize, usize) -> Result<Function>),
    /// A size.
    Matrix(fn(usize) -> Result<Function>),
}

/// A function that has a name.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// Its result, in a line.
    pub about: &'static str,
    /// Its usual parameters. One that is `None` must be asked for, or the function does not take it.
    pub usual: Asked,
    make: Make,
}

/// Nothing.
const NONE: Asked =
    Asked { domain: None, bits: None, gap: None, size: None, stride: None, index: None };

/// A usual domain and bits.
const fn on(low: f64, high: f64, bits: f64) -> Asked {
    Asked { domain: Some([low, high]), bits: Some(bits), ..NONE }
}

/// Usual bits, and no domain.
const fn to(bits: f64) -> Asked {
    Asked { bits: Some(bits), ..NONE }
}

/// The usual gap besides.
const fn apart(usual: Asked) -> Asked {
    Asked { gap: Some(1.0 / 256.0), ..usual }
}

const fn row(name: &'static str, usual: Asked, make: Make, about: &'static str) -> Named {
    Named { name, about, usual, make }
}

const NEXT: Asked = Asked { stride: Some(1), ..NONE };
const FIRST: Asked = Asked { index: Some(0), ..NONE };

const ALL: [Named; 20] = [
    row("sigmoid", on(-8.0, 8.0, 12.0), Make::Series(sigmoid), "1/(1 + e^-x)"),
    row("tanh", on(-4.0, 4.0, 12.0), Make::Series(tanh), "the hyperbolic tangent"),
    row("exp", on(-1.0, 1.0, 20.0), Make::Series(exp), "e^x"),
    row("inverse", to(16.0), Make::Series(inverse), "1/x for positive x"),
    row("sqrt", on(0.0, 1.0, 8.0), Make::Series(sqrt), "the square root"),
    row("inverse_sqrt", to(16.0), Make::Series(inverse_sqrt), "1/sqrt(x) for positive x"),
    row("absolute", on(-1.0, 1.0, 8.0), Make::Series(absolute), "|x|"),
    row("maximum", on(0.0, 1.0, 8.0), Make::Series(maximum), "the larger of two vectors"),
    row("minimum", on(0.0, 1.0, 8.0), Make::Series(minimum), "the smaller of two vectors"),
    row("sign", apart(on(-1.0, 1.0, 10.0)), Make::Beyond(sign), "-1 or 1"),
    row("compare", apart(on(0.0, 1.0, 10.0)), Make::Beyond(compare), "1 where x > y, else 0"),
    row("largest", on(0.0, 1.0, 8.0), Make::Blocks(largest), "the largest value of each block"),
    row("smallest", on(0.0, 1.0, 8.0), Make::Blocks(smallest), "the smallest value of each block"),
    row("sort", on(0.0, 1.0, 5.0), Make::Blocks(sort), "each block in rising order"),
    row(
        "argmax",
        apart(on(0.0, 1.0, 4.0)),
        Make::Place(argmax),
        "the place of the largest value of each block, and the value",
    ),
    row("sum", NEXT, Make::Strided(sum), "the sum of slots from each one on"),
    row("mean", NEXT, Make::Strided(mean), "the mean of slots from each one on"),
    row("replicate", FIRST, Make::Copies(replicate), "one slot of each block in all of its slots"),
    row("matrix_product", NONE, Make::Matrix(matrix_product), "the product of two matrices"),
    row("matrix_vector", NONE, Make::Matrix(matrix_vector), "a matrix times a vector"),
];

impl Named {
    /// All functions with a name.
    pub fn all() -> &'static [Named] {
        &ALL
    }

    /// The function of a name.
    ///
    /// # Errors
    /// `BadInput` for another name, with all names.
    pub fn of(name: &str) -> Result<&'static Named> {
        ALL.iter().find(|f| f.name == name).ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|f| f.name).collect();
            let few = near(name, names.iter().copied());
            let remedy = format!("{few}use one of {}", names.join(", "));
            Error::bad_input("function", "the name of a function", format!("`{name:.40}`"), remedy)
        })
    }

    /// Whether it takes a domain, bits, a gap, a size, a stride and an index, by their names.
    pub fn takes(&self) -> &'static [&'static str] {
        match self.make {
            Make::Series(_) => &["domain", "bits"],
            Make::Beyond(_) => &["domain", "gap", "bits"],
            Make::Blocks(_) => &["size", "domain", "bits"],
            Make::Place(_) => &["size", "domain", "gap", "bits"],
            Make::Strided(_) => &["size", "stride"],
            Make::Copies(_) => &["size", "index"],
            Make::Matrix(_) => &["size"],
        }
    }

    /// The function, with what is asked in place of what it usually has.
    ///
    /// # Errors
    /// `BadInput` for what it does not take, and for a domain or a size that it needs and nobody gives; the errors of the function.
    ///
    /// ```
    /// use becalm::apps::real::{Asked, Named};
    ///
    /// let asked = Asked { bits: Some(10.0), ..Asked::default() };
    /// let sigmoid = Named::of("sigmoid")?.made(&asked)?;
    /// assert_eq!(sigmoid.domain(), Some([-8.0, 8.0]));
    /// assert!(sigmoid.error() <= 2f64.powi(-10));
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn made(&self, asked: &Asked) -> Result<Function> {
        self.require_taken(asked)?;
        let usual = &self.usual;
        let domain = || self.given("domain", asked.domain.or(usual.domain));
        let bits = || self.given("bits", asked.bits.or(usual.bits));
        let gap = || self.given("gap", asked.gap.or(usual.gap));
        let size = || self.given("size", asked.size.or(usual.size));
        match self.make {
            Make::Series(f) => f(domain()?, bits()?),
            Make::Beyond(f) => f(domain()?, gap()?, bits()?),
            Make::Blocks(f) => f(size()?, domain()?, bits()?),
            Make::Place(f) => f(size()?, domain()?, gap()?, bits()?),
            Make::Strided(f) => f(size()?, self.given("stride", asked.stride.or(usual.stride))?),
            Make::Copies(f) => f(size()?, self.given("index", asked.index.or(usual.index))?),
            Make::Matrix(f) => f(size()?),
        }
    }

    fn given<T>(&self, what: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| {
            let remedy = format!("{} has no usual {what}; name one", self.name);
            Error::bad_input("function", format!("a {what} for {}", self.name), "none", remedy)
        })
    }

    fn require_taken(&self, asked: &Asked) -> Result<()> {
        let there = [
            ("domain", asked.domain.is_some()),
            ("bits", asked.bits.is_some()),
            ("gap", asked.gap.is_some()),
            ("size", asked.size.is_some()),
            ("stride", asked.stride.is_some()),
            ("index", asked.index.is_some()),
        ];
        let taken = self.takes();
        match there.iter().find(|(name, is)| *is && !taken.contains(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let wanted = format!("{} for {}", taken.join(", "), self.name);
                let remedy = format!("leave {name} out");
                Err(Error::bad_input("function", wanted, format!("{name} too"), remedy))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function has the bits that were asked for, or none is made: the error has its name and the numbers that were asked.
    #[test]
    fn bits_out_of_reach_are_refused_by_name() {
        let check = |f: &Named, bits: f64, gap: f64| {
            let takes = |what| f.takes().contains(&what);
            let asked = Asked {
                bits: Some(bits),
                gap: takes("gap").then_some(gap),
                size: takes("size").then_some(4),
                domain: f.usual.domain.is_none().then_some([0.5, 1.0]),
                ..Asked::default()
            };
            match f.made(&asked) {
                Ok(made) => assert!(made.error() <= (-bits).exp2(), "{} {bits} {gap}", f.name),
                Err(e) => {
                    let d = e.detail();
                    assert_eq!(d.op, f.name);
                    let told = d.got.contains(&format!("{bits} bits"));
                    assert!(told || d.wanted.contains(&format!("{bits:.1} bits")), "{e}");
                }
            }
        };
        let all = Named::all().iter().filter(|f| f.takes().contains(&"bits"));
        // Side by side, as some search for long before they refuse.
        std::thread::scope(|scope| {
            for f in all {
                for (bits, gap) in [(7.5, 0.25), (25.0, 0.25), (40.0, 1e-7)] {
                    scope.spawn(move || check(f, bits, gap));
                }
            }
        });
    }

    /// Every function by name can be made, and says its name; what it lacks is named.
    #[test]
    fn every_name_makes_its_function() {
        for f in Named::all() {
            let lacking = |what| f.takes().contains(&what);
            let asked = Asked {
                size: lacking("size").then_some(4),
                domain: (lacking("domain") && f.usual.domain.is_none()).then_some([0.5, 1.0]),
                ..Asked::default()
            };
            assert_eq!(f.made(&asked).unwrap().name(), f.name);
            if asked != Asked::default() {
                let said = f.made(&Asked::default()).unwrap_err().to_string();
                assert!(said.contains(f.name) && said.contains("no usual"), "{said}");
            }
        }
    }

    #[test]
    fn what_a_function_does_not_take_is_an_error() {
        let asked = Asked { gap: Some(0.5), ..Asked::default() };
        let said = Named::of("sigmoid").unwrap().made(&asked).unwrap_err().to_string();
        assert!(said.contains("domain, bits for sigmoid") && said.contains("gap"), "{said}");
        let said = Named::of("sinus").unwrap_err().to_string();
        assert!(said.contains("`sinus`") && said.contains("sigmoid, tanh"), "{said}");
    }
}
