//! The memory allocator of the process.

use std::env;
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use mimalloc::MiMalloc;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The environment variable with the time in milliseconds after which the allocator returns a freed page to the
/// operating system.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";
/// The default of the allocator is 1000. With large requests one after the other, the pages that were freed within this
/// time can be several times as many as the pages in use.
const SHORT_PURGE_DELAY: &str = "10";

/// Interval at which freed memory is returned to the operating system.
const GIVE_BACK: Duration = Duration::from_secs(10);
/// Size of an allocation that gets its own pages, in bytes.
const WITH_OWN_PAGES: usize = 1024 * 1024;

/// Starts the program again in the same process with a short purge delay, unless the environment has one. The allocator
/// reads its options only when a program starts. If this fails, the program continues, and needs more memory.
pub(crate) fn shorten_purge_delay() {
    if env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let mut args = env::args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    // This call returns only if it fails.
    let _failed = again.args(args).env(PURGE_DELAY, SHORT_PURGE_DELAY).exec();
}

/// Returns freed memory to the operating system, until the task is cancelled. The allocator returns a page some time
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
