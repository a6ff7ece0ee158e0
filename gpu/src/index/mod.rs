//! Trees over sorted keys on the device, with the results of `shoal_index`.
//!
//! `contenders` has other structures over the same keys, for `shoal-bench index` alone.

mod contenders;
mod device;
mod tree;

pub use contenders::{Contender, SourceTree};
pub use device::{DeviceIndex, DeviceKey, DeviceKeys, DevicePlaces};
pub use tree::{DeviceTree, Scanned};
