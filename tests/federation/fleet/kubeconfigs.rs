//! Projects whose kubeconfigs are in a directory.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use api::{Instance, WorkloadDeployment, labels};
use harness::audit::{AuditPosition, Write};
use harness::milo::MiloUser;
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::{Fleet, FleetProject, until_shown};
use crate::fixture::WITHIN;
use crate::milo;

/// The projects. The names must be unique on the hub.
const PROJECTS: [&str; 3] = ["file-one", "file-two", "file-three"];
const GARBAGE: &str = "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, con";

/// Projects whose kubeconfigs come from a directory.
struct Directory<'f> {
    fleet: Fleet<'f>,
    path: PathBuf,
}

impl<'f> Directory<'f> {
    /// Starts the API servers of the projects, and a manager with an empty directory.
    async fn start(federation: &'f Federation) -> anyhow::Result<Self> {
        let milo = milo::start("kubeconfigs", &PROJECTS).await?;
        let path = milo.directory().join("kubeconfigs");
        fs::create_dir(&path)?;
        let mut management = milo.management_of_directory("management", federation.hub(), &path)?;
        management.restart().await?;
        let fleet = Fleet {
            federation,
            milo,
            management,
        };
        Ok(Self { fleet, path })
    }

    /// Returns a new kubeconfig of a project. Each has its own token.
    fn kubeconfig(&self, project: &str) -> anyhow::Result<String> {
        let user = MiloUser::management();
        let file = self.fleet.milo.kubeconfig(&user, Some(project))?;
        Ok(fs::read_to_string(file)?)
    }

    fn write(&self, project: &str, contents: &str) -> anyhow::Result<()> {
        let file = self.path.join(format!("{project}.kubeconfig"));
        fs::write(&file, contents).with_context(|| file.display().to_string())
    }

    fn remove(&self, project: &str) -> anyhow::Result<()> {
        let file = self.path.join(format!("{project}.kubeconfig"));
        fs::remove_file(&file).with_context(|| file.display().to_string())
    }

    /// Waits until this many projects are engaged, and the contents of this many files are not in use.
    async fn until(&self, engaged: usize, refused: usize) -> anyhow::Result<()> {
        let management = &self.fleet.management;
        until_shown(management, &format!("projects_engaged {engaged}")).await?;
        until_shown(
            management,
            &format!("project_kubeconfigs_refused {refused}"),
        )
        .await
    }

    /// Returns how often the log has this message about a project.
    fn logged(&self, message: &str, project: &str) -> anyhow::Result<usize> {
        let log = fs::read_to_string(self.fleet.management.log())?;
        let lines = log.lines();
        Ok(lines
            .filter(|line| line.contains(message) && line.contains(project))
            .count())
    }
}

/// Returns the number of Instances of a project on the hub.
async fn copies(project: &FleetProject<'_>) -> anyhow::Result<usize> {
    let copies = project.on_hub::<Instance>();
    Ok(copies.list(&ListParams::default()).await?.items.len())
}

/// Files are added, changed, removed and given back, and one is garbage for a while. Each change concerns one project
/// alone, and nothing is deleted on the hub.
pub(crate) async fn projects_from_kubeconfigs(federation: &Federation) -> anyhow::Result<()> {
    let directory = Directory::start(federation).await?;
    let [one, two, three] = PROJECTS;
    for name in [one, two] {
        directory.write(name, &directory.kubeconfig(name)?)?;
    }
    directory.until(2, 0).await?;
    let first = directory.fleet.project(one).await?;
    let second = directory.fleet.project(two).await?;
    for project in [&first, &second] {
        project.create().await?;
    }
    for (project, name) in [(&first, one), (&second, two)] {
        project.until_settled(1).await?;
        let namespaces: Api<Namespace> = Api::all(federation.hub().client());
        let namespace = namespaces.get(&project.hub_namespace).await?;
        let named = &namespace.labels()[labels::UPSTREAM_CLUSTER_NAME];
        assert_eq!(*named, format!("cluster-{name}"));
    }

    // A file is added.
    let third = directory.fleet.project(three).await?;
    third.create().await?;
    let kubeconfig = directory.kubeconfig(three)?;
    directory.write(three, &kubeconfig)?;
    third.until_settled(1).await?;

    // It becomes garbage. The project goes on.
    directory.write(three, GARBAGE)?;
    directory.until(3, 1).await?;
    third.scale(2).await?;
    third.until_settled(2).await?;
    directory.write(three, &kubeconfig)?;
    directory.until(3, 0).await?;

    a_removed_file_deletes_nothing(&directory, &second, &third).await?;

    // New credentials.
    directory.write(one, &directory.kubeconfig(one)?)?;
    wait::eventually("the credentials are new", WITHIN, || async {
        let replaced = directory.logged("the connection of the project was replaced", one)?;
        ensure!(replaced == 1, "replaced {replaced} times");
        Ok(())
    })
    .await?;
    first.scale(2).await?;
    first.until_settled(2).await?;

    // A second name for an API server.
    directory.write("file-copy", &directory.kubeconfig(one)?)?;
    directory.until(3, 1).await?;
    let refused = directory.logged(
        "it leads to the API server of project file-one",
        "file-copy",
    )?;
    ensure!(refused == 1, "logged {refused} times");
    directory.remove("file-copy")?;
    directory.until(3, 0).await?;

    for (name, engaged) in [(one, 1), (two, 2), (three, 1)] {
        let times = directory.logged("project engaged", name)?;
        ensure!(times == engaged, "{name} was engaged {times} times");
    }
    for project in [&first, &second, &third] {
        project.delete().await?;
    }
    directory.fleet.stop().await;
    Ok(())
}

/// The file of the second project is removed, and given back after the project has changed. Meanwhile, a change of
/// another project goes to its cell and back, and a manager that deleted or changed something for the removed project
/// would have done so, too.
async fn a_removed_file_deletes_nothing(
    directory: &Directory<'_>,
    project: &FleetProject<'_>,
    other: &FleetProject<'_>,
) -> anyhow::Result<()> {
    let name = PROJECTS[1];
    let deployments = project.on_hub::<WorkloadDeployment>();
    let before = deployments.get("web-us-dfw").await?;
    let plane = project.plane.plane().await;
    let position = AuditPosition::now([directory.fleet.federation.hub(), &*plane])?;
    directory.remove(name)?;
    directory.until(2, 0).await?;
    project.scale(2).await?;
    for instances in [1, 2] {
        other.scale(instances).await?;
        other.until_settled(instances).await?;
    }
    let writes = position.writes()?;
    let of_manager = |it: &&Write| it.is_ours() && !it.user_agent.contains("cell");
    let of_other = format!("{}/", other.hub_namespace);
    let is_seen = writes.iter().filter(of_manager);
    ensure!(
        is_seen.clone().any(|it| it.object.starts_with(&of_other)),
        "the audit log has no write for the other project"
    );
    let (contents, namespace) = (
        format!("{}/", project.hub_namespace),
        project.hub_namespace.as_str(),
    );
    let wrong = is_seen.filter(|it| {
        it.plane == plane.name() || it.object.starts_with(&contents) || it.object == namespace
    });
    let wrong: Vec<_> = wrong.map(ToString::to_string).collect();
    ensure!(wrong.is_empty(), "written without a kubeconfig: {wrong:?}");
    let after = deployments.get("web-us-dfw").await?;
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after.metadata.generation, before.metadata.generation);
    assert_eq!(copies(project).await?, 1);
    drop(plane);
    directory.write(name, &directory.kubeconfig(name)?)?;
    project.until_settled(2).await?;
    let after = deployments.get("web-us-dfw").await?;
    assert_eq!(after.uid(), before.uid(), "the copy was deleted");
    Ok(())
}
