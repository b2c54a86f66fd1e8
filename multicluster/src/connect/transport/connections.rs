//! Connections that are shared by requests. The number of connections follows the number of running requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::connect::connector::{ApiServerConnector, PING};
use crate::connect::credentials::Credentials;

/// Maximum number of requests on one connection. API servers and proxies allow at least 100
/// (`--http2-max-streams-per-connection`). A request above that limit would wait for a free stream. If watches held all
/// streams, it would wait forever.
const PER_CONNECTION: usize = 80;
/// Flow-control window of one request, in bytes. A request whose answer is read slowly must not block the other
/// requests on its connection.
const WINDOW: u32 = 256 * 1024;
/// Time for which hyper's pool offers a connection after the last request on it began (`pool_idle_timeout`). The time
/// is longer than a watch, so the next watch finds the connection.
const POOL_TIMEOUT: Duration = Duration::from_mins(10);
/// Shortest time for which a connection without requests is kept. The longest time is twice as long. An interrupted
/// watch is resumed in less time, so it finds its connection.
pub(super) const IDLE: Duration = Duration::from_mins(1);

pub(super) type Http = legacy::Client<ApiServerConnector, Body>;

/// The connections of one kind of request.
pub(super) struct Connections {
    credentials: Arc<Credentials>,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    connections: Vec<SharedConnection>,
    /// Number of connections that have been opened so far.
    opened: u64,
    /// Generation of the credentials of all these connections.
    generation: u64,
}

/// One connection if the API server speaks HTTP/2. Otherwise a pool with one connection for each running request.
struct SharedConnection {
    number: u64,
    http: Http,
    active: usize,
    /// Number of requests that have been sent on the connection so far.
    taken: u64,
    /// Whether a task waits to close the connection.
    is_idle: bool,
}

/// The stream of one request on a connection. Dropping it ends the stream.
pub(super) struct StreamPermit {
    connections: Weak<Connections>,
    connection: u64,
}

impl Connections {
    pub(super) fn new(credentials: Arc<Credentials>) -> Self {
        Self {
            credentials,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first connection that can take another request. Opens a connection if there is none. A connection
    /// with former credentials gets no more requests, and ends with its last request.
    pub(super) fn stream_permit(self: &Arc<Self>) -> (Http, StreamPermit) {
        let (connector, generation) = self.credentials.current();
        let mut open = self.open();
        if open.generation != generation {
            open.generation = generation;
            open.connections.clear();
        }
        loop {
            let mut connections = open.connections.iter_mut();
            if let Some(connection) = connections.find(|it| it.active < PER_CONNECTION) {
                connection.active += 1;
                connection.taken += 1;
                let permit = StreamPermit {
                    connections: Arc::downgrade(self),
                    connection: connection.number,
                };
                return (connection.http.clone(), permit);
            }
            open.opened += 1;
            let connection = SharedConnection::new(open.opened, connector.clone());
            open.connections.push(connection);
        }
    }

    /// Ends a request. If its connection has no other requests, the connection is closed unless it is used again soon.
    fn release(self: &Arc<Self>, number: u64) {
        let mut open = self.open();
        let Some(connection) = open.of(number) else {
            return;
        };
        connection.active -= 1;
        let (Ok(runtime), true) = (Handle::try_current(), connection.may_idle()) else {
            return;
        };
        connection.is_idle = true;
        let (connections, mut taken) = (Arc::downgrade(self), connection.taken);
        // This task needs no owner. It does not keep the connections alive, and each connection has at most one such
        // task.
        runtime.spawn(async move {
            loop {
                sleep(IDLE).await;
                let Some(connections) = connections.upgrade() else {
                    return;
                };
                match connections.close_if_unused(number, taken) {
                    Some(since) => taken = since,
                    None => return,
                }
            }
        });
    }

    /// Closes a connection without running requests, if no request was sent on it since its count was `taken`. If
    /// requests were sent and have ended, returns the new count, and the caller must check again later.
    fn close_if_unused(&self, number: u64, taken: u64) -> Option<u64> {
        let mut open = self.open();
        let connection = open.of(number)?;
        if connection.active > 0 {
            connection.is_idle = false;
            return None;
        }
        if connection.taken != taken {
            return Some(connection.taken);
        }
        open.connections.retain(|it| it.number != number);
        None
    }
}

impl OpenConnections {
    fn of(&mut self, number: u64) -> Option<&mut SharedConnection> {
        self.connections.iter_mut().find(|it| it.number == number)
    }
}

impl SharedConnection {
    fn new(number: u64, connector: ApiServerConnector) -> Self {
        let window = u32::try_from(PER_CONNECTION).map_or(WINDOW, |permits| WINDOW * permits);
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_TIMEOUT)
            .http2_initial_stream_window_size(WINDOW)
            .http2_initial_connection_window_size(window)
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PING)
            .build(connector);
        Self {
            number,
            http,
            active: 0,
            taken: 0,
            is_idle: false,
        }
    }

    /// Returns whether the connection has no running requests, and no task waits to close it.
    fn may_idle(&self) -> bool {
        self.active == 0 && !self.is_idle
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        if let Some(connections) = self.connections.upgrade() {
            connections.release(self.connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::Config;

    use super::*;

    fn connections() -> Arc<Connections> {
        let config = Config::new("https://localhost".parse().unwrap());
        let credentials = Credentials::new(config.into()).unwrap();
        Arc::new(Connections::new(Arc::new(credentials)))
    }

    /// Returns the number of requests of each connection.
    fn loads(connections: &Connections) -> Vec<usize> {
        let open = connections.open();
        open.connections.iter().map(|it| it.active).collect()
    }

    #[tokio::test]
    async fn a_connection_takes_a_bounded_number_of_requests() {
        let connections = connections();
        let mut permits: Vec<_> = (0..PER_CONNECTION)
            .map(|_| connections.stream_permit())
            .collect();
        assert_eq!(loads(&connections), [PER_CONNECTION]);
        permits.push(connections.stream_permit());
        assert_eq!(loads(&connections), [PER_CONNECTION, 1]);
        // The free stream of the first connection is used first.
        drop(permits.remove(0));
        permits.extend([connections.stream_permit(), connections.stream_permit()]);
        assert_eq!(loads(&connections), [PER_CONNECTION, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_is_closed_unless_it_is_used_soon() {
        let connections = connections();
        let mut permits: Vec<_> = (0..=PER_CONNECTION)
            .map(|_| connections.stream_permit())
            .collect();
        // One request of the first connection continues.
        permits.truncate(1);
        assert_eq!(loads(&connections), [1, 0]);
        sleep(IDLE + Duration::from_secs(1)).await;
        assert_eq!(loads(&connections), [1]);
        drop(permits);
        // The connection is used again before it is closed.
        for _ in 0..5 {
            sleep(IDLE * 2 / 3).await;
            assert_eq!(loads(&connections), [0]);
            drop(connections.stream_permit());
        }
        // The connection has a request when its idle time ends.
        let permit = connections.stream_permit();
        sleep(2 * IDLE).await;
        assert_eq!(loads(&connections), [1]);
        drop(permit);
        sleep(2 * IDLE).await;
        assert_eq!(loads(&connections), [0; 0]);
    }
}
