//! The allocator of the process.

use std::hint::black_box;
use std::time::Duration;

use mimalloc::MiMalloc;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How often freed memory is returned to the operating system.
const GIVE_BACK: Duration = Duration::from_secs(10);
/// Size in bytes of an allocation that gets pages of its own.
const WITH_OWN_PAGES: usize = 1024 * 1024;

/// Returns freed memory to the operating system, until the task is cancelled. The allocator returns a page one second after
/// it was freed, but only when another page is freed; in an idle process that may never happen.
pub(crate) async fn give_back() {
    loop {
        sleep(GIVE_BACK).await;
        // Nothing writes to the pages, so they cost only address space. If the reservation fails, the next round tries again.
        let mut pages = Vec::<u8>::new();
        let _ = black_box(&mut pages).try_reserve_exact(WITH_OWN_PAGES);
        drop(black_box(pages));
    }
}
