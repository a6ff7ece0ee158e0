//! Host and device agree on every offset of shared records.
//!
//! The build asserts this at compile time; this test asks the device.

use shoal_engine::layout::RECORD_LISTS;

use super::bench::Bench;
use super::probe::Probe;

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn every_record_lies_as_on_the_host() {
    let bench = Bench::new();
    let seen = Probe::load(&bench).layout(&bench);
    let mut numbers = seen.iter().map(|number| *number as usize);
    let mut next = |what: &str| numbers.next().unwrap_or_else(|| panic!("{what} is missing"));
    for record in RECORD_LISTS.into_iter().flatten() {
        let name = record.name;
        assert_eq!(next(name), record.bytes, "size of {name}");
        let align = [16, 8].into_iter().find(|align| record.bytes.is_multiple_of(*align));
        // Loaded 16 bytes at a time if possible.
        assert_eq!(next(name), align.unwrap_or(4), "alignment of {name}");
        for (field, _, offset) in record.fields {
            assert_eq!(next(field), *offset, "offset of {name}.{field}");
        }
    }
    assert_eq!(numbers.next(), None, "the device knows a field that the host does not");
}
