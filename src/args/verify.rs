//! Flags of `compute-federation verify`.

use std::path::PathBuf;

use controllers::ca_bundle::Registration;

use super::interpret::{ColorChoice, OutputForm};

/// The arguments of `verify`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Kubeconfig of the hub. Nothing is written.
    #[arg(long, value_name = "FILE", aliases = ["downstream-kubeconfig", "karmada-kubeconfig"])]
    pub(crate) federation_kubeconfig: PathBuf,

    /// Context in the kubeconfig of the hub. If unset, its current context is used.
    #[arg(long, value_name = "NAME", alias = "downstream-context")]
    pub(crate) federation_context: Option<String>,

    /// File with ResourceInterpreterCustomizations, which are compared instead of those of the hub. Can be given several
    /// times.
    #[arg(long, value_name = "FILE")]
    pub(crate) customization: Vec<PathBuf>,

    /// Name of the ResourceInterpreterWebhookConfiguration that registers compute-federation.
    #[arg(long, value_name = "NAME", default_value = Registration::INTERPRETER.name())]
    pub(crate) registration: String,

    /// Number of generated objects that are compared too. They are variations of objects of the hub.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub(crate) cases: u64,

    /// First seed of the generated objects. The same seed and the same object give the same variation.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Form of the report.
    #[arg(long, short = 'o', value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,

    /// When to colour the report: in a terminal, always or never.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
}
