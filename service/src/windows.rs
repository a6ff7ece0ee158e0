//! The HTTP/2 windows of connections. They bound the bytes of requests that a connection receives
//! before the server reads them.
//!
//! A connection has large windows if the account of large windows has room for its address, and
//! small ones otherwise. It keeps them until it closes, because the HTTP/2 library sets the windows
//! of a server once.
//!
//! Windows count the data of frames. The library holds some hundred bytes more for a frame, so
//! small frames that nobody reads take more memory than their data; see [`COUNTED_FRAME_BYTES`].

use std::net::IpAddr;

use crate::address_places::network;
use crate::limits::{FRAME_BYTES_MAX, ServerLimits};
use crate::shares::{FairPlaces, PlacesPermit, Requester};

/// The sizes of the windows of a connection, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Bytes that the peer may send on a stream before the server reads them.
    pub(crate) stream_bytes: u32,
    /// The same for all streams of a connection. Ten streams whose messages wait for a queue fill
    /// it and stop every other stream; so clients keep reports and queries on few streams each.
    pub(crate) connection_bytes: u32,
    /// The largest frame that the peer may send. A part of a frame is held in addition to the
    /// windows.
    pub(crate) frame_bytes: u32,
}

impl Windows {
    /// Large ones: a fast client on a distant network fills them.
    pub(crate) const LARGE: Self =
        Self { stream_bytes: 1 << 20, connection_bytes: 10 << 20, frame_bytes: FRAME_BYTES_MAX };
    /// Small ones, in the proportions of the large ones: about those with which HTTP/2 begins, for
    /// a stream and a frame (RFC 9113, section 6.5.2).
    pub(crate) const SMALL: Self =
        Self { stream_bytes: 64 << 10, connection_bytes: 640 << 10, frame_bytes: 16 << 10 };

    /// The bytes that a connection with these windows may hold.
    const fn bytes(self) -> usize {
        (self.connection_bytes + self.frame_bytes) as usize
    }
}

/// The HTTP/2 library counts the bytes that an unread frame is shorter than this as overhead, and
/// closes a connection (ENHANCE_YOUR_CALM) whose overhead exceeds half its window. Longer frames
/// make up for it, also on other streams. A stream of messages of one row each must fill its own
/// window before that: then it waits and stays open.
const COUNTED_FRAME_BYTES: u32 = 256;
/// A message of one row without attributes for the default fleet, in its gRPC frame.
const ROW_MESSAGE_BYTES_MIN: u32 = 45;

const fn stops_single_rows(windows: Windows) -> bool {
    let Windows { stream_bytes, connection_bytes, .. } = windows;
    stream_bytes / ROW_MESSAGE_BYTES_MIN * (COUNTED_FRAME_BYTES - ROW_MESSAGE_BYTES_MIN)
        < connection_bytes / 2
}

const _: () = assert!(
    stops_single_rows(Windows::LARGE) && stops_single_rows(Windows::SMALL),
    "flow control stops a stream of single rows before its connection is closed"
);

/// The account of large windows.
#[derive(Debug)]
pub(crate) struct LargeWindows(FairPlaces);

impl LargeWindows {
    /// Room for as many connections with large windows as hold at most `window_bytes_max`.
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        Self(FairPlaces::exact(limits.window_bytes_max / Windows::LARGE.bytes()))
    }

    /// Large windows for a connection of `peer`, if the account has room for its address.
    pub(crate) fn take(&self, peer: IpAddr) -> Option<PlacesPermit> {
        let address = Requester::new(None, Some((network(peer), 0).into()));
        self.0.try_reserve(address, 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leaves_large_windows_to_others_and_none_exceeds_the_account() {
        let window_bytes_max = 10 * Windows::LARGE.bytes() + 1;
        let windows = LargeWindows::new(&ServerLimits { window_bytes_max, ..Default::default() });
        let taken = |peer: &str| -> Vec<_> {
            let peer = peer.parse().unwrap();
            std::iter::from_fn(|| windows.take(peer)).collect()
        };
        let first = taken("192.0.2.1");
        assert_eq!(first.len(), 5);
        assert_eq!(taken("::ffff:192.0.2.1").len(), 0);
        let others: Vec<_> = (2..99).flat_map(|host| taken(&format!("192.0.2.{host}"))).collect();
        assert!((3..=5).contains(&others.len()), "{}", others.len());
        drop(first);
        assert_eq!(taken("2001:db8::1").len(), 3);
        let none = LargeWindows::new(&ServerLimits { window_bytes_max: 0, ..Default::default() });
        assert!(none.take("192.0.2.1".parse().unwrap()).is_none());
    }
}
