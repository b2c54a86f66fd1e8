//! Connections that requests share, as many as what is under way needs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::connector::PING;

/// Requests on one connection. API servers allow 100 and more (`--http2-max-streams-per-connection`), others do not allow
/// less; beyond it they wait, and behind watches they would wait for ever.
const PER_CONNECTION: usize = 80;
/// What may be on its way to one request, in bytes: one that is slow to read must not be in the way of the others.
const WINDOW: u32 = 256 * 1024;
/// For how long a connection with requests takes new ones: longer than a watch lasts, so that its successor finds it.
const LASTS: Duration = Duration::from_mins(10);
/// For how long a connection without requests is kept, at least; twice that at most. A watch that has broken off comes
/// back sooner.
pub(super) const IDLE: Duration = Duration::from_mins(1);

pub(super) type Http = legacy::Client<HttpsConnector<HttpConnector>, Body>;

/// The connections of one kind of request.
pub(super) struct Connections {
    connector: HttpsConnector<HttpConnector>,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    connections: Vec<SharedConnection>,
    /// How many there have been.
    opened: u64,
}

/// One connection, where the API server speaks HTTP/2; else one for each request that is under way.
struct SharedConnection {
    number: u64,
    http: Http,
    under_way: usize,
    /// How many requests there have been.
    taken: u64,
    /// Whether a task waits to close it.
    is_idle: bool,
}

/// The place of one request on a connection, until it ends.
pub(super) struct StreamPermit {
    connections: Weak<Connections>,
    connection: u64,
}

impl Connections {
    pub(super) fn new(connector: HttpsConnector<HttpConnector>) -> Self {
        Self {
            connector,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first connection that has a place for another request; another one is opened where none has.
    pub(super) fn place(self: &Arc<Self>) -> (Http, StreamPermit) {
        let mut open = self.open();
        loop {
            let mut connections = open.connections.iter_mut();
            if let Some(connection) = connections.find(|it| it.under_way < PER_CONNECTION) {
                connection.under_way += 1;
                connection.taken += 1;
                let place = StreamPermit {
                    connections: Arc::downgrade(self),
                    connection: connection.number,
                };
                return (connection.http.clone(), place);
            }
            open.opened += 1;
            let connection = SharedConnection::new(open.opened, self.connector.clone());
            open.connections.push(connection);
        }
    }

    /// A request has ended. A connection that has no others is closed, unless it is used soon.
    fn leave(self: &Arc<Self>, number: u64) {
        let mut open = self.open();
        let Some(connection) = open.of(number) else {
            return;
        };
        connection.under_way -= 1;
        let (Ok(runtime), true) = (Handle::try_current(), connection.may_idle()) else {
            return;
        };
        connection.is_idle = true;
        let (connections, mut taken) = (Arc::downgrade(self), connection.taken);
        // No one's to end: it holds nothing, and each connection has one at most.
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

    /// Closes a connection that has had no request since so many, unless it has some now. How many it has had if it must be
    /// looked at again.
    fn close_if_unused(&self, number: u64, taken: u64) -> Option<u64> {
        let mut open = self.open();
        let connection = open.of(number)?;
        if connection.under_way > 0 {
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
    fn new(number: u64, connector: HttpsConnector<HttpConnector>) -> Self {
        let window = u32::try_from(PER_CONNECTION).map_or(WINDOW, |places| WINDOW * places);
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(LASTS)
            .http2_initial_stream_window_size(WINDOW)
            .http2_initial_connection_window_size(window)
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PING)
            .build(connector);
        Self {
            number,
            http,
            under_way: 0,
            taken: 0,
            is_idle: false,
        }
    }

    /// Whether it has no requests now, and no task waits for it yet.
    fn may_idle(&self) -> bool {
        self.under_way == 0 && !self.is_idle
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        if let Some(connections) = self.connections.upgrade() {
            connections.leave(self.connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::Config;

    use super::super::connector::connector;
    use super::*;

    fn connections() -> Arc<Connections> {
        let config = Config::new("https://localhost".parse().unwrap());
        Arc::new(Connections::new(connector(&config).unwrap()))
    }

    /// How many requests each connection has.
    fn loads(connections: &Connections) -> Vec<usize> {
        let open = connections.open();
        open.connections.iter().map(|it| it.under_way).collect()
    }

    #[tokio::test]
    async fn a_connection_takes_as_many_requests_as_any_api_server_allows() {
        let connections = connections();
        let mut places: Vec<_> = (0..PER_CONNECTION).map(|_| connections.place()).collect();
        assert_eq!(loads(&connections), [PER_CONNECTION]);
        places.push(connections.place());
        assert_eq!(loads(&connections), [PER_CONNECTION, 1]);
        // A place that has become free is the next to be taken.
        drop(places.remove(0));
        places.extend([connections.place(), connections.place()]);
        assert_eq!(loads(&connections), [PER_CONNECTION, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_is_closed_unless_it_is_used_soon() {
        let connections = connections();
        let mut places: Vec<_> = (0..=PER_CONNECTION).map(|_| connections.place()).collect();
        // One of the first connection stays.
        places.truncate(1);
        assert_eq!(loads(&connections), [1, 0]);
        sleep(IDLE + Duration::from_secs(1)).await;
        assert_eq!(loads(&connections), [1]);
        drop(places);
        // It is used again and again.
        for _ in 0..5 {
            sleep(IDLE * 2 / 3).await;
            assert_eq!(loads(&connections), [0]);
            drop(connections.place());
        }
        // It has a request when it is looked at.
        let place = connections.place();
        sleep(2 * IDLE).await;
        assert_eq!(loads(&connections), [1]);
        drop(place);
        sleep(2 * IDLE).await;
        assert_eq!(loads(&connections), [0; 0]);
    }
}
