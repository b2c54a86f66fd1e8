//! What an ELF file says about its libraries.

use std::fs;
use std::path::Path;

use object::Endianness;
use object::elf::DT_NEEDED;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};

use crate::Error;

/// The part of an ELF file that names other files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    /// The number of the machine in the header.
    pub(crate) machine: u16,
    /// The path of the loader. Libraries have none.
    pub(crate) interpreter: Option<String>,
    /// The names of the needed libraries, in the order of the file.
    pub(crate) needed: Vec<String>,
}

impl Elf {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let content = fs::read(path).map_err(Error::file(path))?;
        Self::parse(&content).map_err(|error| {
            Error::Invalid(format!("{}: not a valid ELF file: {error}", path.display()))
        })
    }

    fn parse(content: &[u8]) -> object::Result<Self> {
        let file = ElfFile64::<Endianness>::parse(content)?;
        let endian = file.endian();
        let mut interpreter = None;
        for header in file.elf_program_headers() {
            if let Some(path) = header.interpreter(endian, content)? {
                interpreter = Some(String::from_utf8_lossy(path).into_owned());
            }
        }
        let table = file.elf_dynamic_table()?;
        let mut needed = Vec::new();
        for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED) {
            needed.push(String::from_utf8_lossy(table.string(entry)?).into_owned());
        }
        Ok(Self {
            machine: file.elf_header().e_machine(endian),
            interpreter,
            needed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_names_its_loader_and_its_libraries() {
        let elf = Elf::read(&std::env::current_exe().unwrap()).unwrap();
        let loader = elf.interpreter.unwrap();
        assert!(loader.contains("/ld-linux-"), "{loader}");
        assert!(
            elf.needed.contains(&"libc.so.6".to_owned()),
            "{:?}",
            elf.needed
        );
    }

    #[test]
    fn a_text_is_not_an_elf_file() {
        let error = Elf::read(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("Cargo.toml")
                .as_path(),
        );
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("Cargo.toml: not a valid ELF file")
        );
    }
}
