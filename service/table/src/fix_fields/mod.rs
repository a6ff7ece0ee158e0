//! The fields of fixes in files of other programs: which column has which field, and how its
//! values are read. Independent of the format of the file.

mod column_choice;
mod dropped_measures;
mod fix_field;
mod fix_file_options;
mod measure_reader;
mod object_reader;
mod time_reader;
mod units;

pub use column_choice::{ChosenColumn, ColumnChoice, ColumnsFault};
pub use dropped_measures::DroppedMeasures;
pub use fix_field::FixField;
pub use fix_file_options::{ColumnOverride, FixFileOptions, TimeDefault};
pub use measure_reader::{MeasureReader, NotANumber, RowMeasures, measure_text, state_bits};
pub(crate) use measure_reader::{measure_text_of, real};
pub(crate) use object_reader::short_number;
pub use object_reader::{object_default_note, object_number};
pub use time_reader::TimeReader;
pub use units::{AltitudeUnit, SpeedUnit, TimeUnit};
