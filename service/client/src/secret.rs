//! A token as a client sends it. Its text never appears in logs, errors or debug output.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use http::HeaderValue;

/// Maximum length of a token, in bytes.
const SECRET_BYTES_MAX: usize = 8 << 10;

/// A token or replication secret; `Debug` hides its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

/// Why a text is no token. It does not repeat the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a token: it must be 1 to {SECRET_BYTES_MAX} visible ASCII characters without spaces")]
pub struct SecretError;

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let is_valid = (1..=SECRET_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_valid { Ok(Self(text.into())) } else { Err(SecretError) }
    }
}

impl Secret {
    /// Reads the token in a file; a byte order mark and line breaks around it are ignored.
    ///
    /// # Errors
    /// The problem, without the content of the file.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        text.trim_start_matches('\u{feff}')
            .trim()
            .parse()
            .map_err(|error: SecretError| format!("{}: {error}", file.display()))
    }

    /// The text of the token, for the one place that sends it or hashes it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The value of a header, whose debug output hides it.
    #[must_use]
    pub fn header(&self) -> Option<HeaderValue> {
        sensitive(&self.0)
    }

    /// The value of the header `authorization`, whose debug output hides it.
    #[must_use]
    pub fn bearer(&self) -> Option<HeaderValue> {
        sensitive(&format!("Bearer {}", self.0))
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_the_text() {
        let secret: Secret = "shoal_not-for-logs".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert!(!format!("{:?} {:?}", secret.header(), secret.bearer()).contains("not-for-logs"));
        assert_eq!(secret.bearer().unwrap().to_str().unwrap(), "Bearer shoal_not-for-logs");
        for bad in ["", "a b", "a\n", "ä", &"x".repeat(SECRET_BYTES_MAX + 1)] {
            assert_eq!(bad.parse::<Secret>(), Err(SecretError));
        }
    }

    #[test]
    fn a_file_may_end_with_a_line_break() {
        let path = std::env::temp_dir().join(format!("shoal-secret-{}", std::process::id()));
        std::fs::write(&path, "abc\n").unwrap();
        assert_eq!(Secret::read(&path).unwrap().expose(), "abc");
        std::fs::write(&path, "not a token\n").unwrap();
        assert!(!Secret::read(&path).unwrap_err().contains("not a token\n"));
        std::fs::remove_file(&path).unwrap();
        assert!(Secret::read(&path).unwrap_err().contains("shoal-secret"));
    }
}
