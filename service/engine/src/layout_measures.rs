//! Records with the measures of a fix, rendered from their table; a part of `layout.rs`.
//!
//! The build of the GPU package includes it by path.

use super::RecordLayout;

#[path = "../../codec/src/measure_table.rs"]
#[macro_use]
mod measure_table;

/// One measure, for rendering.
#[derive(Clone, Copy, Debug)]
pub struct MeasureLayout {
    /// Name of its field in records.
    pub field: &'static str,
    /// Element type of its column.
    pub column_type: &'static str,
    /// Name of the field of a request that holds the offset of its column.
    pub at: &'static str,
    /// Names of the fields of a shape that hold the least and greatest value that pass.
    pub range: [&'static str; 2],
    /// Name of the column, and of the reason for which its values are refused.
    pub column: &'static str,
    /// Unknown, least and greatest value.
    pub values: [i64; 3],
    /// True if a range whose start exceeds its end wraps around through the least value.
    pub is_circular: bool,
}

macro_rules! measured {
    ($($column:ident $field:ident: $type:ident, $api:ident: $api_type:ident, $number:ident {
        [$word:ident $at:ident $min:ident $max:ident]
        $unknown:ident, $least:expr, $greatest:expr, $per_unit:literal,
        is_circular: $circular:literal
    };)+) => {
        records! { MEASURED_RECORDS:
            /// Optional values of one version; an absent one has the measure's unknown value.
            Optional { $($field: $word,)+ }

            /// One request of a cycle; offsets count bytes from the start of the cycle's input.
            RequestDescriptor {
                /// Ids by row; with a dictionary of ids, their 16-bit codes.
                object_at: u64,
                time_at: u64,
                x_at: u64,
                y_at: u64,
                $($at: u64,)+
                state_at: u64,
                /// Ids of a dictionary.
                entries_at: u64,
                /// By row, 16 bits: its position within its segment in columns in grouped order.
                places_at: u64,
                base_ms: i64,
                first_arrival: u32,
                rows: u32,
                kind: u32,
                /// For a block: the range of its time offsets; its box follows.
                time_min: u32,
                time_max: u32,
                x_min: i32,
                x_max: i32,
                y_min: i32,
                y_max: i32,
                /// 1 if decoding checks the rows against the ranges above.
                is_decoded: u32,
                /// Index of its first entry in the concatenated dictionaries of all requests.
                first_entry: u32,
                /// Entries of the dictionary of ids, at most the number of rows; 0 without one.
                entries: u32,
                /// Columns in grouped order, by `GROUPED_` bits.
                grouped: u32,
                reserved: u32,
            }

            /// The record of an object in answers and events.
            AnswerRecord {
                object: u64,
                time_ms: i64,
                x: i32,
                y: i32,
                $($field: $word,)+
                state: u32,
                /// 1 when the object exists.
                found: u32,
                reserved: u32,
                reserved_too: u32,
            }

            /// A region and a filter, against which the candidates of a cover are tested.
            Shape {
                /// Centre of a geographic circle.
                vector_x: f64,
                vector_y: f64,
                vector_z: f64,
                rank_max: u64,
                age_max_ms: i64,
                object_after: u64,
                /// Centre of a planar circle; box of a polygon.
                x: i32,
                y: i32,
                x_max: i32,
                y_max: i32,
                kind: u32,
                /// For a polygon: indices of its first slab boundary and of its first edge.
                slabs_at: u32,
                edges_at: u32,
                slab_shift: u32,
                filter: u32,
                state_mask: u32,
                state_value: u32,
                $($min: $word, $max: $word,)+
                reserved: u32,
                reserved_too: u64,
            }
        }

        /// All measures, in the order of their table.
        pub const MEASURES: &[MeasureLayout] = &[$(MeasureLayout {
            field: stringify!($field),
            column_type: stringify!($type),
            at: stringify!($at),
            range: [stringify!($min), stringify!($max)],
            column: stringify!($column),
            values: [
                if $type::MIN as i64 == 0 { $type::MAX as i64 } else { $type::MIN as i64 },
                { const LEAST: $type = $least; LEAST as i64 },
                { const GREATEST: $type = $greatest; GREATEST as i64 },
            ],
            is_circular: $circular,
        },)+];
    };
}

measures!(measured);
