//! Workloads with many cities: their writes take long, and the Workload or the API server can change meanwhile.

use super::*;

/// The codes of the cities that the project offers.
const CITIES: [&str; 4] = ["DFW", "LHR", "ORD", "SYD"];

async fn start_with_cities() -> (FakePlanes, WorkloadController) {
    let mut objects = vec![json!(workload(&[("us", &CITIES)]))];
    let cities = CITIES.iter();
    let bindings = cities.map(|city| objects::location_binding(&city.to_lowercase(), city, "True"));
    objects.extend(bindings);
    let planes = FakePlanes::start(objects, Vec::new()).await;
    let controller = controller(&planes);
    (planes, controller)
}

/// I-23: a template that the customer has withdrawn is not rolled out further.
#[tokio::test(start_paused = true)]
async fn a_change_during_the_writes_ends_them() {
    let (planes, controller) = start_with_cities().await;
    converge(&controller, || project_key("web"), &planes.servers()).await;
    let image = |generation: i64, image: &'static str| {
        move |workload: &mut Value| {
            workload["metadata"]["generation"] = json!(generation);
            let containers = "/spec/template/spec/runtime/sandbox/containers";
            workload.pointer_mut(containers).unwrap()[0]["image"] = json!(image);
        }
    };
    planes
        .project
        .modify::<Workload>("default", "web", image(4, "bad"));
    settle().await;
    let slow = Fault::delay(Duration::from_secs(10)).on_writes();
    planes.project.fail(slow.of::<WorkloadDeployment>());
    let withdraw = async {
        sleep(Duration::from_secs(12)).await;
        planes
            .project
            .modify::<Workload>("default", "web", image(5, "good"));
    };
    let (reconciled, ()) = tokio::join!(reconcile(&controller, project_key("web")), withdraw);
    let error = reconciled.unwrap().unwrap_err();
    assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
    assert_eq!(take_writes(&planes.servers()).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_asks_to_wait_gets_no_further_writes() {
    let (planes, controller) = start_with_cities().await;
    let busy = Fault::refuse(429).retry_after(Duration::from_mins(1));
    planes.project.fail(busy.on(&[Verb::Create]));
    let reconciled = reconcile(&controller, project_key("web")).await;
    assert!(reconciled.unwrap().is_err());
    assert_eq!(take_writes(&planes.servers()).len(), 1);
}
