//! Crashes, restarts and suspends API servers of a shared federation.

use anyhow::Context;
use rustix::process::Signal;

use crate::plane::Plane;
use crate::process::ChildProcess;

/// Crashes and restarts the API server of a borrowed plane. The plane does not know the restarted process. The
/// restarted process ends when this value is dropped. [`Federation::death`] reports the first crash as a failure.
///
/// [`Federation::death`]: crate::Federation::death
pub struct Crashing<'p> {
    plane: &'p Plane,
    successor: Option<ChildProcess>,
}

impl<'p> Crashing<'p> {
    /// Wraps a plane. Its API server must run.
    pub fn new(plane: &'p Plane) -> Self {
        Self {
            plane,
            successor: None,
        }
    }

    /// Kills the API server and waits until it has exited.
    ///
    /// # Errors
    ///
    /// When the API server does not run.
    pub async fn crash(&mut self) -> anyhow::Result<()> {
        if let Some(successor) = self.successor.take() {
            successor.kill().await;
            return Ok(());
        }
        self.plane.signal_apiserver(Signal::KILL)?;
        let life = self.plane.life().context("the API server does not run")?;
        life.ended().await;
        Ok(())
    }

    /// Restarts the API server after a crash and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When the new process exits.
    pub async fn come_back(&mut self) -> anyhow::Result<()> {
        self.successor = Some(self.plane.start_apiserver().await?);
        Ok(())
    }
}

/// A suspended API server. The API server resumes when this value is dropped.
pub struct PausedPlane<'p>(&'p Plane);

impl<'p> PausedPlane<'p> {
    /// Suspends the API server of a plane with SIGSTOP.
    ///
    /// # Errors
    ///
    /// When the API server does not run.
    pub fn new(plane: &'p Plane) -> anyhow::Result<Self> {
        plane.pause_apiserver()?;
        Ok(Self(plane))
    }
}

impl Drop for PausedPlane<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.resume_apiserver() {
            eprintln!(
                "the API server of {} stays paused: {error:#}",
                self.0.name()
            );
        }
    }
}
