//! The webhook server: its routes, its certificate, and the caBundle that makes callers trust the certificate.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, OnceLock};

use certs::{Acceptor, Authorities, CertificateState, Files, Limits, Reloader, SelfDial, Shares};
use controllers::ca_bundle::{self, Delays, Maintained, Mounted};
use multicluster::{Tasks, clock};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use webhooks::admission::Admission;

use crate::admin::ServedCertificate;
use crate::admission_clients::{self, RefusedClients};
use crate::args::ServerArgs;
use crate::certificate_metrics::CertificateCollector;
use crate::customizations::{self, Served};
use crate::serving::{Servers, WebhookPort};

/// The listeners of the webhook server.
pub(crate) enum Listeners {
    /// One listener for the interpreter and for admission.
    Together(TcpListener),
    /// A listener for each of the two.
    Apart {
        interpreter: TcpListener,
        admission: TcpListener,
    },
}

impl Listeners {
    /// Returns the checks of the ports.
    ///
    /// # Errors
    ///
    /// If the address of a listener is unknown.
    pub(crate) fn self_dials(&self) -> io::Result<Vec<SelfDial>> {
        let listeners = match self {
            Self::Together(listener) => vec![listener],
            Self::Apart {
                interpreter,
                admission,
            } => vec![interpreter, admission],
        };
        let dials = listeners.into_iter();
        dials
            .map(|listener| listener.local_addr().map(SelfDial::new))
            .collect()
    }
}

/// The parts of the webhook server beside the native interpreter.
#[derive(Default)]
pub(crate) struct Protocols {
    /// Admission, if it is served.
    pub(crate) admission: Option<Admission>,
    /// The accepted names of the clients of admission; `None` accepts every client.
    pub(crate) clients: Option<Vec<String>>,
    /// The customizations of other kinds, if they are served.
    pub(crate) customizations: Option<Served>,
}

/// Starts the webhook server. It serves the interpreter. If admission is served too, each of the two has a share of the
/// connections, at one port or at two.
///
/// # Errors
///
/// If the threads of the server cannot be started.
pub(crate) fn serve(
    servers: &Servers,
    registry: &mut Registry,
    args: &ServerArgs,
    listeners: Listeners,
    acceptor: &Acceptor,
    protocols: Protocols,
) -> anyhow::Result<()> {
    let Protocols {
        admission,
        clients,
        customizations,
    } = protocols;
    let scripts = customizations
        .map(|served| customizations::serve(servers, registry, served))
        .transpose()?;
    let metrics = Arc::new(webhooks::Metrics::register(registry));
    let refused = RefusedClients::register(registry);
    let protocols = 1 + usize::from(admission.is_some());
    let ports = match &listeners {
        Listeners::Together(_) => 1,
        Listeners::Apart { .. } => 2,
    };
    let long_work = servers.long_work_runtime()?;
    let routes = webhooks::Routes::new(
        metrics,
        args.requests(ports),
        clock::now,
        admission,
        Some(long_work),
        scripts,
    );
    let verified = |router| match clients {
        Some(names) => admission_clients::require(router, names, refused),
        None => router,
    };
    let one_share = Shares {
        count: 1,
        of: |_| 0,
    };
    let port = |what, listener, router, shares| WebhookPort {
        what,
        listener,
        router,
        limits: Limits {
            shares: Some(shares),
            ..args.connections(ports)
        },
    };
    let ports = match listeners {
        Listeners::Together(listener) => {
            let shares = match protocols {
                1 => one_share,
                count => Shares {
                    count,
                    of: |uri| usize::from(webhooks::admission::is_path(uri.path())),
                },
            };
            let both = verified(routes.together());
            vec![port("webhooks", listener, both, shares)]
        }
        Listeners::Apart {
            interpreter: at,
            admission: admission_at,
        } => {
            let (interpreter, admission) = routes.apart();
            let admission = verified(admission);
            vec![
                port("interpreter", at, interpreter, one_share),
                port("admission", admission_at, admission, one_share),
            ]
        }
    };
    let metrics = certs::Metrics::register(registry.sub_registry_with_prefix("webhooks"));
    servers.serve_webhooks(ports, acceptor, &metrics)
}

/// Reloads the certificate files of the webhook server when they change. With a `publisher`, a new certificate is
/// served only when callers trust its authorities, and only if it has a name at which callers reach the server.
pub(crate) fn follow_certificate(
    servers: &Servers,
    registry: &mut Registry,
    args: &ServerArgs,
    files: Files,
    publisher: Option<CaBundlePublisher<'_>>,
) -> (Acceptor, ServedCertificate) {
    let directory = files.directory.clone();
    let mut reloader = Reloader::new(files, clock::now);
    let state = reloader.state();
    registry.register_collector(Box::new(CertificateCollector(state.clone())));
    let trusted = publisher.map(|publisher| {
        let (sender, trusted) = watch::channel(Authorities::new());
        let (names_sender, names) = watch::channel(BTreeSet::new());
        reloader.wait_for_trust(trusted.clone());
        reloader.expect_names(names);
        publisher.start(state.clone(), sender, names_sender);
        trusted
    });
    let acceptor = servers.reload(reloader, args.certificate_poll);
    let certificate = ServedCertificate {
        directory,
        state,
        trusted,
        was_trusted: OnceLock::new(),
    };
    (acceptor, certificate)
}

/// Publishes the authorities of the certificate in the caBundle of each webhook registration.
pub(crate) struct CaBundlePublisher<'a> {
    pub(crate) tasks: &'a Tasks,
    pub(crate) registrations: Vec<Maintained>,
    /// Whether callers reach the webhook server by these registrations only.
    pub(crate) are_all: bool,
    pub(crate) delays: Delays,
    pub(crate) metrics: multicluster::Metrics,
    pub(crate) may_write: CancellationToken,
}

impl CaBundlePublisher<'_> {
    /// Starts the caBundle controller, and sends every new certificate to it.
    fn start(
        self,
        mut state: watch::Receiver<CertificateState>,
        trusted: watch::Sender<Authorities>,
        names: watch::Sender<BTreeSet<String>>,
    ) {
        let mounted = |state: &CertificateState| Mounted {
            mounted: state.mounted.clone(),
            served: state.served.clone(),
        };
        let (sender, certificates) = watch::channel(mounted(&state.borrow()));
        let stop = self.tasks.stop();
        self.tasks
            .spawn("authorities of the certificate", async move {
                let follow = async {
                    while state.changed().await.is_ok() {
                        sender.send_replace(mounted(&state.borrow_and_update()));
                    }
                    // The reloader ends only when the process ends, so there is nothing to do until then.
                    std::future::pending::<()>().await;
                };
                stop.run_until_cancelled(follow).await;
                Ok::<_, Infallible>(())
            });
        let config = ca_bundle::Config {
            registrations: self.registrations,
            are_all: self.are_all,
            certificates,
            trusted,
            names,
            delays: self.delays,
            metrics: self.metrics,
            may_write: self.may_write,
            clock: clock::now,
        };
        ca_bundle::start(self.tasks, config);
    }
}
