//! The tether of a node. Unlike the tether of other processes, it also removes what the node has left on the machine:
//! cgroups, links, routes and data. It does so after the end of the harness too, even by SIGKILL.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::bail;

use super::init::NodeSpec;
use crate::tether;

/// First command-line argument of the tether of a node.
pub(crate) const HOLD: &str = "harness-node-tether";

/// Runs a tether with the arguments `LOG SPEC PROGRAM [ARG…]`. SPEC is the file of a [`NodeSpec`]. Returns the exit
/// code of the program.
pub(crate) fn hold(args: impl Iterator<Item = OsString>) -> i32 {
    match try_hold(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tether of a node: {error:#}");
            1
        }
    }
}

fn try_hold(mut args: impl Iterator<Item = OsString>) -> anyhow::Result<i32> {
    let (Some(log), Some(spec)) = (args.next(), args.next()) else {
        bail!("arguments are missing")
    };
    let spec = NodeSpec::read(&PathBuf::from(spec))?;
    // The slot stays locked until this process ends, so no new node meets the remains of this one.
    let lock = spec.slot.lock()?;
    lock.sweep(spec.keeps_data())?;
    lock.record(&spec.data())?;
    let code = tether::supervise(log, args);
    lock.sweep(spec.keeps_data())?;
    code
}
