//! Finds the columns of a file that have the fields of a fix.

use std::collections::BTreeMap;

use super::fix_field::squeezed;
use super::{AltitudeUnit, FixField, FixFileOptions, SpeedUnit, TimeUnit};
use crate::printable::printable;

/// Names of columns with the date of a column of times of day.
const DATE_NAMES: [&str; 4] = ["date", "dateutc", "utcdate", "gpsdate"];
/// Endings of a column's name that state what coordinates and headings are anyway.
const PLAIN_SUFFIXES: [&str; 6] = ["deg", "degrees", "degree", "dd", "m", "wgs84"];
/// Names of the speed over ground in AIS, which is in knots.
const KNOTS_NAMES: [&str; 2] = ["sog", "speedoverground"];
/// Names of columns with addresses of aircraft, which are hexadecimal.
const HEXADECIMAL_NAMES: [&str; 4] = ["icao24", "icao", "modes", "hex"];
/// Maximum names of columns in a message.
const SHOWN_MAX: usize = 20;

/// A column of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenColumn {
    /// Its position, from 0.
    pub index: usize,
    /// Its name in the file.
    pub name: String,
}

/// The columns of a file that are read, and the units of their values.
#[derive(Clone, Debug)]
pub struct ColumnChoice {
    columns: [Option<ChosenColumn>; FixField::COUNT],
    /// A column with dates, if the times may be times of day.
    pub date: Option<ChosenColumn>,
    /// Unit of times that are numbers; `None`: to be found from the first.
    pub time_unit: Option<TimeUnit>,
    /// Unit of speeds.
    pub speed_unit: SpeedUnit,
    /// Unit of altitudes.
    pub altitude_unit: AltitudeUnit,
    /// Unit of validities.
    pub validity_unit: TimeUnit,
    /// True if numbers of objects are hexadecimal.
    pub is_hexadecimal: bool,
    /// The names of the columns that are not read.
    unread: Vec<String>,
}

/// Why the columns of a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnsFault {
    /// No column has a required field.
    #[error(
        "no column of the {field}, which has a name like {usual}; the columns are {names}",
        usual = field.column_names()[..3].join(", ")
    )]
    Missing {
        /// The field.
        field: FixField,
        /// The names of the columns.
        names: String,
    },
    /// The file has no column that the options name.
    #[error("no column `{name}`; the columns are {names}")]
    Unknown {
        /// The name in the options.
        name: String,
        /// The names of the columns.
        names: String,
    },
    /// Two columns have one name.
    #[error("two columns have the name `{name}`")]
    Twice {
        /// The name.
        name: String,
    },
}

/// How well the name of a column says that it has a field: its rank, less is better, and what
/// follows the field's name.
struct Match {
    rank: usize,
    suffix: String,
}

/// Compares the name of a column with the names of a field.
fn compare(field: FixField, name: &str) -> Option<Match> {
    // Databases have it of a document, not of what the document is about.
    if name == "_id" {
        return None;
    }
    let name = squeezed(name);
    let names = field.column_names();
    let needs_unit = field == FixField::Validity;
    if let Some(rank) = names.iter().position(|known| *known == name && !needs_unit) {
        return Some(Match { rank, suffix: String::new() });
    }
    let is_suffix = |suffix: &str| match field {
        FixField::Object | FixField::State => false,
        FixField::Time | FixField::Validity => TimeUnit::of_suffix(suffix).is_some(),
        FixField::Speed => SpeedUnit::of_suffix(suffix).is_some(),
        FixField::Altitude => AltitudeUnit::of_suffix(suffix).is_some(),
        FixField::X | FixField::Y | FixField::Heading => PLAIN_SUFFIXES.contains(&suffix),
    };
    names.iter().enumerate().find_map(|(rank, known)| {
        let suffix = name.strip_prefix(known).filter(|suffix| is_suffix(suffix))?;
        Some(Match { rank, suffix: suffix.to_owned() })
    })
}

/// The parts of a name that is a path, as `position.course`.
#[derive(Clone, Copy)]
struct Path<'name> {
    index: usize,
    parent: &'name str,
    last: &'name str,
}

/// Columns whose names are paths by their last parts: the position, if one object alone has it, and
/// other fields of the object with the position or of one around it.
fn nested(
    names: &[String],
    columns: &[Option<ChosenColumn>],
    required: &[FixField],
) -> Vec<(FixField, Match, usize)> {
    let is_used = |index: usize| columns.iter().flatten().any(|column| column.index == index);
    let paths = names.iter().enumerate().filter_map(|(index, name)| {
        let (parent, last) = name.rsplit_once('.')?;
        (!is_used(index)).then_some(Path { index, parent, last })
    });
    let paths: Vec<Path<'_>> = paths.collect();
    let is_missing = |field: FixField| columns[field as usize].is_none();
    let best = |field: FixField, paths: &mut dyn Iterator<Item = Path<'_>>| {
        let found = paths.filter_map(|Path { index, last, .. }| {
            // An `id` beside a position may be that of the position.
            let is_id = field == FixField::Object && squeezed(last) == "id";
            Some((compare(field, last).filter(|_| !is_id)?, index))
        });
        let (found, index) = found.min_by_key(|(found, index)| (found.rank, *index))?;
        Some((field, found, index))
    };
    let mut found = Vec::new();
    let position = match &columns[FixField::X as usize] {
        Some(x) => x.name.rsplit_once('.').map(|(parent, _)| parent),
        None if required.contains(&FixField::X) && is_missing(FixField::Y) => {
            let mut objects: BTreeMap<&str, Vec<Path<'_>>> = BTreeMap::new();
            for path in &paths {
                objects.entry(path.parent).or_default().push(*path);
            }
            let mut with_position = objects.into_iter().filter_map(|(parent, paths)| {
                let side = |field| best(field, &mut paths.iter().copied());
                Some((side(FixField::X)?, side(FixField::Y)?, parent))
            });
            match (with_position.next(), with_position.next()) {
                (Some((x, y, parent)), None) => {
                    found.extend([x, y]);
                    Some(parent)
                }
                _ => None,
            }
        }
        None => None,
    };
    let Some(position) = position else { return found };
    let is_around = |parent: &str| {
        position.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let around: Vec<_> = paths.iter().filter(|path| is_around(path.parent)).collect();
    let others =
        [FixField::Object, FixField::Time, FixField::Speed, FixField::Heading, FixField::Altitude];
    let others = others.into_iter().filter(|field| is_missing(*field));
    found.extend(others.filter_map(|field| best(field, &mut around.iter().map(|path| **path))));
    found
}

/// The last word of a name, which may be a unit: `kmh` of `velo_kmh`.
fn last_word(name: &str) -> String {
    let mut words = name.rsplit(|c: char| !c.is_alphanumeric());
    squeezed(words.find(|word| !word.is_empty()).unwrap_or_default())
}

impl ColumnChoice {
    /// Chooses columns by their names. A column of a coordinate is chosen only if it is required.
    ///
    /// # Errors
    /// A required field or a column of the options is missing; two columns with the name of a
    /// chosen column.
    pub fn find(
        names: &[String],
        options: &FixFileOptions,
        required: &[FixField],
    ) -> Result<Self, ColumnsFault> {
        let mut columns: [Option<ChosenColumn>; FixField::COUNT] = Default::default();
        for chosen in &options.columns {
            let index = names.iter().position(|name| *name == chosen.name);
            let index = index.ok_or_else(|| ColumnsFault::Unknown {
                name: chosen.name.clone(),
                names: shown(names),
            })?;
            columns[chosen.field as usize] =
                Some(ChosenColumn { index, name: chosen.name.clone() });
        }
        let named = |columns: &[Option<ChosenColumn>], index| {
            columns.iter().flatten().any(|column| column.index == index)
        };
        let overridden = columns.clone();
        let mut suffixes: [String; FixField::COUNT] = Default::default();
        let is_coordinate = |field: &FixField| matches!(field, FixField::X | FixField::Y);
        let is_read = |field: &FixField| required.contains(field) || !is_coordinate(field);
        for field in FixField::ALL.into_iter().filter(is_read) {
            if let Some(column) = &columns[field as usize] {
                suffixes[field as usize] = compare(field, &column.name)
                    .map_or_else(|| last_word(&column.name), |found| found.suffix);
                continue;
            }
            let matches = names.iter().enumerate().filter(|(index, _)| !named(&overridden, *index));
            let matches = matches.filter_map(|(index, name)| Some((compare(field, name)?, index)));
            let best = matches.min_by_key(|(found, index)| (found.rank, *index));
            if let Some((found, index)) = best {
                columns[field as usize] = Some(ChosenColumn { index, name: names[index].clone() });
                suffixes[field as usize] = found.suffix;
            }
        }
        for (field, found, index) in nested(names, &columns, required) {
            columns[field as usize] = Some(ChosenColumn { index, name: names[index].clone() });
            suffixes[field as usize] = found.suffix;
        }
        if let Some(field) = required.iter().find(|field| columns[**field as usize].is_none()) {
            return Err(ColumnsFault::Missing { field: *field, names: shown(names) });
        }
        for column in columns.iter().flatten() {
            if names.iter().filter(|name| **name == column.name).count() > 1 {
                return Err(ColumnsFault::Twice { name: column.name.clone() });
            }
        }
        let squeezed_name = |field: FixField| {
            let name = columns[field as usize].as_ref().map_or("", |of| of.name.as_str());
            squeezed(name.rsplit('.').next().unwrap_or_default())
        };
        let suffix = |field: FixField| suffixes[field as usize].as_str();
        let is_knots = KNOTS_NAMES.contains(&squeezed_name(FixField::Speed).as_str());
        let speed_default = if is_knots { SpeedUnit::Knots } else { SpeedUnit::default() };
        let is_hexadecimal = HEXADECIMAL_NAMES.contains(&squeezed_name(FixField::Object).as_str());
        let date = names.iter().position(|name| DATE_NAMES.contains(&squeezed(name).as_str()));
        let date = date.filter(|index| !named(&columns, *index));
        let is_read = |index: usize| named(&columns, index) || date.as_ref() == Some(&index);
        let unread: Vec<String> = (0..names.len())
            .filter(|index| !is_read(*index) && !names[*index].is_empty())
            .map(|index| names[index].clone())
            .collect();
        Ok(Self {
            unread,
            time_unit: options.time_unit.or(TimeUnit::of_suffix(suffix(FixField::Time))),
            speed_unit: options
                .speed_unit
                .or(SpeedUnit::of_suffix(suffix(FixField::Speed)))
                .unwrap_or(speed_default),
            altitude_unit: options
                .altitude_unit
                .or(AltitudeUnit::of_suffix(suffix(FixField::Altitude)))
                .unwrap_or_default(),
            validity_unit: TimeUnit::of_suffix(suffix(FixField::Validity))
                .unwrap_or(TimeUnit::Seconds),
            is_hexadecimal,
            date: date.map(|index| ChosenColumn { index, name: names[index].clone() }),
            columns,
        })
    }

    /// How many required fields some of these names have.
    #[must_use]
    pub(crate) fn required_found(names: &[String]) -> usize {
        let is_found = |field: &FixField| names.iter().any(|name| compare(*field, name).is_some());
        FixField::REQUIRED.iter().filter(|field| is_found(field)).count()
    }

    /// Says which columns are not read, besides `also_read`; `None` if all are.
    #[must_use]
    pub fn describe_unread(&self, also_read: &[&str]) -> Option<String> {
        let unread = self.unread.iter().filter(|name| !also_read.contains(&name.as_str()));
        let unread: Vec<_> = unread.cloned().collect();
        (!unread.is_empty()).then(|| format!("ignored columns: {}", shown(&unread)))
    }

    /// Leaves out a column that is not required.
    pub fn leave_out(&mut self, field: FixField) {
        self.columns[field as usize] = None;
    }

    /// The fields that have a column, with it.
    pub fn chosen(&self) -> impl Iterator<Item = (FixField, &ChosenColumn)> {
        FixField::ALL.into_iter().filter_map(|field| Some((field, self.column(field)?)))
    }

    /// The column of a field.
    #[must_use]
    pub fn column(&self, field: FixField) -> Option<&ChosenColumn> {
        self.columns[field as usize].as_ref()
    }

    /// The name of the column of a field in the file; that of the field if there is none.
    #[must_use]
    pub fn name(&self, field: FixField) -> &str {
        self.column(field).map_or(field.name(), |column| &column.name)
    }

    /// Says which columns have which fields, with the units of their values; `time` describes the
    /// times.
    #[must_use]
    pub fn describe(&self, time: &str) -> String {
        let described = FixField::ALL.iter().filter_map(|field| {
            let Some(ChosenColumn { name, .. }) = self.column(*field) else {
                let is_described = *field == FixField::Time && !time.is_empty();
                return is_described.then(|| format!("{field} = {time}"));
            };
            let detail = match field {
                FixField::Object if self.is_hexadecimal => " (hexadecimal)".to_owned(),
                FixField::Time if !time.is_empty() => format!(" ({time})"),
                FixField::Speed => format!(" ({})", self.speed_unit),
                FixField::Altitude => format!(" ({})", self.altitude_unit),
                FixField::Validity => format!(" ({})", self.validity_unit),
                _ => String::new(),
            };
            Some(format!("{field} = {name}{detail}"))
        });
        described.collect::<Vec<_>>().join(", ")
    }
}

/// The names of the columns for a message, without characters that control a terminal.
fn shown(names: &[String]) -> String {
    let printed = |name: &String| format!("`{}`", printable(name));
    let first: Vec<_> = names.iter().take(SHOWN_MAX).map(printed).collect();
    let more = if names.len() > SHOWN_MAX { ", ..." } else { "" };
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(header: &str, options: &FixFileOptions) -> Result<String, String> {
        let names: Vec<String> = header.split(',').map(str::to_owned).collect();
        let found = ColumnChoice::find(&names, options, &FixField::REQUIRED)
            .map_err(|fault| fault.to_string())?;
        let unit = found.time_unit.map_or_else(String::new, |unit| unit.to_string());
        Ok(found.describe(&unit))
    }

    #[test]
    fn columns_that_are_not_read_are_named_without_control_characters() {
        let names = ["id", "t_ms", "lon", "lat", "a\u{1b}[31m", "", "b"].map(str::to_owned);
        let of = |names: &[String]| {
            ColumnChoice::find(names, &FixFileOptions::default(), &FixField::REQUIRED).unwrap()
        };
        let expected = "ignored columns: `a\\u{1b}[31m`, `b`";
        assert_eq!(of(&names).describe_unread(&[]).unwrap(), expected);
        assert_eq!(of(&names).describe_unread(&["b"]).unwrap(), "ignored columns: `a\\u{1b}[31m`");
        assert_eq!(of(&names[..4]).describe_unread(&[]), None);
    }

    #[test]
    fn columns_are_found_by_the_names_of_many_programs() {
        for (header, expected) in [
            (
                "object_id,t_ms,lon,lat,speed,heading,altitude,state,recv_ms",
                "object = object_id, time = t_ms (ms), x = lon, y = lat, speed = speed (m/s), \
                 heading = heading, altitude = altitude (m), state = state",
            ),
            (
                "MMSI,BaseDateTime,LAT,LON,SOG,COG,Heading,VesselName",
                "object = MMSI, time = BaseDateTime, x = LON, y = LAT, speed = SOG (knots), \
                 heading = Heading",
            ),
            (
                "id,vehicle_id,timestamp,Latitude,Longitude,Speed (km/h),Course,Alt_ft",
                "object = vehicle_id, time = timestamp, x = Longitude, y = Latitude, speed = Speed \
                 (km/h) (km/h), heading = Course, altitude = Alt_ft (ft)",
            ),
            (
                "time,icao24,lat,lon,velocity,heading,vertrate,baroaltitude,geoaltitude",
                "object = icao24 (hexadecimal), time = time, x = lon, y = lat, speed = velocity \
                 (m/s), heading = heading, altitude = geoaltitude (m)",
            ),
            (
                "id,timestamp,position.latitude,position.longitude,position.id,position.course,wind.speed",
                "object = id, time = timestamp, x = position.longitude, y = position.latitude, \
                 heading = position.course",
            ),
            (
                "_id,_source.id,_source.vehicle_id,_source.@timestamp,_source.gps.lat,_source.gps.lng,\
                 _source.gps.speed_kmh",
                "object = _source.vehicle_id, time = _source.@timestamp, x = _source.gps.lng, y = _source.gps.lat, \
                 speed = _source.gps.speed_kmh (km/h)",
            ),
            ("id,x,y,t", "object = id, time = t, x = x, y = y"),
            ("id,x,y,t,ttl_ms", "object = id, time = t, x = x, y = y, validity = ttl_ms (ms)"),
            ("id,x,y,t,valid_s", "object = id, time = t, x = x, y = y, validity = valid_s (s)"),
            ("id,x,y,t,validity,valid,ttl", "object = id, time = t, x = x, y = y"),
            ("id,x,y,lon,lat,time_us", "object = id, time = time_us (us), x = lon, y = lat"),
        ] {
            assert_eq!(find(header, &FixFileOptions::default()).unwrap(), expected);
        }
    }

    #[test]
    fn the_user_names_columns_and_units() {
        let mut options = FixFileOptions {
            columns: vec!["object=tag".parse().unwrap(), "lat=b".parse().unwrap()],
            speed_unit: Some(SpeedUnit::MilesPerHour),
            time_unit: Some(TimeUnit::Seconds),
            ..FixFileOptions::default()
        };
        let found = find("tag,id,time,lon,b,lat,speed", &options).unwrap();
        let expected = "object = tag, time = time (s), x = lon, y = b, speed = speed (mph)";
        assert_eq!(found, expected);
        let unit = FixFileOptions {
            columns: vec!["speed=velo_kmh".parse().unwrap(), "altitude=baro ft".parse().unwrap()],
            ..FixFileOptions::default()
        };
        let validity = FixFileOptions {
            columns: vec!["validity=ttl".parse().unwrap()],
            ..FixFileOptions::default()
        };
        let found = find("id,t_ms,lon,lat,ttl", &validity).unwrap();
        assert!(found.ends_with("validity = ttl (s)"), "{found}");
        let found = find("id,t_ms,lon,lat,velo_kmh,baro ft", &unit).unwrap();
        assert!(found.ends_with("speed = velo_kmh (km/h), altitude = baro ft (ft)"), "{found}");
        options.columns.push("speed=velo".parse().unwrap());
        let fault = find("tag,id,time,lon,b", &options).unwrap_err();
        assert_eq!(fault, "no column `velo`; the columns are `tag`, `id`, `time`, `lon`, `b`");
    }

    #[test]
    fn a_position_in_two_places_is_not_chosen() {
        let fault = find("id,t,start.lat,start.lon,end.lat,end.lon", &FixFileOptions::default());
        assert!(
            fault.unwrap_err().starts_with("no column of the x"),
            "the first is not the position"
        );
        let found = find("id,t,start.lat,start.lon", &FixFileOptions::default()).unwrap();
        assert_eq!(found, "object = id, time = t, x = start.lon, y = start.lat");
    }

    #[test]
    fn nested_columns_have_the_units_of_their_last_parts() {
        let none = FixFileOptions::default();
        let found = find("t,pos.lat,pos.lon,pos.sog,pos.icao24", &none).unwrap();
        assert!(found.starts_with("object = pos.icao24 (hexadecimal)"), "{found}");
        assert!(found.ends_with("speed = pos.sog (knots)"), "{found}");
        let named = FixFileOptions {
            columns: vec!["y=my_lat".parse().unwrap()],
            ..FixFileOptions::default()
        };
        let found = find("id,t,my_lat,gps.lon,gps.lat", &named);
        assert_eq!(found.unwrap(), "object = id, time = t, x = gps.lon, y = my_lat");
    }

    #[test]
    fn missing_and_repeated_columns_are_named() {
        let fault = |header| find(header, &FixFileOptions::default()).unwrap_err();
        assert_eq!(
            fault("id,lon,lat"),
            "no column of the time, which has a name like t, time, timestamp; the columns are \
             `id`, `lon`, `lat`"
        );
        assert_eq!(fault("id,t,lon,lat,lat"), "two columns have the name `lat`");
        // A repeated column that is not read does no harm.
        assert!(find("id,t,lon,lat,note,note,,", &FixFileOptions::default()).is_ok());
    }
}
