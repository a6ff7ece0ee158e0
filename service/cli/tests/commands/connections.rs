//! Hazard: after a restart many vehicles connect at once, and most of them wait for a second because
//! the system drops what it cannot keep.

#![cfg(target_os = "linux")]

use std::net::TcpStream;

use crate::shoal::Served;
use shoal_testkit::server::PATIENCE;

/// More than the 128 that systems keep by default.
const CONNECTIONS: usize = 600;

#[test]
fn many_connections_wait_while_the_server_accepts_none() {
    let system = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if system.trim().parse::<usize>().unwrap() < CONNECTIONS {
        return println!("this system keeps only {system}");
    }
    let served = Served::start(&[]);
    let address = served.address.parse().unwrap();
    served.send("-STOP");
    let connect = |_| TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    let waiting: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    served.send("-CONT");
    served.run("fleets").expect(0);
    drop(waiting);
}
