//! The smallest model of a project, a hub and our two controllers. The model has the objects on the planes, the caches,
//! and every step that an actor can take.

use std::hash::{Hash, Hasher};

use super::super::releases::Release;
use super::cast::{Cast, MetadataChange, prove};

pub(super) const DEPLOYMENTS: usize = 2;

/// One value for each WorkloadDeployment.
pub(super) type Each<T> = [T; DEPLOYMENTS];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Live,
    /// It is being deleted, and its copy may be on the hub.
    Terminating,
    /// The federator has released it.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Deployment {
    pub(super) phase: Phase,
    /// Whether the template uses the source.
    pub(super) uses: bool,
    /// Whether the source is listed. The finalizer is written with the list.
    pub(super) is_listed: bool,
    pub(super) is_rolled_out: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Companion {
    pub(super) named: Each<bool>,
    pub(super) version: u8,
}

/// The objects on the planes, or the objects in the caches. The companion is in no cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Planes {
    pub(super) deployments: Each<Option<Deployment>>,
    /// The version of the source.
    pub(super) source: Option<u8>,
    pub(super) companion: Option<Companion>,
}

/// The next step of the reconciliation of the companion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Nothing,
    Write(Companion),
    /// The lock is held. The API server of the project has confirmed the deletion or not.
    Delete {
        is_confirmed: bool,
    },
}

/// A reconciliation of the companion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sync {
    pub(super) releasing: Each<bool>,
    pub(super) action: Action,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct World {
    pub(super) there: Planes,
    pub(super) seen: Planes,
    pub(super) releases: Each<Option<Release>>,
    /// The WorkloadDeployments whose list is being written, as they were read. The lock is held.
    pub(super) listing: Each<Option<Deployment>>,
    pub(super) sync: Option<Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    UserCreates(usize),
    UserChangesTemplate(usize),
    UserDeletes(usize),
    SourceIsCreated,
    SourceIsChanged,
    SourceIsDeleted,
    CellsRollOut(usize),
    FederatorReleases(usize),
    WatchTellsOfDeployment(usize),
    WatchTellsOfSource,
    DeploymentIsPlanned(usize),
    ListIsWritten(usize),
    CompanionIsPlanned,
    DeletionIsConfirmed,
    CompanionIsWritten,
    ProcessRestarts,
}

impl Step {
    /// Returns all steps.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of_user = [
            Self::UserCreates,
            Self::UserChangesTemplate,
            Self::UserDeletes,
        ];
        let of_user = (0..DEPLOYMENTS).flat_map(move |i| of_user.map(|step| step(i)));
        let others = [
            Self::SourceIsCreated,
            Self::SourceIsChanged,
            Self::SourceIsDeleted,
            Self::ProcessRestarts,
        ];
        of_user.chain(others).chain(Self::of_system())
    }

    /// Returns the steps that happen without a change of a user, the most urgent first.
    pub(super) fn of_system() -> impl Iterator<Item = Self> {
        let each = |step: fn(usize) -> Self| (0..DEPLOYMENTS).map(step);
        each(Self::WatchTellsOfDeployment)
            .chain([Self::WatchTellsOfSource])
            .chain(each(Self::ListIsWritten))
            .chain([Self::CompanionIsWritten, Self::DeletionIsConfirmed])
            .chain(each(Self::DeploymentIsPlanned))
            .chain([Self::CompanionIsPlanned])
            .chain(each(Self::FederatorReleases))
            .chain(each(Self::CellsRollOut))
    }
}

impl World {
    /// Returns the state after a step. If the step is impossible or has no effect, this is the same state.
    pub(super) fn after(mut self, step: Step, cast: &mut Cast) -> Result<Self, String> {
        let Self { there, seen, .. } = &mut self;
        match step {
            Step::UserCreates(i) => {
                there.deployments[i].get_or_insert(Deployment {
                    phase: Phase::Live,
                    uses: true,
                    is_listed: false,
                    is_rolled_out: false,
                });
            }
            Step::UserChangesTemplate(i) => {
                if let Some(it) = there.live(i) {
                    it.uses = !it.uses;
                    it.is_rolled_out = false;
                }
            }
            Step::UserDeletes(i) => {
                if let Some(it) = there.live(i) {
                    it.phase = Phase::Terminating;
                }
            }
            Step::SourceIsCreated => _ = there.source.get_or_insert(0),
            Step::SourceIsChanged => there.source = there.source.map(|version| 1 - version),
            Step::SourceIsDeleted => there.source = None,
            Step::CellsRollOut(i) => {
                if let Some(it) = there.live(i) {
                    it.is_rolled_out = true;
                }
            }
            Step::FederatorReleases(i) => {
                let deployment = &mut there.deployments[i];
                if let Some(it) = deployment.filter(|it| it.phase == Phase::Terminating) {
                    let phase = Phase::Ended;
                    *deployment = it.is_listed.then_some(Deployment { phase, ..it });
                }
            }
            Step::WatchTellsOfDeployment(i) => seen.deployments[i] = there.deployments[i],
            Step::WatchTellsOfSource => seen.source = there.source,
            Step::DeploymentIsPlanned(i) => self.plan_deployment(i, cast)?,
            Step::ListIsWritten(i) => self.write_list(i),
            Step::CompanionIsPlanned => self.plan_companion(cast)?,
            Step::DeletionIsConfirmed => self.confirm(cast),
            Step::CompanionIsWritten => self.write_companion()?,
            Step::ProcessRestarts => {
                let there = self.there;
                self = Self {
                    there,
                    seen: there,
                    ..Self::default()
                };
            }
        }
        self.seen.companion = None;
        Ok(self)
    }

    fn is_being_deleted(&self) -> bool {
        let action = self.sync.map(|it| it.action);
        matches!(action, Some(Action::Delete { .. }))
    }

    fn plan_deployment(&mut self, i: usize, cast: &mut Cast) -> Result<(), String> {
        if self.listing[i].is_some() {
            return Ok(());
        }
        let (deployment, release) = (self.seen.deployments[i], self.releases[i]);
        let is_being_deleted = self.is_being_deleted();
        let plan = cast.plan(deployment, self.seen.source, release, is_being_deleted);
        self.releases[i] = plan.release;
        let Some(deployment) = deployment else {
            return Ok(());
        };
        let may_begin = match deployment.phase {
            Phase::Live => !deployment.uses && deployment.is_rolled_out,
            Phase::Terminating => false,
            Phase::Ended => true,
        };
        if release.is_none() && plan.release.is_some() && !may_begin {
            return Err("a source that is needed is released".to_owned());
        }
        if plan.change == MetadataChange::Lists {
            self.listing[i] = Some(deployment);
        }
        if plan.change != MetadataChange::Unlists || self.there.deployments[i] != Some(deployment) {
            return Ok(());
        }
        if self.there.companion.is_some_and(|it| it.named[i]) {
            return Err("a deployment is released although a companion names it".to_owned());
        }
        let unlisted = Deployment {
            is_listed: false,
            ..deployment
        };
        self.there.deployments[i] = (deployment.phase == Phase::Live).then_some(unlisted);
        if deployment.phase == Phase::Live {
            self.seen.deployments[i] = Some(unlisted);
        }
        Ok(())
    }

    fn write_list(&mut self, i: usize) {
        let Some(read) = self.listing[i].take() else {
            return;
        };
        if self.there.deployments[i] == Some(read) {
            let is_listed = true;
            self.there.deployments[i] = Some(Deployment { is_listed, ..read });
            self.seen.deployments[i] = self.there.deployments[i];
        }
    }

    fn plan_companion(&mut self, cast: &mut Cast) -> Result<(), String> {
        if self.sync.is_some() {
            return Ok(());
        }
        let releasing = self.releases.map(|it| it.is_some());
        let named = cast.users(self.seen.deployments, releasing).named;
        let mut all = self.seen.deployments.iter().zip(named);
        if all.any(|(it, named)| named && it.is_some_and(|it| it.phase == Phase::Ended)) {
            return Err("a companion names a deployment whose copy is gone".to_owned());
        }
        let existing = self.there.companion;
        let action = if named.contains(&true) {
            let copied = existing.map(|it| it.version);
            let current = self.seen.source.filter(|it| Some(*it) != copied);
            let version = current.and(self.there.source).or(copied);
            let wanted = version.map(|version| Companion { named, version });
            match wanted.filter(|it| Some(*it) != existing) {
                Some(wanted) => Action::Write(wanted),
                None => Action::Nothing,
            }
        } else if existing.is_none() {
            Action::Nothing
        } else if self.listing.iter().any(Option::is_some) {
            return Ok(());
        } else {
            let is_confirmed = false;
            Action::Delete { is_confirmed }
        };
        if action != Action::Nothing || self.releases.contains(&Some(Release::Begun)) {
            self.sync = Some(Sync { releasing, action });
        }
        Ok(())
    }

    fn confirm(&mut self, cast: &mut Cast) {
        let Some(sync) = &mut self.sync else {
            return;
        };
        if sync.action
            == (Action::Delete {
                is_confirmed: false,
            })
        {
            let releasing = self.releases.map(|it| it.is_some());
            let users = cast.users(self.there.deployments, releasing);
            match users.named.contains(&true) || users.may_have_more {
                true => self.sync = None,
                false => sync.action = Action::Delete { is_confirmed: true },
            }
        }
    }

    fn write_companion(&mut self) -> Result<(), String> {
        let is_unconfirmed = |it: &mut Sync| {
            it.action
                == Action::Delete {
                    is_confirmed: false,
                }
        };
        let Some(sync) = self.sync.take_if(|it| !is_unconfirmed(it)) else {
            return Ok(());
        };
        match sync.action {
            Action::Nothing => {}
            Action::Write(companion) => self.there.companion = Some(companion),
            Action::Delete { .. } => {
                self.there.companion = None;
                let needs = |(deployment, release): (&Option<Deployment>, &Option<Release>)| {
                    let needs =
                        deployment.is_some_and(|it| it.is_listed && it.phase != Phase::Ended);
                    needs && release.is_none()
                };
                let mut all = self.there.deployments.iter().zip(&self.releases);
                if all.any(needs) {
                    return Err(
                        "a companion is deleted although a deployment lists the source".to_owned(),
                    );
                }
            }
        }
        self.releases = prove(self.releases, sync.releasing);
        Ok(())
    }
}

impl Planes {
    fn live(&mut self, i: usize) -> Option<&mut Deployment> {
        let deployment = self.deployments[i].as_mut();
        deployment.filter(|it| it.phase == Phase::Live)
    }
}

impl Hash for World {
    /// Writes only few bits, because the exploration looks up states very often.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bits = 0_u64;
        let mut put = |width: u32, value: u8| bits = bits << width | u64::from(value);
        let flag = |it: bool, bit: u8| u8::from(it) << bit;
        let of = |it: Option<Deployment>| {
            it.map_or(0, |it| {
                let flags = flag(it.uses, 2) | flag(it.is_listed, 3) | flag(it.is_rolled_out, 4);
                (1 + it.phase as u8) | flags
            })
        };
        let all = [self.there.deployments, self.seen.deployments, self.listing];
        for deployment in all.into_iter().flatten() {
            put(5, of(deployment));
        }
        for source in [self.there.source, self.seen.source] {
            put(2, source.map_or(0, |it| 1 + it));
        }
        let companion =
            |it: Companion| 1 | flag(it.named[0], 1) | flag(it.named[1], 2) | it.version << 3;
        put(4, self.there.companion.map_or(0, companion));
        for release in self.releases {
            put(2, release.map_or(0, |it| 1 + it as u8));
        }
        put(
            8,
            self.sync.map_or(0, |it| {
                let action = match it.action {
                    Action::Nothing => 1,
                    Action::Delete { is_confirmed } => 2 + u8::from(is_confirmed),
                    Action::Write(it) => 16 | companion(it),
                };
                action | flag(it.releasing[0], 5) | flag(it.releasing[1], 6)
            }),
        );
        state.write_u64(bits);
    }
}
