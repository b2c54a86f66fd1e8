//! The sizes of the built-in instance types. See docs/concepts/interpreter.md.

/// Resource name of processors, as in Kubernetes.
pub const CPU: &str = "cpu";
/// Resource name of memory, as in Kubernetes.
pub const MEMORY: &str = "memory";

/// The resources of an instance type, and the quantity of each.
pub type InstanceTypeSize = [(&'static str, &'static str); 2];

/// The size of each instance type.
const INSTANCE_TYPES: [(&str, InstanceTypeSize); 1] =
    [("datumcloud/d1-standard-2", [(CPU, "1"), (MEMORY, "2Gi")])];

/// Returns the size of an instance type, if it is built in.
pub fn size(instance_type: &str) -> Option<&'static InstanceTypeSize> {
    let mut types = INSTANCE_TYPES.iter();
    let (_, size) = types.find(|(name, _)| *name == instance_type)?;
    Some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Quantity;

    #[test]
    fn every_size_is_a_quantity() {
        for (name, size) in INSTANCE_TYPES {
            assert_eq!(super::size(name), Some(&size));
            for (_, quantity) in size {
                assert!(Quantity::from(quantity).amount().is_ok(), "{quantity}");
            }
        }
        assert_eq!(size("x"), None);
    }
}
