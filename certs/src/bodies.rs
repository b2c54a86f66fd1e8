//! Bodies that report the progress of a request.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Buf, Bytes, Frame, Incoming, SizeHint};

use crate::activity::{ActiveRequest, Receiving};
use crate::peers::EarlyAnswer;

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    /// Dropped when the body has arrived.
    receiving: Option<Receiving>,
    has_arrived: Arc<AtomicBool>,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, receiving: Receiving) -> Self {
        let is_empty = body.is_end_stream();
        Self {
            body,
            receiving: Some(receiving).filter(|_| !is_empty),
            has_arrived: Arc::new(AtomicBool::new(is_empty)),
        }
    }

    /// Returns a value that becomes true when the body has arrived.
    pub(crate) fn has_arrived(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_arrived)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.receiving = None;
            self.has_arrived.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(receiving) = &self.receiving {
            receiving.unread(self.body.size_hint().lower());
        }
    }
}

/// The body of an answer. Its last data holds the request until the transport has sent the data.
pub(crate) struct AnswerBody<B> {
    /// `None` if the answer has no body.
    body: Option<B>,
    request: Option<ActiveRequest>,
    _early: Option<EarlyAnswer>,
}

impl<B> AnswerBody<B> {
    /// Returns the body of an answer. `early` counts the answer if the body of the request has not arrived.
    pub(crate) fn new(body: B, request: ActiveRequest, early: Option<EarlyAnswer>) -> Self {
        Self {
            body: Some(body),
            request: Some(request),
            _early: early,
        }
    }

    /// Returns the empty body of an answer. The transport ends the request together with the header of the answer.
    pub(crate) fn empty(request: ActiveRequest) -> Self {
        Self {
            body: None,
            request: Some(request),
            _early: None,
        }
    }
}

impl<B: Body + Unpin> Body for AnswerBody<B> {
    type Data = AnswerData<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, B::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        let is_last = body.is_end_stream();
        Poll::Ready(frame.map(|frame| {
            Ok(frame?.map_data(|data| AnswerData {
                data,
                _request: match is_last {
                    true => self.request.take(),
                    false => None,
                },
            }))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// Data of an answer.
pub(crate) struct AnswerData<D> {
    data: D,
    _request: Option<ActiveRequest>,
}

impl<D: Buf> Buf for AnswerData<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.data.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        self.data.copy_to_bytes(count)
    }
}
