//! Generates requests for the scripts of Karmada's customizations, from the cases of Karmada's suite.

use std::collections::{BTreeMap, BTreeSet};

use harness::lua_suite::LuaCase;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xorshift::XorShiftRng;
use serde_json::{Value, json};

use super::mutation::Mutator;
use super::values::REPLICAS;

/// A script, and what its requests are made of.
struct Script {
    customization: String,
    operation: String,
    /// The words of the script. The names of the fields that it reads are among them.
    words: BTreeSet<String>,
    /// The cases of the suite for this script.
    reviews: Vec<Value>,
}

/// What the cases of one customization have.
#[derive(Default)]
struct Stock {
    objects: Vec<Value>,
    items: Vec<Value>,
}

/// Generates requests.
pub(crate) struct Generator {
    scripts: Vec<Script>,
    stocks: BTreeMap<String, Stock>,
}

/// A request.
pub(crate) struct Generated<'g> {
    /// Name of the customization.
    pub(crate) customization: &'g str,
    pub(crate) operation: &'g str,
    pub(crate) review: Value,
}

/// The field below `spec.customizations` of each operation.
const RULES: [(&str, &str); 8] = [
    ("InterpretReplica", "replicaResource"),
    ("InterpretComponent", "componentResource"),
    ("ReviseReplica", "replicaRevision"),
    ("Retain", "retention"),
    ("AggregateStatus", "statusAggregation"),
    ("InterpretStatus", "statusReflection"),
    ("InterpretHealth", "healthInterpretation"),
    ("InterpretDependency", "dependencyInterpretation"),
];

impl Generator {
    pub(crate) fn new(cases: &[LuaCase]) -> Self {
        let mut scripts = BTreeMap::new();
        let mut stocks: BTreeMap<String, Stock> = BTreeMap::new();
        for case in cases {
            let name = case.customization.metadata.name.clone().unwrap();
            let request = &case.review["request"];
            let stock = stocks.entry(name.clone()).or_default();
            let objects = [&request["object"], &request["observedObject"]];
            stock
                .objects
                .extend(objects.into_iter().filter(|it| it.is_object()).cloned());
            let items = request["aggregatedStatus"].as_array();
            stock.items.extend(items.into_iter().flatten().cloned());
            let rules = serde_json::to_value(&case.customization.spec.customizations).unwrap();
            for (operation, rule) in RULES {
                let Some(source) = rules[rule]["luaScript"].as_str() else {
                    continue;
                };
                let key = (name.clone(), operation);
                let script: &mut Script = scripts.entry(key).or_insert_with(|| Script {
                    customization: name.clone(),
                    operation: operation.to_owned(),
                    words: words(source),
                    reviews: Vec::new(),
                });
                if request["operation"] == operation {
                    script.reviews.push(case.review.clone());
                }
            }
        }
        Self {
            scripts: scripts.into_values().collect(),
            stocks,
        }
    }

    /// Returns the number of scripts.
    pub(crate) fn scripts(&self) -> usize {
        self.scripts.len()
    }

    /// Generates a request. Equal random numbers make equal requests.
    pub(crate) fn generate(&self, rng: &mut XorShiftRng) -> Generated<'_> {
        let script = self.scripts.choose(rng).unwrap();
        let stock = &self.stocks[&script.customization];
        let mut review = match script.reviews.choose(rng) {
            Some(review) => review.clone(),
            None => {
                json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
                "request": {"uid": "suite", "operation": script.operation, "replicas": 0}})
            }
        };
        let request = review["request"].as_object_mut().unwrap();
        // The cases of the other operations have other objects.
        if !request.contains_key("object") || rng.random_bool(0.2) {
            let other = stock.objects.choose(rng).unwrap();
            request.insert("object".to_owned(), other.clone());
        }
        let is_retain = script.operation == "Retain";
        if is_retain && (!request.contains_key("observedObject") || rng.random_bool(0.2)) {
            let other = stock.objects.choose(rng).unwrap();
            request.insert("observedObject".to_owned(), other.clone());
        }
        let words: Vec<_> = script.words.iter().map(String::as_str).collect();
        let mut mutator = Mutator::new(rng, &script.words, &words, &stock.objects);
        mutator.mutate_object(&mut request["object"]);
        match script.operation.as_str() {
            "Retain" => mutator.mutate_object(&mut request["observedObject"]),
            "ReviseReplica" => {
                let replicas = REPLICAS.choose(mutator.rng).unwrap();
                request["replicas"] = json!(replicas);
            }
            "AggregateStatus" => {
                let items = request.remove("aggregatedStatus");
                if let Some(items) = mutator.items(items, &stock.items) {
                    request.insert("aggregatedStatus".to_owned(), items);
                }
            }
            _ => {}
        }
        complete(&mut review);
        Generated {
            customization: &script.customization,
            operation: &script.operation,
            review,
        }
    }
}

/// Writes the fields of a request that Karmada's client takes from the object.
fn complete(review: &mut Value) {
    let request = &mut review["request"];
    let object = &request["object"];
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = json!({"group": group, "version": version, "kind": object["kind"]});
    let metadata = &object["metadata"];
    let [name, namespace] =
        ["name", "namespace"].map(|field| json!(metadata[field].as_str().unwrap_or_default()));
    request["kind"] = kind;
    request["name"] = name;
    request["namespace"] = namespace;
}

fn words(source: &str) -> BTreeSet<String> {
    let words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    names.map(str::to_owned).collect()
}
