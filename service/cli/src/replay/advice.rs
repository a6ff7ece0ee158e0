//! Example commands with the path of the program, the address of the server if it is not the
//! default, and a circle and an object that exist in the fleet.

use std::fmt;
use std::net::SocketAddr;

use shoal_client::v1::{self, region::Kind};
use shoal_client::{Client, Error};

use crate::config::LISTEN_DEFAULT;

/// Smallest radius of the circle, metres.
const RADIUS_M_MIN: f64 = 1_000.0;
/// Largest radius of the circle, metres.
const RADIUS_M_MAX: f64 = 64_000.0;

/// Where the server answers.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// gRPC.
    pub grpc: SocketAddr,
    /// HTTP, if it is served without tokens.
    pub http: Option<SocketAddr>,
}

/// Example commands for the current state of the fleet; see the file's head.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Advice {
    program: String,
    http: Option<SocketAddr>,
    target: String,
    centre: (f64, f64),
    radius_m: f64,
    object: u64,
}

impl Advice {
    /// Queries the objects at the busiest place; `None` if the fleet is empty.
    ///
    /// # Errors
    /// Those of the connection and the server.
    pub(super) async fn query(
        client: &Client,
        addresses: Addresses,
        busiest: (f64, f64),
    ) -> Result<Option<Self>, Error> {
        let centre = (round(busiest.0), round(busiest.1));
        let Some(object) = nearest(client, centre).await? else {
            return Ok(None);
        };
        let mut radius_m = RADIUS_M_MIN;
        while radius_m < RADIUS_M_MAX && count(client, centre, radius_m).await? == 0 {
            radius_m *= 2.0;
        }
        let target = match addresses.grpc.to_string() {
            address if address == LISTEN_DEFAULT => String::new(),
            address => format!(" --target http://{address}"),
        };
        let (program, http) = (program(), addresses.http);
        Ok(Some(Self { program, http, target, centre, radius_m, object }))
    }
}

/// Rounds to four decimals: ten metres, and short enough to type.
fn round(coordinate: f64) -> f64 {
    (coordinate * 1e4).round() / 1e4
}

async fn nearest(client: &Client, (x, y): (f64, f64)) -> Result<Option<u64>, Error> {
    let request = v1::NearestRequest { x, y, k: 1, ..Default::default() };
    let (_, answer) = client.nearest(request).await?.collect().await?;
    Ok(answer.objects.first().copied())
}

async fn count(client: &Client, (x, y): (f64, f64), radius_m: f64) -> Result<u64, Error> {
    let options =
        v1::QueryOptions { projection: v1::Projection::Count.into(), ..Default::default() };
    let circle = v1::Circle { x, y, radius_m };
    let region = v1::Region { kind: Some(Kind::Circle(circle)) };
    let request = v1::RangeRequest { options: Some(options), region: Some(region) };
    Ok(client.range(request).await?.header().total)
}

/// The command that starts the program again: its name if it was started by name, otherwise its
/// path, relative to the working directory if it is below it.
fn program() -> String {
    let name = "shoal".to_owned();
    if std::env::args_os().next().is_some_and(|first| first == *name) {
        return name;
    }
    let (Ok(path), Ok(here)) = (std::env::current_exe(), std::env::current_dir()) else {
        return name;
    };
    path.strip_prefix(&here).unwrap_or(&path).display().to_string()
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, http, target, centre: (x, y), radius_m, object } = self;
        writeln!(f, "try, in another terminal:")?;
        writeln!(f, "  {program} range --circle {x},{y},{radius_m}{target}")?;
        writeln!(f, "  {program} nearest {x},{y} -k 5{target}")?;
        writeln!(f, "  {program} get {object}{target}")?;
        writeln!(f, "  {program} watch --circle {x},{y},{radius_m}{target}")?;
        if let Some(http) = http {
            let range = format!("/v1/fleets/default/range?circle={x},{y},{radius_m}");
            writeln!(f, "  curl 'http://{http}{range}'")?;
        }
        write!(f, "  {program} stats --watch{target}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_address_needs_no_target() {
        let advice = |target: &str| Advice {
            program: "shoal".to_owned(),
            http: Some("127.0.0.1:7118".parse().unwrap()),
            target: target.to_owned(),
            centre: (-97.7403, 30.2729),
            radius_m: 1_000.0,
            object: 264,
        };
        let text = advice("").to_string();
        assert!(text.contains("shoal range --circle -97.7403,30.2729,1000\n"), "{text}");
        assert!(text.contains("shoal get 264\n"));
        let range = "http://127.0.0.1:7118/v1/fleets/default/range?circle=-97.7403,30.2729,1000";
        assert!(text.contains(&format!("curl '{range}'\n")), "{text}");
        let text = advice(" --target http://127.0.0.1:1").to_string();
        assert_eq!(text.matches("--target http://127.0.0.1:1").count(), 5);
    }
}
