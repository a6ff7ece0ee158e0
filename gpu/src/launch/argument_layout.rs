//! The structures that kernels take by value. Build.rs includes this file by path and renders the
//! same table as C++.
//!
//! A field is a list on the device, `(const T)` or `(mut T)`, a value, `(T)`, or N values, `(T;
//! N)`. The compilers of both sides assert sizes and offsets.

use std::marker::PhantomData;

use super::layout::{
    self, Bin, CandidateRow, Cell, CodecKeys, CodecStep, DeviceQuery, DictionarySlot,
    DispatchReport, Edge, Entry, Grid, Lengths, ObjectTime, Optional, Part, Place,
    RequestDescriptor, RowOutcomeCounts, RunColumn, RunZone, Shape, Version,
};

/// The address of values on the device; 0 where there are none.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Pointer<T> {
    pub(super) address: u64,
    values: PhantomData<fn() -> T>,
}

impl<T> Clone for Pointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pointer<T> {}

impl<T> Default for Pointer<T> {
    fn default() -> Self {
        Self::NULL
    }
}

impl<T> Pointer<T> {
    pub(super) const NULL: Self = Self::new(0);

    pub(super) const fn new(address: u64) -> Self {
        Self { address, values: PhantomData }
    }
}

/// A structure, for rendering by build.rs.
#[allow(dead_code, reason = "build.rs reads it")]
pub(super) struct ArgumentLayout {
    /// Its name in C++.
    pub(super) name: &'static str,
    pub(super) bytes: usize,
    /// By field: its declaration in C++, its name, its offset.
    pub(super) fields: &'static [(&'static str, &'static str, usize)],
}

/// The type of a field in Rust.
macro_rules! field_type {
    ((const $type:ty)) => { Pointer<$type> };
    ((mut $type:ty)) => { Pointer<$type> };
    (($type:ty; $length:ident)) => { [$type; layout::$length as usize] };
    (($type:ty)) => { $type };
}

/// The declaration of a field in C++. Build.rs drops `Argument` from names of structures.
macro_rules! declaration {
    ($field:ident (const $type:ty)) => {
        concat!("const ", stringify!($type), "* ", stringify!($field))
    };
    ($field:ident (mut $type:ty)) => {
        concat!(stringify!($type), "* ", stringify!($field))
    };
    ($field:ident ($type:ty; $length:ident)) => {
        concat!(stringify!($type), " ", stringify!($field), "[", stringify!($length), "]")
    };
    ($field:ident ($type:ty)) => {
        concat!(stringify!($type), " ", stringify!($field))
    };
}

macro_rules! argument_layouts {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:tt,)+ }
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default)]
            #[repr(C)]
            pub(crate) struct $name {
                $($(#[$field_doc])* pub(super) $field: field_type!($kind),)+
            }

            const _: () = assert!(
                size_of::<$name>() == 0 $(+ size_of::<field_type!($kind)>())+,
                "an argument has no gaps",
            );
        )+

        /// All structures, each after those that it contains.
        #[allow(dead_code, reason = "build.rs reads it")]
        pub(super) const ARGUMENTS: &[ArgumentLayout] = &[$(
            ArgumentLayout {
                name: stringify!($name),
                bytes: size_of::<$name>(),
                fields: &[$((
                    declaration!($field $kind),
                    stringify!($field),
                    std::mem::offset_of!($name, $field),
                ),)+],
            },
        )+];
    };
}

argument_layouts! {
    /// The requests of a cycle and their bytes.
    InputArgument {
        bytes: (const u8),
        requests: (const RequestDescriptor),
        first_arrivals: (const u32),
        outcomes: (mut RowOutcomeCounts),
    }
    /// Scratch memory of a cycle, by arrival unless said otherwise.
    RowsArgument {
        /// The result of `claim` for the row's object; later kernels replace it by the object's
        /// slot. NO_SLOT for a row that was dropped.
        slots: (mut u32),
        refusals: (mut u8),
        /// By entry of all dictionaries of ids.
        entry_slots: (mut DictionarySlot),
        /// By slot: greatest key of the cycle, 0 between cycles.
        best: (mut u64),
        /// Slots whose place in the grid changes, in no particular order, each once.
        moved: (mut u32),
        /// By slot: the lower bits of the last epoch in which it moved.
        stamps: (mut u32),
        report: (mut DispatchReport),
    }
    /// The state of one fleet, by slot.
    RecordsArgument {
        objects: (mut u64),
        /// Two versions of each slot.
        versions: (mut Version),
        /// Two per slot; null until a row has a measure.
        optional: (mut Optional),
    }
    /// The secondary index.
    IndexArgument {
        places: (mut Place),
        /// Number of places, less than 2^31.
        length: (u32),
        reserved: (u32),
        key: (u64; HASH_KEY_WORDS),
    }
    /// One of the two grids.
    CellsArgument {
        grid: (Grid),
        cells: (mut Cell),
        entries: (mut Entry),
        /// By slot: place among the entries, NO_SLOT for objects that are not in this grid.
        places: (mut u32),
    }
    /// Free entries after those of all cells, for cells that outgrow their entries.
    SpareArgument {
        /// The first free entry.
        first: (mut u64),
        end: (u64),
        /// Objects of a cell on average.
        mean: (f32),
        reserved: (u32),
    }
    /// The cells that outgrew their entries.
    Outgrown {
        count: (u32),
        /// Not 0 if the spare entries did not suffice, so that the grid must be rebuilt.
        failed: (u32),
    }
    /// The slots that moved since the grid was updated: in the previous cycle and in this one.
    MovedArgument {
        before: (const u32),
        now: (const u32),
        /// By slot: the lower bits of the last epoch with the parity of this cycle in which it
        /// moved.
        stamps: (const u32),
        epoch: (u64),
        before_length: (u32),
        /// Number of slots in both lists.
        length: (u32),
    }
    /// The operations on one cell among all operations sorted by (cell, kind).
    Span {
        first: (u32),
        /// Index of the first insertion; deletions come first.
        first_insertion: (u32),
        end: (u32),
        reserved: (u32),
    }
    /// The slabs and edges of all polygons of a cycle.
    PolygonsArgument {
        slabs: (const u32),
        edges: (const Edge),
    }
    /// The view of a cycle's queries: one grid and the records after `epoch`.
    ViewArgument {
        grid: (Grid),
        cells: (const Cell),
        entries: (const Entry),
        records: (RecordsArgument),
        epoch: (u64),
        clock_ms: (i64),
        /// Not 0 if the entries of neighbouring cells of a row are contiguous.
        is_tight: (u32),
        reserved: (u32),
    }
    /// Matches: parallel lists of ids and slots.
    MatchesArgument {
        objects: (mut u64),
        slots: (mut u32),
    }
    /// Lists of the queries with medium and long answers.
    AnswerListsArgument {
        lengths: (mut Lengths),
        medium_queries: (mut u32),
        /// Queries that a block sorts from the front, longer ones from the back.
        long_queries: (mut u32),
    }
    /// The queries of a cycle as parts and, for some kernels, as candidate rows.
    QueriesArgument {
        parts: (const Part),
        shapes: (const Shape),
        polygons: (PolygonsArgument),
        candidate_rows: (const CandidateRow),
        /// Number of candidate rows.
        length: (u32),
        reserved: (u32),
    }
    /// A table of bins: the cells that regions intersect.
    BinsArgument {
        bins: (const Bin),
        references: (const u32),
        /// The number of bins, a power of two, minus one.
        mask: (u32),
        /// A bit for each level with regions.
        levels: (u32),
        key: (u64; HASH_KEY_WORDS),
    }
    /// A table of bins under construction.
    NewBinsArgument {
        bins: (mut Bin),
        references: (mut u32),
        mask: (u32),
        /// Most bins in use; if more are needed, the table must grow.
        most: (u32),
        key: (u64; HASH_KEY_WORDS),
    }
    /// The regions of all continuous queries, by number.
    RegionsArgument {
        queries: (const DeviceQuery),
        shapes: (const Shape),
        polygons: (PolygonsArgument),
    }
    /// The input of event evaluation.
    SceneArgument {
        base: (BinsArgument),
        recent: (BinsArgument),
        regions: (RegionsArgument),
        records: (RecordsArgument),
        epoch: (u64),
        /// Objects with rows or removals, or that the cycle ended; ascending, with repetitions.
        objects: (const u64),
        slots: (const u32),
        length: (u32),
        reserved: (u32),
    }
    /// By slot: the box of its object's positions in the cycle, for regions that evaluate every
    /// fix.
    TrajectoriesArgument {
        boxes: (mut u32),
        /// If the columns of two positions are further apart than this, the path across the
        /// antimeridian may be shorter.
        turn: (u32),
        reserved: (u32),
    }
    /// Shared by all launches that decode.
    CodecArgument {
        /// The blocks.
        input: (const u8),
        /// Decoded columns, dictionaries, orders.
        output: (mut u8),
        steps: (const CodecStep),
        /// By request or column, `stride` words apart: not 0 if it failed.
        failed: (mut u32),
        stride: (u32),
        reserved: (u32),
    }
    /// Shared by all key columns of a launch.
    GroupingArgument {
        /// Places of keys that remain in the input count from here; places of decoded keys from
        /// `output`.
        input: (const u8),
        output: (mut u8),
        keys: (const CodecKeys),
        length: (u32),
        reserved: (u32),
    }
    /// A hash table of different values.
    TableArgument {
        /// `slots` values (a power of two) and one more; `codes` has the code of each value.
        keys: (mut u64),
        codes: (mut u32),
        /// Three numbers: the number of claimed values; 1 if there were too many; 1 if the pattern
        /// of free places is a value.
        found: (mut u32),
        slots: (u32),
        /// Greatest number of distinct values.
        limit: (u32),
    }
    /// Places of sections. Sections of words each have a directory; other sections are copied as
    /// bytes. Zeros pad a section to a multiple of its alignment. If `totals` is set, each section
    /// is shifted by the words counted before it.
    SectionPlacesArgument {
        totals: (u64),
        directories: (u64; ENCODE_SECTIONS),
        words: (u64; ENCODE_SECTIONS),
        from: (u64; ENCODE_COPIES),
        to: (u64; ENCODE_COPIES),
        bytes: (u64; ENCODE_COPIES),
        /// Words of the section that the warp of each tile copies.
        shares: (u32; ENCODE_COPIES),
        /// Number of sections of words before the section.
        behind: (u32; ENCODE_COPIES),
        sections: (u32),
        copies: (u32),
    }
    /// A tree over sorted keys; `kernels/index/search.cuh` has the order of its nodes.
    KeyTreeArgument {
        inner: (mut u8),
        leaves: (mut u8),
        /// By place.
        values: (mut u32),
        /// By leaf: its number of keys.
        lengths: (mut u32),
        /// By level: the number of its first node.
        firsts: (u32; INDEX_LEVELS),
        levels: (u32),
        leaf_count: (u32),
    }
    /// A run of past fixes.
    RunArgument {
        /// By tile: time, x, y and the attributes.
        columns: (const RunColumn),
        /// By tile.
        zones: (const RunZone),
        rows: (u32),
        tiles: (u32),
        /// Number of columns of a tile.
        kinds: (u32),
        reserved: (u32),
    }
    /// The heads of a run: the first row of each object in each tile. They ascend by object and
    /// time.
    RunHeadsArgument {
        keys: (const ObjectTime),
        rows: (const u32),
        /// By head: the row after the last one of its object in the tile.
        ends: (const u32),
        length: (u32),
        reserved: (u32),
    }
    /// States of objects: parallel lists.
    StatesArgument {
        objects: (mut u64),
        /// The columns of a run one after the other, `capacity` values each; times count from the
        /// start of the partition.
        values: (mut u32),
        capacity: (u32),
        reserved: (u32),
    }
}
