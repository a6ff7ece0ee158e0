//! Encodes blocks of many rows on a device and smaller ones on the CPU, with identical bytes.
//!
//! The log must continue when its encoder fails: after the first device failure, the codec logs a
//! warning, releases the device and encodes all rows on the CPU. This file does not depend on a
//! backend.

use std::cell::RefCell;

use shoal_codec::{
    BlockCodec, BlockError, BlockPlan, ColumnOutcome, CpuCodec, FixColumns, SpaceTag,
};
use tracing::warn;

use crate::limits::DEVICE_ENCODE_ROWS_MIN;

/// Why a device encoded nothing.
#[derive(Debug)]
pub(crate) enum DeviceFault {
    /// No block can hold the rows; the CPU would refuse them too.
    Block(BlockError),
    /// The device failed, or has not enough memory.
    Device(String),
}

/// Like [`BlockCodec::encode_planned`], but encodes on a device.
type EncodeOnDevice = dyn FnMut(
        &FixColumns,
        &BlockPlan,
        &SpaceTag,
        u64,
        &mut Vec<u8>,
    ) -> Result<Vec<ColumnOutcome>, DeviceFault>
    + Send;

/// See the file's head.
pub(crate) struct DeviceCodec {
    /// `None` after the device has failed; its memory is then released.
    device: RefCell<Option<Box<EncodeOnDevice>>>,
}

impl DeviceCodec {
    /// A codec on the device that `encode` drives.
    pub(crate) fn new<F>(encode: F) -> Self
    where
        F: FnMut(
                &FixColumns,
                &BlockPlan,
                &SpaceTag,
                u64,
                &mut Vec<u8>,
            ) -> Result<Vec<ColumnOutcome>, DeviceFault>
            + Send
            + 'static,
    {
        Self { device: RefCell::new(Some(Box::new(encode))) }
    }
}

impl BlockCodec for DeviceCodec {
    fn encode_planned(
        &self,
        columns: &FixColumns,
        plan: &BlockPlan,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<ColumnOutcome>, BlockError> {
        let mut device = self.device.borrow_mut();
        if let Some(encode) = device.as_mut().filter(|_| columns.len() >= DEVICE_ENCODE_ROWS_MIN) {
            match encode(columns, plan, space, sequence, out) {
                Ok(outcomes) => return Ok(outcomes),
                Err(DeviceFault::Block(error)) => return Err(error),
                Err(DeviceFault::Device(error)) => {
                    warn!(error, "rows of the log are encoded on the CPU from now on");
                    *device = None;
                }
            }
        }
        CpuCodec.encode_planned(columns, plan, space, sequence, out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use shoal_codec::FixRow;
    use shoal_engine::Space;

    use super::*;

    fn columns(rows: usize, step_ms: i64) -> FixColumns {
        let mut columns = FixColumns::with_capacity(rows);
        for row in 0..rows as u64 {
            columns.push_row(FixRow::new(row % 900, step_ms * row as i64, row as i32, 7));
        }
        columns
    }

    /// A device that writes sequence 99 into its blocks, so that they differ from those of the CPU.
    /// It fails from the third call on.
    fn device(calls: &Arc<AtomicUsize>) -> DeviceCodec {
        let calls = calls.clone();
        DeviceCodec::new(move |columns, plan, space, _, out| {
            if calls.fetch_add(1, Ordering::SeqCst) >= 2 {
                out.extend([1, 2, 3]);
                return Err(DeviceFault::Device("out of memory".into()));
            }
            CpuCodec.encode_planned(columns, plan, space, 99, out).map_err(DeviceFault::Block)
        })
    }

    fn encode(codec: &dyn BlockCodec, columns: &FixColumns, sequence: u64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let tag = Space::geographic().tag();
        let plan = BlockPlan::fixes();
        codec.encode_planned(columns, &plan, &tag, sequence, &mut out).ok().map(|_| out)
    }

    #[test]
    fn large_requests_are_encoded_on_the_device_until_it_fails() {
        let calls = Arc::new(AtomicUsize::new(0));
        let codec = device(&calls);
        let count = || calls.load(Ordering::SeqCst);
        let (small, large) =
            (columns(DEVICE_ENCODE_ROWS_MIN - 1, 1), columns(DEVICE_ENCODE_ROWS_MIN, 1));
        assert_eq!(encode(&codec, &small, 0), encode(&CpuCodec, &small, 0));
        assert_eq!(count(), 0);
        assert_eq!(encode(&codec, &large, 0), encode(&CpuCodec, &large, 99));
        assert_eq!(count(), 1);
        // Rows that no block can hold are no failure of the device.
        assert_eq!(encode(&codec, &columns(DEVICE_ENCODE_ROWS_MIN, 1 << 40), 0), None);
        assert_eq!(count(), 2);
        for _ in 0..2 {
            assert_eq!(encode(&codec, &large, 0), encode(&CpuCodec, &large, 0));
            assert_eq!(count(), 3);
        }
    }
}
