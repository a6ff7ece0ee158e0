//! The header of an answer, and its rows.
//!
//! Ids and terms are strings, because JavaScript and jq round 64-bit numbers. Every row has the
//! same keys; unknown attributes are null.

use schemars::JsonSchema;
use serde::Serialize;
use shoal_client::{AnswerRow, v1};

use crate::timestamp::rfc3339;

/// Where and when an answer holds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Header")]
pub struct HeaderJson {
    fleet: String,
    term: String,
    epoch: u64,
    clock_ms: i64,
    clock: String,
    staleness_epochs: u64,
    total: u64,
    truncated: bool,
}

impl From<&v1::AnswerHeader> for HeaderJson {
    fn from(header: &v1::AnswerHeader) -> Self {
        Self {
            fleet: header.fleet.clone(),
            term: header.term.to_string(),
            epoch: header.epoch,
            clock_ms: header.clock_ms,
            clock: rfc3339(header.clock_ms),
            staleness_epochs: header.staleness_epochs,
            total: header.total,
            truncated: header.truncated,
        }
    }
}

/// One object, with the keys of its record if the answer has records.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AnsweredRow")]
pub struct RowJson {
    /// The object as its fleet identifies it: its name or its number.
    object: String,
    /// The number of an object that has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance_m: Option<f64>,
    #[serde(flatten)]
    record: Option<RecordJson>,
}

macro_rules! render {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        #[derive(Clone, Debug, Serialize, JsonSchema)]
        struct RecordJson {
            time_ms: i64,
            time: String,
            age_ms: i64,
            x: f64,
            y: f64,
            $($api: Option<f64>,)+
            state: u32,
        }

        impl RecordJson {
            fn new(fix: &v1::FixRecord, clock_ms: i64) -> Self {
                Self {
                    time_ms: fix.time_ms,
                    time: rfc3339(fix.time_ms),
                    age_ms: clock_ms.saturating_sub(fix.time_ms),
                    x: fix.x,
                    y: fix.y,
                    $($api: fix.$api,)+
                    state: fix.state,
                }
            }
        }
    };
}

shoal_codec::measures!(render);

impl RowJson {
    /// Converts `row`; its age is the answer's clock minus its time.
    #[must_use]
    pub fn new(row: &AnswerRow, clock_ms: i64) -> Self {
        Self {
            object: row.label().into_owned(),
            number: row.name.is_some().then(|| row.object.to_string()),
            distance_m: row.distance_m,
            record: row.fix.as_ref().map(|fix| RecordJson::new(fix, clock_ms)),
        }
    }
}
