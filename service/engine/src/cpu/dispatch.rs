//! Stage `dispatch`: decodes and validates the rows of a cycle and routes them to the shards of
//! their objects.
//!
//! The cycle is split into lanes, runs of some thousand arrivals, that are routed in parallel. A
//! lane keeps one list per shard, so a shard that reads the lanes in order sees its rows in order
//! of arrival. If a block fails to decode, the cycle is routed again without it, because the state
//! is not modified yet.

use std::ops::Range;

use shoal_codec::{Attributes, Block, BlockError, FixColumns, FixRow};

use super::index::ObjectHash;
use super::parallel;
use super::record::RoutedRow;
use super::shard::SHARDS;
use crate::cycle::{Refusal, Request};
use crate::stage::dispatch::RowValidator;

/// Maximum number of arrivals of one lane. Its 64 lists then have some 256 rows each and take half
/// a megabyte.
const LANE_ROWS: usize = 1 << 14;
/// Raw rows decoded at a time, so that they are validated while they are in the nearest cache.
const DECODE_ROWS: usize = 1 << 11;
/// Least number of encoded rows decoded at a time, because each decoding opens the trees and
/// dictionaries again.
const DECODE_ENCODED_ROWS: usize = 1 << 13;

/// Some rows of one request.
#[derive(Debug)]
struct Part {
    request: usize,
    rows: Range<usize>,
    arrival: u32,
}

/// One run of arrivals and its routed rows.
#[derive(Debug, Default)]
pub(super) struct Lane {
    parts: Vec<Part>,
    /// The request of a `Clear` that precedes this lane's rows.
    pub(super) clear: Option<usize>,
    pub(super) first_arrival: u32,
    /// Accepted rows and removals, per shard.
    pub(super) routed: Vec<Vec<RoutedRow>>,
    /// Element `i` belongs to arrival `first_arrival + i`; rows past the end have no attributes.
    attributes: Vec<Attributes>,
    /// Refused rows by arrival.
    pub(super) refused: Vec<(u32, Refusal)>,
    failed: Vec<(usize, BlockError)>,
    time_max_ms: Option<i64>,
    decoded: FixColumns,
}

/// The validator and the other values that routing reads.
pub(super) struct Router {
    pub(super) validator: RowValidator,
    pub(super) hash: ObjectHash,
}

/// The rows of a cycle on their way to the shards; buffers live from cycle to cycle.
#[derive(Debug, Default)]
pub(super) struct Dispatch {
    lanes: Vec<Lane>,
    used: usize,
    /// Blocks that failed while decoding, by request.
    pub(super) failed: Vec<(usize, BlockError)>,
}

impl Dispatch {
    /// Routes all requests; afterwards lanes, refusals and failures can be read.
    pub(super) fn route(&mut self, router: &Router, requests: &[Request]) {
        self.failed.clear();
        loop {
            let size = self.plan(requests);
            parallel::for_each_mut(&mut self.lanes[..self.used], size, |_, lane| {
                lane.route(router, requests);
            });
            let before = self.failed.len();
            for lane in &mut self.lanes[..self.used] {
                self.failed.append(&mut lane.failed);
            }
            self.failed.sort_by_key(|(request, _)| *request);
            self.failed.dedup_by_key(|(request, _)| *request);
            if self.failed.len() == before {
                return;
            }
        }
    }

    /// Removes the routed rows with these arrivals, which ascend, and lists them as refused by the
    /// object limit.
    pub(super) fn refuse(&mut self, arrivals: &[u32]) {
        if !arrivals.is_empty() {
            let size = self.rows();
            parallel::for_each_mut(&mut self.lanes[..self.used], size, |_, lane| {
                lane.refuse(arrivals);
            });
        }
    }

    /// Accepted rows and removals.
    pub(super) fn rows(&self) -> usize {
        self.lanes().iter().flat_map(|lane| &lane.routed).map(Vec::len).sum()
    }

    /// The lanes of this cycle, in order of arrival.
    pub(super) fn lanes(&self) -> &[Lane] {
        &self.lanes[..self.used]
    }

    /// The greatest event time that was not refused.
    pub(super) fn time_max_ms(&self) -> Option<i64> {
        self.lanes().iter().filter_map(|lane| lane.time_max_ms).max()
    }

    /// The arrivals of the rows that were not refused and are later than a time. Reads only lanes
    /// that have such a row.
    pub(super) fn arrivals_after(&self, time_ms: i64) -> impl Iterator<Item = u32> {
        let lanes = self.lanes().iter().filter(move |lane| lane.time_max_ms > Some(time_ms));
        let rows = lanes.flat_map(|lane| lane.routed.iter().flatten());
        rows.filter(move |row| !row.is_removal() && row.time_ms() > time_ms)
            .map(|row| row.arrival())
    }

    pub(super) fn has_attributes(&self) -> bool {
        self.lanes().iter().any(|lane| !lane.attributes.is_empty())
    }

    /// The attributes of a row by arrival.
    pub(super) fn attributes(&self, arrival: u32) -> Attributes {
        let lanes = self.lanes();
        let lane = &lanes[lanes.partition_point(|lane| lane.first_arrival <= arrival) - 1];
        let at = (arrival - lane.first_arrival) as usize;
        lane.attributes.get(at).copied().unwrap_or(Attributes::UNKNOWN)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lanes.iter().map(Lane::memory_bytes).sum()
    }

    /// Drops unused lanes beyond the first `lanes_max`, which a large cycle left behind.
    pub(super) fn shrink(&mut self, lanes_max: usize) {
        self.lanes.truncate(lanes_max.max(self.used));
    }

    /// Splits the requests into lanes; returns the number of rows. A new lane starts when the
    /// current one is full and at each `Clear`.
    fn plan(&mut self, requests: &[Request]) -> usize {
        self.used = 0;
        let mut arrival = 0;
        let mut capacity = 0;
        for (request, change) in requests.iter().enumerate() {
            if matches!(change, Request::Clear) {
                self.begin_lane(arrival, Some(request));
                capacity = LANE_ROWS;
            }
            let skip = self.failed.iter().any(|(failed, _)| *failed == request);
            let mut row = 0;
            while row < change.rows() {
                if capacity == 0 {
                    self.begin_lane(arrival, None);
                    capacity = LANE_ROWS;
                }
                let rows = row..change.rows().min(row + rows_taken(change, capacity));
                capacity = capacity.saturating_sub(rows.len());
                row = rows.end;
                let count = rows.len() as u32;
                if !skip {
                    self.lanes[self.used - 1].parts.push(Part { request, rows, arrival });
                }
                arrival += count;
            }
        }
        arrival as usize
    }

    fn begin_lane(&mut self, first_arrival: u32, clear: Option<usize>) {
        if self.used == self.lanes.len() {
            self.lanes.push(Lane::default());
        }
        let lane = &mut self.lanes[self.used];
        lane.begin(first_arrival, clear);
        self.used += 1;
    }
}

/// Number of rows of a request for a lane with this remaining capacity. For a block it is a
/// multiple of the grain and at least one grain, even beyond the capacity, so that no row is
/// decoded twice.
fn rows_taken(change: &Request, capacity: usize) -> usize {
    match change {
        Request::Block(block) => (capacity / block.grain_rows()).max(1) * block.grain_rows(),
        _ => capacity,
    }
}

/// Rows of a block that are decoded at a time.
fn rows_decoded(block: &Block) -> usize {
    match block.grain_rows() {
        1 => DECODE_ROWS,
        grain_rows => grain_rows.max(DECODE_ENCODED_ROWS),
    }
}

impl Lane {
    fn begin(&mut self, first_arrival: u32, clear: Option<usize>) {
        self.parts.clear();
        self.clear = clear;
        self.first_arrival = first_arrival;
        self.routed.resize_with(SHARDS, Vec::new);
        self.routed.iter_mut().for_each(Vec::clear);
        self.attributes.clear();
        self.refused.clear();
        self.failed.clear();
        self.time_max_ms = None;
    }

    fn memory_bytes(&self) -> usize {
        let routed: usize = self.routed.iter().map(Vec::capacity).sum();
        routed * size_of::<RoutedRow>()
            + self.attributes.capacity() * size_of::<Attributes>()
            + self.refused.capacity() * size_of::<(u32, Refusal)>()
            + self.decoded.object.capacity() * size_of::<FixRow>()
    }

    fn route(&mut self, router: &Router, requests: &[Request]) {
        let parts = std::mem::take(&mut self.parts);
        for part in &parts {
            match &requests[part.request] {
                Request::Fixes(columns) => {
                    self.route_columns(router, columns, part.rows.clone(), part.arrival);
                }
                Request::Block(block) => {
                    let mut decoded = std::mem::take(&mut self.decoded);
                    let step = rows_decoded(block);
                    for first in part.rows.clone().step_by(step) {
                        let rows = first..part.rows.end.min(first + step);
                        if let Err(error) = block.decode_rows(rows, &mut decoded) {
                            self.failed.push((part.request, error));
                            break;
                        }
                        let arrival = part.arrival + (first - part.rows.start) as u32;
                        self.route_columns(router, &decoded, 0..decoded.len(), arrival);
                    }
                    self.decoded = decoded;
                }
                Request::Remove(objects) => {
                    for (object, arrival) in objects[part.rows.clone()].iter().zip(part.arrival..) {
                        let (shard, hash) = router.hash.shard_and_hash(*object);
                        self.routed[shard].push(RoutedRow::removal(*object, hash, arrival));
                    }
                }
                Request::Clear | Request::Rewind => {}
            }
        }
        self.parts = parts;
    }

    /// As [`Dispatch::refuse`].
    fn refuse(&mut self, arrivals: &[u32]) {
        let refused = &mut self.refused;
        let mut time_max_ms = None;
        for rows in &mut self.routed {
            rows.retain(|row| {
                if arrivals.binary_search(&row.arrival()).is_ok() {
                    refused.push((row.arrival(), Refusal::ObjectLimit));
                    return false;
                }
                if !row.is_removal() {
                    time_max_ms = time_max_ms.max(Some(row.time_ms()));
                }
                true
            });
        }
        refused.sort_unstable();
        self.time_max_ms = time_max_ms;
    }

    fn route_columns(
        &mut self,
        router: &Router,
        columns: &FixColumns,
        rows: Range<usize>,
        arrival: u32,
    ) {
        let has_attributes = columns.has_attributes();
        if has_attributes {
            let known = (arrival - self.first_arrival) as usize;
            self.attributes.resize(known, Attributes::UNKNOWN);
        }
        let mut time_max_ms = self.time_max_ms.unwrap_or(i64::MIN);
        let object = &columns.object[rows.clone()];
        let time_ms = &columns.time_ms[rows.clone()];
        let (x, y) = (&columns.x[rows.clone()], &columns.y[rows.clone()]);
        for at in 0..rows.len() {
            let (object, time_ms, x, y) = (object[at], time_ms[at], x[at], y[at]);
            let arrival = arrival + at as u32;
            let mut refusal = router.validator.validate(object, time_ms, x, y);
            if has_attributes {
                let attributes = columns.attributes(rows.start + at);
                self.attributes.push(attributes);
                refusal = refusal.or_else(|| router.validator.validate_attributes(&attributes));
            }
            if let Some(reason) = refusal {
                self.refused.push((arrival, reason));
                continue;
            }
            time_max_ms = time_max_ms.max(time_ms);
            let (shard, hash) = router.hash.shard_and_hash(object);
            let state = columns.state.as_ref().map_or(0, |state| state[rows.start + at]);
            let time_and_arrival = RoutedRow::time_and_arrival(time_ms, arrival);
            let row = RoutedRow { object, time_and_arrival, x, y, state, hash };
            self.routed[shard].push(row);
        }
        self.time_max_ms = (time_max_ms != i64::MIN).then_some(time_max_ms);
    }
}
