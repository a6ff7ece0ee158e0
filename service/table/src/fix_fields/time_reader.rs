//! Times of files: Unix times in the unit of the file, or texts.

use jiff::civil::{DateTime, Time};
use jiff::fmt::strtime;
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;

use super::{FixFileOptions, TimeDefault, TimeUnit, short_number};

/// Reads the times of one file, and remembers what it had to assume.
#[derive(Clone, Debug)]
pub struct TimeReader {
    /// Unit of numbers; `None` until a number tells it.
    unit: Option<TimeUnit>,
    /// True if a number told the unit.
    is_unit_found: bool,
    format: Option<String>,
    /// The time of rows that state none.
    default: Option<TimeDefault>,
    has_defaults: bool,
    has_texts: bool,
    /// True if a time of day had its date in another column.
    has_dates: bool,
    /// True if a text had no zone.
    lacks_zone: bool,
}

impl TimeReader {
    /// Reads numbers in `unit`, if it is known, and texts in the form that the options name, or
    /// ISO 8601.
    #[must_use]
    pub fn new(unit: Option<TimeUnit>, options: &FixFileOptions) -> Self {
        Self {
            unit,
            is_unit_found: false,
            format: options.time_format.clone(),
            default: options.time,
            has_defaults: false,
            has_texts: false,
            has_dates: false,
            lacks_zone: false,
        }
    }

    /// Reads a number or a text as Unix milliseconds; `date` belongs to a time of day.
    ///
    /// # Errors
    /// The reason.
    #[inline]
    pub fn text(&mut self, text: &str, date: &str) -> Result<i64, String> {
        if let (Some(unit), None, Some(time)) = (self.unit, &self.format, short_number(text)) {
            // At most 18 digits fit.
            return in_unit(unit, time.cast_signed());
        }
        self.any_text(text, date)
    }

    /// The time of a row that states none.
    ///
    /// # Errors
    /// The options have none.
    pub fn missing(&mut self) -> Result<i64, String> {
        self.has_defaults = true;
        self.default.map(TimeDefault::ms).ok_or_else(|| {
            "there is none; --time gives the time of all rows without one".to_owned()
        })
    }

    /// Reads any text.
    fn any_text(&mut self, text: &str, date: &str) -> Result<i64, String> {
        if text.is_empty() && self.default.is_some() {
            return self.missing();
        }
        if self.format.is_some() {
            return self.formatted(text).or_else(|reason| match date {
                "" => Err(reason),
                date => {
                    self.has_dates = true;
                    self.formatted(&format!("{date} {text}"))
                }
            });
        }
        if let Ok(time) = text.parse() {
            return match compact(text).filter(|_| self.unit.is_none()) {
                Some(moment) => self.moment(&moment, text),
                None => self.number(time),
            };
        }
        match text.parse() {
            Ok(time) => self.real(time, text),
            Err(_) => match with_date(date, text) {
                Some(moment) => {
                    self.has_dates = true;
                    self.moment(&moment, &format!("{date} {text}"))
                }
                None => self.moment(text, text),
            },
        }
    }

    /// Reads a whole number.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn number(&mut self, time: i64) -> Result<i64, String> {
        if self.format.is_some() {
            return self.formatted(&time.to_string());
        }
        let unit = self.unit_of(time as f64).ok_or_else(|| not_in_years(&time.to_string()))?;
        in_unit(unit, time)
    }

    /// Reads a number with decimals.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn real(&mut self, time: f64, text: &str) -> Result<i64, String> {
        let unit = self.unit_of(time).ok_or_else(|| not_in_years(text))?;
        unit.real_to_ms(time).ok_or_else(|| format!("`{text}` is not a time"))
    }

    fn unit_of(&mut self, time: f64) -> Option<TimeUnit> {
        if self.unit.is_none() {
            self.unit = TimeUnit::of(time);
            self.is_unit_found = self.unit.is_some();
        }
        self.unit
    }

    fn moment(&mut self, moment: &str, text: &str) -> Result<i64, String> {
        let not_a_time = || {
            format!(
                "`{text}` is not a time: neither a Unix time nor ISO 8601 (another form is named as in \
                 --time-format '%d/%m/%Y %H:%M')"
            )
        };
        // Some programs write 2026/01/31.
        let is_slashed =
            moment.get(4..8).is_some_and(|rest| rest.starts_with('/') && rest.ends_with('/'));
        let dashed = if is_slashed { moment.replacen('/', "-", 2) } else { moment.to_owned() };
        let joined = with_joined_zone(&dashed);
        let pieces = Pieces::parse(joined.as_ref().unwrap_or(&dashed)).map_err(|_| not_a_time())?;
        let offset = match (pieces.to_numeric_offset(), pieces.time_zone_annotation()) {
            (Some(offset), _) => offset,
            (None, None) => {
                self.lacks_zone = true;
                Offset::UTC
            }
            (None, Some(_)) => return Err(format!("`{text}` has a zone without an offset")),
        };
        self.has_texts = true;
        to_ms(pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight())), offset)
    }

    fn formatted(&mut self, text: &str) -> Result<i64, String> {
        let format = self.format.as_deref().unwrap_or_default();
        let wrong = |error: jiff::Error| format!("`{text}` is not a time as `{format}`: {error}");
        let parts = strtime::parse(format, text).map_err(wrong)?;
        if parts.offset().is_none() && parts.iana_time_zone().is_some() {
            return Err(format!("`{text}` has a zone without an offset"));
        }
        let moment = match parts.to_datetime() {
            Ok(moment) => moment,
            // The format has Unix seconds, or no time of day.
            Err(_) if parts.timestamp().is_some() => {
                return parts.to_timestamp().map(|time| time.as_millisecond()).map_err(wrong);
            }
            Err(_) => parts.to_date().map_err(wrong)?.to_datetime(Time::midnight()),
        };
        self.has_texts = true;
        self.lacks_zone |= parts.offset().is_none();
        to_ms(moment, parts.offset().unwrap_or(Offset::UTC))
    }

    /// Says how the times were read: their unit or form, and what was assumed.
    #[must_use]
    pub fn describe(&self) -> String {
        let unit = self.unit.map(|unit| {
            let found = if self.is_unit_found { ", found from the first" } else { "" };
            format!("Unix {}{found}", unit.word())
        });
        let form = self.format.as_deref().unwrap_or("ISO 8601");
        let zone = match (self.has_dates, self.lacks_zone) {
            (false, false) => "",
            (false, true) => ", without a zone: read as UTC",
            (true, false) => ", with the dates of another column",
            (true, true) => ", with the dates of another column, without a zone: read as UTC",
        };
        let stated = match (self.has_texts, unit) {
            (true, Some(unit)) if self.is_unit_found => format!("{form}{zone}; {unit}"),
            (true, _) => format!("{form}{zone}"),
            (false, unit) => unit.unwrap_or_default(),
        };
        let default = self.default.filter(|_| self.has_defaults).map(|default| match default {
            TimeDefault::Now => "the time of reading where there is none".to_owned(),
            TimeDefault::At(time_ms) => format!("{time_ms} ms where there is none"),
        });
        let parts = [Some(stated).filter(|stated| !stated.is_empty()), default];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

#[inline]
fn in_unit(unit: TimeUnit, time: i64) -> Result<i64, String> {
    unit.to_ms(time).ok_or_else(|| format!("{time} is not a time in {}", unit.word()))
}

fn to_ms(moment: DateTime, offset: Offset) -> Result<i64, String> {
    let time = offset.to_timestamp(moment).map_err(|error| error.to_string())?;
    Ok(time.as_millisecond())
}

/// The error of a number whose unit cannot be found.
fn not_in_years(text: &str) -> String {
    format!(
        "`{text}` is no Unix time between 2000 and 2100 in seconds, milliseconds, microseconds or \
         nanoseconds; name its unit with --time-unit"
    )
}

/// The digits `20260131120000` as ISO 8601; such a number is no Unix time in any unit.
fn compact(text: &str) -> Option<String> {
    let is_compact = text.len() == 14 && (text.starts_with("19") || text.starts_with("20"));
    is_compact.then(|| format!("{}T{}", &text[..8], &text[8..]))
}

/// A time whose zone follows a blank, or has a name of UTC, as ISO 8601 has it; `None` for any other
/// text.
fn with_joined_zone(text: &str) -> Option<String> {
    let (moment, zone) = text.rsplit_once(' ')?;
    match zone {
        "UTC" | "GMT" | "Z" => Some(format!("{moment}Z")),
        _ if zone.starts_with(['+', '-']) => Some(format!("{moment}{zone}")),
        _ => None,
    }
}

/// A time of day with its date; `None` for any other text.
fn with_date(date: &str, text: &str) -> Option<String> {
    match text.find(':') {
        _ if date.is_empty() || text.len() < 4 => None,
        Some(1) => Some(format!("{date}T0{text}")),
        Some(2) => Some(format!("{date}T{text}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> TimeReader {
        TimeReader::new(None, &FixFileOptions::default())
    }

    fn formatted(format: &str) -> TimeReader {
        let time_format = Some(format.to_owned());
        TimeReader::new(None, &FixFileOptions { time_format, ..FixFileOptions::default() })
    }

    #[test]
    fn one_moment_in_many_forms() {
        for text in [
            "1795590000",
            "1795590000.0",
            "1795590000000",
            "1795590000000000",
            "1795590000000000000",
            "1.79559e9",
            "2026-11-25T07:00:00Z",
            "2026-11-25T08:00:00+01:00",
            "2026-11-25 02:00:00-0500",
            "2026-11-25T07:00:00",
            "2026-11-25 07:00",
            "20261125T070000Z",
            "2026-11-25 07:00:00 UTC",
            "2026-11-25 07:00:00.000000 GMT",
            "2026-11-25T07:00:00 Z",
            "2026-11-25 08:00:00 +0100",
            "2026-11-25 02:00 -05:00",
            "2026/11/25 07:00:00",
            "2026/11/25 07:00:00+00",
            "20261125070000",
            "2026-11-25T08:00:00+01:00[Europe/Paris]",
        ] {
            assert_eq!(reader().text(text, ""), Ok(1_795_590_000_000), "{text}");
        }
        assert_eq!(reader().text("2026-11-25T07:00:00.1239Z", ""), Ok(1_795_590_000_123));
        for time_of_day in ["07:00:00", "7:00:00", "07:00"] {
            assert_eq!(reader().text(time_of_day, "2026-11-25"), Ok(1_795_590_000_000));
        }
        assert_eq!(reader().text("2026-11-25", ""), Ok(1_795_564_800_000));
        let mut dated = reader();
        assert!(dated.text("07:00:00", "25/11/2026").unwrap_err().contains("25/11/2026 07:00:00"));
        assert!(dated.text("07:00:00", "2026-11-25").is_ok());
        assert!(dated.describe().contains("the dates of another column"), "{}", dated.describe());
    }

    #[test]
    fn the_first_number_tells_the_unit() {
        let mut times = reader();
        assert!(times.text("12", "").unwrap_err().contains("--time-unit"));
        assert_eq!(times.text("1795590000", ""), Ok(1_795_590_000_000));
        assert_eq!(times.text("12", ""), Ok(12_000));
        assert_eq!(times.describe(), "Unix seconds, found from the first");
        let mut millis = TimeReader::new(Some(TimeUnit::Milliseconds), &FixFileOptions::default());
        assert_eq!(millis.text("1795590000", ""), Ok(1_795_590_000));
        assert_eq!(millis.text("-1", ""), Ok(-1));
        assert_eq!(millis.describe(), "Unix milliseconds");
    }

    #[test]
    fn assumptions_are_described() {
        let mut times = reader();
        times.text("2026-11-25T07:00:00Z", "").unwrap();
        assert_eq!(times.describe(), "ISO 8601");
        times.text("2026-11-25T07:00:00", "").unwrap();
        assert_eq!(times.describe(), "ISO 8601, without a zone: read as UTC");
        assert!(times.missing().is_err());
        let time = Some(TimeDefault::At(7));
        let mut dated =
            TimeReader::new(None, &FixFileOptions { time, ..FixFileOptions::default() });
        assert_eq!(
            (dated.text("", ""), dated.text("1795590000", "")),
            (Ok(7), Ok(1_795_590_000_000))
        );
        assert_eq!(
            dated.describe(),
            "Unix seconds, found from the first; 7 ms where there is none"
        );
    }

    #[test]
    fn other_texts_need_a_format() {
        let fault = reader().text("25/11/2026 07:00:00", "").unwrap_err();
        assert!(fault.contains("neither a Unix time nor ISO 8601"), "{fault}");
        let mut danish = formatted("%d/%m/%Y %H:%M:%S");
        assert_eq!(danish.text("25/11/2026 07:00:00", ""), Ok(1_795_590_000_000));
        assert!(danish.describe().contains("%d/%m/%Y"));
        assert!(danish.text("2026-11-25", "").unwrap_err().contains("%d/%m/%Y"));
        let mut joined = formatted("%d/%m/%Y %H:%M");
        assert_eq!(joined.text("07:00", "25/11/2026"), Ok(1_795_590_000_000));
        let mut named = formatted("%Y-%m-%d %H:%M %Q");
        assert!(named.text("2026-11-25 08:00 Europe/Paris", "").unwrap_err().contains("offset"));
        let mut zoned = formatted("%Y-%m-%d %H:%M:%S %z");
        assert_eq!(zoned.text("2026-11-25 08:00:00 +0100", ""), Ok(1_795_590_000_000));
        for text in ["", "now", "NaN", "inf", "yesterday", "12:00"] {
            assert!(reader().text(text, "").is_err(), "{text}");
        }
    }
}
