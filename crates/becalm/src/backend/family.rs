//! The two families of instructions, as machines see them.

use super::{Backend, Runs};
use crate::cipher::{CkksKeys, EvaluationKey, Rlwe};
use crate::ckks::Chain;
use crate::params::{CkksParams, TfheParams};
use crate::program::rlwe::{CkksOp, CkksProgram};
use crate::program::{Graph, Need, Op, Operation, Program, Reg};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

/// A family of instructions: the programs that machines load, the words in their registers, and the keys that they open. The compiler
/// holds together what belongs together: a program of one family on keys of the other is an error there.
pub trait Family: Debug + Clone + Copy + Send + Sync + 'static {
    /// The name that people read.
    const NAME: &'static str;
    /// An instruction.
    type Op: Operation;
    /// A recorded program.
    type Program: Deref<Target = Graph<Self::Op>> + Debug + Send + Sync;
    /// The unit that is written to and read from a register: a u64 of TFHE, whose registers say how many make a ciphertext; a ciphertext of
    /// CKKS.
    type Word: Debug + Clone + Send + Sync;
    /// A parameter set.
    type Params;
    /// A parameter set made ready, which all its keys share: the chain of moduli of CKKS.
    type Base;
    /// Keys to open, and how a session is to use them.
    type Setup: Clone + Send + Sync;

    /// The parameter set of keys.
    fn params(setup: &Self::Setup) -> &Self::Params;
    /// The machine as one that runs the family, if it does.
    fn on(machine: &dyn Backend) -> Option<&dyn Runs<Self>>;
    /// Words in one lane of a register that the program has.
    fn width(program: &Self::Program, reg: Reg) -> usize;
}

/// Keys of one family, as [`Evaluator::new`](super::Evaluator::new) takes them.
pub trait Keys {
    /// The family.
    type Family: Family;
    /// The keys, as machines open them.
    fn setup(self) -> <Self::Family as Family>::Setup;
}

/// The instructions of TFHE: [`Op`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tfhe;

/// The instructions of CKKS: [`CkksOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ckks;

impl Family for Tfhe {
    const NAME: &'static str = "TFHE";
    type Op = Op;
    type Program = Program;
    type Word = u64;
    type Params = TfheParams;
    type Base = Arc<TfheParams>;
    type Setup = TfheSetup;

    fn params(setup: &TfheSetup) -> &TfheParams {
        setup.keys.params()
    }

    fn on(machine: &dyn Backend) -> Option<&dyn Runs<Tfhe>> {
        machine.tfhe()
    }

    fn width(program: &Program, reg: Reg) -> usize {
        program.width(reg)
    }
}

impl Family for Ckks {
    const NAME: &'static str = "CKKS";
    type Op = CkksOp;
    type Program = CkksProgram;
    type Word = Rlwe;
    type Params = CkksParams;
    type Base = Arc<Chain>;
    type Setup = CkksSetup;

    fn params(setup: &CkksSetup) -> &CkksParams {
        setup.chain.params()
    }

    fn on(machine: &dyn Backend) -> Option<&dyn Runs<Ckks>> {
        machine.ckks()
    }

    fn width(_program: &CkksProgram, _reg: Reg) -> usize {
        1
    }
}

/// A key of TFHE, and the parts of it that are to be opened. The key's words are shared, not copied.
#[derive(Clone)]
pub struct TfheSetup {
    /// The key.
    pub keys: EvaluationKey,
    /// The parts that programs [need](Program::needs).
    pub needs: BTreeSet<Need>,
}

impl TfheSetup {
    /// Some parts of a key.
    pub fn new(keys: &EvaluationKey, needs: &BTreeSet<Need>) -> TfheSetup {
        TfheSetup { keys: keys.clone(), needs: needs.clone() }
    }
}

/// All parts of it.
impl Keys for &EvaluationKey {
    type Family = Tfhe;

    fn setup(self) -> TfheSetup {
        TfheSetup::new(self, &Need::all_of(self))
    }
}

impl Keys for TfheSetup {
    type Family = Tfhe;

    fn setup(self) -> TfheSetup {
        self
    }
}

/// Keys of CKKS, and how a session is to use them.
#[derive(Clone)]
pub struct CkksSetup {
    /// The chain of the set. A machine makes its tables of it.
    pub chain: Arc<Chain>,
    /// The keys.
    pub keys: Arc<CkksKeys>,
    /// Most bytes of encoded matrices that a session keeps; it encodes the others whenever their turn comes.
    pub matrices: usize,
}

impl CkksSetup {
    /// Keys of a set. All matrices of a program stay encoded.
    pub fn new(chain: &Arc<Chain>, keys: &Arc<CkksKeys>) -> CkksSetup {
        let (chain, keys) = (chain.clone(), keys.clone());
        CkksSetup { chain, keys, matrices: usize::MAX }
    }

    /// The same, keeping encoded matrices of at most `bytes`: less memory, and more time.
    pub fn within(self, bytes: usize) -> CkksSetup {
        CkksSetup { matrices: bytes, ..self }
    }
}

impl Keys for CkksSetup {
    type Family = Ckks;

    fn setup(self) -> CkksSetup {
        self
    }
}
