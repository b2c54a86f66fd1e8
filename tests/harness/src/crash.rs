//! API servers that crash under a federation that is shared, and come back.

use anyhow::Context;
use rustix::process::Signal;

use crate::plane::Plane;
use crate::process::Process;

/// The API server of a plane that is not owned here. The plane itself does not know of those that come back: they end with
/// this. Who waits for [`Federation::death`] takes the first crash for one.
///
/// [`Federation::death`]: crate::Federation::death
pub struct Crashing<'p> {
    plane: &'p Plane,
    successor: Option<Process>,
}

impl<'p> Crashing<'p> {
    /// It runs.
    pub fn new(plane: &'p Plane) -> Self {
        Self {
            plane,
            successor: None,
        }
    }

    /// Ends the API server at once, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub async fn crash(&mut self) -> anyhow::Result<()> {
        if let Some(successor) = self.successor.take() {
            successor.kill().await;
            return Ok(());
        }
        self.plane.signal_apiserver(Signal::KILL)?;
        let life = self.plane.life().context("it does not run")?;
        life.ended().await;
        Ok(())
    }

    /// Starts the API server again after a crash, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it ends.
    pub async fn come_back(&mut self) -> anyhow::Result<()> {
        self.successor = Some(self.plane.start_apiserver().await?);
        Ok(())
    }
}
