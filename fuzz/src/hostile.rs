//! Request bodies of any size that make the server work as hard as possible. Each generator repeats one small piece of
//! JSON. Tests, the fuzz target `memory` and benchmarks use the same bodies. The program `hostile` writes the bodies
//! into files.

mod admission;
mod generator;
mod interpretation;

use generator::Generator;

/// The body of one request, and a name for the body.
pub struct HostileBody {
    /// The name of the generator.
    pub name: &'static str,
    /// The request.
    pub body: Vec<u8>,
}

/// Returns requests of Karmada. Each has at most `bytes` bytes, if `bytes` has room for one repetition.
pub fn interpretations(bytes: usize) -> Vec<HostileBody> {
    bodies(interpretation::generators(), bytes)
}

/// Returns requests of an API server. Each has at most `bytes` bytes, if `bytes` has room for one repetition.
pub fn admissions(bytes: usize) -> Vec<HostileBody> {
    bodies(admission::generators(), bytes)
}

fn bodies(generators: Vec<Generator>, bytes: usize) -> Vec<HostileBody> {
    generators
        .into_iter()
        .map(|generator| HostileBody {
            name: generator.name,
            body: generator.body(bytes),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn bodies_are_json_and_have_the_size() {
        for hostile in interpretations(10_000)
            .into_iter()
            .chain(admissions(10_000))
        {
            let size = hostile.body.len();
            assert!((9_000..=10_000).contains(&size), "{}: {size}", hostile.name);
            // Deep nesting is not closed.
            let json = serde_json::from_slice::<&RawValue>(&hostile.body);
            let is_nested = hostile.name.starts_with("nested");
            assert_eq!(json.is_ok(), !is_nested, "{}: {json:?}", hostile.name);
        }
    }
}
