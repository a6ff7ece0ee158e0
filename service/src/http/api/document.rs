//! The body of a request as a document: read whole within its limit, and parsed into a type.
//!
//! Documents in progress share a budget, divided by connection, which is charged as their bytes
//! arrive and until their calls end. A sender that is too slow loses its place. An error in a
//! document names the path of the wrong member.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use http::{StatusCode, header};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use super::call::Call;
use super::strict::Strict;
use crate::error::ServiceError;
use crate::http::problem::Problem;
use crate::limits::{MESSAGE_GRACE_MS, MESSAGE_RATE_MIN_BYTES};

/// The error for a client that sent nothing for too long.
pub(super) fn stalled(detail: String) -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, "MESSAGE_STALLED", detail)
}

impl Call {
    /// The media type of the body, which is one that the route accepts.
    ///
    /// # Errors
    /// 415 for any other media type.
    pub(super) fn media_type(&self) -> Result<&'static str, Problem> {
        let given = self.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let given = given.unwrap_or_default();
        let name = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let known = self.route.body.iter().find(|media| media.name == name);
        known.map(|media| media.name).ok_or_else(|| {
            let names: Vec<_> = self.route.body.iter().map(|media| media.name).collect();
            let detail = format!("content type `{given}`; give {}", names.join(" or "));
            Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "CONTENT_TYPE", detail)
        })
    }

    /// Reads the body.
    ///
    /// # Errors
    /// 413 beyond `bytes_max`, 408 for a slow sender, 504 after the time limit of the call.
    pub(super) async fn document(&mut self, bytes_max: usize) -> Result<Vec<u8>, Problem> {
        let Some(end) = self.deadline() else { return self.whole_body(bytes_max).await };
        let late = |_| Err(Problem::from(Status::from(ServiceError::Deadline)));
        timeout_at(end, self.whole_body(bytes_max)).await.unwrap_or_else(late)
    }

    async fn whole_body(&mut self, bytes_max: usize) -> Result<Vec<u8>, Problem> {
        let too_large = || {
            let detail = format!("the body is longer than {bytes_max} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "MESSAGE_TOO_LARGE", detail)
        };
        let stated = self.body().size_hint();
        if stated.lower() > bytes_max as u64 {
            return Err(too_large());
        }
        let expected =
            stated.upper().map_or(bytes_max, |upper| upper.min(bytes_max as u64) as usize);
        let (mut begun, mut bytes) = (Instant::now(), Vec::new());
        loop {
            let patience = MESSAGE_GRACE_MS + 1_000 * bytes.len() as u64 / MESSAGE_RATE_MIN_BYTES;
            let end = begun + Duration::from_millis(patience);
            match timeout_at(end, self.body().next()).await {
                Ok(Ok(Some(data))) if bytes.len() + data.len() > bytes_max => {
                    return Err(too_large());
                }
                Ok(Ok(Some(data))) => {
                    // The time for which the document waits is not the sender's.
                    let waiting = Instant::now();
                    self.charge(bytes.len() + data.len(), expected).await?;
                    begun += waiting.elapsed();
                    bytes.extend_from_slice(&data);
                }
                Ok(Ok(None)) => return Ok(bytes),
                Ok(Err(problem)) => return Err(problem),
                Err(_) => {
                    let received = bytes.len();
                    return Err(stalled(format!(
                        "{received} bytes of the body after {patience} ms"
                    )));
                }
            }
        }
    }

    /// Charges a document for `bytes` bytes, of about `expected` in the end.
    async fn charge(&mut self, bytes: usize, expected: usize) -> Result<(), Problem> {
        let (client, budget) = (self.client(), self.app.documents().clone());
        let charge = self.charge.get_or_insert_with(|| budget.charge());
        while charge.bytes() < bytes {
            let step = charge.step(expected.max(bytes));
            if !charge.is_whole() {
                let granted = budget.clone().reserve(client, step).await;
                charge.keep(granted.map_err(|error| Problem::from(Status::from(error)))?);
            }
            charge.add(step);
        }
        Ok(())
    }

    /// Reads a JSON document of a type.
    ///
    /// # Errors
    /// Those of [`Call::document`]; 400 names what is wrong where.
    pub(super) async fn parsed<T: DeserializeOwned>(
        &mut self,
        bytes_max: usize,
    ) -> Result<T, Problem> {
        self.media_type()?;
        parse(&self.document(bytes_max).await?)
    }
}

/// Parses a document.
///
/// # Errors
/// FIELD with the path of a wrong member, MALFORMED for text that is no JSON.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(Strict(&mut reader));
    let parsed: T = parsed.map_err(|error| {
        let (path, inner) = (error.path().to_string(), error.inner());
        match inner.classify() {
            serde_json::error::Category::Data => wrong(&path, inner),
            _ => malformed(inner),
        }
    })?;
    reader.end().map_err(|error| malformed(&error))?;
    Ok(parsed)
}

/// The problem of a member, in the words of JSON.
fn wrong(path: &str, error: &serde_json::Error) -> Problem {
    // The path says where.
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    let path = if path == "." { "" } else { path };
    if let Some(name) = text.strip_prefix("missing field `") {
        let (name, dot) = (name.trim_end_matches('`'), if path.is_empty() { "" } else { "." });
        return Problem::field(&format!("{path}{dot}{name}"), "missing");
    }
    let (found, expected) = text.split_once(", expected ").unwrap_or((text, ""));
    let found = match found {
        "invalid type: sequence" => "a list",
        "invalid type: map" => "an object",
        "invalid type: null" => "null",
        other => other.trim_start_matches("invalid type: ").trim_start_matches("invalid value: "),
    };
    let expected = match expected {
        "" => String::new(),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => {
            ", expected a whole number in range".into()
        }
        "f32" | "f64" => ", expected a number".into(),
        "a sequence" => ", expected a list".into(),
        structure if structure.starts_with("struct ") => ", expected an object".into(),
        other => format!(", expected {other}"),
    };
    Problem::field(if path.is_empty() { "body" } else { path }, format!("{found}{expected}"))
}

fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "MALFORMED", format!("not JSON: {error}"))
}

/// Reads a list of at most `MAX` elements; what follows is refused before it is kept.
///
/// # Errors
/// Those of the elements, or a longer list.
pub(super) fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct List<T, const MAX: usize>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut elements = Vec::new();
            while elements.len() < MAX
                && let Some(element) = list.next_element()?
            {
                elements.push(element);
            }
            match list.next_element::<IgnoredAny>()? {
                None => Ok(elements),
                Some(_) => Err(A::Error::invalid_length(MAX + 1, &self)),
            }
        }
    }
    deserializer.deserialize_seq(List::<T, MAX>(PhantomData))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code, reason = "only its type counts")]
        a: u8,
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        for (text, path) in [
            (r#"[{"a":1},{"a":256}]"#, Some("[1].a")),
            (r#"[{"a":1},{"b":1}]"#, Some("[1].b")),
            (r#"[{"a":1},{}]"#, Some("[1].a")),
            (r#"[[1]]"#, Some("[0]")),
            ("5", Some("body")),
            (r#"[{"a":1"#, None),
            (r#"[{"a":NaN}]"#, None),
            ("[] x", None),
            ("", None),
        ] {
            let problem = parse::<Vec<Inner>>(text.as_bytes()).unwrap_err();
            assert_eq!(problem.named(), path, "{text}");
            let detail = format!("{problem:?}");
            assert!(!detail.contains("struct ") && !detail.contains("u8"), "{detail}");
        }
    }
}
