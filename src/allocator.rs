//! The memory allocator of the process.

use std::hint::black_box;
use std::time::Duration;

use mimalloc::MiMalloc;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Interval at which freed memory is returned to the operating system.
const GIVE_BACK: Duration = Duration::from_secs(10);
/// Size of an allocation that gets its own pages, in bytes.
const WITH_OWN_PAGES: usize = 1024 * 1024;

/// Returns freed memory to the operating system, until the task is cancelled. The allocator returns a page one second
/// after the page was freed, but only when another page is freed. In an idle process no other page may ever be freed,
/// so this task allocates and frees some pages.
pub(crate) async fn give_back() {
    loop {
        sleep(GIVE_BACK).await;
        // Nothing is written to the pages, so they use only address space. If the reservation fails, the next round
        // tries again.
        let mut pages = Vec::<u8>::new();
        let _ = black_box(&mut pages).try_reserve_exact(WITH_OWN_PAGES);
        drop(black_box(pages));
    }
}
