//! The token in the headers of a call (RFC 6750, section 2.1).

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::error::TokenProblem;

/// Returns the token of a call, which must have exactly one header `authorization`, with the scheme
/// Bearer.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, TokenProblem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(TokenProblem::Missing)?;
    if values.next().is_some() {
        return Err(TokenProblem::Malformed);
    }
    let text = value.to_str().map_err(|_| TokenProblem::Malformed)?;
    let (scheme, token) = text.split_once(' ').ok_or(TokenProblem::Malformed)?;
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    // Scheme names are case-insensitive (RFC 9110, section 11.1).
    if scheme.eq_ignore_ascii_case("bearer") && is_token {
        Ok(token)
    } else {
        Err(TokenProblem::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_header_with_one_token_is_accepted() {
        let of = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
            }
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(of(&[b"Bearer abc"]), Ok("abc".to_owned()));
        assert_eq!(of(&[b"bearer abc"]), Ok("abc".to_owned()));
        assert_eq!(of(&[]), Err(TokenProblem::Missing));
        let bad: [&[&[u8]]; 8] = [
            &[b""],
            &[b"Bearer"],
            &[b"Bearer "],
            &[b"Bearer a b"],
            &[b"Bearer  a"],
            &[b"Basic abc"],
            &[b"Bearer \xff"],
            &[b"Bearer abc", b"Bearer abc"],
        ];
        for values in bad {
            assert_eq!(of(values), Err(TokenProblem::Malformed), "{values:?}");
        }
    }
}
