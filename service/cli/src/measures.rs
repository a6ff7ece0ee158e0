//! The measures of a fix on the command line: flags of a report, ranges of a filter, and columns of
//! the table of an answer.

use clap::Args;
use shoal_client::v1;

use super::output::OutputColumn;
use super::values::interval;

/// A measure as a column of a GeoParquet file.
pub(super) struct Measure {
    /// Name of its column.
    pub(super) name: &'static str,
    /// Its value in a record.
    pub(super) of: fn(&v1::FixRecord) -> Option<f64>,
}

macro_rules! measures {
    ($(
        $flag:ident in $unit:literal $detail:literal, $api:ident: $type:ty as $value_name:literal,
        range $range_detail:literal, $title:literal to $decimals:literal;
    )+) => {
        /// The measures of one position.
        #[derive(Args, Clone, Copy, Debug)]
        pub(crate) struct MeasureArgs {
            $(
                #[arg(
                    long,
                    help = concat!($unit, $detail),
                    value_name = $value_name,
                    allow_hyphen_values = true,
                    requires = "x"
                )]
                $flag: Option<$type>,
            )+
        }

        impl MeasureArgs {
            /// A fix that has only these measures.
            pub(super) fn fix(self) -> v1::Fix {
                v1::Fix { $($api: self.$flag,)+ ..v1::Fix::default() }
            }
        }

        /// Ranges of measures.
        #[derive(Args, Clone, Copy, Debug)]
        pub(crate) struct MeasureRanges {
            $(
                #[arg(
                    long,
                    help = concat!($unit, $range_detail),
                    value_name = "FROM..TO",
                    allow_hyphen_values = true,
                    value_parser = interval
                )]
                $flag: Option<v1::Interval>,
            )+
        }

        impl MeasureRanges {
            /// A filter that has only these ranges.
            pub(super) fn filter(self) -> v1::Filter {
                v1::Filter { $($api: self.$flag,)+ ..v1::Filter::default() }
            }
        }

        /// The measures in files of columns.
        pub(super) const MEASURES: &[Measure] = &[$(Measure {
            name: stringify!($flag),
            of: |record| record.$api,
        },)+];

        /// The measures in a table.
        pub(super) const MEASURE_COLUMNS: &[OutputColumn] = &[$(($title, |row, _| {
            row.fix.as_ref()?.$api.map(|value| format!("{value:.*}", $decimals))
        }),)+];
    };
}

measures! {
    speed in "Speed in metres per second" "", speed_mps: f32 as "M_S",
        range "", "speed m/s" to 3;
    heading in "Heading in degrees clockwise from north" ", below 360", heading_deg: f32 as "DEG",
        range "; 350..10 passes through north", "heading °" to 2;
    altitude in "Altitude in metres" "", altitude_m: f64 as "M",
        range "", "altitude m" to 3;
    valid_s in "How long the position is valid after its time, in seconds" "", valid_s: f64 as "S",
        range "", "valid s" to 3;
}
