//! Map tiles that the operator provides: an archive on this machine, sent by ranges, or the address
//! of a tile server, which the page may then call.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::limits::TILE_RANGE_BYTES_MAX;
use super::problem::Problem;
use crate::error::ServiceError;

/// Where the page finds the archive.
const ARCHIVE_PATH: &str = "tiles.pmtiles";

/// The setting `--map-tiles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapTiles {
    /// An archive of PMTiles on this machine.
    File(PathBuf),
    /// An archive, or a template with `{z}`, `{x}` and `{y}`, on another server.
    Url(String),
}

impl FromStr for MapTiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains("://") {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let is_template = ["{z}", "{x}", "{y}"].iter().all(|it| text.contains(it));
        let is_plain =
            text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"';,".contains(&byte));
        if origin_of(text).is_none() || !is_plain || !(is_template || text.ends_with(".pmtiles")) {
            return Err(format!(
                "`{text}` is neither a file, nor http(s)://HOST/FILE.pmtiles, nor a URL with \
                 {{z}}, {{x}} and {{y}}"
            ));
        }
        Ok(Self::Url(text.to_owned()))
    }
}

impl fmt::Display for MapTiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(url) => url.fmt(f),
        }
    }
}

/// `https://host:port` of a URL.
fn origin_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next()?;
    (["http", "https"].contains(&scheme) && !host.is_empty() && !host.contains(['@', '{']))
        .then(|| &url[..scheme.len() + 3 + host.len()])
}

/// The description of the tiles that the page receives.
#[derive(Clone, Debug)]
pub(crate) struct Tiles {
    archive: Option<Arc<Archive>>,
    settings: String,
    policy: HeaderValue,
}

#[derive(Debug)]
struct Archive {
    file: File,
    bytes: u64,
}

impl Tiles {
    /// # Errors
    /// [`ServiceError::Io`] if the archive cannot be opened.
    pub(crate) fn open(setting: Option<&MapTiles>) -> Result<Self, ServiceError> {
        let (archive, url) = match setting {
            None => (None, None),
            Some(MapTiles::File(path)) => {
                (Some(Arc::new(Archive::open(path)?)), Some(ARCHIVE_PATH))
            }
            Some(MapTiles::Url(url)) => (None, Some(url.as_str())),
        };
        let origin = url.and_then(origin_of).map_or(String::new(), |it| format!(" {it}"));
        let policy = format!(
            "default-src 'none'; script-src 'self'; worker-src 'self'; \
             style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:{origin}; \
             connect-src 'self'{origin}; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        let policy = HeaderValue::from_str(&policy).map_err(|error| ServiceError::Io {
            what: "--map-tiles".to_owned(),
            source: std::io::Error::other(error),
        })?;
        Ok(Self { archive, settings: serde_json::json!({ "tiles": url }).to_string(), policy })
    }

    /// What the page may load and call.
    pub(super) fn policy(&self) -> &HeaderValue {
        &self.policy
    }

    /// `GET /map/settings.json`.
    pub(super) fn settings(&self) -> Response {
        let headers =
            [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")];
        (headers, Body::from(self.settings.clone())).into_response()
    }

    /// `GET /map/tiles.pmtiles`: a range of the archive.
    pub(super) async fn range(&self, request: &HeaderMap) -> Response {
        let Some(archive) = self.archive.clone() else {
            let detail = "the server has no archive of tiles";
            return Problem::new(StatusCode::NOT_FOUND, "METHOD_UNKNOWN", detail.to_owned())
                .into_response();
        };
        let wanted = request.get(header::RANGE).and_then(|range| range.to_str().ok());
        let Some((first, last)) = wanted.and_then(|range| parse_range(range, archive.bytes)) else {
            let all = format!("bytes */{}", archive.bytes);
            let detail = format!("Range is not one range of the {} bytes", archive.bytes);
            let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "RANGE", detail);
            return ([(header::CONTENT_RANGE, all)], problem).into_response();
        };
        let all = archive.bytes;
        let read = tokio::task::spawn_blocking(move || archive.read(first, last)).await;
        match read {
            Ok(Ok(bytes)) => {
                let headers = [
                    (header::CONTENT_TYPE, "application/vnd.pmtiles".to_owned()),
                    (header::CONTENT_RANGE, format!("bytes {first}-{last}/{all}")),
                    (header::ACCEPT_RANGES, "bytes".to_owned()),
                ];
                (StatusCode::PARTIAL_CONTENT, headers, bytes).into_response()
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

impl Archive {
    fn open(path: &Path) -> Result<Self, ServiceError> {
        let opened = File::open(path).and_then(|file| {
            let bytes = file.metadata()?.len();
            Ok(Self { file, bytes })
        });
        opened.map_err(|source| ServiceError::Io {
            what: format!("opening the tiles {}", path.display()),
            source,
        })
    }

    fn read(&self, first: u64, last: u64) -> std::io::Result<Vec<u8>> {
        let length = usize::try_from(last - first + 1).map_err(std::io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, first)?;
        Ok(bytes)
    }
}

/// First and last byte of a single range, cut at the limit; RFC 9110 lets a server send less than
/// was asked for. `None` if it cannot be satisfied, or is several ranges.
fn parse_range(text: &str, all: u64) -> Option<(u64, u64)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = match (first.trim(), last.trim()) {
        ("", suffix) => (all.checked_sub(suffix.parse::<u64>().ok()?.min(all))?, all),
        (first, "") => (first.parse().ok()?, all),
        (first, last) => (first.parse().ok()?, last.parse().ok()?),
    };
    if first >= all || last < first {
        return None;
    }
    Some((first, last.min(all - 1).min(first + TILE_RANGE_BYTES_MAX - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_the_end_and_at_the_limit() {
        for (text, range) in [
            ("bytes=0-6", Some((0, 6))),
            ("bytes=90-500", Some((90, 99))),
            ("bytes=95-", Some((95, 99))),
            ("bytes=-5", Some((95, 99))),
            ("bytes=-500", Some((0, 99))),
            ("bytes=100-", None),
            ("bytes=7-3", None),
            ("bytes=-0", None),
            ("bytes=0-1,4-5", None),
            ("bytes=a-b", None),
            ("lines=0-1", None),
        ] {
            assert_eq!(parse_range(text, 100), range, "{text}");
        }
        let cut = Some((1, TILE_RANGE_BYTES_MAX));
        assert_eq!(parse_range("bytes=1-", u64::MAX), cut);
    }

    #[test]
    fn an_address_of_tiles_is_a_template_or_an_archive() {
        for text in ["https://a.example/{z}/{x}/{y}.png", "http://b.example:8/c.pmtiles"] {
            assert_eq!(text.parse(), Ok(MapTiles::Url(text.to_owned())));
        }
        assert_eq!("a/b.pmtiles".parse(), Ok(MapTiles::File(PathBuf::from("a/b.pmtiles"))));
        for text in [
            "ftp://a.example/{z}/{x}/{y}.png",
            "https://a.example/tiles",
            "https://{x}/{z}/{y}",
            "https://a.example;script-src/{z}/{x}/{y}",
        ] {
            assert!(text.parse::<MapTiles>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_policy_allows_the_origin_of_the_tiles_alone() {
        let plain = Tiles::open(None).unwrap();
        assert!(!plain.policy().to_str().unwrap().contains("http"));
        let url = "https://a.example:8/{z}/{x}/{y}.png".parse().unwrap();
        let tiles = Tiles::open(Some(&url)).unwrap();
        let policy = tiles.policy().to_str().unwrap();
        assert!(policy.contains("connect-src 'self' https://a.example:8;"), "{policy}");
    }
}
