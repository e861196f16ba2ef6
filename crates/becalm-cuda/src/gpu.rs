//! The properties of a GPU that launches and plans depend on.

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The vendor's name for it.
    pub name: String,
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may have.
    pub shared: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the second-level cache.
    pub cache: u64,
}

impl DeviceInfo {
    /// An H100 SXM, as its data sheet has it: for plans without a device.
    pub fn h100() -> DeviceInfo {
        DeviceInfo {
            name: "H100".into(),
            capability: (9, 0),
            multiprocessors: 132,
            shared: 227 << 10,
            memory: 80 << 30,
            cache: 50 << 20,
        }
    }

    /// Whether blocks form clusters.
    pub fn clusters(&self) -> bool {
        self.capability >= (9, 0)
    }

    /// Whether it computes in doubles half as fast as in floats (A100, H100, B200), and not a 32nd or 64th.
    pub fn fast_doubles(&self) -> bool {
        [(8, 0), (9, 0), (10, 0)].contains(&self.capability)
    }
}
