//! The number of a region in a document.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::param::object_number;

/// A region's number, as digits in a string or as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionId(pub(super) u64);

impl<'de> Deserialize<'de> for RegionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = RegionId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a region: a whole number below 2^64, or a string of its digits")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<RegionId, E> {
                Ok(RegionId(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RegionId, E> {
                let number = object_number(text).map(RegionId);
                number.map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Digits)
    }
}

impl JsonSchema for RegionId {
    fn schema_name() -> Cow<'static, str> {
        "RegionId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A region: a whole number below 2^64, or a string of its digits.",
            "anyOf": [
                { "type": "string", "pattern": "^[0-9]{1,20}$" },
                { "type": "integer", "minimum": 0, "maximum": u64::MAX }
            ]
        })
    }
}
