//! The rings that kernels are compiled for, and the sizes that follow from them.

/// The arithmetic of the transforms of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Doubles, for words modulo 2^64.
    Double,
    /// Residues modulo p = 2^64 − 2^32 + 1, for words modulo 2^64: exact, and fast where doubles are slow.
    Exact,
    /// Residues, for words modulo p.
    Prime,
}

/// The specialisation of a kernel: the ring of a parameter set, its gadget and its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ring {
    /// log2 N, 8 to 14.
    pub log2_n: u32,
    /// k: mask polynomials.
    pub k: u32,
    /// w: bodies behind the mask.
    pub bodies: u32,
    /// log2 of the base of the bootstrapping key's gadget.
    pub base_log: u32,
    /// Levels of that gadget.
    pub level: u32,
    /// Bits of the small key that one step of the rotation takes.
    pub group_bits: u32,
    /// GGSW ciphertexts of a step's bundle; 0 for a classic step, which multiplies by one GGSW itself.
    pub group_ggsws: u32,
    /// Its arithmetic.
    pub arithmetic: Arithmetic,
}

/// A ring of classic steps.
const fn classic(log2_n: u32, k: u32, bodies: u32, base_log: u32, level: u32) -> Ring {
    let arithmetic = Arithmetic::Double;
    Ring { log2_n, k, bodies, base_log, level, group_bits: 1, group_ggsws: 0, arithmetic }
}

/// A ring of steps of `grouping` key bits.
const fn multi_bit(log2_n: u32, k: u32, base_log: u32, level: u32, grouping: u32) -> Ring {
    let group_ggsws = (1 << grouping) - 1;
    Ring { group_bits: grouping, group_ggsws, ..classic(log2_n, k, 1, base_log, level) }
}

/// The same ring in another arithmetic.
const fn with(ring: Ring, arithmetic: Arithmetic) -> Ring {
    Ring { arithmetic, ..ring }
}

/// Compiled ahead: the rings of the standard sets of up to 2048 coefficients.
pub const RINGS: &[Ring] = &[
    // tfhe_2_2, tfhe_2_2_ks64, tfhe_2_2_gaussian
    classic(11, 1, 1, 23, 1),
    // tfhe_2_2_multi_bit_4, tfhe_1_1_multi_bit_4, and Gaussian
    multi_bit(11, 1, 22, 1, 4),
    // tfhe_1_1, tfhe_1_1_ks64, tfhe_1_1_gaussian
    classic(9, 4, 1, 23, 1),
    // tfhe_boolean, tfhe_boolean_ks_pbs
    classic(9, 3, 1, 17, 1),
    // paper_n500, paper_n800
    classic(10, 1, 1, 10, 2),
    classic(14, 1, 1, 6, 5),
    // cm_1_1_w4, cm_2_2_w2, cm_2_2_w4
    classic(9, 4, 4, 23, 1),
    classic(11, 1, 2, 23, 1),
    classic(11, 1, 4, 23, 1),
    // tfhe_2_2, its multi-bit kin and tfhe_1_1 where doubles are slow; tfhe_2_2_p
    with(classic(11, 1, 1, 23, 1), Arithmetic::Exact),
    with(multi_bit(11, 1, 22, 1, 4), Arithmetic::Exact),
    with(classic(9, 4, 1, 23, 1), Arithmetic::Exact),
    with(classic(11, 1, 1, 23, 1), Arithmetic::Prime),
];

/// Compiled for the emulator beside [`RINGS`]: those of toy sets, and more levels and groups than any set has.
pub const TEST_RINGS: &[Ring] = &[
    classic(8, 2, 1, 23, 1),
    classic(8, 1, 1, 17, 1),
    classic(9, 1, 1, 23, 1),
    classic(8, 2, 2, 23, 1),
    classic(11, 1, 1, 15, 2),
    // Mailboxes in global memory: tfhe_3_3, that with bundles and modulo p, as small as it can be.
    classic(13, 1, 1, 15, 2),
    multi_bit(13, 1, 15, 2, 2),
    with(classic(13, 1, 1, 15, 2), Arithmetic::Prime),
    classic(12, 1, 1, 10, 3),
    with(classic(12, 1, 1, 10, 3), Arithmetic::Prime),
    Ring { group_bits: 4, group_ggsws: 4, ..classic(8, 2, 1, 23, 1) },
    multi_bit(8, 2, 23, 1, 2),
    multi_bit(10, 1, 11, 3, 3),
    Ring { group_bits: 3, group_ggsws: 3, ..classic(9, 1, 1, 15, 2) },
    with(classic(9, 1, 1, 23, 1), Arithmetic::Exact),
    with(classic(11, 1, 1, 15, 2), Arithmetic::Exact),
    with(classic(8, 2, 1, 23, 1), Arithmetic::Exact),
    with(classic(8, 1, 1, 17, 1), Arithmetic::Exact),
    with(classic(8, 2, 2, 23, 1), Arithmetic::Exact),
    with(classic(8, 2, 1, 23, 1), Arithmetic::Prime),
    with(Ring { group_bits: 4, group_ggsws: 4, ..classic(8, 2, 1, 23, 1) }, Arithmetic::Exact),
    with(multi_bit(8, 2, 23, 1, 2), Arithmetic::Exact),
    with(multi_bit(10, 1, 11, 3, 3), Arithmetic::Exact),
    with(classic(9, 1, 1, 23, 1), Arithmetic::Prime),
    with(classic(8, 1, 1, 17, 1), Arithmetic::Prime),
    with(classic(8, 2, 3, 23, 1), Arithmetic::Prime),
    with(multi_bit(8, 2, 23, 1, 3), Arithmetic::Prime),
    with(Ring { group_bits: 3, group_ggsws: 3, ..classic(8, 2, 1, 23, 1) }, Arithmetic::Prime),
];

impl Ring {
    /// k + w: polynomials of an accumulator.
    pub const fn columns(&self) -> u32 {
        self.k + self.bodies
    }

    /// Coefficients of a polynomial.
    pub const fn n(&self) -> u32 {
        1 << self.log2_n
    }

    /// Whether transforms are of residues.
    pub const fn is_exact(&self) -> bool {
        !matches!(self.arithmetic, Arithmetic::Double)
    }

    /// Points of a transform: N/2 complex numbers, or N residues.
    pub const fn m(&self) -> u32 {
        if self.is_exact() { self.n() } else { self.n() / 2 }
    }

    /// Bytes of a point.
    pub const fn point_bytes(&self) -> u32 {
        if self.is_exact() { 8 } else { 16 }
    }

    /// log2 of the points that a thread holds in registers.
    const fn log2_points(&self) -> u32 {
        (if self.log2_n >= 9 { 3 } else { 2 }) + self.is_exact() as u32
    }

    /// Points that a thread holds in registers.
    pub const fn points(&self) -> u32 {
        1 << self.log2_points()
    }

    /// Threads of a polynomial.
    pub const fn threads(&self) -> u32 {
        self.m() / self.points()
    }

    /// Bytes of shared memory of one column in a rotation: its mailboxes, the exchange, and where steps are classic
    /// or the block holds all columns (`together`) the accumulator; the exchange alone where it [is far](Ring::is_far).
    pub const fn column_bytes(&self, together: bool) -> u32 {
        let mailboxes = if together && self.threads() > 32 { 1 } else { 2 };
        let kept = if together || self.group_ggsws == 0 { 1 } else { 0 };
        let polynomial = self.point_bytes() * self.m();
        let all = polynomial * (mailboxes * self.level + 1 + kept);
        if !together && all > SHARED { polynomial } else { all }
    }

    /// Whether a column of a cluster is so large that its mailboxes lie in global memory.
    pub const fn is_far(&self) -> bool {
        self.column_bytes(false) == self.point_bytes() * self.m()
    }

    /// Bytes of the accumulators of `jobs` ciphertexts, with the mailboxes behind them if there are any.
    pub const fn accumulator_bytes(&self, jobs: u64) -> u64 {
        let mail = if self.is_far() { 2 * self.level * self.point_bytes() * self.m() } else { 0 };
        jobs * self.columns() as u64 * (8 * self.n() as u64 + mail as u64)
    }

    /// How many ciphertexts a block can rotate that holds all their columns: 2, 1, or 0.
    pub const fn jobs_of_block(&self) -> u32 {
        let (threads, bytes) =
            (self.columns() * self.threads(), self.columns() * self.column_bytes(true));
        let named = self.threads() > 32;
        let shared = if self.is_exact() { SHARED_WHERE_DOUBLES_ARE_SLOW } else { SHARED };
        if 2 * bytes <= shared && 2 * threads <= 512 && (!named || 2 * self.columns() <= 15) {
            2
        } else if bytes <= shared && threads <= 1024 {
            1
        } else {
            0
        }
    }

    /// Whether it has the kernels whose bundles are made ahead of the rotation, on GPUs with clusters: `kernels/streams.cuh`.
    pub const fn is_streamed(&self) -> bool {
        let columns = self.k == 1 && self.bodies == 1 && self.level == 1;
        let shape = self.log2_n == 11 && columns && self.group_ggsws == 15 && !self.is_exact();
        // A digit is kept in 32 bits.
        shape && self.base_log <= 32
    }

    /// The macros of `kernels/shape.cuh`.
    pub fn macros(&self) -> [(&'static str, u32); 9] {
        [
            ("BECALM_LOG2_N", self.log2_n),
            ("BECALM_K", self.k),
            ("BECALM_BODIES", self.bodies),
            ("BECALM_BASE_LOG", self.base_log),
            ("BECALM_LEVEL", self.level),
            ("BECALM_GROUP_BITS", self.group_bits),
            ("BECALM_GROUP_GGSWS", self.group_ggsws),
            ("BECALM_ARITHMETIC", self.arithmetic as u32),
            ("BECALM_BLOCKS", self.jobs_of_block()),
        ]
    }

    /// A name for files: `n11_k1_w1_b22_l1_g4_15`, `…_exact`, `…_p`.
    pub fn name(&self) -> String {
        let Ring { log2_n, k, bodies, base_log, level, group_bits, group_ggsws, arithmetic } = self;
        let arithmetic = match arithmetic {
            Arithmetic::Double => "",
            Arithmetic::Exact => "_exact",
            Arithmetic::Prime => "_p",
        };
        format!(
            "n{log2_n}_k{k}_w{bodies}_b{base_log}_l{level}_g{group_bits}_{group_ggsws}{arithmetic}"
        )
    }
}

/// Shared memory that a block may have on compute capability 9.0 and 10.0: 227 KiB.
const SHARED: u32 = 227 << 10;
/// The same on 8.6, 8.9 and 12.0: 99 KiB.
const SHARED_WHERE_DOUBLES_ARE_SLOW: u32 = 99 << 10;
