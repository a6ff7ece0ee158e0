//! A map of densities, north up: as characters for a terminal, as PNG and as SVG.
//!
//! Colours follow the logarithm of the count, because a road has a thousand times the fixes of a
//! field. If there are more squares than pixels, neighbouring squares are joined.

use std::collections::HashMap;
use std::fmt::Write as _;

use shoal_client::DensityCounts;

/// Characters from the least count to the greatest.
const CHARACTERS: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// Colours (RGB) from the least count to the greatest, dark to light in even steps of brightness.
const COLOURS: [[u8; 3]; 6] =
    [[40, 11, 84], [101, 21, 110], [159, 42, 99], [212, 72, 66], [245, 125, 21], [252, 255, 164]];
/// Background colour (RGB).
const BACKGROUND: [u8; 3] = [0, 0, 4];
/// Maximum width of the text, characters.
const TEXT_COLUMNS: u32 = 100;
/// A character is about twice as high as it is wide.
const CHARACTER_ASPECT: f64 = 2.0;
/// Approximate length of the longer side of a picture, pixels.
const PIXELS: u32 = 1_200;

/// Numbers of fixes by square, to be drawn.
#[derive(Clone, Debug)]
pub struct DensityMap {
    /// Fixes by column and row.
    squares: HashMap<(i32, i32), u64>,
    /// Least and greatest column; `rows` alike. An empty map has one square.
    columns: (i32, i32),
    rows: (i32, i32),
    cell: f64,
    is_geographic: bool,
}

/// Counts of squares or of joined squares, row by row from the north-west.
struct Raster {
    counts: Vec<u64>,
    columns: u32,
    rows: u32,
}

impl DensityMap {
    /// Creates a map with the counts of all steps added.
    #[must_use]
    pub fn new(density: &DensityCounts, is_geographic: bool) -> Self {
        let mut squares: HashMap<(i32, i32), u64> = HashMap::new();
        for square in &density.squares {
            *squares.entry((square.column, square.row)).or_default() += square.fixes;
        }
        let range = |of: fn(&(i32, i32)) -> i32| {
            let least = squares.keys().map(of).min().unwrap_or(0);
            (least, squares.keys().map(of).max().unwrap_or(0))
        };
        let (columns, rows) = (range(|place| place.0), range(|place| place.1));
        Self { columns, rows, cell: density.cell, is_geographic, squares }
    }

    /// Ratio of height to width of a drawn square. In degrees it grows towards the poles, because
    /// a degree of longitude gets shorter.
    fn aspect(&self) -> f64 {
        let middle =
            f64::midpoint(f64::from(self.rows.0), f64::from(self.rows.1) + 1.0) * self.cell;
        if self.is_geographic { 1.0 / middle.to_radians().cos().max(0.1) } else { 1.0 }
    }

    /// Creates a raster whose cells are blocks of `columns` by `rows` squares.
    fn raster(&self, columns: u32, rows: u32) -> Raster {
        let within = |value: i32, from: i32, by: u32| value.abs_diff(from) / by;
        let width = within(self.columns.1, self.columns.0, columns) + 1;
        let height = within(self.rows.1, self.rows.0, rows) + 1;
        let mut counts = vec![0; width as usize * height as usize];
        for ((column, row), fixes) in &self.squares {
            let x = within(*column, self.columns.0, columns) as usize;
            // North is up.
            let y = within(*row, self.rows.1, rows) as usize;
            counts[y * width as usize + x] += fixes;
        }
        Raster { counts, columns: width, rows: height }
    }

    /// The raster of a picture, and the pixels of a square.
    fn picture(&self) -> (Raster, (u32, u32)) {
        let aspect = self.aspect();
        let width = f64::from(self.columns.1.abs_diff(self.columns.0)) + 1.0;
        let height = (f64::from(self.rows.1.abs_diff(self.rows.0)) + 1.0) * aspect;
        let pixels = f64::from(PIXELS) / width.max(height);
        let joined = (1.0 / pixels).ceil().max(1.0);
        let side = (pixels * joined).floor().clamp(1.0, 64.0);
        let raster = self.raster(joined as u32, joined as u32);
        (raster, (side as u32, (side * aspect).round().max(1.0) as u32))
    }

    /// Lines of characters.
    #[must_use]
    pub fn text(&self) -> String {
        let columns = self.columns.1.abs_diff(self.columns.0) / TEXT_COLUMNS + 1;
        let rows = (CHARACTER_ASPECT * f64::from(columns) / self.aspect()).round().max(1.0);
        let raster = self.raster(columns, rows as u32);
        let greatest = raster.greatest();
        let mut text = String::new();
        for row in raster.counts.chunks(raster.columns as usize) {
            let line = row.iter().map(|count| match shade(*count, greatest) {
                Some(shade) => CHARACTERS[level(shade, CHARACTERS.len())],
                None => ' ',
            });
            let line: String = line.collect();
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    /// A line with the number of fixes, the greatest count and the extent.
    #[must_use]
    pub fn summary(&self) -> String {
        let fixes: u64 = self.squares.values().sum();
        let Some(greatest) = self.squares.values().max() else {
            return "0 fixes".to_owned();
        };
        let unit = if self.is_geographic { "degrees" } else { "m" };
        let side = |(first, last): (i32, i32)| {
            let edge = |index: f64| decimal(index * self.cell);
            format!("{} to {}", edge(f64::from(first)), edge(f64::from(last) + 1.0))
        };
        format!(
            "{fixes} fixes, at most {greatest} in a square of {} {unit}; x {}, y {}",
            decimal(self.cell),
            side(self.columns),
            side(self.rows)
        )
    }

    /// A PNG file.
    #[must_use]
    pub fn png(&self) -> Vec<u8> {
        let (raster, (width, height)) = self.picture();
        let mut file = Vec::new();
        let mut encoder =
            png::Encoder::new(&mut file, raster.columns * width, raster.rows * height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let greatest = raster.greatest();
        let mut pixels = Vec::new();
        for row in raster.counts.chunks(raster.columns as usize) {
            let line = row.iter().flat_map(|count| {
                let colour = shade(*count, greatest).map_or(BACKGROUND, colour);
                std::iter::repeat_n(colour, width as usize).flatten()
            });
            let line: Vec<u8> = line.collect();
            (0..height).for_each(|_| pixels.extend_from_slice(&line));
        }
        let written = encoder.write_header().and_then(|mut file| file.write_image_data(&pixels));
        written.expect("memory takes a picture of the size that the header states");
        file
    }

    /// An SVG file.
    #[must_use]
    pub fn svg(&self) -> Vec<u8> {
        let (raster, (width, height)) = self.picture();
        let (greatest, columns) = (raster.greatest(), raster.columns as usize);
        let (x, y) = (raster.columns * width, raster.rows * height);
        let mut text = svg_begin(x, y, &self.summary());
        for (index, count) in raster.counts.iter().enumerate() {
            let Some(shade) = shade(*count, greatest) else { continue };
            let (x, y) = ((index % columns) as u32 * width, (index / columns) as u32 * height);
            let colour = css(colour(shade));
            let _ = writeln!(
                text,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
                 fill=\"{colour}\"><title>{count}</title></rect>"
            );
        }
        text.push_str("</svg>\n");
        text.into_bytes()
    }
}

/// A coordinate without the noise of binary fractions: no space is finer than 7 digits.
#[must_use]
pub fn decimal(value: f64) -> String {
    let text = format!("{value:.7}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Raster {
    fn greatest(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }
}

/// The begin of an SVG file with a background and a title.
pub(super) fn svg_begin(width: u32, height: u32, title: &str) -> String {
    let background = css(BACKGROUND);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\">\n<title>{title}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{background}\"/>\n"
    )
}

/// Logarithm of a count, scaled to 0 (one fix) to 1 (`greatest`); `None` for a count of 0.
fn shade(count: u64, greatest: u64) -> Option<f64> {
    let greatest = (greatest as f64).ln().max(f64::MIN_POSITIVE);
    (count > 0).then(|| ((count as f64).ln() / greatest).clamp(0.0, 1.0))
}

fn level(shade: f64, levels: usize) -> usize {
    ((shade * levels as f64) as usize).min(levels - 1)
}

fn colour(shade: f64) -> [u8; 3] {
    let place = shade * (COLOURS.len() - 1) as f64;
    let index = (place as usize).min(COLOURS.len() - 2);
    let part = place - index as f64;
    std::array::from_fn(|channel| {
        let (from, to) =
            (f64::from(COLOURS[index][channel]), f64::from(COLOURS[index + 1][channel]));
        (from + (to - from) * part).round() as u8
    })
}

fn css([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use shoal_client::{DensitySquare, v1};

    use super::*;

    fn map(squares: &[(i32, i32, u64)], is_geographic: bool) -> DensityMap {
        let square = |&(column, row, fixes)| DensitySquare { time_ms: 0, column, row, fixes };
        let squares = squares.iter().map(square).collect();
        let header = v1::HistoryHeader::default();
        DensityMap::new(&DensityCounts { header, cell: 0.5, squares }, is_geographic)
    }

    #[test]
    fn text_has_the_north_on_top_and_joins_rows_of_half_height() {
        let corner = map(&[(-1, 1, 1), (0, 1, 81), (0, 1, 19), (2, 0, 10), (2, -2, 1)], false);
        assert_eq!(corner.text(), ".@ +\n   .\n");
        let summary = "112 fixes, at most 100 in a square of 0.5 m; x -0.5 to 1.5, y -1 to 1";
        assert_eq!(corner.summary(), summary);
        let wide = map(&[(0, 0, 1), (9_999, 0, 5)], false).text();
        assert_eq!(wide, format!(".{}@\n", " ".repeat(98)));
        assert_eq!(map(&[], true).summary(), "0 fixes");
    }

    #[test]
    fn pictures_have_a_pixel_of_its_colour_for_each_square() {
        // At 60 degrees a square is twice as high as wide.
        let map = map(&[(0, 119, 1), (1, 120, 7)], true);
        let file = map.png();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (128, 256));
        let pixel = |x: u32, y: u32| &pixels[(y * info.width + x) as usize * 3..][..3];
        let corners = [pixel(0, 0), pixel(127, 0), pixel(0, 255), pixel(127, 255)];
        assert_eq!(corners, [&BACKGROUND, &COLOURS[5], &COLOURS[0], &BACKGROUND]);
        let svg = String::from_utf8(map.svg()).unwrap();
        assert_eq!((svg.matches("<rect").count(), svg.matches("<title>").count()), (3, 3));
        assert!(svg.contains("#fcffa4") && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn the_whole_earth_in_small_squares_fits() {
        let map = map(&[(i32::MIN, i32::MIN, 1), (i32::MAX, i32::MAX, 2)], false);
        assert!(map.text().lines().count() <= 51);
        let (raster, pixels) = map.picture();
        assert!(raster.columns * pixels.0 <= 1_201 && raster.rows * pixels.1 <= 1_201);
        assert_eq!(raster.counts.iter().sum::<u64>(), 3);
    }
}
