//! All limits of the engine, with their reasons.
//!
//! A limit that the service enforces as well is public. Relations between limits are asserted at
//! compile time.

use crate::region::Edge;

/// Fixes in one cycle, over all its batches. 22 bits of arrival and 42 of time fit one 64-bit
/// atomic maximum on a device.
pub const CYCLE_FIXES_MAX: usize = (1 << 22) - 1;
/// Queries in one cycle.
pub const CYCLE_QUERIES_MAX: usize = 1 << 20;
/// Requests (batches, blocks, removals) in one cycle.
pub const CYCLE_REQUESTS_MAX: usize = 1 << 16;
/// Cycles submitted and not yet waited for.
pub const CYCLES_IN_FLIGHT_MAX: usize = 3;
/// Objects that one `Get` may name, and one removal.
pub const GET_OBJECTS_MAX: usize = 1 << 16;
/// Continuous queries of one fleet.
pub const REGIONS_MAX: usize = 1 << 21;
/// Changes of continuous queries in one cycle.
pub const SUBSCRIPTION_CHANGES_MAX: usize = 1 << 16;
/// Events of one cycle, unless the options set a lower limit: some 600 MB without records.
pub const CYCLE_EVENTS_MAX: u64 = 1 << 26;
/// Longest dwell and longest interval between two moves of one object: a day.
pub const DWELL_MS_MAX: u32 = 86_400_000;
/// Neighbours that one query may ask for.
pub const NEAREST_MAX: usize = 4096;
/// Vertices of one polygon or of all polygons of a multipolygon, closing vertices not counted.
pub const POLYGON_VERTICES_MAX: usize = 4096;
/// Horizontal slabs that index the edges of a polygon. The lists of this number of slabs remain in
/// the cache (weak evidence).
pub const POLYGON_SLABS_MAX: usize = 256;
/// Copies of an edge that the slabs of a polygon hold on average.
pub const POLYGON_EDGE_COPIES_MAX: usize = 4;
/// Entries that the slabs of a polygon hold for each of its vertices: the copies of an edge, and
/// the marks between the polygons of a multipolygon. A ring has at least two edges in every slab
/// that it meets, so there are at most half as many marks as copies.
pub const POLYGON_VERTEX_ENTRIES_MAX: usize = POLYGON_EDGE_COPIES_MAX * 3 / 2;
/// Slabs of a polygon for each of its vertices.
pub const POLYGON_VERTEX_SLABS_MAX: usize = POLYGON_EDGE_COPIES_MAX / 2;
/// Bytes that a polygon takes for each of its vertices.
pub const POLYGON_VERTEX_BYTES_MAX: usize =
    POLYGON_VERTEX_ENTRIES_MAX * size_of::<Edge>() + POLYGON_VERTEX_SLABS_MAX * size_of::<u32>();
/// Objects of one fleet, unless its options set a lower limit.
pub const OBJECTS_MAX: u64 = 1 << 31;
/// Earliest event time accepted: 2000-01-01T00:00:00Z in Unix milliseconds.
pub const TIME_MIN_MS: i64 = 946_684_800_000;
/// Latest event time accepted whatever the wall clock says (year 2139): event times since
/// [`TIME_MIN_MS`] take 42 bits, and no difference of times overflows.
pub const TIME_MAX_MS: i64 = TIME_MIN_MS + (1 << 42) - 1;
/// Rows of one batch of an exported snapshot.
pub const SNAPSHOT_BATCH_ROWS: usize = 1 << 16;
/// Longest side of a planar space, in quanta. It keeps the square of the diagonal below 2^63.
pub const PLANAR_SIDE_MAX: i64 = (1 << 31) - 1;
/// Smallest quantum of a planar space, metres.
pub const PLANAR_QUANTUM_M_MIN: f64 = 1e-6;
/// Largest quantum of a planar space, metres.
pub const PLANAR_QUANTUM_M_MAX: f64 = 1e6;

const _: () = assert!(SNAPSHOT_BATCH_ROWS <= CYCLE_FIXES_MAX, "a snapshot batch is one cycle");
const _: () = assert!(GET_OBJECTS_MAX <= CYCLE_FIXES_MAX, "removals share the arrival counter");
