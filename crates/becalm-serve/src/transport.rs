//! Streams of bytes, with and without TLS, and the patience for a client that does not read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection, with or without TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A stream whose writes fail once the other side has taken nothing for a time: an answer does not stay in memory for ever.
pub(crate) struct Patient {
    stream: Box<dyn Stream>,
    idle: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(crate) fn new(stream: Box<dyn Stream>, idle: Duration) -> Patient {
        Patient { stream, idle, waiting: None }
    }

    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        made: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if made.is_ready() {
            self.waiting = None;
            return made;
        }
        let idle = self.idle;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(idle)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
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
