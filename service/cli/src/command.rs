//! The commands of the command line, and the exit codes in its help. The flags of a command are in
//! the file of the same name; those of `get`, `range` and `nearest` are in `query`.

use clap::{Parser, Subcommand};

use super::cert::CertArgs;
use super::codec::CodecArgs;
use super::connection::ConnectionArgs;
use super::fleets::FleetsArgs;
use super::history::HistoryArgs;
use super::log::LogArgs;
use super::login::{LoginCommandArgs, LogoutArgs};
use super::names::NamesArgs;
use super::promote::PromoteArgs;
use super::query::{GetArgs, NearestArgs, RangeArgs};
use super::remove::RemoveArgs;
use super::report::ReportArgs;
use super::serve::ServeArgs;
use super::stats::StatsArgs;
use super::token::TokenArgs;
use super::unfence::UnfenceArgs;
use super::watch::WatchArgs;

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  the server, the connection or this machine failed
  2  the command line, a file or a value is wrong
  3  some rows of a report were refused
  4  an object or a fleet does not exist
  5  a log, a checkpoint or the list of fleets is damaged, missing or unreadable

Coordinates are X,Y: longitude before latitude in degrees (WGS 84), or metres in a planar fleet.";

/// A streaming moving-object server, and its client
#[derive(Parser, Debug)]
#[command(name = "shoal", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A client command with its connection.
#[derive(clap::Args, Debug)]
pub struct ConnectedCommand<T: clap::Args> {
    /// The server.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// The command's own flags.
    #[command(flatten)]
    pub args: T,
}

/// All commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a server until Ctrl-C
    Serve(Box<ServeArgs>),
    /// Compress tables into files of blocks, decompress them, and show their content
    Codec(Box<CodecArgs>),
    /// Show, check and repair the logs in the data folder of a stopped server
    Log(Box<LogArgs>),
    /// Make, list and revoke the tokens with which clients identify themselves
    Token(Box<TokenArgs>),
    /// Make certificates for trials of TLS
    Cert(Box<CertArgs>),
    /// Delete a profile that `shoal login` stored
    Logout(LogoutArgs),
    /// Use a server.
    #[command(flatten)]
    Client(Box<ClientCommand>),
}

/// Commands that use a server.
#[derive(Subcommand, Debug)]
pub enum ClientCommand {
    /// Store target, TLS settings and token in a profile, which later commands use
    Login(ConnectedCommand<LoginCommandArgs>),
    /// Show objects by id
    Get(ConnectedCommand<GetArgs>),
    /// Show every object in a region
    Range(ConnectedCommand<RangeArgs>),
    /// Show the objects nearest to a point
    Nearest(ConnectedCommand<NearestArgs>),
    /// List the names of a named fleet, also of objects that are gone
    Names(ConnectedCommand<NamesArgs>),
    /// Show objects entering, moving in and leaving a region, live
    Watch(ConnectedCommand<WatchArgs>),
    /// Send positions, from a file or one from flags
    Report(ConnectedCommand<ReportArgs>),
    /// Remove objects by id
    Remove(ConnectedCommand<RemoveArgs>),
    /// List, create, describe, clear and drop fleets
    Fleets(ConnectedCommand<FleetsArgs>),
    /// Show where objects were: tracks, who passed a region, the state at a moment
    History(ConnectedCommand<HistoryArgs>),
    /// Make a follower the leader: its fleets take changes, and the leader before is fenced
    Promote(ConnectedCommand<PromoteArgs>),
    /// Let a fleet take changes again that the promotion of another server fenced
    Unfence(ConnectedCommand<UnfenceArgs>),
    /// Show how much a fleet holds and how fast it changes
    Stats(ConnectedCommand<StatsArgs>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn negative_coordinates_are_values() {
        for line in [
            "shoal range --rect -97.9,30.1,-97.6,30.5",
            "shoal range --circle -97.7,30.2,1000 --count",
            "shoal range --circle=-97.7,30.2,1000 --speed -1..2 --altitude -5..5",
            "shoal nearest -97.7,30.2 -k 5",
            "shoal history track 7 8 --from 0 --to now --every 1m --csv",
            "shoal history as-of now",
            "shoal history as-of 2020-01-01T00:00:00Z --object 7 --rect -97.9,30.1,-97.6,30.5",
            "shoal history export a.parquet --from 0 --rect -97.9,30.1,-97.6,30.5 --force",
            "shoal history export a --format geojson --from 0 --object 7 --object 8",
            "shoal history import a.parquet --producer a --batch 9 --durability applied",
            "shoal watch --circle -97.7,30.2,1000 --events enter,left --format geojson --count 3",
            "shoal watch --rect -97.9,30.1,-97.6,30.5 --judge crossing --leave-dwell 5s",
            "shoal nearest -k 5 -97.7,-30.2 --json",
            "shoal report --object 1 --x -97.7 --y -30 --altitude -3.5",
            "shoal token new a --fleet truck-* --fleet bus --right report,query --expires-in 90d",
            "shoal token new a --right query --quota streams=4,regions=9 --not-before 2027-01-31",
            "shoal token list --tokens tokens.toml --json",
            "shoal token revoke a b --tokens tokens.toml",
            "shoal cert dev --out certs --host shoal.example --force",
            "shoal unfence default --yes",
            "shoal get 1 --target https://a:1 --tls-ca ca.pem --tls-cert c.pem --tls-key k.pem",
            "shoal login --target https://a:1 --tls-ca ca.pem --profile depot",
            "shoal logout --profile depot",
        ] {
            let parsed = Cli::try_parse_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
        for line in [
            "shoal range",
            "shoal range --rect 1,2,3",
            "shoal range --rect 1,2,3,4 --circle 1,2,3",
            "shoal get",
            "shoal get 1 --json --geojson",
            "shoal range --rect 1,2,3,4 --ids --count",
            "shoal report",
            "shoal report --object 1",
            "shoal unfence default",
            "shoal watch",
            "shoal watch --rect 1,2,3,4 --events arrive",
            "shoal watch --rect 1,2,3,4 --move-interval 2d",
            "shoal watch --rect 1,2,3,4 --hysteresis -1",
            "shoal watch --rect 1,2,3,4 --count 0",
            "shoal report day.csv --object 1 --x 1 --y 2",
            "shoal serve --speedup 0 --replay x",
            "shoal codec",
            "shoal codec compress",
            "shoal codec compress a.csv --key id --no-key",
            "shoal codec compress a.csv --separator \"",
            "shoal codec plan a.csv --block-rows 0",
            "shoal history track --from 0 --to now",
            "shoal history passed --from 0 --to now",
            "shoal history export --from 0",
            "shoal history export a.csv --from 0 --object 7 --rect 1,2,3,4",
            "shoal history import",
            "shoal history as-of soon",
            "shoal history as-of 0 --rect 1,2,3,4 --circle 1,2,3",
            "shoal log",
            "shoal log inspect",
            "shoal log verify data fleet --yes",
            "shoal log repair data",
            "shoal token new a",
            "shoal token new a --right root",
            "shoal token new a --right query --fleet A",
            "shoal token new a --right query --quota streams",
            "shoal token new a --right query --not-before 253402300800000",
            "shoal token revoke --tokens tokens.toml",
            "shoal get 1 --tls-cert c.pem",
            "shoal get 1 --profile ../depot",
            "shoal login --token shoal_1",
        ] {
            let parsed = Cli::try_parse_from(line.split(' '));
            assert_eq!(parsed.map(|_| ()).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
