//! `shoal history export`: the fixes of a window as a file, written while they arrive. The file
//! gets its name only when it is complete.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use parquet::errors::ParquetError;
use shoal_client::v1::{self, Projection, region::Kind};
use shoal_client::{AnswerStream, Client, QueryAnswer};
use shoal_engine::Space;
use shoal_service::fleet_space;
use shoal_service::json::fleet::is_named;
use shoal_table::OutputFile;

use super::WindowArgs;
use super::wait::reaches;
use crate::connection::FleetArgs;
use crate::error::{CliError, Exit};
use crate::geoparquet::GeoParquetWriter;
use crate::object_ids::ObjectList;
use crate::output::{PastForm, PastWriter, header_json, stdout};
use crate::query::{RegionArgs, of_names, planar_geojson};
use crate::stop_signal::remove_output_at_signal;

/// Description of the GeoParquet columns in `--help`.
const COLUMNS: &str = "\
Columns of GeoParquet (version 1.1, compressed with zstd):
  object_id  unsigned integer; in a named fleet the name, a string
  time       timestamp in milliseconds, UTC
  geometry   point as WKB: longitude and latitude (OGC:CRS84), or metres (crs null)
  bbox       structure xmin, ymin, xmax, ymax: the point, for filters
  speed      m/s, null if unknown
  heading    degrees clockwise from north, null if unknown
  altitude   m, null if unknown
  valid_s    s after the time for which the fix is valid, null if it does not say
  state      unsigned integer, bits
Four row groups of 131,072 rows at a time are sorted by area; their statistics of bbox and time let
readers skip row groups. The metadata `shoal` names the fleet and the last epoch that is in.

A file has the fixes of one version of the history, at most about a billion.";

/// Flags of `shoal history export`.
#[derive(Args, Debug)]
#[command(after_long_help = COLUMNS)]
#[command(mut_group("RegionArgs", |group| group.required(false)))]
pub struct ExportArgs {
    /// File to write
    pub file: PathBuf,
    /// Format [default: by the end of the name: .parquet, .geoparquet, .csv, .geojson or .json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ExportFormat>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Write what the history has, without waiting until it has what the fleet has
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    window: WindowArgs,
    /// Only this object, a number, or a name in a named fleet; may be repeated, at most 65,536 times
    #[arg(long = "object", value_name = "ID", conflicts_with = "RegionArgs")]
    pub objects: Vec<String>,
    /// Only objects whose name matches, in a named fleet, as in truck-*
    #[arg(long = "name", value_name = "PATTERN", conflicts_with = "objects",
          value_parser = NonEmptyStringValueParser::new())]
    pub name_pattern: Option<String>,
    #[command(flatten)]
    region: Option<RegionArgs>,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Columns for DuckDB, GeoPandas and others; `shoal history import` reads it
    #[value(name = "geoparquet")]
    GeoParquet,
    /// Text, one fix a line; `shoal history import` reads it
    Csv,
    /// FeatureCollection of points (geographic fleets)
    #[value(name = "geojson")]
    GeoJson,
}

/// A checked command line.
#[derive(Clone, Debug)]
pub struct Export {
    format: ExportFormat,
    region: Option<v1::Region>,
}

impl ExportArgs {
    /// Validates the output file and reads the polygon file.
    ///
    /// # Errors
    /// [`CliError::Usage`]; as [`RegionArgs::region`].
    pub(super) fn request(&self) -> Result<Export, CliError> {
        OutputFile::check(&self.file, self.force)?;
        Ok(Export {
            format: self.format.map_or_else(|| format_of(&self.file), Ok)?,
            region: self.region.as_ref().map(RegionArgs::region).transpose()?,
        })
    }

    /// Asks for the fixes of given objects, of a region, or all.
    async fn ask(
        &self,
        client: &Client,
        fleet: &v1::Fleet,
        region: Option<v1::Region>,
        space: &Space,
    ) -> Result<AnswerStream<v1::HistoryHeader>, CliError> {
        let window = self.window.window();
        if !self.objects.is_empty() {
            let (objects, names) = ObjectList::of(fleet, &self.objects)?.into_fields();
            let fleet = fleet.name.clone();
            let request = v1::TrajectoryRequest { fleet, objects, names, window, every: None };
            return Ok(client.trajectory(request).await?);
        }
        let region = Some(region.unwrap_or_else(|| everywhere(space)));
        let projection = Projection::Fixes.into();
        let fleet = fleet.name.clone();
        let filter = of_names(self.name_pattern.as_deref());
        let request = v1::PassedRequest { fleet, filter, region, window, projection };
        Ok(client.passed(request).await?)
    }
}

fn format_of(file: &Path) -> Result<ExportFormat, CliError> {
    match file.extension().and_then(OsStr::to_str) {
        Some("parquet" | "geoparquet") => Ok(ExportFormat::GeoParquet),
        Some("csv") => Ok(ExportFormat::Csv),
        Some("geojson" | "json") => Ok(ExportFormat::GeoJson),
        _ => Err(CliError::Usage(format!(
            "the name {} does not say the format; give --format geoparquet, csv or geojson",
            file.display()
        ))),
    }
}

/// The rectangle of a whole space.
fn everywhere(space: &Space) -> v1::Region {
    let bounds = space.bounds();
    let (west, south) = space.to_api(bounds.x_min, bounds.y_min);
    let (east, north) = space.to_api(bounds.x_max, bounds.y_max);
    let rectangle = v1::Rectangle { west, south, east, north };
    v1::Region { kind: Some(Kind::Rectangle(rectangle)) }
}

/// The file as it is written.
enum Sink {
    Text(Box<PastWriter>, OutputFile),
    GeoParquet(Box<GeoParquetWriter<OutputFile>>),
}

impl Sink {
    fn rows(&mut self, rows: QueryAnswer) -> io::Result<()> {
        match self {
            Self::Text(writer, file) => writer.rows(rows.into_rows(), file),
            Self::GeoParquet(writer) => writer.rows(rows.into_rows()).map_err(io_error),
        }
    }

    /// Completes the content.
    fn end(self) -> io::Result<OutputFile> {
        match self {
            Self::Text(writer, mut file) => writer.end(&mut file).map(|()| file),
            Self::GeoParquet(writer) => writer.end().map_err(io_error),
        }
    }
}

/// Returns the system's error that caused an error of the writer.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => {
            source.downcast().map_or_else(io::Error::other, |error| *error)
        }
        other => io::Error::other(other),
    }
}

/// Waits until the history has what the fleet has, asks, and writes the file.
///
/// # Errors
/// As [`reaches`]; those of the server and of writing; then there is no file.
pub(super) async fn run(
    client: &Client,
    args: &ExportArgs,
    Export { format, region }: Export,
) -> Result<Exit, CliError> {
    let fleet = client.get_fleet(&args.fleet.fleet).await?;
    let space = fleet_space::space(&fleet)?;
    let is_geographic = space.is_geographic();
    let form = match format {
        ExportFormat::GeoJson if !is_geographic => {
            return Err(planar_geojson(&args.fleet.fleet, "geoparquet or csv"));
        }
        ExportFormat::GeoJson => Some(PastForm::GeoJson),
        ExportFormat::Csv => Some(PastForm::Csv),
        ExportFormat::GeoParquet => None,
    };
    if !args.no_wait {
        reaches(client, &fleet.name, fleet.epoch, ", or write what it has with --no-wait").await?;
    }
    let mut answer = args.ask(client, &fleet, region, &space).await?;
    let header = answer.header().clone();
    let (epoch, mut fixes) = (header.epoch, 0);
    let failed = || CliError::local(format!("writing {}", args.file.display()));
    remove_output_at_signal()?;
    let mut file = OutputFile::create(&args.file, args.force)?;
    let mut sink = match form {
        Some(form) => {
            let begun = PastWriter::begin(form, is_geographic, header, None, &mut file);
            Sink::Text(Box::new(begun.map_err(failed())?), file)
        }
        None => {
            let begun =
                GeoParquetWriter::begin(file, space, is_named(&fleet), &header_json(&header));
            Sink::GeoParquet(Box::new(begun.map_err(io_error).map_err(failed())?))
        }
    };
    while let Some(rows) = answer.next().await? {
        fixes += rows.objects.len() as u64;
        sink.rows(rows).map_err(failed())?;
    }
    sink.end().map_err(failed())?.finish()?;
    let mut out = stdout();
    let name = args.file.display();
    writeln!(out, "{fixes} fixes of the history up to epoch {epoch} in {name}")?;
    out.flush()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_says_its_format() {
        for (name, format) in [
            ("a.parquet", ExportFormat::GeoParquet),
            ("b/a.geoparquet", ExportFormat::GeoParquet),
            ("a.b.csv", ExportFormat::Csv),
            ("a.geojson", ExportFormat::GeoJson),
            ("a.json", ExportFormat::GeoJson),
        ] {
            assert_eq!(format_of(Path::new(name)).unwrap(), format);
        }
        for name in ["a", "csv", "a.csv.gz"] {
            assert!(format_of(Path::new(name)).unwrap_err().to_string().contains("--format"));
        }
    }
}
