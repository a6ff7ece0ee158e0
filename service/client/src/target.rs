//! What the target of a connection tells about its server.

use std::net::{IpAddr, SocketAddr};

/// True if a URL or `ADDR:PORT` names a loopback address.
#[must_use]
pub fn is_on_this_machine(target: &str) -> bool {
    let authority = target.split_once("://").map_or(target, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    // What precedes an `@` names no host.
    if authority.contains('@') {
        return false;
    }
    if let Ok(address) = authority.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_this_machine() {
        for target in
            ["http://127.0.0.1:7117", "127.0.0.1:1", "https://[::1]:7/", "localhost:7", "[::1]:7"]
        {
            assert!(is_on_this_machine(target), "{target}");
        }
        for target in
            ["http://10.0.0.1:7117", "example.org:1", "localhost.example:7", "localhost:7@x", ""]
        {
            assert!(!is_on_this_machine(target), "{target}");
        }
    }
}
