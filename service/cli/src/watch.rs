//! `shoal watch`: shows objects entering, moving in and leaving a region, live.
//!
//! Writes a line per event as it comes, members first, until Ctrl-C. A broken connection is made
//! again and the session resumed; missing events are reported on standard error.

use std::io::Write as _;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use shoal_client::v1::{self, subscribe_response::Kind};
use shoal_client::{AnswerRow, Client, Error, QueryAnswer, SubscriptionStream, duration};
use shoal_engine::EventKind;
use shoal_engine::limits::DWELL_MS_MAX;
use shoal_service::fleet_space;
use tokio::signal::unix::{SignalKind, signal};

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::logs::note;
use super::output::{EventLines, stdout};
use super::query::{FilterArgs, RegionArgs, planar_geojson};
use super::values::{metres, span};

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
    /// Leave out the objects that are inside already
    #[arg(long, help_heading = "Output")]
    pub no_snapshot: bool,
    /// End after this many lines
    #[arg(long, value_name = "N", help_heading = "Output",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

/// Which events are reported, and when.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Events")]
pub struct RuleArgs {
    /// Only these events
    #[arg(long, value_name = "EVENT,...", value_parser = event_kind(), value_delimiter = ',')]
    pub events: Vec<EventKind>,
    /// Which fixes are evaluated
    #[arg(long, value_enum, default_value_t = Judge::Cycle)]
    pub judge: Judge,
    /// Least time between two moves of an object
    #[arg(long, value_name = "TIME", value_parser = dwell, default_value = "0")]
    pub move_interval: Duration,
    /// Enter only after this long inside
    #[arg(long, value_name = "TIME", value_parser = dwell, default_value = "0")]
    pub enter_dwell: Duration,
    /// Leave only after this long outside
    #[arg(long, value_name = "TIME", value_parser = dwell, default_value = "0")]
    pub leave_dwell: Duration,
    /// Leave only at this distance, in metres, from the last position inside
    #[arg(long, value_name = "METRES", value_parser = metres, default_value = "0",
          allow_hyphen_values = true)]
    pub hysteresis: f64,
}

/// A kind of event by its name.
fn event_kind() -> impl TypedValueParser<Value = EventKind> {
    let kinds = || EventKind::ALL.into_iter().filter(|kind| *kind != EventKind::Present);
    let names = kinds()
        .map(|kind| PossibleValue::new(kind.name()).help(kind.meaning().trim_end_matches('.')));
    PossibleValuesParser::new(names).try_map(move |name| {
        kinds().find(|kind| kind.name() == name).ok_or("unknown kind of event")
    })
}

/// Which fixes are evaluated.
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
    /// The request; reads the polygon's file.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that does not hold exactly one polygon.
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
            events: rules.events.iter().map(|kind| *kind as i32).collect(),
            projection: projection.into(),
            evaluation: evaluation.into(),
            move_interval: Some(duration::from_std(rules.move_interval)),
            enter_dwell: Some(duration::from_std(rules.enter_dwell)),
            leave_dwell: Some(duration::from_std(rules.leave_dwell)),
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
/// Those of the server and of writing.
pub async fn run(
    client: &Client,
    args: &WatchArgs,
    request: v1::SubscribeRequest,
) -> Result<Exit, CliError> {
    let name = &args.fleet.fleet;
    let is_geographic = fleet_space::is_geographic(&client.get_fleet(name).await?);
    if args.format == EventForm::GeoJson && !is_geographic {
        return Err(planar_geojson(name, "--format json"));
    }
    let lines = EventLines::new(args.format, is_geographic);
    let mut subscription = client.subscribe(request).await?;
    // Installed before the first line, because its reader may send an interrupt at once.
    let caught = signal(SignalKind::interrupt());
    let mut interrupted = caught.map_err(CliError::local("catching Ctrl-C"))?;
    let ended = tokio::select! {
        ended = write(&mut subscription, lines, args.count) => ended,
        _ = interrupted.recv() => Ok(()),
    };
    // A server that is gone has no session to close.
    let _ = subscription.session().close().await;
    ended.map(|()| Exit::Done)
}

async fn write(
    subscription: &mut SubscriptionStream,
    lines: EventLines,
    count: Option<u64>,
) -> Result<(), CliError> {
    let mut left = count.unwrap_or(u64::MAX);
    loop {
        let message = match subscription.receive().await {
            Ok(Some(message)) => message,
            Ok(None) => return Err(Error::Protocol("the stream ended".to_owned()).into()),
            Err(error) if error.is_transient() => {
                note(&format!("{error}; resuming"));
                subscription.resume(error).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let Some(kind) = message.kind else { continue };
        match &kind {
            Kind::Gap(_) => note("some events were lost"),
            Kind::Lagged(_) => note("events came faster than they were read: some were lost"),
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

/// An event of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// Name of the kind, as in `left`; `present` for a member.
    pub event: String,
    /// The epoch.
    pub epoch: u64,
    /// The object, and its record if records are reported.
    pub row: AnswerRow,
}

/// The events of a message, and the fleet's clock.
///
/// # Errors
/// [`Error::Protocol`] for lists of unequal length.
fn events_of(kind: Kind) -> Result<(i64, Vec<EventRow>), Error> {
    let mut rows = Vec::new();
    let clock_ms = match kind {
        Kind::Snapshot(v1::SnapshotChunk { epoch, clock_ms, regions }) => {
            for of in regions {
                let kinds = vec!["present".to_owned(); of.objects.len()];
                let v1::RegionMembers { objects, fixes, names, .. } = of;
                let of = QueryAnswer { objects, fixes, names, ..QueryAnswer::default() };
                add(&mut rows, epoch, kinds, of)?;
            }
            clock_ms
        }
        Kind::Events(v1::EventBatch { epoch, clock_ms, regions, .. }) => {
            for of in regions {
                let kinds = of.kinds().map(name).collect();
                let v1::RegionEvents { objects, fixes, names, .. } = of;
                let of = QueryAnswer { objects, fixes, names, ..QueryAnswer::default() };
                add(&mut rows, epoch, kinds, of)?;
            }
            clock_ms
        }
        _ => 0,
    };
    Ok((clock_ms, rows))
}

fn add(
    rows: &mut Vec<EventRow>,
    epoch: u64,
    kinds: Vec<String>,
    of: QueryAnswer,
) -> Result<(), Error> {
    of.check()?;
    if kinds.len() != of.objects.len() {
        let reason = format!("{} kinds for {} objects", kinds.len(), of.objects.len());
        return Err(Error::Protocol(reason));
    }
    let events = kinds.into_iter().zip(of.into_rows());
    rows.extend(events.map(|(event, row)| EventRow { event, epoch, row }));
    Ok(())
}

/// The name of a kind in lower case, such as `region_changed`.
fn name(kind: v1::EventKind) -> String {
    match kind {
        v1::EventKind::Unspecified => "unknown".to_owned(),
        kind => kind.as_str_name().trim_start_matches("EVENT_KIND_").to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{Cli, Command};

    #[test]
    fn flags_become_the_region() {
        let line = "shoal watch --circle 1,2,3 --events enter,left --judge every-fix \
                    --move-interval 2s --enter-dwell 3s --leave-dwell 4s --hysteresis 5 --ids";
        let parsed = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Client(client) = parsed.command else { panic!("{line}") };
        let crate::ClientCommand::Watch(watch) = *client else { panic!("{line}") };
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

    #[test]
    fn events_are_named_and_unequal_lists_rejected() {
        let of = v1::RegionEvents {
            region_id: 1,
            objects: vec![3, 4],
            kinds: vec![v1::EventKind::Enter.into(), v1::EventKind::RegionChanged.into()],
            ..Default::default()
        };
        let batch =
            |of| v1::EventBatch { epoch: 9, clock_ms: 5, regions: vec![of], ..Default::default() };
        let (clock_ms, events) = events_of(Kind::Events(batch(of.clone()))).unwrap();
        let rows: Vec<_> =
            events.iter().map(|of| (of.event.as_str(), of.row.object, of.epoch)).collect();
        assert_eq!((clock_ms, rows), (5, vec![("enter", 3, 9), ("region_changed", 4, 9)]));
        let torn = v1::RegionEvents { objects: vec![1], ..of };
        let error = events_of(Kind::Events(batch(torn))).unwrap_err().to_string();
        assert!(error.contains("2 kinds for 1 objects"), "{error}");
        assert!(events_of(Kind::Progress(v1::Progress::default())).unwrap().1.is_empty());
    }
}
