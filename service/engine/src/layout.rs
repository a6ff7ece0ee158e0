//! The records, constants and enumerations that host and device share.
//!
//! Has no dependencies: the engine compiles it, and the build of the GPU package includes it by
//! path to render the kernels' header with static assertions. Fields are in memory order without
//! padding; integers are little-endian on both sides.

/// Size and fields of one record, for rendering.
#[derive(Clone, Copy, Debug)]
pub struct RecordLayout {
    /// Name on both sides.
    pub name: &'static str,
    /// Its size in bytes.
    pub bytes: usize,
    /// Name, Rust type and offset of each field.
    pub fields: &'static [(&'static str, &'static str, usize)],
}

macro_rules! records {
    ($list:ident: $(
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ident,)+ }
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq)]
            #[repr(C)]
            #[allow(missing_docs, reason = "fields are named for what the kernels call them")]
            pub struct $name { $($(#[$field_doc])* pub $field: $type,)+ }

            const _: () = assert!(
                size_of::<$name>() == 0 $(+ size_of::<$type>())+,
                "a record has no gaps",
            );
        )+

        /// All records, in the order of their definition.
        pub const $list: &[RecordLayout] = &[$(
            RecordLayout {
                name: stringify!($name),
                bytes: size_of::<$name>(),
                fields: &[$(
                    (stringify!($field), stringify!($type), std::mem::offset_of!($name, $field)),
                )+],
            },
        )+];
    };
}

macro_rules! constants {
    ($list:ident: $($(#[$doc:meta])* $name:ident: $type:ident = $value:expr;)+) => {
        $(
            $(#[$doc])*
            #[allow(missing_docs, reason = "the first constant of a group has its comment")]
            pub const $name: $type = $value;
        )+

        /// Name, Rust type and value of every constant.
        pub const $list: &[(&str, &str, i128)] =
            &[$((stringify!($name), stringify!($type), $name as i128),)+];
    };
}

#[path = "layout_codec.rs"]
mod codec;
#[path = "event_kind.rs"]
mod event_kind;
#[path = "layout_measures.rs"]
mod measures;
#[path = "refusal.rs"]
mod refusal;

pub use codec::*;
pub use event_kind::*;
pub use measures::*;
pub use refusal::*;

/// All records, list by list.
pub const RECORD_LISTS: [&[RecordLayout]; 3] = [RECORDS, CODEC_RECORDS, MEASURED_RECORDS];

/// Number and name of each value of an enumeration, whose constants begin with a prefix.
pub type EnumLayout = (&'static str, &'static [(u8, &'static str)]);

macro_rules! enumeration {
    ($prefix:literal, $type:ident) => {
        ($prefix, &{
            let mut values = [(0, ""); $type::ALL.len()];
            let mut at = 0;
            while at < values.len() {
                values[at] = ($type::ALL[at] as u8, $type::ALL[at].name());
                at += 1;
            }
            values
        })
    };
}

/// All enumerations, with the prefixes of their constants.
pub const ENUMERATIONS: &[EnumLayout] =
    &[enumeration!("REFUSED_", Refusal), enumeration!("EVENT_", EventKind)];

constants! { CONSTANTS:
    /// Bytes of the keys of a leaf of an index.
    INDEX_LEAF_BYTES: u32 = 128;
    /// Children of an inner node of an index.
    INDEX_FAN_OUT: u32 = 8;
    /// Maximum number of levels of inner nodes of an index.
    INDEX_LEVELS: u32 = 10;
    /// In place of an index position: the key does not exist.
    INDEX_NO_PLACE: u32 = u32::MAX;
    /// No slot: the object is unknown, or the row has no effect.
    NO_SLOT: u32 = u32::MAX;
    /// Flag of a value in place of a slot. Its lower bits are the place in the secondary index that
    /// receives the slot.
    SLOT_PENDING: u32 = 1 << 31;
    /// The `x` that a block's writer stores for a position that is not finite.
    NOT_FINITE_X: i32 = i32::MIN;
    /// The object of a free place of the secondary index; refused as an id.
    NO_OBJECT: u64 = u64::MAX;
    /// Words of the secret key of hash tables.
    HASH_KEY_WORDS: u32 = 2;
    /// Bits of the arrival in the (time, arrival) key; an object's row with the greatest key wins.
    ARRIVAL_BITS: u32 = 22;
    /// The TTL that keeps all records, and the deadline of a record that does not expire.
    NEVER_MS: i64 = i64::MAX;
    /// The validity of a fix that has none of its own.
    NO_VALIDITY_MS: u32 = u32::MAX;
    /// Earliest event time, Unix milliseconds.
    TIME_ORIGIN_MS: i64 = 946_684_800_000;
    /// Kind of a request: rows whose times are 8 bytes.
    REQUEST_FIXES: u32 = 0;
    /// Kind of a request: a block, whose times are 4-byte offsets from a base.
    REQUEST_BLOCK: u32 = 1;
    /// Kind of a request: object ids to remove.
    REQUEST_REMOVE: u32 = 2;
    /// Kind of a request: removes all objects.
    REQUEST_CLEAR: u32 = 3;
    /// The offset of an absent column.
    NO_COLUMN: u64 = u64::MAX;
    /// Flag of an `AdmissionRequest`: its object existed at the start of the cycle.
    ADMISSION_EXISTED: u32 = 1;
    /// Flag of an `AdmissionRequest`: it is a removal, else a row.
    ADMISSION_REMOVAL: u32 = 2;
    /// Columns of a request that are in grouped order, as bits.
    GROUPED_X: u32 = 1;
    GROUPED_Y: u32 = 2;
    GROUPED_STATE: u32 = 4;
    /// A shape: all points in the part's rectangle.
    SHAPE_RECTANGLE: u32 = 0;
    /// A shape: a circle, tested by the squared distance from its centre in quanta.
    SHAPE_CIRCLE_PLANAR: u32 = 1;
    /// A shape: a circle, tested by the squared chord from the unit vector of its centre.
    SHAPE_CIRCLE_GEOGRAPHIC: u32 = 2;
    /// A shape: polygons by the even-odd rule; edges are ordered by slab, then by polygon.
    SHAPE_POLYGON: u32 = 3;
    /// As `SHAPE_POLYGON`; points stored at longitude -180 are tested at 180 too.
    SHAPE_POLYGON_180: u32 = 4;
    /// Height of the mark between the edges of two polygons of one shape; every edge is lower.
    PART_END_HEIGHT: u32 = u32::MAX;
    /// Flag of a part: the query requests only the number of objects.
    PART_COUNT: u32 = 1 << 31;
    /// Entries that a thread handles when a grid is rebuilt.
    REBUILD_EACH: u32 = 8;
    /// Threads of a block that counts entries, and maximum number of threads of one that moves
    /// them.
    REBUILD_COUNT_THREADS: u32 = 512;
    REBUILD_THREADS: u32 = 1024;
    /// Maximum number of bins of consecutive cells by which entries are partitioned.
    REBUILD_BINS: u32 = 2048;
    /// Maximum number of cells that a block counts in its shared memory.
    REBUILD_WINDOW: u32 = 8192;
    /// Bytes of shared memory of a block that moves entries: for each entry (itself and two numbers
    /// of a bin or cell), and the variables that the kernel declares, at most.
    REBUILD_ENTRY_BYTES: u32 = 24;
    REBUILD_BLOCK_BYTES: u32 = 256;
    /// Maximum number of matches of a `CandidateRow` that are stored between counting and writing.
    CANDIDATE_ROW_MATCHES: u32 = 16;
    /// Maximum number of matches of one query that a warp sorts while it finds them: one per lane.
    WARP_QUERY_MATCHES: u32 = 32;
    /// Maximum number of matches of one query that a warp sorts.
    WARP_SORT_MATCHES: u32 = 256;
    /// Matches that a block sorts in its shared memory.
    SORT_TILE: u32 = 4096;
    /// Flags of the conditions that a filter contains.
    FILTER_STATE: u32 = 1;
    FILTER_AGE: u32 = 2;
    /// Flag of the condition `object_after`, which only queries have.
    FILTER_OBJECT: u32 = 4;
    /// Bit of the first measure; others follow in the order of their table.
    FILTER_MEASURE: u32 = 8;
    /// The shape of a continuous query: a planar circle without a filter.
    QUERY_CIRCLE: u32 = u32::MAX;
    /// Flag of a continuous query, above the bits of its requested kinds of events: it is in force.
    QUERY_ACTIVE: u32 = 1 << 16;
    /// Flag of a continuous query: its events have records.
    QUERY_FIXES: u32 = 1 << 17;
    /// Flag of a continuous query: the host evaluates it.
    QUERY_STATEFUL: u32 = 1 << 18;
    /// Flag of a continuous query: it evaluates every fix.
    QUERY_STEPPED: u32 = 1 << 19;
    /// The cell of a free bin; no level has it.
    NO_CELL: u64 = u64::MAX;
    /// Bits of a column and of a row in the number of a cell; above them is its level.
    CELL_BITS: u32 = 28;
    /// Lowest bit of a query's number in a reference.
    REFERENCE_BITS: u32 = 2;
    /// Flag of a reference: all of the cell lies in the region.
    REFERENCE_WHOLE: u32 = 1;
    /// Flag of a reference to a whole cell: objects that remain in the cell cause no events.
    REFERENCE_QUIET: u32 = 2;
    /// One of this many thread blocks counts the references that it visits.
    SAMPLED_BLOCKS: u32 = 16;
    /// Lowest bit of an event's kind in its key; below it is the region's number.
    EVENT_KIND_SHIFT: u32 = 28;
}

records! { RECORDS:
    /// A key of an index: an object and a time.
    ObjectTime {
        object: u64,
        time: i64,
    }
    /// One object in a cell: what a range query reads.
    Entry { x: i32, y: i32, slot: u32, state: u32, }

    /// One of the two versions of an object's record.
    Version {
        time_ms: i64,
        /// The cycle that wrote it.
        epoch: u64,
        x: i32,
        y: i32,
        state: u32,
        /// 1 while the object exists.
        alive: u32,
    }

    /// A place of the secondary index.
    Place { object: u64, slot: u32, reserved: u32, }

    /// A row or a removal that may change how many objects exist.
    AdmissionRequest { object: u64, arrival: u32, flags: u32, }

    /// The result of dispatch for an object of a dictionary, once for all its rows.
    DictionarySlot {
        /// The slot from the index; `NO_SLOT` when no row has an effect.
        slot: u32,
        /// Rows with a smaller time offset are late. If `slot` is `NO_SLOT`: the reason for which
        /// the rows are refused, or 0 if all are late.
        least: u32,
    }

    /// The outcomes of the rows of one request.
    RowOutcomeCounts {
        duplicate: u32,
        superseded: u32,
        late: u32,
        refused: u32,
        removed: u32,
        missing: u32,
        /// 1 when a row of the block lies outside its header's ranges.
        failed: u32,
        /// Rows later than the event clock after the cycle.
        ahead: u32,
        /// Winners that had expired.
        expired: u32,
    }

    /// The results of dispatch for the host.
    DispatchReport {
        /// 1 plus the greatest event time of the rows that were not refused, in milliseconds since
        /// the origin; 0 if there are none.
        time_max: u64,
        /// Least deadline of all objects, in milliseconds since the origin; `u64::MAX` if none
        /// expires.
        deadline: u64,
        /// Change of the number of objects, modulo 2^64.
        objects: u64,
        expired: u64,
        refused: u32,
        /// Length of the list of moved slots.
        moves: u32,
        /// Slots in use.
        slots: u32,
        failed: u32,
    }

    /// A uniform grid over an extent.
    Grid {
        /// Cells per quantum in 32.32 fixed point.
        scale_x: u64,
        scale_y: u64,
        x_min: i32,
        y_min: i32,
        x_max: i32,
        y_max: i32,
        columns: u32,
        rows: u32,
    }

    /// Where the entries of one cell are.
    Cell {
        start: u32,
        count: u32,
        capacity: u32,
        reserved: u32,
    }

    /// Rules of the running cycle.
    Rules {
        epoch: u64,
        /// The clock before the cycle.
        clock_ms: i64,
        /// The system's clock.
        system_ms: i64,
        /// The TTL, or `NEVER_MS`.
        ttl_ms: i64,
        time_max_ms: i64,
        /// Latest time to which rows may move an event clock.
        event_clock_max_ms: i64,
        x_min: i32,
        y_min: i32,
        x_max: i32,
        y_max: i32,
        rows: u32,
        requests: u32,
        clears: u32,
        /// 1 if the object limit refuses rows of the cycle; those rows or dictionary entries are
        /// marked.
        is_limited: u32,
        /// 1 when the rows drive the clock, 0 when the system does.
        event_clock: u32,
        /// 1 when the rows of an object are settled one by one, because of removals.
        is_ordered: u32,
        /// 1 when records may have a validity.
        has_validity: u32,
        reserved: u32,
    }

    /// One rectangle of a query's cover.
    Part {
        x_min: i32,
        y_min: i32,
        x_max: i32,
        y_max: i32,
        query: u32,
        /// Index of its shape, with flags in the upper bits.
        shape: u32,
    }

    /// The objects of one row of cells of a part, which a query tests.
    CandidateRow { part: u32, row: u32, }

    /// The lengths of a cycle's answers and of the lists of queries with more than
    /// WARP_QUERY_MATCHES matches.
    Lengths {
        /// Matches of the longest answer.
        longest: u64,
        /// Queries with at most WARP_SORT_MATCHES matches, and their matches.
        medium_queries: u32,
        medium_matches: u32,
        /// Queries with more matches than a warp sorts, but not more than a block does.
        long_queries: u32,
        /// Queries with more matches than a block sorts.
        longer_queries: u32,
    }

    /// One edge of a polygon, its lower end first.
    Edge { x_low: i32, y_low: i32, x_high: i32, y_high: i32, }

    /// A continuous query: a planar circle or a shape. The device loads its 32 bytes at once.
    DeviceQuery {
        rank_max: u64,
        x: i32,
        y: i32,
        /// Index of its shape among the shapes of all continuous queries, or `QUERY_CIRCLE`.
        shape: u32,
        /// Requested kinds of events, by bit, and flags.
        flags: u32,
        /// The lower bits of the last epoch in which its events are suppressed.
        suppressed_epoch: u32,
        reserved: u32,
    }

    /// One entry of the hash table of cells, with the range of references to the cell's regions.
    Bin { cell: u64, start: u32, count: u32, }

    /// The list of objects whose records a cycle wrote.
    WrittenObjects {
        /// Bitwise OR of the ids.
        bits: u64,
        length: u32,
        reserved: u32,
    }

    /// Counts of the events of continuous queries.
    EventCounts {
        events: u64,
        /// Events with a record.
        fixes: u64,
        /// References visited for a sample of the objects, see `SAMPLED_BLOCKS`.
        visited: u64,
        /// Objects with events.
        busy: u32,
        reserved: u32,
    }

    /// Index of a region's first event.
    RegionHead { region: u64, first: u32, flags: u32, }
}
