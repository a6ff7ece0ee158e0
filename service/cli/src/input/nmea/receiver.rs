//! Positions of a satellite receiver, put together from the sentences of one moment.
//!
//! A receiver writes several sentences about the same moment: RMC has the date, the speed and the
//! course, GGA and GNS the altitude, GLL the position alone. Sentences with the same time of day are
//! one position. The date of a moment without RMC is that of the last RMC or ZDA, and the next day
//! after midnight.

use jiff::civil::{Date, DateTime, Time};

use super::sentence::Sentence;

/// A position of the receiver.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moment {
    /// The line of its first sentence.
    pub(super) line: u64,
    time: Option<Time>,
    date: Option<Date>,
    /// x and y in degrees.
    position: Option<Position>,
    pub(super) speed_knots: Option<f64>,
    pub(super) course_deg: Option<f64>,
    pub(super) altitude_m: Option<f64>,
    /// The time of receipt of its first sentence that has one.
    pub(super) received: Option<String>,
    /// The kinds of its sentences.
    kinds: Vec<Kind>,
}

/// Degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A sentence with a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rmc,
    Gga,
    Gns,
    Gll,
}

/// The sentences of a receiver so far.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    moment: Option<Moment>,
    /// The last date, and the time of day for which it was found.
    date: Option<DateTime>,
    /// Moments without a valid position.
    pub(super) void: u64,
}

impl Moment {
    /// Its position.
    pub(super) fn position(&self) -> Option<Position> {
        self.position
    }

    /// Its date and time of day, UTC.
    pub(super) fn date_time(&self) -> Option<DateTime> {
        Some(self.date?.to_datetime(self.time?))
    }
}

impl Receiver {
    /// Takes a sentence. The position before it is complete if this sentence begins the next one.
    ///
    /// # Errors
    /// A field of the sentence cannot be read.
    pub(super) fn take(&mut self, of: &Sentence<'_>, line: u64) -> Result<Taken, String> {
        let kind = match of.kind {
            "RMC" => Kind::Rmc,
            "GGA" => Kind::Gga,
            "GNS" => Kind::Gns,
            "GLL" => Kind::Gll,
            "ZDA" => return self.take_date(of).map(|()| Taken::default()),
            "VTG" => return self.take_course(of).map(|()| Taken::default()),
            _ => return Ok(Taken { is_other: true, ..Taken::default() }),
        };
        let read = Moment::of(kind, of, line)?;
        let is_same = self.moment.as_ref().is_some_and(|moment| {
            !moment.kinds.contains(&kind) && (moment.time == read.time || read.time.is_none())
        });
        let complete = if is_same { None } else { self.end() };
        let moment = self.moment.get_or_insert_with(|| Moment { line, ..Moment::default() });
        moment.add(read);
        if let (Some(date), Some(time)) = (moment.date, moment.time) {
            self.date = Some(date.to_datetime(time));
        }
        Ok(Taken { complete, is_other: false })
    }

    /// Ends the current moment.
    pub(super) fn end(&mut self) -> Option<Moment> {
        let mut moment = self.moment.take()?;
        if moment.position.is_none() {
            self.void += 1;
            return None;
        }
        if let (None, Some(time), Some(last)) = (moment.date, moment.time, self.date) {
            moment.date = date_of(time, last);
            self.date = moment.date_time().max(self.date);
        }
        Some(moment)
    }

    /// The last moment with a date, UTC.
    pub(super) fn clock(&self) -> Option<DateTime> {
        self.date
    }

    /// Takes the date of ZDA: time of day, day, month, year.
    fn take_date(&mut self, of: &Sentence<'_>) -> Result<(), String> {
        let Some(time) = time_of_day(of.field(0))? else { return Ok(()) };
        let [day, month] = [1, 2].map(|index| of.field(index).parse::<i8>());
        let date = match (of.field(3).parse(), month, day) {
            (Ok(year), Ok(month), Ok(day)) => Date::new(year, month, day).ok(),
            _ => None,
        };
        let date = date.ok_or_else(|| {
            format!("`{}.{}.{}` is no date", of.field(1), of.field(2), of.field(3))
        })?;
        let clock = date.to_datetime(time);
        // The current moment may be that of this sentence, or one before it on the previous day.
        if let Some(moment) = &mut self.moment
            && let (None, Some(time)) = (moment.date, moment.time)
        {
            moment.date = date_of(time, clock);
        }
        self.date = Some(clock);
        Ok(())
    }

    /// Takes the course and the speed of VTG, which has no time, for the current moment.
    fn take_course(&mut self, of: &Sentence<'_>) -> Result<(), String> {
        let (course, speed) = (number(of.field(0))?, number(of.field(4))?);
        if let Some(moment) = &mut self.moment {
            moment.course_deg = moment.course_deg.or(course);
            moment.speed_knots = moment.speed_knots.or(speed);
        }
        Ok(())
    }
}

/// What a sentence did.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Taken {
    /// The position before it.
    pub(super) complete: Option<Moment>,
    /// True if it says nothing about a position.
    pub(super) is_other: bool,
}

impl Moment {
    /// Reads one sentence.
    fn of(kind: Kind, of: &Sentence<'_>, line: u64) -> Result<Self, String> {
        let (time, place) = match kind {
            Kind::Rmc => (0, 2),
            Kind::Gga | Kind::Gns => (0, 1),
            Kind::Gll => (4, 0),
        };
        // RMC and GLL: A is valid, D differential. GGA: 0 is invalid. GNS: a letter for each system,
        // of which N is "no fix".
        let is_valid = match kind {
            Kind::Rmc => matches!(of.field(1), "A" | "D"),
            Kind::Gga => !matches!(of.field(5), "" | "0"),
            Kind::Gns => of.field(5).bytes().any(|mode| mode != b'N'),
            Kind::Gll => matches!(of.field(5), "A" | "D" | ""),
        };
        let mut moment = Self {
            line,
            time: time_of_day(of.field(time))?,
            received: of.received.map(str::to_owned),
            kinds: vec![kind],
            ..Self::default()
        };
        if is_valid {
            let y = degrees(of.field(place), of.field(place + 1), ["N", "S"])?;
            let x = degrees(of.field(place + 2), of.field(place + 3), ["E", "W"])?;
            moment.position = x.zip(y).map(|(x, y)| Position { x, y });
        }
        match kind {
            Kind::Rmc => {
                moment.date = date(of.field(8))?;
                moment.speed_knots = number(of.field(6))?.filter(|_| is_valid);
                moment.course_deg = number(of.field(7))?.filter(|_| is_valid);
            }
            Kind::Gga | Kind::Gns => moment.altitude_m = number(of.field(8))?.filter(|_| is_valid),
            Kind::Gll => {}
        }
        Ok(moment)
    }

    /// Adds what another sentence of the same moment says.
    fn add(&mut self, other: Self) {
        self.time = self.time.or(other.time);
        self.date = self.date.or(other.date);
        self.position = self.position.or(other.position);
        self.speed_knots = self.speed_knots.or(other.speed_knots);
        self.course_deg = self.course_deg.or(other.course_deg);
        self.altitude_m = self.altitude_m.or(other.altitude_m);
        self.received = self.received.take().or(other.received);
        self.kinds.extend(other.kinds);
    }
}

/// The date of a time of day near a clock.
fn date_of(time: Time, clock: DateTime) -> Option<Date> {
    match (clock.hour(), time.hour()) {
        (18.., ..6) => clock.date().tomorrow().ok(),
        (..6, 18..) => clock.date().yesterday().ok(),
        _ => Some(clock.date()),
    }
}

/// Reads a number; `None` if the field is empty.
fn number(field: &str) -> Result<Option<f64>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    let number = field.parse().ok().filter(|number: &f64| number.is_finite());
    number.map(Some).ok_or_else(|| format!("`{field}` is no number"))
}

/// Reads `dddmm.mmm` and its side; `None` if they are empty.
fn degrees(field: &str, side: &str, sides: [&str; 2]) -> Result<Option<f64>, String> {
    let wrong = || format!("`{field},{side}` is no latitude or longitude");
    let Some(number) = number(field)? else { return Ok(None) };
    let degrees = (number / 100.0).trunc();
    let minutes = number - 100.0 * degrees;
    if number < 0.0 || minutes >= 60.0 {
        return Err(wrong());
    }
    let value = degrees + minutes / 60.0;
    match sides.iter().position(|known| *known == side) {
        Some(0) => Ok(Some(value)),
        Some(_) => Ok(Some(-value)),
        None => Err(wrong()),
    }
}

/// Two digits of a field.
fn digits(field: &str, at: usize) -> Option<i8> {
    let digits = field.get(at..at + 2)?;
    if digits.bytes().all(|digit| digit.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Reads `hhmmss.sss`; `None` if it is empty. A leap second is the second before.
fn time_of_day(field: &str) -> Result<Option<Time>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    let time = || {
        let (hour, minute, second) = (digits(field, 0)?, digits(field, 2)?, digits(field, 4)?);
        let fraction: f64 = match field.get(6..)? {
            "" => 0.0,
            fraction => format!("0{fraction}").parse().ok()?,
        };
        let nanoseconds = (fraction * 1e9) as i32;
        let second = if second == 60 { 59 } else { second };
        Time::new(hour, minute, second, nanoseconds).ok()
    };
    time().map(Some).ok_or_else(|| format!("`{field}` is no time of day"))
}

/// Reads `ddmmyy`, of the years 1980 to 2079; `None` if it is empty.
fn date(field: &str) -> Result<Option<Date>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    let date = || {
        let (day, month) = (digits(field, 0)?, digits(field, 2)?);
        let year = i16::from(digits(field, 4).filter(|_| field.len() == 6)?);
        let century = if year < 80 { 2_000 } else { 1_900 };
        Date::new(century + year, month, day).ok()
    };
    date().map(Some).ok_or_else(|| format!("`{field}` is no date"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions of sentences, with their lines.
    fn moments(receiver: &mut Receiver, bodies: &[&str]) -> Vec<Moment> {
        let mut found = Vec::new();
        for (line, body) in (1..).zip(bodies) {
            let (address, fields) = body.split_once(',').unwrap();
            let fields = fields.split(',').collect();
            let sentence = Sentence { kind: &address[2..], fields, received: None };
            found.extend(receiver.take(&sentence, line).unwrap().complete);
        }
        found.extend(receiver.end());
        found
    }

    fn date_time(text: &str) -> Option<DateTime> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn sentences_of_one_moment_are_one_position() {
        let found = moments(
            &mut Receiver::default(),
            &[
                "GPGGA,235958.50,4807.038,N,01131.000,W,1,08,0.9,545.4,M,46.9,M,,",
                "GPGSA,A,3,04,05,,09,12,,,24,,,,,2.5,1.3,2.1",
                "GPRMC,235958.50,A,4807.038,N,01131.000,W,022.4,084.4,230394,003.1,W",
                "GPVTG,084.4,T,,M,022.4,N,041.5,K",
                "GPGGA,235959.50,4807.038,S,01131.000,E,1,08,0.9,545.4,M,46.9,M,,",
                "GPGLL,4807.040,N,01131.002,E,000000.50,A",
            ],
        );
        assert_eq!(found.iter().map(|moment| moment.line).collect::<Vec<_>>(), [1, 5, 6]);
        let first = &found[0];
        let expected = Position { x: -(11.0 + 31.0 / 60.0), y: 48.0 + 7.038 / 60.0 };
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let position = first.position().unwrap();
        assert!(near(position.x, expected.x) && near(position.y, expected.y), "{position:?}");
        assert_eq!(first.date_time(), date_time("1994-03-23T23:59:58.5"));
        assert_eq!((first.speed_knots, first.course_deg), (Some(22.4), Some(84.4)));
        assert_eq!(first.altitude_m, Some(545.4));
        assert_eq!(found[1].date_time(), date_time("1994-03-23T23:59:59.5"));
        assert!(found[1].position().unwrap().y < 0.0);
        assert_eq!(found[2].date_time(), date_time("1994-03-24T00:00:00.5"));
    }

    #[test]
    fn the_date_of_zda_is_that_of_its_moment() {
        let found = moments(
            &mut Receiver::default(),
            &[
                "GPZDA,235959.00,30,01,2026,00,00",
                "GPGGA,235959.00,4807.038,N,01131.000,E,1,08,0.9,5.4,M,46.9,M,,",
                "GPZDA,000000.00,31,01,2026,00,00",
                "GPGGA,000000.00,4807.038,N,01131.000,E,1,08,0.9,5.4,M,46.9,M,,",
                "GPGGA,000001.00,4807.038,N,01131.000,E,1,08,0.9,5.4,M,46.9,M,,",
            ],
        );
        let dates: Vec<_> = found.iter().map(Moment::date_time).collect();
        let expected = ["2026-01-30T23:59:59", "2026-01-31T00:00:00", "2026-01-31T00:00:01"];
        assert_eq!(dates, expected.map(date_time));
    }

    #[test]
    fn void_positions_are_counted_and_zda_has_the_date() {
        let mut receiver = Receiver::default();
        let found = moments(
            &mut receiver,
            &[
                "GPRMC,,V,,,,,,,,,,N",
                "GPRMC,120000,V,,,,,,,010126,,,N",
                "GNZDA,120001.00,31,12,2025,00,00",
                "GNGNS,120001.00,4807.038,N,01131.000,E,NA,12,0.9,545.4,46.9,,",
                "GNGNS,120002.00,4807.038,N,01131.000,E,NN,12,0.9,545.4,46.9,,",
            ],
        );
        assert_eq!((found.len(), receiver.void), (1, 3));
        assert_eq!(found[0].date_time(), date_time("2025-12-31T12:00:01"));
    }

    #[test]
    fn wrong_fields_are_named() {
        for (kind, fields, fault) in [
            ("RMC", "120099,A,4807.038,N,01131.000,E,,,010126", "`120099` is no time of day"),
            ("RMC", "250000,A,4807.038,N,01131.000,E,,,010126", "`250000` is no time of day"),
            ("RMC", "120000,A,4867.038,N,01131.000,E,,,010126", "`4867.038,N` is no latitude"),
            ("RMC", "120000,A,4807.038,X,01131.000,E,,,010126", "`4807.038,X` is no latitude"),
            ("RMC", "120000,A,4807.038,N,01131.000,E,fast,,010126", "`fast` is no number"),
            ("RMC", "120000,A,4807.038,N,01131.000,E,,,320126", "`320126` is no date"),
            ("ZDA", "120000,32,1,2026", "`32.1.2026` is no date"),
        ] {
            let sentence = Sentence { kind, fields: fields.split(',').collect(), received: None };
            let found = Receiver::default().take(&sentence, 1).unwrap_err();
            assert!(found.contains(fault), "{found}");
        }
    }
}
