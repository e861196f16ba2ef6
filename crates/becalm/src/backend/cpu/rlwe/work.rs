//! Memory that running a CKKS program takes beside its keys, the matrices that are kept and its arguments: from above, known
//! before it runs, because the threads that take it piece by piece cannot refuse.
//!
//! Counted in polynomials of one word, N doubles. At ℓ words, α special words and β digits a key switch by T threads has the digits
//! prepared, 2ℓ + β; the sum under Q·P, 2(ℓ + α); what is divided and the quotient, 3ℓ + 2α + 1; and four lifted words of
//! each digit for each thread, 4βT. Registers are those alive at an instruction. Pieces that are used again may be larger than
//! what they are used for: an eighth more. A test compares it with the memory that was taken.

use crate::cipher::{CkksKeys, Held};
use crate::ckks::{Chain, Steps};
use crate::program::rlwe::{CkksOp, CkksProgram};
use crate::program::{Operation, Reg};

/// A program, and the keys to run it with.
pub(crate) struct Run<'a> {
    pub(crate) chain: &'a Chain,
    pub(crate) program: &'a CkksProgram,
    pub(crate) keys: &'a CkksKeys,
    /// Bytes of each matrix that is encoded when its turn comes; none of those that are kept.
    pub(crate) encoded: &'a [usize],
    pub(crate) threads: usize,
    /// Ciphertexts in each register.
    pub(crate) lanes: usize,
}

impl Run<'_> {
    /// The most bytes at a time.
    pub(crate) fn bytes(&self) -> usize {
        let program = self.program;
        let size = |r: Reg| 2 * self.lanes * self.chain.words(program.reg(r).level) * self.limb();
        let besides = |op: &CkksOp| self.limbs(op) * self.limb() + self.made(op);
        let most = program.peak_bytes(&program.waves(), size, besides);
        // Permutations stay, four bytes a value.
        let permutations = program.needs().rotations.len() * self.limb() / 2;
        most + most / 8 + permutations
    }

    fn limb(&self) -> usize {
        8 * self.chain.params().degree()
    }

    /// Polynomials of one word that an instruction takes.
    fn limbs(&self, op: &CkksOp) -> usize {
        let program = self.program;
        let sources = op.sources();
        let level = match op {
            CkksOp::RaiseModulus { dst, .. } => program.reg(*dst).level,
            _ => sources.iter().map(|r| program.reg(*r).level).max().unwrap_or(0),
        };
        let (words, special) = (self.chain.words(level), self.chain.special());
        let (wide, digits) = (words + special, self.chain.digits(level).len());
        let switch =
            2 * words + digits + 2 * wide + 2 * wide + 1 + words + self.threads * 4 * digits;
        match op {
            CkksOp::Linear { map, .. } => {
                let map = &program.maps()[*map as usize];
                let steps = map.matrix.steps(map.baby);
                let Steps { babies, giant, .. } = steps;
                // x of two middle steps at once, and the lifted digits of one.
                let (inputs, lifted) = if steps.in_pairs() { (2, wide * digits) } else { (1, 0) };
                let sums = 2 * wide * (giant + 1 + inputs) + lifted;
                // An eighth of the values of each diagonal of a middle step, where coefficients are kept.
                let many = map.matrix.has_many();
                let made = if many { (giant * (babies + 1) * inputs).div_ceil(8) } else { 0 };
                3 * words + sums + switch + self.threads * (2 * inputs * (babies + 2) + made)
            }
            CkksOp::Polynomial { polynomial, .. } => {
                let depth = program.polynomials()[*polynomial as usize].depth();
                // The basis, the sums of a division within a division, two factors in other words.
                2 * words * (depth + 2) + 3 * words * depth + 4 * words + switch
            }
            CkksOp::DoubleAngle { .. } | CkksOp::Multiply { .. } | CkksOp::Dot { .. } => {
                9 * words + switch
            }
            CkksOp::RaiseModulus { .. } | CkksOp::Conjugate { .. } | CkksOp::Rotate { .. } => {
                3 * words + switch
            }
            CkksOp::Trace { .. } | CkksOp::Sum { .. } => 7 * words + switch,
            CkksOp::Rescale { .. } => 2 * words + switch,
            CkksOp::MultiplyI { .. }
            | CkksOp::Add { .. }
            | CkksOp::Subtract { .. }
            | CkksOp::AddConstant { .. }
            | CkksOp::Negate { .. }
            | CkksOp::MultiplyConstant { .. }
            | CkksOp::AddPlain { .. }
            | CkksOp::MultiplyPlain { .. }
            | CkksOp::LevelDown { .. }
            | CkksOp::Reinterpret { .. }
            | CkksOp::Repeat { .. }
            | CkksOp::Refreshed { .. }
            | CkksOp::WeightedSum { .. }
            | CkksOp::Tabulate { .. } => 4 * words,
        }
    }

    /// Bytes of the matrix and the keys that are made for an instruction and dropped behind it.
    fn made(&self, op: &CkksOp) -> usize {
        let map = match op {
            // Also a vector and its coefficients for each thread.
            CkksOp::Linear { map, .. } => match self.encoded.get(*map as usize) {
                None | Some(0) => 0,
                Some(bytes) => bytes + self.threads * 4 * self.limb(),
            },
            _ => 0,
        };
        let in_file = |held: &Held| matches!(held, Held::Stored(key) if !key.in_memory());
        if !self.keys.switches.values().any(in_file) {
            return map;
        }
        let keys = self.chain.keys_for(&self.program.needs_of(op));
        let read =
            keys.iter().filter(|(which, _)| self.keys.switches.get(which).is_some_and(in_file));
        map + read.map(|((p, _), level)| self.chain.ready_size(*p, *level)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNWATCHED;
    use crate::backend::encoded::Encoded;
    use crate::backend::{CkksSetup, Cpu, Evaluator, Prepared};
    use crate::bootstrap::ckks::{KeyPlan, Settings, Values, Wish, regular, slots_first, sparse};
    use crate::cipher::{KeyForm, KeyId, Rlwe};
    use crate::ckks::Context;
    use crate::math::complex::Complex;
    use crate::params::CkksParams;
    use std::sync::Arc;

    const THREADS: usize = 3;

    /// The peak memory of a run is below the prediction, and close to it; keys without a form stay in a file.
    fn hold(
        context: &Arc<Context>,
        name: &str,
        program: &CkksProgram,
        within: usize,
        form: Option<KeyForm>,
    ) {
        let secret = context.secret_key().unwrap();
        let needs = program.needs();
        let held = form.unwrap_or_default();
        let mut keys = context.keys_with(&secret, &needs, held, None, UNWATCHED).unwrap();
        if form.is_none() {
            let path = std::env::temp_dir().join(format!("becalm-work-{}", std::process::id()));
            context.write_keys(&keys, std::fs::File::create(&path).unwrap()).unwrap();
            keys = context.open_keys(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
        let (keys, program) = (Arc::new(keys), Arc::new(program.clone()));
        let encoded = Encoded::of(context, &program, within, UNWATCHED).unwrap();
        let encoded = encoded.later(context);
        let (threads, encoded, lanes) = (THREADS, &encoded[..], 1);
        let run = Run { chain: context, program: &program, keys: &keys, encoded, threads, lanes };
        let on = CkksSetup::new(context, &keys).within(within);
        let cpu = Cpu::new(THREADS).unwrap();
        let evaluator = Evaluator::new(&cpu, on).unwrap();
        let ready = Prepared::new(&cpu, context, &program, within, UNWATCHED).unwrap();
        let m = [Complex::from(0.5)];
        let x = context.encrypt(&m, context.params().levels, &secret).unwrap();
        let said = run.bytes();
        let inputs: Vec<&Rlwe> = program.inputs().iter().map(|_| &x).collect();
        let [_, before] = context.ring().most();
        evaluator.run(&ready, &inputs).unwrap();
        let taken = context.ring().most()[0] - before;
        println!("{name}: {taken} bytes taken, {said} said");
        assert!(taken <= said, "{name}: {taken} bytes taken, {said} said");
        assert!(said < 3 * taken, "{name}: {taken} bytes taken, {said} said");
    }

    /// Plans of keys know a set, and neither the machine nor its threads: their estimate is not below what a few threads take.
    #[test]
    fn the_estimate_of_a_set_is_enough_for_each_bootstrap() {
        for params in CkksParams::all().iter().filter(|p| p.bootstrap.is_some()) {
            let plan = KeyPlan::new(params, &Wish::default()).unwrap();
            let keys = CkksKeys {
                params: params.name,
                id: KeyId([0; 16]),
                switches: Default::default(),
                foreign: false,
            };
            let chain = plan.chain();
            for (kind, program) in plan.programs() {
                let run = Run { chain, program, keys: &keys, encoded: &[], threads: 2, lanes: 1 };
                let (said, tables) = (CkksProgram::work_bytes(params), chain.table_bytes());
                let taken = run.bytes();
                println!("{} {}: {taken} + {tables} of {said}", params.name, kind.name());
                assert!(taken + tables <= said, "{}", params.name);
            }
        }
    }

    #[test]
    fn a_run_takes_what_was_said_and_no_more() {
        let toy = |name| Arc::new(Context::new(CkksParams::named(name).unwrap(), true).unwrap());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().unwrap();
        let of = |values| Settings { values, ..Settings::default() };
        pool.install(|| {
            let context = toy("ckks_toy_12");
            for values in [Values::Complex, Values::Real, Values::Merged] {
                let program = regular(&context, &of(values)).unwrap();
                hold(
                    &context,
                    &format!("regular {values:?}"),
                    &program,
                    usize::MAX,
                    Some(KeyForm::Ready),
                );
            }
            let program = regular(&context, &Settings { baby: 8, ..Settings::default() }).unwrap();
            hold(&context, "no matrix kept", &program, 0, Some(KeyForm::Ready));
            for form in [KeyForm::Packed, KeyForm::Seeded] {
                hold(&context, &format!("{form:?}"), &program, usize::MAX, Some(form));
            }
            hold(&context, "in a file", &program, 0, None);
            let few = sparse(&context, 32, &Settings::default()).unwrap();
            hold(&context, "sparse", &few, usize::MAX, Some(KeyForm::Ready));
            let one = Settings { stage_count: Some(1), ..Settings::default() };
            let many = sparse(&context, 128, &one).unwrap();
            assert!(many.maps().iter().all(|map| map.matrix.has_many()));
            hold(&context, "coefficients", &many, usize::MAX, Some(KeyForm::Ready));
            hold(&context, "no coefficients kept", &many, 0, Some(KeyForm::Ready));
            let first = toy("ckks_toy_slots_first");
            let program = slots_first(&first, first.params().slots(), &of(Values::Real)).unwrap();
            hold(&first, "slots_first", &program, usize::MAX, Some(KeyForm::Ready));
        });
    }
}
