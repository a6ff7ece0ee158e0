//! Follows the elements of a GPX document.

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart};

/// Maximum depth of elements.
const DEPTH_MAX: usize = 100;
/// Maximum bytes of a text that is kept.
const TEXT_BYTES_MAX: usize = 4_096;

/// Stands for a text that is too long, as which it is refused: as a name by its control character.
const TOO_LONG: &str = "\u{0}a text that is too long";

/// What an open element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Track,
    TrackPoint,
    Other,
}

/// The texts of a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TrackPoint {
    /// The line on which its tag ends, from 1.
    pub(super) line: u64,
    pub(super) lon: Option<String>,
    pub(super) lat: Option<String>,
    pub(super) time: Option<String>,
    pub(super) speed: Option<String>,
    pub(super) course: Option<String>,
    pub(super) ele: Option<String>,
}

/// The elements so far.
#[derive(Debug, Default)]
pub(super) struct TrackReader {
    open: Vec<Element>,
    /// The name of the current track.
    pub(super) track: Option<String>,
    pub(super) point: TrackPoint,
    /// The text of the current element.
    text: String,
    /// Way points and points of routes.
    pub(super) other_points: u64,
}

impl TrackReader {
    /// Begins an element whose tag ends on `line`.
    ///
    /// # Errors
    /// There are too many elements in each other.
    pub(super) fn begin(&mut self, tag: &BytesStart<'_>, line: u64) -> Result<(), String> {
        if self.open.len() == DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} elements are in each other"));
        }
        self.text.clear();
        let element = match tag.local_name().as_ref() {
            "trk" => {
                self.track = None;
                Element::Track
            }
            "trkpt" => {
                let side = |name: &str| {
                    let side = tag.try_get_attribute(name).ok().flatten()?;
                    side.normalized_value(XmlVersion::Implicit1_0)
                        .ok()
                        .map(|text| text.into_owned())
                };
                let (lon, lat) = (side("lon"), side("lat"));
                self.point = TrackPoint { line, lon, lat, ..TrackPoint::default() };
                Element::TrackPoint
            }
            "wpt" | "rtept" => {
                self.other_points += 1;
                Element::Other
            }
            _ => Element::Other,
        };
        self.open.push(element);
        Ok(())
    }

    /// Takes a part of the text of the current element.
    pub(super) fn text(&mut self, text: &str) {
        if self.text.len() + text.len() <= TEXT_BYTES_MAX {
            self.text.push_str(text);
        } else {
            // No value is as long; what is kept makes it unreadable.
            self.text = TOO_LONG.to_owned();
        }
    }

    /// Takes a reference in the text of the current element.
    pub(super) fn reference(&mut self, reference: &BytesRef<'_>) {
        match reference.resolve_char_ref() {
            Ok(Some(character)) => self.text(character.encode_utf8(&mut [0; 4])),
            _ => self.text(resolve_predefined_entity(&reference.xml10_content()).unwrap_or("")),
        }
    }

    /// Ends an element; true if it is a point of a track.
    pub(super) fn end(&mut self, name: &str) -> bool {
        let element = self.open.pop();
        let text = self.text.trim();
        let is_in_point = self.open.contains(&Element::TrackPoint);
        if is_in_point && !text.is_empty() {
            let place = match name {
                "time" => &mut self.point.time,
                "ele" => &mut self.point.ele,
                "speed" => &mut self.point.speed,
                "course" => &mut self.point.course,
                _ => return false,
            };
            place.get_or_insert_with(|| text.to_owned());
        } else if name == "name" && self.open.last() == Some(&Element::Track) {
            self.track = Some(text.to_owned());
        }
        self.text.clear();
        element == Some(Element::TrackPoint)
    }

    /// True if an element is open.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }
}
