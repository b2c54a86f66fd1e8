//! Reserves ports, so that several federations can run at the same time.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

/// Number of ports in one block.
const BLOCK: u16 = 64;
/// Bounds of the ports. `FIRST` is above the well-known ports. `LAST` is below the kernel's ephemeral ports.
const FIRST: u16 = 10_240;
const LAST: u16 = 32_000;

/// Returns a port that this function returns to no other caller, in this process or in another one.
///
/// # Errors
///
/// When no block of ports is free.
pub fn reserve() -> anyhow::Result<u16> {
    static RESERVED: Mutex<Vec<Ports>> = Mutex::new(Vec::new());
    let mut blocks = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(port) = blocks.last_mut().and_then(|block| block.next().ok()) {
        return Ok(port);
    }
    let mut block = Ports::take()?;
    let port = block.next()?;
    blocks.push(block);
    Ok(port)
}

/// A block of ports. A listener on the first port reserves the block.
#[derive(Debug)]
pub(crate) struct Ports {
    _lock: TcpListener,
    next: u16,
    end: u16,
}

impl Ports {
    /// Reserves a free block.
    pub(crate) fn take() -> anyhow::Result<Self> {
        // Federations that start at the same time search from different blocks.
        let blocks = (LAST - FIRST) / BLOCK;
        let begin = u16::try_from(std::process::id() % u32::from(blocks))?;
        (0..blocks)
            .map(|offset| FIRST + (begin + offset) % blocks * BLOCK)
            .find_map(|first| {
                let lock = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).ok()?;
                let free = (first + 1..first + BLOCK)
                    .all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
                free.then_some(Self {
                    _lock: lock,
                    next: first + 1,
                    end: first + BLOCK,
                })
            })
            .context("no free block of ports on loopback")
    }

    /// Returns the next port of the block.
    pub(crate) fn next(&mut self) -> anyhow::Result<u16> {
        let port = self.next;
        anyhow::ensure!(
            port < self.end,
            "a federation of this size needs more than {BLOCK} ports"
        );
        self.next += 1;
        Ok(port)
    }
}
