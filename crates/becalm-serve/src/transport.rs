//! Streams of bytes, with and without TLS, and the patience for a client that does not read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection, with or without TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A stream whose writes fail once the other side has taken nothing for a time: an answer does not stay in memory for ever.
pub(crate) struct Patient {
    stream: Box<dyn Stream>,
    idle: Duration,
    /// Whether reads fail too, once nothing has come or gone for that time.
    reads: bool,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Runs while a read waits; a write begins it anew. By itself, as a write that ends would forget the read.
    silent: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(crate) fn new(stream: Box<dyn Stream>, idle: Duration) -> Patient {
        Patient { stream, idle, reads: false, waiting: None, silent: None }
    }

    /// One for a client, which waits for answers no longer either.
    #[cfg(feature = "store")]
    pub(crate) fn of_client(stream: Box<dyn Stream>, idle: Duration) -> Patient {
        Patient { reads: true, ..Patient::new(stream, idle) }
    }

    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        made: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if made.is_ready() {
            self.waiting = None;
            if let Some(silent) = &mut self.silent {
                silent.as_mut().reset(Instant::now() + self.idle);
            }
            return made;
        }
        over(&mut self.waiting, self.idle, context)
    }
}

/// An error once a timer has run out.
fn over<T>(
    timer: &mut Option<Pin<Box<Sleep>>>,
    idle: Duration,
    context: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    let timer = timer.get_or_insert_with(|| Box::pin(sleep(idle)));
    timer.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let made = Pin::new(&mut self.stream).poll_read(context, into);
        if made.is_ready() {
            self.silent = None;
        }
        match made.is_pending() && self.reads {
            true => {
                let idle = self.idle;
                over(&mut self.silent, idle, context)
            }
            false => made,
        }
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let made = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, made)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let made = Pin::new(&mut self.stream).poll_flush(context);
        self.watched(context, made)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let made = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watched(context, made)
    }
}

#[cfg(all(test, feature = "store"))]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// A client that has written its request, and flushed it, gives up on an answer that never comes.
    #[test]
    fn a_client_does_not_wait_for_ever() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (near, _far) = duplex(64);
            let mut stream = Patient::of_client(Box::new(near), Duration::from_millis(20));
            let mut byte = [0];
            let waits = std::future::poll_fn(|context| {
                let mut into = ReadBuf::new(&mut byte);
                let read = Pin::new(&mut stream).poll_read(context, &mut into);
                // As a client of HTTP does in each turn.
                let flushed = Pin::new(&mut stream).poll_flush(context);
                assert!(flushed.is_ready());
                read
            });
            assert_eq!(waits.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            stream.write_all(b"x").await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }
}
