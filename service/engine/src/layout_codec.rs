//! The records that host and device share to decode and encode columns.
//!
//! A part of `layout.rs`, whose macros and rules apply.

use super::RecordLayout;

constants! { CODEC_CONSTANTS:
    /// Slots that the steps of a codec's tree take at most: a tree has four levels.
    CODEC_SLOTS: u32 = 3;
    /// Steps of a column that wait in shared memory; few trees have more.
    CODEC_STEPS: u32 = 12;
    /// Steps of a common keyed tree, with those of code 0 that it does not have.
    CODEC_RUN_STEPS: u32 = 7;
    /// What a `CodecStep` does: a leaf gives a tile, all others change the tile there is.
    CODEC_RAW: u32 = 1;
    CODEC_AFL: u32 = 2;
    /// See `CodecStep`; `extra` is the mode.
    CODEC_DELTA: u32 = 3;
    /// See `CodecStep`; `extra` is the mode.
    CODEC_DELTA2: u32 = 4;
    CODEC_SCALE: u32 = 5;
    /// See `CodecStep`; `parameter` is the divisor, `extra` the remainder.
    CODEC_DIVISOR: u32 = 6;
    /// See `CodecStep`; `parameter` is the power of ten as a double.
    CODEC_FLOAT: u32 = 7;
    CODEC_PATCH: u32 = 8;
    /// See `CodecStep`; the tile has lengths, `slot` the values.
    CODEC_RLE: u32 = 9;
    /// See `CodecStep`; `first` is the unpacked dictionary, `extra` its entries.
    CODEC_DICT: u32 = 10;
    /// See `CodecStep`; `parameter` is the value.
    CODEC_CONST: u32 = 11;
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
    /// Rows of a keyed column that a thread brings in order, and threads of a block at most.
    CODEC_SPREAD_EACH: u32 = 16;
    CODEC_SPREAD_THREADS: u32 = 1024;
    /// Bytes of such a column that are in shared memory together at most, and how often.
    CODEC_SPREAD_BYTES: u32 = 65_536;
    CODEC_SPREAD_BUFFERS: u32 = 3;
    /// Digits that rows are ordered by in one pass.
    CODEC_DIGITS: u32 = 256;
    /// Rows of a segment, which are ordered together.
    CODEC_SEGMENT_ROWS: u32 = 65_536;
    /// Rows and threads of a block where a cluster of blocks orders a segment.
    CODEC_ORDER_ROWS: u32 = 8192;
    CODEC_ORDER_THREADS: u32 = 512;
    /// Bits of codes that are ordered by counters of each at most.
    CODEC_COUNTED_BITS: u32 = 13;
    /// Shared memory of such a block.
    CODEC_ORDER_BYTES: u32 = 91_488;
    /// Sparse children of an rle node.
    CODEC_RUNS: u32 = 1;
    /// The sparse child of a dict node.
    CODEC_EXCEPTIONS: u32 = 2;
    /// The sparse child of a keyed node.
    CODEC_HEADS: u32 = 3;
    /// Columns of values that a tile has while it is encoded: a tree has as many levels.
    ENCODE_LEVELS: u32 = 4;
    /// Tiles that a block encodes where a warp takes one, and threads that sum up their words.
    ENCODE_LANES_TILES: u32 = 2;
    ENCODE_OFFSETS_THREADS: u32 = 1024;
    /// Sections of words that a column has at most, and others: a tree has 16 nodes, of which none
    /// has more than two sections.
    ENCODE_SECTIONS: u32 = 16;
    ENCODE_COPIES: u32 = 32;
    /// Threads of a block that finds the order of a segment, its bytes of shared memory, and how
    /// far apart its keys may be.
    ENCODE_ORDER_THREADS: u32 = 256;
    ENCODE_ORDER_BYTES: u32 = 106_592;
    ENCODE_ORDER_KEYS: u32 = 8192;
    /// Threads of a block that brings the values of a segment into order, and its bytes of shared
    /// memory.
    ENCODE_SEGMENT_THREADS: u32 = 1024;
    ENCODE_GROUP_BYTES: u32 = 229_376;
    /// See `EncodeStep`; a patch whose exceptions are what the child's divisor does not fit.
    CODEC_PATCH_DIVISOR: u32 = 19;
    /// See `EncodeStep`; a patch whose exceptions are floats of other decimals than the child's.
    CODEC_PATCH_FLOAT: u32 = 20;
}

records! { CODEC_RECORDS:
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
        /// Heads of the grouped order, as `CodecKeys` has them, `NO_COLUMN` for columns in order
        /// of rows.
        heads: u64,
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
        /// The request that fails with it.
        request: u32,
        /// 1 when values less `least` must not exceed `span`.
        checks: u32,
        least: u32,
        span: u32,
        /// Entries of `table`.
        entries: u32,
        reserved: u32,
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
        /// By position: the row within its segment, and of codes the code above 16 bits. Clusters
        /// leave only what their blocks exchange there.
        order: u64,
        /// By row: its position within its segment, in 16 bits.
        places: u64,
        /// By position a bit: the first of its key or tile.
        heads: u64,
        /// As `order`, between passes; the second only of wide keys.
        work: u64,
        other: u64,
        /// Digits of each part, by pass as rows stand, and of one pass as it finds them.
        counts: u64,
        told: u64,
        /// Of wide keys: least key and number of bits by segment.
        ranges: u64,
        /// Its first part among all; a segment has `CODEC_PARTS`, the last one those that have
        /// rows.
        first_part: u32,
        rows: u32,
        key_bytes: u32,
        is_decoded: u32,
        /// Codes of so many bits; 0 for wide keys, whose bits are found out.
        bits: u32,
        /// At most.
        passes: u32,
        /// Its first segment among all.
        first_segment: u32,
        reserved: u32,
    }

    /// A keyed column whose values go to their rows; places are bytes from the start of the output.
    CodecSpread {
        /// In grouped order.
        grouped: u64,
        /// See `CodecKeys`.
        places: u64,
        output: u64,
        /// Its first piece among all, as many rows as a block takes.
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
        /// Values of each tile of a sparse node, 16 bits.
        counts: u64,
        /// A bit for each position of values in grouped order that is a head.
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
        /// Capacity for the words of one tile.
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
