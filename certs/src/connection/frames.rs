//! The frames of an HTTP/2 connection (RFC 9113, 4.1).

use thiserror::Error;

/// Size of the text with which a client begins an HTTP/2 connection, in bytes (RFC 9113, 3.4).
const PREFACE: usize = 24;
/// Size of the header of a frame, in bytes: three of the length, one of the type, one of flags and four of the stream.
const FRAME_HEADER: usize = 9;
/// The types of frames with headers (RFC 9113, 6.2 and 6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// The flag of the last frame of a header block.
const END_HEADERS: u8 = 4;
/// Number of frames after which a connection pauses, so that others are served. A frame without content takes some 100
/// ns, and no other limit counts it.
const FRAMES_AT_ONCE: usize = 1024;

/// A header block has more than one frame. One frame has room for four times the largest allowed header list. The
/// frames of an unfinished block would use memory that no limit counts.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the client sent the header of a request in several frames")]
pub(super) struct ContinuedHeaders;

/// Follows the frames that a client sends.
pub(super) struct Frames {
    /// Number of bytes before the header of the next frame.
    before: usize,
    header: [u8; FRAME_HEADER],
    /// Number of bytes of `header` that have arrived.
    arrived: usize,
    /// Number of frames since the last pause.
    begun: usize,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self {
            before: PREFACE,
            header: [0; FRAME_HEADER],
            arrived: 0,
            begun: 0,
        }
    }

    /// Returns whether the connection has to pause now.
    pub(super) fn pauses(&mut self) -> bool {
        let pauses = self.begun >= FRAMES_AT_ONCE;
        if pauses {
            self.begun = 0;
        }
        pauses
    }

    /// Reads the next bytes of the client.
    ///
    /// # Errors
    ///
    /// [`ContinuedHeaders`] if a header block continues in another frame.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), ContinuedHeaders> {
        while !bytes.is_empty() {
            let skipped = self.before.min(bytes.len());
            self.before -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            for (place, byte) in self.header.iter_mut().skip(self.arrived).zip(bytes) {
                *place = *byte;
                self.arrived += 1;
                bytes = bytes.get(1..).unwrap_or_default();
            }
            if self.arrived == FRAME_HEADER {
                self.begin_frame()?;
            }
        }
        Ok(())
    }

    fn begin_frame(&mut self) -> Result<(), ContinuedHeaders> {
        let [one, two, three, kind, flags, ..] = self.header;
        let is_unfinished = kind == HEADERS && flags & END_HEADERS == 0;
        if is_unfinished || kind == CONTINUATION {
            return Err(ContinuedHeaders);
        }
        let length = u32::from_be_bytes([0, one, two, three]);
        self.before = usize::try_from(length).unwrap_or(usize::MAX);
        self.arrived = 0;
        self.begun += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let header = [&length[1..], &[kind, flags, 0, 0, 0, 1]].concat();
        [header, vec![b'x'; payload]].concat()
    }

    #[test]
    fn a_header_block_has_one_frame() {
        let (preface, settings) = (vec![b'p'; PREFACE], frame(4, 0, 6));
        let (data, finished) = (frame(0, END_HEADERS, 20_000), frame(HEADERS, 5, 40));
        let allowed = [preface, settings, finished, data].concat();
        let unfinished = frame(HEADERS, 1, 40);
        for size in [1, 2, 9, 10, 1000, usize::MAX] {
            let read = |bytes: &[u8]| {
                let mut frames = Frames::new();
                bytes.chunks(size).try_for_each(|chunk| frames.read(chunk))
            };
            assert_eq!(read(&allowed), Ok(()), "{size}");
            for refused in [&unfinished, &frame(CONTINUATION, END_HEADERS, 1)] {
                let bytes = [allowed.as_slice(), refused].concat();
                assert_eq!(read(&bytes), Err(ContinuedHeaders), "{size}");
            }
        }
    }
}
