//! Values defined by their bytes alone.

use shoal_engine::layout;

/// A value without padding, pointers or invalid bit patterns.
///
/// # Safety
/// Every byte of a value is initialised, and any bytes are a value.
pub(crate) unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($name:ty),+) => {
        $(
            // SAFETY: integers and floats, alone or in a record that is asserted to have no gaps.
            unsafe impl Plain for $name {}
        )+
    };
}

plain!(
    u8,
    u16,
    u32,
    u64,
    i32,
    i64,
    layout::Entry,
    layout::Version,
    layout::Optional,
    layout::Place,
    layout::RequestDescriptor,
    layout::AdmissionRequest,
    layout::DictionarySlot,
    layout::RowOutcomeCounts,
    layout::DispatchReport,
    layout::Cell,
    layout::Part,
    layout::CandidateRow,
    layout::Lengths,
    layout::Shape,
    layout::Edge,
    layout::AnswerRecord,
    layout::DeviceQuery,
    layout::Bin,
    layout::WrittenObjects,
    layout::EventCounts,
    layout::RegionHead,
    layout::CodecStep,
    layout::CodecColumn,
    layout::CodecOpen,
    layout::CodecKeys,
    layout::CodecScatter,
    layout::CodecStrings,
    layout::CodecRange,
    layout::EncodeStep,
    layout::RunColumn,
    layout::RunInput,
    layout::RunZone,
    shoal_history::ObjectTime,
    super::argument_layout::Span,
    super::argument_layout::Outgrown
);

// The pairs of the tree have the layout of the kernels' record.
const _: () = {
    use std::mem::offset_of;
    type Record = layout::ObjectTime;
    type Pair = shoal_history::ObjectTime;
    assert!(size_of::<Pair>() == size_of::<Record>());
    assert!(offset_of!(Pair, object) == offset_of!(Record, object));
    assert!(offset_of!(Pair, time) == offset_of!(Record, time));
};

/// The bytes of some values.
pub(crate) fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: plain values have no uninitialised bytes, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
