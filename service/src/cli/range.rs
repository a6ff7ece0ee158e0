//! `shoal range`: who is in this rectangle, circle or polygon?
//!
//! The region is read before a server is asked. An empty region is an answer, not an error.

use clap::Args;
use shoal_proto::v1::{self, region::Kind};

use super::error::{CliError, Exit};
use super::question::QuestionArgs;
use super::values::{CircleValue, RectValue};
use crate::client::answer::AnswerReader;
use crate::client::connection::Connection;
use crate::client::{ask, polygon};

/// Flags of `shoal range`.
#[derive(Args, Debug)]
pub struct RangeArgs {
    #[command(flatten)]
    pub(crate) region: RegionArgs,
    #[command(flatten)]
    pub(crate) question: QuestionArgs,
}

/// The region: exactly one of three.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct RegionArgs {
    /// Rectangle; west > east crosses the antimeridian
    #[arg(long, value_name = "WEST,SOUTH,EAST,NORTH", allow_hyphen_values = true)]
    pub rect: Option<RectValue>,
    /// Circle
    #[arg(long, value_name = "X,Y,RADIUS_M", allow_hyphen_values = true)]
    pub circle: Option<CircleValue>,
    /// GeoJSON file with one Polygon or MultiPolygon, bare or in a Feature; - for standard input
    #[arg(long, value_name = "FILE")]
    pub polygon: Option<String>,
}

impl RegionArgs {
    /// The region that was asked for; reads the polygon's file.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that holds no single polygon.
    pub fn region(&self) -> Result<v1::Region, CliError> {
        let Self { rect, circle, polygon: file } = self;
        let kind = match (rect, circle, file) {
            (Some(rect), ..) => Kind::Rectangle(v1::Rectangle {
                west: rect.west,
                south: rect.south,
                east: rect.east,
                north: rect.north,
            }),
            (_, Some(circle), _) => {
                Kind::Circle(v1::Circle { x: circle.x, y: circle.y, radius_m: circle.radius_m })
            }
            (.., Some(file)) => polygon::read(file)?,
            _ => {
                return Err(CliError::Usage("give --rect, --circle or --polygon".to_owned()));
            }
        };
        Ok(v1::Region { kind: Some(kind) })
    }
}

/// Asks and writes.
///
/// # Errors
/// Those of the connection, the server and of writing.
pub async fn run(
    connection: &Connection,
    args: &RangeArgs,
    region: v1::Region,
) -> Result<Exit, CliError> {
    let message = v1::RangeRequest { options: Some(args.question.options()), region: Some(region) };
    let mut queries = connection.queries();
    let answer = AnswerReader::open(connection, queries.range(connection.request(message))).await?;
    ask::write(connection, &args.question, answer).await?;
    Ok(Exit::Done)
}
