//! Writes hostile request bodies into files, for benchmarks and for tests of a running server:
//! `cargo run -p fuzz --bin hostile -- <directory> <bytes>`.

use std::path::Path;
use std::{env, fs, io};

use fuzz::hostile::{HostileBody, admissions, interpretations};

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let (Some(directory), Some(bytes), None) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err(io::Error::other("usage: hostile <directory> <bytes>"));
    };
    let bytes = bytes
        .parse()
        .map_err(|error| io::Error::other(format!("<bytes> is {bytes:?}: {error}")))?;
    write(
        &Path::new(&directory).join("interpret"),
        interpretations(bytes),
    )?;
    write(&Path::new(&directory).join("admit"), admissions(bytes))
}

fn write(directory: &Path, bodies: Vec<HostileBody>) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for HostileBody { name, body } in bodies {
        fs::write(directory.join(format!("{name}.json")), body)?;
    }
    Ok(())
}
