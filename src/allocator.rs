//! The allocator of the process.

use std::hint::black_box;
use std::time::Duration;

use mimalloc::MiMalloc;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How often memory that has become free is given back.
const GIVE_BACK: Duration = Duration::from_secs(10);
/// Bytes of an allocation that has pages of its own.
const WITH_OWN_PAGES: usize = 1024 * 1024;

/// Gives memory that has become free back to the operating system, for ever. The allocator does so a second after it has
/// become free, but only when pages become free once more: in a process that has become idle that may never be.
pub(crate) async fn give_back() {
    loop {
        sleep(GIVE_BACK).await;
        // It is not written to, so that it costs address space alone; where there is none left, it is for another time.
        let mut pages = Vec::<u8>::new();
        let _ = black_box(&mut pages).try_reserve_exact(WITH_OWN_PAGES);
        drop(black_box(pages));
    }
}
