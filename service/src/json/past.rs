//! Headers of answers about the past.

use schemars::JsonSchema;
use serde::Serialize;
use shoal_client::v1;

use crate::timestamp::rfc3339;

/// Which version of the history an answer shows. Terms are strings, as in other documents.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PastHeader")]
pub struct PastHeaderJson {
    fleet: String,
    term: String,
    epoch: u64,
    clock_ms: i64,
    clock: String,
    kept_from_ms: Option<i64>,
    gaps: Vec<GapJson>,
}

impl From<&v1::HistoryHeader> for PastHeaderJson {
    fn from(header: &v1::HistoryHeader) -> Self {
        Self {
            fleet: header.fleet.clone(),
            term: header.term.to_string(),
            epoch: header.epoch,
            clock_ms: header.clock_ms,
            clock: rfc3339(header.clock_ms),
            kept_from_ms: header.kept_from_ms,
            gaps: header.gaps.iter().map(GapJson::from).collect(),
        }
    }
}

/// Cycles that a history does not have.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PastGap")]
pub struct GapJson {
    first_epoch: u64,
    last_epoch: u64,
    from_ms: Option<i64>,
    to_ms: i64,
}

impl From<&v1::HistoryGap> for GapJson {
    fn from(gap: &v1::HistoryGap) -> Self {
        let v1::HistoryGap { first_epoch, last_epoch, from_ms, to_ms } = *gap;
        Self { first_epoch, last_epoch, from_ms, to_ms }
    }
}
