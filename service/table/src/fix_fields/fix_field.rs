//! The fields of a fix, and the names that columns with them have.

use std::fmt;
use std::str::FromStr;

/// A field of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixField {
    /// The object.
    Object,
    /// The event time.
    Time,
    /// The longitude, or the first coordinate of a plane.
    X,
    /// The latitude, or the second coordinate of a plane.
    Y,
    /// The speed.
    Speed,
    /// The direction of motion.
    Heading,
    /// The altitude.
    Altitude,
    /// The state bits.
    State,
    /// How long the fix is valid.
    Validity,
}

/// Names of columns, from the most to the least specific: of several columns with names of one
/// field the first in this order is read. Names are compared without case and without characters
/// other than letters and digits.
const NAMES: [(FixField, &str, &[&str]); FixField::COUNT] = [
    (
        FixField::Object,
        "object",
        &[
            "objectid",
            "vehicleid",
            "mmsi",
            "icao24",
            "icao",
            "imei",
            "deviceid",
            "trackerid",
            "assetid",
            "taxiid",
            "busid",
            "shipid",
            "vesselid",
            "aircraftid",
            "flightid",
            "driverid",
            "userid",
            "individuallocalidentifier",
            "tagid",
            "trackid",
            "tid",
            "objid",
            "oid",
            "uid",
            "uuid",
            "id",
            "object",
            "vehicle",
            "device",
            "tracker",
            "asset",
            "taxi",
            "bus",
            "ship",
            "vessel",
            "aircraft",
            "hex",
            "modes",
        ],
    ),
    (
        FixField::Time,
        "time",
        &[
            "t",
            "time",
            "timestamp",
            "datetime",
            "basedatetime",
            "dateandtime",
            "eventtime",
            "fixtime",
            "gpstime",
            "gpstimestamp",
            "positiontime",
            "timeposition",
            "positiontimestamp",
            "devicetime",
            "recordedat",
            "recordedattime",
            "timestamputc",
            "timeutc",
            "datetimeutc",
            "utc",
            "utctime",
            "utctimestamp",
            "unixtime",
            "unixtimestamp",
            "unix",
            "epoch",
            "epochtime",
            "ts",
            "tst",
            "dt",
            "datetimeoriginal",
            "lastcontact",
            "servertime",
            "createdat",
            "date",
        ],
    ),
    (
        FixField::X,
        "x",
        &[
            "lon",
            "longitude",
            "lng",
            "long",
            "gpslongitude",
            "gpslon",
            "gpslng",
            "gpslong",
            "locationlongitude",
            "locationlong",
            "locationlon",
            "locationlng",
            "positionlongitude",
            "positionlong",
            "positionlon",
            "positionlng",
            "geolongitude",
            "geolon",
            "geolng",
            "geolong",
            "poslon",
            "poslng",
            "poslong",
            "lastlon",
            "lastlng",
            "lastlong",
            "decimallongitude",
            "longitudewgs84",
            "x",
            "xcoord",
            "xcoordinate",
            "pointx",
        ],
    ),
    (
        FixField::Y,
        "y",
        &[
            "lat",
            "latitude",
            "gpslatitude",
            "gpslat",
            "locationlatitude",
            "locationlat",
            "positionlatitude",
            "positionlat",
            "geolatitude",
            "geolat",
            "poslat",
            "lastlat",
            "decimallatitude",
            "latitudewgs84",
            "y",
            "ycoord",
            "ycoordinate",
            "pointy",
        ],
    ),
    (
        FixField::Speed,
        "speed",
        &[
            "speed",
            "groundspeed",
            "gpsspeed",
            "positionspeed",
            "speedoverground",
            "sog",
            "velocity",
            "spd",
        ],
    ),
    (
        FixField::Heading,
        "heading",
        &[
            "heading",
            "course",
            "courseoverground",
            "cog",
            "track",
            "truetrack",
            "bearing",
            "positionbearing",
            "azimuth",
            "trueheading",
            "hdg",
        ],
    ),
    (
        FixField::Altitude,
        "altitude",
        &[
            "altitude",
            "alt",
            "elevation",
            "ele",
            "elev",
            "gpsaltitude",
            "geoaltitude",
            "heightabovemsl",
            "heightaboveellipsoid",
            "baroaltitude",
            "height",
        ],
    ),
    (FixField::State, "state", &["state"]),
    // A unit must follow: without one they often say something else, as whether a fix is valid.
    (FixField::Validity, "validity", &["valid", "validfor", "validity", "ttl"]),
];

impl FixField {
    /// Number of fields.
    pub const COUNT: usize = 9;
    /// All fields, in the order of their discriminants.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Object,
        Self::Time,
        Self::X,
        Self::Y,
        Self::Speed,
        Self::Heading,
        Self::Altitude,
        Self::State,
        Self::Validity,
    ];

    /// The fields that every row has.
    pub const REQUIRED: [Self; 4] = [Self::Object, Self::Time, Self::X, Self::Y];

    /// The name of the field in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The names of its columns, the most specific first, as [`squeezed`] gives them.
    pub(super) fn column_names(self) -> &'static [&'static str] {
        NAMES[self as usize].2
    }
}

impl fmt::Display for FixField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for FixField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = squeezed(text);
        let found = NAMES.iter().find(|(_, name, _)| *name == text);
        let by_column = || NAMES.iter().find(|(_, _, names)| names.contains(&text.as_str()));
        found.or_else(by_column).map(|(field, ..)| *field).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name, _)| *name).collect();
            format!("`{text}` is no field of a position; the fields are {}", names.join(", "))
        })
    }
}

/// A name of a column in lower case, without characters other than letters and digits.
pub(super) fn squeezed(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_coordinates_come_in_pairs() {
        let (xs, ys) = (FixField::X.column_names(), FixField::Y.column_names());
        for y in ys.iter().filter(|name| name.contains("lat")) {
            let pair = |part: &str| y.replacen("latitude", "longitude", 1).replacen("lat", part, 1);
            let of = ["lon", "lng", "long"].map(pair);
            let expected = if y.contains("latitude") { &of[..1] } else { &of[..] };
            assert!(expected.iter().all(|x| xs.contains(&x.as_str())), "{y}: {expected:?}");
        }
        for x in xs.iter().filter(|name| name.contains("lon")) {
            let short = x.replacen("longitude", "latitude", 1);
            let short = short.replacen("long", "lat", 1).replacen("lon", "lat", 1);
            assert!(ys.contains(&short.as_str()), "{x}: {short}");
        }
    }

    #[test]
    fn names_are_squeezed_and_belong_to_one_field() {
        let mut seen = std::collections::BTreeSet::new();
        for (index, (field, name, names)) in NAMES.iter().enumerate() {
            assert_eq!((*field as usize, name.parse()), (index, Ok(*field)));
            for name in *names {
                assert_eq!(squeezed(name), **name);
                assert!(seen.insert(*name), "{name} twice");
            }
        }
        assert_eq!("lon".parse(), Ok(FixField::X));
        assert!("colour".parse::<FixField>().unwrap_err().contains("object, time, x, y"));
    }
}
