//! Random operations in random order keep the invariants of the scheduler.

use std::collections::{HashMap, HashSet};

use super::turns::{GONE, Numbered, SETTLED, scheduler};
use super::*;
use crate::queue::tenant::RESYNC;

/// Pseudo-random numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        // The constants of PCG.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(end)).unwrap()
    }
}

async fn random_operations(seed: u64) {
    let mut numbers = Numbers(seed);
    let mut scheduler = scheduler();
    let mut running: Vec<Arc<Numbered>> = Vec::new();
    let results = [
        SETTLED,
        GONE,
        Ok(Outcome::Again(Duration::from_secs(1))),
        Err("unreachable".to_owned()),
        Err("unreachable 7".to_owned()),
        Err("suspended".to_owned()),
        Err("suspended 7".to_owned()),
        Err("no".to_owned()),
        Err("no 7".to_owned()),
    ];
    for _ in 0..5_000 {
        match numbers.below(100) {
            0..30 => {
                let project = numbers.below(20);
                let object = numbers.below(10);
                scheduler.add(Numbered { project, object }, Instant::now());
            }
            30..60 if running.len() < 64 => running.extend(scheduler.take().map(|(key, _)| key)),
            60..90 if !running.is_empty() => {
                let next = numbers.below(u32::try_from(running.len()).unwrap());
                let key = running.swap_remove(next as usize);
                let result = &results[numbers.below(9) as usize];
                let writes =
                    [Writes::None, Writes::Failed, Writes::Done][numbers.below(3) as usize];
                scheduler.finished(&key, writes, result);
            }
            90 => scheduler.forget(&numbers.below(20)),
            91 => scheduler.release(&numbers.below(20)),
            _ => {
                let time = Duration::from_millis(u64::from(numbers.below(100_000)));
                tokio::time::advance(time).await;
                scheduler.expire(Instant::now());
            }
        }
        assert_eq!(scheduler.counts(), scheduler.recount());
        let once: HashSet<_> = running.iter().collect();
        assert_eq!(once.len(), running.len(), "a key runs twice");
        let mut of_project = HashMap::<u32, usize>::new();
        for key in &running {
            *of_project.entry(key.project).or_default() += 1;
        }
        assert!(of_project.values().all(|running| *running <= 4));
    }
    // Every key can still be taken.
    for key in running {
        scheduler.finished(&key, Writes::None, &GONE);
    }
    tokio::time::advance(RESYNC).await;
    scheduler.expire(Instant::now());
    while let Some((key, _)) = scheduler.take() {
        scheduler.finished(&key, Writes::None, &GONE);
    }
    assert_eq!(
        (scheduler.counts(), scheduler.sizes()),
        (QueueCounts::default(), [0; 3])
    );
}

#[tokio::test(start_paused = true)]
async fn random_operations_keep_the_invariants() {
    for seed in 0..20 {
        random_operations(seed).await;
    }
}
