//! Modules of one crate use each other in one direction only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The folders with the sources of our crates. Tests, benchmarks and the developer's commands are exempt.
const CRATES: [&str; 7] = [
    "api/src",
    "certs/src",
    "controllers/src",
    "interpreters/src",
    "multicluster/src",
    "src",
    "webhooks/src",
];

/// The path of a module, as a list of names. The list of the root of the crate is empty.
type Module = Vec<String>;

#[test]
fn modules_of_a_crate_form_no_circle() {
    let mut circles = Vec::new();
    for folder in CRATES {
        let uses = uses_between_modules(&harness::checkout::root().join(folder));
        for circle in circles_in(&uses) {
            let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            circles.push(format!("{folder}: {}", names.join(" -> ")));
        }
    }
    assert!(circles.is_empty(), "{circles:#?}");
}

/// Returns the modules that each module of a crate uses. `folder` contains the sources of the crate. Test modules are
/// left out.
fn uses_between_modules(folder: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = BTreeMap::new();
    collect(folder, &mut Vec::new(), &mut files);
    assert!(!files.is_empty(), "{}", folder.display());
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    files
        .iter()
        .map(|(module, file)| {
            let text = fs::read_to_string(file).unwrap();
            let mut uses = Uses {
                module,
                modules: &modules,
                imported: BTreeMap::new(),
                used: BTreeSet::new(),
            };
            let file = syn::parse_file(&text).unwrap();
            // The first pass has recorded the imports of the file. The second pass can resolve all paths.
            uses.visit_file(&file);
            uses.visit_file(&file);
            uses.used.remove(module);
            (module.clone(), uses.used)
        })
        .collect()
}

fn collect(folder: &Path, above: &mut Module, files: &mut BTreeMap<Module, PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" || name.ends_with("_tests") || name == "fixtures" {
            continue;
        }
        if path.is_dir() {
            above.push(name);
            collect(&path, above, files);
            above.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = above.is_empty() && ["lib", "main"].contains(&name.as_str());
            let own = (!is_root).then_some(name);
            files.insert(above.iter().cloned().chain(own).collect(), path);
        }
    }
}

/// Collects the modules that one module uses.
struct Uses<'a> {
    module: &'a Module,
    modules: &'a BTreeSet<Module>,
    /// The modules that the file imports. The key is the local name of the import.
    imported: BTreeMap<String, Module>,
    used: BTreeSet<Module>,
}

impl Uses<'_> {
    fn note_tree(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.note_tree(&part.tree, path);
                path.pop();
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.import(path, &name, &name);
            }
            UseTree::Rename(rename) => {
                self.import(path, &rename.ident.to_string(), &rename.rename.to_string());
            }
            UseTree::Glob(_) => self.note(path),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.note_tree(tree, path);
                }
            }
        }
    }

    fn import(&mut self, path: &mut Vec<String>, last: &str, name: &str) {
        path.push(last.to_owned());
        if let Some((module, [])) = self.resolve(path) {
            self.imported.insert(name.to_owned(), module);
        }
        self.note(path);
        path.pop();
    }

    /// Records the module of a path.
    fn note(&mut self, path: &[String]) {
        if let Some((module, _)) = self.resolve(path) {
            self.used.insert(module);
        }
    }

    /// Returns the module of a path, and the rest of the path. The module is the longest prefix of the path that is a
    /// module. Returns `None` if the path does not begin with a module of this crate.
    fn resolve<'p>(&self, path: &'p [String]) -> Option<(Module, &'p [String])> {
        let (first, mut rest) = path.split_first()?;
        let mut module: Module = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => {
                let mut above = self.module.clone();
                above.pop();
                while let [first, after @ ..] = rest
                    && first == "super"
                {
                    above.pop();
                    rest = after;
                }
                above
            }
            name => {
                let below: Module = self
                    .module
                    .iter()
                    .cloned()
                    .chain([name.to_owned()])
                    .collect();
                match self.imported.get(name) {
                    Some(imported) => imported.clone(),
                    None if self.modules.contains(&below) => below,
                    None => return None,
                }
            }
        };
        while let [name, after @ ..] = rest {
            module.push(name.clone());
            if !self.modules.contains(&module) {
                module.pop();
                break;
            }
            rest = after;
        }
        Some((module, rest))
    }
}

impl Visit<'_> for Uses<'_> {
    fn visit_item(&mut self, item: &Item) {
        let attributes = match item {
            Item::Mod(it) => &it.attrs,
            Item::Fn(it) => &it.attrs,
            Item::Impl(it) => &it.attrs,
            Item::Use(it) => &it.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.note_tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let names: Vec<_> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if names.len() > 1 {
            self.note(&names);
        }
        visit::visit_path(self, path);
    }

    /// The arguments of a macro are tokens, not syntax. A path in these tokens counts if it begins with `crate` or
    /// `super`.
    fn visit_macro(&mut self, invocation: &syn::Macro) {
        let tokens = invocation.tokens.to_string().replace(" :: ", "::");
        let words = tokens.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        for word in words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
        {
            let path: Vec<_> = word.split("::").map(str::to_owned).collect();
            self.note(&path);
        }
        visit::visit_macro(self, invocation);
    }

    /// `pub(in crate::a)` restricts the visibility of an item. It is not a use.
    fn visit_visibility(&mut self, _: &syn::Visibility) {}
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|path| path.is_ident("test"))
}

/// Returns the groups of modules that use each other, directly or through other modules.
fn circles_in(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = uses
        .keys()
        .map(|module| {
            let mut reached = BTreeSet::new();
            let mut next: Vec<_> = uses[module].iter().collect();
            while let Some(module) = next.pop() {
                if reached.insert(module) {
                    next.extend(&uses[module]);
                }
            }
            (module, reached)
        })
        .collect();
    let mut circles = BTreeSet::new();
    for (module, of_module) in &reached {
        if of_module.contains(module) {
            let circle = of_module
                .iter()
                .filter(|other| reached[**other].contains(module));
            circles.insert(circle.map(|other| (*other).clone()).collect::<Vec<_>>());
        }
    }
    circles.into_iter().collect()
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let uses = |names: &[&str]| names.iter().map(|name| module(name)).collect();
    let graph = BTreeMap::from([
        (module("a"), uses(&["b"])),
        (module("b"), uses(&["c"])),
        (module("c"), uses(&["b"])),
        (module("d"), uses(&["a"])),
    ]);
    assert_eq!(circles_in(&graph), [vec![module("b"), module("c")]]);
}
