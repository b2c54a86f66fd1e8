//! Flags of `compute-federation rules`.

use std::path::PathBuf;

use super::interpret::{ColorChoice, OutputForm};

/// The arguments of `rules`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CellRulesArgs {
    /// Kubeconfig of the hub. Nothing is written.
    #[arg(long, value_name = "FILE", aliases = ["downstream-kubeconfig", "karmada-kubeconfig"])]
    pub(crate) federation_kubeconfig: PathBuf,

    /// Context in the kubeconfig of the hub. If unset, its current context is used.
    #[arg(long, value_name = "NAME", alias = "downstream-context")]
    pub(crate) federation_context: Option<String>,

    /// File with CellRules. Each counts instead of the CellRule of the hub with the same name. Can be given several times.
    /// `-` means the standard input.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,

    /// Name of a CellRule of the hub that does not count. Can be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) without: Vec<String>,

    /// Accepted for scripts: the command never writes anything.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Form of the report.
    #[arg(long, short = 'o', value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,

    /// When to colour the report: in a terminal, always or never.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
}
