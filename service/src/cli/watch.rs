//! `shoal watch`: who enters, moves in and leaves this rectangle, circle or polygon?
//!
//! Writes a line for each event as it comes, those inside first, until Ctrl-C. A connection that
//! breaks is made anew and gone on with; what was lost then is told on standard error, and those
//! inside are written again.

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use shoal_engine::limits::DWELL_MS_MAX;
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;

use super::connection::{ConnectionArgs, FleetArgs};
use super::error::{CliError, Exit};
use super::question::FilterArgs;
use super::range::RegionArgs;
use super::values::{duration, metres, span};
use crate::client::connection::Connection;
use crate::client::fleet;
use crate::client::output::{EventLines, stdout};
use crate::client::watch::{Watch, events_of};

/// Flags of `shoal watch`.
#[derive(Args, Debug)]
pub struct WatchArgs {
    #[command(flatten)]
    pub(crate) region: RegionArgs,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// Form of the lines
    #[arg(long, value_enum, default_value_t = EventForm::Text, help_heading = "Output")]
    pub format: EventForm,
    /// Only ids, no records
    #[arg(long, help_heading = "Output")]
    pub ids: bool,
    /// Leave out who is inside already
    #[arg(long, help_heading = "Output")]
    pub no_snapshot: bool,
    /// End after this many lines
    #[arg(long, value_name = "N", help_heading = "Output",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

/// What is told, and when.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Events")]
pub struct RuleArgs {
    /// Only these
    #[arg(long, value_name = "EVENT,...", value_enum, value_delimiter = ',')]
    pub events: Vec<EventName>,
    /// Which fixes count
    #[arg(long, value_enum, default_value_t = Judge::Cycle)]
    pub judge: Judge,
    /// Least time between two moves of an object
    #[arg(long, value_name = "TIME", value_parser = dwell, default_value = "0")]
    pub move_interval: Duration,
    /// Enter only after so long inside
    #[arg(long, value_name = "TIME", value_parser = dwell, default_value = "0")]
    pub enter_dwell: Duration,
    /// Leave only after so long outside
    #[arg(long, value_name = "TIME", value_parser = dwell, default_value = "0")]
    pub leave_dwell: Duration,
    /// Leave only so many metres from where it was last inside
    #[arg(long, value_name = "METRES", value_parser = metres, default_value = "0",
          allow_hyphen_values = true)]
    pub hysteresis: f64,
}

/// A kind of event by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EventName {
    /// It is inside now.
    Enter,
    /// It is still inside, and reported.
    Move,
    /// It passed through between two fixes.
    Cross,
    /// It is outside now.
    Left,
    /// It was removed.
    Removed,
    /// Its record became too old.
    Expired,
    /// Inside, but the conditions do not hold any more.
    Filtered,
    /// The fleet was cleared.
    Cleared,
}

impl EventName {
    fn kind(self) -> v1::EventKind {
        match self {
            Self::Enter => v1::EventKind::Enter,
            Self::Move => v1::EventKind::Move,
            Self::Cross => v1::EventKind::Cross,
            Self::Left => v1::EventKind::Left,
            Self::Removed => v1::EventKind::Removed,
            Self::Expired => v1::EventKind::Expired,
            Self::Filtered => v1::EventKind::Filtered,
            Self::Cleared => v1::EventKind::Cleared,
        }
    }
}

/// Which fixes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Judge {
    /// The state after each cycle.
    Cycle,
    /// Each, in order.
    EveryFix,
    /// Each, and the straight lines between them.
    Crossing,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EventForm {
    /// For people.
    Text,
    /// One JSON object a line; ids are strings.
    Json,
    /// One GeoJSON Feature a line (geographic fleets).
    #[value(name = "geojson")]
    GeoJson,
}

fn dwell(text: &str) -> Result<Duration, String> {
    let time = span(text)?;
    let limit = Duration::from_millis(DWELL_MS_MAX.into());
    if time > limit {
        return Err(format!("it must be a day at most, {} ms", limit.as_millis()));
    }
    Ok(time)
}

impl WatchArgs {
    /// What is asked of the server; reads the polygon's file.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that holds no single polygon.
    pub fn request(&self) -> Result<v1::SubscribeRequest, CliError> {
        let rules = &self.rules;
        let projection = if self.ids { v1::Projection::Ids } else { v1::Projection::Fixes };
        let evaluation = match rules.judge {
            Judge::Cycle => v1::Evaluation::PerCycle,
            Judge::EveryFix => v1::Evaluation::EveryFix,
            Judge::Crossing => v1::Evaluation::Crossing,
        };
        let region = v1::RegionSubscription {
            region_id: 1,
            region: Some(self.region.region()?),
            filter: self.filter.filter(),
            events: rules.events.iter().map(|event| event.kind().into()).collect(),
            projection: projection.into(),
            evaluation: evaluation.into(),
            move_interval: Some(duration(rules.move_interval)),
            enter_dwell: Some(duration(rules.enter_dwell)),
            leave_dwell: Some(duration(rules.leave_dwell)),
            hysteresis_m: rules.hysteresis,
            snapshot: !self.no_snapshot,
        };
        let fleet = self.fleet.fleet.clone();
        Ok(v1::SubscribeRequest { fleet, regions: vec![region], ..Default::default() })
    }
}

/// Writes events until there are enough, or until Ctrl-C.
///
/// # Errors
/// Those of the connection, the server and of writing.
pub async fn run(connection: &ConnectionArgs, args: &WatchArgs) -> Result<Exit, CliError> {
    let request = args.request()?;
    let lines = lines(connection, args).await?;
    let mut watch = Watch::open(connection, request).await?;
    let ended = tokio::select! {
        ended = write(&mut watch, lines, args.count) => ended,
        caught = tokio::signal::ctrl_c() => caught.map_err(CliError::local("catching Ctrl-C")),
    };
    watch.close().await;
    ended.map(|()| Exit::Done)
}

async fn lines(connection: &ConnectionArgs, args: &WatchArgs) -> Result<EventLines, CliError> {
    let name = &args.fleet.fleet;
    let fleet = fleet::describe(&Connection::open(connection).await?, name).await?;
    let is_geographic = fleet::is_geographic(&fleet);
    if args.format == EventForm::GeoJson && !is_geographic {
        let reason = format!(
            "fleet {name} is planar: its metres are no GeoJSON coordinates; use --format json"
        );
        return Err(CliError::Usage(reason));
    }
    Ok(EventLines::new(args.format, is_geographic))
}

async fn write(watch: &mut Watch, lines: EventLines, count: Option<u64>) -> Result<(), CliError> {
    let mut left = count.unwrap_or(u64::MAX);
    loop {
        let kind = watch.next().await?;
        match &kind {
            Kind::Gap(_) => eprintln!("some events were lost"),
            Kind::Lagged(_) => eprintln!("events came faster than they were read: some were lost"),
            _ => {}
        }
        let (clock_ms, events) = events_of(kind)?;
        let mut out = stdout();
        for event in events {
            lines.write(&event, clock_ms, &mut out)?;
            left -= 1;
            if left == 0 {
                return Ok(out.flush()?);
            }
        }
        out.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn flags_become_the_region() {
        let line = "shoal watch --circle 1,2,3 --events enter,left --judge every-fix \
                    --move-interval 2s --enter-dwell 3s --leave-dwell 4s --hysteresis 5 --ids";
        let parsed = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Client(client) = parsed.command else { panic!("{line}") };
        let crate::cli::ClientCommand::Watch(watch) = *client else { panic!("{line}") };
        let region = watch.args.request().unwrap().regions.remove(0);
        assert_eq!(region.events, [v1::EventKind::Enter as i32, v1::EventKind::Left as i32]);
        assert_eq!(region.evaluation(), v1::Evaluation::EveryFix);
        assert_eq!(
            [region.move_interval, region.enter_dwell, region.leave_dwell].map(Option::unwrap),
            [2, 3, 4].map(|seconds| prost_types::Duration { seconds, nanos: 0 })
        );
        assert_eq!((region.hysteresis_m, region.snapshot), (5.0, true));
        assert_eq!(region.projection(), v1::Projection::Ids);
    }
}
