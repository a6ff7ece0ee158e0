//! Limits of segments, frames, records and checkpoints. Relations between them are asserted at
//! compile time.

/// Unit of all writes and reads, and alignment of frames. It is the largest logical block of disks.
pub const PAGE_BYTES: usize = 4096;
/// Largest unit assumed to be written atomically; the simulated disk tears writes at its multiples.
pub const SECTOR_BYTES: usize = 512;
/// Default bytes of a segment. This size makes rotations rare and recycling fast.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;
/// Bytes of the first segment of a log: a log with few cycles takes little of the disk.
pub const SEGMENT_BYTES_FIRST: u64 = 256 << 10;
/// Least bytes of a segment: header, a start mark, one small group and a seal.
pub const SEGMENT_BYTES_MIN: u64 = 4 * PAGE_BYTES as u64;
/// Most bytes of a segment, even if it holds a single large group.
pub const SEGMENT_BYTES_MAX: u64 = 4 << 30;
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 128;
/// Most bytes of all cycles of one group. The largest cycle of the engine takes about 150 MiB.
pub const GROUP_BYTES_MAX: usize = 1 << 30;
/// Most memory that an empty group keeps. Groups are written at 8 MiB or less, and a buffer grows
/// by doubling.
pub const GROUP_BYTES_KEPT: usize = 16 << 20;
/// Bytes of a cycle record before its requests.
pub const RECORD_HEADER_BYTES: usize = 40;
/// Bytes of a request before the name of its producer and its body.
pub const REQUEST_HEADER_BYTES: usize = 16;
/// Records, producers' names and bodies begin at multiples of this many bytes.
pub const RECORD_ALIGN_BYTES: usize = 8;
/// Most bytes of a producer's name, as in the server.
pub const PRODUCER_BYTES_MAX: usize = 128;
/// Most bytes of an object's name, as in the server.
pub const NAME_BYTES_MAX: usize = 256;
/// Most open numbers of one producer in a checkpoint; the server keeps at most 16.
pub const PRODUCER_OPEN_MAX: usize = 255;
/// Most bytes of a fleet's name.
pub const FLEET_NAME_BYTES_MAX: usize = 64;
/// Bytes of one read of a file: large enough for the full rate of the disk.
pub const READ_BYTES: usize = 4 << 20;
/// Bytes of one read when frames are streamed to a follower: small, because many followers may read
/// at once.
pub const STREAM_READ_BYTES: usize = 64 << 10;
/// Bytes of one write of zeros or of a checkpoint.
pub const WRITE_BYTES: usize = 1 << 20;
/// Most prepared segments; further retired files are removed. A checkpoint retires as many segments
/// as the log fills between two checkpoints: 16 with the default sizes. Each removed file must be
/// prepared again by writing zeros, which costs as much bandwidth as the log itself.
pub const SPARES_MAX: usize = 16;
/// Default free space that remains when the log refuses to grow. It leaves space for the start of
/// a checkpoint, for marks at shutdown and for an operator's work.
pub const RESERVE_BYTES_DEFAULT: u64 = 256 << 20;
/// Number of checkpoints that are kept. The older one is used if the newest is damaged.
pub const CHECKPOINTS_KEPT: usize = 2;
/// Most bytes of one section of a checkpoint.
pub const SECTION_BYTES_MAX: usize = 1 << 30;
/// Sections begin at multiples of this many bytes, as the codec's blocks do.
pub const SECTION_ALIGN_BYTES: usize = 64;
/// Most past terms that are kept. The state of an epoch of an older term is
/// [`crate::EpochState::Unknown`].
pub const PAST_TERMS_MAX: usize = 1024;
/// Most bytes of the manifest of fleets.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// Most bytes that are read from a lock file for the name of its holder.
pub const LOCK_HOLDER_BYTES_MAX: usize = 256;

// Sizes of segments, reads, writes and buffers are multiples of the page, which is a multiple of
// the sector.
const _: () = assert!(PAGE_BYTES.is_multiple_of(SECTOR_BYTES));
const _: () = assert!(SEGMENT_BYTES_DEFAULT.is_multiple_of(PAGE_BYTES as u64));
const _: () = assert!(READ_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(WRITE_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(GROUP_BYTES_KEPT.is_multiple_of(PAGE_BYTES));
// A frame's header lies in one sector, so it is whole or absent; its records are aligned.
const _: () = assert!(FRAME_HEADER_BYTES <= SECTOR_BYTES);
const _: () = assert!(FRAME_HEADER_BYTES.is_multiple_of(RECORD_ALIGN_BYTES));
const _: () = assert!(RECORD_HEADER_BYTES.is_multiple_of(RECORD_ALIGN_BYTES));
const _: () = assert!(REQUEST_HEADER_BYTES.is_multiple_of(RECORD_ALIGN_BYTES));
// A segment holds its header, the largest group and a seal, and lengths fit 32 bits.
const _: () =
    assert!((GROUP_BYTES_MAX + FRAME_HEADER_BYTES + 3 * PAGE_BYTES) as u64 <= SEGMENT_BYTES_MAX);
const _: () = assert!(GROUP_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(SEGMENT_BYTES_MIN <= SEGMENT_BYTES_DEFAULT);
// Lengths of names fit their fields: 16 bits for objects, 8 bits for all others.
const _: () = assert!(PRODUCER_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(NAME_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(PRODUCER_OPEN_MAX <= u8::MAX as usize);
const _: () = assert!(FLEET_NAME_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(CHECKPOINTS_KEPT >= 2);
