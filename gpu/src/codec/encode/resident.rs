//! Columns in the memory of the device, and the results of encoding them.

use shoal_codec::ValueType;
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
    /// A column of `rows` values, which the caller fills.
    pub(super) fn new(
        memory: &Memory,
        value_type: ValueType,
        rows: u32,
    ) -> Result<Self, EngineError> {
        let bytes = DeviceBuffer::new(memory, rows as usize * value_type.width_bytes())?;
        Ok(Self { bytes, value_type, rows })
    }

    /// Its bytes.
    pub(super) fn slice(&self) -> DeviceSlice<u8> {
        DeviceSlice::of(&self.bytes)
    }

    /// Its values.
    pub(super) fn source(&self) -> Source {
        Source::column(self.slice(), self.value_type, self.rows)
    }

    /// Type of its values.
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Number of its values.
    pub fn rows(&self) -> u32 {
        self.rows
    }
}

/// The result of encoding columns that stay on the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// For each column, the bytes of its directory entry and its padded sections.
    pub encoded_bytes: Vec<usize>,
    /// Time on the device from the first launch to the last copy, by events.
    pub device_ms: f64,
}
