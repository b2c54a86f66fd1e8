//! The webhook server: its certificate, what its callers trust, and its routes.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use certs::{Acceptor, Authorities, CertificateError, CertificateState, Files, Reloader};
use controllers::ca_bundle::{self, Delays, Mounted, Registration};
use kube::Client;
use multicluster::{Tasks, clock};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use webhooks::admission::ProjectLookup;

use crate::admin::ServedCertificate;
use crate::args::ServerArgs;
use crate::certificate_metrics::CertificateCollector;
use crate::serving::Servers;

/// Serves the webhooks: the interpreter, and with `projects` admission.
pub(crate) fn serve(
    servers: &Servers,
    registry: &mut Registry,
    args: &ServerArgs,
    listener: TcpListener,
    acceptor: Acceptor,
    projects: Option<Arc<dyn ProjectLookup>>,
) {
    let metrics = Arc::new(webhooks::Metrics::register(registry));
    let router = webhooks::router(metrics, args.requests(), clock::now, projects);
    let metrics = certs::Metrics::register(registry.sub_registry_with_prefix("webhooks"));
    servers.serve(
        "webhooks",
        listener,
        acceptor,
        router,
        args.connections(),
        metrics,
    );
}

/// Follows the certificate of the webhook server. With `callers`, a new one is served once callers trust its authorities.
///
/// # Errors
///
/// When there are files that cannot be served.
pub(crate) fn follow_certificate(
    servers: &Servers,
    registry: &mut Registry,
    args: &ServerArgs,
    files: Files,
    callers: Option<CaBundlePublisher<'_>>,
) -> Result<(Acceptor, ServedCertificate), CertificateError> {
    let directory = files.directory.clone();
    let mut reloader = Reloader::new(files, clock::now)?;
    let state = reloader.state();
    registry.register_collector(Box::new(CertificateCollector(state.clone())));
    let trusted = callers.map(|callers| {
        let (tell, trusted) = watch::channel(Authorities::new());
        reloader.wait_for_trust(trusted.clone());
        callers.keep_informed(state.clone(), tell);
        trusted
    });
    let acceptor = servers.reload(reloader, args.certificate_poll);
    let certificate = ServedCertificate {
        directory,
        state,
        trusted,
        introduced: OnceLock::new(),
    };
    Ok((acceptor, certificate))
}

/// What it takes to tell callers whom to trust.
pub(crate) struct CaBundlePublisher<'a> {
    pub(crate) tasks: &'a Tasks,
    pub(crate) registrations: Vec<(Registration, Client)>,
    pub(crate) delays: Delays,
    pub(crate) metrics: multicluster::Metrics,
    pub(crate) may_write: CancellationToken,
}

impl CaBundlePublisher<'_> {
    fn keep_informed(
        self,
        mut state: watch::Receiver<CertificateState>,
        trusted: watch::Sender<Authorities>,
    ) {
        let mounted = |state: &CertificateState| Mounted {
            mounted: state.mounted.clone(),
            served: state.served.clone(),
        };
        let (tell, certificates) = watch::channel(mounted(&state.borrow()));
        let stop = self.tasks.stop();
        self.tasks
            .spawn("authorities of the certificate", async move {
                let follow = async {
                    while state.changed().await.is_ok() {
                        tell.send_replace(mounted(&state.borrow_and_update()));
                    }
                    // The end of the reloader is the end of the process.
                    std::future::pending::<()>().await;
                };
                stop.run_until_cancelled(follow).await;
                Ok::<_, Infallible>(())
            });
        let config = ca_bundle::Config {
            registrations: self.registrations,
            certificates,
            trusted,
            delays: self.delays,
            metrics: self.metrics,
            may_write: self.may_write,
            clock: clock::now,
        };
        ca_bundle::start(self.tasks, config);
    }
}
