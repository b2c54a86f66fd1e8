//! Flags of `compute-federation interpret`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use interpreters::Operation;

/// The arguments of `interpret`. Flags of `karmadactl interpret` are accepted where they mean the same.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InterpretArgs {
    /// The operation, such as InterpretHealth. Upper and lower case mean the same.
    #[arg(value_name = "OPERATION")]
    operation: Option<String>,

    /// An object of the hub, such as workloaddeployment/ns-1/web. It needs --federation-kubeconfig.
    #[arg(value_name = "KIND/NAMESPACE/NAME")]
    object: Option<String>,

    /// The operation, as karmadactl takes it.
    #[arg(long = "operation", value_name = "OPERATION")]
    operation_flag: Option<String>,

    /// File with the object, in YAML or JSON: the desired object, or for InterpretStatus and InterpretHealth the object
    /// in the cell. `-` means the standard input.
    #[arg(long, short = 'f', value_name = "FILE", aliases = ["desired", "desired-file"])]
    filename: Vec<PathBuf>,

    /// File with the object in the cell. Retain needs it beside the desired object. InterpretStatus and InterpretHealth
    /// need only this object.
    #[arg(long, value_name = "FILE", alias = "observed-file")]
    observed: Vec<PathBuf>,

    /// File with the statuses of the cells for AggregateStatus: a list of AggregatedStatusItem, or one document for each.
    /// For an object of the hub, they are read from its ResourceBinding.
    #[arg(long, value_name = "FILE", alias = "status-file")]
    status: Vec<PathBuf>,

    /// Number of replicas for ReviseReplica.
    #[arg(long, value_name = "NUMBER", alias = "desired-replica", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    replicas: Option<i32>,

    /// File with ResourceInterpreterCustomizations. Their Lua scripts answer instead of the native interpreter, for any
    /// kind. Can be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) customization: Vec<PathBuf>,

    /// Kubeconfig of the hub, to read an object from it. Nothing is written.
    #[arg(long, value_name = "FILE", aliases = ["downstream-kubeconfig", "karmada-kubeconfig"])]
    pub(crate) federation_kubeconfig: Option<PathBuf>,

    /// Context in the kubeconfig of the hub. If unset, its current context is used.
    #[arg(long, value_name = "NAME", alias = "downstream-context")]
    pub(crate) federation_context: Option<String>,

    /// Form of the answer.
    #[arg(long, short = 'o', value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,

    /// When to colour the differences: in a terminal, always or never.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// For people: a value as YAML, a patch as the differences that it makes.
    Text,
    /// One JSON object with the answer, the patch and the object that results.
    Json,
    /// The same as YAML.
    Yaml,
}

/// When to write colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Where the object comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectSource<'a> {
    /// Files with the desired object and with the object in the cell. At least one is there.
    Files {
        desired: Option<&'a Path>,
        observed: Option<&'a Path>,
    },
    /// An object of the hub.
    Hub {
        kubeconfig: &'a Path,
        object: HubObject<'a>,
        observed: Option<&'a Path>,
    },
}

/// An object as it is named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HubObject<'a> {
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// The operation and its inputs, after all flags were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterpretTask<'a> {
    pub(crate) operation: Operation,
    pub(crate) source: ObjectSource<'a>,
    /// File with the statuses of the cells.
    pub(crate) status: Option<&'a Path>,
    pub(crate) replicas: Option<i32>,
}

impl InterpretArgs {
    /// Checks the flags together.
    ///
    /// # Errors
    ///
    /// If the operation is unknown, if it lacks something, or if a flag has no effect with it.
    pub(crate) fn task(&self) -> anyhow::Result<InterpretTask<'_>> {
        let (name, object) = self.words()?;
        let operation = parse_operation(name)?;
        let source = self.source(object)?;
        let status = only("--status", &self.status)?;
        let has_no_effect = [
            (
                "--replicas",
                self.replicas.is_some() && operation != Operation::ReviseReplica,
            ),
            (
                "--status",
                status.is_some() && operation != Operation::AggregateStatus,
            ),
            (
                "--observed beside the desired object",
                source.has_both() && operation != Operation::Retain,
            ),
            (
                "--federation-context without an object of the hub",
                self.federation_context.is_some() && matches!(source, ObjectSource::Files { .. }),
            ),
        ];
        if let Some((flag, _)) = has_no_effect.into_iter().find(|(_, unused)| *unused) {
            bail!("{flag} has no effect with {}", operation.as_str());
        }
        match operation {
            Operation::ReviseReplica if self.replicas.is_none() => {
                bail!("ReviseReplica needs --replicas, the number of replicas of one cell")
            }
            Operation::Retain if !source.has_both() => {
                bail!(
                    "Retain needs the desired object with --filename and that of the cell with --observed"
                )
            }
            Operation::AggregateStatus
                if status.is_none() && matches!(source, ObjectSource::Files { .. }) =>
            {
                bail!("AggregateStatus needs --status, the statuses of the cells")
            }
            Operation::InterpretHealth | Operation::InterpretStatus
                if matches!(source, ObjectSource::Hub { .. }) =>
            {
                bail!(
                    "Karmada asks {} about the object in a cell: save it with kubectl and give its file with --observed",
                    operation.as_str()
                )
            }
            _ => {}
        }
        self.check_standard_input()?;
        Ok(InterpretTask {
            operation,
            source,
            status,
            replicas: self.replicas,
        })
    }

    /// Checks that only one file is the standard input.
    fn check_standard_input(&self) -> anyhow::Result<()> {
        let files = [
            &self.filename,
            &self.observed,
            &self.status,
            &self.customization,
        ];
        let stdin = files
            .into_iter()
            .flatten()
            .filter(|file| file.as_os_str() == "-");
        match stdin.count() {
            0 | 1 => Ok(()),
            _ => bail!("only one file can be the standard input"),
        }
    }

    /// Returns the words for the operation and for the object of the hub.
    fn words(&self) -> anyhow::Result<(&str, Option<&str>)> {
        let (first, second) = (self.operation.as_deref(), self.object.as_deref());
        match (&self.operation_flag, first, second) {
            (None, Some(operation), object) => Ok((operation, object)),
            (Some(_), Some(word), _) if !word.contains('/') => {
                bail!("the operation is given twice: {word:?} and --operation")
            }
            (Some(operation), object, None) => Ok((operation, object)),
            (Some(_), Some(_), Some(_)) => bail!("more than one object is given"),
            (None, None, _) | (Some(_), None, Some(_)) => {
                bail!("no operation: one of {} is needed", operations())
            }
        }
    }

    fn source<'a>(&'a self, object: Option<&'a str>) -> anyhow::Result<ObjectSource<'a>> {
        let desired = only("--filename", &self.filename)?;
        let observed = only("--observed", &self.observed)?;
        let Some(object) = object else {
            if self.federation_kubeconfig.is_some() {
                bail!(
                    "--federation-kubeconfig needs an object, such as workloaddeployment/ns-1/web"
                );
            }
            if desired.is_none() && observed.is_none() {
                bail!("no object: give a file with --filename, or an object of the hub");
            }
            return Ok(ObjectSource::Files { desired, observed });
        };
        let parts: Vec<_> = object.split('/').filter(|it| !it.is_empty()).collect();
        let &[kind, namespace, name] = parts.as_slice() else {
            bail!(
                "{object:?} is not an object of the hub: write kind/namespace/name, such as workloaddeployment/ns-1/web, or give a file with --filename"
            );
        };
        if desired.is_some() {
            bail!("--filename and an object of the hub exclude each other");
        }
        let kubeconfig = self.federation_kubeconfig.as_deref();
        Ok(ObjectSource::Hub {
            kubeconfig: kubeconfig.with_context(|| {
                format!("{object} needs --federation-kubeconfig, the kubeconfig of the hub")
            })?,
            object: HubObject {
                kind,
                namespace,
                name,
            },
            observed,
        })
    }
}

impl ObjectSource<'_> {
    /// Returns whether both the desired object and that of the cell are given.
    fn has_both(&self) -> bool {
        match self {
            Self::Files { desired, observed } => desired.is_some() && observed.is_some(),
            Self::Hub { observed, .. } => observed.is_some(),
        }
    }
}

/// Returns the file of a flag that can be given once. karmadactl means other files with some flags, so the last one must
/// not win.
fn only<'a>(flag: &str, files: &'a [PathBuf]) -> anyhow::Result<Option<&'a Path>> {
    match files {
        [] => Ok(None),
        [file] => Ok(Some(file)),
        _ => bail!(
            "{flag} is given {} times: give one file; a customization is given with --customization",
            files.len()
        ),
    }
}

fn parse_operation(name: &str) -> anyhow::Result<Operation> {
    let mut all = Operation::ALL.into_iter();
    all.find(|operation| operation.as_str().eq_ignore_ascii_case(name))
        .with_context(|| format!("unknown operation {name:?}: one of {}", operations()))
}

fn operations() -> String {
    Operation::ALL.map(Operation::as_str).join(", ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Command, CommandLine};
    use super::*;

    fn args(words: &str) -> InterpretArgs {
        let line = format!("compute-federation interpret {words}");
        let parsed = CommandLine::try_parse_from(line.split_whitespace()).unwrap();
        match parsed.command {
            Some(Command::Interpret(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn operation(words: &str) -> Operation {
        args(words).task().unwrap().operation
    }

    #[test]
    fn an_operation_is_the_first_word_or_a_flag() {
        for words in [
            "InterpretHealth -f a.yaml",
            "interprethealth --filename a.yaml",
            "--operation InterpretHealth --desired-file a.yaml",
            "InterpretHealth --observed a.yaml",
        ] {
            assert_eq!(operation(words), Operation::InterpretHealth, "{words}");
        }
        let of_hub =
            args("--operation InterpretReplica instance/ns-1/web-0 --federation-kubeconfig k");
        let task = of_hub.task().unwrap();
        let ObjectSource::Hub { object, .. } = task.source else {
            panic!("{task:?}");
        };
        let expected = ("instance", "ns-1", "web-0");
        assert_eq!((object.kind, object.namespace, object.name), expected);
    }

    #[test]
    fn flags_of_karmadactl_mean_the_same() {
        let ours = "--observed b --replicas 2 --status c";
        let karmadactl = "--observed-file b --desired-replica 2 --status-file c";
        let [ours, karmadactl] = [ours, karmadactl].map(args);
        assert_eq!(ours.observed, karmadactl.observed);
        assert_eq!(ours.replicas, karmadactl.replicas);
        assert_eq!(ours.status, karmadactl.status);
        assert_eq!(ours.status.len(), 1);
        assert_eq!(ours.replicas, Some(2));
    }

    /// `-f` of karmadactl is another file.
    #[test]
    fn a_file_is_given_once() {
        for words in ["-f a --desired-file b", "--observed a --observed b"] {
            let args = args(&format!("Retain {words}"));
            let error = args.task().unwrap_err().to_string();
            assert!(error.contains("is given 2 times"), "{error}");
        }
    }

    #[test]
    fn what_an_operation_lacks_or_cannot_use_is_an_error() {
        for (words, problem) in [
            ("", "no operation"),
            ("InterpretHealth", "no object"),
            ("Health -f a", "unknown operation"),
            ("InterpretHealth --operation Retain -f a", "given twice"),
            ("ReviseReplica -f a", "needs --replicas"),
            ("Retain -f a", "needs the desired object"),
            ("Retain --observed a", "needs the desired object"),
            ("AggregateStatus -f a", "needs --status"),
            (
                "InterpretHealth -f a --replicas 1",
                "--replicas has no effect",
            ),
            ("InterpretHealth -f a --status b", "--status has no effect"),
            ("InterpretHealth -f a --observed b", "--observed beside"),
            ("InterpretHealth web -f a", "write kind/namespace/name"),
            (
                "InterpretReplica instance//a --federation-kubeconfig k",
                "write kind/namespace/name",
            ),
            (
                "InterpretReplica workloaddeployment/a/b",
                "needs --federation-kubeconfig",
            ),
            (
                "InterpretHealth workloaddeployment/a/b --federation-kubeconfig k",
                "about the object in a cell",
            ),
            ("Retain -f - --observed -", "only one file"),
            (
                "InterpretHealth -f a --federation-context c",
                "--federation-context",
            ),
            (
                "InterpretHealth -f a --federation-kubeconfig k",
                "needs an object",
            ),
            (
                "InterpretHealth instance/a/b -f a --federation-kubeconfig k",
                "exclude each other",
            ),
        ] {
            let args = args(words);
            let error = args.task().unwrap_err().to_string();
            assert!(error.contains(problem), "{words}: {error}");
        }
    }
}
