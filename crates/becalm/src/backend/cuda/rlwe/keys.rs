//! Keys and matrices on a device, in the order in which kernels read them.

use super::super::keys::require;
use super::super::memory::Block;
use crate::backend::cpu::rlwe::permute;
use crate::backend::encoded::{LinearMap, encoded};
use crate::cipher::{Held, Purpose, SwitchKey};
use crate::ckks::{Context, Steps};
use crate::math::rns::Scratch;
use crate::program::rlwe::MapSpec;
use crate::{Error, Progress, Result};
use becalm_cuda::Device;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A switch key: bodies and masks, [digit][word of the chain, then special][N].
pub(super) struct DeviceKey {
    bodies: Block,
    masks: Block,
    pub level: usize,
    /// Words of that level, and special words.
    pub count: usize,
    pub special: usize,
}

impl DeviceKey {
    /// A key of an automorphism lies as the image's values do: a kernel reads it in order, and the digits of the polynomial where they are.
    fn new(
        device: &Arc<dyn Device>,
        context: &Context,
        purpose: Purpose,
        key: &SwitchKey,
    ) -> Result<DeviceKey> {
        let permutation = match purpose {
            Purpose::Galois(power) => Some(context.permutation(power as usize)),
            _ => None,
        };
        let [bodies, masks] = [&key.bodies, &key.masks].map(|limbs| match &permutation {
            Some(places) => {
                let turned = permute(context, limbs, places);
                Block::of(device, "open", bytemuck::cast_slice(&turned[..]))
            }
            None => Block::of(device, "open", bytemuck::cast_slice(&limbs[..])),
        });
        let SwitchKey { level, count, special, .. } = *key;
        Ok(DeviceKey { bodies: bodies?, masks: masks?, level, count, special })
    }

    /// Address of the bodies.
    pub fn bodies(&self) -> u64 {
        self.bodies.at()
    }

    /// Address of the masks.
    pub fn masks(&self) -> u64 {
        self.masks.at()
    }
}

/// The keys of a session that its programs have asked for so far.
pub(super) struct Keys {
    device: Arc<dyn Device>,
    there: BTreeMap<(Purpose, usize), DeviceKey>,
}

impl Keys {
    /// None yet.
    pub fn new(device: &Arc<dyn Device>) -> Keys {
        Keys { device: device.clone(), there: BTreeMap::new() }
    }

    /// Brings keys onto the device that are not there.
    ///
    /// # Errors
    /// `Memory` if they do not fit; errors of the device.
    pub fn bring(
        &mut self,
        context: &Context,
        wanted: &[((Purpose, usize), &Held)],
        op: &'static str,
    ) -> Result<()> {
        let bytes = |held: &Held| {
            let (level, special) = match held {
                Held::Ready(key) => (key.level, key.special),
                Held::Stored(key) => (key.level, key.special),
            };
            let limbs = context.digits(level).len() * (context.words(level) + special);
            (16 * limbs * context.params().degree()) as u64
        };
        let missing: Vec<_> = wanted.iter().filter(|(w, _)| !self.there.contains_key(w)).collect();
        let all: u64 = missing.iter().map(|(_, held)| bytes(held)).sum();
        require(op, self.device.as_ref(), all)?;
        for (which, held) in missing {
            let key = match held {
                Held::Ready(key) => DeviceKey::new(&self.device, context, which.0, key)?,
                Held::Stored(key) => {
                    let ready = context.expand(which.0, key, key.level, false)?;
                    DeviceKey::new(&self.device, context, which.0, &ready)?
                }
            };
            self.there.insert(*which, key);
        }
        Ok(())
    }

    /// Lets go of keys.
    pub fn keep(&mut self, wanted: impl Fn(&(Purpose, usize)) -> bool) {
        self.there.retain(|which, _| wanted(which));
    }

    /// A key that was brought.
    ///
    /// # Errors
    /// `WrongKey` if it was not.
    pub fn get(&self, which: (Purpose, usize), level: usize) -> Result<&DeviceKey> {
        let reach = if which.0 == Purpose::ToEphemeral { 0 } else { level };
        self.there.get(&which).filter(|key| key.level >= reach).ok_or_else(|| {
            let (wanted, got) = (format!("{:?} up to level {level}", which.0), "no such key");
            Error::wrong_key("run", wanted, got.to_string(), "load the program with its keys")
        })
    }
}

/// A diagonal on a device: its values in each limb, or one vector of eight for each tile of 64.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceDiagonal {
    pub at: u64,
    pub tiled: bool,
}

/// An encoded matrix on a device.
pub(super) struct DeviceMap {
    pub level: usize,
    pub steps: Steps,
    pub scale: f64,
    /// By middle, giant and baby step.
    pub diagonals: BTreeMap<(usize, usize, usize), DeviceDiagonal>,
    _memory: Block,
}

impl DeviceMap {
    /// A matrix, encoded now if it was not before.
    ///
    /// # Errors
    /// `Memory` if it does not fit; errors of the device.
    pub fn new(
        device: &Arc<dyn Device>,
        context: &Context,
        spec: &MapSpec,
        made: Option<&LinearMap>,
        progress: Progress,
    ) -> Result<DeviceMap> {
        let own;
        let map = match made {
            Some(map) => map,
            None => {
                own = encoded(context, spec, progress)?;
                &own
            }
        };
        let bytes = map.places().map(|(_, tiled)| Self::bytes(context, map, tiled)).sum();
        require("load", device.as_ref(), bytes)?;
        let memory = Block::new(device, "load", bytes)?;
        let mut diagonals = BTreeMap::new();
        let mut at = 0;
        for (place, tiled) in map.places() {
            let values = map.values(context, place);
            memory.upload("load", at, bytemuck::cast_slice(&values))?;
            diagonals.insert(place, DeviceDiagonal { at: memory.at() + at, tiled });
            at += Self::bytes(context, map, tiled);
        }
        let LinearMap { level, steps, scale, .. } = *map;
        Ok(DeviceMap { level, steps, scale, diagonals, _memory: memory })
    }

    fn bytes(context: &Context, map: &LinearMap, tiled: bool) -> u64 {
        let limbs = context.words(map.level) + context.special();
        let each = context.params().degree() / if tiled { 8 } else { 1 };
        (8 * limbs * each) as u64
    }
}

/// The number of a plaintext in its program, and the bits of the integers that it is; none of values in slots.
type Which = (u32, Option<u32>);

/// Plaintexts on a device, encoded where a program meets them: at a level and a scale.
pub(super) struct Plains {
    device: Arc<dyn Device>,
    made: HashMap<(Which, usize, u64), Block>,
}

impl Plains {
    /// None yet.
    pub fn new(device: &Arc<dyn Device>) -> Plains {
        Plains { device: device.clone(), made: HashMap::new() }
    }

    /// The address of the limbs of a plaintext at a level and a scale, which are made once.
    ///
    /// # Errors
    /// `Memory` if they do not fit; errors of the device and of `make`.
    pub fn made(
        &mut self,
        which: Which,
        (level, scale): (usize, f64),
        make: impl FnOnce() -> Result<Arc<Scratch>>,
    ) -> Result<u64> {
        let key = (which, level, scale.to_bits());
        if let Some(block) = self.made.get(&key) {
            return Ok(block.at());
        }
        let block = Block::of(&self.device, "load", bytemuck::cast_slice(&make()?))?;
        let at = block.at();
        self.made.insert(key, block);
        Ok(at)
    }
}
