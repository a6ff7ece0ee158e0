//! Which records do host and device share, byte by byte?
//!
//! Free of dependencies: the engine compiles it, and the build of the GPU package includes it by
//! path to render the kernels' header with static assertions. Fields are in the order of memory and
//! leave no gaps; integers are little-endian on both sides.

/// Size and fields of one record, for rendering.
#[derive(Clone, Copy, Debug)]
pub struct RecordLayout {
    /// Name on both sides.
    pub name: &'static str,
    /// `size_of` it.
    pub bytes: usize,
    /// Name, Rust type and offset of each field.
    pub fields: &'static [(&'static str, &'static str, usize)],
}

macro_rules! records {
    ($(
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
        pub const RECORDS: &[RecordLayout] = &[$(
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
    ($($(#[$doc:meta])* $name:ident: $type:ident = $value:expr;)+) => {
        $($(#[$doc])* pub const $name: $type = $value;)+

        /// Name, Rust type and value of every constant.
        pub const CONSTANTS: &[(&str, &str, i128)] =
            &[$((stringify!($name), stringify!($type), $name as i128),)+];
    };
}

constants! {
    /// No slot: the object is not known, or the row does not count.
    NO_SLOT: u32 = u32::MAX;
    /// In place of a slot: the lower bits are the place in the secondary index where it will be.
    SLOT_PENDING: u32 = 1 << 31;
    /// The object of a free place of the secondary index; refused as an id.
    NO_OBJECT: u64 = u64::MAX;
    /// Bits of an arrival in the key that decides between fixes of one object.
    ARRIVAL_BITS: u32 = 22;
    /// Earliest event time, Unix milliseconds.
    TIME_ORIGIN_MS: i64 = 946_684_800_000;
    /// Kind of a request: rows whose times are 8 bytes.
    REQUEST_FIXES: u32 = 0;
    /// Kind of a request: a block, whose times are 4 bytes after a base.
    REQUEST_BLOCK: u32 = 1;
    /// Kind of a request: object ids to remove.
    REQUEST_REMOVE: u32 = 2;
    /// Kind of a request: everything goes.
    REQUEST_CLEAR: u32 = 3;
    /// The offset of a column that is not there.
    NO_COLUMN: u64 = u64::MAX;
    /// Reasons of refusal; the numbers of `Refusal`.
    REFUSED_OBJECT: u32 = 1;
    /// See `Refusal`.
    REFUSED_NOT_FINITE: u32 = 2;
    /// See `Refusal`.
    REFUSED_OUTSIDE: u32 = 3;
    /// See `Refusal`.
    REFUSED_EARLY: u32 = 4;
    /// See `Refusal`.
    REFUSED_LATE: u32 = 5;
    /// See `Refusal`.
    REFUSED_SPEED: u32 = 6;
    /// See `Refusal`.
    REFUSED_HEADING: u32 = 7;
    /// See `Refusal`.
    REFUSED_ALTITUDE: u32 = 8;
    /// See `Refusal`.
    REFUSED_OBJECT_LIMIT: u32 = 9;
    /// A shape: everything in the part's rectangle.
    SHAPE_RECTANGLE: u32 = 0;
    /// A shape: squared quanta from a centre.
    SHAPE_CIRCLE_PLANAR: u32 = 1;
    /// A shape: squared chord from a unit vector.
    SHAPE_CIRCLE_GEOGRAPHIC: u32 = 2;
    /// A shape: even-odd over edges filed by slab.
    SHAPE_POLYGON: u32 = 3;
    /// Flag of a part: only the number of objects is wanted.
    PART_COUNT: u32 = 1 << 31;
    /// Matches of one row of cells that are kept between counting and writing.
    KEPT: u32 = 16;
    /// Matches that a block sorts in its shared memory.
    SORT_TILE: u32 = 4096;
    /// Conditions of a filter that hold, as bits.
    FILTER_STATE: u32 = 1;
    /// See `Filter`.
    FILTER_AGE: u32 = 2;
    /// See `Filter`.
    FILTER_SPEED: u32 = 4;
    /// See `Filter`.
    FILTER_HEADING: u32 = 8;
    /// See `Filter`.
    FILTER_ALTITUDE: u32 = 16;
    /// Slots that the steps of a codec's tree take at most: a tree has four levels.
    CODEC_SLOTS: u32 = 3;
    /// What a `CodecStep` does: a leaf gives a tile, all others change the tile there is.
    CODEC_RAW: u32 = 1;
    /// See `CodecStep`.
    CODEC_AFL: u32 = 2;
    /// See `CodecStep`; `extra` is the mode.
    CODEC_DELTA: u32 = 3;
    /// See `CodecStep`; `extra` is the mode.
    CODEC_DELTA2: u32 = 4;
    /// See `CodecStep`.
    CODEC_SCALE: u32 = 5;
    /// See `CodecStep`; `parameter` is the divisor, `extra` the remainder.
    CODEC_DIVISOR: u32 = 6;
    /// See `CodecStep`; `parameter` is the power of ten as a double.
    CODEC_FLOAT: u32 = 7;
    /// See `CodecStep`.
    CODEC_PATCH: u32 = 8;
    /// See `CodecStep`; the tile has lengths, `slot` the values.
    CODEC_RLE: u32 = 9;
    /// See `CodecStep`; `first` is the unpacked dictionary, `extra` its entries.
    CODEC_DICT: u32 = 10;
    /// See `CodecStep`; `parameter` is the value.
    CODEC_CONST: u32 = 11;
    /// See `CodecStep`.
    CODEC_GFC: u32 = 12;
    /// See `CodecStep`; `slot` has the heads, `extra` is the mode.
    CODEC_KEYED_DELTA: u32 = 14;
    /// See `CodecStep`; `slot` has the heads, `extra` is the mode.
    CODEC_KEYED_DELTA2: u32 = 15;
    /// See `CodecStep`; as `CODEC_DICT`, with exceptions in `slot`.
    CODEC_DICT_OR: u32 = 16;
    /// See `CodecStep`; what follows is a sparse child, `extra` says of what.
    CODEC_COUNT: u32 = 17;
    /// See `CodecStep`; the tile goes into `slot`, `extra` is 1 when the sparse child ends.
    CODEC_KEEP: u32 = 18;
    /// Parts of a segment, of which each is ordered by a block of threads.
    CODEC_PARTS: u32 = 16;
    /// Entries of a dictionary that a block unpacks.
    CODEC_ENTRIES: u32 = 512;
    /// Bytes of a column that a block holds to bring them in order, and its threads.
    CODEC_SPREAD_BYTES: u32 = 65_536;
    /// See `CODEC_SPREAD_BYTES`.
    CODEC_SPREAD_THREADS: u32 = 512;
    /// Digits that rows are ordered by in one pass.
    CODEC_DIGITS: u32 = 256;
    /// Sparse children of an rle node.
    CODEC_RUNS: u32 = 1;
    /// The sparse child of a dict node.
    CODEC_EXCEPTIONS: u32 = 2;
    /// The sparse child of a keyed node.
    CODEC_HEADS: u32 = 3;
    /// Columns of values that a tile has while it is encoded: a tree has as many levels.
    ENCODE_LEVELS: u32 = 4;
    /// See `EncodeStep`; a patch whose exceptions are what the child's divisor does not fit.
    CODEC_PATCH_DIVISOR: u32 = 19;
    /// See `EncodeStep`; a patch whose exceptions are floats of other decimals than the child's.
    CODEC_PATCH_FLOAT: u32 = 20;
}

records! {
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

    /// Optional values of one version, with their unknown values.
    Optional { speed_mm_s: u32, altitude_mm: i32, heading_cdeg: u32, reserved: u32, }

    /// A place of the secondary index.
    Place { object: u64, slot: u32, reserved: u32, }

    /// One request of a cycle; offsets count bytes from the start of the cycle's input.
    Arrived {
        object_at: u64,
        time_at: u64,
        x_at: u64,
        y_at: u64,
        speed_at: u64,
        heading_at: u64,
        altitude_at: u64,
        state_at: u64,
        base_ms: i64,
        first_arrival: u32,
        rows: u32,
        kind: u32,
        /// Of a block: the range of its time offsets and its box.
        time_min: u32,
        time_max: u32,
        x_min: i32,
        x_max: i32,
        y_min: i32,
        y_max: i32,
        /// 1 when the rows are held against these while they are decoded.
        is_decoded: u32,
    }

    /// What became of the rows of one request.
    Fates {
        duplicate: u32,
        superseded: u32,
        late: u32,
        refused: u32,
        removed: u32,
        missing: u32,
        /// 1 when a row of the block lies outside its header's ranges.
        failed: u32,
        reserved: u32,
    }

    /// What a cycle tells the host when dispatch is done.
    Report {
        /// Greatest event time that was not refused, milliseconds since the origin, plus 1; 0
        /// without rows.
        time_max: u64,
        /// Least event time of any object, milliseconds since the origin; the greatest value
        /// without objects or TTL.
        time_min: u64,
        /// Objects gained, as a wrapping sum.
        objects: u64,
        expired: u64,
        refused: u32,
        /// Slots in the list of those that moved.
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
        /// Records older than this before the clock go; the greatest value keeps all.
        ttl_ms: i64,
        time_max_ms: i64,
        hash_key: u64,
        x_min: i32,
        y_min: i32,
        x_max: i32,
        y_max: i32,
        rows: u32,
        requests: u32,
        clears: u32,
        /// 1 when new objects are refused.
        is_full: u32,
        /// 1 when the rows drive the clock, 0 when the system does.
        event_clock: u32,
        reserved: u32,
    }

    /// One rectangle of a query's cover.
    Part {
        x_min: i32,
        y_min: i32,
        x_max: i32,
        y_max: i32,
        query: u32,
        /// Place among the shapes, and flags.
        shape: u32,
    }

    /// One row of cells of a part.
    Item { part: u32, row: u32, }

    /// How long the answers of a cycle are.
    Lengths {
        /// Matches of the longest.
        longest: u64,
        /// Queries with more matches than a warp sorts, but not more than a block does.
        long_queries: u32,
        /// Queries with more.
        longer_queries: u32,
    }

    /// What a rectangle of a cover is tested against: a region and a filter.
    Shape {
        /// Centre of a geographic circle.
        vector_x: f64,
        vector_y: f64,
        vector_z: f64,
        rank_max: u64,
        age_max_ms: i64,
        /// Centre of a planar circle; box of a polygon.
        x: i32,
        y: i32,
        x_max: i32,
        y_max: i32,
        kind: u32,
        /// A polygon's first slab boundary and first edge among all.
        slabs_at: u32,
        edges_at: u32,
        slab_shift: u32,
        touches_180: u32,
        filter: u32,
        state_mask: u32,
        state_value: u32,
        speed_min: u32,
        speed_max: u32,
        heading_min: u32,
        heading_max: u32,
        altitude_min: i32,
        altitude_max: i32,
    }

    /// One edge of a polygon, its lower end first.
    Edge { x_low: i32, y_low: i32, x_high: i32, y_high: i32, }

    /// One step of decoding a tile of a column. Places are bytes, of sections from the start of
    /// the input, of dictionaries from the start of the output.
    CodecStep {
        first: u64,
        second: u64,
        parameter: u64,
        /// Words of the second section.
        words: u32,
        code: u32,
        /// Width of the node's values.
        bits: u32,
        extra: u32,
        slot: u32,
        reserved: u32,
    }

    /// One column to decode; places are bytes from the start of the output.
    CodecColumn {
        /// Of keyed columns in grouped order. `NO_COLUMN` when values are only checked.
        output: u64,
        /// Rows in grouped order, as `CodecKeys` has them, `NO_COLUMN` for columns in order of rows.
        order: u64,
        /// Where codes are kept, for they order rows as their values do; else `NO_COLUMN`.
        codes: u64,
        /// A dictionary of 8 bytes an entry that gives the values, where the steps give its codes;
        /// else `NO_COLUMN`.
        table: u64,
        /// Its first tile among those of its launch.
        first_tile: u32,
        tiles: u32,
        rows: u32,
        first_step: u32,
        steps: u32,
        bits: u32,
        /// Who fails with it.
        request: u32,
        /// 1 when values less `least` must not exceed `span`.
        checks: u32,
        least: u32,
        span: u32,
        /// Of keyed columns: 1 when the order tells the key's code of each row, 0 when it tells
        /// heads.
        has_tags: u32,
        /// Entries of `table`.
        entries: u32,
    }

    /// What of a column is checked before its tiles.
    CodecOpen {
        /// Counts of 16 bits or a packed dictionary, bytes from the start of the input.
        source: u64,
        /// Where the dictionary goes, bytes from the start of the output; `NO_COLUMN` for counts.
        table: u64,
        base: u64,
        /// Entries or counts.
        count: u32,
        /// What the counts add up to.
        expected: u32,
        /// The first of at most `CODEC_ENTRIES` entries that are unpacked.
        first: u32,
        bits: u32,
        entry_bits: u32,
        /// 1 when entries take 8 bytes, else they take 4.
        is_wide: u32,
        request: u32,
        reserved: u32,
    }

    /// A key column to order rows by; places are bytes from the start of the output.
    CodecKeys {
        /// From the start of the input if not decoded.
        keys: u64,
        /// By position: the row within its segment, and above 16 bits what tells heads.
        order: u64,
        /// As `order`, between passes; the second only of wide keys.
        work: u64,
        other: u64,
        /// Counts of digits by segment and part.
        counts: u64,
        /// Of wide keys: least key and number of bits by segment.
        ranges: u64,
        /// Its first part among all; a segment has `CODEC_PARTS`, the last one those that have rows.
        first_part: u32,
        rows: u32,
        key_bytes: u32,
        is_decoded: u32,
        /// Codes of so many bits; 0 for wide keys, whose bits are found out.
        bits: u32,
        reserved: u32,
    }

    /// A keyed column whose values go to their rows; places are bytes from the start of the output.
    CodecSpread {
        /// In grouped order.
        grouped: u64,
        order: u64,
        output: u64,
        /// Its first piece among all.
        first_piece: u32,
        rows: u32,
        /// Of a value.
        bytes: u32,
        reserved: u32,
    }

    /// What a segment's wide keys need.
    CodecRange { least: u64, bits: u64, }

    /// A whole record as an answer brings it.
    Answered {
        object: u64,
        time_ms: i64,
        x: i32,
        y: i32,
        speed_mm_s: u32,
        altitude_mm: i32,
        heading_cdeg: u32,
        state: u32,
        /// 1 when the object exists.
        found: u32,
        reserved: u32,
    }

    /// A column, or what a node of its tree gives, and where its sections go; addresses or 0.
    EncodeTask {
        /// Bit patterns of `bits` bits by row.
        values: u64,
        /// Row within its segment by position; values of each tile of a sparse node; 16 bits.
        order: u64,
        counts: u64,
        /// A bit for each position that is a head.
        heads: u64,
        /// Codes of a dictionary by row, 16 bits.
        codes: u64,
        steps: u64,
        /// Words of each tile, and the second halves of their entries, for each section of words.
        sizes: u64,
        entries: u64,
        /// Words of all sections, tile by tile.
        staged: u64,
        /// What is counted over all tiles; bit 0 of the first number refuses the tree.
        summary: u64,
        rows: u32,
        tiles: u32,
        bits: u32,
        steps_count: u32,
        /// Room for the words of one tile.
        staged_words: u32,
        reserved: u32,
    }

    /// One node of a tree; `kind` is a `CODEC_` constant, of which `CODEC_DICT_OR` is a dictionary
    /// with exceptions and `CODEC_KEEP` puts values by for a node that looks at whole columns.
    EncodeStep {
        /// Address of a section that has something for every tile, or of values kept, and of
        /// their numbers.
        section: u64,
        second: u64,
        /// The power of ten, as the bits of a double.
        parameter: u64,
        /// Inverse of a divisor's odd part modulo 2^64.
        inverse: u64,
        /// The greatest quotient.
        limit: u64,
        kind: u32,
        /// Width of the node's values.
        bits: u32,
        /// The format's mode; 1 where values are signed.
        mode: u32,
        /// Place in the summary.
        summary: u32,
        /// Which of the sections of words.
        variable: u32,
        /// What a divisor leaves, what stands for an exception before all others, or the code of
        /// exceptions.
        remainder: u32,
        /// Powers of two in a divisor.
        shift: u32,
        reserved: u32,
    }
}
