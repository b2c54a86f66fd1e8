//! The requests that list and watch objects.

use serde_json::json;

use super::step::{METADATA, NETWORKS, Step, get, merge, network, post};

/// Returns the requests that list with pages and with selectors.
pub(super) fn lists() -> Vec<Step> {
    let labelled = |name: &str, label: &str| {
        let mut network = network(name);
        network["metadata"]["labels"] = json!({"list": label});
        network
    };
    let list = |name, query: &str| get(name, format!("{NETWORKS}?{query}"));
    let mut metadata = list("metadata alone", "labelSelector=list%3Dx");
    metadata.accept = METADATA;
    let mut one = get("metadata of one object", format!("{NETWORKS}/l1"));
    one.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    vec![
        post("create l1", NETWORKS, labelled("l1", "x")),
        post("create l2", NETWORKS, labelled("l2", "x")),
        post("create l3", NETWORKS, labelled("l3", "y")),
        list("a list", ""),
        list("its first page", "limit=2").saves("page"),
        list("its second page", "limit=2&continue=$page.continue").saves("last"),
        list("a page of a selection", "limit=1&labelSelector=list%3Dy"),
        list("one page that holds all", "limit=10"),
        list("no label", "labelSelector=%21list"),
        list("a label", "labelSelector=list"),
        list("another value", "labelSelector=list%21%3Dx"),
        list("a name", "fieldSelector=metadata.name%3Dl1"),
        list("all names but one", "fieldSelector=metadata.name%21%3Dl1"),
        list("a token of no list", "limit=1&continue=nonsense"),
        metadata,
        one,
    ]
}

/// Returns the requests that list at an earlier version, and the requests that watch from the version of the first
/// write of the scenario.
pub(super) fn watches() -> Vec<Step> {
    let watch = |name, query: &str| {
        get(
            name,
            format!("{NETWORKS}?watch=true&timeoutSeconds=1&resourceVersion={query}"),
        )
    };
    // The version of the first list.
    let at = |name, query: &str| {
        let version = "resourceVersion=$page.resourceVersion&resourceVersionMatch=Exact";
        get(name, format!("{NETWORKS}?{version}{query}"))
    };
    let l1 = format!("{NETWORKS}/l1");
    let bookmarks =
        "watch=true&timeoutSeconds=3&fieldSelector=metadata.name%3Df&allowWatchBookmarks=true";
    vec![
        merge(
            "relabel l1",
            l1.as_str(),
            json!({"metadata": {"labels": {"list": "z"}}}),
        ),
        merge(
            "label it back",
            l1.as_str(),
            json!({"metadata": {"labels": {"list": "x"}}}),
        ),
        get("the version after all writes", NETWORKS).saves("quiet"),
        at("the state at an earlier version", ""),
        at(
            "one object at an earlier version",
            "&fieldSelector=metadata.name%3Dl1",
        ),
        at("the first page at an earlier version", "&limit=2").saves("former"),
        get(
            "the second page at an earlier version",
            format!("{NETWORKS}?limit=2&continue=$former.continue"),
        ),
        get(
            "a version that the API server has not reached",
            format!("{NETWORKS}?resourceVersion=999999999&resourceVersionMatch=Exact"),
        ),
        watch("everything since the beginning", "$before.resourceVersion"),
        watch(
            "a selection",
            "$before.resourceVersion&labelSelector=list%3Dx",
        ),
        watch(
            "one object",
            "$before.resourceVersion&fieldSelector=metadata.name%3Df",
        ),
        watch("nothing new", "$quiet.resourceVersion"),
        get(
            "a watch that allows bookmarks",
            format!("{NETWORKS}?{bookmarks}&resourceVersion=$before.resourceVersion"),
        ),
        watch("a version that is too old", "1"),
    ]
}
