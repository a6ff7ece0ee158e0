//! The batch numbers of producers, so that a retry after a crash is not applied twice.

use crate::error::LogError;
use crate::limits::{PRODUCER_BYTES_MAX, PRODUCER_OPEN_MAX};
use crate::wire::u64_at;

/// The batch numbers of one producer while none of its batches is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its name.
    pub producer: String,
    /// The greatest number applied or open.
    pub greatest: u64,
    /// Numbers up to `greatest` whose batches failed and are not applied, ascending.
    pub open: Vec<u64>,
}

/// Bytes before a producer's open numbers and name.
const ENTRY_BYTES: usize = 16;

/// Appends a producer to a section.
pub(super) fn encode_producer(state: &ProducerState, out: &mut Vec<u8>) -> Result<(), LogError> {
    let (name, open) = (state.producer.len(), state.open.len());
    if name == 0 || name > PRODUCER_BYTES_MAX || open > PRODUCER_OPEN_MAX {
        return Err(LogError::Input(format!(
            "a producer with a name of {name} bytes and {open} open numbers; the limits are \
             {PRODUCER_BYTES_MAX} and {PRODUCER_OPEN_MAX}"
        )));
    }
    out.extend_from_slice(&[name as u8, open as u8, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&state.greatest.to_le_bytes());
    for number in &state.open {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(state.producer.as_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
    Ok(())
}

/// Iterates over the producers of a section. Ends after an error.
pub fn decode_producers(section: &[u8]) -> impl Iterator<Item = Result<ProducerState, String>> {
    let mut rest = section;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let decoded = decode_producer(rest);
        rest = decoded.as_ref().map_or(&[], |(_, bytes)| &rest[*bytes..]);
        Some(decoded.map(|(state, _)| state))
    })
}

fn decode_producer(bytes: &[u8]) -> Result<(ProducerState, usize), String> {
    let beyond = || "a producer exceeds its section".to_owned();
    if bytes.len() < ENTRY_BYTES {
        return Err(beyond());
    }
    let (name_bytes, open) = (usize::from(bytes[0]), usize::from(bytes[1]));
    let name_at = ENTRY_BYTES + open * 8;
    let end = (name_at + name_bytes).next_multiple_of(8);
    if bytes.len() < end {
        return Err(beyond());
    }
    let producer = std::str::from_utf8(&bytes[name_at..name_at + name_bytes]);
    let producer = producer.map_err(|_| "a producer's name is not UTF-8")?.to_owned();
    let greatest = u64_at(bytes, 8);
    let open: Vec<u64> = (0..open).map(|index| u64_at(bytes, ENTRY_BYTES + index * 8)).collect();
    let is_valid = open.is_sorted_by(|a, b| a < b) && open.last().is_none_or(|&n| n <= greatest);
    if producer.is_empty() || name_bytes > PRODUCER_BYTES_MAX || !is_valid {
        return Err(format!("the numbers of producer {producer:?} are not valid"));
    }
    Ok((ProducerState { producer, greatest, open }, end))
}
