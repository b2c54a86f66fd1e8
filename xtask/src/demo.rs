//! `cargo xtask demo`
#[derive(clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    let binary = crate::build::binary()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let config = harness::Config {
            label: "demo".into(),
            target: crate::build::target(),
            binary,
            peers: harness::peers::Peers::find_or_build(|p| eprintln!("{p}"))?,
            cells: vec![
                harness::CellConfig::new("dfw1", "DFW"),
                harness::CellConfig::new("ord1", "ORD"),
            ],
            managers: true,
        };
        let f = harness::Federation::start(&config).await?;
        println!("{:?} {}", f.ready_after(), f.directory().display());
        tokio::signal::ctrl_c().await?;
        f.stop().await;
        Ok(())
    })
}
