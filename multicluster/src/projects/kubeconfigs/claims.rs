//! Decides which project may use which API server. Two projects must never use one API server: the controllers would write
//! the same objects for both (docs/operate/project-kubeconfigs.md).

use std::collections::BTreeMap;

use api::ProjectName;

/// The identity of an API server: the UID of its Namespace `default`, or its URL.
pub(super) type Server = String;

/// The API servers of the projects.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The API servers of the latest kubeconfigs.
    wanted: BTreeMap<ProjectName, Server>,
    /// The API servers that are in use.
    used: BTreeMap<ProjectName, Server>,
}

impl Claims {
    /// Records which API server the latest kubeconfig of a project leads to; `None` if it is unknown.
    pub(super) fn want(&mut self, name: &ProjectName, server: Option<Server>) {
        match server {
            Some(server) => self.wanted.insert(name.clone(), server),
            None => self.wanted.remove(name),
        };
    }

    /// Records that a project uses this API server from now on.
    pub(super) fn grant(&mut self, name: &ProjectName, server: Server) {
        self.used.insert(name.clone(), server);
    }

    /// Records that a project uses no API server any more.
    pub(super) fn release(&mut self, name: &ProjectName) {
        self.used.remove(name);
    }

    /// Returns the API server that a project uses.
    pub(super) fn used(&self, name: &ProjectName) -> Option<&Server> {
        self.used.get(name)
    }

    /// Forgets a project.
    pub(super) fn remove(&mut self, name: &ProjectName) {
        self.wanted.remove(name);
        self.used.remove(name);
    }

    /// Returns whether a project uses this API server.
    pub(super) fn uses(&self, name: &ProjectName, server: &Server) -> bool {
        self.used.get(name) == Some(server)
    }

    /// Returns another project that uses this API server, or whose latest kubeconfig leads to it. A project that uses the
    /// API server already keeps it. If none uses it, none gets it: what is on the hub
    /// for a name is not known here.
    pub(super) fn rival(&self, name: &ProjectName, server: &Server) -> Option<&ProjectName> {
        let is_rival = |(other, its): &(&ProjectName, &Server)| *other != name && *its == server;
        let uses = self.used.iter().find(is_rival);
        let wants = || self.wanted.iter().find(is_rival);
        match uses {
            Some((other, _)) => Some(other),
            None if self.uses(name, server) => None,
            None => wants().map(|(other, _)| other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ProjectName {
        ProjectName::new(name).unwrap()
    }

    /// Returns the rival of a project that wants its API server.
    fn rival(claims: &Claims, of: &str, server: &str) -> Option<String> {
        let rival = claims.rival(&name(of), &server.to_owned());
        rival.map(ToString::to_string)
    }

    #[test]
    fn one_api_server_has_one_project() {
        let mut claims = Claims::default();
        for (project, server) in [("a", "1"), ("b", "1"), ("c", "2")] {
            claims.want(&name(project), Some(server.to_owned()));
        }
        // None uses the API server, so none gets it.
        assert_eq!(rival(&claims, "a", "1").as_deref(), Some("b"));
        assert_eq!(rival(&claims, "b", "1").as_deref(), Some("a"));
        assert_eq!(rival(&claims, "c", "2"), None);

        // The only one that is left gets it, and keeps it.
        claims.remove(&name("b"));
        assert_eq!(rival(&claims, "a", "1"), None);
        claims.grant(&name("a"), "1".to_owned());
        claims.want(&name("b"), Some("1".to_owned()));
        assert_eq!(rival(&claims, "a", "1"), None);
        assert_eq!(rival(&claims, "b", "1").as_deref(), Some("a"));

        // While its latest kubeconfig leads elsewhere, a project uses the former API server.
        claims.grant(&name("c"), "2".to_owned());
        claims.want(&name("a"), Some("2".to_owned()));
        assert_eq!(rival(&claims, "a", "2").as_deref(), Some("c"));
        assert_eq!(rival(&claims, "b", "1").as_deref(), Some("a"));
        claims.want(&name("a"), None);
        assert_eq!(rival(&claims, "b", "1").as_deref(), Some("a"));
        claims.grant(&name("a"), "3".to_owned());
        assert_eq!(rival(&claims, "b", "1"), None);
    }
}
