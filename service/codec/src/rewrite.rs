//! How is a prepared block sent again at another time?
//!
//! Times are offsets from the header's base, so a new base shifts them all; only the header and
//! its checksum change, whatever the size of the block. The payload is neither read nor checked.

use crate::error::BlockError;
use crate::header::{BlockHeader, at, check_time, truncated};
use crate::wire::put;

/// Shifts the times of `block` to the base `base_time_ms` (Unix milliseconds) and sets its
/// sequence number. Constant time; on error the bytes are as they were.
///
/// # Errors
/// Whatever a reader refuses in the header, fewer bytes than the header states, a base from which
/// the greatest offset leaves the range of i64.
pub fn rewrite_prepared(
    block: &mut [u8],
    base_time_ms: i64,
    sequence: u64,
) -> Result<(), BlockError> {
    let header = BlockHeader::parse(block)?;
    if header.block_bytes > block.len() as u64 {
        return Err(truncated("block", 0, header.block_bytes, block));
    }
    if header.block_bytes < block.len() as u64 {
        let problem = format!("block has {} bytes, {} were given", header.block_bytes, block.len());
        return Err(BlockError::Header { offset: at::BLOCK_BYTES, problem });
    }
    check_time(base_time_ms, header.time_max_offset_ms)?;
    put(block, at::BASE_TIME, base_time_ms.to_le_bytes());
    put(block, at::SEQUENCE, sequence.to_le_bytes());
    let crc = crc32c::crc32c(&block[..at::CRC]);
    put(block, at::CRC, crc.to_le_bytes());
    Ok(())
}
