//! Columns that stay on the device, and what became of them there: for whoever has more to do with
//! them than to send them.

use shoal_codec::{ValueType, Values};
use shoal_engine::EngineError;

use super::source::Source;
use crate::launch::{DeviceBuffer, DeviceSlice, Memory};

/// A column in the memory of the device.
#[derive(Debug)]
pub struct DeviceColumn {
    bytes: DeviceBuffer<u8>,
    value_type: ValueType,
    rows: u32,
}

impl DeviceColumn {
    /// DeviceSlice for `bytes`, which the caller fills.
    pub(super) fn new(
        memory: &Memory,
        value_type: ValueType,
        rows: u32,
    ) -> Result<Self, EngineError> {
        let bytes = DeviceBuffer::new(memory, rows as usize * value_type.width_bytes())?;
        Ok(Self { bytes, value_type, rows })
    }

    /// Its bytes.
    pub(super) fn room(&self) -> DeviceSlice<u8> {
        DeviceSlice::of(&self.bytes)
    }

    /// Its values.
    pub(super) fn source(&self) -> Source {
        Source::column(self.room(), self.value_type, self.rows)
    }

    /// Type of its values.
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// How many there are.
    pub fn rows(&self) -> u32 {
        self.rows
    }
}

/// What became of columns that were encoded on the device and left there.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// Of each column the bytes of its directory entry and its padded sections.
    pub encoded_bytes: Vec<usize>,
    /// Time on the device from the first launch to the last copy, by events.
    pub device_ms: f64,
}

/// Little-endian bytes of a column.
pub(super) fn bytes_of_values(values: &Values) -> Vec<u8> {
    let width = values.value_type().width_bytes();
    let keys = values.keys();
    let mut bytes = Vec::with_capacity(keys.len() * width);
    for key in keys {
        bytes.extend_from_slice(&key.to_le_bytes()[..width]);
    }
    bytes
}
