//! Runs work that may block, such as the command that a kubeconfig names (`exec`). Nothing can end such work, so it is
//! bounded: one at a time for each project, and some for all projects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::ProjectName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Longest wait for the client of a kubeconfig: 10 s. A command that asks a server for a token needs a second or two.
const KUBECONFIG_WAIT: Duration = Duration::from_secs(10);
/// Most kubeconfigs whose clients are made at the same time. Each needs a thread.
const KUBECONFIG_CONNECTS: usize = 16;

/// The work of all projects.
pub(super) struct BlockingWork {
    all: Arc<Semaphore>,
    own: Mutex<BTreeMap<ProjectName, Arc<Semaphore>>>,
}

impl Default for BlockingWork {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(KUBECONFIG_CONNECTS)),
            own: Mutex::default(),
        }
    }
}

impl BlockingWork {
    /// Runs the work for a project, after its former work has ended.
    ///
    /// # Errors
    ///
    /// The problem of the work, or that it takes too long.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        name: &ProjectName,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let limit = KUBECONFIG_WAIT.as_secs();
        let own = permit(self.own(name)).await;
        let own = own.ok_or("the command of a former users[].user.exec is still running")?;
        let all = permit(Arc::clone(&self.all)).await;
        let all = all.ok_or_else(|| {
            format!("the users[].user.exec of {KUBECONFIG_CONNECTS} kubeconfigs are still running")
        })?;
        let work = spawn_blocking(move || {
            // The work holds the permits, also when nobody waits for it any more.
            let _permits = (own, all);
            work()
        });
        match timeout(KUBECONFIG_WAIT, work).await {
            Ok(Ok(result)) => result,
            // The message of a panic may contain anything.
            Ok(Err(_)) => Err("no client can be made from it".to_owned()),
            Err(_) => Err(format!(
                "no client was made within {limit} s: does the command of users[].user.exec hang?"
            )),
        }
    }

    fn own(&self, name: &ProjectName) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are in use have other owners.
        own.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let semaphore = own.entry(name.clone());
        Arc::clone(semaphore.or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}

async fn permit(semaphore: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    let permit = timeout(KUBECONFIG_WAIT, semaphore.acquire_owned()).await;
    permit.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::thread;

    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::time::advance;

    use super::*;

    fn name(name: &str) -> ProjectName {
        ProjectName::new(name).unwrap()
    }

    /// Awaits something while the clock runs. A paused clock waits for threads.
    async fn with_clock<T>(work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        for _ in 0..1_000 {
            if let Some(done) = work.as_mut().now_or_never() {
                return done;
            }
            advance(Duration::from_secs(1)).await;
            thread::yield_now();
        }
        panic!("it does not end");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_reported_and_not_begun_again() {
        let work = BlockingWork::default();
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let hang = || {
            let ended = Arc::clone(&ended);
            move || {
                let _ = ended.lock().unwrap_or_else(PoisonError::into_inner).recv();
                Ok(())
            }
        };
        let problem = with_clock(work.run(&name("a"), hang())).await.unwrap_err();
        assert!(problem.contains("within 10 s"), "{problem}");
        let again = || -> Result<(), String> { panic!("begun while the former hangs") };
        let problem = with_clock(work.run(&name("a"), again)).await.unwrap_err();
        assert!(problem.contains("still running"), "{problem}");
        // Others are not disturbed, as long as there are not too many that hang.
        assert_eq!(work.run(&name("b"), || Ok(1)).await, Ok(1));
        let others: Vec<_> = (1..KUBECONFIG_CONNECTS)
            .map(|it| name(&format!("c-{it}")))
            .collect();
        let others = others.iter().map(|it| work.run(it, hang()));
        let problems = with_clock(join_all(others)).await;
        assert!(problems.iter().all(Result::is_err));
        let problem = with_clock(work.run(&name("b"), || Ok(1)))
            .await
            .unwrap_err();
        assert!(problem.contains("of 16 kubeconfigs"), "{problem}");
        drop(end);
        for of in ["a", "b"] {
            assert_eq!(work.run(&name(of), || Ok(2)).await, Ok(2));
        }
        // The permits of the projects do not stay.
        let kept = work.own(&name("d"));
        assert!(
            work.own.lock().unwrap().len() <= 1 + KUBECONFIG_CONNECTS,
            "{kept:?}"
        );
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_without_its_message() {
        let work = BlockingWork::default();
        let panics = || -> Result<(), String> { panic!("s3cret") };
        let problem = work.run(&name("a"), panics).await.unwrap_err();
        assert_eq!(problem, "no client can be made from it");
        assert_eq!(work.run(&name("a"), || Ok(())).await, Ok(()));
    }
}
