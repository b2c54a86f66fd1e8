//! The registry without Milo.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_own_cluster_can_be_the_one_project() {
    let own = ApiServer::new();
    own.put(location_binding("here", "DFW", "True"));
    let (tasks, metrics) = (Tasks::default(), Metrics::default());
    let name = ProjectName::new("single").unwrap();
    let context = RegistryContext {
        tasks: &tasks,
        metrics: &metrics,
    };
    let projects = ProjectRegistry::single(&context, name, own.client()).begin(None);
    let bench = Bench {
        tasks,
        metrics,
        discovery: ApiServer::new(),
        planes: HashMap::new(),
        projects,
    };
    assert_eq!(bench.projects.pending().len(), 1);
    bench.until(|bench| bench.cities("single") == "DFW").await;
    assert!(bench.projects.pending().is_empty());
    assert_eq!(bench.cities("a"), not_discovered("a"));
    assert_eq!(bench.counts(), (1, 0));
    let other = ProjectName::new("a").unwrap();
    assert_eq!(bench.projects.is_gone(&other, "root").await, Ok(false));
    assert_eq!(bench.projects.root_uid(), None);
}
