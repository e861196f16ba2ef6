//! The accounts of the results of a program, from those of its arguments: the one place where errors of CKKS are added up.
//!
//! Bounds hold whatever registers have in common: errors of sums and products are added, not their squares, because a register may meet
//! itself. The error that an instruction adds of its own, the rounding of a rescale or the noise of a key, is independent of all before. A
//! matrix multiplies errors by its norm, their bound by its longest row; a polynomial by its slope ([`polynomial`](super::polynomial)).
//! Behind a bootstrap its contract holds ([`Limits`]), so that nothing between its first instruction and its last is followed.

use super::polynomial::Evaluated;
use super::steps::{Steps, added};
use super::{Added, Again, CkksOp, CkksProgram, Gives, Limits, RlweInfo};
use crate::cipher::{Account, Integers, Rlwe, Standing, fresh_bound, product_bound};
use crate::ckks::{Chebyshev, sum_rotations};
use crate::program::{Operation, Reg};

/// The registers that the account behind an instruction follows from: behind a bootstrap those that were bootstrapped.
fn follows(op: &CkksOp) -> Vec<Reg> {
    match op {
        CkksOp::Refreshed { from, .. } => from.clone(),
        CkksOp::Tabulate { from, .. } => vec![*from],
        other => other.sources(),
    }
}

/// The largest claimed error.
fn largest<'a>(of: impl Iterator<Item = &'a Account>) -> f64 {
    of.map(|a| a.error).fold(0.0, f64::max)
}

impl CkksProgram {
    /// The results that a machine computed of these arguments, with their accounts. A bootstrap returns as many slots as its arguments
    /// have.
    pub(crate) fn stamped(&self, inputs: &[&Rlwe], made: impl Iterator<Item = Rlwe>) -> Vec<Rlwe> {
        let each = inputs.iter().zip(&self.inputs);
        let given: Vec<Account> = each.map(|(x, reg)| self.arrived(x, *self.reg(*reg))).collect();
        let slots = self.limits.error.and(inputs.first().map(|x| x.slots));
        let accounts = self.accounts(&given).into_iter();
        let given = inputs.iter().filter_map(|x| x.integers).map(|own| own.count);
        let count = given.chain(self.packed()).max().unwrap_or(self.params().degree());
        let integers = |reg: &Reg| Some(Integers { bits: self.reg(*reg).integers?, count });
        let each = made.zip(accounts).zip(&self.outputs);
        each.map(|((x, account), reg)| Rlwe {
            account,
            slots: slots.unwrap_or(x.slots),
            integers: integers(reg),
            ..x
        })
        .collect()
    }

    /// How many integers each instruction makes of slots.
    fn packed(&self) -> impl Iterator<Item = usize> {
        self.ops.iter().filter_map(|op| match op {
            CkksOp::Tabulate { contract, .. } => match contract.gives {
                Gives::Packed(_, count) => Some(count),
                Gives::Integers(_) | Gives::Slots => None,
            },
            _ => None,
        })
    }

    /// The account of each result, from the accounts of the arguments.
    pub(crate) fn accounts(&self, inputs: &[Account]) -> Vec<Account> {
        if self.limits.error.is_some() {
            let made = self.limits.refreshed(inputs.iter().copied());
            let made =
                made.behind("bootstrap", self.ops.len().saturating_sub(1), largest(inputs.iter()));
            return vec![made; self.outputs.len()];
        }
        let known = self.known_accounts(inputs);
        self.outputs.iter().map(|r| known[r.0 as usize]).collect()
    }

    /// The accounts of the registers that a result depends on, in order.
    pub(super) fn known_accounts(&self, inputs: &[Account]) -> Vec<Account> {
        let needed = self.accounted();
        // All arguments are of one key.
        let parties = inputs.iter().map(|a| a.parties).fold(1, usize::max);
        let steps = Steps { chain: &self.chain, parties };
        let mut known = vec![Account::UNKNOWN; self.registers()];
        for (reg, account) in self.inputs.iter().zip(inputs) {
            let RlweInfo { level, scale, .. } = *self.reg(*reg);
            known[reg.0 as usize] = self.fitting(*account, level, scale);
        }
        for (at, op) in self.ops.iter().enumerate().filter(|(_, op)| needed[op.result().0 as usize])
        {
            let made = self.account(op, &known, steps);
            let RlweInfo { level, scale, .. } = *self.reg(op.result());
            let before = largest(follows(op).iter().map(|r| &known[r.0 as usize]));
            let name = if matches!(op, CkksOp::Refreshed { .. }) { "bootstrap" } else { op.name() };
            let made = made.behind(name, at, before);
            known[op.result().0 as usize] = self.fitting(made, level, scale);
        }
        known
    }

    /// The account of a ciphertext as an argument: one above its level is brought down first.
    pub(super) fn arrived(&self, x: &Rlwe, to: RlweInfo) -> Account {
        let (from, chain) = (RlweInfo { level: x.level, scale: x.scale, ..to }, &self.chain);
        match x.level > to.level {
            true => {
                let steps = Steps { chain, parties: x.account.parties };
                x.account.times(self.factor(1.0, from, to)).blurred(steps.rescaled(to.scale))
            }
            false => x.account,
        }
    }

    /// A number times a register: an integer nearest it, at the scale that a rescale divides to that of the result.
    fn factor(&self, c: f64, from: RlweInfo, to: RlweInfo) -> Account {
        let over = from.scale / (to.scale * self.chain.step(to.level + 1));
        let off = 0.5 * over + c.abs() * 2.0 * f64::EPSILON;
        Account::public(c.abs(), off, off)
    }

    /// The registers whose account a result depends on.
    fn accounted(&self) -> Vec<bool> {
        let mut needed = vec![false; self.registers()];
        self.outputs.iter().for_each(|r| needed[r.0 as usize] = true);
        for op in self.ops.iter().rev().filter(|op| !matches!(op, CkksOp::RaiseModulus { .. })) {
            if needed[op.result().0 as usize] {
                follows(op).into_iter().for_each(|r| needed[r.0 as usize] = true);
            }
        }
        needed
    }

    /// An account of values that their level may have no room for is none to rely on: they may wrap.
    fn fitting(&self, account: Account, level: usize, scale: f64) -> Account {
        match (account.values + account.worst) * scale < self.chain.modulus(level) / 2.0 {
            true => account,
            false => account.but(Standing::WRAPPED),
        }
    }

    fn account(&self, op: &CkksOp, known: &[Account], steps: Steps) -> Account {
        let of = |r: &Reg| known[r.0 as usize];
        let (to, from) = (*self.reg(op.result()), op.sources().first().map(|r| *self.reg(*r)));
        let from = from.unwrap_or(to);
        let rescaled = steps.rescaled(to.scale);
        // Relinearized before: at the scale of the product, which the rescale divides.
        let relinearized =
            || steps.relinearized(from.level, to.scale * self.chain.step(from.level));
        match op {
            CkksOp::Linear { src, map, .. } => self.mapped(of(src), from, to, *map, steps),
            CkksOp::Polynomial { src, polynomial, .. } => {
                let p = &self.polynomials[*polynomial as usize];
                Evaluated::new(steps, p, from, to.scale).account(of(src))
            }
            CkksOp::DoubleAngle { src, .. } => {
                let square = of(src).times(of(src)).scaled(2.0);
                let one = Account::public(1.0, 0.0, 0.0);
                let made = square.plus(one).blurred(relinearized());
                // It is the Chebyshev polynomial T₂: within 1 for real values within 1, and for no others.
                match of(src).values <= 1.0 {
                    true => Account { values: 1.0, ..made }.but(Standing::POLYNOMIAL),
                    false => made,
                }
            }
            CkksOp::Multiply { a, b, .. } => of(a).times(of(b)).blurred(relinearized()),
            CkksOp::Dot { pairs, .. } => {
                let products = pairs.iter().map(|(a, b)| of(a).times(of(b)));
                let sum = products.reduce(Account::plus).unwrap_or(Account::UNKNOWN);
                sum.blurred(relinearized())
            }
            CkksOp::Add { a, b, .. } | CkksOp::Subtract { a, b, .. } => of(a).plus(of(b)),
            CkksOp::AddConstant { src, .. }
            | CkksOp::AddPlain { src, .. }
            | CkksOp::MultiplyConstant { src, .. }
            | CkksOp::MultiplyPlain { src, .. } => self.with_public(op, of(src), from, to, steps),
            CkksOp::WeightedSum { terms, .. } => self.weighted(terms, known, to).blurred(rescaled),
            CkksOp::Conjugate { src, .. } | CkksOp::Rotate { src, .. } => {
                of(src).blurred(steps.switched(from.level, from.scale))
            }
            CkksOp::Sum { src, size, .. } => {
                (0..sum_rotations(*size).len()).fold(of(src), |sum, _| doubled(sum, from, steps))
            }
            CkksOp::Trace { src, dst } => {
                self.traced(*dst, *src).fold(of(src), |sum, _| doubled(sum, from, steps))
            }
            CkksOp::LevelDown { .. } if to.level == from.level => of(&op.sources()[0]),
            CkksOp::LevelDown { src, .. } => {
                of(src).times(self.factor(1.0, from, to)).blurred(rescaled)
            }
            CkksOp::Rescale { src, .. } => of(src).blurred(rescaled),
            CkksOp::Reinterpret { src, .. } => of(src).scaled(from.scale / to.scale),
            CkksOp::MultiplyI { src, .. }
            | CkksOp::Negate { src, .. }
            | CkksOp::Repeat { src, .. } => of(src),
            CkksOp::Refreshed { from, limits, .. } => limits.refreshed(from.iter().map(of)),
            CkksOp::Tabulate { from, contract, .. } => contract.account(of(from)),
            CkksOp::RaiseModulus { .. } => Account::UNKNOWN,
        }
    }

    /// A sum with weights, before it is rounded.
    fn weighted(&self, terms: &[(Reg, f64)], known: &[Account], to: RlweInfo) -> Account {
        let factor = |x: &Reg, c: f64| self.factor(c, *self.reg(*x), to);
        let each = terms.iter().map(|(x, c)| known[x.0 as usize].times(factor(x, *c)));
        each.reduce(Account::plus).unwrap_or(Account::UNKNOWN)
    }

    /// The account of a polynomial of a register, of an argument with this account.
    pub(crate) fn polynomial_account(
        &self,
        from: Reg,
        p: &Chebyshev,
        to: Reg,
        x: Account,
    ) -> Account {
        let steps = Steps { chain: &self.chain, parties: x.parties };
        Evaluated::new(steps, p, *self.reg(from), self.reg(to).scale).account(x)
    }

    /// A register with a number or a plaintext.
    fn with_public(
        &self,
        op: &CkksOp,
        x: Account,
        from: RlweInfo,
        to: RlweInfo,
        steps: Steps,
    ) -> Account {
        let rescaled = steps.rescaled(to.scale);
        match op {
            CkksOp::AddConstant { constant, .. } => {
                let off = 0.5 / from.scale + constant.abs() * f64::EPSILON;
                x.plus(Account::public(constant.abs(), off, off))
            }
            // Half a unit of q_0, from rounding.
            CkksOp::AddPlain { .. } if from.integers.is_some() => {
                let off = 0.5 / self.chain.step(0);
                x.plus(Account::public(1.0, off, off))
            }
            CkksOp::AddPlain { plaintext, .. } => {
                let plain = self.encoded(*plaintext, from.scale);
                let values = x.values + plain.values;
                Account { values, ..x.blurred((plain.error, plain.worst)) }
            }
            CkksOp::MultiplyConstant { constant, .. } => {
                x.times(self.factor(*constant, from, to)).blurred(rescaled)
            }
            CkksOp::MultiplyPlain { plaintext, .. } => {
                let scale = to.scale * self.chain.step(from.level) / from.scale;
                x.times(self.encoded(*plaintext, scale)).blurred(rescaled)
            }
            _ => x,
        }
    }

    /// A plaintext at a scale.
    fn encoded(&self, plaintext: u32, scale: f64) -> Account {
        let values = self.plaintexts[plaintext as usize].iter();
        let largest = values.map(|v| v.abs()).fold(0.0, f64::max);
        let off = self.chain.encoding(scale, largest);
        Account::public(largest, off, fresh_bound(off))
    }

    /// Factors were rotated by middle steps, of which each rounds the mask of the next, and by one baby step.
    fn mapped(&self, x: Account, from: RlweInfo, to: RlweInfo, map: u32, steps: Steps) -> Account {
        let (chain, spec) = (&self.chain, &self.maps[map as usize]);
        let middle = spec.matrix.steps(spec.baby).middle as f64;
        let switched = steps.key(from.level, from.scale) * middle.sqrt();
        let (rounding, _) = steps.rescaled(from.scale);
        let within = switched.hypot(rounding * (middle - 1.0).sqrt());
        let x = x.blurred(added(within));
        let (row, column) = spec.matrix.widest_lines();
        let (count, off) =
            (spec.matrix.rotations().count() as f64, chain.encoding(spec.scale, row));
        let worst =
            (row + count * fresh_bound(off)) * x.worst + count * fresh_bound(off) * x.values;
        let error = (row * column).sqrt() * x.error + count.sqrt() * off * (x.values + x.worst);
        let values = row * x.values;
        Account { values, error, worst, ..x }.inheriting().blurred(steps.rescaled(to.scale))
    }
}

/// The sum of a register and a rotation of it.
fn doubled(x: Account, at: RlweInfo, steps: Steps) -> Account {
    x.plus(x.blurred(steps.switched(at.level, at.scale)))
}

impl Limits {
    /// The account behind a bootstrap of registers with these: it holds for every message within their bound on values.
    pub(super) fn refreshed(&self, from: impl Iterator<Item = Account>) -> Account {
        let both = |a: Account, b: Account| Account { values: a.values.max(b.values), ..a.plus(b) };
        let all = from.reduce(both).unwrap_or(Account::UNKNOWN);
        let Some(own) = self.error else { return Account::UNKNOWN };
        let (size, noise) = (all.values, product_bound(own.noise));
        let made = match self.near {
            // Values near the flat top of the sine become signs: what they had to it, squared.
            Some(near) => {
                let left = own.bend * (near + all.worst).powi(2);
                let values = if self.real { 1.0 } else { std::f64::consts::SQRT_2 };
                Account {
                    values,
                    error: own.noise.hypot(left),
                    worst: noise + own.rare + left,
                    ..all
                }
            }
            None => {
                let within = |error: f64| error.min(2.0 * size);
                let (error, worst) = self.added(own, size);
                // A bend is the same for the same message, and so adds to that of a bootstrap before. In few slots noise may point where
                // it does.
                let (error, worst) = (within(all.error) + error, within(all.worst) + worst);
                Account { values: size, error, worst, ..all }
            }
        };
        made.but(Standing::REFRESHED)
    }

    /// The error that a bootstrap adds to values of this size at most: the root of the mean square, and the bound.
    ///
    /// A second iteration takes the error r of the first out, and adds its own to it for `times`·r, divided by `times`.
    pub(crate) fn added(&self, own: Added, size: f64) -> (f64, f64) {
        let (error, worst) = self.added_once(own, size);
        let Some(Again { times, rounded }) = own.again else { return (error, worst) };
        let least = product_bound(rounded);
        let (error, worst) = (times * (error + rounded), times * (worst + least));
        let (_, again) = self.added_once(own, worst);
        // A bend of power p has a mean square root of at most the largest one times that of the values, over the largest value.
        let bend = self.bent(own, worst) * (error / worst).min(1.0);
        (((own.noise + bend) / times) + rounded, again / times + least)
    }

    /// The same of one iteration.
    fn added_once(&self, own: Added, size: f64) -> (f64, f64) {
        let bend = self.bent(own, size);
        (own.noise + bend, product_bound(own.noise) + own.rare + bend)
    }

    /// By how much the sine bends values of this size at most. It is twice the formula beyond the limits, where the cosine is not fitted, and
    /// without bound where it turns.
    fn bent(&self, own: Added, size: f64) -> f64 {
        let most = match (self.slots, self.real) {
            (true, false) => self.most * std::f64::consts::SQRT_2,
            _ => self.most,
        };
        let bend = own.bend * size.powi(own.power);
        match size <= most {
            true => bend,
            false if bend < size / 32.0 => 2.0 * bend,
            false => f64::INFINITY,
        }
    }
}
