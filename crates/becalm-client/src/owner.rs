//! A secret key of CKKS and everything that is made from it.

use becalm::bootstrap::ckks::{KeyPlan, Kind, Wish, size_named};
use becalm::cipher::{CkksSecretKey, KeyForm};
use becalm::ckks::Context;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use becalm::{Error, Result};

/// A secret key of CKKS, with the plan of its server's keys and the bootstrap that they are for.
pub(crate) struct Owner {
    pub(crate) context: Context,
    pub(crate) secret: CkksSecretKey,
    pub(crate) plan: KeyPlan,
    pub(crate) program: CkksProgram,
}

impl Owner {
    pub(crate) fn new(name: &str, kind: &str) -> Result<Owner> {
        let params = CkksParams::named(name)?;
        // Half of the packed keys are seeds until they are used, and a page uses none.
        let wish = Wish {
            kinds: vec![Kind::named(kind)?],
            size: Some(size_named("small")?),
            form: Some(KeyForm::Seeded),
            ..Wish::default()
        };
        let plan = KeyPlan::new(params, &wish)?;
        let program = plan.programs().next().map(|(_, program)| program.clone());
        let program = program.ok_or_else(|| {
            Error::wrong_params("client", "a set with a bootstrap", name, "use ckks_n15")
        })?;
        let context = Context::new(params, false)?;
        let secret = context.secret_key()?;
        Ok(Owner { context, secret, plan, program })
    }

    /// The level that the bootstrap takes.
    pub(crate) fn level(&self) -> usize {
        let info = self.program.inputs().first().and_then(|reg| self.program.info(*reg));
        info.map_or(0, |info| info.level)
    }
}
