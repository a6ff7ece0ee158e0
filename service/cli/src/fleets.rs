//! `shoal fleets`: lists, creates, describes, renames, clears and deletes fleets.
//!
//! Writes the fleet after the change. The server validates names, spaces and limits.

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use shoal_client::{Client, Error, duration, parse_durability, v1};
use shoal_engine::{Clock, Space};
use shoal_service::fleet_space;
use shoal_service::json::FleetJson;
use shoal_service::json::fleet::is_named;

use super::error::{CliError, Exit};
use super::output::{fleet_details, fleet_table, stdout};
use super::serve::clock;
use super::values::span;

/// Flags of `shoal fleets`.
#[derive(Args, Debug)]
pub struct FleetsArgs {
    /// What to do; `list` by default.
    #[command(subcommand)]
    pub action: Option<FleetsAction>,
    /// Write JSON, one object a line
    #[arg(long, global = true)]
    pub json: bool,
}

/// What can be done with fleets.
#[derive(Subcommand, Debug)]
pub enum FleetsAction {
    /// List all fleets
    List,
    /// Create a fleet
    Create(CreateArgs),
    /// Show one fleet
    Describe(NameArgs),
    /// Give a fleet another name
    Rename(RenameArgs),
    /// Remove every object of a fleet
    Clear(NameArgs),
    /// Stop a fleet and delete it with all its objects
    #[command(alias = "drop")]
    Delete(NameArgs),
}

/// A fleet that exists.
#[derive(Args, Debug)]
pub struct NameArgs {
    /// Name of the fleet
    pub name: String,
}

/// A fleet and its new name.
#[derive(Args, Debug)]
pub struct RenameArgs {
    /// Name of the fleet
    pub name: String,
    /// Its new name: a-z, 0-9, _ and -, at most 64 characters
    pub new_name: String,
}

/// A fleet that is to be.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// Name: a-z, 0-9, _ and -, at most 64 characters
    pub name: String,
    /// Its objects have names instead of numbers
    #[arg(long)]
    pub named: bool,
    /// Take the settings that are not given from this fleet
    #[arg(long, value_name = "FLEET", default_value = "", hide_default_value = true)]
    pub like: String,
    /// Where its objects live: geographic, planar:WIDTHxHEIGHT or planar:WIDTHxHEIGHT:QUANTUM in
    /// metres [default: geographic]
    #[arg(long)]
    pub space: Option<Space>,
    /// What drives age and time to live: system, or event (the largest event time) [default:
    /// system]
    #[arg(long, value_parser = clock)]
    pub clock: Option<Clock>,
    /// Remove objects silent for this long, as in 10m; 0 keeps them [default: 0]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub ttl: Option<Duration>,
    /// How far an event clock may be ahead of a time that a second client confirms, as in 5s
    /// [default: 1s, or a tenth of --ttl if that is less]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub event_clock_lead: Option<Duration>,
    /// Most objects; 0 for the server's default
    #[arg(long, value_name = "N")]
    pub objects_max: Option<u64>,
    /// Default durability of acknowledgements: applied, or logged (synced in the log) [default:
    /// logged if the server has --data]
    #[arg(long, value_name = "LEVEL", value_parser = parse_durability)]
    pub durability: Option<v1::Durability>,
}

impl CreateArgs {
    fn request(&self) -> v1::CreateFleetRequest {
        let clock = match self.clock {
            None => v1::Clock::Unspecified,
            Some(Clock::System) => v1::Clock::System,
            Some(Clock::Event) => v1::Clock::Event,
        };
        let kind = if self.named { v1::FleetKind::Named } else { v1::FleetKind::Unspecified };
        v1::CreateFleetRequest {
            name: self.name.clone(),
            space: self.space.as_ref().map(fleet_space::to_wire),
            clock: clock.into(),
            ttl: self.ttl.map(duration::from_std),
            limits: self.objects_max.map(|objects_max| v1::FleetLimits { objects_max }),
            durability: self.durability.unwrap_or_default().into(),
            event_clock_lead: self.event_clock_lead.map(duration::from_std),
            kind: kind.into(),
            settings_of: self.like.clone(),
        }
    }
}

/// What identifies the objects of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KindChoice {
    /// Numbers.
    Numeric,
    /// Names.
    Named,
}

impl KindChoice {
    /// Returns the fleet with this name; creates one of this kind, with the server's defaults, if
    /// there is none.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a fleet of the other kind; those of the server.
    pub(super) async fn fleet(self, client: &Client, name: &str) -> Result<v1::Fleet, CliError> {
        let kind = if self == Self::Named { v1::FleetKind::Named } else { v1::FleetKind::Numeric };
        let fleet = match client.get_fleet(name).await {
            Err(Error::Server(error)) if error.reason() == Some(v1::ErrorReason::FleetUnknown) => {
                let (name, kind) = (name.to_owned(), kind.into());
                let new = v1::CreateFleetRequest { name, kind, ..Default::default() };
                client.create_fleet(new).await?
            }
            found => found?,
        };
        if is_named(&fleet) == (self == Self::Named) {
            return Ok(fleet);
        }
        let what = if is_named(&fleet) { "names" } else { "numbers" };
        let problem = "give the name of another with --fleet, or leave out --fleet-create";
        Err(CliError::Usage(format!("fleet {name} exists, and takes {what}: {problem}")))
    }
}

/// Runs the action and writes the fleets concerned.
///
/// # Errors
/// Those of the server and of writing.
pub async fn run(client: &Client, args: &FleetsArgs) -> Result<Exit, CliError> {
    let mut out = stdout();
    match args.action.as_ref().unwrap_or(&FleetsAction::List) {
        FleetsAction::List => {
            let list = client.list_fleets().await?;
            if args.json {
                for fleet in &list {
                    writeln!(out, "{}", FleetJson::new(fleet).line())?;
                }
            } else {
                writeln!(out, "{}", fleet_table(&list).trim_fmt())?;
            }
        }
        FleetsAction::Create(create) => {
            write_one(&mut out, &client.create_fleet(create.request()).await?, args.json)?;
        }
        FleetsAction::Describe(NameArgs { name }) => {
            write_one(&mut out, &client.get_fleet(name).await?, args.json)?;
        }
        FleetsAction::Rename(RenameArgs { name, new_name }) => {
            write_one(&mut out, &client.rename_fleet(name, new_name).await?, args.json)?;
        }
        FleetsAction::Clear(NameArgs { name }) => {
            let cleared = client.clear_fleet(name).await?;
            let (removed, epoch) = (cleared.removed_count, cleared.epoch);
            if args.json {
                let line = json!({ "name": name, "removed": removed, "epoch": epoch });
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "{name}: {removed} objects removed, epoch {epoch}")?;
            }
        }
        FleetsAction::Delete(NameArgs { name }) => {
            client.delete_fleet(name).await?;
            if args.json {
                writeln!(out, "{}", json!({ "name": name, "deleted": true }))?;
            } else {
                writeln!(out, "{name} deleted")?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Writes one fleet to `out`.
pub(crate) fn write_one(
    out: &mut dyn std::io::Write,
    fleet: &v1::Fleet,
    json: bool,
) -> Result<(), CliError> {
    if json {
        writeln!(out, "{}", FleetJson::new(fleet).line())?;
    } else {
        writeln!(out, "{}", fleet_details(fleet).trim_fmt())?;
    }
    Ok(())
}
