//! Refuses connections with a reason: sends it, and gives the peer some time to read it.
//!
//! Closing a socket with unread bytes resets the connection, and the peer may lose the reason. So
//! the bytes that the peer sends are read and discarded until it closes. The number of refusals in
//! progress and the time of each are bounded; a connection beyond that number is closed at once,
//! without a reason.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::limits::{REFUSAL_MS_MAX, REFUSALS_MAX};
use crate::tls::{self, Certificates};

/// The refusals of a listener that are under way; dropping this value closes their connections.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    under_way: JoinSet<()>,
}

impl Refusals {
    /// Begins to send the reason, through TLS if `certificates` is given; then closes the
    /// connection.
    pub(crate) fn refuse(
        &mut self,
        stream: TcpStream,
        certificates: Option<Certificates>,
        reason: Bytes,
    ) {
        while self.under_way.try_join_next().is_some() {}
        if self.under_way.len() >= REFUSALS_MAX {
            return;
        }
        self.under_way.spawn(async move {
            let time = Duration::from_millis(REFUSAL_MS_MAX);
            // Ignore errors and the timeout: the connection is closed in any case.
            let _ = tokio::time::timeout(time, async {
                match certificates {
                    None => explain(stream, &reason).await,
                    Some(of) => explain(tls::accept(&of, stream).await?, &reason).await,
                }
            })
            .await;
        });
    }
}

async fn explain(mut stream: impl AsyncRead + AsyncWrite + Unpin, reason: &[u8]) -> io::Result<()> {
    stream.write_all(reason).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn a_peer_that_sends_first_still_reads_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut client, stream) = pair(&listener).await;
        client.write_all(&[7; 10_000]).await.unwrap();
        let mut refusals = Refusals::default();
        refusals.refuse(stream, None, Bytes::from_static(b"full"));
        let mut reason = Vec::new();
        client.read_to_end(&mut reason).await.unwrap();
        assert_eq!(reason, b"full");
        drop(client);
        refusals.under_way.join_next().await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_bounded_in_number_and_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut clients, mut streams) = (Vec::new(), Vec::new());
        for _ in 0..=REFUSALS_MAX {
            let (client, stream) = pair(&listener).await;
            clients.push(client);
            streams.push(stream);
        }
        let mut refusals = Refusals::default();
        for stream in streams {
            refusals.refuse(stream, None, Bytes::from_static(b"full"));
        }
        assert_eq!(refusals.under_way.len(), REFUSALS_MAX);
        let mut reason = Vec::new();
        clients.pop().unwrap().read_to_end(&mut reason).await.unwrap();
        assert_eq!(reason, b"", "there is no place to explain");
        // The paused clock advances when all tasks wait: no client closes its connection.
        while let Some(refused) = refusals.under_way.join_next().await {
            refused.unwrap();
        }
    }
}
