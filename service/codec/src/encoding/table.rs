//! The table of encodings: identifier, name, parameters and children, module and decoder.
//!
//! This file has no dependencies, because the build of the GPU package includes it by path to
//! render the identifiers for the kernels. Identifiers and names never change once released.

/// Passes the rows to the macro `$render`.
macro_rules! encoding_table {
    ($render:ident) => {
        $render! {
            /// Unencoded values.
            1 "raw" Raw => raw::Raw<'a>;
            /// Packed values with one bit width for each group of 32 values.
            2 "afl" Afl => afl::Afl<'a>;
            /// Differences within a tile.
            3 "delta" Delta(mode: Mode, child: Box<Tree>) => delta::Delta<'a, T>;
            /// Differences of differences within a tile.
            4 "delta2" Delta2(mode: Mode, child: Box<Tree>) => delta2::Delta2<'a, T>;
            /// Distances from the least value of a tile.
            5 "scale" Scale(child: Box<Tree>) => scale::Scale<'a, T>;
            /// Quotients by a given divisor and remainder, or by the greatest divisor that all
            /// values share.
            6 "divisor" Divisor(choice: Option<DivisorChoice>, child: Box<Tree>)
                => divisor::Divisor<'a, T>;
            /// Floats as integers with a given, or the smallest exact, number of decimals.
            7 "float_to_int" FloatToInt(decimals: Option<u8>, child: Box<Tree>)
                => float_to_int::FloatToInt<'a, T>;
            /// A few exceptions stored separately: high bits, or values that do not fit the divisor
            /// or number of decimals of the child.
            8 "patch" Patch(child: Box<Tree>) => patch::Patch<'a, T>;
            /// Runs of equal values. The children are the values and lengths of the runs.
            9 "rle" Rle(values: Box<Tree>, lengths: Box<Tree>) => rle::Rle<'a, T>;
            /// Codes into a dictionary of at most `limit` entries. With a second child the
            /// dictionary holds only the most frequent values, and the child the others.
            10 "dict" Dict(limit: u32, codes: Box<Tree>, exceptions: Option<Box<Tree>>)
                => dict::Dict<'a, T>;
            /// One value in every row.
            11 "const" Const => constant::Const<T>;
            /// Floats as differences from the value 32 positions earlier, in whole bytes.
            12 "gfc" Gfc => gfc::Gfc<'a>;
            /// Rows grouped by key.
            13 "group" Group(child: Box<Tree>) => group::Group<'a, T>;
            /// Differences from the previous value of the same key within a tile. The children are
            /// the differences (residuals) and the first value of each key (heads).
            14 "keyed_delta" KeyedDelta(mode: Mode, residuals: Box<Tree>, heads: Box<Tree>)
                => keyed_delta::KeyedDelta<'a, T>;
            /// As `keyed_delta`, but differences of those differences.
            15 "keyed_delta2" KeyedDelta2(mode: Mode, residuals: Box<Tree>, heads: Box<Tree>)
                => keyed_delta2::KeyedDelta2<'a, T>;
            /// A Huffman code for the magnitude of each value, followed by its low bits.
            16 "huffman" Huffman => huffman::Huffman<'a, 64>;
            /// The most frequent bytes of a chunk as indexes, others unchanged. The parameters are
            /// the entries of a chunk's table and the tiles of a chunk.
            17 "stateless" Stateless(entries: u32, chunk_tiles: u32)
                => stateless::Stateless<'a>;
            /// Codes for strings that occurred earlier in the chunk. Parameter: tiles of a chunk.
            18 "lzw" Lzw(chunk_tiles: u32, codes: Box<Tree>) => lzw::Lzw<'a>;
            /// `huffman` with groups of 256 values.
            19 "huffman_long" HuffmanLong => huffman_long::HuffmanLong<'a>;
        }
    };
}
