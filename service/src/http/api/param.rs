//! Parameters of a query string: what each accepts, and the values of a request.
//!
//! A request is checked against the same list of parameters that the OpenAPI document shows. An
//! unknown parameter, a repeated one and a value not of its kind are errors that name the
//! parameter.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value as Json, json};

use crate::http::problem::Problem;
use crate::limits::{NAME_BYTES_MAX, TOKEN_BYTES_MAX};
use crate::timestamp;

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Param {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) is_required: bool,
    pub(super) about: &'static str,
}

/// What a parameter accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A whole number from the first to the last.
    Integer(i64, i64),
    /// A finite number from the first to the last.
    Number(f64, f64),
    /// This number of finite numbers, separated by commas.
    Numbers(usize),
    /// `MIN,MAX`; a side that is left out is open.
    Interval,
    /// A time in RFC 3339, or `now`.
    Time,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Some of these words, separated by commas.
    SomeOf(&'static [&'static str]),
    /// The name of a fleet.
    Fleet,
    /// The number of an object.
    Number64,
    /// One object: its name in a named fleet, its number in a numeric one.
    Object,
    /// From 1 up to this number of objects, separated by commas.
    Objects(usize),
    /// Text of at most this number of characters.
    Text(usize),
    /// Any text.
    AnyText,
    /// A pattern of names.
    Pattern,
    /// A token in base64url.
    Token,
}

/// A value of its kind.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Integer(i64),
    Number(f64),
    Numbers(Vec<f64>),
    Flag(bool),
    Text(String),
    Words(Vec<&'static str>),
    Number64(u64),
    Objects(Vec<String>),
    Bytes(Vec<u8>),
}

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct Query(Vec<(&'static str, Value)>);

/// Maximum number of digits of an object id.
const OBJECT_DIGITS: usize = 20;

impl Param {
    /// A parameter that may be left out.
    pub(super) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, is_required: false, about }
    }

    /// The same parameter, but required.
    pub(super) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Its description in the OpenAPI document.
    pub(super) fn open_api(&self, place: &str) -> Json {
        let mut param = json!({
            "name": self.name,
            "in": place,
            "required": self.is_required,
            "description": self.about,
            "schema": self.kind.schema(),
        });
        if matches!(self.kind, Kind::Numbers(_) | Kind::SomeOf(_) | Kind::Objects(_)) {
            param["style"] = "form".into();
            param["explode"] = false.into();
        }
        param
    }
}

impl Kind {
    fn schema(self) -> Json {
        let object = json!({ "type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX });
        match self {
            Self::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Self::Number(min, max) => {
                let mut schema = json!({ "type": "number" });
                for (key, bound) in [("minimum", min), ("maximum", max)] {
                    if bound.is_finite() {
                        schema[key] = bound.into();
                    }
                }
                schema
            }
            Self::Numbers(count) => json!({
                "type": "array",
                "items": { "type": "number" },
                "minItems": count,
                "maxItems": count,
            }),
            Self::Interval => {
                let side = r"(-?[0-9]{1,9}(\.[0-9]{1,9})?)?";
                json!({ "type": "string", "pattern": format!("^{side},{side}$") })
            }
            Self::Time => json!({
                "anyOf": [{ "type": "string", "format": "date-time" }, { "const": "now" }],
            }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::OneOf(words) => json!({ "type": "string", "enum": words }),
            Self::SomeOf(words) => json!({
                "type": "array",
                "items": { "type": "string", "enum": words },
                "minItems": 1,
            }),
            Self::Fleet => json!({ "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" }),
            Self::Number64 => json!({ "type": "string", "pattern": "^[0-9]{1,20}$" }),
            Self::Object => object,
            Self::Objects(max) => {
                json!({ "type": "array", "items": object, "minItems": 1, "maxItems": max })
            }
            Self::Text(max) => json!({ "type": "string", "maxLength": max }),
            Self::AnyText => json!({ "type": "string" }),
            Self::Pattern => json!({ "type": "string", "minLength": 1, "maxLength": 512 }),
            Self::Token => {
                json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]*$", "maxLength": 1366 })
            }
        }
    }

    fn value(self, text: &str) -> Result<Value, String> {
        let word = |words: &[&'static str], text: &str| {
            let found = words.iter().find(|word| **word == text).copied();
            found.ok_or_else(|| format!("`{text}` is none of {}", words.join(", ")))
        };
        Ok(match self {
            Self::Integer(min, max) => Value::Integer(integer(text, min, max)?),
            Self::Number(min, max) => {
                let number = number(text)?;
                if !(min..=max).contains(&number) {
                    return Err(format!("{number} is outside {min} to {max}"));
                }
                Value::Number(number)
            }
            Self::Numbers(count) => {
                let numbers = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
                if numbers.len() != count {
                    return Err(format!("{} numbers; give {count}", numbers.len()));
                }
                Value::Numbers(numbers)
            }
            Self::Interval => Value::Numbers(interval(text)?),
            Self::Time => Value::Integer(time(text)?),
            Self::Flag => Value::Flag(word(&["true", "false"], text)? == "true"),
            Self::OneOf(words) => Value::Words(vec![word(words, text)?]),
            Self::SomeOf(words) => {
                let some = text.split(',').map(|text| word(words, text));
                Value::Words(some.collect::<Result<_, _>>()?)
            }
            Self::Number64 => Value::Number64(object_number(text)?),
            Self::Object => Value::Objects(vec![object(text)?]),
            Self::Objects(max) => {
                let count = text.split(',').count();
                if count > max {
                    return Err(format!("{count} objects exceed the limit of {max}"));
                }
                Value::Objects(text.split(',').map(object).collect::<Result<_, _>>()?)
            }
            Self::Text(max) if text.chars().count() > max => {
                return Err(format!("longer than {max} characters"));
            }
            Self::Pattern if text.is_empty() => return Err("a pattern is not empty".to_owned()),
            // The services check names and patterns.
            Self::Fleet | Self::Text(_) | Self::AnyText | Self::Pattern => {
                Value::Text(text.to_owned())
            }
            Self::Token => Value::Bytes(token(text)?),
        })
    }
}

/// A time as text, Unix milliseconds.
fn time(text: &str) -> Result<i64, String> {
    if text.parse::<i64>().is_ok() {
        return Err(format!("`{text}` is a number: the parameter with _ms takes these"));
    }
    // A plus of an offset that was sent as it is.
    let moment = match text.rsplit_once(' ') {
        Some((moment, offset)) if moment.contains(':') => format!("{moment}+{offset}"),
        _ => text.to_owned(),
    };
    timestamp::parse(&moment)
}

fn integer(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let parsed: Result<i64, _> = text.parse();
    let parsed = parsed.map_err(|_| format!("`{text}` is not a whole number"))?;
    if (min..=max).contains(&parsed) {
        return Ok(parsed);
    }
    Err(format!("{parsed} is outside {min} to {max}"))
}

fn number(text: &str) -> Result<f64, String> {
    // Rust reads `inf` and `NaN` as well, and a sign that JSON does not have.
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
    let parsed = text.parse::<f64>().ok().filter(|number| is_number && number.is_finite());
    parsed.ok_or_else(|| format!("`{text}` is not a finite number"))
}

fn interval(text: &str) -> Result<Vec<f64>, String> {
    let (min, max) = text.split_once(',').ok_or_else(|| format!("`{text}` is not MIN,MAX"))?;
    let side = |text: &str, open| if text.is_empty() { Ok(open) } else { number(text) };
    Ok(vec![side(min, f64::NEG_INFINITY)?, side(max, f64::INFINITY)?])
}

/// An object of any fleet.
pub(super) fn object(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("an object is empty".to_owned()),
        1..=NAME_BYTES_MAX => Ok(text.to_owned()),
        bytes => Err(format!("an object of {bytes} bytes exceeds the limit of {NAME_BYTES_MAX}")),
    }
}

/// An object of a numeric fleet.
pub(super) fn object_number(text: &str) -> Result<u64, String> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.parse().ok().filter(|_| is_digits && text.len() <= OBJECT_DIGITS);
    parsed.ok_or_else(|| format!("`{text}` is not an object: a whole number below 2^64"))
}

/// A token as text: base64url without padding (RFC 4648, section 5).
pub(super) fn encoded_token(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a token.
pub(super) fn token(text: &str) -> Result<Vec<u8>, String> {
    let bytes = URL_SAFE_NO_PAD.decode(text);
    let bytes = bytes.map_err(|_| "not a token of this service".to_owned())?;
    if bytes.len() > TOKEN_BYTES_MAX {
        return Err(format!("longer than {TOKEN_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

/// The pairs of a query string. In a name, bytes that are not UTF-8 are replaced.
pub(super) fn pairs(
    text: &str,
) -> impl Iterator<Item = (String, Result<String, std::string::FromUtf8Error>)> {
    let decoded = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_encoding::percent_decode(spaced.as_bytes()).collect::<Vec<u8>>()
    };
    text.split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = String::from_utf8_lossy(&decoded(name)).into_owned();
        (name, String::from_utf8(decoded(value)))
    })
}

impl Query {
    /// Parses a query string; a parameter that is not in `known` is an error.
    pub(super) fn read(text: &str, known: &[&'static [Param]]) -> Result<Self, Problem> {
        let known = || known.iter().copied().flatten();
        let mut values = Vec::new();
        for (name, value) in pairs(text) {
            let Some(param) = known().find(|param| param.name == name) else {
                return Err(Problem::field(&name, "no parameter of this call"));
            };
            if values.iter().any(|(name, _)| *name == param.name) {
                return Err(Problem::field(param.name, "given twice"));
            }
            let value = value.map_err(|_| "not UTF-8".to_owned());
            let value = value.and_then(|value| param.kind.value(&value));
            values.push((param.name, value.map_err(|why| Problem::field(param.name, why))?));
        }
        let query = Self(values);
        match known().find(|param| param.is_required && query.get(param.name).is_none()) {
            Some(missing) => Err(Problem::field(missing.name, "missing")),
            None => Ok(query),
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Integer(integer) => Some(*integer),
            _ => None,
        }
    }

    /// The value of an integer parameter whose range has no negative numbers.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.integer(name).map(i64::unsigned_abs)
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn numbers<const N: usize>(&self, name: &str) -> Option<[f64; N]> {
        match self.get(name)? {
            Value::Numbers(numbers) => numbers.as_slice().try_into().ok(),
            _ => None,
        }
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(super) fn words(&self, name: &str) -> &[&'static str] {
        match self.get(name) {
            Some(Value::Words(words)) => words,
            _ => &[],
        }
    }

    pub(super) fn word(&self, name: &str) -> Option<&'static str> {
        self.words(name).first().copied()
    }

    pub(super) fn objects(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some(Value::Objects(objects)) => objects,
            _ => &[],
        }
    }

    pub(super) fn number64(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Number64(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        match self.get(name)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Param] = &[
        Param::new("k", Kind::Integer(1, 9), "").required(),
        Param::new("circle", Kind::Numbers(3), ""),
        Param::new("speed", Kind::Interval, ""),
        Param::new("events", Kind::SomeOf(&["enter", "left"]), ""),
        Param::new("objects", Kind::Objects(2), ""),
        Param::new("after", Kind::Number64, ""),
        Param::new("token", Kind::Token, ""),
        Param::new("from", Kind::Time, ""),
    ];

    fn read(text: &str) -> Result<Query, Problem> {
        Query::read(text, &[KNOWN])
    }

    #[test]
    fn values_are_read_by_their_kind() {
        let text =
            "k=3&circle=-1,2e0%2C3.5&speed=,4&events=left,enter&objects=007,K%C3%A4the%20%26";
        let query = read(&format!("{text}&token=AQI&after=18446744073709551615")).unwrap();
        assert_eq!(query.integer("k"), Some(3));
        assert_eq!(query.numbers("circle"), Some([-1.0, 2.0, 3.5]));
        assert_eq!(query.numbers("speed"), Some([f64::NEG_INFINITY, 4.0]));
        assert_eq!(query.words("events"), ["left", "enter"]);
        assert_eq!(query.objects("objects"), ["007", "Käthe &"]);
        assert_eq!(query.number64("after"), Some(u64::MAX));
        assert_eq!(query.bytes("token"), Some([1, 2].as_slice()));
        assert!(!read("k=1").unwrap().has("circle"));
        for from in ["13:00:00+01:00", "13:00:00%2B01:00", "12:00:00Z", "12:00"] {
            let query = read(&format!("k=1&from=2026-01-31T{from}")).unwrap();
            assert_eq!(query.integer("from"), Some(1_769_860_800_000), "{from}");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (text, named) in [
            ("", "k"),
            ("k=", "k"),
            ("k=10", "k"),
            ("k=99999999999999999999", "k"),
            ("k=1&k=2", "k"),
            ("k=1&j=2", "j"),
            ("k=1&circle=1,2", "circle"),
            ("k=1&circle=1,2,NaN", "circle"),
            ("k=1&circle=1,2,inf", "circle"),
            ("k=1&circle=1,2,1e999", "circle"),
            ("k=1&circle=1,2,+3", "circle"),
            ("k=1&speed=1", "speed"),
            ("k=1&speed=1,2,3", "speed"),
            ("k=1&events=Enter", "events"),
            ("k=1&after=18446744073709551616", "after"),
            ("k=1&after=%2B1", "after"),
            ("k=1&after=truck", "after"),
            ("k=1&objects=1,2,3", "objects"),
            ("k=1&objects=", "objects"),
            ("k=1&objects=1,", "objects"),
            (&format!("k=1&objects={}", "n".repeat(257)), "objects"),
            ("k=1&from=1769860800000", "from"),
            ("k=1&from=2026", "from"),
            ("k=1&from=yesterday", "from"),
            ("k=1&token=*", "token"),
            ("%FF%FE=1", "\u{fffd}\u{fffd}"),
            ("k=1&objects=%FF", "objects"),
        ] {
            let problem = read(text).unwrap_err();
            assert_eq!(problem.named(), Some(named), "{text}");
        }
    }
}
