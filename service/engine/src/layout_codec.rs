//! Constants and records of the codec that host and device share; a part of `layout.rs`.
//!
//! A step's code is the identifier of its encoding; the build of the GPU package renders
//! `CODEC_RAW` and the others for the kernels.

use super::RecordLayout;

constants! { CODEC_CONSTANTS:
    /// Maximum number of slots of the steps of a tree, which has four levels.
    CODEC_SLOTS: u32 = 3;
    /// Steps of a column in shared memory; few trees have more.
    CODEC_STEPS: u32 = 12;
    /// Steps of a common keyed tree; absent nodes have code 0.
    CODEC_RUN_STEPS: u32 = 7;
    /// The step `CODEC_DICT` with exceptions in `slot`. Step codes below 32 are identifiers of
    /// encodings; this and the following codes are other steps.
    CODEC_DICT_OR: u32 = 32;
    /// A sparse child begins; `extra` is its kind.
    CODEC_COUNT: u32 = 33;
    /// Stores the tile in `slot`; `extra` is 1 if the sparse child ends. An encoder stores the
    /// values of a node that needs the whole column.
    CODEC_STORE: u32 = 34;
    /// A patch whose exceptions are not multiples of the child's divisor; encoding only.
    CODEC_PATCH_DIVISOR: u32 = 35;
    /// A patch whose exceptions have other decimals than the child; encoding only.
    CODEC_PATCH_FLOAT: u32 = 36;
    /// Maximum number of parts of a segment; a thread block sorts each part.
    CODEC_PARTS: u32 = 16;
    /// Maximum number of dictionary entries that a thread block unpacks.
    CODEC_ENTRIES: u32 = 512;
    /// Entries of the table of a Huffman code: one for each pattern of its longest code's bits.
    CODEC_CODE_ENTRIES: u32 = 4096;
    /// Kinds of `CodecOpen`: check the sum of counts, unpack a dictionary, or fill a table of
    /// codes.
    CODEC_OPEN_COUNTS: u32 = 0;
    CODEC_OPEN_DICTIONARY: u32 = 1;
    CODEC_OPEN_CODE: u32 = 2;
    /// Threads of a block that decodes the strings of a chunk.
    CODEC_STRING_THREADS: u32 = 256;
    /// Rows of a keyed column that a thread scatters, and the maximum number of threads of a block.
    CODEC_SCATTER_EACH: u32 = 16;
    CODEC_SCATTER_THREADS: u32 = 1024;
    /// Bytes of a shared-memory buffer of a scattered column, and the maximum number of buffers.
    CODEC_SCATTER_BYTES: u32 = 65_536;
    CODEC_SCATTER_BUFFERS: u32 = 3;
    /// Digit values of one pass of the radix sort of rows.
    CODEC_DIGITS: u32 = 256;
    /// Rows of a segment, the unit of grouped order.
    CODEC_SEGMENT_ROWS: u32 = 65_536;
    /// Rows and threads of each thread block if a cluster of blocks sorts a segment.
    CODEC_ORDER_ROWS: u32 = 8192;
    CODEC_ORDER_THREADS: u32 = 512;
    /// Maximum number of bits of codes that are sorted with a counter per code.
    CODEC_COUNTED_BITS: u32 = 13;
    /// Bytes of shared memory of a thread block of such a cluster.
    CODEC_ORDER_BYTES: u32 = 91_488;
    /// Sparse children of an rle node.
    CODEC_RUNS: u32 = 1;
    /// The sparse child of a dict node.
    CODEC_EXCEPTIONS: u32 = 2;
    /// The sparse child of a keyed node.
    CODEC_HEADS: u32 = 3;
    /// Buffers of values for encoding a tile: one for each level of a tree.
    ENCODE_LEVELS: u32 = 4;
    /// Tiles of a thread block if each warp encodes one, and the threads that scan their words.
    ENCODE_LANES_TILES: u32 = 2;
    ENCODE_OFFSETS_THREADS: u32 = 1024;
    /// Maximum number of sections of words of a column, and maximum number of its other sections. A
    /// tree has at most 16 nodes, and a node has at most two sections.
    ENCODE_SECTIONS: u32 = 16;
    ENCODE_COPIES: u32 = 32;
    /// Threads of a block that sorts a segment, its bytes of shared memory, and the greatest span
    /// of keys.
    ENCODE_ORDER_THREADS: u32 = 256;
    ENCODE_ORDER_BYTES: u32 = 106_592;
    ENCODE_ORDER_KEYS: u32 = 8192;
    /// Threads of a block that permutes the values of a segment, and its bytes of shared memory.
    ENCODE_SEGMENT_THREADS: u32 = 1024;
    ENCODE_GROUP_BYTES: u32 = 229_376;
    /// Rows of each tile of a run except the last.
    RUN_TILE_ROWS: u32 = 1024;
}

records! { CODEC_RECORDS:
    /// One step of decoding a tile of a column. Places are byte offsets: of sections from the start
    /// of the input, of dictionaries from the start of the output.
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
        /// Place of the values, in grouped order for keyed columns; `NO_COLUMN` if values are only
        /// checked.
        output: u64,
        /// Place of the bits `CodecKeys::heads`; `NO_COLUMN` for columns in row order.
        heads: u64,
        /// Place of the codes if rows are ordered by codes; else `NO_COLUMN`.
        codes: u64,
        /// Place of a dictionary with 8-byte entries if the steps decode to its codes; else
        /// `NO_COLUMN`.
        table: u64,
        /// Index of its first tile in the launch.
        first_tile: u32,
        tiles: u32,
        rows: u32,
        first_step: u32,
        steps: u32,
        bits: u32,
        /// The request that fails if this column fails to decode.
        request: u32,
        /// 1 if a value minus `least` must not exceed `span`.
        checks: u32,
        least: u32,
        span: u32,
        /// Entries of `table`.
        entries: u32,
        reserved: u32,
    }

    /// A task that runs before the tiles of a column are decoded; see `CODEC_OPEN_COUNTS`.
    CodecOpen {
        /// Place of the 16-bit counts, the packed dictionary or the packed code lengths, in bytes
        /// from the start of the input.
        source: u64,
        /// Place of the unpacked dictionary or the table of codes, bytes from the start of the
        /// output.
        table: u64,
        base: u64,
        /// Entries, counts or symbols.
        count: u32,
        /// Required sum of the counts.
        expected: u32,
        /// Index of the first entry to unpack, of at most `CODEC_ENTRIES`.
        first: u32,
        /// Bits of the node's values; for a Huffman code the split of its buckets.
        bits: u32,
        entry_bits: u32,
        /// 1 for entries of 8 bytes, 0 for entries of 4.
        is_wide: u32,
        request: u32,
        kind: u32,
    }

    /// A key column to order rows by; places are bytes from the start of the output.
    CodecKeys {
        /// Place of the keys. If they are not decoded, it is relative to the start of the input.
        keys: u64,
        /// One word per position: the lower 16 bits are the row within its segment; if the keys are
        /// codes, the upper bits are the code. Clusters use it only to exchange data between their
        /// blocks.
        order: u64,
        /// By row: its position within its segment, in 16 bits.
        places: u64,
        /// One bit per position: 1 at the first position of a key or tile.
        heads: u64,
        /// Scratch copies of `order` between passes; only wide keys have the second one.
        work: u64,
        other: u64,
        /// Digit counts of each part: in the initial row order, by pass; and in the order of the
        /// running pass, which publishes them to later parts.
        counts: u64,
        published: u64,
        /// A `CodecRange` per segment; only wide keys have it.
        ranges: u64,
        /// Index of its first part among the parts of all columns. A segment has `CODEC_PARTS`
        /// parts; the last segment has only parts with rows.
        first_part: u32,
        rows: u32,
        key_bytes: u32,
        is_decoded: u32,
        /// Bits of codes; 0 for wide keys, whose bits the device finds.
        bits: u32,
        /// Maximum number of passes.
        passes: u32,
        /// Index of its first segment among the segments of all columns.
        first_segment: u32,
        reserved: u32,
    }

    /// A keyed column whose values are scattered to their rows; places are bytes from the start of
    /// the output.
    CodecScatter {
        /// Place of the values in grouped order.
        grouped: u64,
        /// See `CodecKeys`.
        places: u64,
        output: u64,
        /// Index of its first piece among the pieces of all columns. A thread block scatters one
        /// piece.
        first_piece: u32,
        rows: u32,
        /// Bytes of a value.
        bytes: u32,
        reserved: u32,
    }

    /// A column of strings whose codes are already decoded; places are bytes from the start of the
    /// output.
    CodecStrings {
        /// Codes of each tile: 16 bits each, with space for 1,024.
        codes: u64,
        /// Numbers of codes of each tile, bytes from the start of the input.
        counts: u64,
        /// Scratch memory, 32 bits a row.
        strings: u64,
        output: u64,
        /// Index of its first chunk among the chunks of all columns.
        first_chunk: u32,
        chunk_tiles: u32,
        rows: u32,
        /// The request that fails with it.
        request: u32,
    }

    /// Ranges of the values in a tile, or ranges that rows must match; both ends included. Times
    /// are milliseconds since the start of the run's partition.
    RunZone {
        time_min: u32,
        time_max: u32,
        x_min: i32,
        x_max: i32,
        y_min: i32,
        y_max: i32,
    }

    /// A column of a tile of a run on the device: `least` plus a difference of `bits` bits for each
    /// row, lowest bits first.
    RunColumn {
        /// Address of the differences.
        words: u64,
        least: u32,
        bits: u32,
    }

    /// A decoded column of a tile of a run.
    RunInput {
        /// Place of its values, bytes from the start of the output.
        values: u64,
        rows: u32,
        /// Bits of a value: 16 or 32; 0 if every row has the value `base`.
        bits: u32,
        /// Number that is added to each value.
        base: u32,
        /// 1 if values are signed.
        is_signed: u32,
    }

    /// Least key and number of bits of a segment's wide keys.
    CodecRange { least: u64, bits: u64, }

    /// A column, or the values of a node, to encode. 64-bit fields are addresses, or 0 if absent.
    EncodeTask {
        /// Bit patterns of `bits` bits by row.
        values: u64,
        /// Number of values of a sparse node in each tile, 16 bits each.
        counts: u64,
        /// A bit for each position of values in grouped order that is a head.
        heads: u64,
        /// Codes of a dictionary by row, 16 bits.
        codes: u64,
        steps: u64,
        /// For each section of words, the number of words of each tile and the second halves of the
        /// tiles' entries.
        sizes: u64,
        entries: u64,
        /// Words of all sections, tile by tile.
        staged: u64,
        /// Counts over all tiles; bit 0 of the first number is set if the tree is refused.
        summary: u64,
        rows: u32,
        tiles: u32,
        bits: u32,
        steps_count: u32,
        /// Capacity for the words of one tile.
        staged_words: u32,
        reserved: u32,
    }

    /// One node of a tree; `kind` is the identifier of its encoding or a `CODEC_` constant.
    EncodeStep {
        /// Address of a section with one value per tile, or of stored values and their counts.
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
        /// The mode field of the format; 1 if values are signed.
        mode: u32,
        /// Index of its first count in the summary.
        summary: u32,
        /// Index of its section among the sections of words.
        variable: u32,
        /// By `kind`: the remainder of a divisor, the initial exception value, the code of
        /// exceptions, or the number of symbols of a Huffman code.
        remainder: u32,
        /// Exponent of two in a divisor.
        shift: u32,
        reserved: u32,
    }
}
