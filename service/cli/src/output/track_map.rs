//! Tracks as an SVG file: a line for each object, its colour from its number.
//!
//! North is up. A degree of longitude is drawn shorter by the cosine of the middle latitude.

use std::fmt::Write as _;

use quick_xml::escape::escape;
use shoal_client::AnswerRow;

use super::density::svg_begin;

/// Pixels of the longer side.
const PIXELS: f64 = 1_200.0;
/// Pixels around the tracks.
const MARGIN: f64 = 20.0;
/// Beyond this change of longitude between two fixes a track has crossed the antimeridian.
const HALF_TURN_DEG: f64 = 180.0;

/// The fixes of an answer, object after object.
#[derive(Clone, Debug, Default)]
pub struct TrackMap {
    tracks: Vec<Track>,
    is_geographic: bool,
}

/// The fixes of one object.
#[derive(Clone, Debug)]
struct Track {
    object: u64,
    /// Its name, or its number.
    label: String,
    points: Vec<(f64, f64)>,
}

impl TrackMap {
    /// Begins a map of longitudes and latitudes, or of metres.
    #[must_use]
    pub fn new(is_geographic: bool) -> Self {
        Self { tracks: Vec::new(), is_geographic }
    }

    /// Takes the next fix.
    pub fn add(&mut self, row: &AnswerRow) {
        let Some(fix) = &row.fix else { return };
        let is_next = self.tracks.last().is_none_or(|track| track.object != row.object);
        if is_next {
            let (object, label) = (row.object, row.label().into_owned());
            self.tracks.push(Track { object, label, points: Vec::new() });
        }
        let Some(Track { points, .. }) = self.tracks.last_mut() else { return };
        let mut x = fix.x;
        if let Some((before, _)) = points.last().filter(|_| self.is_geographic) {
            // The line continues across the antimeridian.
            x += 2.0 * HALF_TURN_DEG * ((before - x) / (2.0 * HALF_TURN_DEG)).round();
        }
        points.push((x, fix.y));
    }

    /// The fixes.
    #[must_use]
    pub fn fixes(&self) -> usize {
        self.tracks.iter().map(|track| track.points.len()).sum()
    }

    /// The file.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.tracks.iter().flat_map(|track| &track.points);
        let fold = |of: fn(&(f64, f64)) -> f64| {
            let least = points().map(of).fold(f64::INFINITY, f64::min);
            let greatest = points().map(of).fold(f64::NEG_INFINITY, f64::max);
            if least <= greatest { (least, greatest) } else { (0.0, 0.0) }
        };
        let (west_east, south_north) = (fold(|point| point.0), fold(|point| point.1));
        let middle = f64::midpoint(south_north.0, south_north.1);
        let shrink = if self.is_geographic { middle.to_radians().cos().max(0.1) } else { 1.0 };
        let width = (west_east.1 - west_east.0) * shrink;
        let height = south_north.1 - south_north.0;
        // A track without extent is drawn in the centre of a picture of minimum size.
        let scale = PIXELS / width.max(height).max(1e-6);
        let place = |(x, y): &(f64, f64)| {
            let across = (x - west_east.0) * shrink * scale + MARGIN;
            (across, (south_north.1 - y) * scale + MARGIN)
        };
        let side = |length: f64| (length * scale + 2.0 * MARGIN).ceil() as u32;
        let title = format!("{} fixes of {} objects", self.fixes(), self.tracks.len());
        let mut text = svg_begin(side(width), side(height), &title);
        for Track { object, label, points } in &self.tracks {
            // Hues differ by the golden angle, so that successive objects have distinct colours.
            let hue = (*object as f64 * 137.508) % 360.0;
            let _ = write!(
                text,
                "<g stroke=\"hsl({hue:.0} 90% 60%)\" fill=\"none\" stroke-width=\"2\" \
                 stroke-linejoin=\"round\"><title>{}</title><polyline points=\"",
                escape(label.as_str())
            );
            for point in points {
                let (x, y) = place(point);
                let _ = write!(text, "{x:.1},{y:.1} ");
            }
            text.truncate(text.trim_end().len());
            text.push_str("\"/>");
            // The newest position.
            if let Some((x, y)) = points.last().map(place) {
                let _ = write!(text, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4"/>"#);
            }
            text.push_str("</g>\n");
        }
        text.push_str("</svg>\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use shoal_client::v1::FixRecord;

    use super::*;

    fn row(object: u64, x: f64, y: f64) -> AnswerRow {
        let fix = Some(FixRecord { x, y, ..FixRecord::default() });
        AnswerRow { object, fix, ..AnswerRow::default() }
    }

    #[test]
    fn a_line_for_each_object_crosses_the_antimeridian() {
        let mut map = TrackMap::new(true);
        for (object, x, y) in
            [(7, 179.0, 60.0), (7, -179.0, 60.0), (7, 178.0, 60.0), (9, 179.0, 60.0)]
        {
            map.add(&row(object, x, y));
        }
        let svg = map.svg();
        // 3 degrees wide, no height.
        assert!(svg.contains(r#"viewBox="0 0 1240 40""#), "{svg}");
        assert!(svg.contains(r#"points="420.0,20.0 1220.0,20.0 20.0,20.0""#), "{svg}");
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 2));
        assert_eq!(map.fixes(), 4);
    }

    #[test]
    fn no_fix_and_one_place_are_drawn() {
        let mut map = TrackMap::new(false);
        assert!(map.svg().contains(r#"viewBox="0 0 40 40""#));
        map.add(&row(1, 5.0, 6.0));
        assert!(map.svg().contains(r#"points="20.0,20.0""#));
    }
}
