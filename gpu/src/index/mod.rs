//! Trees over sorted keys on the device, in the layout of `shoal_history`.

mod device;
mod tree;

pub use device::{DeviceIndex, DeviceKey, DeviceKeys, DevicePlaces};
pub use tree::{DeviceTree, Scanned};
